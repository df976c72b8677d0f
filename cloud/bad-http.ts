// What isn't HTTP never reaches a route: it still gets a typed answer, as long as the socket can carry one.
import { randomUUIDv7 } from "node:crypto";
import { type Server, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type ErrorCode, Refusal } from "#shared/errors.ts";

const OURS: Record<string, ErrorCode> = { HPE_HEADER_OVERFLOW: "HEADERS_TOO_LARGE", ERR_HTTP_REQUEST_TIMEOUT: "REQUEST_TIMEOUT" };

export function answerBadHttp(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  answerOnSocket(socket, new Refusal(OURS[error.code ?? ""] ?? "MALFORMED_REQUEST"));
}

/** What Node would answer by itself, without a body and without us. */
export function answerOddHttp(server: Server): void {
  server.on("connect", (_request, socket) => answerOnSocket(socket, new Refusal("METHOD_NOT_ALLOWED", "this is no proxy")));
  server.on("checkExpectation", ({ headers }, response) => {
    const { status, body } = new Refusal("MALFORMED_REQUEST", `the expectation "${headers.expect}" can't be met; only 100-continue can`);
    response.writeHead(status, { "content-type": "application/json; charset=utf-8", "x-correlation-id": randomUUIDv7() });
    response.end(JSON.stringify(body));
  });
}

function answerOnSocket(socket: Duplex, { status, body }: Refusal): void {
  const text = JSON.stringify(body);
  const headers = [
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(text)}`,
    `x-correlation-id: ${randomUUIDv7()}`,
    "connection: close",
  ];
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headers.join("\r\n")}\r\n\r\n${text}`);
}
