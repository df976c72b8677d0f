// Refusals for those who read RFC 9457: the one envelope, with the members of a problem beside it where the client accepts them.
import type { Refusal } from "#shared/errors.ts";
import { shownCode } from "#shared/errors.ts";
import type { Route } from "./route.ts";

export const PROBLEM = "application/problem+json";

/** The answer's headers and body; a standard that names refusals in its own way has its name in the details. */
export function refusalFor(refusal: Refusal, route: Route | undefined, accept: string | undefined) {
  const { status, headers, body } = refusal;
  const named = refusal.details?.["epcisType"] ?? route?.standard?.exceptions[status];
  const shaped = refusal.details !== undefined && !("fields" in refusal.details); // details that the spec gives a shape keep it
  const error = named === undefined || shaped ? body.error : { ...body.error, details: { ...body.error.details, epcisType: named } };
  const all = { ...(status === 413 ? route?.standard?.limits : {}), ...headers };
  if (!accept?.toLowerCase().includes(PROBLEM)) return { headers: all, body: { error } };
  const problem = { type: named ?? "about:blank", title: shownCode(refusal.code), status, detail: refusal.message };
  return { headers: { ...all, "content-type": `${PROBLEM}; charset=utf-8` }, body: { ...problem, error } };
}
