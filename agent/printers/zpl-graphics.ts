// A bitmap as ^GFA in ZPL's own run-length letters: the one compression that every firmware since ZPL II reads, in plain ASCII.
import { Buffer } from "node:buffer";
import type { Bitmap } from "../bitmap.ts";

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
