// One way to write a JSON value down (RFC 8785) and to name it (SHA-256), so that a stranger recomputes the same digest.
import { hash } from "node:crypto";
import canonicalize from "canonicalize";

export function canonical(value: unknown): string {
  const text = canonicalize(value);
  if (text === undefined) throw new TypeError("undefined has no canonical form");
  return text;
}

export const digestOf = (value: unknown): string => hash("sha256", canonical(value), "hex");
