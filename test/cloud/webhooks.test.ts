// Webhooks as their tenant meets them: made, tried out, changed, rotated, deleted; and what nobody else gets to see of them.
import { randomUUID } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { gtinOf } from "../../fixtures/gtin.ts";
import { startReceiver } from "../../fixtures/receiver.ts";
import { world } from "../world.ts";

const w = await world({ settings: { IMPRIMATUR_WEBHOOK_PRIVATE: "on" } });
let n = 700_000;
const kettle = () => ({
  name: "Kettle",
  description: "A kettle of 1.7 litres",
  category: "electronics",
  gtin: gtinOf((n += 1)),
  serialNumber: "1",
  extensions: {},
});
const receiver = await startReceiver();
afterAll(() => receiver.end());
const tenant = async () => {
  const made = (await w.admin.post("/tenants", { name: `t${(n += 1)}` })).body;
  return w.as(made.adminKey.secret);
};

test("a webhook is made with a secret that is shown once", async () => {
  const admin = await tenant();
  const key = randomUUID();
  const body = { url: receiver.url, events: ["product.created", "print.failed"], description: "ERP" };
  const made = await admin.post("/webhooks", body, { "idempotency-key": key });
  expect([made.status, made.body]).toEqual([
    201,
    {
      id: expect.any(String),
      ...body,
      enabled: true,
      disabledAt: null,
      disabledReason: null,
      failingSince: null,
      previousSecretUntil: null,
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    },
  ]);
  const { secret, ...shown } = made.body;
  const again = await admin.post("/webhooks", body, { "idempotency-key": key });
  expect([again.headers.get("idempotency-replayed"), again.body]).toEqual(["true", { ...shown, secret: null }]);
  expect((await admin.get(`/webhooks/${shown.id}`)).body).toEqual(shown);
  expect((await admin.get("/webhooks")).body).toEqual({ data: [shown], nextCursor: null });
  const tables = ["webhooks", "idempotency", "audit_log"];
  const rows = await w.store.read("dump", async ({ db }) =>
    JSON.stringify(await Promise.all(tables.map((t) => db.values(`SELECT * FROM ${t}`)))),
  );
  expect([rows.includes(secret), w.logged().join("\n").includes(secret)]).toEqual([false, false]);
});

test("a product that is created reaches who listens, and nobody else", async () => {
  const [admin, stranger] = [await tenant(), await tenant()];
  const { id } = (await admin.post("/webhooks", { url: receiver.url, events: ["product.created"] })).body;
  await stranger.post("/webhooks", { url: `${receiver.url}/stranger`, events: ["product.created"] });
  await admin.post("/webhooks", { url: `${receiver.url}/other`, events: ["product.deleted"] });
  const before = receiver.received.length;
  const product = (await admin.post("/products", kettle())).body;
  await expect.poll(() => receiver.received.length).toBe(before + 1);
  const [got] = receiver.received.slice(before);
  expect(Object.keys(got!.event)).toEqual(["id", "type", "timestamp", "apiVersion", "data"]);
  expect(got!.event).toMatchObject({ type: "product.created", data: { productId: product.id, gtin: product.gtin, version: 1 } });
  const [event] = (await admin.get(`/products/${product.id}/events`)).body.data;
  expect(got!.event.id).toBe(event.id);
  await expect.poll(async () => (await admin.get(`/webhooks/${id}/deliveries`)).body.data[0]?.status).toBe("delivered");
});
