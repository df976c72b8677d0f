// Webhooks as their tenant meets them: made, tried out, changed, rotated, deleted; and what nobody else gets to see of them.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { webhooks as table } from "../../cloud/store/schema.ts";
import { fitting } from "../../cloud/validate.ts";
import type { Answer } from "../../fixtures/client.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { envelopeOf, eventNames, eventTable } from "#shared/events.ts";
import { limits } from "#shared/limits.ts";
import { receiving } from "../hooks.ts";
import { world } from "../world.ts";

const w = await world({ settings: { IMPRIMATUR_WEBHOOK_PRIVATE: "on" }, clock: "stopped" }); // what failed once isn't tried again
let n = 700_000;
const kettle = () => productOf({ gtin: gtinOf((n += 1)) });
const receiver = await receiving();
const tenant = async () => (await w.tenant(`t${(n += 1)}`)).admin;

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

test("names outside the catalogue are UNKNOWN_EVENT_TYPE, at create, change and test, and nothing came of it", async () => {
  const admin = await tenant();
  const refused = await admin.post("/webhooks", { url: receiver.url, events: ["print.confirmed", "print.exploded", "toString"] });
  expect([refused.status, refused.body.error.code, refused.body.error.details]).toEqual([
    422,
    "UNKNOWN_EVENT_TYPE",
    { unknown: ["print.exploded", "toString"], known: eventNames },
  ]);
  expect((await admin.get("/webhooks")).body.data).toEqual([]);
  const { id } = (await admin.post("/webhooks", { url: receiver.url, events: ["print.confirmed"] })).body;
  for (const answer of [await admin.patch(`/webhooks/${id}`, { events: ["x"] }), await admin.post(`/webhooks/${id}/test`, { type: "x" })])
    expect([answer.status, answer.body.error.code]).toEqual([422, "UNKNOWN_EVENT_TYPE"]);
  expect((await admin.get(`/webhooks/${id}`)).body.events).toEqual(["print.confirmed"]);
});

test.each([
  [{ url: "https://erp.example.com/" }, "events"],
  [{ url: "https://erp.example.com/", events: [] }, "events"],
  [{ url: "https://erp.example.com/", events: ["print.failed", "print.failed"] }, "events"],
  [{ events: ["print.failed"] }, "url"],
  [{ url: "https://erp.example.com/", events: ["print.failed"], secret: "whsec_x" }, "secret"],
  [{ url: "not a URL", events: ["print.failed"] }, "url"],
  [{ url: "https://u:p@erp.example.com/", events: ["print.failed"] }, "url"],
  [{ url: "http://169.254.169.254/", events: ["print.failed"] }, "url"],
  [{ url: `https://erp.example.com/${"x".repeat(3_000)}`, events: ["print.failed"] }, "url"],
])("a webhook of %j is a 400 that names %s", async (body, field) => {
  const { status, body: answer } = await w.admin.post("/webhooks", body);
  expect([status, answer.error.code, answer.error.details.fields.map((fault: { field: string }) => fault.field)]).toEqual([
    400,
    "VALIDATION_ERROR",
    [field],
  ]);
});

test("without the private switch a webhook can't lead inside, by address or by name, at create or later", async () => {
  const shut = await world();
  const { id } = (await shut.admin.post("/webhooks", { url: "https://erp.example.com/hook", events: ["print.failed"] })).body;
  for (const url of [
    "http://erp.example.com/",
    "https://127.0.0.1/",
    "https://localhost/",
    "https://[::ffff:10.0.0.1]/",
    "https://2130706433/",
  ])
    for (const answer of [
      await shut.admin.post("/webhooks", { url, events: ["print.failed"] }),
      await shut.admin.patch(`/webhooks/${id}`, { url }),
    ])
      expect([url, answer.status, answer.body.error.details.fields[0].field]).toEqual([url, 400, "url"]);
});

test("a test sends the catalogue's example of an event, signed and recorded like a real one", async () => {
  const admin = await tenant();
  const own = await receiving();
  const { id } = (await admin.post("/webhooks", { url: own.url, events: ["print.failed", "import.failed"] })).body;
  const first = await admin.post(`/webhooks/${id}/test`);
  const second = await admin.post(`/webhooks/${id}/test`, { type: "scan.recorded" });
  expect([first.status, first.body.type, second.body.type]).toEqual([202, "print.failed", "scan.recorded"]);
  expect(first.headers.get("location")).toBe(`/api/v2/webhooks/${id}/deliveries/${first.body.id}`);
  await expect.poll(() => own.received.length).toBe(2);
  expect(own.received.map(({ event, deliveryId }) => [deliveryId, event.type, event.data])).toEqual([
    [first.body.id, "print.failed", eventTable["print.failed"].example],
    [second.body.id, "scan.recorded", eventTable["scan.recorded"].example],
  ]);
  await expect
    .poll(async () => (await admin.get(`/webhooks/${id}/deliveries/${first.body.id}`)).body)
    .toMatchObject({
      status: "delivered",
      attempts: [{ status: 204, error: null, latencyMs: expect.any(Number), responseHead: null, nextTryAt: null }],
      nextTryAt: null,
    });
});

test("a change of events and address holds from then on; a delivery shows what it was answered", async () => {
  const admin = await tenant();
  const own = await receiving((_n, response) => void response.writeHead(503, { "content-type": "text/plain" }).end("down for repairs"));
  const { id } = (await admin.post("/webhooks", { url: receiver.url, events: ["product.deleted"] })).body;
  const changed = await admin.patch(`/webhooks/${id}`, { url: own.url, events: ["product.created"], description: null });
  expect(changed.body).toMatchObject({ url: own.url, events: ["product.created"], description: null });
  await admin.post("/products", kettle());
  const delivery = async () => (await admin.get(`/webhooks/${id}/deliveries?status=pending`)).body.data[0];
  await expect.poll(async () => (await delivery())?.attempts.length).toBe(1);
  expect((await delivery()).attempts[0]).toMatchObject({ status: 503, error: null, responseHead: "down for repairs" });
  const actions = (await admin.get("/audit-logs?class=webhook")).body.data.map(({ action }: { action: string }) => action);
  expect(actions).toEqual(["webhook.updated", "webhook.created"]);
});

test("of a picture in answer its type is shown, and no more of that than of any answer", async () => {
  const admin = await tenant();
  const type = `image/png; name=${"x".repeat(10_000)}`;
  const own = await receiving((_n, response) => void response.writeHead(200, { "content-type": type }).end("picture"));
  const { id } = (await admin.post("/webhooks", { url: own.url, events: ["product.created"] })).body;
  await admin.post(`/webhooks/${id}/test`);
  const delivered = async () => (await admin.get(`/webhooks/${id}/deliveries?status=delivered`)).body.data[0];
  await expect.poll(async () => (await delivered())?.attempts.length).toBe(1);
  const { responseHead } = (await delivered()).attempts[0];
  expect([responseHead.slice(0, 11), responseHead.length]).toEqual(["(image/png;", limits.WEBHOOK_HEAD_MAX_LENGTH]);
});

test("deliveries are listed in pages, newest first, and by what became of them", async () => {
  const admin = await tenant();
  const { id } = (await admin.post("/webhooks", { url: receiver.url, events: ["product.created"] })).body;
  const made: string[] = [];
  for (let i = 0; i < 5; i += 1) made.unshift((await admin.post(`/webhooks/${id}/test`)).body.id);
  await expect.poll(async () => (await admin.get(`/webhooks/${id}/deliveries?status=delivered`)).body.data.length).toBe(5);
  const seen: string[] = [];
  for (let cursor: string | null = ""; cursor !== null;) {
    const page: Answer["body"] = (await admin.get(`/webhooks/${id}/deliveries?limit=2${cursor}`)).body;
    seen.push(...page.data.map((delivery: { id: string }) => delivery.id));
    cursor = page.nextCursor === null ? null : `&cursor=${page.nextCursor}`;
  }
  expect(seen).toEqual(made);
  expect((await admin.get(`/webhooks/${id}/deliveries?status=nonsense`)).status).toBe(400);
  for (const status of ["pending", "failed", "exhausted", "held"])
    expect((await admin.get(`/webhooks/${id}/deliveries?status=${status}`)).body).toEqual({ data: [], nextCursor: null });
});

test("print-status says how many were told; a replay says the same again and tells nobody", async () => {
  const admin = await tenant();
  const own = await receiving();
  for (const events of [["print.confirmed", "print.failed"], ["print.confirmed"]]) await admin.post("/webhooks", { url: own.url, events });
  const product = (await admin.post("/products", kettle())).body;
  const { serials } = (await admin.post("/carriers/batch", { productId: product.id, count: 3 })).body;
  const results = [
    { serial: serials[0], status: "printed" },
    { serial: serials[1], status: "failed", reason: "ribbon out" },
    { serial: serials[2], status: "printed" },
    { serial: "9", status: "printed" },
  ];
  const first = await admin.post("/carriers/print-status", { results });
  expect(first.body.events).toEqual([
    { type: "print.confirmed", webhooksNotified: 2 },
    { type: "print.failed", webhooksNotified: 1 },
  ]);
  const again = await admin.post("/carriers/print-status", { results });
  expect(again.body).toEqual(first.body);
  await expect.poll(() => own.received.length).toBe(3);
  await admin.post("/webhooks", { url: own.url, events: ["print.failed"] });
  expect((await admin.post("/carriers/print-status", { results })).body.events).toEqual(first.body.events);
  const changed = await admin.post("/carriers/print-status", { results: [{ serial: serials[0], status: "failed", reason: "smudged" }] });
  expect(changed.body.events).toEqual([{ type: "print.failed", webhooksNotified: 2 }]);
  await expect.poll(() => own.received.length).toBe(5);
  const told = own.received.map(({ event }) => event).filter(({ type }) => type === "print.confirmed");
  expect(told.map(({ data }) => data["serials"])).toEqual([
    [serials[0], serials[2]],
    [serials[0], serials[2]],
  ]);
  const failed = own.received.map(({ event }) => event).find(({ type }) => type === "print.failed");
  expect(failed?.data).toMatchObject({ serials: [serials[1]], failures: [{ serial: serials[1], reason: "ribbon out" }] });
});

test("the OpenAPI document has every event under webhooks, with the schema that it is validated by, but that it may gain members", async () => {
  const { webhooks } = (await w.nobody.get("/openapi.json")).body;
  const opened = (name: string, value: unknown) => (name === "additionalProperties" && value === false ? undefined : value);
  expect(Object.keys(webhooks)).toEqual(eventNames);
  for (const type of eventNames) {
    const { schema, example } = webhooks[type].post.requestBody.content["application/json"];
    expect(Object.keys(schema.properties)).toEqual(["id", "type", "timestamp", "apiVersion", "data"]);
    expect(schema).toEqual(JSON.parse(JSON.stringify(envelopeOf(type), opened)));
    expect([type, fitting(envelopeOf(type))(example)]).toEqual([type, true]);
  }
});

test("a tenant has at most a thousand webhooks", async () => {
  const { id: tenantId, admin } = await w.tenant("many");
  const { id } = (await admin.post("/webhooks", { url: receiver.url, events: ["print.failed"] })).body;
  await w.store.write("many", async ({ db }) => {
    const row = (await db.select().from(table)).find((one) => one.id === id);
    const others = Array.from({ length: limits.WEBHOOKS_MAX_ITEMS - 1 }, (_, i) => ({ ...row!, tenantId, id: `w${i}` }));
    await db.insert(table).values(others); // one by one they may take longer than a unit may
  });
  const { status, body } = await admin.post("/webhooks", { url: receiver.url, events: ["print.failed"] });
  expect([status, body.error.code]).toEqual([409, "WEBHOOKS_EXHAUSTED"]);
});
