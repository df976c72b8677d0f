// JSON that somebody sent: read as JavaScript reads it, whatever of it is written with escapes, and in about the time.
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseJson } from "../../cloud/json.ts";

/** Digits, signs and halves of escapes, in and out of strings: nearly all of it is no JSON. */
const pieces = [
  '"',
  "\\",
  "\\\\",
  '\\"',
  "\\/",
  "/",
  "\\u",
  "\\u004",
  "\\u0041",
  "\\u0022",
  "\\u005c",
  "\\u000A",
  "\\u002f",
  "\\ud83d",
  "\\ude00",
  "é",
  "{",
  "}",
  ":",
  ",",
  "1",
];
const readBy = (read: (text: string) => unknown, text: string): unknown => {
  try {
    return [read(text)];
  } catch {
    return "no JSON";
  }
};

test.each([
  ["by itself", (text: string) => text],
  ["as a text", (text: string) => `"${text}"`],
  ["as a name", (text: string) => `{"k${text}":1}`],
])("what is written with escapes, %s, is what JavaScript takes it for", (_where, within) => {
  const texts = fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((some) => within(some.join("")));
  fc.assert(
    fc.property(texts, (text) => {
      expect(readBy(parseJson, text)).toEqual(readBy(JSON.parse, text));
    }),
    { numRuns: 3_000, seed: 20_261_128 },
  );
});

test("millions of strings and one escape take no more than a few times as long as without it", () => {
  const strings = '"",'.repeat(2_000_000);
  const took = (text: string) => {
    const before = process.cpuUsage();
    parseJson(text);
    return process.cpuUsage(before).user;
  };
  const plain = Math.max(took(`[${strings}"A"]`), 20_000);
  expect(took(`[${strings}"\\u0041"]`)).toBeLessThan(8 * plain);
});
