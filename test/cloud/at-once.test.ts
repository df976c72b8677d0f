// Two requests about one thing at the same moment: whichever comes first, what both leave behind fits together, on any engine.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Caller } from "../../cloud/domain/callers.ts";
import * as devices from "../../cloud/domain/devices.ts";
import * as epcis from "../../cloud/domain/epcis.ts";
import { prepare } from "../../cloud/domain/epcis-document.ts";
import * as printStatus from "../../cloud/domain/print-status.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { type Claim, goodItems, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { publishing } from "../../fixtures/publishing.ts";
import { startReceiver } from "../../fixtures/receiver.ts";
import { world } from "../world.ts";

const w = await world({ settings: { IMPRIMATUR_WEBHOOK_PRIVATE: "on" } });
const { published } = publishing(w, 930_000);
const { admin } = w;
const shop = await printShop(w, { gtin: gtinOf(935_000) });
let next = 936_000;
const gtin = () => gtinOf((next += 1));
const ROUNDS = Array.from({ length: 6 }, (_, i) => i);

async function ready(): Promise<{ id: string; gtin: string }> {
  const made = await published({}, "none");
  for (const stage of ["validated", "ready_for_dpp"]) await admin.post(`/products/${made.id}/lifecycle/transition`, { stage });
  return made;
}
const verdictOf = async (passportId: string): Promise<string> => {
  const { credential } = (await admin.get(`/passports/${passportId}`)).body;
  return (await admin.post("/credentials/verify", { credential })).body.verdict;
};

test.each(ROUNDS)("a serial that is voided while a job for it is issued gets no label", async () => {
  const [serial] = await shop.allocate(1);
  await Promise.all([
    shop.admin.post(`/products/${shop.product.id}/void`, { reason: "stolen", serial }),
    shop.admin.post("/aidc/jobs", { gtin: shop.gtin, serial }),
  ]);
  const { data } = (await shop.admin.get("/aidc/jobs?limit=200")).body;
  const states = (data as { serial: string; state: string }[]).flatMap((job) => (job.serial === serial ? job.state : []));
  expect(states.every((state) => state === "CANCELLED")).toBe(true);
});

test.each(ROUNDS)("a label that is sealed while its product and many jobs of it are voided stays sealed", async (round) => {
  const { admin, product, device, allocate, gtin: itsGtin } = await printShop(w, { gtin: gtin() });
  const items = (await allocate(40)).map((serial) => ({ gtin: itsGtin, serial }));
  await admin.post("/aidc/jobs/batch", { items });
  const { claims } = (await device.api.post("/aidc/jobs/claim/batch", { max: items.length, lease_seconds: 600 })).body;
  const said = (claims as Claim[]).flatMap((claimed) =>
    goodItems(claimed).map((item) => ({ job_ref: claimed.job.job_ref, attempt_id: claimed.attempt_id, ...item })),
  );
  expect((await device.api.post("/aidc/results", { results: said })).status).toBe(200);
  const voided = admin.post(`/products/${product.id}/void`, { reason: "x" });
  await sleep(10 + 10 * round);
  const last = claims.at(-1) as Claim;
  const answer = await device.say(last, sealOf(goodItems(last)));
  expect((await voided).status).toBe(200);
  const { state } = (await admin.get(`/aidc/jobs/${last.job.job_ref}`)).body;
  expect(state).toBe(answer.status === 200 ? "SEALED" : "CANCELLED");
});

test.each(ROUNDS)("a GTIN doesn't change under serials and passports that are made of it", async () => {
  const product = await ready();
  const [, serials, made] = await Promise.all([
    admin.patch(`/products/${product.id}`, { gtin: gtin() }),
    admin.post("/carriers/batch", { productId: product.id, count: 1 }),
    admin.post("/dpps", { productId: product.id }),
  ]);
  const { gtin: now } = (await admin.get(`/products/${product.id}`)).body;
  const carrier = (await admin.get(`/carriers/${serials.body.serials[0]}`)).body;
  const { content } = (await admin.get(`/passports/${made.body.id}`)).body;
  expect([carrier.gtin, content.product.registeredId]).toEqual([now, now]);
});

test.each(ROUNDS)("a product that is voided or deleted while a passport is made of it leaves none that counts", async () => {
  const [voided, deleted] = [await ready(), await ready()];
  const [, made, gone, kept] = await Promise.all([
    admin.post(`/products/${voided.id}/void`, { reason: "x" }),
    admin.post("/dpps", { productId: voided.id }),
    admin.delete(`/products/${deleted.id}`),
    admin.post("/dpps", { productId: deleted.id }),
  ]);
  expect(made.status === 201 ? await verdictOf(made.body.id) : "none").toMatch(/invalid|none/);
  expect([gone.status, kept.status]).toEqual(gone.status === 204 ? [204, 404] : [409, 201]);
});

test.each(ROUNDS)("no credential outlives the product that is voided while it is signed", async () => {
  const [revised, edited] = [await published(), await published({}, "draft")];
  await Promise.all([
    admin.post(`/products/${revised.id}/void`, { reason: "x" }),
    admin.post(`/passports/${revised.passportId}/revise`),
    admin.post(`/products/${edited.id}/void`, { reason: "x" }),
    admin.patch(`/passports/${edited.passportId}`, { content: { product: { name: "Another" } } }),
  ]);
  const second = await admin.get(`/passports/${revised.passportId}?version=2`);
  const verdict =
    second.status === 200 ? (await admin.post("/credentials/verify", { credential: second.body.credential })).body.verdict : "invalid";
  expect([verdict, await verdictOf(edited.passportId)]).toEqual(["invalid", "invalid"]);
});

test.each(ROUNDS)("a draft is published or deleted, and a product goes back or gets its passport", async () => {
  const draft = await published({}, "draft");
  const [gone, out] = await Promise.all([
    admin.delete(`/passports/${draft.passportId}`),
    admin.post(`/products/${draft.id}/publish-dpp`, undefined, { "idempotency-key": randomUUID() }),
  ]);
  expect((await admin.get(`/passports/${draft.passportId}`)).status).toBe(out.status === 200 ? 200 : 404);
  expect(gone.status < 300).toBe(out.status >= 300);
  const product = await ready();
  const [back, made] = await Promise.all([
    admin.post(`/products/${product.id}/lifecycle/transition`, { stage: "draft" }),
    admin.post("/dpps", { productId: product.id }),
  ]);
  expect(back.status < 300).toBe(made.status >= 300);
});

test.each(ROUNDS)("a product that is voided gets no serials at the same moment", async () => {
  const product = await ready();
  const [voided, made] = await Promise.all([
    admin.post(`/products/${product.id}/void`, { reason: "x" }),
    admin.post("/carriers/batch", { productId: product.id, count: 1 }),
  ]);
  const { body } = await admin.get(`/audit-logs?limit=200`);
  const seqOf = (action: string) =>
    (body.data as { seq: number; action: string; subject: string }[]).find((row) => row.action === action && row.subject === product.id)
      ?.seq ?? 0;
  expect(voided.status).toBe(200);
  expect(made.status === 409 || seqOf("print.serials_allocated") < seqOf("product.voided")).toBe(true);
});

test("the same outcomes said eight times at once are told of once", async () => {
  const receiver = await startReceiver();
  await shop.admin.post("/webhooks", { url: receiver.url, events: ["print.confirmed"] });
  const serials = await shop.allocate(3);
  const said = { results: serials.map((serial) => ({ serial, status: "printed" })) };
  const answers = await Promise.all(ROUNDS.map(() => shop.admin.post("/carriers/print-status", said)));
  expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
  expect(answers.filter(({ headers }) => headers.has("idempotency-replayed"))).toHaveLength(ROUNDS.length - 1);
  await receiver.end();
});

test("a job that is issued while another system says that it printed the label begins with the warning", async () => {
  const [serial = ""] = await shop.allocate(1);
  const by = { tenantId: shop.tenantId, actor: { kind: "api_key", id: null, name: "MES" }, requestId: randomUUID() };
  const isSaid = Promise.withResolvers<void>();
  const said = w.store.write("print status", async (tx) => {
    await printStatus.report(tx, by, [{ serial, status: "printed" }], { keyless: true, origin: w.url });
    isSaid.resolve();
    await sleep(200); // as one of a thousand labels takes
  });
  await isSaid.promise;
  const [{ status, body }] = await Promise.all([shop.admin.post("/aidc/jobs", { gtin: shop.gtin, serial }), said]);
  expect([status, body.duplicate_risk]).toEqual([201, true]);
  await shop.admin.post(`/aidc/jobs/${body.job_ref}/cancel`);
});

test.each(["the event", "the error"] as const)(
  "an event and what declares it an error but isn't of it aren't both kept, where %s is first",
  async (first) => {
    const eventID = `urn:uuid:${randomUUID()}`;
    const at = { eventTime: "2026-11-21T12:00:00.000Z", eventTimeZoneOffset: "+00:00", action: "OBSERVE" };
    const event = { type: "ObjectEvent", eventID, ...at, bizStep: "inspecting", epcList: [`https://id.gs1.org/01/${shop.gtin}/21/1`] };
    const error = { ...event, bizStep: "loading", errorDeclaration: { declarationTime: "2026-11-22T00:00:00Z" } };
    const [one, other] = first === "the event" ? [event, error] : [error, event];
    const by = { tenantId: shop.tenantId, actor: { kind: "api_key", id: null, name: "WMS" }, requestId: randomUUID() };
    const isSaid = Promise.withResolvers<void>();
    const prepared = await prepare(one, "rollback", { bare: true, sent: Buffer.from(JSON.stringify(one)) });
    const said = w.store.write("capture", async (tx) => {
      await epcis.captureOne(tx, by, prepared);
      isSaid.resolve();
      await sleep(200); // as one of many events takes
    });
    await isSaid.promise;
    const [{ status }] = await Promise.all([shop.admin.post("/epcis/events", other), said]);
    expect(status).toBe(409);
  },
);

test("when a device was changed is known also where its station reports at that moment", async () => {
  const { id, api } = await shop.newDevice("line 8");
  const { body: before } = await shop.admin.get(`/devices/${id}`);
  const isChanged = Promise.withResolvers<void>();
  const caller = { tenantId: shop.tenantId } as Caller;
  const changed = w.store.write("patch", async (tx) => {
    const { updated_at: at } = await devices.patch(tx, caller, id, { name: "line 88" });
    isChanged.resolve();
    await sleep(200);
    return at;
  });
  await isChanged.promise;
  const [said, at] = await Promise.all([api.post("/aidc/station", { buffer_depth: 3 }), changed]);
  expect(said.status).toBe(200);
  const { body } = await shop.admin.get(`/devices/${id}`);
  expect(body).toMatchObject({ name: "line 88", buffer_depth: 3, updated_at: at });
  expect(body.updated_at).not.toBe(before.updated_at);
});

test.each(ROUNDS)("a key becomes one device's, and none's once it is revoked or rotated", async () => {
  const mint = async () => (await shop.admin.post("/api-keys", { name: "k", scopes: ["aidc:write"] })).body.data.id as string;
  const bind = (api_key_id: string) => shop.admin.post("/devices", { name: "line 9", api_key_id });
  const [shared, rotated] = [await mint(), await mint()];
  const [one, two, third] = await Promise.all([bind(shared), bind(shared), bind(rotated), shop.admin.post(`/api-keys/${rotated}/rotate`)]);
  expect([one.status, two.status].toSorted((a, b) => a - b)).toEqual([201, 400]);
  if (third.status !== 201) return;
  const { api_key_id: its } = (await shop.admin.get(`/devices/${third.body.device.id}`)).body;
  expect((await shop.admin.get(`/api-keys/${its}`)).body).toMatchObject({ deviceId: third.body.device.id, revokedAt: null });
});

const OPERATOR = { kind: "operator", id: "op-7" };
const orphan = ({ job, attempt_id }: Claim, disposition: string) =>
  shop.admin.post("/aidc/orphans", { job_ref: job.job_ref, attempt_id, evidence: {}, disposition, actor: OPERATOR });
/** A job of which so many attempts have left a label, and its next claim. */
async function afterLabels(count: number): Promise<{ left: Claim[]; next: Claim; serial: string }> {
  const { serial } = await shop.issue({ max_attempts: count + 1 });
  const left: Claim[] = [];
  for (let i = 0; i < count; i += 1) {
    const claimed = await shop.device.claim();
    await shop.device.upTo(claimed, "SPOOL_SUBMITTED");
    await shop.device.say(claimed, { status: "FAILED", reason: "jam" });
    left.push(claimed);
  }
  return { left, next: await shop.device.claim(), serial };
}
const warnsOf = async (serial: string) => {
  const { body } = await shop.admin.post("/aidc/jobs", { gtin: shop.gtin, serial, reprint: true, reason: "torn" });
  await shop.admin.post(`/aidc/jobs/${body.job_ref}/cancel`);
  return body.duplicate_risk as boolean;
};

test.each(ROUNDS)("a label that is found while another is destroyed goes on warning", async () => {
  const { left, next, serial } = await afterLabels(2);
  await shop.admin.post(`/aidc/jobs/${next.job.job_ref}/cancel`);
  const [first, second] = left as [Claim, Claim];
  await Promise.all([orphan(first, "found"), orphan(second, "destroyed")]);
  expect(await warnsOf(serial)).toBe(true);
  await Promise.all([orphan(first, "destroyed"), orphan(second, "destroyed")]);
  expect(await warnsOf(serial)).toBe(false);
});

test.each(ROUNDS)("a label that is found while another is sealed goes on warning", async () => {
  const { left, next, serial } = await afterLabels(1);
  const said = await shop.device.upTo(next, "SCAN_VERIFIED");
  await Promise.all([orphan(left[0] as Claim, "found"), shop.device.say(next, sealOf(said))]);
  expect(await warnsOf(serial)).toBe(true);
});

test("the same products sent by eight batches in other orders are made once each", async () => {
  const items = Array.from({ length: 40 }, (_, i) => productOf({ name: `Kettle ${i}`, gtin: gtin() }));
  const turned = Array.from({ length: 8 }, (_, n) => [...items.slice(5 * n), ...items.slice(0, 5 * n)]);
  const answers = await Promise.all(turned.map((some, n) => admin.post("/products/batch", { items: n % 2 ? some.toReversed() : some })));
  expect(answers.map(({ status }) => status)).not.toContain(503);
  expect(answers.reduce((sum, { body }) => sum + body.created, 0)).toBe(items.length);
});
