// Whole numbers as they were sent: parsed, 9007199254740993 is 9007199254740992, and only the body's own digits tell it from that, or from 9.1e15.
import { setImmediate as turn } from "node:timers/promises";
import { digitsOf } from "../verify/json.ts";

const [ZERO, NINE] = [0x30, 0x39];
const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= ZERO && byte <= NINE;
/** Fewer digits are kept whatever they are; more are of no number at all. */
const [LEAST, MOST] = [16, 309];
const PLAIN_MAX_DIGITS = 21; // longer ones we write with an exponent
const TURN_ROWS = 10_000; // a few milliseconds

/** What rows of digits in this text are read as, where that isn't what they say. Of sixteen bytes one is looked at, unless it is a digit. */
export async function misreadRowsIn(text: Buffer): Promise<ReadonlySet<number>> {
  const misread = new Set<number>();
  let rows = 0;
  for (let at = LEAST - 1; at < text.length; at += LEAST) {
    if (!isDigit(text[at])) continue;
    let [from, to] = [at, at + 1];
    while (isDigit(text[from - 1])) from -= 1;
    while (isDigit(text[to])) to += 1;
    at = to;
    if (to - from < LEAST || to - from > MOST) continue;
    const digits = text.toString("latin1", from, to);
    const number = Number(digits);
    const isKept = Number.isSafeInteger(number) || String(number) === digits;
    if (!isKept && (digits.length <= PLAIN_MAX_DIGITS || digitsOf(String(number)) !== digitsOf(digits))) misread.add(number);
    if ((rows += 1) % TURN_ROWS === 0) await turn();
  }
  return misread;
}
