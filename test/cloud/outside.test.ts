// Anchors and registries outside: what they answer is kept, what they do wrong leaves nothing behind, and asking twice does it once.
import { createServer } from "node:http";
import { Type } from "typebox";
import { afterAll, expect, test } from "vitest";
import { sql } from "drizzle-orm";
import { asking } from "../../cloud/adapters/outside.ts";
import { refusal } from "../../fixtures/client.ts";
import { startAnchor } from "../../fixtures/anchor.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { listening } from "../../fixtures/listening.ts";
import type { Way } from "../../fixtures/misbehaving.ts";
import { draftPassport, publish, publishedPassport } from "../../fixtures/passports.ts";
import { startRegistry } from "../../fixtures/registry.ts";
import { endsWithFile } from "../endings.ts";
import { world } from "../world.ts";

const anchor = await startAnchor({ slowMs: 6_000 });
const registry = await startRegistry();
afterAll(() => Promise.all([anchor.end(), registry.end()]));
const w = await world({ settings: { IMPRIMATUR_ANCHOR: `${anchor.url}/anchors`, IMPRIMATUR_REGISTRY_URL: registry.url } });
let n = 500_000;
const kettle = () => ({ gtin: gtinOf((n += 1)) });
/** Whatever a success would have left. */
const traces = (id: string) =>
  w.store.read("traces", async ({ db }) => [
    await db.values(sql`SELECT count(*) FROM validations WHERE passport_id = ${id}`),
    await db.values(sql`SELECT count(*) FROM registrations WHERE passport_id = ${id}`),
    await db.values(sql`SELECT count(*) FROM events WHERE subject = ${id}`),
    await db.values(sql`SELECT size FROM log_head`),
    await db.values(sql`SELECT count(*) FROM audit_log WHERE subject = ${id} AND action IN ('passport.anchored', 'passport.registered')`),
    await db.values(sql`SELECT revision FROM passports WHERE id = ${id}`),
  ]);

test("an external anchor is told the digest, its receipt is kept and named by the validation, and our own log still proves it", async () => {
  const { id, productId } = await draftPassport(w.admin, kettle());
  const { digest } = (await w.admin.get(`/passports/${id}`)).body;
  const made = await w.admin.post(`/passports/${id}/validations`);
  expect([made.status, made.body.data.jrcAnchor, made.body.data.digest]).toEqual([201, "anchor:test:1", digest]);
  expect(anchor.heard.at(-1)).toMatchObject({ path: "/anchors", body: { digest, algorithm: "SHA-256" } });
  await publish(w.admin, productId);
  expect((await w.admin.get(`/passports/${id}/validations`)).body).toMatchObject({
    readyToPrint: true,
    validations: [{ jrcAnchor: "anchor:test:1" }],
  });
  expect((await w.nobody.get(`/log/proof?digest=${digest}`)).body.entry).toMatchObject({ kind: "passport", digest });
  expect((await w.admin.get(`/passports/${id}/proof`)).body.receipt).toMatchObject({ digest, anchor: "anchor:test:1", block: 1 });
});

const failing: [Way, RegExp][] = [
  ["500", /answered 500/],
  ["refusing", /answered 422/],
  ["accepting", /answered 202/],
  ["nonsense", /isn't JSON/],
  ["wrong", /another digest/],
  ["giant", /more than 65536 bytes/],
  ["redirect", /elsewhere \(307\)/],
  ["down", /can't be reached \(ECONNREFUSED\)/],
  ["slow", /in time/],
];

test.each(failing)("an anchor that is %s is 500 ANCHORING_FAILED, nothing is written, and asking again anchors once", async (way, why) => {
  const { id } = await draftPassport(w.admin, kettle());
  const [before, done] = [await traces(id), anchor.done.size];
  const headers = { "idempotency-key": crypto.randomUUID() };
  await anchor.behave(way);
  const failed = await w.admin.post(`/passports/${id}/validations`, undefined, headers);
  expect([...refusal(failed), failed.body.error.message]).toEqual([500, "ANCHORING_FAILED", expect.stringMatching(why)]);
  expect(await traces(id)).toEqual(before);
  await anchor.behave("well");
  expect((await w.admin.post(`/passports/${id}/validations`, undefined, headers)).status).toBe(201);
  expect(anchor.done.size).toBe(done + 1); // a slow one does it late, and still once
  expect(anchor.heard.some(({ redirected }) => redirected)).toBe(false);
});

test("an answer that is lost half-way is asked for again under the same key: anchored once, validated once", async () => {
  const { id } = await draftPassport(w.admin, kettle());
  const [done, heard] = [anchor.done.size, anchor.heard.length];
  await anchor.behave("hang-up", "500", "well");
  expect((await w.admin.post(`/passports/${id}/validations`)).status).toBe(201);
  expect([anchor.done.size - done, anchor.heard.length - heard]).toEqual([1, 3]);
  expect(new Set(anchor.heard.slice(heard).map(({ key }) => key)).size).toBe(1);
  expect((await w.admin.get(`/passports/${id}/validations`)).body.validations).toHaveLength(1);
});

test("a passport's validations page in the order they were made, each page saying whether labels may be printed", async () => {
  const { id } = await draftPassport(w.admin, kettle());
  const made: string[] = [];
  for (let i = 0; i < 5; i += 1) made.push((await w.admin.post(`/passports/${id}/validations`)).body.data.eventId);
  const pages: string[][] = [];
  for (let cursor: string | undefined = ""; cursor !== undefined;) {
    const { body } = await w.admin.get(`/passports/${id}/validations?limit=2${cursor}`);
    expect([body.upi, body.readyToPrint]).toEqual([id, false]);
    pages.push(body.validations.map(({ eventId }: { eventId: string }) => eventId));
    cursor = body.nextCursor && `&cursor=${body.nextCursor}`;
  }
  expect(pages).toEqual([made.slice(0, 2), made.slice(2, 4), made.slice(4)]);
  const { body: whole } = await w.admin.get(`/passports/${id}/validations`);
  expect(Object.keys(whole)).toEqual(["upi", "validations", "readyToPrint"]); // as it was shown, where it is whole
  expect(whole.validations).toHaveLength(5);
  expect((await w.admin.get(`/passports/${id}/validations?cursor=zz`)).status).toBe(400);
});

test("whatever 5xx a service answers, or a proxy before it that can't reach it, it is asked again; another refusal is its last word", async () => {
  const answers = [520, 507, 201, 501, 201, 400, 201];
  const service = createServer((request, response) => {
    request.resume();
    response.writeHead(answers.shift() ?? 201, { "content-type": "application/json" }).end('{ "digest": "0", "anchor": "a" }');
  });
  const port = await listening(service);
  endsWithFile(() => service.close());
  const ask = asking(Type.Object({ digest: Type.String(), anchor: Type.String() }));
  const asked = () => ask({ url: `http://127.0.0.1:${port}`, body: {}, key: "k" });
  expect([await asked(), answers.length]).toEqual([{ digest: "0", anchor: "a" }, 4]);
  expect([await asked(), answers.length]).toEqual([{ digest: "0", anchor: "a" }, 2]);
  await expect(asked()).rejects.toThrow("it answered 400");
  expect(answers).toEqual([201]);
});

test("a simulated service outlives what isn't for it", async () => {
  for (const body of ["not json", "5", "null"]) expect((await fetch(anchor.url, { method: "POST", body })).status).toBe(400);
});

test("a replay answers without asking the anchor; the same key at once has one effect", async () => {
  const { id } = await draftPassport(w.admin, kettle());
  const headers = { "idempotency-key": crypto.randomUUID() };
  const ask = () => w.admin.post(`/passports/${id}/validations`, undefined, headers);
  const both = await Promise.all([ask(), ask()]);
  expect(both.map(({ status }) => status)).toEqual([201, 201]);
  expect(both[0].body).toEqual(both[1].body);
  const heard = anchor.heard.length;
  expect((await ask()).headers.get("idempotency-replayed")).toBe("true");
  expect(anchor.heard.length).toBe(heard);
  expect((await w.admin.get(`/passports/${id}/validations`)).body.validations).toHaveLength(1);
});

test("a draft that is edited while it is being anchored isn't validated by what was anchored", async () => {
  const patient = await startAnchor();
  endsWithFile(patient.end);
  const { admin } = await world({ settings: { IMPRIMATUR_ANCHOR: patient.url } });
  const { id } = await draftPassport(admin, kettle());
  await patient.behave("kept");
  const asked = admin.post(`/passports/${id}/validations`);
  await expect.poll(() => patient.heard.length).toBeGreaterThan(0);
  const { content } = (await admin.get(`/passports/${id}`)).body;
  await admin.patch(`/passports/${id}`, { content: { ...content, product: { ...content.product, name: "Another kettle" } } });
  await patient.behave("well");
  expect(refusal(await asked)).toEqual([409, "PASSPORT_CHANGED"]);
  expect((await admin.get(`/passports/${id}/validations`)).body.validations).toEqual([]);
});

test("what can't be validated is refused before the anchor hears of it; so is another tenant's", async () => {
  const { id } = await publishedPassport(w.admin, kettle());
  const other = (await w.tenant("stranger")).admin;
  const heard = anchor.heard.length;
  expect(refusal(await other.post(`/passports/${id}/validations`))).toEqual([404, "NOT_FOUND"]);
  await w.admin.post(`/passports/${id}/archive`);
  expect(refusal(await w.admin.post(`/passports/${id}/validations`))).toEqual([403, "GUARD_REJECTED"]);
  expect(anchor.heard.length).toBe(heard);
});

test("a published passport is broadcast with EN 18222's entry and its hash; the registration is shown, and asking again changes nothing", async () => {
  const gtin = gtinOf((n += 1));
  const { id, productId } = await publishedPassport(w.admin, { gtin, serialNumber: "A/1" });
  const { digest } = (await w.admin.get(`/passports/${id}`)).body;
  const told = await w.admin.post(`/passports/${id}/publish`);
  const { tenantId } = (await w.admin.get("/audit-logs")).body.data[0];
  expect(registry.heard.at(-1)).toMatchObject({
    path: "/v1/registerDPP",
    body: {
      uniqueProductIdentifier: `${w.url}/01/${gtin}/21/A%2F1`,
      digitalProductPassportId: `urn:uuid:${id}`,
      uniqueEconomicOperatorIdentifier: `urn:uuid:${tenantId}`,
      dppApiEndpoint: `${w.url}/v1/dpps/urn:uuid:${id}`,
      hash: digest,
    },
  });
  expect([told.status, told.body.registration]).toEqual([
    200,
    { registrationId: "EU-DPP-1", version: 1, digest, registeredAt: expect.any(String) },
  ]);
  expect((await w.admin.get(`/passports/${id}`)).body.registration).toEqual(told.body.registration);
  const heard = registry.heard.length;
  expect((await w.admin.post(`/passports/${id}/publish`)).body.registration).toEqual(told.body.registration);
  expect(registry.heard.length).toBe(heard);
  await w.admin.post(`/passports/${id}/revise`);
  await publish(w.admin, productId);
  expect((await w.admin.post(`/passports/${id}/publish`)).body.registration).toMatchObject({ registrationId: "EU-DPP-2", version: 2 });
  expect(registry.done.size).toBe(2);
});

test.each(["500", "refusing", "accepting", "nonsense", "wrong", "giant", "redirect", "down"] as const)(
  "a registry that is %s is 503 REGISTRY_UNAVAILABLE, and nothing is written",
  async (way) => {
    const { id } = await publishedPassport(w.admin, kettle());
    const [before, done] = [await traces(id), registry.done.size];
    await registry.behave(way);
    const failed = await w.admin.post(`/passports/${id}/publish`);
    expect([...refusal(failed), failed.headers.get("retry-after")]).toEqual([503, "REGISTRY_UNAVAILABLE", "10"]);
    expect(await traces(id)).toEqual(before);
    await registry.behave("hang-up", "well");
    expect((await w.admin.post(`/passports/${id}/publish`)).status).toBe(200);
    expect(registry.done.size).toBe(done + 1);
  },
);

test("what a registry says twice isn't the registration of the passport that is broadcast next", async () => {
  const doubled = await startRegistry({ slowMs: 700 });
  endsWithFile(doubled.end);
  const { admin } = await world({ settings: { IMPRIMATUR_REGISTRY_URL: doubled.url } });
  const [first, next] = [await publishedPassport(admin, kettle()), await publishedPassport(admin, kettle())];
  await doubled.behave("twice", "slow");
  const told = [await admin.post(`/passports/${first.id}/publish`), await admin.post(`/passports/${next.id}/publish`)];
  expect(told.map(({ body }) => body.registration?.registrationId)).toEqual(["EU-DPP-1", "EU-DPP-2"]);
});

test("only what is published is broadcast; the order of refusals is scope, existence, registry, state", async () => {
  const draft = await draftPassport(w.admin, kettle());
  expect(refusal(await w.admin.post(`/passports/${draft.id}/publish`))).toEqual([422, "PASSPORT_NOT_PUBLISHABLE"]);
  const suspended = await publishedPassport(w.admin, kettle());
  await w.admin.post(`/passports/${suspended.id}/suspend`);
  expect(refusal(await w.admin.post(`/passports/${suspended.id}/publish`))).toEqual([422, "PASSPORT_NOT_PUBLISHABLE"]);
  const voided = await publishedPassport(w.admin, kettle());
  await w.admin.post(`/products/${voided.productId}/void`, { reason: "recalled" });
  expect(refusal(await w.admin.post(`/passports/${voided.id}/publish`))).toEqual([422, "PASSPORT_NOT_PUBLISHABLE"]);
  const revoked = await publishedPassport(w.admin, kettle());
  await w.admin.post(`/credentials/${revoked.id}/revoke`);
  expect(refusal(await w.admin.post(`/passports/${revoked.id}/publish`))).toEqual([422, "PASSPORT_NOT_PUBLISHABLE"]);

  const none = await world();
  const lone = await draftPassport(none.admin, kettle());
  expect(refusal(await none.admin.post(`/passports/${lone.id}/publish`))).toEqual([503, "REGISTRY_UNAVAILABLE"]);
  expect(refusal(await none.admin.post(`/passports/${crypto.randomUUID()}/publish`))).toEqual([404, "NOT_FOUND"]);
  const reader = none.as((await none.admin.post("/api-keys", { name: "r", scopes: ["dpp:read"] })).body.data.secret);
  expect(refusal(await reader.post(`/passports/${lone.id}/publish`))).toEqual([403, "API_SCOPE_DENIED"]);
});
