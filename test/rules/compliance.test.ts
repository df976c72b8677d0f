// Judgement as a function: fail-closed whatever is left out, the same bytes for the same facts, and packs that can be obeyed.
import * as fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import type { ComplianceStatus } from "#shared/compliance.ts";
import { batteryCases, cases, type Example, exemplary, exemplaryBattery, violating } from "../../fixtures/compliance.ts";
import { packFolder, packLike, ruleLike } from "../../fixtures/packs.ts";
import { type Facts, judge } from "../../cloud/domain/judgement.ts";
import { loadPacks } from "../../cloud/packs.ts";
import { contradictions } from "../house/contradictions.ts";

const { all } = loadPacks();
const folders: ReturnType<typeof packFolder>[] = [];
afterAll(() => folders.forEach(({ remove }) => remove()));
const packOf = (...rules: ReturnType<typeof ruleLike>[]) => {
  const folder = packFolder({ "32024R1781-1.0.0.json": packLike({ rules, $defs: { loop: { not: { $ref: "#/$defs/loop" } } } }) });
  folders.push(folder);
  return loadPacks(folder.at).all[0]!;
};
const never = (obligationId: string, error: unknown): never => {
  throw new Error(`${obligationId} threw`, { cause: error });
};

type Fields = Record<string, unknown>;
const factsOf = ({ name, description, category, extensions }: Example, passport?: Fields): Facts => ({
  product: {
    productName: name,
    productDescription: description,
    category,
    stage: passport ? "ready_for_dpp" : "draft",
    granularity: "model",
  },
  extensions,
  ...(passport ? { passport } : {}),
});
const published = (characteristics: Fields, changes: Fields = {}): Fields => ({
  status: "published",
  version: 1,
  revoked: false,
  content: {
    type: ["ProductPassport"],
    product: { characteristics },
    circularityScorecard: { recyclingInformation: { linkURL: "https://monitor.example/recycling" } },
  },
  ...changes,
});
const everything: Facts[] = Object.values(exemplary).flatMap((example) => [
  factsOf(example),
  factsOf(example, published(example.extensions)),
]);

test("every obligation of every pack can be met, and all of a pack together; a pack that contradicts itself is found", () => {
  expect(contradictions(all, [...everything, factsOf(exemplaryBattery)])).toEqual([]);
  const years = (schema: Fields) => ({ properties: { extensions: { properties: { productLifetimeYears: schema } } } });
  const alone = packOf(ruleLike("ESPR_ART1_A", { requires: years({ allOf: [{ minimum: 5 }, { maximum: 3 }] }) }));
  expect(contradictions([alone], everything)).toContain("32024R1781-1.0.0.json: no product meets ESPR_ART1_A");
  const pair = packOf(
    ruleLike("ESPR_ART1_A", { requires: years({ minimum: 7 }) }),
    ruleLike("ESPR_ART1_B", { requires: years({ maximum: 6 }) }),
  );
  expect(contradictions([pair], everything)).toEqual(
    ["electronics", "textile", "furniture"].map(
      (name) => `32024R1781-1.0.0.json: no product of the category ${name} meets all that applies to it`,
    ),
  );
});

test.each(Object.entries(batteryCases))("%s can be violated, though no route judges it", (obligationId, wrong) => {
  const pack = all.find(({ quarantined }) => quarantined)!;
  const outcome = (extensions: Fields) =>
    judge(pack, factsOf({ ...exemplaryBattery, extensions }), never).findings.find((one) => one.obligationId === obligationId)?.outcome;
  expect(outcome({ ...exemplaryBattery.extensions, ...wrong })).toBe("violated");
  expect(outcome({ batteryChemistry: "LFP" })).toBe("not_evaluated");
});

/** Known by name, by CAS number, by both or by neither; with a concentration and a place, or without. */
const substance = fc.oneof(
  fc.constantFrom<unknown>("lead", "nickel"),
  fc
    .tuple(
      fc.constantFrom(["Lead", "7439-92-1"], ["DEHP", "117-81-7"], ["Mercury", "7439-97-6"], ["Formaldehyde", "50-00-0"]),
      fc.boolean(),
      fc.record(
        { casNumber: fc.constant(true), concentrationPercentage: fc.constantFrom(0, 0.005, 0.05, 0.1, 5), location: fc.constant("board") },
        { requiredKeys: [] },
      ),
    )
    .map(([[name, cas], isNamed, { casNumber, ...rest }]) => ({
      name: isNamed ? name : "Compound 5",
      ...(casNumber ? { casNumber: cas } : {}),
      ...rest,
    })),
);

/** Any product that mixes what the fixtures declare, good and bad. */
const pools = (["electronics", "textile", "furniture"] as const).map((category) => {
  const wrong = Object.values(cases)
    .filter(({ on }) => on === category)
    .map(violating);
  const examples = [exemplary[category], ...wrong];
  const fields = [...new Set(examples.flatMap(({ extensions }) => Object.keys(extensions)))];
  const values = (name: string) => examples.filter(({ extensions }) => name in extensions).map(({ extensions }) => extensions[name]);
  return fc.record({
    name: fc.constantFrom(...examples.map((example) => example.name)),
    description: fc.constantFrom(...examples.map((example) => example.description)),
    category: fc.constant<string>(category),
    extensions: fc.record(
      Object.fromEntries(
        fields.map((name) => [
          name,
          name === "hazardousSubstances" ? fc.array(substance, { maxLength: 3 }) : fc.constantFrom(...values(name)),
        ]),
      ),
      { requiredKeys: [] },
    ),
  });
});
const passport = fc.option(
  fc.record({
    status: fc.constantFrom("draft", "published", "suspended"),
    version: fc.constant(1),
    revoked: fc.boolean(),
    content: fc.constantFrom(
      ...[["ProductPassport"], ["Brochure"]].map((type) => ({ ...(published({ energyEfficiencyClass: "C" })["content"] as Fields), type })),
    ),
  }),
  { nil: undefined },
);
const product = fc.tuple(fc.oneof(...pools), passport).map(([example, given]) => factsOf(example, given));

/** Every way to leave one thing out: a field, or a member of an object within but its name, which the category's schema asks for. */
function* without(value: unknown): Generator {
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    const rebuilt = (changed: unknown) => (Array.isArray(value) ? value.with(Number(key), changed) : { ...value, [key]: changed });
    if (!Array.isArray(value) && key !== "name") yield Object.fromEntries(Object.entries(value).filter(([name]) => name !== key));
    for (const less of without(inner)) yield rebuilt(less);
  }
}
/** How much compliance a status claims. */
const RANK: Record<ComplianceStatus, number> = { FullyCompliant: 2, PartiallyCompliant: 1, NonCompliant: 0, Indeterminate: 0, Unknown: 0 };

test("leaving any evidence out never raises a score or a status, and never makes a rule met", () => {
  fc.assert(
    fc.property(product, (facts) => {
      const { product, ...evidence } = facts;
      for (const pack of all) {
        const before = judge(pack, facts, never);
        const metBefore = new Set(before.findings.filter(({ outcome }) => outcome === "met").map(({ obligationId }) => obligationId));
        for (const one of without(evidence)) {
          const less = { extensions: {}, ...(one as object) };
          const after = judge(pack, { product, ...(less as Omit<Facts, "product">) }, never);
          const won = after.findings.filter(({ outcome, obligationId }) => outcome === "met" && !metBefore.has(obligationId));
          expect({ won, score: after.score <= before.score, status: RANK[after.status] <= RANK[before.status] }).toEqual({
            won: [],
            score: true,
            status: true,
          });
        }
      }
    }),
    { numRuns: 100 },
  );
});

test("fully compliant means that every rule that applies is met; unknown and missing never count", () => {
  fc.assert(
    fc.property(product, (facts) => {
      for (const pack of all) {
        const { findings, score, status } = judge(pack, facts, never);
        expect(findings.map(({ obligationId }) => obligationId)).toEqual(pack.rules.map(({ obligationId }) => obligationId));
        const applicable = findings.filter(({ outcome }) => outcome !== "not_applicable");
        const perfect = applicable.length > 0 && applicable.every(({ outcome }) => outcome === "met");
        expect([status === "FullyCompliant", score === 100]).toEqual([perfect, perfect]);
        if (!applicable.some(({ outcome }) => outcome === "met")) expect(score).toBe(0);
      }
    }),
    { numRuns: 200 },
  );
});

test("the same facts and the same file give the same bytes, also by rules loaded anew", () => {
  const again = loadPacks().all;
  fc.assert(
    fc.property(product, (facts) => {
      for (const [i, pack] of all.entries())
        expect(JSON.stringify(judge(again[i]!, structuredClone(facts), never))).toBe(JSON.stringify(judge(pack, facts, never)));
    }),
    { numRuns: 50 },
  );
});

test("a rule that throws is unknown, is told of, and the others stand", () => {
  const pack = packOf(
    ruleLike("ESPR_ART1_A"),
    ruleLike("ESPR_ART1_LOOP", {
      requires: { properties: { extensions: { properties: { productLifetimeYears: { $ref: "#/$defs/loop" } } } } },
    }),
    ruleLike("ESPR_ART1_B"),
  );
  const told: string[] = [];
  const { findings, status, score } = judge(pack, factsOf(exemplary.electronics), (obligationId) => told.push(obligationId));
  expect(findings.map(({ outcome }) => outcome)).toEqual(["met", "unknown", "met"]);
  expect([status, score, told]).toEqual(["Unknown", 66, ["ESPR_ART1_LOOP"]]);
});

test("only minor violations, and nothing missing, is partial; names inherited from objects are no evidence", () => {
  const minor = packOf(
    ruleLike("ESPR_ART1_A"),
    ruleLike("ESPR_ART1_B", {
      severity: "minor",
      requires: { properties: { extensions: { properties: { productLifetimeYears: { maximum: 1 } } } } },
    }),
  );
  expect(judge(minor, factsOf(exemplary.electronics), never)).toMatchObject({ status: "PartiallyCompliant", score: 66 });
  const inherited = packOf(ruleLike("ESPR_ART1_A", { evidence: ["/extensions/toString"], requires: {} }));
  expect(judge(inherited, factsOf(exemplary.electronics), never).findings[0]?.outcome).toBe("not_evaluated");
});
