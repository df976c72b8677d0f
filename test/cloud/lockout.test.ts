// Guessing secrets: who does it is locked out for a while, whoever they say they are, and nobody else with them.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import type { World } from "../../fixtures/world.ts";
import { world } from "../world.ts";

const w = await world();
const proxied = await world({ settings: { IMPRIMATUR_TRUST_PROXY: "127.0.0.1, 10.0.0.0/8" } });

const mint = async ({ admin }: World) => (await admin.post("/oauth/clients", { name: "erp", scopes: ["products:read"] })).body;
type Minted = { client_id: string; client_secret: string };
const ask = ({ nobody }: World, { client_id, client_secret }: Minted, from?: string) =>
  nobody.post(
    "/oauth/token",
    { grant_type: "client_credentials", client_id, client_secret },
    { "idempotency-key": randomUUID(), ...(from === undefined ? {} : { "x-forwarded-for": from }) },
  );
/** Wrong secrets, all at once: what they were answered. */
const guess = async (at: World, { client_id }: Minted, times: number, from: (n: number) => string | undefined = () => undefined) =>
  (await Promise.all(Array.from({ length: times }, (_, n) => ask(at, { client_id, client_secret: `imp_${n}` }, from(n))))).map(
    ({ status }) => status,
  );
const PAIR = limits.WRONG_SECRETS_PAIR_MAX;
const WIDE = limits.WRONG_SECRETS_WIDE_MAX;

test("a client that guesses is refused, right or wrong, until the time is over; its neighbour isn't", async () => {
  const [one, neighbour] = [await mint(w), await mint(w)];
  expect(await guess(w, one, PAIR)).toEqual(Array.from({ length: PAIR }, () => 401));
  const locked = await ask(w, one);
  expect([locked.status, locked.body.error.code]).toEqual([429, "RATE_LIMITED"]);
  expect(Number(locked.headers.get("retry-after"))).toBeGreaterThan(0);
  const told = ["limit", "remaining", "reset"].map((name) => locked.headers.get(`x-ratelimit-${name}`));
  expect(told).toEqual([String(PAIR), "0", locked.headers.get("retry-after")]);
  expect((await ask(w, neighbour)).status).toBe(200);
  w.later(limits.WRONG_SECRETS_WINDOW_MS / 2);
  expect(Number((await ask(w, one)).headers.get("retry-after"))).toBeLessThanOrEqual(limits.WRONG_SECRETS_WINDOW_MS / 2_000);
  w.later(limits.WRONG_SECRETS_WINDOW_MS / 2);
  expect((await ask(w, one)).status).toBe(200);
});

test("many guesses at once are no more guesses than as many one after another, at either door", async () => {
  const at = await world();
  const tally = (statuses: number[]) => [401, 429].map((status) => statuses.filter((one) => one === status).length);
  const one = await mint(at);
  expect(tally(await guess(at, one, 9 * PAIR))).toEqual([PAIR, 8 * PAIR]);
  expect((await ask(at, one)).status).toBe(429);
  const other = await mint(at);
  const [, right] = await Promise.all([guess(at, other, 4 * PAIR), ask(at, other)]);
  expect(right).toMatchObject({ status: 429 }); // it was one guess of many
  const signIn = (n: number) => at.nobody.post("//console/session", { key: `not-a-key-${n}-of-anybody` });
  const answers = await Promise.all(Array.from({ length: 9 * PAIR }, (_, n) => signIn(n)));
  expect(tally(answers.map(({ status }) => status))).toEqual([PAIR, 8 * PAIR]);
});

test("an unknown client and a wrong secret are answered alike, and neither before the same time", async () => {
  const real = await mint(w);
  const answers = await Promise.all(
    [real.client_id, randomUUID()].map(async (client_id) => {
      const began = performance.now();
      const { status, body } = await ask(w, { client_id, client_secret: real.client_secret.replace(/.$/, "?") });
      expect(performance.now() - began).toBeGreaterThanOrEqual(limits.WRONG_SECRET_ANSWER_MIN_MS - 5);
      return { status, body };
    }),
  );
  expect(answers[0]).toEqual(answers[1]);
  expect(answers[0]?.status).toBe(401);
});

test("where no proxy is trusted, X-Forwarded-For changes nothing", async () => {
  const one = await mint(w);
  await guess(w, one, PAIR, (n) => `203.0.113.${n}`);
  expect((await ask(w, one, "203.0.113.200")).status).toBe(429);
});

test("behind a trusted proxy each address counts by itself, and what a caller put in front of it is not believed", async () => {
  const one = await mint(proxied);
  await guess(proxied, one, PAIR, (n) => `198.51.100.${n}, 203.0.113.7, 10.1.2.3`);
  expect((await ask(proxied, one, "198.51.100.99, 203.0.113.7")).status).toBe(429);
  expect((await ask(proxied, one, "203.0.113.8")).status).toBe(200);
});

test("one who has an IPv6 network is one, and what is no address is the proxy's own", async () => {
  const [one, other] = [await mint(proxied), await mint(proxied)];
  await guess(proxied, one, PAIR, (n) => `2001:db8:0:1::${n}`);
  expect((await ask(proxied, one, "2001:db8:0:1:ffff::1")).status).toBe(429);
  expect((await ask(proxied, one, "2001:db8:0:2::1")).status).toBe(200);
  await guess(proxied, other, PAIR, (n) => `unknown-${n}`);
  expect((await ask(proxied, other, "nonsense")).status).toBe(429);
});

test("a client that is guessed at from everywhere goes on where it has proved itself, and nowhere else", async () => {
  const one = await mint(proxied);
  expect((await ask(proxied, one, "192.0.2.1")).status).toBe(200);
  const answers = await guess(proxied, one, WIDE, (n) => `100.64.${n}.1`);
  expect(new Set(answers)).toEqual(new Set([401]));
  expect((await ask(proxied, one, "192.0.2.2")).status).toBe(429);
  expect((await ask(proxied, one, "192.0.2.1")).status).toBe(200);
});

test("signing in to the console is locked the same way", async () => {
  const at = await world();
  const signIn = (key: string) => at.nobody.post("//console/session", { key });
  for (let n = 0; n < PAIR; n += 1) expect((await signIn(`not-a-key-${n}-of-anybody`)).status).toBe(401);
  const locked = await signIn(at.adminKey);
  expect([locked.status, locked.body.error.code, Number(locked.headers.get("retry-after")) > 0]).toEqual([429, "RATE_LIMITED", true]);
  at.later(limits.WRONG_SECRETS_WINDOW_MS);
  expect((await signIn(at.adminKey)).status).toBe(201);
});

test("keys that are guessed at from everywhere shut out those who guess, and nobody else who has one", async () => {
  const signIn = (key: string, from: string) => proxied.nobody.post("//console/session", { key }, { "x-forwarded-for": from });
  const answers = await Promise.all(Array.from({ length: WIDE }, (_, n) => signIn(`not-a-key-${n}`, `100.65.${n % 20}.1`)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
  expect((await signIn(proxied.adminKey, "192.0.2.3")).status).toBe(201);
});
