// A credential dies while sixty-four requests of it are on their way: none that begins after the death was answered is let in.
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { authenticator } from "../../cloud/auth.ts";
import type { Keys } from "../../cloud/keys.ts";
import { sql } from "../../cloud/store/drizzle.ts";
import type { Store } from "../../cloud/store/store.ts";
import { startWorld, type World } from "../../fixtures/world.ts";
import { freshDatabase, world } from "../world.ts";

const CALLERS = 64;
const AFTERWARDS = 3; // calls of each, begun when it was over
type Call = { begun: number; status: number };
type Mortal = { secret: string; die(): Promise<unknown> };

/** Calls without a pause from before the death until well after it; says what was let in although it began too late. */
async function callsThroughDeath(w: World, { secret, die }: Mortal) {
  const calls: Call[] = [];
  let deadSince = Number.POSITIVE_INFINITY;
  const caller = async () => {
    for (let late = 0; late < AFTERWARDS;) {
      const begun = performance.now();
      const { status } = await w.as(secret).get("/tenant");
      if (status === 503) continue; // neither let in nor refused: a busy machine sheds
      calls.push({ begun, status });
      if (begun > deadSince) late += 1;
    }
  };
  const callers = Array.from({ length: CALLERS }, caller);
  while (calls.length < CALLERS) await new Promise((resolve) => setTimeout(resolve, 5));
  await die();
  deadSince = performance.now();
  await Promise.all(callers);
  return {
    early: calls.filter(({ begun, status }) => begun < deadSince && status === 200).length,
    late: calls.filter(({ begun }) => begun > deadSince).length,
    letIn: calls.filter(({ begun, status }) => begun > deadSince && status !== 401).length,
  };
}

describe.each(["sqlite", "postgres"] as const)("on %s", async (engine) => {
  const w = await world({ databaseUrl: await freshDatabase(engine), settings: { IMPRIMATUR_LOG_LEVEL: "warn" } }, afterAll);
  const key = async () => (await w.admin.post("/api-keys", { name: "mortal", scopes: ["products:read"] })).body.data;
  const deaths: Record<string, () => Promise<Mortal>> = {
    "a key is revoked": async () => {
      const { id, secret } = await key();
      return { secret, die: () => w.admin.delete(`/api-keys/${id}`) };
    },
    "a key is rotated": async () => {
      const { id, secret } = await key();
      return { secret, die: () => w.admin.post(`/api-keys/${id}/rotate`) };
    },
    "the client of a token is deleted": async () => {
      const { client_id, client_secret } = (await w.admin.post("/oauth/clients", { name: "mortal", scopes: ["products:read"] })).body;
      const asked = { grant_type: "client_credentials", client_id, client_secret };
      const token = (await w.nobody.post("/oauth/token", asked, { "idempotency-key": randomUUID() })).body.access_token;
      return { secret: token, die: () => w.admin.delete(`/oauth/clients/${client_id}`) };
    },
    "a device is removed": async () => {
      const { device, key: of } = (await w.admin.post("/devices", { name: "mortal" })).body;
      return { secret: of.secret, die: () => w.admin.delete(`/devices/${device.id}`) };
    },
  };

  test.each(Object.entries(deaths))("when %s, no call that begins after the answer is let in", async (_how, make) => {
    for (let round = 0; round < 3; round += 1) {
      const { early, late, letIn } = await callsThroughDeath(w, await make());
      expect([early > 0, late >= CALLERS * AFTERWARDS, letIn]).toEqual([true, true, 0]);
    }
  });

  test("several that rotate one key at once leave one living key", async () => {
    const { id, secret } = await key();
    const answers = await Promise.all(Array.from({ length: 8 }, () => w.admin.post(`/api-keys/${id}/rotate`)));
    const made = answers.flatMap(({ status, body }) => (status === 201 ? [body.data.secret as string] : []));
    expect(made).toHaveLength(1);
    expect((await w.as(secret).get("/tenant")).status).toBe(401);
    expect((await w.as(made[0] ?? "").get("/tenant")).status).toBe(200);
  });
});

test("what a look saw of a key before its death is remembered by nobody, however late it comes out of the store", async () => {
  const w = await startWorld();
  const [mortal, other] = await Promise.all(
    ["mortal", "other"].map(async (name) => (await w.admin.post("/api-keys", { name, scopes: ["products:read"] })).body.data),
  );
  const [seen, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const read: Store["joint"]["read"] = async (label, work) => {
    const found = await w.store.joint.read(label, work);
    seen.resolve();
    if (isFirst) await late.promise;
    return found;
  };
  let isFirst = true;
  const authenticate = authenticator({ store: { ...w.store, joint: { ...w.store.joint, read } }, keys: {} as Keys, origin: () => w.url });
  const asked = authenticate({ "x-api-key": mortal.secret });
  await seen.promise;
  isFirst = false;
  await w.admin.delete(`/api-keys/${mortal.id}`);
  await authenticate({ "x-api-key": other.secret });
  late.resolve();
  expect((await asked).caller.credential.id).toBe(mortal.id); // it was asked before
  await expect(authenticate({ "x-api-key": mortal.secret })).rejects.toMatchObject({ code: "UNAUTHORIZED" });
  await w.end();
});

test("the control: a key that dies where the cloud can't hear it is let in on SQLite, and the check sees it", async () => {
  const w = await startWorld();
  const { id, secret } = (await w.admin.post("/api-keys", { name: "mortal", scopes: ["products:read"] })).body.data;
  const die = () =>
    w.store.write("behind its back", async ({ db }) => void (await db.run(sql`UPDATE api_keys SET revoked_at = 1 WHERE id = ${id}`)));
  expect((await callsThroughDeath(w, { secret, die })).letIn).toBeGreaterThan(0);
  await w.end();
});
