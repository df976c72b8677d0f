// Compliance through the API: every obligation met, violated and without data; fail-closed, pinned, told of once.
import { sql } from "drizzle-orm";
import { expect, test } from "vitest";
import { sectorNames } from "#shared/compliance.ts";
import type { Evaluation, Finding } from "#shared/wire/compliance.ts";
import {
  batteryCases,
  cases,
  type Example,
  exemplary,
  exemplaryBattery,
  exemplaryContent,
  lacking,
  passportCases,
  violating,
} from "../../fixtures/compliance.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { DEFAULT_TENANT } from "../../cloud/domain/tenants.ts";
import { loadPacks } from "../../cloud/packs.ts";
import { subscriptions } from "../../cloud/store/schema.ts";
import { world } from "../world.ts";

const w = await world();
await w.store.write("listen", async ({ db }) => {
  for (const type of ["compliance.verified", "compliance.violation_created"] as const)
    await db.insert(subscriptions).values({ tenantId: DEFAULT_TENANT, type, webhookId: "listener" });
});
const reader = w.as((await w.admin.post("/api-keys", { name: "reader", scopes: ["products:read"] })).body.data.secret);
const packs = loadPacks();
const judging = packs.all.filter((pack) => packs.stateOf(pack, Date.now()) === "effective" && !pack.quarantined);
const sectorOf = (obligationId: string) => {
  const sector = judging.find(({ rules }) => rules.some((rule) => rule.obligationId === obligationId))?.sectors[0];
  if (!sector) throw new Error(`no pack has ${obligationId}`);
  return sector;
};

let n = 400_000;
async function make(example: Example, admin = w.admin): Promise<string> {
  const { status, body, text } = await admin.post("/products", { ...example, gtin: gtinOf((n += 1)), serialNumber: "1" });
  if (status !== 201) throw new Error(text);
  return body.id;
}
const full = async (id: string, sector: string): Promise<Evaluation> => {
  const { status, body, text } = await reader.get(`/products/${id}/compliance/${sector}/full`);
  if (status !== 200) throw new Error(`${status}: ${text}`);
  return body;
};
const findingOf = async (id: string, obligationId: string) => {
  const evaluation = await full(id, sectorOf(obligationId));
  const finding = evaluation.findings.find((one) => one.obligationId === obligationId) as Finding;
  return { ...evaluation, finding };
};

/** A product on the brink of the market, with a passport published or a draft. */
async function withPassport(change: (content: Record<string, unknown>) => Record<string, unknown>, published: boolean): Promise<string> {
  const id = await make(exemplary.electronics);
  for (const stage of ["validated", "ready_for_dpp"]) await w.admin.post(`/products/${id}/lifecycle/transition`, { stage });
  const passport = (await w.admin.post("/dpps", { productId: id })).body.id;
  const { content } = (await w.admin.get(`/passports/${passport}`)).body;
  const edited = await w.admin.patch(`/passports/${passport}`, { content: change({ ...content, ...exemplaryContent }) });
  if (edited.status !== 200) throw new Error(edited.text);
  if (published) await w.admin.post(`/products/${id}/publish-dpp`, undefined, { "idempotency-key": id });
  return id;
}

test("there are at least eight obligations of ESPR, five of each other sector, and a fixture of each", () => {
  const known = new Set([...Object.keys(cases), ...Object.keys(passportCases)]);
  for (const { sectors, rules } of judging) {
    expect([sectors, rules.length]).toEqual([sectors, expect.toSatisfy((many) => many >= (sectors[0] === "espr" ? 8 : 5))]);
    expect(rules.map(({ obligationId }) => obligationId).filter((name) => !known.has(name))).toEqual([]);
  }
});

const good = {
  electronics: await make(exemplary.electronics),
  textile: await make(exemplary.textile),
  furniture: await make(exemplary.furniture),
};

test.each(Object.entries(cases))(
  "%s: met on evidence, violated where it isn't so, not evaluated where a field is missing",
  async (obligationId, given) => {
    const met = (await findingOf(good[given.on], obligationId)).finding;
    expect([met.outcome, met.evidence.missing, met.message]).toEqual(["met", [], expect.stringContaining("Met")]);

    const wrong = await findingOf(await make(violating(given)), obligationId);
    expect([wrong.finding.outcome, wrong.status === "FullyCompliant", wrong.score < 100]).toEqual(["violated", false, true]);
    expect(wrong.finding.evidence.satisfiedBy.length).toBeGreaterThan(10);

    const bare = await findingOf(await make(lacking(given)), obligationId);
    expect([bare.finding.outcome, bare.status]).toEqual(["not_evaluated", "Indeterminate"]);
    expect(bare.finding.evidence.missing).toEqual(expect.arrayContaining([`/extensions/${given.lacks[0]}`]));
    for (const name of bare.finding.evidence.missing) expect(bare.finding.message).toContain(name.slice(1).replaceAll("/", "."));
  },
);

test.each(Object.entries(passportCases))("%s: judged by the passport, once the product is ready for one", async (obligationId, change) => {
  expect((await findingOf(good.electronics, obligationId)).finding.outcome).toBe("not_applicable");
  const met = await findingOf(await withPassport((content) => content, true), obligationId);
  expect([met.finding.outcome, met.status, met.passport?.version]).toEqual(["met", "FullyCompliant", 1]);
  const wrong = change === "draft" ? withPassport((content) => content, false) : withPassport(change, true);
  expect(await findingOf(await wrong, obligationId)).toMatchObject({ finding: { outcome: "violated" }, status: "NonCompliant" });
  const bare = await make(exemplary.electronics);
  for (const stage of ["validated", "ready_for_dpp"]) await w.admin.post(`/products/${bare}/lifecycle/transition`, { stage });
  expect(await findingOf(bare, obligationId)).toMatchObject({ finding: { outcome: "not_evaluated" }, passport: null });
});

test("a passport whose credential was revoked by itself isn't available any more", async () => {
  const id = await withPassport((content) => content, true);
  expect((await findingOf(id, "ESPR_ART9_PASSPORT_AVAILABLE")).finding.outcome).toBe("met");
  const { data } = (await w.admin.get(`/passports?productId=${id}`)).body;
  expect((await w.admin.post(`/credentials/${data[0].id}/revoke`)).status).toBe(200);
  expect((await findingOf(id, "ESPR_ART9_PASSPORT_AVAILABLE")).finding.outcome).toBe("violated");
});

test("a product that meets all is fully compliant wherever a rule concerns it; elsewhere nothing is claimed", async () => {
  for (const [category, id] of Object.entries(good)) {
    const { data } = (await reader.get(`/products/${id}/compliance`)).body;
    expect(data.map(({ sector }: Evaluation) => sector)).toEqual(sectorNames.filter((sector) => sector !== "battery"));
    for (const { sector, score, status } of data) {
      const concerns = judging.find(({ sectors }) => sectors.includes(sector))?.categories?.includes(category) ?? true;
      expect([sector, score, status]).toEqual([sector, concerns ? 100 : 0, concerns ? "FullyCompliant" : "Indeterminate"]);
    }
  }
});

test("a product without compliance data scores 0, is Indeterminate, and is told what is missing, with or without a passport", async () => {
  const id = await make({ ...exemplary.electronics, extensions: {} });
  for (const stage of ["validated", "ready_for_dpp"]) await w.admin.post(`/products/${id}/lifecycle/transition`, { stage });
  await w.admin.post("/dpps", { productId: id });
  await w.admin.post(`/products/${id}/publish-dpp`, undefined, { "idempotency-key": id });
  for (const sector of ["espr", "energy", "rohs", "weee", "reach"]) {
    const { score, status, findings } = await full(id, sector);
    expect([sector, score, status]).toEqual([sector, 0, "Indeterminate"]);
    expect(findings.some(({ outcome, message }) => outcome === "not_evaluated" && message.includes("Missing: extensions."))).toBe(true);
  }
});

test("what is declared but doesn't decide is unknown, and unknown is never counted as met", async () => {
  for (const hazardousSubstances of [["lead"], [{ name: "Lead" }], [{ name: "Something", concentrationPercentage: 5 }]]) {
    const id = await make({ ...exemplary.electronics, extensions: { ...exemplary.electronics.extensions, hazardousSubstances } });
    const { finding, status, score } = await findingOf(id, "ROHS_ART4_LEAD");
    expect([finding.outcome, status, score < 100]).toEqual(["unknown", "Unknown", true]);
  }
});

test("a class of the former scale may be written down, and violates the rules that speak of it", async () => {
  const id = await make({ ...exemplary.electronics, extensions: { ...exemplary.electronics.extensions, energyEfficiencyClass: "A+++" } });
  const { finding, status } = await findingOf(id, "ENERGY_ART3_LABEL_VALUES");
  expect([finding.outcome, status]).toEqual(["violated", "NonCompliant"]);
});

test("every finding names its fields with the values of that time, also after the product has changed", async () => {
  const id = await make(exemplary.electronics);
  const first = await reader.get(`/products/${id}/compliance/espr/full`);
  const { finding } = await findingOf(id, "ESPR_ART7_DURABILITY");
  expect(finding).toEqual({
    obligationId: "ESPR_ART7_DURABILITY",
    title: "The expected lifetime is stated",
    article: "Art. 7(2)(b)(i), Annex I",
    text: expect.stringContaining("lifetime"),
    outcome: "met",
    severity: "major",
    message: "Met: The expected lifetime is stated.",
    evidence: {
      fields: [
        { field: "/product/category", present: true, value: "electronics" },
        { field: "/extensions/productLifetimeYears", present: true, value: 9 },
      ],
      missing: [],
      satisfiedBy: "State productLifetimeYears, above 0.",
    },
  });
  const { productLifetimeYears: _gone, ...extensions } = exemplary.electronics.extensions;
  await w.admin.patch(`/products/${id}`, { extensions });
  const second = await findingOf(id, "ESPR_ART7_DURABILITY");
  expect([second.finding.outcome, second.productVersion]).toEqual(["not_evaluated", 2]);
  expect(second.finding.evidence.fields[1]).toEqual({ field: "/extensions/productLifetimeYears", present: false });
  expect(first.body.productVersion).toBe(1);
});

test("a value too long to be shown in every finding is named by its digest", async () => {
  const item = { name: "x".repeat(300), casNumber: "7440-02-0", concentrationPercentage: 0.01, location: "y".repeat(300) };
  const id = await make({
    ...exemplary.electronics,
    extensions: { ...exemplary.electronics.extensions, hazardousSubstances: Array.from({ length: 20 }, () => item) },
  });
  const { finding } = await findingOf(id, "ROHS_ART4_LEAD");
  expect(finding.evidence.fields[1]).toEqual({
    field: "/extensions/hazardousSubstances",
    present: true,
    digest: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
});

const told = async (productId: string) => {
  const rows = await w.store.read("told", async ({ db }) => db.values<[string, string]>(sql`SELECT type, body FROM outbox ORDER BY id`));
  return rows.map(([type, body]) => ({ type, ...JSON.parse(body).data })).filter((event) => event.productId === productId);
};

test("the same product version and pack give the same bytes, stored once and told of once, however many ask at once", async () => {
  const id = await make(violating(cases["ROHS_ART4_LEAD"]!));
  const path = `/products/${id}/compliance/rohs/full`;
  const answers = await Promise.all(Array.from({ length: 8 }, () => reader.get(path)));
  w.later(60_000);
  await w.restart();
  answers.push(await reader.get(path));
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
  const { status, score, pack } = answers[0]!.body;
  expect(pack).toEqual({ celexId: "32011L0065", version: "1.0.0", digest: packs.ofSector("rohs", Date.now())?.digest });
  const data = { productId: id, sector: "rohs", pack: { celexId: "32011L0065", version: "1.0.0" }, status, score };
  expect(await told(id)).toEqual([
    { type: "compliance.verified", ...data, obligationIds: expect.not.arrayContaining(["ROHS_ART4_LEAD"]) },
    { type: "compliance.violation_created", ...data, obligationIds: ["ROHS_ART4_LEAD"] },
  ]);
});

test("a product without violations is told of as verified, and of no violation", async () => {
  const id = await make(exemplary.furniture);
  await full(id, "reach");
  expect((await told(id)).map(({ type, status }) => [type, status])).toEqual([["compliance.verified", "FullyCompliant"]]);
});

test("a passport that changes is judged anew only by packs that look at passports", async () => {
  const id = await withPassport((content) => content, false);
  const before = [await full(id, "rohs"), await full(id, "espr")];
  w.later(1_000);
  const { uid } = (await w.admin.post(`/products/${id}/publish-dpp`, undefined, { "idempotency-key": `${id}-2` })).body;
  expect(uid).toBe(id);
  const passport = before[1]?.passport?.id;
  const rohs = await full(id, "rohs");
  const espr = await full(id, "espr");
  w.later(1_000);
  await w.admin.post(`/passports/${passport}/suspend`);
  expect(await full(id, "rohs")).toEqual(rohs);
  const suspended = await full(id, "espr");
  expect([espr.status, suspended.status]).toEqual(["FullyCompliant", "NonCompliant"]);
});

test("a passport deleted and made anew isn't taken for the one before", async () => {
  const id = await withPassport((content) => content, false);
  const first = await full(id, "espr");
  await w.admin.delete(`/passports/${first.passport?.id}`);
  expect((await full(id, "espr")).passport).toBeNull();
  const made = (await w.admin.post("/dpps", { productId: id })).body;
  await w.admin.patch(`/passports/${made.id}`, { content: (await w.admin.get(`/passports/${made.id}`)).body.content });
  const second = await full(id, "espr");
  expect([second.passport?.id, second.passport?.revision]).toEqual([made.id, first.passport?.revision]);
});

test("batteries aren't judged: not in their sector, not in any other, and not at all", async () => {
  const id = await make(exemplaryBattery);
  for (const path of [...sectorNames.flatMap((sector) => [`/${sector}/full`, `/${sector}/report`]), ""]) {
    const { status, body } = await reader.get(`/products/${id}/compliance${path}`);
    expect([path, status, body.error.code]).toEqual([path, 503, "COMPLIANCE_EVALUATION_UNAVAILABLE"]);
  }
  const kettle = await reader.get(`/products/${good.electronics}/compliance/battery/full`);
  expect([kettle.status, kettle.body.error.code]).toEqual([503, "COMPLIANCE_EVALUATION_UNAVAILABLE"]);
  expect(await told(id)).toEqual([]);
  expect(Object.keys(batteryCases).length).toBeGreaterThanOrEqual(5);
});

test("an unknown sector is 404 with the list; an unknown or foreign product is 404", async () => {
  for (const sector of ["tyres", "ESPR", "constructor"]) {
    const { status, body } = await reader.get(`/products/${good.electronics}/compliance/${sector}/full`);
    expect([status, body.error.code, body.error.details]).toEqual([404, "NOT_FOUND", { availableSectors: sectorNames }]);
  }
  const { admin: stranger } = await w.tenant("stranger");
  for (const path of ["/espr/full", "/espr/report", ""])
    expect((await stranger.get(`/products/${good.electronics}/compliance${path}`)).body.error.code).toBe("NOT_FOUND");
  const batch = await stranger.post("/compliance/evaluations", { productIds: [good.electronics, "nothing"], sectors: ["espr"] });
  expect(batch.body).toEqual({
    data: [],
    errors: [good.electronics, "nothing"].map((productId, index) => ({
      index,
      productId,
      sector: "espr",
      error: "NOT_FOUND: there is no such product in this tenant",
    })),
  });
});

test("a batch judges each by itself, stores what a single evaluation shows, and tells what couldn't be judged", async () => {
  const ids = await Promise.all([
    make(exemplary.electronics),
    make(exemplaryBattery),
    make(violating(cases["ESPR_ART7_DURABILITY"]!)),
    make(exemplary.textile),
  ]);
  const { status, body } = await reader.post("/compliance/evaluations", { productIds: [...ids, ids[0]], sectors: ["espr", "reach"] });
  expect(status).toBe(200);
  expect(body.data.map(({ productId, sector }: Evaluation) => [productId, sector])).toEqual(
    [ids[0], ids[2], ids[3], ids[0]].flatMap((id) => [
      [id, "espr"],
      [id, "reach"],
    ]),
  );
  expect(body.errors.map(({ index, sector }: { index: number; sector: string }) => [index, sector])).toEqual([
    [1, "espr"],
    [1, "reach"],
  ]);
  expect(body.errors[0].error).toContain("COMPLIANCE_EVALUATION_UNAVAILABLE");
  const {
    findings: _findings,
    productName: _name,
    gtin: _gtin,
    productVersion: _version,
    passport: _passport,
    ...summed
  } = await full(ids[2], "espr");
  expect(body.data[2]).toEqual(summed);
  expect((await told(ids[0])).map(({ type }) => type)).toEqual(["compliance.verified", "compliance.verified"]);
});

test.each([
  [{ productIds: [] }, "productIds"],
  [{ productIds: Array.from({ length: 1_001 }, () => "x") }, "productIds"],
  [{ productIds: ["x"], sectors: ["tyres"] }, "sectors.0"],
  [{ productIds: ["x"], sectors: [] }, "sectors"],
  [{}, "productIds"],
])("a batch of %j is refused by name", async (body, field) => {
  const answer = await reader.post("/compliance/evaluations", body);
  expect([answer.status, answer.body.error.details.fields[0].field]).toEqual([400, field]);
});

const context = {
  region: "EU",
  productCategory: "electronics",
  lifecycleStage: "placing_on_market",
  effectiveDate: "2026-11-01T00:00:00.000Z",
};
const select = async (changes: object, minimumPriorityLevel = "low") =>
  (await reader.post("/compliance/regulations/select", { context: { ...context, ...changes }, minimumPriorityLevel })).body;
const celexIn = ({ data }: { data: { celexId: string; version: string }[] }) => data.map(({ celexId, version }) => `${celexId} ${version}`);

test("regulations are selected by region, category, stage, instant and priority", async () => {
  const all = await select({});
  expect(celexIn(all)).toEqual(["32006R1907 1.1.0", "32011L0065 1.0.0", "32012L0019 1.0.0", "32017R1369 1.0.0", "32024R1781 1.0.0"]);
  expect(all.data[4]).toMatchObject({
    celexId: "32024R1781",
    version: "1.0.0",
    title: expect.stringContaining("Ecodesign"),
    status: "effective",
    priority: "critical",
    sectors: ["espr"],
    effectiveFrom: "2024-07-18T00:00:00.000Z",
  });
  expect([all.unrecognised, all.evaluatedAt]).toEqual([[], expect.stringMatching(/Z$/)]);
  expect(celexIn(await select({ region: "DE" }))).toEqual(celexIn(all));
  expect(celexIn(await select({}, "critical"))).toEqual(["32024R1781 1.0.0"]);
  expect(celexIn(await select({}, "high"))).not.toContain("32012L0019 1.0.0");
  expect(celexIn(await select({ productCategory: "textile" }))).toEqual(["32006R1907 1.1.0", "32011R1007 1.0.0", "32024R1781 1.0.0"]);
  expect(celexIn(await select({ lifecycleStage: "end_of_life" }))).toEqual(["32012L0019 1.0.0", "32024R1781 1.0.0"]);
  expect(celexIn(await select({ effectiveDate: "2022-01-01T00:00:00+02:00" }))).toEqual([
    "32006R1907 1.0.0",
    "32011L0065 1.0.0",
    "32012L0019 1.0.0",
    "32017R1369 1.0.0",
  ]);
  const packs = (await select({ effectiveDate: "2024-07-18T00:00:00.000Z" })).data;
  expect((await select({ effectiveDate: "2024-07-18" })).data).toEqual(packs);
  expect(celexIn(await select({ effectiveDate: "2024-07-17" }))).not.toContain("32024R1781 1.0.0");
  expect(celexIn(await select({ productCategory: "battery" }))).toContain("32023R1542 1.0.0");
});

test("a category or stage that nobody knows narrows nothing, and that is said", async () => {
  const { data, unrecognised } = await select({ productCategory: "toys", lifecycleStage: "dawn" });
  expect([data.length, unrecognised]).toEqual([7, ["productCategory", "lifecycleStage"]]);
});

test.each([
  [{ effectiveDate: "soon" }, "low", "context.effectiveDate", "ISO 8601"],
  [{ effectiveDate: "2026-02-30T00:00:00Z" }, "low", "context.effectiveDate", "ISO 8601"],
  [{ effectiveDate: "2026-02-30" }, "low", "context.effectiveDate", "ISO 8601"],
  [{ region: "US" }, "low", "context.region", "EU, AT, BE"],
  [{}, "urgent", "minimumPriorityLevel", "low, medium, high, critical"],
  [{ colour: "red" }, "low", "context.colour", "isn't a known field"],
])("%j with %s is 400 with what would be allowed", async (changes, level, field, words) => {
  const { error } = await select(changes, level);
  expect([error.code, error.details.fields[0].field, error.details.fields[0].message]).toEqual([
    "VALIDATION_ERROR",
    field,
    expect.stringContaining(words),
  ]);
});

test("packs are listed with state and digest, superseded and quarantined ones too", async () => {
  const { data } = (await reader.get("/compliance/packs")).body;
  expect(data.map(({ celexId, version, status, quarantined }: Record<string, unknown>) => [celexId, version, status, quarantined])).toEqual(
    [
      ["32006R1907", "1.0.0", "superseded", false],
      ["32006R1907", "1.1.0", "effective", false],
      ["32011L0065", "1.0.0", "effective", false],
      ["32011R1007", "1.0.0", "effective", false],
      ["32012L0019", "1.0.0", "effective", false],
      ["32017R1369", "1.0.0", "effective", false],
      ["32023R1542", "1.0.0", "effective", true],
      ["32024R1781", "1.0.0", "effective", false],
    ],
  );
  expect(data[0].digest).toBe(packs.all[0]?.digest);
});

test("the report is a page that prints: no script, nothing loaded, nothing of the product taken for markup", async () => {
  const name = `<script>alert("1")</script> & Sons`;
  const id = await make({ ...violating(cases["ROHS_ART4_LEAD"]!), name });
  const { status, headers, text } = await reader.get(`/products/${id}/compliance/rohs/report`);
  expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
  const csp = headers.get("content-security-policy") ?? "";
  expect(csp).toMatch(/^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/=]+'; /);
  expect(text).not.toContain("<script");
  expect(text).toContain("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; Sons");
  const { pack, findings } = await full(id, "rohs");
  for (const { obligationId } of findings) expect(text).toContain(obligationId);
  for (const words of [pack.digest, "no legal advice", "Non-compliant", "Lead oxide", "What would satisfy it"])
    expect(text).toContain(words);
});
