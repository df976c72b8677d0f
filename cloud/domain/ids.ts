// Ids that sort as they were made: UUIDv7 is random within a millisecond, and a list of what came together should keep its order.
import { randomUUIDv7 } from "node:crypto";

let last = "";
let nth = 0;

/** A UUIDv7 whose twelve bits after the version count the ids of this process in its millisecond. */
export function newId(): string {
  const id = randomUUIDv7();
  const instant = id.slice(0, 14); // 48 bits of time, and the dash
  if (instant > last) [last, nth] = [instant, 0];
  else nth += 1;
  if (nth > 0xfff) [last, nth] = [id.slice(0, 14) > last ? id.slice(0, 14) : nextInstant(last), 0];
  return `${last}7${nth.toString(16).padStart(3, "0")}${id.slice(18)}`;
}

const nextInstant = (instant: string): string => {
  const next = (Number.parseInt(instant.replaceAll("-", ""), 16) + 1).toString(16).padStart(12, "0");
  return `${next.slice(0, 8)}-${next.slice(8)}-`;
};

const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; // Crockford's: nothing that is read for something else

/** A print job's name: the bits of an id in 26 letters that sort like it. */
export function jobRef(): string {
  let bits = BigInt(`0x${newId().replaceAll("-", "")}`);
  let text = "";
  for (let i = 0; i < 26; i += 1, bits >>= 5n) text = LETTERS[Number(bits & 31n)] + text;
  return `pj_${text}`;
}
