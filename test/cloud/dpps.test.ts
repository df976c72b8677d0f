// EN 18222's reads: published passports for anybody, in EN 18223's envelope, and failures in both forms.
import { expect, test } from "vitest";
import * as domain from "../../cloud/domain/dpps.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { draftPassport, publish, publishedPassport } from "../../fixtures/passports.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { turnsOf } from "../../fixtures/turns.ts";
import { engine, world } from "../world.ts";

const w = await world();
let n = 520_000;
const next = () => gtinOf((n += 1));
const get = async (path: string) => (await w.nobody.get(`//v1/${path}`)).body;
const extensions = { energyEfficiencyClass: "A", recycledContentPercentage: 30, hazardousSubstances: ["lead"] };

test("a published passport is read by its id, as urn or bare, with its data as keys and values", async () => {
  const gtin = next();
  const { id, productId } = await publishedPassport(w.admin, { gtin, serialNumber: "S/1", extensions });
  const { content } = (await w.admin.get(`/passports/${id}`)).body;
  const dpp = await get(`dpps/urn:uuid:${id}`);
  expect(dpp).toEqual({
    ...content,
    digitalProductPassportId: `urn:uuid:${id}`,
    uniqueProductIdentifier: `${w.url}/01/${gtin}/21/S%2F1`,
    granularity: "item",
    dppSchemaVersion: "EN 18223:2026",
    dppStatus: "active",
    lastUpdated: expect.stringMatching(/^\d{4}-.*Z$/),
    economicOperatorId: expect.stringMatching(/^urn:uuid:/),
    contentSpecificationIds: ["https://test.uncefact.org/vocabulary/untp/dpp/0.6.0/"],
  });
  for (const same of [`dpps/${id}`, `dpps/urn%3Auuid%3A${id}`, `dppsByProductId/${productId}`]) expect(await get(same)).toEqual(dpp);
  const others = ["https://id.gs1.org", "https://brand.example/dpp", "https://brand.example/01/dpp/", "http://brand.example:8080/a/b"];
  for (const link of [dpp.uniqueProductIdentifier, ...others.map((place) => `${place}/01/${gtin}/21/S%2F1`)])
    expect(await get(`dppsByProductId/${encodeURIComponent(link)}?representation=compressed`)).toEqual(dpp);
});

test("in full it is a list of elements, each with its kind, its type and where it is defined", async () => {
  const { id } = await publishedPassport(w.admin, { gtin: next(), granularity: "model", extensions });
  const { elements, product, granularity } = await get(`dpps/${id}?representation=full`);
  expect([product, granularity]).toEqual([undefined, "model"]);
  const by = Object.fromEntries(elements.map((element: { elementId: string }) => [element.elementId, element]));
  expect(by["granularityLevel"]).toEqual({
    elementId: "granularityLevel",
    objectType: "SingleValuedDataElement",
    valueDataType: "xsd:string",
    dictionaryReference: "https://test.uncefact.org/vocabulary/untp/dpp/0.6.0/granularityLevel",
    value: "model",
  });
  expect(by["type"]).toMatchObject({ objectType: "MultiValuedDataElement", value: ["ProductPassport"] });
  expect(by["circularityScorecard"].value).toContainEqual(
    expect.objectContaining({ elementId: "recycledContent", valueDataType: "xsd:decimal", value: 0.3 }),
  );
  expect(by["materialsProvenance"]).toMatchObject({ objectType: "DataElementCollection", value: [{ elementId: "0" }] });
});

test("content of many small parts, in full thirty times as long, is written while it is sent, and holds nobody up", async () => {
  const { id, productId } = await draftPassport(w.admin, { gtin: next() });
  const places = Array.from({ length: 100_000 }, () => []);
  expect((await w.admin.patch(`/passports/${id}`, { content: { places } })).status).toBe(200);
  await publish(w.admin, productId);
  const path = `/v1/dpps/${id}?representation=full`;
  let text = "";
  const stood: number[] = [];
  for (let i = 0; i < 3; i += 1) {
    let [longest, at] = [0, performance.now()];
    const watch = setInterval(() => ([longest, at] = [Math.max(longest, performance.now() - at), performance.now()]), 1);
    const chunks: Uint8Array[] = [];
    for await (const chunk of (await fetch(w.url + path)).body ?? []) chunks.push(chunk);
    clearInterval(watch);
    stood.push(longest); // one of them may meet a busy machine
    text = Buffer.concat(chunks).toString("utf8");
  }
  const begun = performance.now();
  const { elements } = JSON.parse(text);
  expect(Math.min(...stood)).toBeLessThan(performance.now() - begun); // than what it takes to read it at once
  const { value } = elements.find(({ elementId }: { elementId: string }) => elementId === "places");
  expect([value.length, value[99_999]]).toEqual([
    100_000,
    { elementId: "99999", objectType: "MultiValuedDataElement", valueDataType: "xsd:string", value: [] },
  ]);
  const head = await w.nobody.send("HEAD", `/${path}`);
  expect([head.status, head.headers.get("content-type"), head.text]).toEqual([200, "application/json; charset=utf-8", ""]);
});

test("content can't pass for the envelope: what a passport says of its own status doesn't count", async () => {
  const { id, productId } = await draftPassport(w.admin, { gtin: next() });
  const { content } = (await w.admin.get(`/passports/${id}`)).body;
  const own = { dppStatus: "archived", digitalProductPassportId: "urn:uuid:other", elements: ["none"] };
  await w.admin.patch(`/passports/${id}`, { content: { ...content, ...own } });
  await publish(w.admin, productId);
  const dpp = await get(`dpps/${id}`);
  expect(dpp).toMatchObject({ dppStatus: "active", digitalProductPassportId: `urn:uuid:${id}` });
  expect(dpp).not.toHaveProperty("elements");
  const { elements } = await get(`dpps/${id}?representation=full`);
  expect(elements).toContainEqual(expect.objectContaining({ elementId: "elements", value: ["none"] }));
});

test("suspended, archived, voided or revoked it says so and nothing else; a draft and the unknown are 404 in both forms", async () => {
  const make = () => publishedPassport(w.admin, { gtin: next() });
  const [suspended, archived, voided, revoked] = [await make(), await make(), await make(), await make()];
  await w.admin.post(`/passports/${suspended.id}/suspend`);
  await w.admin.post(`/passports/${archived.id}/archive`);
  await w.admin.post(`/products/${voided.productId}/void`, { reason: "recalled" });
  await w.admin.post(`/credentials/${revoked.id}/revoke`);
  const expected = { [suspended.id]: "inactive", [archived.id]: "archived", [voided.id]: "invalid", [revoked.id]: "invalid" };
  for (const [id, dppStatus] of Object.entries(expected))
    for (const form of ["compressed", "full"]) {
      const dpp = await get(`dpps/${id}?representation=${form}`);
      expect([dpp.dppStatus, dpp.product, dpp.elements]).toEqual([dppStatus, undefined, undefined]);
    }
  const draft = await draftPassport(w.admin, { gtin: next() });
  for (const path of [
    `dpps/${draft.id}`,
    "dpps/x",
    `dppsByProductId/${draft.productId}`,
    "dppsByProductId/http%3A%2F%2Fx%2F01%2F1",
    "nothing",
  ]) {
    const answer = await w.nobody.get(`//v1/${path}`, { headers: { "x-correlation-id": "dpp-1" } });
    expect([answer.status, answer.body]).toEqual([
      404,
      {
        error: { code: "NOT_FOUND", message: expect.any(String) },
        statusCode: "ClientErrorResourceNotFound",
        message: [{ messageType: "Error", text: answer.body.error.message, code: "NOT_FOUND", correlationId: "dpp-1" }],
      },
    ]);
  }
  expect((await w.nobody.get(`//v1/dpps/${draft.id}?representation=short`)).body).toMatchObject({
    error: { code: "VALIDATION_ERROR" },
    statusCode: "ClientErrorBadRequest",
  });
  expect((await w.nobody.delete(`//v1/dpps/${draft.id}`)).body.statusCode).toBe("ClientMethodNotAllowed");
});

test("who looks again at what was updated since misses nothing: its moment goes on with each change of its status, and never back", async () => {
  const [it, other] = [await publishedPassport(w.admin, { gtin: next() }), await publishedPassport(w.admin, { gtin: next() })];
  const now = async ({ id }: { id: string }) => Date.parse((await get(`dpps/${id}`)).lastUpdated);
  const moments = [await now(it)];
  const steps = [
    () => w.admin.post(`/passports/${it.id}/suspend`),
    () => publish(w.admin, it.productId),
    () => w.admin.post(`/products/${it.productId}/void`, { reason: "recalled" }),
  ];
  for (const step of steps) {
    w.later(1_000);
    expect((await step()).status).toBe(200);
    moments.push(await now(it));
  }
  const gaps = moments.slice(1).map((moment, i) => moment - moments[i]! >= 1_000);
  expect(gaps).toEqual([true, true, true]);
  const before = await now(other);
  expect((await w.admin.post(`/credentials/${other.id}/revoke`)).status).toBe(200);
  expect(await now(other)).toBeGreaterThan(before + 2_000);
});

test("a link is decoded once, and names what it names: a lot isn't a serial, a model isn't its items", async () => {
  const [gtin, other] = [next(), next()];
  const item = await publishedPassport(w.admin, { gtin, serialNumber: "A%2FB" });
  await publishedPassport(w.admin, { gtin: other, serialNumber: "L1", granularity: "batch" });
  const status = async (link: string) => (await w.nobody.get(`//v1/dppsByProductId/${encodeURIComponent(link)}`)).status;
  expect((await get(`dppsByProductId/${encodeURIComponent(`${w.url}/01/${gtin}/21/A%252FB`)}`)).digitalProductPassportId).toBe(
    `urn:uuid:${item.id}`,
  );
  expect(await status(`${w.url}/01/${gtin}/21/A%2FB`)).toBe(404);
  expect(await status(`${w.url}/01/${gtin}`)).toBe(404);
  expect([await status(`${w.url}/01/${other}/10/L1`), await status(`${w.url}/01/${other}/21/L1`)]).toEqual([200, 404]);
  for (const odd of ["%E0%A4%A", "%00", "%F0%9F%8D%8E", "x".repeat(21), "..%2F..", "L1/21/1"])
    expect([odd, await status(`${w.url}/01/${other}/10/${odd}`)]).toEqual([odd, 404]);
});

test("the link on a label finds the passport of its product, alone or among many, as it does at the resolver; a serial that nobody allocated finds none, a voided one is gone", async () => {
  const shop = await printShop(w);
  const job = await shop.issue();
  const at = (link: string) => w.nobody.get(`//v1/dppsByProductId/${encodeURIComponent(link)}`);
  const { status, body } = await at(job.digital_link);
  expect([status, body.digitalProductPassportId, body.dppStatus]).toEqual([200, `urn:uuid:${shop.passportId}`, "active"]);
  expect((await at(`https://id.gs1.org/01/${shop.gtin}/21/${job.serial}`)).body).toEqual(body);
  expect((await at(`${w.url}/01/${shop.gtin}/21/7`)).status).toBe(404);
  await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial: job.serial });
  const gone = await at(job.digital_link);
  const other = await shop.issue();
  const idsOf = async (...productIds: string[]) => (await w.nobody.send("POST", "//v1/dppsByProductIds", { json: { productIds } })).body;
  const unknown = `${w.url}/01/${shop.gtin}/21/7`;
  expect(await idsOf(other.digital_link)).toEqual({ dppIds: [`urn:uuid:${shop.passportId}`] });
  expect(await idsOf(job.digital_link, unknown)).toEqual({ dppIds: [] });
  expect(await idsOf(job.digital_link, other.digital_link, `${w.url}/01/${shop.gtin}`)).toEqual({
    dppIds: [`urn:uuid:${shop.passportId}`],
  });
  expect([gone.status, gone.body.error.code, gone.body.statusCode]).toEqual([410, "SERIAL_VOIDED", "ClientErrorResourceNotFound"]);
});

test("a thousand labels are looked up some at a time, and others get a turn in between", async () => {
  const labels = Array.from({ length: 1_000 }, (_, i) => `${w.url}/01/${gtinOf(i)}/21/${i}`);
  const made = await publishedPassport(w.admin, { gtin: next() });
  const { counted, end } = turnsOf(w.store);
  const found = await domain.idsOf(counted, [...labels.slice(1), made.productId], {}, w.url);
  const looks = end();
  expect(found).toEqual({ dppIds: [`urn:uuid:${made.id}`] });
  expect(looks).toHaveLength(engine === "sqlite" ? 21 : 2); // and the last one is for the passports; a server has others to look
  const ofLabels = looks.slice(0, -1); // the last may go along with somebody else's look of the same turn
  expect(new Set(ofLabels).size).toBe(ofLabels.length);
});

test("the ids of many products' passports page without losing or doubling, whatever is published meanwhile", async () => {
  const made = [];
  for (let i = 0; i < 7; i += 1) made.push(await publishedPassport(w.admin, { gtin: next() }));
  const draft = await draftPassport(w.admin, { gtin: next() });
  const productIds = [...made, ...made, draft].map(({ productId }) => productId);
  const seen: string[] = [];
  for (let cursor: string | undefined = ""; cursor !== undefined;) {
    const answer = await w.nobody.send("POST", `//v1/dppsByProductIds?limit=3${cursor && `&cursor=${cursor}`}`, { json: { productIds } });
    expect(answer.status).toBe(200);
    seen.push(...answer.body.dppIds);
    cursor = answer.body.nextCursor as string | undefined;
    await publish(w.admin, draft.productId);
  }
  expect(seen.slice(0, 7)).toEqual(made.map(({ id }) => `urn:uuid:${id}`).toSorted());
  expect(new Set(seen).size).toBe(seen.length);
  const ask = (json: unknown, query = "") => w.nobody.send("POST", `//v1/dppsByProductIds${query}`, { json });
  expect((await ask({ productIds: ["nothing", "https://x/01/1"] })).body).toEqual({ dppIds: [] });
  for (const answer of [
    await ask({ productIds: [] }),
    await ask({}),
    await ask({ productIds: Array(1_001).fill("x") }),
    await ask({ productIds: ["x"] }, "?cursor=zz"),
  ])
    expect([answer.status, answer.body.statusCode]).toEqual([400, "ClientErrorBadRequest"]);
});
