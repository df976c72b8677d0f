// The error catalogue: a code is only ever thrown from here, so OpenAPI, README and the answers can't drift apart.
import { limits } from "./limits.ts";

/** `code` where one word stands at two statuses; `asMeant` where it says how this cloud was set up, or what it was told to do, unless something caused it. */
type Row = { status: number; says: string; code?: string; asMeant?: true };
export const errors = {
  VALIDATION_ERROR: { status: 400, says: "A field, parameter or header is wrong; `details.fields` names every one" },
  MALFORMED_JSON: { status: 400, says: "The body isn't JSON in UTF-8" },
  MALFORMED_REQUEST: { status: 400, says: "The request isn't well-formed HTTP, or its URL can't be decoded" },
  unsupported_grant_type: { status: 400, says: "The token endpoint knows `client_credentials` only" },
  invalid_scope: { status: 400, says: "A token can't carry a scope that its client lacks" },
  INVALID_GTIN: { status: 400, says: "A link's GTIN isn't 14 digits with the right check digit" },
  INVALID_SERIAL: { status: 400, says: "A link's serial, or what else stands behind its GTIN, isn't well-formed" },
  UNAUTHORIZED: { status: 401, says: "The credential is missing, unknown, revoked or expired" },
  invalid_client: { status: 401, says: "The client id is unknown or its secret is wrong" },
  API_SCOPE_DENIED: { status: 403, says: "A good credential without the scope; `details` is `{ required, available }`" },
  FORBIDDEN: { status: 403, says: "A good credential without the scope, at publish-dpp; `details` is `{ required, available }`" },
  CROSS_SITE: { status: 403, says: "A console session is good only for requests that the console's own page makes" },
  GUARD_REJECTED: { status: 403, says: "The passport's state doesn't allow this; `details` is `{ state, command, from }`" },
  DEVICE_KEY_REQUIRED: { status: 403, says: "Only a key that is bound to a device may do this" },
  SANDBOX_EXPIRED: { status: 403, says: "The tenant is a sandbox and past its expiry date" },
  NOT_FOUND: { status: 404, says: "There is nothing here, or nothing that this credential may see" },
  PRODUCT_NOT_FOUND: { status: 404, says: "Nothing public has this GTIN, serial or link type; `details` is `{ gtin, serial, host }`" },
  SCHEMA_NOT_FOUND: {
    status: 404,
    says: "No schema of this category, jurisdiction and instant; `details.availableCategories` names those there are",
  },
  METHOD_NOT_ALLOWED: { status: 405, says: "The path exists with other methods; `Allow` lists them" },
  REQUEST_TIMEOUT: { status: 408, says: "The request took too long to arrive" },
  ALREADY_REVOKED: { status: 409, says: "The key or credential is already revoked; after a rotation a key's new id is the live one" },
  IDEMPOTENCY_CONFLICT: { status: 409, says: "This Idempotency-Key was used with another request" },
  DUPLICATE_GTIN: { status: 409, says: "The tenant has a product of this identity: its GTIN, or GTIN and serial below the model" },
  ILLEGAL_TRANSITION: { status: 409, says: "This stage doesn't follow the current one; `details` is `{ from, to, allowed }`" },
  ALREADY_VOIDED: { status: 409, says: "A voided product or serial stays as it is" },
  SCHEME_LOCKED: { status: 409, says: "Serials or a passport hang on this GTIN: it can't change any more" },
  PRODUCT_REFERENCED: { status: 409, says: "Print jobs refer to the product's serials: it can be voided, not deleted" },
  JOB_EXISTS: {
    status: 409,
    says: "The serial has an open job, or was sealed and the job doesn't say that it is a reprint; `details.job_ref` names it",
  },
  STALE_ATTEMPT: { status: 409, says: "The attempt is no longer the job's: what it printed is an orphan label" },
  PASSPORT_EXISTS: { status: 409, says: "The product has a passport; `details.id` names it" },
  PASSPORT_CHANGED: { status: 409, says: "The passport changed while its version was being anchored; nothing was written" },
  EVENT_EXISTS: { status: 409, says: "An event with this eventID and other content was captured before" },
  GTIN_CLAIMED: { status: 409, says: "Another tenant publishes this GTIN, or this serial of it" },
  WEBHOOKS_EXHAUSTED: { status: 409, says: "The tenant has as many webhooks as it may have" },
  SERIAL_VOIDED: { status: 410, says: "The serial, or its product, was voided: a tombstone without content" },
  ENVELOPE_EXPIRED: { status: 410, says: "The attempt's envelope is past its end" },
  PASSPORT_WITHDRAWN: { status: 410, says: "The passport was suspended or archived: nothing of it is shown" },
  PRECONDITION_FAILED: { status: 412, says: "If-Match names another version than the current one; read it again" },
  PAYLOAD_TOO_LARGE: { status: 413, says: "The body is larger than the route takes" },
  CAPTURE_TOO_LARGE: { status: 413, says: "More events, or keys in them, than one capture takes; `GS1-EPCIS-Capture-Limit` says how many" },
  QUERY_TOO_LARGE: { status: 413, says: "More events match than `maxEventCount` allows" },
  URI_TOO_LONG: { status: 414, says: "A part of the path is longer than any we know" },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, says: "The body has a content type that the route doesn't take" },
  EXTENSIONS_REQUIRED: { status: 422, says: "A product needs the extensions of its category, be they empty" },
  SCHEMA_NOT_EFFECTIVE: {
    status: 422,
    code: "SCHEMA_NOT_FOUND",
    says: "The category has no schema in effect; `details.availableCategories` names those that have",
  },
  PRODUCT_NOT_READY: { status: 422, says: "A passport is made from a product in the stage ready_for_dpp" },
  PASSPORT_NOT_PUBLISHABLE: { status: 422, says: "There is no passport, or none in a state that can be published" },
  INVALID_PRINT_STATE: { status: 422, says: "printState is none of printed, failed and pending" },
  EPC_UNAVAILABLE: { status: 422, says: "There is no SGTIN-96 for this GTIN and serial; the message says why" },
  PASSPORT_NOT_READY: { status: 422, says: "The product's passport isn't readyToPrint" },
  EVIDENCE_REQUIRED: { status: 422, says: "The state needs evidence, or an operator's id, that didn't come" },
  EVIDENCE_INVALID: { status: 422, says: "The evidence doesn't prove the state; `details.fields` says why" },
  SCAN_MISMATCH: { status: 422, says: "What was scanned or read isn't the job's; the job stays where it is" },
  BUNDLE_MISMATCH: { status: 422, says: "The bundle's digest isn't that of the evidence reported" },
  SIMULATED_EVIDENCE: { status: 422, says: "Evidence of simulated devices seals jobs in sandbox tenants only" },
  LABEL_REFUSED: { status: 422, says: "A label can't be drawn as asked; the message says what doesn't fit and by how much" },
  SERIAL_NOT_ALLOCATED: { status: 422, says: "The serial isn't one that was allocated under this GTIN" },
  UNKNOWN_EVENT_TYPE: { status: 422, says: "A name that isn't in the catalogue of events; `details` is `{ unknown, known }`" },
  RATE_LIMITED: { status: 429, says: "Over the rate budget; `Retry-After` says when to come back" },
  HEADERS_TOO_LARGE: { status: 431, says: "The request's headers are too large" },
  INTERNAL_ERROR: { status: 500, says: "A fault of ours; quote the correlation id" },
  ANCHORING_FAILED: {
    status: 500,
    says: "The anchoring service failed or answered nonsense; nothing was written, and asking again is safe",
  },
  REGISTRY_UNAVAILABLE: {
    status: 503,
    says: "No external registry is configured, or it can't be reached or refused; nothing was written",
    asMeant: true,
  },
  ANCHORING_UNAVAILABLE: { status: 503, says: "Anchoring is off: nothing was signed or written", asMeant: true },
  COMPLIANCE_EVALUATION_UNAVAILABLE: {
    status: 503,
    says: "Batteries aren't judged here: nothing was evaluated and nothing changed",
    asMeant: true,
  },
  SERIALS_UNAVAILABLE: {
    status: 503,
    says: "What the tenant's serials are made with can't be opened: none is given out, so that none comes twice",
  },
  STORE_UNAVAILABLE: { status: 503, says: "The store can't answer now; nothing was changed unless a retry with the same key says so" },
  OVERLOADED: { status: 503, says: "More work than can be done now was shed before it began" },
  NOT_READY: { status: 503, says: "This node can't serve now; `details.notReady` names the parts that aren't ready", asMeant: true },
  TIMED_OUT: { status: 503, says: "The answer took too long; a retry with the same Idempotency-Key gives the true one" },
} as const satisfies Record<string, Row>;

export type ErrorCode = keyof typeof errors;
/** The code as it is sent: one word may stand at two statuses. */
export const shownCode = (code: ErrorCode): string => (errors[code] as Row).code ?? code;
export type ErrorBody = { error: { code: string; message: string; details?: Record<string, unknown> } };
export type FieldFault = { field: string; rule: string; message: string };

/** A sentence that stands among many, and that a database can keep, whatever of its sender's it quotes. */
export const brief = (text: string): string => text.slice(0, limits.FAULT_TEXT_MAX_LENGTH).toWellFormed().replaceAll("\0", "\ufffd");

/** An answer that says no, with the code, a sentence that helps and what a program needs to know. */
export class Refusal extends Error {
  readonly code: ErrorCode;
  readonly details: Record<string, unknown> | undefined;
  readonly headers: Record<string, string>;

  constructor(code: ErrorCode, message?: string, details?: Record<string, unknown>, headers: Record<string, string> = {}) {
    super((message ?? errors[code].says).toWellFormed()); // what it quotes may be cut in the middle of a character
    this.code = code;
    this.details = details;
    this.headers = headers;
  }

  get status(): number {
    return errors[this.code].status;
  }

  /** Somebody has to look into it: a 5xx that isn't as it was meant. */
  get isFault(): boolean {
    const { status, asMeant } = errors[this.code] as Row;
    return status >= 500 && !(asMeant && this.cause === undefined);
  }

  /** As one line of a list of many outcomes. */
  get line(): string {
    return brief(`${shownCode(this.code)}: ${this.message}`);
  }

  get body(): ErrorBody {
    const { message, details } = this;
    const code = shownCode(this.code);
    return { error: details ? { code, message, details } : { code, message } };
  }
}

/** 400 with every failing field; the message reads as a sentence of its own. */
export function invalid(fields: FieldFault[]): Refusal {
  const message = fields.map(({ field, message }) => `${field}: ${message}`).join("; ");
  return new Refusal("VALIDATION_ERROR", message, { fields });
}

/** What the work gives, or why not; whatever else goes wrong stays a fault. */
export async function refusalOr<T>(work: () => T | Promise<T>): Promise<T | Refusal> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}
