// Schema discovery: what is shown is what judges; the files themselves are held to their windows.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { catalogue, loadCatalogue } from "../../cloud/catalogue.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { patternWords } from "#shared/wire/common.ts";
import { freshFolder } from "../endings.ts";
import { world } from "../world.ts";

const w = await world();
const reader = w.as((await w.admin.post("/api-keys", { name: "reader", scopes: ["products:read"] })).body.data.secret);

test("a read-only key sees every category with its versions, jurisdiction, window and whether it is in effect", async () => {
  const { data } = (await reader.get("/schemas/categories")).body;
  expect(data.map(({ category, effectiveNow }: { category: string; effectiveNow: boolean }) => [category, effectiveNow])).toEqual([
    ["battery", true],
    ["dpp", false],
    ["electronics", true],
    ["furniture", true],
    ["textile", true],
    ["vehicle", false],
  ]);
  expect(data[2]).toMatchObject({ jurisdiction: "EU", effectiveUntil: null, versions: [{ version: "1.0.0", effectiveNow: true }] });
  expect(data[1]).toMatchObject({ effectiveFrom: null });
});

test("electronics has the eight fields of the spec, battery about thirty; what is shown is the very file that judges", async () => {
  const electronics = (await reader.get("/schemas/categories/electronics")).body;
  expect(Object.keys(electronics.fieldSchema.properties)).toEqual([
    "energyEfficiencyClass",
    "annualEnergyConsumptionKwh",
    "repairabilityScore",
    "sparePartsAvailabilityYears",
    "hazardousSubstances",
    "recycledContentPercentage",
    "productLifetimeYears",
    "weeeCategory",
  ]);
  expect(electronics._links.importTemplate).toBe("/api/v2/schemas/categories/electronics/import-template");
  expect(electronics.fieldSchema).toEqual(catalogue.find("electronics", Date.now())?.fieldSchema);
  const battery = (await reader.get("/schemas/categories/battery")).body;
  expect(Object.keys(battery.fieldSchema.properties).length).toBeGreaterThanOrEqual(30);
  const bare = (await reader.get("/schemas/categories/electronics?includeFields=false")).body;
  expect("fieldSchema" in bare).toBe(false);
});

const before1970 = "/electronics?date=1900-01-01T00:00:00Z";
test.each([
  "/toys",
  `/${"toys".repeat(20)}`,
  "/vehicle",
  "/electronics?date=2020-01-01T00:00:00Z",
  before1970,
  "/electronics?date=2020-01-01",
  "/electronics?jurisdiction=US",
  "/electronics?jurisdiction=eu",
  "/electronics?jurisdiction=Atlantis%20%26%20Mu",
  "/electronics/import-template?jurisdiction=atlantis",
])("a miss at %s is 404 SCHEMA_NOT_FOUND with the categories there are", async (path) => {
  const { status, body } = await reader.get(`/schemas/categories${path}`);
  expect([status, body.error.code]).toEqual([404, "SCHEMA_NOT_FOUND"]);
  expect(body.error.details.availableCategories).toEqual(path.includes("?") ? [] : ["battery", "electronics", "furniture", "textile"]);
});

test.each(["date=yesterday", "date=2024-02-30", "includeFields=perhaps", "jurisdiction=", "colour=red"])(
  "%s is refused by name",
  async (query) => {
    const { status, body } = await reader.get(`/schemas/categories/electronics?${query}`);
    expect([status, body.error.details.fields[0].field]).toEqual([400, query.split("=")[0]]);
  },
);

test("a day is asked for by itself, and begins at midnight UTC", async () => {
  const at = "/schemas/categories/electronics";
  expect((await reader.get(`${at}?date=2024-07-18`)).body).toEqual((await reader.get(`${at}?date=2024-07-18T00:00:00Z`)).body);
  expect([(await reader.get(`${at}?date=2024-07-18`)).status, (await reader.get(`${at}?date=2024-07-17`)).status]).toEqual([200, 404]);
});

test("a member of the EU has the EU's schemas, as it has its regulations", async () => {
  const at = "/schemas/categories/electronics";
  const home = (await reader.get(at)).body;
  for (const member of ["EU", "DE", "SE"]) {
    expect((await reader.get(`${at}?jurisdiction=${member}`)).body).toEqual(home);
    expect((await reader.get(`${at}/import-template?jurisdiction=${member}`)).status).toBe(200);
  }
});

test("what a category's pattern asks for is said in words, not as the expression", async () => {
  const { body } = await w.admin.post("/products/batch", {
    items: [
      productOf({ gtin: gtinOf(1), extensions: { hazardousSubstances: [{ name: "Lead", casNumber: "7439921" }] } }),
      productOf({ gtin: gtinOf(2), category: "textile", extensions: { countryOfManufacture: "Portugal" } }),
    ],
  });
  expect(body.errors.map(({ error }: { error: string }) => error)).toEqual([
    "VALIDATION_ERROR: extensions.hazardousSubstances.0.casNumber: must be a CAS number, such as 7439-92-1",
    "VALIDATION_ERROR: extensions.countryOfManufacture: must be a country's two capital letters of ISO 3166-1, such as DE",
  ]);
  const shown = (await reader.get("/schemas/categories")).body.data.filter(({ effectiveNow }: { effectiveNow: boolean }) => effectiveNow);
  for (const { category } of shown)
    for (const [, pattern] of JSON.stringify(catalogue.find(category, Date.now())?.fieldSchema).matchAll(/"pattern":("[^"]*")/g))
      expect(Object.keys(patternWords)).toContain(JSON.parse(pattern!));
});

test("the template is CSV, named after category and version, with a column for every field", async () => {
  const { status, headers, text } = await reader.get("/schemas/categories/textile/import-template");
  expect([status, headers.get("content-type")]).toEqual([200, "text/csv; charset=utf-8"]);
  expect(headers.get("content-disposition")).toContain("import-template-textile-v1.0.0.csv");
  const columns = text.trim().split(",");
  expect(columns).toEqual([
    "name",
    "description",
    "gtin",
    "serialNumber",
    "granularity",
    ...Object.keys(catalogue.find("textile", Date.now())?.fieldSchema.properties ?? {}),
  ]);
});

type File = {
  category?: string;
  version: string;
  effectiveFrom: string | null;
  effectiveUntil?: string | null;
  jurisdiction?: string;
  name?: string;
};
function load(...files: File[]) {
  const folder = freshFolder("categories");
  for (const { name, ...file } of files) {
    const whole = { category: "toys", jurisdiction: "EU", effectiveUntil: null, fieldSchema: { type: "object", properties: {} }, ...file };
    writeFileSync(join(folder, name ?? `${whole.category}-${file.version}.json`), JSON.stringify(whole));
  }
  return loadCatalogue(pathToFileURL(`${folder}/`));
}
const [y24, y25, y26] = ["2024-01-01T00:00:00.000Z", "2025-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z"];

test("the version in effect depends on the instant and the jurisdiction; the end belongs to the next", () => {
  const made = load(
    { version: "1.0.0", effectiveFrom: y24, effectiveUntil: y25 },
    { version: "2.0.0", effectiveFrom: y25 },
    { version: "2.0.1", effectiveFrom: y24, jurisdiction: "UK" },
  );
  const at = (instant: string, jurisdiction?: string) => made.find("toys", Date.parse(instant), jurisdiction)?.version;
  expect([at("2023-12-31T23:59:59.999Z"), at(y24), at("2024-12-31T23:59:59.999Z"), at(y25), at(y25, "UK")]).toEqual([
    undefined,
    "1.0.0",
    "1.0.0",
    "2.0.0",
    "2.0.1",
  ]);
});

test("files that can't all be true are refused at start", () => {
  expect(() => load({ version: "1.0.0", effectiveFrom: y24, effectiveUntil: y26 }, { version: "2.0.0", effectiveFrom: y25 })).toThrow(
    "toys 1.0.0 and 2.0.0 are both in effect at once in EU",
  );
  expect(() => load({ version: "1.0.0", effectiveFrom: y25, effectiveUntil: y24 })).toThrow("ends before it begins");
  expect(() => load({ version: "1.0.0", effectiveFrom: "soon" })).toThrow("instants");
  expect(() => load({ version: "1.0.0", effectiveFrom: y24, name: "toys-1.1.0.json" })).toThrow("says that it is toys 1.0.0");
});
