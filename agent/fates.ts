// What becomes of a report that the cloud refused: a table by its codes, and a rule for what speaks in other words than ours.
import type { ErrorCode } from "#shared/errors.ts";
import type { NoAnswer } from "./cloud.ts";

/** As much of a refusal as tells what to make of it. */
type Refused = Pick<NoAnswer, "status" | "code">;
/** What a refusal means for the report: say it again later, or later than all others, give it up because the job went on, show it to people, or stop working. */
type Fate = "retry" | "aside" | "drop" | "quarantine" | "stop";
const byCode: Partial<Record<ErrorCode, Fate>> = {
  STALE_ATTEMPT: "drop",
  ENVELOPE_EXPIRED: "drop",
  SERIAL_VOIDED: "drop",
  NOT_FOUND: "drop",
  ILLEGAL_TRANSITION: "quarantine",
  EVIDENCE_REQUIRED: "quarantine",
  EVIDENCE_INVALID: "quarantine",
  SCAN_MISMATCH: "quarantine",
  BUNDLE_MISMATCH: "quarantine",
  SIMULATED_EVIDENCE: "quarantine",
  VALIDATION_ERROR: "quarantine",
  IDEMPOTENCY_CONFLICT: "quarantine",
  UNAUTHORIZED: "stop",
  API_SCOPE_DENIED: "stop",
  DEVICE_KEY_REQUIRED: "stop",
  SANDBOX_EXPIRED: "stop",
  RATE_LIMITED: "retry",
  OVERLOADED: "retry",
  STORE_UNAVAILABLE: "retry",
  TIMED_OUT: "retry",
  NOT_READY: "retry",
  INTERNAL_ERROR: "aside",
  // No call of ours leaves here like that: something alters it on its way.
  MALFORMED_REQUEST: "aside",
  MALFORMED_JSON: "aside",
  METHOD_NOT_ALLOWED: "aside",
  URI_TOO_LONG: "aside",
  UNSUPPORTED_MEDIA_TYPE: "aside",
  HEADERS_TOO_LARGE: "aside",
};
/** Those that end it; after the others it is said again. */
export const settles = (fate: Fate): boolean => fate === "drop" || fate === "quarantine";
export function fateOf({ status, code }: Refused): Fate {
  const known = byCode[code as ErrorCode]; // or of a cloud that is newer than this station
  if (known) return known;
  if (isStranger({ status, code })) return "retry";
  if (isPage({ code }) && status === 413) return "aside"; // a proxy takes less than the cloud: others may be smaller
  if (status === 401 || status === 403) return "stop";
  if (status === 0 || status === 404 || status === 408 || status === 425 || status === 429 || status >= 500) return "retry";
  return status === 409 || status === 410 ? "drop" : "quarantine";
}

/** It can't be asked now, whatever it is asked. */
export const isAway = (said: Refused): boolean => ["retry", "stop"].includes(fateOf(said));

export const isPage = ({ code }: Pick<Refused, "code">): boolean => code.startsWith("HTTP_");
/** The cloud itself said no, so that nothing came of what it was asked; where a page answers in its place, it may have been done all the same. */
export const isRefusal = (said: Refused): boolean => said.status > 0 && said.status < 500 && !isPage(said);
/** A page of something halfway, which can settle nothing; but who may not pass is told, and what is too large for it is so each time. */
export const isStranger = (said: Refused): boolean => isPage(said) && ![401, 403, 413].includes(said.status);

/** The cloud's own faults are 500 and 503, and that it isn't ready it says to who asks for just that: the rest a proxy says for it, in its words. */
const isOfProxy = ({ status, code }: Refused): boolean => code === "NOT_READY" || (status > 500 && status !== 503);
/** What answers isn't the cloud, as far as can be told: a proxy before one that is away, a page that wants a sign-in. */
export const isOfAnother = (said: Refused): boolean => isStranger(said) || isOfProxy(said);
