// Ids that sort as they were made: UUIDv7 is random within a millisecond, and a list of what came together should keep its order.
import { randomUUIDv7 } from "node:crypto";

/** Each id that it makes sorts behind the one before, also where the clock stands still or goes back. */
function inOrder() {
  let last = ""; // 48 bits of time, and the dash
  let nth = 0;
  return (instant: string, tail: string): string => {
    if (instant > last) [last, nth] = [instant, 0];
    else if (nth < 0xfff) nth += 1;
    else [last, nth] = [instantAt(millisecondOf(last) + 1), 0];
    return `${last}7${nth.toString(16).padStart(3, "0")}${tail}`;
  };
}
const millisecondOf = (instant: string): number => Number.parseInt(instant.replaceAll("-", ""), 16);
function instantAt(ms: number): string {
  const hex = ms.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-`;
}
const [byNode, byStore] = [inOrder(), inOrder()];

/** A UUIDv7 whose twelve bits after the version count the ids of this process in its millisecond. */
export function newId(): string {
  const id = randomUUIDv7();
  return byNode(id.slice(0, 14), id.slice(18));
}

/** Likewise by a moment of the store's clock: what nodes make one after another sorts as it was made, however far apart their own clocks are. */
export const newIdAt = (moment: number): string => byStore(instantAt(moment), randomUUIDv7().slice(18));

const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; // Crockford's: nothing that is read for something else

/** A print job's name: the bits of an id in 26 letters that sort like it. */
export function jobRef(): string {
  let bits = BigInt(`0x${newId().replaceAll("-", "")}`);
  let text = "";
  for (let i = 0; i < 26; i += 1, bits >>= 5n) text = LETTERS[Number(bits & 31n)] + text;
  return `pj_${text}`;
}
