// What isn't HTTP never reaches a route: it still gets a typed answer, as long as the socket can carry one.
import { randomUUIDv7 } from "node:crypto";
import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type ErrorCode, Refusal } from "#shared/errors.ts";
import { correlationId } from "./request.ts";

const OURS: Record<string, ErrorCode> = { HPE_HEADER_OVERFLOW: "HEADERS_TOO_LARGE", ERR_HTTP_REQUEST_TIMEOUT: "REQUEST_TIMEOUT" };

export function answerBadHttp(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  answerOnSocket(socket, new Refusal(OURS[error.code ?? ""] ?? "MALFORMED_REQUEST"));
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

function answerOnSocket(socket: Duplex, { status, body, headers }: Refusal, id: string = randomUUIDv7()): void {
  const text = JSON.stringify(body);
  const lines = [
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(text)}`,
    `x-correlation-id: ${id}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    "connection: close",
  ];
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("\r\n")}\r\n\r\n${text}`);
}
