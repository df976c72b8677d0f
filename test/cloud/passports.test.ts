// Passports: from a ready product to something that a stranger verifies with jose, plain crypto and nothing of ours.
import { createHash } from "node:crypto";
import { gunzipSync } from "node:zlib";
import canonicalize from "canonicalize";
import { createLocalJWKSet, importJWK, jwtVerify } from "jose";
import { expect, test } from "vitest";
import { DEFAULT_TENANT } from "../../cloud/domain/tenants.ts";
import * as passports from "../../cloud/domain/passports.ts";
import { eq } from "../../cloud/store/drizzle.ts";
import * as schema from "../../cloud/store/schema.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { type Client, refusal } from "../../fixtures/client.ts";
import { productOf } from "../../fixtures/passports.ts";
import { world } from "../world.ts";

const w = await world();
let n = 400_000;
const extensions = {
  energyEfficiencyClass: "A",
  recycledContentPercentage: 30,
  hazardousSubstances: ["lead", { name: "tin", concentrationPercentage: 5 }],
};
const kettle = (more: Record<string, unknown> = {}) =>
  productOf({ gtin: gtinOf((n += 1)), serialNumber: "SN/1", granularity: "item", extensions, ...more });
async function ready(as: Client = w.admin, more: Record<string, unknown> = {}) {
  const { id } = (await as.post("/products", kettle(more))).body;
  for (const stage of ["validated", "ready_for_dpp"]) await as.post(`/products/${id}/lifecycle/transition`, { stage });
  return id as string;
}
async function generated(as: Client = w.admin, more: Record<string, unknown> = {}) {
  const productId = await ready(as, more);
  const { status, body, headers } = await as.post("/passports/generate", { productId });
  expect([status, headers.get("location"), body.data]).toEqual([
    202,
    `/api/v2/passports/${body.data.id}`,
    { id: body.data.id, uid: productId, status: "generating" },
  ]);
  await expect.poll(async () => (await as.get(`/passports/${body.data.id}`)).body.status).toBe("draft");
  return { id: body.data.id as string, productId };
}
const publish = (productId: string, as: Client = w.admin) =>
  as.post(`/products/${productId}/publish-dpp`, undefined, { "idempotency-key": crypto.randomUUID() });
const sha256 = (...parts: Buffer[]) => createHash("sha256").update(Buffer.concat(parts)).digest();

test("a passport is made by a worker, says what the product says in UNTP's vocabulary, and names it by Digital Link", async () => {
  const { id } = await generated();
  const { body } = await w.admin.get(`/passports/${id}`);
  expect(body).toMatchObject({ status: "draft", version: 1, draftVersion: 1, publishedVersion: null });
  expect(body.content).toMatchObject({
    type: ["ProductPassport"],
    granularityLevel: "item",
    product: {
      id: `${w.url}/01/${gtinOf(n)}/21/SN%2F1`,
      registeredId: gtinOf(n),
      serialNumber: "SN/1",
      characteristics: { energyEfficiencyClass: "A" },
    },
    circularityScorecard: { recycledContent: 0.3 },
    materialsProvenance: [
      { name: "lead", hazardous: true },
      { name: "tin", hazardous: true, massFraction: 0.05 },
    ],
  });
  expect(body.digest).toBe(
    createHash("sha256")
      .update(canonicalize(body.content) ?? "")
      .digest("hex"),
  );
});

test("passports that can't be made hold up none that were asked for at the same time", async () => {
  const own = await world(); // what it logs is its own
  const [broken, whole] = [await ready(own.admin), await ready(own.admin)];
  const by = { tenantId: DEFAULT_TENANT, actor: { kind: "system" as const, id: "test", name: "test" }, requestId: "test" };
  const asked = await own.store.write("at once", async (tx) => {
    const { products } = schema;
    await tx.db.update(products).set({ extensions: { hazardousSubstances: 5 } }).where(eq(products.id, broken)); // oxfmt-ignore
    return [await passports.request(tx, by, broken), await passports.request(tx, by, whole)];
  });
  const states = () => Promise.all(asked.map(async ({ id }) => (await own.admin.get(`/passports/${id}`)).body.status));
  await expect.poll(states, { timeout: 20_000 }).toEqual(["generating", "draft"]);
  expect(own.logged().some((line) => line.includes("generate-failed"))).toBe(true);
});

test("a percentage becomes the very share that it says", async () => {
  const hazardousSubstances = [{ name: "tin", concentrationPercentage: 0.07 }];
  const { id } = await generated(w.admin, { extensions: { recycledContentPercentage: 33.3, hazardousSubstances } });
  const { circularityScorecard, materialsProvenance } = (await w.admin.get(`/passports/${id}`)).body.content;
  expect([circularityScorecard.recycledContent, materialsProvenance[0].massFraction]).toEqual([0.333, 0.0007]);
});

test("a material that was declared as recycled, or as new, is said to be that", async () => {
  const fibreComposition = [
    { fibre: "wool", percentage: 60, recycled: true },
    { fibre: "polyester", percentage: 30, recycled: false },
    { fibre: "silk", percentage: 10 },
  ];
  const { id } = await generated(w.admin, { category: "textile", extensions: { fibreComposition } });
  const { materialsProvenance } = (await w.admin.get(`/passports/${id}`)).body.content;
  expect(materialsProvenance.map((one: Record<string, unknown>) => [one["name"], one["recycledMassFraction"]])).toEqual([
    ["wool", 1],
    ["polyester", 0],
    ["silk", undefined],
  ]);
});

test("that there is none of something is said where it was declared, whatever else there is", async () => {
  const extensions = { materials: [{ material: "oak" }], hazardousSubstances: [], woodSpecies: ["Quercus robur"] };
  const { id } = await generated(w.admin, { category: "furniture", extensions });
  const { product, materialsProvenance } = (await w.admin.get(`/passports/${id}`)).body.content;
  expect([product.characteristics, materialsProvenance.length]).toEqual([{ hazardousSubstances: [], woodSpecies: ["Quercus robur"] }, 1]);
});

test("a carbon footprint is the product's, and not that of a kilogram of it", async () => {
  const { id } = await generated(w.admin, { category: "textile", extensions: { carbonFootprintKgCo2e: 4.2 } });
  const { emissionsScorecard } = (await w.admin.get(`/passports/${id}`)).body.content;
  expect(emissionsScorecard).toMatchObject({ carbonFootprint: 4.2, declaredUnit: "EA" });
});

test("its credential verifies with jose and the issuer's DID document; a changed one doesn't", async () => {
  const { id } = await generated();
  const { credential, content } = (await w.admin.get(`/passports/${id}`)).body;
  const did = (await w.nobody.get("//.well-known/did.json")).body;
  const keyOf = async ({ kid }: { kid?: string }) => {
    const method = did.verificationMethod.find((one: { id: string }) => one.id === kid);
    expect(did.assertionMethod).toContain(kid);
    return importJWK(method.publicKeyJwk, "EdDSA");
  };
  const { payload, protectedHeader } = await jwtVerify(credential, keyOf, { typ: "vc+jwt", algorithms: ["EdDSA"] });
  expect(protectedHeader.kid?.startsWith(`${did.id}#`)).toBe(true);
  expect(did.id).toBe(`did:web:${encodeURIComponent(new URL(w.url).host)}`);
  expect(payload).toMatchObject({
    "@context": ["https://www.w3.org/ns/credentials/v2", "https://test.uncefact.org/vocabulary/untp/dpp/0.6.0/"],
    type: ["DigitalProductPassport", "VerifiableCredential"],
    issuer: { id: did.id, name: "default" },
    credentialSubject: content,
    credentialStatus: { type: "BitstringStatusListEntry", statusPurpose: "revocation" },
  });
  const [head, , signature] = credential.split(".");
  const forged = `${head}.${Buffer.from(JSON.stringify({ ...payload, id: "x" })).toString("base64url")}.${signature}`;
  await expect(jwtVerify(forged, keyOf)).rejects.toThrow();
});

test("a validation anchors the version: its proof recomputes with plain crypto; only published and validated is ready to print", async () => {
  const { id, productId } = await generated();
  const chain = async () => (await w.admin.get(`/passports/${id}/validations`)).body;
  expect(await chain()).toEqual({ upi: id, validations: [], readyToPrint: false });
  const made = await w.admin.post(`/passports/${id}/validations`);
  expect([made.status, made.body.readyToPrint]).toEqual([201, false]);
  const [entry] = (await chain()).validations;
  expect(made.body).toEqual({ ...entry, readyToPrint: false, data: entry });
  expect((await publish(productId)).status).toBe(200);
  const now = await chain();
  expect(now).toMatchObject({ readyToPrint: true, validations: [{ signatureAlgorithm: "EdDSA", digest: made.body.data.digest }] });
  expect(Object.keys(now.validations[0])).toEqual(["eventId", "occurredAt", "digest", "signatureAlgorithm", "jrcAnchor"]);

  const proof = (await w.nobody.get(`/log/proof?digest=${made.body.data.digest}`)).body;
  expect(proof.entry).toMatchObject({ kind: "passport", digest: made.body.data.digest });
  let hash = sha256(Buffer.of(0), Buffer.from(canonicalize(proof.entry) ?? ""));
  let [at, last] = [proof.index, proof.size - 1];
  for (const sibling of proof.proof.map((hex: string) => Buffer.from(hex, "hex"))) {
    while (at % 2 === 0 && at === last) [at, last] = [at / 2, Math.floor(last / 2)];
    hash = at % 2 === 1 ? sha256(Buffer.of(1), sibling, hash) : sha256(Buffer.of(1), hash, sibling);
    [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
  }
  expect(hash.toString("hex")).toBe(proof.root);
  expect(proof.checkpoint.split("\n")[2]).toBe(hash.toString("base64"));

  expect((await w.admin.post(`/passports/${id}/revise`)).status).toBe(200);
  expect((await chain()).readyToPrint).toBe(true); // version 1 is still the published one
  await publish(productId);
  expect((await chain()).readyToPrint).toBe(false); // version 2 isn't validated
  expect((await w.admin.post(`/passports/${id}/validations`)).body.readyToPrint).toBe(true);
  await w.admin.post(`/passports/${id}/suspend`);
  expect((await chain()).readyToPrint).toBe(false);
});

test("a draft that was changed after its validation isn't what was anchored: nothing is printed, and its page doesn't say so", async () => {
  const { id, productId } = await generated(w.admin, { granularity: "model" });
  const { gtin } = (await w.admin.get(`/products/${productId}`)).body;
  const anchored = (await w.admin.post(`/passports/${id}/validations`)).body.data.digest as string;
  await w.admin.patch(`/passports/${id}`, { content: { product: { name: "Something else", description: "said after the anchoring" } } });
  expect((await publish(productId)).status).toBe(200);
  const { digest } = (await w.admin.get(`/passports/${id}`)).body;
  expect(digest).not.toBe(anchored);
  const isReady = async () => (await w.admin.get(`/passports/${id}/validations`)).body.readyToPrint as boolean;
  const serial = (await w.admin.post("/carriers/batch", { productId, count: 1 })).body.serials[0];
  const page = async () => (await w.nobody.send("GET", `//p/${productId}`, { headers: { accept: "text/html" } })).text;
  expect(await isReady()).toBe(false);
  expect(refusal(await w.admin.post("/aidc/jobs", { gtin, serial }))).toEqual([422, "PASSPORT_NOT_READY"]);
  expect(await page()).not.toContain("It was anchored");
  expect((await w.admin.post(`/passports/${id}/validations`)).body).toMatchObject({ data: { digest }, readyToPrint: true });
  expect(await isReady()).toBe(true);
  expect((await w.admin.post("/aidc/jobs", { gtin, serial })).status).toBe(201);
  expect(await page()).toContain("It was anchored");
});

test("what a published link is made of can't change: an item's serial, a lot; a model's own number is no part of it", async () => {
  for (const granularity of ["item", "batch"]) {
    const { productId } = await generated(w.admin, { granularity });
    await publish(productId);
    expect(refusal(await w.admin.patch(`/products/${productId}`, { serialNumber: "SN/2" }))).toEqual([409, "SCHEME_LOCKED"]);
    expect((await w.admin.patch(`/products/${productId}`, { serialNumber: "SN/1", name: "Kettle, renamed" })).status).toBe(200);
  }
  const { productId } = await generated(w.admin, { granularity: "model" });
  await publish(productId);
  expect((await w.admin.patch(`/products/${productId}`, { serialNumber: "SN/2" })).body.serialNumber).toBe("SN/2");
});

test("commands out of place are GUARD_REJECTED with what they would take", async () => {
  const { id, productId } = await generated();
  const content = (await w.admin.get(`/passports/${id}`)).body.content;
  expect(refusal(await w.admin.post(`/passports/${id}/suspend`))).toEqual([403, "GUARD_REJECTED"]);
  expect(refusal(await w.admin.post(`/passports/${id}/revise`))).toEqual([403, "GUARD_REJECTED"]);
  const edited = { ...content, product: { ...content.product, description: "<script>alert(1)</script>" } };
  expect((await w.admin.patch(`/passports/${id}`, { content: edited })).status).toBe(200);
  expect((await w.admin.get(`/passports/${id}`)).body.content).toEqual(edited);
  for (const wrong of [{ serialNumber: "LIE" }, { batchNumber: 7 }, { batchNumber: " " }, { name: 5 }, { name: " " }])
    expect(
      refusal(await w.admin.patch(`/passports/${id}`, { content: { ...content, product: { ...content.product, ...wrong } } })),
    ).toEqual([400, "VALIDATION_ERROR"]);
  const foreign = await w.admin.patch(`/passports/${id}`, { content: { ...content, product: { ...content.product, registeredId: "1" } } });
  expect([...refusal(foreign), foreign.body.error.details.fields[0].field]).toEqual([
    400,
    "VALIDATION_ERROR",
    "content.product.registeredId",
  ]);
  expect((await publish(productId)).body).toMatchObject({ status: "published", publishedVersion: 1, draftVersion: null });
  const late = await w.admin.patch(`/passports/${id}`, { content });
  expect([...refusal(late), late.body.error.details]).toEqual([
    403,
    "GUARD_REJECTED",
    { state: "published", command: "edit", from: ["draft", "published"] },
  ]);
  expect(refusal(await w.admin.delete(`/passports/${id}`))).toEqual([403, "GUARD_REJECTED"]);
  expect(refusal(await publish(productId))).toEqual([403, "GUARD_REJECTED"]);
  expect((await w.admin.post(`/passports/${id}/revise`)).body).toMatchObject({ status: "published", publishedVersion: 1, draftVersion: 2 });
  expect(refusal(await w.admin.post(`/passports/${id}/revise`))).toEqual([403, "GUARD_REJECTED"]);
  expect((await w.admin.get(`/passports/${id}`)).body).toMatchObject({ version: 1, content: edited });
  const [revised] = (await w.admin.get("/audit-logs?action=passport.revised")).body.data;
  expect(revised).toMatchObject({ subject: id, details: { version: 1, draftVersion: 2 } });
  const second = (await w.admin.get(`/passports/${id}?version=2`)).body;
  expect([second.version, second.content]).toEqual([2, content]);
  const first = (await w.admin.get(`/passports/${id}?version=1`)).body;
  expect([first.version, first.content]).toEqual([1, edited]);
  expect(refusal(await w.admin.get(`/passports/${id}?version=3`))).toEqual([404, "NOT_FOUND"]);
  expect(refusal(await w.admin.get(`/passports/${id}?version=1e308`))).toEqual([400, "VALIDATION_ERROR"]);
  expect((await w.admin.post(`/passports/${id}/archive`)).body.status).toBe("archived");
  expect(refusal(await w.admin.post(`/passports/${id}/archive`))).toEqual([403, "GUARD_REJECTED"]);
  const gone = await w.admin.post(`/passports/${id}/validations`);
  expect([...refusal(gone), gone.body.error.details]).toEqual([
    403,
    "GUARD_REJECTED",
    { state: "archived", command: "validate", from: ["draft", "published", "suspended"] },
  ]);
});

test("an edit that isn't possible is refused as that, whatever its body says; nothing is told of a passport that isn't there", async () => {
  const { id, productId } = await generated();
  expect(refusal(await w.admin.patch(`/passports/${id}`, { name: "Kettle" }))).toEqual([400, "VALIDATION_ERROR"]);
  await publish(productId);
  for (const body of [undefined, {}, { name: "Kettle" }, { content: "text" }, { content: {} }])
    expect(refusal(await w.admin.patch(`/passports/${id}`, body))).toEqual([403, "GUARD_REJECTED"]);
  expect(refusal(await w.admin.patch(`/passports/${crypto.randomUUID()}`, {}))).toEqual([404, "NOT_FOUND"]);
  expect(refusal(await w.admin.patch("/passports/%00", {}))).toEqual([400, "VALIDATION_ERROR"]);
});

test("content of one's own is completed by what names its product, and can't name another", async () => {
  const productId = await ready();
  const made = await w.admin.post("/dpps", { productId, content: { circularityScorecard: { recycledContent: 0.4 } } });
  expect(made.status).toBe(201);
  const shown = async () => (await w.admin.get(`/passports/${made.body.id}`)).body;
  const names = {
    type: ["ProductPassport"],
    granularityLevel: "item",
    product: { type: ["Product"], id: `${w.url}/01/${gtinOf(n)}/21/SN%2F1`, name: "Kettle", registeredId: gtinOf(n), serialNumber: "SN/1" },
  };
  expect((await shown()).content).toEqual({ ...names, circularityScorecard: { recycledContent: 0.4 } });
  const { credential } = await shown();
  expect((await w.admin.post("/credentials/verify", { credential })).body.verdict).toBe("valid");
  expect((await w.admin.patch(`/passports/${made.body.id}`, { content: { product: { name: "Better kettle" } } })).status).toBe(200);
  expect((await shown()).content).toEqual({ ...names, product: { ...names.product, name: "Better kettle" } });
  for (const product of ["text", ["text"], { id: "https://other.example/01/1" }])
    expect(refusal(await w.admin.patch(`/passports/${made.body.id}`, { content: { product } }))).toEqual([400, "VALIDATION_ERROR"]);
});

test("the number that names a product can't be taken out of its passport", async () => {
  for (const [granularity, field] of [
    ["item", "serialNumber"],
    ["batch", "batchNumber"],
  ] as const) {
    const { id } = (await w.admin.post("/dpps", { productId: await ready(w.admin, { granularity }) })).body;
    const edit = (number: string | null) => w.admin.patch(`/passports/${id}`, { content: { product: { [field]: number } } });
    expect((await edit("SN/1")).status).toBe(200);
    for (const number of [null, "SN/2"]) expect((await edit(number)).body.error?.details.fields[0].field).toBe(`content.product.${field}`);
    expect((await w.admin.get(`/passports/${id}`)).body.content.product[field]).toBe("SN/1");
  }
});

test("content of one's own has a URL for its id, as the credential's subject must, or none", async () => {
  const { id } = (await w.admin.post("/dpps", { productId: await ready() })).body;
  const edit = (content: object) => w.admin.patch(`/passports/${id}`, { content });
  for (const good of [{ id: "https://x.example/kettle" }, { id: "urn:uuid:1" }, {}]) expect((await edit(good)).status).toBe(200);
  for (const bad of [5, null, "", "not a URL"]) {
    const refused = await edit({ id: bad });
    expect([refused.status, refused.body.error?.details.fields[0].field]).toEqual([400, "content.id"]);
  }
});

test("content of one's own says what it is in words, as JSON-LD has it", async () => {
  const { id } = (await w.admin.post("/dpps", { productId: await ready() })).body;
  const edit = (type: unknown) => w.admin.patch(`/passports/${id}`, { content: { type, product: { type } } });
  for (const good of ["ProductPassport", ["ProductPassport", "Brochure"]]) expect((await edit(good)).status).toBe(200);
  for (const bad of [5, null, "", [], ["ProductPassport", 5], { a: 1 }])
    expect((await edit(bad)).body.error?.details.fields.map(({ field }: { field: string }) => field)).toEqual([
      "content.type",
      "content.product.type",
    ]);
});

test("content of one's own names no other product in JSON-LD's own word either", async () => {
  const { id } = (await w.admin.post("/dpps", { productId: await ready() })).body;
  const { product } = (await w.admin.get(`/passports/${id}`)).body.content;
  const edit = (content: object) => w.admin.patch(`/passports/${id}`, { content });
  const fieldsOf = async (content: object) => (await edit(content)).body.error?.details.fields.map(({ field }: { field: string }) => field);
  expect(await fieldsOf({ product: { "@id": "https://other.example/01/1" } })).toEqual(["content.product.@id"]);
  expect(await fieldsOf({ "@id": "no address" })).toEqual(["content.id"]);
  expect((await edit({ "@id": "urn:uuid:1", product: { "@type": "Kettle" } })).status).toBe(200);
  const twice = { id: "urn:uuid:1", "@id": "urn:uuid:1", product: { "@id": product.id } }; // which no processor of JSON-LD takes
  expect(await fieldsOf(twice)).toEqual(["content.@id", "content.product.@id"]);
});

test("a number of more digits than a number keeps is refused by its place: another one would be signed", async () => {
  const { id } = (await w.admin.post("/dpps", { productId: await ready() })).body;
  const edit = (facts: string) =>
    w.admin.send("PATCH", `/passports/${id}`, { body: `{"content":{"facts":${facts}}}`, headers: { "content-type": "application/json" } });
  for (const number of ["106141412345678908", "-9007199254740993", "123456789012345678901"]) {
    const refused = await edit(`{"parts":[{"sscc":1},{"sscc":${number}}]}`);
    expect([refused.status, refused.body.error?.details.fields[0].field]).toEqual([400, "content.facts.parts.1.sscc"]);
  }
  const kept = [106, -9007199254740991, 0.1, 1e21, 6.02e23, 1e-7];
  expect((await edit(JSON.stringify(kept))).status).toBe(200);
  expect((await w.admin.get(`/passports/${id}`)).body.content.facts).toEqual(kept);
});

test("content of one's own has UNTP's sections as UNTP has them, each a thing or a list, and all that is wrong is named", async () => {
  const { id } = (await w.admin.post("/dpps", { productId: await ready() })).body;
  const lists = ["conformityClaim", "traceabilityInformation", "materialsProvenance"];
  const things = ["emissionsScorecard", "circularityScorecard", "dueDiligenceDeclaration"];
  const sections = (list: unknown, thing: unknown) =>
    Object.fromEntries([...lists.map((name) => [name, list]), ...things.map((name) => [name, thing])]);
  const edit = (content: object) => w.admin.patch(`/passports/${id}`, { content });
  expect((await edit({ ...sections([{ a: 1 }], { a: 1 }), note: "text" })).status).toBe(200);
  for (const wrong of [
    { ...sections({}, []), type: [] },
    { ...sections("text", 5), type: "ProductPassport" },
  ]) {
    const { status, body } = await edit(wrong);
    const fields = body.error?.details.fields.map(({ field }: { field: string }) => field).toSorted();
    expect([status, fields]).toEqual([400, [...lists, ...things].map((name) => `content.${name}`).toSorted()]);
  }
});

test("content is kept under the names that it was sent with, whatever a stranger sent before; names that need an escape are refused", async () => {
  const { body } = await w.admin.post("/dpps", { productId: await ready() });
  const raw = (json: string) => ({ body: json, headers: { "content-type": "application/json" } });
  const edit = (facts: string) => w.admin.send("PATCH", `/passports/${body.id}`, raw(`{"content":{"facts":${facts}}}`));
  for (const facts of [String.raw`{"length":[],"gr\\u0":[]}`, String.raw`{"height":[],"\\":[]}`, String.raw`{"width":[],"a\\/b":[]}`])
    expect((await w.nobody.send("POST", "//v1/dppsByProductIds", raw(`{"productIds":[],"facts":${facts}}`))).status).toBe(400);
  const facts = async () => (await w.admin.get(`/passports/${body.id}`)).body.content.facts;
  expect((await edit(String.raw`{"length":1,"gr\u00f6\u00dfe":"\u00f6\\u00f6\\\u00f6\ud83d\ude00\u0022\n"}`)).status).toBe(200);
  expect(await facts()).toEqual({ length: 1, größe: String.raw`ö\u00f6\ö` + '😀"\n' });
  expect((await edit(String.raw`{"width":1,"a\/b":2,"\ud83d\ude00":3}`)).status).toBe(200);
  expect(await facts()).toEqual({ width: 1, "a/b": 2, "😀": 3 });
  for (const name of [
    String.raw`\"`,
    String.raw`\n`,
    String.raw`\\`,
    String.raw`\u0022`,
    String.raw`\u005C`,
    String.raw`\u001f`,
    String.raw`\ud83d`,
  ]) {
    const refused = await edit(`{"height":1,"${name}":2}`);
    expect([refused.status, refused.body.error.code]).toEqual([400, "VALIDATION_ERROR"]);
  }
  expect((await edit('{"width":1,"größe \u007f":2}')).status).toBe(200);
});

test("a suspended passport is published again: as it was, or with the draft that was opened before", async () => {
  const { id, productId } = await generated();
  await publish(productId);
  await w.admin.post(`/passports/${id}/validations`);
  await w.admin.post(`/passports/${id}/suspend`);
  expect((await w.nobody.get(`//p/${productId}`)).status).toBe(410);
  expect((await publish(productId)).body).toMatchObject({ status: "published", publishedVersion: 1, draftVersion: null });
  expect((await w.nobody.get(`//p/${productId}`)).status).toBe(200);
  expect((await w.admin.get(`/passports/${id}/validations`)).body.readyToPrint).toBe(true);
  await w.admin.post(`/passports/${id}/revise`);
  await w.admin.post(`/passports/${id}/suspend`);
  expect((await publish(productId)).body).toMatchObject({ status: "published", publishedVersion: 2, draftVersion: null });
  await w.admin.post(`/passports/${id}/archive`);
  expect(refusal(await publish(productId))).toEqual([403, "GUARD_REJECTED"]);
});

test("who asks for a second passport is told what there is to do about the first", async () => {
  const productId = await ready();
  const { id } = (await w.admin.post("/dpps", { productId })).body;
  const asked = async () => {
    const { body } = await w.admin.post("/passports/generate", { productId });
    expect([body.error.code, body.error.details]).toEqual(["PASSPORT_EXISTS", { id }]);
    return body.error.message;
  };
  expect(await asked()).toContain("edit its draft");
  await publish(productId);
  expect(await asked()).toContain("revise it");
  await w.admin.post(`/passports/${id}/suspend`);
  expect(await asked()).toContain("publish it again");
  await w.admin.post(`/passports/${id}/archive`);
  expect(await asked()).toContain("for good");
});

test("a voided product isn't deleted, and nobody is told to void it", async () => {
  const productId = await ready();
  await w.admin.post("/dpps", { productId });
  expect(refusal(await w.admin.delete(`/products/${productId}`))).toEqual([409, "PRODUCT_REFERENCED"]);
  await w.admin.post(`/products/${productId}/void`, { reason: "recalled" });
  expect(refusal(await w.admin.delete(`/products/${productId}`))).toEqual([409, "ALREADY_VOIDED"]);
});

test("a passport needs a ready product, once; publishing needs a passport, a key, and says FORBIDDEN without the scope", async () => {
  const { id: draft } = (await w.admin.post("/products", kettle())).body;
  expect(refusal(await w.admin.post("/passports/generate", { productId: draft }))).toEqual([422, "PRODUCT_NOT_READY"]);
  expect(refusal(await w.admin.post("/passports/generate", { productId: crypto.randomUUID() }))).toEqual([404, "NOT_FOUND"]);
  const productId = await ready();
  expect(refusal(await publish(productId))).toEqual([422, "PASSPORT_NOT_PUBLISHABLE"]);
  const keyless = await w.admin.post(`/products/${productId}/publish-dpp`);
  expect([...refusal(keyless), keyless.body.error.message]).toEqual([400, "VALIDATION_ERROR", expect.not.stringContaining("; ")]);
  expect((await w.admin.post("/dpps", { productId })).body).toMatchObject({ status: "draft", version: 1 });
  const again = await w.admin.post("/passports/generate", { productId });
  expect(refusal(again)).toEqual([409, "PASSPORT_EXISTS"]);
  const reader = w.as((await w.admin.post("/api-keys", { name: "r", scopes: ["products:read"] })).body.data.secret);
  const denied = await publish(productId, reader);
  expect([...refusal(denied), denied.body.error.details]).toEqual([
    403,
    "FORBIDDEN",
    { required: ["products:edit"], available: ["products:read"] },
  ]);
  expect((await w.admin.post(`/products/${productId}/lifecycle/transition`, { stage: "draft" })).body.error).toEqual({
    code: "ILLEGAL_TRANSITION",
    message: "draft doesn't follow ready_for_dpp; nothing does while there is a passport",
    details: { from: "ready_for_dpp", to: "draft", allowed: [] },
  });
  expect(refusal(await w.admin.patch(`/products/${productId}`, { gtin: gtinOf((n += 1)) }))).toEqual([409, "SCHEME_LOCKED"]);
  expect(refusal(await w.admin.delete(`/products/${productId}`))).toEqual([409, "PRODUCT_REFERENCED"]);
  expect((await w.admin.delete(`/passports/${again.body.error.details.id}`)).status).toBe(204);
  expect((await w.admin.delete(`/products/${productId}`)).status).toBe(204);
});

test("publishing tells of itself in the product's events; another tenant can't publish what is claimed", async () => {
  const { productId } = await generated(w.admin, { granularity: "model" });
  await publish(productId);
  const { data } = (await w.admin.get(`/products/${productId}/events`)).body;
  expect(data.at(-1)).toMatchObject({ type: "product.published", data: { passportVersion: 1 } });
  const other = (await w.tenant("copycat")).admin;
  const { gtin } = (await w.admin.get(`/products/${productId}`)).body;
  const copy = await generated(other, { gtin, granularity: "item" });
  expect(refusal(await publish(copy.productId, other))).toEqual([409, "GTIN_CLAIMED"]);
});

test("voiding the product flips the credential's bit in the signed status list, and nobody else's", async () => {
  const [first, second] = [await generated(), await generated()];
  const entryOf = async (id: string) => {
    const { credential } = (await w.admin.get(`/passports/${id}`)).body;
    return JSON.parse(Buffer.from(credential.split(".")[1], "base64url").toString("utf8")).credentialStatus;
  };
  const [one, other] = [await entryOf(first.id), await entryOf(second.id)];
  const bitOf = async ({ statusListIndex, statusListCredential }: { statusListIndex: string; statusListCredential: string }) => {
    const answer = await w.nobody.get(`/${new URL(statusListCredential).pathname}`);
    expect(answer.headers.get("content-type")).toBe("application/vc+jwt");
    const { keys } = (await w.nobody.get("//.well-known/jwks.json")).body;
    const jwks = createLocalJWKSet({
      keys: keys.map((key: { kid: string }) => ({ ...key, kid: `did:web:${encodeURIComponent(new URL(w.url).host)}#${key.kid}` })),
    });
    const { payload } = await jwtVerify(answer.text, jwks);
    const bits = gunzipSync(Buffer.from((payload["credentialSubject"] as { encodedList: string }).encodedList.slice(1), "base64url"));
    expect(bits.length).toBe(16_384);
    const at = Number(statusListIndex);
    return ((bits[at >> 3] ?? 0) >> (7 - (at & 7))) & 1;
  };
  expect([await bitOf(one), await bitOf(other)]).toEqual([0, 0]);
  await w.admin.post(`/products/${first.productId}/void`, { reason: "recalled" });
  expect([await bitOf(one), await bitOf(other)]).toEqual([1, 0]);
  expect(refusal(await publish(first.productId))).toEqual([422, "PASSPORT_NOT_PUBLISHABLE"]);
});

test("with anchoring off a validation is 503 and nothing of it is written", async () => {
  const off = await world({ settings: { IMPRIMATUR_ANCHOR: "off" } });
  const { id } = await generated(off.admin);
  expect(refusal(await off.admin.post(`/passports/${id}/validations`))).toEqual([503, "ANCHORING_UNAVAILABLE"]);
  expect((await off.admin.get(`/passports/${id}/validations`)).body.validations).toEqual([]);
  expect((await off.nobody.get("/log/checkpoint")).text.split("\n")[1]).toBe("0");
});

test("passports that were asked for before a restart are made after it, each once; old keys still verify", async () => {
  const asked = await Promise.all(
    Array.from(
      { length: 20 },
      async () => (await w.admin.post("/passports/generate", { productId: await ready() })).body.data.id as string,
    ),
  );
  await w.restart();
  if (w.store.sole === undefined) w.later(31_000);
  const outcome = async () => {
    const versions = await Promise.all(asked.map(async (id) => (await w.admin.get(`/passports/${id}`)).body.draftVersion));
    return {
      missing: versions.filter((version) => version !== 1).length,
      faults: w.logged().filter((line) => line.includes("generate-failed")),
    };
  };
  await expect.poll(outcome).toEqual({ missing: 0, faults: [] });
});
