// Regulation packs as files: which one counts when, and that a broken or edited one is refused with its place.
import { afterAll, expect, test } from "vitest";
import { digestOf } from "#shared/canonical.ts";
import { packFiles, packFolder, packLike, ruleLike } from "../../fixtures/packs.ts";
import { loadPacks, packFaults } from "../../cloud/packs.ts";

const folders: ReturnType<typeof packFolder>[] = [];
afterAll(() => folders.forEach(({ remove }) => remove()));
function load(files: Record<string, unknown>, released: Record<string, unknown> = files) {
  const folder = packFolder(files, released);
  folders.push(folder);
  return loadPacks(folder.at);
}
const versions = (...packs: ReturnType<typeof packLike>[]) =>
  load(Object.fromEntries(packs.map((pack) => [`${pack.celexId}-${pack.version}.json`, pack])));
const [y24, y25, y26] = ["2024-01-01T00:00:00.000Z", "2025-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z"];

test("every released pack has the shape of a pack, and every one of its rules can be compiled and run", () => {
  const threw: unknown[] = [];
  for (const [name, file] of Object.entries(packFiles())) expect([name, packFaults(file)]).toEqual([name, []]);
  for (const { rules } of loadPacks().all)
    for (const { tests } of rules)
      for (const test of Object.values(tests()))
        try {
          test({ product: {}, extensions: {} });
        } catch (error) {
          threw.push(error);
        }
  expect(threw).toEqual([]);
});

test("a version is a draft before its time, in effect until a newer one is, and superseded ever after", () => {
  const { all, stateOf, ofSector } = versions(
    packLike({ version: "1.0.0", effectiveFrom: y24 }),
    packLike({ version: "1.10.0", effectiveFrom: y26 }),
    packLike({ version: "1.9.0", effectiveFrom: y25 }),
    packLike({ version: "2.0.0", effectiveFrom: null }),
  );
  const at = (instant: string) => all.map((pack) => `${pack.version} ${stateOf(pack, Date.parse(instant))}`).toSorted();
  expect(at("2023-12-31T23:59:59.999Z")).toEqual(["1.0.0 draft", "1.10.0 draft", "1.9.0 draft", "2.0.0 draft"]);
  expect(at(y25)).toEqual(["1.0.0 superseded", "1.10.0 draft", "1.9.0 effective", "2.0.0 draft"]);
  expect(at(y26)).toEqual(["1.0.0 superseded", "1.10.0 effective", "1.9.0 superseded", "2.0.0 draft"]);
  expect(ofSector("espr", Date.parse(y26))?.version).toBe("1.10.0");
  expect(ofSector("espr", Date.parse(y24) - 1)).toBeUndefined();
  const ended = versions(packLike({ effectiveUntil: y25 }));
  expect(ended.stateOf(ended.all[0]!, Date.parse(y25))).toBe("superseded");
  expect(ended.ofSector("espr", Date.parse(y25))).toBeUndefined();
});

const name = "32024R1781-1.0.0.json";
const rule = (changes: Parameters<typeof ruleLike>[1]) =>
  packLike({ rules: [ruleLike("ESPR_ART1_OK"), ruleLike("ESPR_ART1_BAD", changes)] });
const extension = (field: string, schema: object) => ({ properties: { extensions: { properties: { [field]: schema } } } });

test.each<[string, unknown, string]>([
  ["not JSON", "{\n  nonsense", "it can't be read: Expected property name"],
  ["a field too many", { ...packLike(), colour: "red" }, "colour: isn't a known field"],
  ["a severity that isn't one", rule({ severity: "huge" as "major" }), "rules.1.severity: must be one of critical, major, minor"],
  [
    "a keyword of no rule",
    rule({ requires: extension("x", { oneOf: [] }) }),
    "rules.1.requires.properties.extensions.properties.x.oneOf: isn't a known field",
  ],
  [
    "a pattern that is none",
    rule({ requires: extension("productLifetimeYears", { pattern: "(" }) }),
    "productLifetimeYears.pattern: must match format",
  ],
  ["a reference to nothing", rule({ requires: { allOf: [{ $ref: "#/$defs/gone" }] } }), "rules.1 (ESPR_ART1_BAD): $defs has no gone"],
  [
    "a look at what isn't evidence",
    rule({ requires: extension("secret", { const: 1 }) }),
    `looks at "/extensions/secret", which isn't among its evidence`,
  ],
  ["a look at the whole", rule({ requires: { required: ["passport"] } }), `looks at ""`],
  ["applies that absence could undo", rule({ applies: { not: extension("productLifetimeYears", { const: 1 }) } }), `looks at ""`],
  ["evidence that everything has", rule({ evidence: ["/product/category"], requires: {} }), "proves nothing"],
  ["no rules", packLike({ rules: [] }), "rules: must NOT have fewer than 1 items"],
])("a file with %s is refused with its name and the place", (_what, file, words) => {
  expect(() => load({ [name]: file }, {})).toThrow(words);
  expect(() => load({ [name]: file }, {})).toThrow(`regulation pack ${name}: `);
});

test("a released version that was edited or is gone is refused; a new one has to be listed first", () => {
  const edited = { [name]: packLike({ priority: "critical" }) };
  expect(() => load(edited, { [name]: packLike() })).toThrow(
    `${name}: it was changed after it was released: give the change a new version`,
  );
  expect(() => load(edited, {})).toThrow(`digests.json doesn't have it yet: add "${name}": "${digestOf(edited[name])}"`);
  expect(() => load({}, { [name]: packLike() })).toThrow(`regulation pack ${name} was released and is gone`);
  const spaced = { [name]: JSON.stringify(packLike(), null, 4) };
  expect(load(spaced, { [name]: packLike() }).all).toHaveLength(1); // how it is spaced is no change of what it says
});

test("files that can't all be true are refused", () => {
  expect(() => load({ "espr.json": packLike() })).toThrow("it says that it is 32024R1781 1.0.0");
  expect(() => versions(packLike({ effectiveUntil: "2023-01-01T00:00:00.000Z" }))).toThrow("it ends before it begins");
  expect(() => versions(packLike(), packLike({ version: "1.1.0" }))).toThrow(
    "1.1.0.json: it is newer than 1.0.0 and has to take effect later",
  );
  expect(() => versions(packLike(), packLike({ celexId: "32011L0065" }))).toThrow("judges the sector espr at the same time");
  expect(() => versions(packLike({ rules: [ruleLike("ESPR_ART1_A"), ruleLike("ESPR_ART1_A")] }))).toThrow("ESPR_ART1_A is there twice");
});
