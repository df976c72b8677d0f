// No pattern that meets input can be made to run for long: each is tried on long strings that nearly fit it, and stopped when it doesn't end.
import { globSync, readFileSync } from "node:fs";
import vm from "node:vm";
import * as fc from "fast-check";
import { parseAst } from "rolldown/parseAst";
import { expect, test } from "vitest";
import { openApiDocument } from "../house/document.ts";

type Found = { where: string; source: string; flags: string };
type Node = { type?: string; regex?: { pattern: string; flags: string }; callee?: { name?: string } } & Record<string, unknown>;

const LENGTH = 65_536; // longer than any one field may be that meets a pattern
/** Patterns that take the square of a text's length, and why it is never longer than this. */
const SHORT: Record<string, { length: number; because: string }> = {
  "[\\r\\n\\t ]+$": { length: 4_096, because: "the console takes no longer text" },
  "^\\s*([0-9a-f]{24})\\s*(?:,\\s*([0-9a-f]{8,64})?\\s*)?$": { length: 4_096, because: "a scanner's line is cut off there" },
  "0+$": { length: 4_096, because: "a row of dots that we drew" },
  "F+$": { length: 4_096, because: "a row of dots that we drew" },
  "\\/+$": { length: 4_096, because: "the operator's own setting" },
};
const MAX_MS = 1_000; // a thousand times what a linear pattern takes; a quadratic one takes several times as long

function* nodesOf(value: unknown): Generator<Node> {
  if (typeof value !== "object" || value === null) return;
  yield value as Node;
  for (const inner of Object.values(value)) yield* nodesOf(inner);
}
const sources = globSync(["shared/**/*.ts", "cloud/**/*.ts", "agent/**/*.ts"]).map((file) => ({
  file,
  nodes: [...nodesOf(parseAst(readFileSync(file, "utf8"), { lang: "ts" }))],
}));
const literals: Found[] = sources.flatMap(({ file, nodes }) =>
  nodes.flatMap(({ regex }) => (regex ? [{ where: file, source: regex.pattern, flags: regex.flags }] : [])),
);

/** Patterns in JSON Schemas: those that requests are judged by, and those of categories and packs. */
const patternsIn = (where: string, value: unknown): Found[] =>
  [...nodesOf(value)].flatMap(({ pattern }) => (typeof pattern === "string" ? [{ where, source: pattern, flags: "u" }] : []));
const schemas = [
  ...patternsIn("OpenAPI", await openApiDocument()),
  ...globSync("cloud/catalogue/**/*.json").flatMap((file) => patternsIn(file, JSON.parse(readFileSync(file, "utf8")))),
];
const all = [...new Map([...literals, ...schemas].map((one) => [`/${one.source}/${one.flags}`, one])).entries()];

/** Strings that begin as the pattern wants, go on for long with a piece of what it wants, and end as it doesn't. */
function nearMisses({ source, flags }: Found): string[] {
  const fitting = fc.sample(sampled(source, flags), { numRuns: 4, seed: 7 });
  return [...fitting, "a1-", " \t", ".", '\\"'].flatMap((text) =>
    [1, 2, 3].flatMap((width) =>
      [0, Math.floor(text.length / 2), text.length - width].map((at) => {
        const piece = text.slice(Math.max(0, at), Math.max(0, at) + width) || "a";
        return `${text.slice(0, Math.max(0, at))}${piece.repeat(Math.ceil((SHORT[source]?.length ?? LENGTH) / piece.length))}\u0000`;
      }),
    ),
  );
}
/** What it can't make strings of, or only slowly, stands for a letter that fits most of them; a near miss needs no more. */
function sampled(source: string, flags: string): fc.Arbitrary<string> {
  const simpler = source.replaceAll(/\(\?<?[=!][^()]*\)/g, "").replaceAll(/\[\^(?:[^\]\\]|\\.)*\]|\\[pP]\{[^}]*\}/g, "~");
  try {
    return fc.stringMatching(new RegExp(simpler, flags.replaceAll(/[gymi]/g, "")), { size: "small" });
  } catch {
    return fc.constant("aa"); // the other strings are tried all the same
  }
}

const context = vm.createContext({ pattern: /x/, text: "" });
const script = new vm.Script("pattern.lastIndex = 0; pattern.test(text)");
function endsInTime(found: Found, text: string, tries = 3): boolean {
  Object.assign(context, { pattern: new RegExp(found.source, found.flags), text });
  try {
    script.runInContext(context, { timeout: MAX_MS });
    return true;
  } catch {
    return tries > 1 && endsInTime(found, text, tries - 1); // the machine may have stood still meanwhile
  }
}

test.each(all)("%s ends soon on whatever nearly fits it", (_shown, found) => {
  for (const text of nearMisses(found)) expect(endsInTime(found, text), `${found.where}: ${JSON.stringify(text.slice(0, 60))}…`).toBe(true);
});

test("a pattern that doesn't would be found", () => {
  for (const source of ["^(a+)+$", "\\s+$", "(\\w|\\d)*-$"]) {
    const found = { where: "here", source, flags: "" };
    expect(nearMisses(found).some((text) => !endsInTime(found, text))).toBe(true);
  }
});

test("patterns are written down, or made of fixed words by these files alone", () => {
  const made = sources.filter(({ nodes }) => nodes.some(({ type, callee }) => type === "NewExpression" && callee?.name === "RegExp"));
  expect(made.map(({ file }) => file).toSorted()).toEqual([
    "cloud/console-cookie.ts",
    "cloud/domain/verifiable-credentials.ts",
    "cloud/unrouted.ts",
    "shared/correlation.ts",
  ]);
});
