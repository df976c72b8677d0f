// Rate budgets: a bucket per credential, a tenth of the minute at once, headers that say where one stands.
import type { FastifyRateLimitStore } from "@fastify/rate-limit";
import { expect, test, vi } from "vitest";
import { burstOf, limits, tiers } from "#shared/limits.ts";
import { bucketStore, budgets } from "../../cloud/rate.ts";
import { rateBudgets } from "../../cloud/store/schema.ts";
import { world } from "../world.ts";

test("a sandbox may do twelve at once, is then told when to come back, and nobody else feels it", async () => {
  const w = await world({ settings: { IMPRIMATUR_RATE_LIMIT: "on" } });
  const { admin: sandbox } = await w.tenant("s", { sandbox: true });
  const began = performance.now();
  const answers = await Promise.all(Array.from({ length: 60 }, () => sandbox.get("/tenant")));
  const refused = answers.filter(({ status }) => status === 429);
  const taken = answers.length - refused.length;
  const mostTaken = 12 + Math.ceil(((performance.now() - began) / 60_000) * 120); // what has come in meanwhile
  expect([taken >= 12, taken <= mostTaken]).toEqual([true, true]);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
  expect(refused[0]?.body.error.code).toBe("RATE_LIMITED");
  for (const name of ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"])
    expect(refused[0]?.headers.get(name)).toMatch(/^\d+$/);
  expect(refused[0]?.headers.get("x-ratelimit-limit")).toBe("120");
  expect((await w.admin.get("/tenant")).status).toBe(200);
  expect((await w.nobody.get("//healthz")).status).toBe(200);
  await expect.poll(async () => (await sandbox.get("/tenant")).status, { interval: 300 }).toBe(200);
});

test("another tier's budget counts from the next call on", async () => {
  const w = await world({ settings: { IMPRIMATUR_RATE_LIMIT: "on" } });
  const { id, admin } = await w.tenant("grows", { sandbox: true });
  const budget = async () => Number((await admin.get("/tenant")).headers.get("x-ratelimit-limit"));
  expect(await budget()).toBe(tiers.sandbox);
  expect((await w.admin.patch(`/tenants/${id}`, { tier: "pro" })).status).toBe(200);
  expect(await budget()).toBe(tiers.pro);
});

test("who is refused while the next token is on its way in is told to wait all the same", () => {
  let [at, ticksMs] = [0, 0];
  const clock = vi.spyOn(performance, "now").mockImplementation(() => (at += ticksMs));
  const buckets = new (bucketStore(budgets()) as unknown as new () => FastifyRateLimitStore)();
  const take = () => {
    const told: { current: number; ttl: number }[] = [];
    buckets.incr("one", (_error, result) => result && told.push(result), 60_000, 120);
    return told[0];
  };
  for (let i = 0; i < 12; i += 1) expect(take()?.current).toBeLessThanOrEqual(120);
  ticksMs = 300; // a token comes each 500 ms: there is none at the first look, and one at the next
  const refused = take();
  clock.mockRestore();
  expect(refused?.current).toBe(121);
  expect(refused?.ttl).toBeGreaterThan(0);
});

test("a key that becomes a device's has a device's budget from then on, whatever nodes have booked of it before", async () => {
  const w = await world({ settings: { IMPRIMATUR_RATE_LIMIT: "on" } });
  const { admin } = await w.tenant("sandbox", { sandbox: true });
  const { id, secret } = (await admin.post("/api-keys", { name: "line 1", scopes: ["aidc:read", "aidc:write"] })).body.data;
  const key = w.as(secret);
  const askAll = async (count: number) =>
    new Set((await Promise.all(Array.from({ length: count }, () => key.get("/tenant")))).map(({ status }) => status));
  const booked = () =>
    w.store.read("booked", async ({ db }) =>
      (await db.select().from(rateBudgets)).reduce((sum, row) => (row.key.startsWith(id) ? sum + row.fullAt : sum), 0),
    );
  const isBookedPast = async (sum: number) => w.store.sole !== undefined || (await booked()) > sum; // one node books nothing
  expect(await askAll(5 * burstOf(tiers.sandbox))).toContain(429);
  await expect.poll(() => isBookedPast(0), { interval: 20 }).toBe(true);
  expect((await admin.post("/devices", { name: "line 1", api_key_id: id })).status).toBe(201);
  const before = await booked();
  expect(await askAll(100)).toEqual(new Set([200]));
  await expect.poll(() => isBookedPast(before), { interval: 20 }).toBe(true);
  expect(await askAll(burstOf(tiers.device) - 150)).toEqual(new Set([200]));
});

test("a request for a token that names no client that we know counts against its address, however malformed", async () => {
  const w = await world({ settings: { IMPRIMATUR_RATE_LIMIT: "on" } });
  const json = { "content-type": "application/json" };
  for (const [body, headers, status] of [
    ["{}", json, 400],
    ["{", json, 400],
    ['{"grant_type":"password"}', json, 400],
    ["x", { "content-type": "text/plain" }, 415],
  ] as const) {
    const one = await w.nobody.send("POST", "/oauth/token", { body, headers });
    expect([one.status, one.headers.get("x-ratelimit-limit")]).toEqual([status, "1200"]);
  }
  const answers = await Promise.all(Array.from({ length: 300 }, () => w.nobody.post("/oauth/token", {})));
  const refused = answers.find(({ status }) => status === 429);
  expect([refused?.body.error.code, refused?.headers.get("retry-after")]).toEqual(["RATE_LIMITED", "1"]);
});

test("an address is the proxy's, unless the proxy is one whose word is taken", async () => {
  const at = (address: string) => ({ headers: { "x-forwarded-for": address } });
  const burst = async (settings: Record<string, string>) => {
    const w = await world({ settings: { IMPRIMATUR_RATE_LIMIT: "on", ...settings } });
    const asked = [...Array.from({ length: 500 }, () => "203.0.113.1"), ...Array.from({ length: 100 }, () => "203.0.113.2")];
    const answers = await Promise.all(asked.map((address) => w.nobody.get("/log/checkpoint", at(address))));
    return [answers.slice(0, 500), answers.slice(500)].map((some) => some.some(({ status }) => status === 429));
  };
  expect(await burst({})).toEqual([true, true]);
  expect(await burst({ IMPRIMATUR_TRUST_PROXY: "10.0.0.0/8, 127.0.0.1" })).toEqual([true, false]);
  expect(await burst({ IMPRIMATUR_TRUST_PROXY: "10.0.0.0/8" })).toEqual([true, true]);
});

test("a caller whom the proxy names with a port is the same from each of its ports, and nobody else", async () => {
  const w = await world({ settings: { IMPRIMATUR_RATE_LIMIT: "on", IMPRIMATUR_TRUST_PROXY: "127.0.0.1" } });
  const left = async (from: string) =>
    Number((await w.nobody.get("/log/checkpoint", { headers: { "x-forwarded-for": from } })).headers.get("x-ratelimit-remaining"));
  const full = await left("203.0.113.1:50000");
  const again = await Promise.all(Array.from({ length: 20 }, (_, n) => left(`203.0.113.1:${n + 1}`)));
  expect(Math.min(...again)).toBeLessThan(full);
  for (const another of ["203.0.113.2:50000", "[2001:db8::1]:50000", "[2001:db8:0:1::1]"]) expect(await left(another)).toBe(full);
});

test("a clock that is set back by an hour refuses nobody for that hour", async () => {
  const w = await world({ settings: { IMPRIMATUR_RATE_LIMIT: "on" } });
  const { admin: caller } = await w.tenant("s", { tier: "pro" });
  const settled = () => new Promise((resolve) => setTimeout(resolve, 2 * limits.RATE_SHARE_MS)); // nodes have booked what was taken
  expect((await caller.get("/tenant")).status).toBe(200);
  await settled();
  w.later(-3_600_000);
  expect((await caller.get("/tenant")).status).toBe(200);
  await settled();
  const { status, headers } = await caller.get("/tenant");
  expect([200, 429]).toContain(status);
  expect(Number(headers.get("retry-after") ?? 0)).toBeLessThanOrEqual(60);
});
