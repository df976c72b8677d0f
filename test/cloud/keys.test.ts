// API keys: minted with less than one has, refused with what is missing, rotated, revoked; secrets seen once.
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import type { Answer } from "../../fixtures/client.ts";
import { world } from "../world.ts";

const w = await world();
const mint = async (scopes: string[], by = w.admin) => (await by.post("/api-keys", { name: "a key", scopes })).body.data;
const tenant = async (input: object = {}) => {
  const { body } = await w.admin.post("/tenants", { name: "another", ...input });
  return { ...body.data, admin: w.as(body.adminKey.secret), secret: body.adminKey.secret as string };
};

test("a key with fewer scopes is minted, used, and refused with what it would need and what it has", async () => {
  const { status, body } = await w.admin.post("/api-keys", { name: "reader", scopes: ["products:read"] });
  expect(status).toBe(201);
  expect(body.data).toMatchObject({ name: "reader", scopes: ["products:read"], deviceId: null });
  expect(body.data.secret).toMatch(/^imp_[0-9a-z]{57}$/);
  const reader = w.as(body.data.secret);
  expect((await reader.get("/tenant")).body.name).toBe("default");
  const refused = await reader.get("/api-keys");
  expect(refused.status).toBe(403);
  expect(refused.body.error).toMatchObject({ code: "API_SCOPE_DENIED", details: { required: ["*:*"], available: ["products:read"] } });
});

test("rotation kills the old secret at once and gives a new id; revoking twice is told apart", async () => {
  const old = await mint(["aidc:read"]);
  const rotated = (await w.admin.post(`/api-keys/${old.id}/rotate`)).body.data;
  expect(rotated.id).not.toBe(old.id);
  expect(rotated.scopes).toEqual(["aidc:read"]);
  expect((await w.as(old.secret).get("/tenant")).status).toBe(401);
  expect((await w.as(rotated.secret).get("/tenant")).status).toBe(200);
  expect((await w.admin.delete(`/api-keys/${old.id}`)).body.error.code).toBe("ALREADY_REVOKED");
  expect((await w.admin.delete(`/api-keys/${rotated.id}`)).status).toBe(204);
  expect((await w.as(rotated.secret).get("/tenant")).status).toBe(401);
  expect((await w.admin.delete(`/api-keys/${rotated.id}`)).status).toBe(409);
});

test("x-api-key is heard as well, and Authorization before it", async () => {
  const { secret } = await mint(["aidc:read"]);
  expect((await w.nobody.get("/tenant", { headers: { "x-api-key": secret } })).status).toBe(200);
  expect((await w.as("wrong-credential-altogether").get("/tenant", { headers: { "x-api-key": secret } })).status).toBe(401);
  expect((await w.nobody.get("/tenant")).body.error.code).toBe("UNAUTHORIZED");
});

test("permissions is another name of scopes; unknown scopes, no scopes and a missing name are refused by name", async () => {
  expect((await w.admin.post("/api-keys", { name: "old style", permissions: ["products:view"] })).body.data.scopes).toEqual([
    "products:view",
  ]);
  const fieldsOf = async (body: object) =>
    (await w.admin.post("/api-keys", body)).body.error.details.fields.map(({ field }: { field: string }) => field);
  expect(await fieldsOf({ name: "x", scopes: ["products:fly"] })).toEqual(["scopes.0"]);
  expect(await fieldsOf({ name: "x" })).toEqual(["scopes"]);
  expect(await fieldsOf({ scopes: ["nope"], extra: 1 })).toEqual(expect.arrayContaining(["name", "scopes.0", "extra"]));
  expect(await fieldsOf({ name: "x", scopes: ["aidc:read"], permissions: ["aidc:write"] })).toEqual(["permissions"]);
});

test("nobody grants what they don't hold: *:* stops before platform scopes, also when rotating", async () => {
  const admin = await mint(["*:*"]);
  const denied = await w.as(admin.secret).post("/api-keys", { name: "up", scopes: ["platform:*"] });
  expect([denied.status, denied.body.error.details.required]).toEqual([403, ["platform:*"]]);
  const platform = await mint(["platform:admin"]);
  expect((await w.as(admin.secret).post(`/api-keys/${platform.id}/rotate`)).status).toBe(403);
  expect((await w.as(platform.secret).get("/tenant")).status).toBe(200);
  expect((await w.as(admin.secret).get("/tenants")).status).toBe(403);
  expect((await w.as(platform.secret).get("/tenants")).status).toBe(200);
});

test("another tenant's key is not there: reading, rotating and revoking it are 404", async () => {
  const other = await tenant();
  const { id, secret } = await mint(["aidc:read"]);
  for (const answer of [
    await other.admin.get(`/api-keys/${id}`),
    await other.admin.post(`/api-keys/${id}/rotate`),
    await other.admin.delete(`/api-keys/${id}`),
  ])
    expect([answer.status, answer.body.error.code]).toEqual([404, "NOT_FOUND"]);
  expect((await w.as(secret).get("/tenant")).status).toBe(200);
  expect((await other.admin.get("/api-keys")).body.data).toHaveLength(1);
});

test("a list pages by cursor without losing or doubling, and refuses a cursor of its caller's making", async () => {
  const { admin } = await tenant();
  for (let i = 0; i < 6; i += 1) await mint(["aidc:read"], admin);
  const seen: string[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const { body }: Answer = await admin.get(`/api-keys?limit=3${cursor ? `&cursor=${cursor}` : ""}`);
    seen.push(...body.data.map(({ id }: { id: string }) => id));
    cursor = body.nextCursor;
  }
  expect(new Set(seen).size).toBe(7);
  expect(JSON.stringify((await admin.get("/api-keys")).body)).not.toContain("secret");
  const { error } = (await admin.get("/api-keys?cursor=zzz")).body;
  expect([error.details.fields[0].field, error.message.split("; ")]).toEqual(["cursor", [error.message]]); // one fault, told as one
  expect((await admin.get("/api-keys?limit=0")).status).toBe(400);
  expect((await admin.get("/api-keys?limit=many&color=red")).body.error.details.fields).toHaveLength(2);
});

test("a sandbox past its end may only read its tenant, until then everything", async () => {
  const { admin, sandbox, expiresAt } = await tenant({ sandbox: true, expiresAt: new Date(Date.now() + 3_600_000).toISOString() });
  expect([sandbox, typeof expiresAt]).toEqual([true, "string"]);
  expect((await admin.get("/api-keys")).status).toBe(200);
  w.later(7_200_000);
  expect((await admin.get("/api-keys")).body.error.code).toBe("SANDBOX_EXPIRED");
  expect((await admin.get("/tenant")).status).toBe(200);
  const ordinary = await tenant({ expiresAt: "2020-01-01T00:00:00.000Z" });
  expect((await ordinary.admin.get("/api-keys")).status).toBe(200);
});

test("the platform moves a sandbox's end and a tenant's tier, and nobody else does; it counts at once, and both audit logs tell of it", async () => {
  const sandbox = await tenant({ sandbox: true, expiresAt: new Date(Date.now() + 60_000).toISOString() });
  const at = `/tenants/${sandbox.id}`;
  const past = "2026-01-01T00:00:00.000Z";
  for (const expiresAt of [past, past.slice(0, 10)])
    expect((await w.admin.patch(at, { expiresAt })).body).toMatchObject({ id: sandbox.id, expiresAt: past, tier: "sandbox" });
  expect((await sandbox.admin.get("/api-keys")).body.error.code).toBe("SANDBOX_EXPIRED");
  expect((await w.admin.patch(at, { expiresAt: null, tier: "pro" })).body).toMatchObject({ expiresAt: null, tier: "pro" });
  expect((await w.admin.get(at)).body).toMatchObject({ expiresAt: null, tier: "pro" });
  expect((await sandbox.admin.get("/api-keys")).status).toBe(200);
  const told = async (by: typeof w.admin) => (await by.get("/audit-logs?action=tenant.updated&limit=1")).body.data[0];
  const row = { subject: sandbox.id, details: { tier: "pro", expiresAt: null } };
  expect([await told(w.admin), await told(sandbox.admin)]).toMatchObject([row, { ...row, actor: { kind: "system", name: "platform" } }]);
  for (const theirs of [at, `/tenants/${crypto.randomUUID()}`])
    expect([(await sandbox.admin.get(theirs)).status, (await sandbox.admin.patch(theirs, { tier: "pro" })).status]).toEqual([403, 403]);
  expect((await w.admin.patch(`/tenants/${crypto.randomUUID()}`, { tier: "pro" })).status).toBe(404);
  const ordinary = await tenant();
  const refused = await w.admin.patch(`/tenants/${ordinary.id}`, { expiresAt: past });
  expect([refused.status, refused.body.error.details.fields[0].field]).toEqual([400, "expiresAt"]);
});

test("a tenant sets what is its own and nothing else", async () => {
  const { admin } = await tenant();
  const { body } = await admin.patch("/tenant", { companyPrefixes: ["4012345"], maxAttempts: 5 });
  expect(body).toMatchObject({ companyPrefixes: ["4012345"], maxAttempts: 5, offlineGraceSeconds: 900 });
  expect((await admin.patch("/tenant", { companyPrefixes: ["12345"], tier: "pro" })).body.error.details.fields).toHaveLength(2);
});

test("reaching for a scope that one doesn't hold is audited, although the refusal undid all else; once, with a key too", async () => {
  const { admin: climber } = await w.tenant("climber");
  const reach = (headers: Record<string, string>) => climber.post("/api-keys", { name: "x", scopes: ["platform:admin"] }, headers);
  expect((await reach({ "x-correlation-id": "esc-1" })).status).toBe(403);
  const key = { "x-correlation-id": "esc-2", "idempotency-key": "esc" };
  expect([(await reach(key)).status, (await reach(key)).headers.get("idempotency-replayed")]).toEqual([403, "true"]);
  for (const id of ["esc-1", "esc-2"]) {
    const rows = (await climber.get(`/audit-logs?requestId=${id}`)).body.data;
    expect(rows.map(({ action, subject }: { action: string; subject: string }) => [action, subject])).toEqual([
      ["auth.scope_denied", "POST /api/v2/api-keys"],
    ]);
  }
});

test.each([
  ["2026-12-31T23:59:60Z", 400],
  ["2030-01-01 00:00:00Z", 400],
  ["2030-01-01T24:00:00Z", 400],
  ["2030-02-30T00:00:00Z", 400],
  ["2030-02-30", 400],
  ["2030-01-01T00:00:00+05", 400],
  ["0000-01-01T00:00:00+23:59", 400],
  ["9999-12-31T23:59:59-23:59", 400],
  ["2028-02-29T00:00:00+01:00", 201],
  ["2028-02-29", 201],
  ["2030-01-01T00:00:00.123456Z", 201],
])("a sandbox that expires at %s is answered with %i", async (expiresAt, status) => {
  const said = await w.admin.post("/tenants", { name: "e", sandbox: true, expiresAt });
  expect(said.status).toBe(status);
  const message = "must be a day or an instant of ISO 8601, such as 2026-01-31 or 2026-01-31T12:00:00Z";
  if (status === 400) expect(said.body.error.details.fields).toMatchObject([{ field: "expiresAt", message }]);
});

test("every wrong field is named at once: by shape, by content, between fields and in the header", async () => {
  const fields = async (path: string, body: unknown, headers = {}) =>
    (await w.admin.post(path, body, headers)).body.error.details.fields.map(({ field }: { field: string }) => field);
  expect(await fields("/api-keys", {})).toEqual(["name", "scopes"]);
  expect(await fields("/tenants", { name: "a\u0000", foo: 1, tier: "bogus" })).toEqual(["name", "foo", "tier"]);
  expect(await fields("/tenants", { tier: "x" }, { "idempotency-key": "tab\there" })).toEqual(["name", "tier", "Idempotency-Key"]);
});

describe("a request whose body was on its way while", () => {
  /** Sends its head and a beginning, and the rest of it after `meanwhile`. */
  async function late(path: string, headers: Record<string, string>, body: string, meanwhile: () => unknown) {
    const begun = request(`${w.url}/api/v2${path}`, { method: "POST", headers: { ...headers, "content-length": body.length } });
    const answered = once(begun, "response") as Promise<[IncomingMessage]>;
    begun.write(body.slice(0, 1));
    await sleep(2 * limits.BODY_PROMPT_MS);
    await meanwhile();
    begun.end(body.slice(1));
    const [answer] = await answered;
    return { status: answer.statusCode, body: JSON.parse(await text(answer)) };
  }
  const json = { "content-type": "application/json" };
  const bearer = (secret: string) => ({ ...json, authorization: `Bearer ${secret}` });
  const wanted = JSON.stringify({ name: "late", scopes: ["*:*"] });
  const made = async () =>
    (await w.admin.get("/api-keys?limit=200")).body.data.filter(({ name }: { name: string }) => name === "late").length;

  test.concurrent("its key was revoked does nothing: no key is made that outlives it", async () => {
    const { id, secret } = await mint(["*:*"]);
    const { status, body } = await late("/api-keys", bearer(secret), wanted, () => w.admin.delete(`/api-keys/${id}`));
    expect([status, body.error?.code, await made()]).toEqual([401, "UNAUTHORIZED", 0]);
  });

  test.concurrent("its session was ended does nothing either", async () => {
    const { secret } = await mint(["*:*"]);
    const from = { origin: w.url, "sec-fetch-site": "same-origin" };
    const { headers } = await w.nobody.post("//console/session", { key: secret }, from);
    const signedIn = { ...json, ...from, cookie: headers.get("set-cookie")?.split(";")[0] ?? "" };
    const { status, body } = await late("/api-keys", signedIn, wanted, () => w.nobody.delete("//console/session", signedIn));
    expect([status, body.error?.code, await made()]).toEqual([401, "UNAUTHORIZED", 0]);
  });

  test.concurrent("its key was revoked brings no file in", async () => {
    const { id, secret } = await mint(["products:create", "products:read"]);
    const file = "name,description,gtin,serialNumber,weeeCategory\nPot,A pot of two litres,4006381333931,SN-7,small_equipment\n";
    const { status } = await late("/imports?category=electronics", { ...bearer(secret), "content-type": "text/csv" }, file, () =>
      w.admin.delete(`/api-keys/${id}`),
    );
    expect([status, (await w.admin.get("/imports")).body.data]).toEqual([401, []]);
  });

  test.concurrent("nothing happened to its key is answered as any other", async () => {
    const { secret } = await mint(["*:*"]);
    const { status } = await late("/api-keys", bearer(secret), JSON.stringify({ name: "slow", scopes: ["*:*"] }), () => {});
    expect(status).toBe(201);
  });
});
