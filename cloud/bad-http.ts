// What isn't HTTP never reaches a route: it still gets a typed answer, as long as the socket can carry one.
import { randomUUIDv7 } from "node:crypto";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type ErrorCode, Refusal } from "#shared/errors.ts";

const OURS: Record<string, ErrorCode> = { HPE_HEADER_OVERFLOW: "HEADERS_TOO_LARGE", ERR_HTTP_REQUEST_TIMEOUT: "REQUEST_TIMEOUT" };

export function answerBadHttp(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  const { status, body } = new Refusal(OURS[error.code ?? ""] ?? "MALFORMED_REQUEST");
  const text = JSON.stringify(body);
  const headers = [
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(text)}`,
    `x-correlation-id: ${randomUUIDv7()}`,
    "connection: close",
  ];
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headers.join("\r\n")}\r\n\r\n${text}`);
}
