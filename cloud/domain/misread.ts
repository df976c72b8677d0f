// Whole numbers that were read as others, having more digits than a number keeps: what is signed or sealed would say otherwise than what was sent.
import type { FieldFault } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { shown } from "../validate.ts";

export const TOO_MANY_DIGITS = "has more digits than a number keeps: send it as a text";

/** Each by its place, as many as are told. From 10^21 on a number is written with an exponent, and nobody tells all its digits. */
export const misreadIn = (value: Record<string, unknown>, field: string, most: number = limits.FAULTS_MAX_ITEMS): FieldFault[] =>
  /\d{16}/.test(JSON.stringify(value)) ? [...misread(value, field).take(most)] : [];
function* misread(value: unknown, field: string): Generator<FieldFault> {
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21)
    yield { field: shown(field), rule: "number", message: TOO_MANY_DIGITS };
  else if (typeof value === "object" && value !== null)
    for (const [name, inner] of Object.entries(value)) yield* misread(inner, `${field}.${name}`);
}
