// What isn't HTTP never reaches a route: which refusal it is, and its answer in bytes, as there is nobody else to write it.
import { type ErrorCode, Refusal } from "./errors.ts";

const OURS: Record<string, ErrorCode> = { HPE_HEADER_OVERFLOW: "HEADERS_TOO_LARGE", ERR_HTTP_REQUEST_TIMEOUT: "REQUEST_TIMEOUT" };
export const refusalOfBadHttp = (error: { code?: string }): Refusal => new Refusal(OURS[error.code ?? ""] ?? "MALFORMED_REQUEST");

/** `reason` stands behind the status. */
export function answerInBytes({ status, body, headers }: Refusal, reason: string, id: string): string {
  const text = JSON.stringify(body);
  const lines = [
    "content-type: application/json; charset=utf-8",
    `content-length: ${new TextEncoder().encode(text).length}`,
    `x-correlation-id: ${id}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    "connection: close",
  ];
  return `HTTP/1.1 ${status} ${reason}\r\n${lines.join("\r\n")}\r\n\r\n${text}`;
}
