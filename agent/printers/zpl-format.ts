// A label in ZPL: its dots in ZPL's own run-length letters, which every firmware since ZPL II reads, its tag, and the answer behind both.
import { Buffer } from "node:buffer";
import type { Bitmap } from "../bitmap.ts";
import type { Profile } from "./driver.ts";
import type { FieldKind } from "./zpl-answers.ts";

const UNITS = "GHIJKLMNOPQRSTUVWXY"; // 1 to 19 times
const TWENTIES = "ghijklmnopqrstuvwxyz"; // 20 to 400 times, by twenties

/** `count` times the digit: letters add up, the largest last of the twenties before the units. */
function run(digit: string, count: number): string {
  if (count < 3) return digit.repeat(count);
  const whole = "z".repeat(Math.floor(count / 400));
  const rest = count % 400;
  const twenties = rest >= 20 ? TWENTIES[Math.floor(rest / 20) - 1] : "";
  const units = rest % 20 > 0 ? UNITS[(rest % 20) - 1] : "";
  return `${whole}${twenties}${units}${digit}`;
}
const runs = (digits: string): string => digits.replaceAll(/(.)\1*/g, (same, digit: string) => run(digit, same.length));

function row(digits: string): string {
  const zeros = digits.replace(/0+$/, "");
  if (zeros.length < digits.length) return `${runs(zeros)},`;
  const ones = digits.replace(/F+$/, "");
  return ones.length < digits.length ? `${runs(ones)}!` : runs(digits);
}

export function graphicField({ rowBytes, bytes }: Bitmap): string {
  const data: string[] = [];
  let before: string | undefined;
  for (let at = 0; at < bytes.length; at += rowBytes) {
    const digits = Buffer.from(bytes.buffer, bytes.byteOffset + at, rowBytes)
      .toString("hex")
      .toUpperCase();
    data.push(digits === before ? ":" : row(digits));
    before = digits;
  }
  return `^GFA,${bytes.length},${bytes.length},${rowBytes},${data.join("")}`;
}

const GRAPHIC_MAX_BYTES = 99_999; // of one, as the manual has it; what is beyond a printer may leave out
/** One below the other, where one can't hold all of it. */
function graphics(bitmap: Bitmap): string {
  const { rowBytes, heightDots, bytes } = bitmap;
  const most = Math.floor(GRAPHIC_MAX_BYTES / rowBytes);
  const strips: string[] = [];
  for (let y = 0; y < heightDots; y += most) {
    const strip = { ...bitmap, heightDots: Math.min(most, heightDots - y), bytes: bytes.subarray(y * rowBytes, (y + most) * rowBytes) };
    strips.push(`^FO0,${y}${graphicField(strip)}^FS`);
  }
  return strips.join("\n");
}

export const RFID_TRIES = 3;
const TID_BANK = 2;

/** Where the answer's value will stand: a line that echoes sends the question back with it. */
export const UNFILLED = ",";

/** In the order in which the printer has to earn them: dots, tag, and last the answer that says so. */
export function formatOf(bitmap: Bitmap, token: string, profile: Profile, epc?: string): string {
  const answer = (field: number, length: number, kind: FieldKind) => `^HV${field},${length},[${token}${kind}:${UNFILLED}],L^FS`;
  const tag = [
    `^RS,,,${profile.rfidTries ?? RFID_TRIES},P`, // pause when no tag took it: the default drops the label without a word
    `^RFW,H^FD${epc}^FS`,
    `^FN2^RFR,H,0,12,${TID_BANK}^FS${answer(2, 24, "T")}`,
    `^FN1^RFR,H^FS${answer(1, 24, "E")}`,
  ];
  // A field beside the label, so that it is processed and never seen.
  const beside = [`^FO${bitmap.widthDots + 100},0^A0N,20,20^FN9^FD${token}^FS${answer(9, token.length, "F")}`];
  return ["^XA", profile.setup ?? "", graphics(bitmap), ...(epc === undefined ? beside : tag), "^PQ1^XZ\r\n"].join("\n");
}
