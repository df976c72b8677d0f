// Ids that sort as they were made: UUIDv7 is random within a millisecond, and a list of what came together should keep its order.
import { randomUUIDv7 } from "node:crypto";
import type { Sequence, Tx } from "../store/store.ts";

/** Each id sorts behind the one before it in its sequence, also where the clock stands still or goes back. */
function next(made: Sequence, instant: string, tail: string): string {
  if (instant > made.last) [made.last, made.nth] = [instant, 0];
  else if (made.nth < 0xfff) made.nth += 1;
  else [made.last, made.nth] = [instantAt(millisecondOf(made.last) + 1), 0];
  return `${made.last}7${made.nth.toString(16).padStart(3, "0")}${tail}`;
}
const millisecondOf = (instant: string): number => Number.parseInt(instant.replaceAll("-", ""), 16);
function instantAt(ms: number): string {
  const hex = ms.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-`;
}

const own: Sequence = { last: "", nth: 0 };
/** A UUIDv7 whose twelve bits after the version count the ids of this process in its millisecond. */
export function newId(): string {
  const id = randomUUIDv7();
  return next(own, id.slice(0, 14), id.slice(18));
}

/** Likewise by the store's clock: what nodes make one after another sorts as it was made, however far apart their own clocks are. */
export const newIdIn = ({ moment, made }: Tx): string => next(made, instantAt(moment()), randomUUIDv7().slice(18));

const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; // Crockford's: nothing that is read for something else

/** A print job's name: the bits of an id in 26 letters that sort like it. The oldest job is claimed first, whichever node it was asked of. */
export function jobRef(tx: Tx): string {
  let bits = BigInt(`0x${newIdIn(tx).replaceAll("-", "")}`);
  let text = "";
  for (let i = 0; i < 26; i += 1, bits >>= 5n) text = LETTERS[Number(bits & 31n)] + text;
  return `pj_${text}`;
}
