// No secret that was ever issued, and no credential that was ever sent, stands in the log or in the database.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { walk } from "../../fixtures/walk.ts";
import { world } from "../world.ts";

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
