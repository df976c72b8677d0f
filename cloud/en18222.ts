// EN 18222 has a form of its own for failures: below /v1 every refusal says itself in both.
import type { Refusal } from "#shared/errors.ts";
import type { DPP_STATUS_CODES, DppFailure } from "#shared/wire/dpps.ts";

export const isEn18222 = (path: string): boolean => path.startsWith("/v1/");

const CODES: Record<number, (typeof DPP_STATUS_CODES)[number]> = {
  401: "ClientNotAuthorized",
  403: "ClientForbidden",
  404: "ClientErrorResourceNotFound",
  405: "ClientMethodNotAllowed",
  409: "ClientResourceConflict",
  410: "ClientErrorResourceNotFound", // EN 18222 has no word for what was there once
};

export function failureOf({ status, body }: Refusal, correlationId: string): DppFailure {
  const { code, message: text } = body.error;
  return {
    ...body,
    statusCode: CODES[status] ?? (status >= 500 ? "ServerInternalError" : "ClientErrorBadRequest"),
    message: [{ messageType: "Error", text, code, correlationId }],
  };
}
