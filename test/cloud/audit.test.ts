// The audit log: one row a mutation, with the request's id, in a chain that shows every kind of tampering.
import { sql } from "drizzle-orm";
import { expect, test } from "vitest";
import { digestOf } from "#shared/canonical.ts";
import { engine, world } from "../world.ts";

const w = await world();
const verdict = async () => (await w.admin.get("/audit-logs/verify")).body;
const tamper = (text: string) => w.store.write("tamper", async ({ db }) => void (await db.run(sql.raw(text))));

test("a mutation, a refusal for want of a scope and a wrong client secret each leave one row with the request's id", async () => {
  const { secret } = (await w.admin.post("/api-keys", { name: "r", scopes: ["aidc:read"] }, { "x-correlation-id": "mint-1" })).body.data;
  const refused = await w.as(secret, { "x-correlation-id": "refused-1" }).get("/audit-logs");
  expect(refused.headers.get("x-correlation-id")).toBe("refused-1");
  const rows = async (requestId: string) => (await w.admin.get(`/audit-logs?requestId=${requestId}`)).body.data;
  expect(await rows("mint-1")).toMatchObject([{ action: "auth.key_created", class: "auth", requestId: "mint-1" }]);
  expect(await rows("refused-1")).toMatchObject([{ action: "auth.scope_denied", details: { required: ["*:*"] } }]);
  const isTold = () => w.logged().some((line) => line.includes('"requestId":"refused-1"') && line.includes('"status":403'));
  await expect.poll(isTold).toBe(true);
  expect((await w.admin.get("/audit-logs?class=tenant")).body.data).toEqual([]);
});

test("a stranger recomputes every hash from what the API shows", async () => {
  const { data } = (await w.admin.get("/audit-logs?limit=200")).body;
  let prevHash = "0".repeat(64);
  for (const { hash, ...row } of data.toReversed()) {
    expect(row.prevHash).toBe(prevHash);
    expect(digestOf(row)).toBe(hash);
    prevHash = hash;
  }
  expect(await verdict()).toMatchObject({ valid: true, rows: data.length, firstBroken: null });
});

test("tenants have chains of their own", async () => {
  const { adminKey } = (await w.admin.post("/tenants", { name: "own chain" })).body;
  expect((await w.as(adminKey.secret).get("/audit-logs")).body.data).toEqual([]);
});

test("which key became a device's, and died with it, is said with the device", async () => {
  const { admin } = await w.tenant("keys of devices");
  const { id } = (await admin.post("/api-keys", { name: "line 1", scopes: ["aidc:read", "aidc:write"] })).body.data;
  const { device } = (await admin.post("/devices", { name: "line 1", api_key_id: id })).body;
  expect((await admin.delete(`/devices/${device.id}`)).status).toBe(204);
  const { data } = (await admin.get("/audit-logs?class=device")).body;
  const of = { subject: device.id, details: { name: "line 1", keyId: id } };
  expect(data).toMatchObject([
    { action: "device.deleted", ...of },
    { action: "device.created", ...of },
  ]);
});

test("concurrent writers keep one chain without a gap", async () => {
  await Promise.all(Array.from({ length: 20 }, (_, i) => w.admin.post("/api-keys", { name: `c${i}`, scopes: ["aidc:read"] })));
  expect((await verdict()).valid).toBe(true);
});

test("rows of a class or an action are all that there are, newest first, page by page", async () => {
  const { admin } = await w.tenant("sorted");
  for (let n = 0; n < 4; n += 1) {
    await admin.post("/api-keys", { name: `k${n}`, scopes: ["aidc:read"] });
    await admin.post("/webhooks", { url: "https://dpp.example/hook", events: ["product.created"] });
    await admin.post("/oauth/clients", { name: `c${n}`, scopes: ["aidc:read"] });
  }
  const paged = async (query: string, limit: number) => {
    const seqs: number[] = [];
    for (let cursor = ""; ;) {
      const { data, nextCursor } = (await admin.get(`/audit-logs?${query}&limit=${limit}${cursor}`)).body;
      seqs.push(...data.map(({ seq }: { seq: number }) => seq));
      if (nextCursor === null) return seqs;
      cursor = `&cursor=${nextCursor}`;
    }
  };
  expect(await paged("class=auth", 3)).toEqual([12, 10, 9, 7, 6, 4, 3, 1]);
  expect(await paged("class=webhook", 1)).toEqual([11, 8, 5, 2]);
  expect(await paged("action=auth.client_created", 2)).toEqual([12, 9, 6, 3]);
  expect(await paged("action=auth.client_created&class=auth", 4)).toEqual([12, 9, 6, 3]);
  expect(await paged("action=auth.client_created&class=print", 4)).toEqual([]);
});

test("an action that the log doesn't know is refused: nothing found would read as if it never happened", async () => {
  const { status, body } = await w.admin.get("/audit-logs?action=product.void");
  expect([status, body.error?.code, body.error?.details.fields]).toMatchObject([
    400,
    "VALIDATION_ERROR",
    [{ field: "action", rule: "enum" }],
  ]);
  expect(body.error?.message).toContain("product.voided");
});

test("a row beyond the head, a head that is gone and a row that can't be read are found and named", async () => {
  const sick = await world();
  const verdict = async () => (await sick.admin.get("/audit-logs/verify")).body;
  const run = (text: string) => sick.store.write("tamper", async ({ db }) => void (await db.run(sql.raw(text))));
  await sick.admin.post("/api-keys", { name: "k", scopes: ["aidc:read"] });
  await run(
    "INSERT INTO audit_log SELECT tenant_id, seq + 1, at, action, actor, subject, details, request_id, prev_hash, hash FROM audit_log ORDER BY seq DESC LIMIT 1",
  );
  expect(await verdict()).toMatchObject({
    valid: false,
    rows: 2,
    firstBroken: { seq: 3, fault: expect.stringContaining("beyond the head") },
  });
  await run("DELETE FROM audit_log WHERE seq = 3");
  expect((await verdict()).valid).toBe(true);
  await run("UPDATE audit_log SET actor = '{' WHERE seq = 2");
  expect(await verdict()).toMatchObject({
    valid: false,
    rows: 1,
    firstBroken: { seq: 2, fault: expect.stringContaining("can't be read") },
  });
  await run("DELETE FROM audit_heads");
  await sick.restart();
  expect(await verdict()).toMatchObject({ valid: false, firstBroken: { seq: 1 } });
});

test.runIf(engine === "sqlite")("a chain to which a full disk let no more be added is whole, and goes on", async () => {
  const full = await world();
  const asks = full.as((await full.admin.post("/api-keys", { name: "r", scopes: ["aidc:read"] })).body.data.secret);
  const pages = (most: number) => full.store.write("pages", async ({ db }) => void (await db.values(`PRAGMA max_page_count = ${most}`)));
  await pages(1);
  for (let isFull = false; !isFull;) isFull = (await asks.get("/audit-logs")).body.error.code === "STORE_UNAVAILABLE";
  await pages(1_000_000);
  expect((await asks.get("/audit-logs")).status).toBe(403);
  expect((await full.admin.get("/audit-logs/verify")).body.valid).toBe(true);
});

test("a changed, a deleted and a cut-off row are each found and named", async () => {
  const { rows } = await verdict();
  await tamper("UPDATE audit_log SET details = '{\"innocent\":true}' WHERE seq = 3");
  expect((await verdict()).firstBroken).toMatchObject({ seq: 3, fault: expect.stringContaining("content") });
  await tamper("DELETE FROM audit_log WHERE seq = 2");
  expect((await verdict()).firstBroken).toMatchObject({ seq: 2, fault: expect.stringContaining("missing") });
  await tamper("DELETE FROM audit_log WHERE seq > 1");
  expect((await verdict()).firstBroken).toMatchObject({ seq: 2 });
  expect(rows).toBeGreaterThan(20);
});
