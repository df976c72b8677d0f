// Refusals for those who read RFC 9457: the one envelope, with the members of a problem beside it where the client accepts them.
import type { ErrorBody } from "#shared/errors.ts";
import type { Route } from "./route.ts";

export const PROBLEM = "application/problem+json";

/** As it is thrown, or as it was kept under a key. */
type Told = { status: number; headers: Record<string, string>; body: ErrorBody };
/** The answer's headers and body; a standard that names refusals in its own way has its name in the details. */
export function refusalFor({ status, headers, body }: Told, route: Route | undefined, accept: string | undefined) {
  const { code, message, details } = body.error;
  const named = details?.["epcisType"] ?? route?.standard?.exceptions[status];
  const shaped = details !== undefined && !("fields" in details); // details that the spec gives a shape keep it
  const error = named === undefined || shaped ? body.error : { ...body.error, details: { ...details, epcisType: named } };
  const all = { ...(status === 413 ? route?.standard?.limits : {}), ...headers };
  if (!accept?.toLowerCase().includes(PROBLEM)) return { headers: all, body: { error } };
  const problem = { type: named ?? "about:blank", title: code, status, detail: message };
  return { headers: { ...all, "content-type": `${PROBLEM}; charset=utf-8` }, body: { ...problem, error } };
}
