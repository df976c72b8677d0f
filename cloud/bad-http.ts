// What isn't HTTP never reaches a route: it still gets a typed answer, as long as the socket can carry one.
import { randomUUIDv7 } from "node:crypto";
import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { answerInBytes, refusalOfBadHttp } from "#shared/bad-http.ts";
import { Refusal } from "#shared/errors.ts";
import { correlationId } from "./request.ts";

export function answerBadHttp(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  answerOnSocket(socket, refusalOfBadHttp(error));
}

const idOf = ({ headers }: IncomingMessage): string => correlationId(headers["x-correlation-id"]);
const WITHOUT_A_PROXY = { allow: "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT" };

/** What Node would answer by itself, without a body and without us. */
export function answerOddHttp(server: Server): void {
  server.on("connect", (request, socket) =>
    answerOnSocket(socket, new Refusal("METHOD_NOT_ALLOWED", "this is no proxy", undefined, WITHOUT_A_PROXY), idOf(request)),
  );
  server.on("checkExpectation", (request, response) => {
    const { expect } = request.headers;
    const { status, body } = new Refusal("MALFORMED_REQUEST", `the expectation "${expect}" can't be met; only 100-continue can`);
    response.writeHead(status, { "content-type": "application/json; charset=utf-8", "x-correlation-id": idOf(request) });
    response.end(JSON.stringify(body));
  });
}

/** RFC 9112, 3.2: of none, or of two, whoever stands in front may have read another one than we. */
export function hostFault({ httpVersion, rawHeaders }: IncomingMessage): Refusal | undefined {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.length === 4 && rawHeaders[i]?.toLowerCase() === "host") hosts += 1;
  return hosts === 1 || (hosts === 0 && httpVersion === "1.0")
    ? undefined
    : new Refusal("MALFORMED_REQUEST", `a request has one Host header, and this has ${hosts === 0 ? "none" : hosts}`);
}

function answerOnSocket(socket: Duplex, refusal: Refusal, id: string = randomUUIDv7()): void {
  socket.end(answerInBytes(refusal, STATUS_CODES[refusal.status] ?? "", id));
}
