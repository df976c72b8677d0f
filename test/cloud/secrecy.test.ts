// What nobody else may know: secrets stand in no log and no table, a tenant's words in no other tenant's answers, no log line and no metric.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import type { Route } from "../../cloud/route.ts";
import { routes } from "../../cloud/routes/index.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { onServer } from "../../fixtures/postgres.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { walk } from "../../fixtures/walk.ts";
import type { World } from "../../fixtures/world.ts";
import { engine, freshDatabase, world } from "../world.ts";

test("a full walk, then every secret is searched for in the log and in the tables", async () => {
  const w = await world();
  await walk(w.url, w.adminKey, () => {});
  const key = (await w.admin.post("/api-keys", { name: "k", scopes: ["aidc:read"] }, { "idempotency-key": randomUUID() })).body.data.secret;
  const client = (await w.admin.post("/oauth/clients", { name: "c", scopes: ["aidc:read"] }, { "idempotency-key": randomUUID() })).body;
  const request = { grant_type: "client_credentials", client_id: client.client_id, client_secret: client.client_secret };
  const token = (await w.nobody.post("/oauth/token", request, { "idempotency-key": randomUUID() })).body.access_token;
  const tenantKey = (await w.admin.post("/tenants", { name: "t" }, { "idempotency-key": randomUUID() })).body.adminKey.secret;
  await w.as(`${key}x`).get("/tenant");
  await w.as(key).get("/audit-logs");
  const log = w.logged().join("\n");
  expect(log).toContain('"event":"request"');
  const tables = ["api_keys", "oauth_clients", "idempotency", "audit_log", "tenants", "signing_keys"];
  const rows = await w.store.read("dump", async ({ db }) => {
    const all: unknown[] = [];
    for (const table of tables) all.push(await db.values(`SELECT * FROM ${table}`));
    return JSON.stringify(all);
  });
  for (const secret of [w.adminKey, key, client.client_secret, token, tenantKey]) {
    expect(log).not.toContain(secret);
    expect(rows).not.toContain(secret);
  }
});

const CANARY = "kanarienvogel";
const canaries = (text: string) => text.match(new RegExp(`.{0,80}${CANARY}.{0,40}`, "gi")) ?? [];
const UNIQUE = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|pj_[0-9a-z]{26}/gi;

/** A tenant that writes the word wherever a tenant may write, and is refused with it; nothing of it is published. */
async function telling(w: World) {
  const shop = await printShop(w, { sandbox: false }); // its own name stands on what it has published
  const { admin } = shop;
  const word = { name: CANARY, description: `${CANARY} that nobody else may hear of` };
  const gtin = gtinOf(930_001);
  const product = { ...word, category: "electronics", gtin, serialNumber: CANARY, extensions: {} };
  const job = await shop.issue();
  const { attempt_id } = await shop.device.claim();
  const event = { type: "ObjectEvent", action: "OBSERVE", eventTime: "2026-11-21T09:00:00Z", eventTimeZoneOffset: "+00:00" };
  const csv = { body: `name,description,gtin,serialNumber\n${CANARY},short,${CANARY},1\n`, headers: { "content-type": "text/csv" } };
  const said = [
    await admin.post("/products", product),
    await admin.post("/products", { ...product, gtin: CANARY, [CANARY]: CANARY }),
    await admin.post("/api-keys", { name: CANARY, scopes: ["aidc:read"] }),
    await admin.post("/api-keys", { name: CANARY, scopes: [CANARY] }),
    await admin.post("/oauth/clients", { name: CANARY, scopes: ["aidc:read"] }),
    await admin.post("/webhooks", { url: `https://${CANARY}.example/hook`, events: ["print.confirmed"], description: CANARY }),
    await admin.post("/webhooks", { url: `http://${CANARY}@127.0.0.1/`, events: [CANARY] }),
    await admin.post("/devices", { name: CANARY, station: CANARY }),
    await shop.device.api.post(`/aidc/jobs/${job.job_ref}/result`, { status: "FAILED", attempt_id, reason: CANARY }),
    await shop.device.api.post(`/aidc/jobs/${job.job_ref}/result`, { status: CANARY, attempt_id, reason: CANARY }),
    await admin.post("/epcis/events", { ...event, epcList: [`urn:${CANARY}:1`], "ex:note": CANARY }),
    await admin.post("/epcis/events", { ...event, epcList: [CANARY], bizStep: CANARY }),
    await admin.send("POST", "/imports?category=electronics", csv),
    await admin.post("/credentials/verify", { credential: CANARY }),
    await admin.get(`/products/${CANARY}?${CANARY}=${CANARY}`),
    await admin.send("POST", `/${CANARY}`, { body: `{"${CANARY}`, headers: { "content-type": "application/json" } }),
    await admin.get("/audit-logs"),
    ...(await Promise.all(
      ["products", "carriers", "devices", "webhooks", "aidc/jobs", "passports", "imports"].map((path) => admin.get(`/${path}`)),
    )),
  ];
  const ids = [...new Set(said.map(({ text }) => text.match(UNIQUE)?.[0]).filter((id) => id !== undefined))];
  return { ...shop, said, ids, job, gtin, serial: (await shop.allocate(1))[0] ?? "" };
}

test("another tenant hears nothing of it by any route, whatever it asks for; nor does the log, nor a metric", async () => {
  const w = await world();
  const a = await telling(w);
  expect(a.said.filter(({ text }) => canaries(text).length > 0).length).toBeGreaterThan(8); // its own tenant does hear it
  const b = await printShop(w, { name: "curious", sandbox: false });
  const names: Record<string, string> = {
    productId: a.product.id,
    gtin: a.gtin,
    serial: a.serial,
    job_ref: a.job.job_ref,
    device: a.device.id,
  };
  const bodyOf = ({ example }: Route) => {
    if (typeof example !== "object" || example === null) return undefined;
    return Object.fromEntries(Object.entries(example).map(([name, value]) => [name, names[name] ?? value]));
  };
  const heard: string[] = [];
  for (const route of routes.filter(({ endless, path }) => !endless && path !== "/tenants")) {
    const places = route.path.includes("{") ? [...a.ids, a.serial, a.gtin] : [""];
    const query = route.query
      ? `?${new URLSearchParams(Object.entries(names).filter(([name]) => name in route.query.properties)).toString()}`
      : "";
    const json = bodyOf(route);
    const answers = await Promise.all(
      places.flatMap((id, n) =>
        (n === 0 ? (["admin", "device"] as const) : (["admin"] as const)).map((who) =>
          (who === "admin" ? b.admin : b.device.api).send(
            route.method,
            `${route.root ? "/" : ""}${route.path.replaceAll(/\{\w+\}/g, id)}${query}`,
            {
              ...(json === undefined || route.method === "GET" ? {} : { json }),
              headers: { "idempotency-key": randomUUID() },
            },
          ),
        ),
      ),
    );
    for (const { status, text, headers } of answers) {
      expect([route.path, status < 500 || [502, 503].includes(status)]).toEqual([route.path, true]);
      heard.push(...canaries(text + JSON.stringify([...headers])).map((line) => `${route.method} ${route.path}: ${line}`));
    }
  }
  expect(heard).toEqual([]);
  expect(w.logged().flatMap(canaries)).toEqual([]);
  const metrics = (await w.admin.get("/metrics")).text;
  expect(canaries(metrics)).toEqual([]);
  expect(metrics.match(UNIQUE)).toBeNull(); // no tenant, no device, no job
  expect(metrics).not.toContain(a.gtin);
});

test.runIf(engine === "postgres")("a row that the database refuses is told in the log without what stands in it", async () => {
  const databaseUrl = await freshDatabase();
  const w = await world({ databaseUrl });
  await onServer(databaseUrl ?? "", "ALTER TABLE products ADD CONSTRAINT somebodys CHECK (name <> 'Kanarienvogel')");
  const bird = { name: "Kanarienvogel", description: "A kettle of 1.7 litres", category: "electronics" };
  expect((await w.admin.post("/products", { ...bird, gtin: gtinOf(977_001), serialNumber: "1", extensions: {} })).status).toBe(500);
  expect(w.logged().join("\n")).toContain("violates check constraint");
  expect(w.logged().flatMap(canaries)).toEqual([]);
});

test("what callers send makes no line of its own in the log, nor moves a terminal's cursor", async () => {
  const w = await world();
  const nasty = ['\r\n{"event":"forged"}', "\u001b[2J\u001b]0;forged\u0007", '","event":"forged","x":"', "\u2028forged\u0000\ud800"];
  for (const text of nasty) {
    const escaped = encodeURIComponent(text.toWellFormed());
    await w.admin.get(`/products/${escaped}?${escaped}=${escaped}`);
    await w.nobody.get(`//${escaped}`);
    await w.admin.post("/products", { name: text, [text]: text });
    await w.admin.post("/oauth/clients", { name: text, scopes: ["aidc:read"] });
    await w.nobody.post(
      "/oauth/token",
      { grant_type: "client_credentials", client_id: text, client_secret: text },
      { "idempotency-key": "x" },
    );
    await w.as(escaped, { "x-correlation-id": escaped, "user-agent": escaped, "x-forwarded-for": escaped }).get("/tenant");
  }
  const lines = w.logged().filter((line) => line !== "");
  const events = new Set(lines.map((line) => (JSON.parse(line) as { event?: string }).event)); // each is one object
  expect(events.has("forged")).toBe(false);
  // oxlint-disable-next-line no-control-regex -- the ones that a terminal obeys
  expect(lines.filter((line) => /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(line))).toEqual([]);
  expect(lines.length).toBeGreaterThan(nasty.length);
});
