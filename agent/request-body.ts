// A body that isn't as agreed is refused with its first fault named.
import { Ajv } from "ajv";
import { type Static, type TSchema, Type } from "typebox";
import { invalid } from "#shared/errors.ts";

const ajv = new Ajv({ strictTypes: false, meta: false, validateSchema: false });

/** What is typed, scanned or handed on in one. */
export const Text = Type.String({ minLength: 1, maxLength: 4_096 });

export function bodyOf<T extends TSchema>(schema: T, body: unknown): Static<T> {
  const fits = ajv.compile(schema);
  if (fits(body)) return body as Static<T>;
  const { instancePath = "", params = {}, message = "is wrong", keyword = "type" } = fits.errors?.[0] ?? {};
  const field = String(params["missingProperty"] ?? params["additionalProperty"] ?? (instancePath.slice(1) || "body"));
  const allowed = params["allowedValues"] as unknown[] | undefined;
  throw invalid([{ field, rule: keyword, message: allowed ? `must be one of ${allowed.join(", ")}` : message }]);
}
