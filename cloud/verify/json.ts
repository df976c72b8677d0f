// JSON that says one thing to everybody: a name that stands in an object twice means its last value to us, and its first to somebody else;
// of a number's digits we keep some seventeen, and somebody else all.
import { nameTwice, STRING } from "#shared/name-twice.ts";
import { parseJson } from "../json.ts";

const NUMBER = /-?\d[\d.eE+-]*/g;
/** Those that count, wherever the point is. */
export const digitsOf = (number: string): string =>
  number
    .replace(/e.*$/i, "")
    .replaceAll(/[-.]/g, "")
    .replaceAll(/^0+|(?<!0)0+$/g, "");

export function readJson(text: string): unknown {
  const value = parseJson(text);
  for (const [number] of text.replaceAll(STRING, " ").matchAll(NUMBER))
    if (Number.isFinite(Number(number)) && digitsOf(number) !== digitsOf(String(Number(number))))
      throw new Error(`the number ${number.slice(0, 60)} has more digits than are kept of one: they may say anything`);
  const open = [value];
  for (const next of open) {
    if (typeof next === "string" && !next.isWellFormed())
      throw new Error(`half a surrogate pair stands in it, which isn't text: ${next.slice(0, 60)}`);
    if (typeof next !== "object" || next === null) continue;
    for (const inner of Array.isArray(next) ? next : Object.entries(next).flat()) open.push(inner);
  }
  const twice = nameTwice(text, value);
  if (twice !== undefined) throw new Error(`the name ${JSON.stringify(twice.slice(0, 60))} stands twice in an object of it`);
  return value;
}
