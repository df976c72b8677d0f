// One rule of a regulation pack, ready to be asked: what it looks at is known beforehand, its schemas are compiled when first needed.
import { Ajv } from "ajv";
import type { PackFile, Schema } from "./pack-file.ts";

type Written = PackFile["rules"][number];
type Test = (facts: unknown) => boolean;
const PARTS = ["applies", "requires", "conclusive"] as const;
type Part = (typeof PARTS)[number];
export type Rule = Omit<Written, Part> & {
  /** Compiles what isn't yet; a schema that can't be compiled throws when its test is asked. */
  tests(): Record<Part, Test>;
  /** Pointers whose values decide whether it applies, and all whose values decide anything. */
  looksAt: { applies: string[]; all: string[] };
};

/** What every product says, whatever its category. */
const ALWAYS_THERE = ["category", "granularity", "gtin", "productDescription", "productName", "serialNumber", "stage"].map(
  (name) => `/product/${name}`,
);

/** The pointers that a schema judges; `through` are the keywords that only lead to other schemas. */
function pointersIn(schema: Schema, through: readonly string[], at = ""): string[] {
  const within = (one: unknown, pointer = at) => pointersIn(one as Schema, through, pointer);
  const found = Object.entries(schema).flatMap(([keyword, value]) => {
    if (!through.includes(keyword)) return [at];
    if (keyword === "properties") return Object.entries(value as Schema).flatMap(([name, inner]) => within(inner, `${at}/${name}`));
    return keyword === "not" ? within(value) : (value as unknown[]).flatMap((inner) => within(inner));
  });
  return [...new Set(found)];
}

const isUnder = (pointer: string, above: readonly string[]) => above.some((one) => pointer === one || pointer.startsWith(`${one}/`));

/**
 * Fail-closed by construction. Where all that a rule looks at is its evidence, leaving anything out makes it not evaluated.
 * `applies` looks through keywords that hold for what is absent, so that leaving something out never makes a rule not applicable.
 */
function looksAt({ applies, requires, conclusive = {}, evidence }: Written): Rule["looksAt"] {
  const scope = pointersIn(applies, ["properties", "allOf", "anyOf"]);
  const deciding = [requires, conclusive].flatMap((schema) => pointersIn(schema, ["properties", "allOf", "anyOf", "not"]));
  const stray = [...scope, ...deciding].find((pointer) => !isUnder(pointer, [...evidence, ...ALWAYS_THERE]));
  if (stray !== undefined)
    throw new Error(`it looks at "${stray}", which isn't among its evidence: leaving it out could make the rule met or not applicable`);
  if (evidence.every((pointer) => pointer.startsWith("/product/")))
    throw new Error("its evidence needs a field of /extensions or /passport: what every product has proves nothing");
  const beyond = [...scope, ...deciding].filter((pointer) => !isUnder(pointer, evidence));
  return { applies: scope, all: [...new Set([...beyond, ...evidence])] };
}

/** Otherwise a reference to a missing definition would show only when the rule is first asked. */
function refuseDangling(written: Written, $defs: Schema): void {
  const missing = JSON.stringify([written, $defs])
    .matchAll(/"\$ref":"#\/\$defs\/([a-z_]+)"/g)
    .find(([, name = ""]) => !(name in $defs));
  if (missing) throw new Error(`$defs has no ${missing[1]}`);
}

/** Rules of one pack share its definitions, and schemas that say the same are compiled once: a third of the time and memory. */
function compilerOf($defs: Schema): (schema: Schema) => Test {
  const ajv = new Ajv({
    strictTypes: false,
    strictRequired: false,
    messages: false,
    meta: false,
    validateSchema: false,
    inlineRefs: false,
  });
  ajv.addSchema({ $id: "pack", $defs });
  const known = new Map<string, Test>();
  return (schema) => {
    const text = JSON.stringify(schema).replaceAll(`"#/$defs/`, `"pack#/$defs/`);
    const test = known.get(text) ?? testOf(() => ajv.compile(JSON.parse(text) as Schema));
    known.set(text, test);
    return test;
  };
}

function testOf(compile: () => Test): Test {
  try {
    const test = compile();
    return (facts) => test(facts);
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** Throws where a rule can't be trusted, with its place. */
export function rulesOf(written: readonly Written[], $defs: Schema = {}): Rule[] {
  let compiler: ReturnType<typeof compilerOf> | undefined; // few clouds ask all packs
  return written.map((one, i) => {
    try {
      refuseDangling(one, $defs);
      let tests: Record<Part, Test> | undefined;
      const compiled = () => {
        const compile = (compiler ??= compilerOf($defs));
        return (tests ??= { applies: compile(one.applies), requires: compile(one.requires), conclusive: compile(one.conclusive ?? {}) });
      };
      const { applies: _applies, requires: _requires, conclusive: _conclusive, ...shown } = one;
      return { ...shown, tests: compiled, looksAt: looksAt(one) };
    } catch (error) {
      throw new Error(`rules.${i} (${one.obligationId}): ${(error as Error).message}`, { cause: error });
    }
  });
}
