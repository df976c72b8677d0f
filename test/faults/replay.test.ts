// A day's traffic heard again: shuffled, doubled, interleaved across attempts. What is on record doesn't move, and who repeats a call is told the same.
import { afterAll, describe, expect, test } from "vitest";
import { type Answer, client } from "../../fixtures/client.ts";
import { type Claim, goodItems, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { random } from "../../fixtures/random.ts";
import { freshDatabase, world } from "../world.ts";

const SEEDS = [1, 2, 3];
const JOBS = 6;
const AT_ONCE = 8;
type Call = { secret: string; path: string; body: unknown; key: string; was: Answer };

const shuffled = <T>(all: readonly T[], chance: () => number): T[] =>
  all
    .map((one) => ({ one, turn: chance() }))
    .toSorted((a, b) => a.turn - b.turn)
    .map(({ one }) => one);

describe.each(["sqlite", "postgres"] as const)("on %s", async (engine) => {
  const w = await world({ databaseUrl: await freshDatabase(engine) }, afterAll);

  /** A shop and all that was said to it while labels failed, were tried again elsewhere, and sealed. */
  async function aDay() {
    const shop = await printShop(w);
    const [one, other] = [shop.device, await shop.newDevice("line 2")];
    const calls: Call[] = [];
    const say = async (secret: string, path: string, body: unknown): Promise<Answer> => {
      const key = crypto.randomUUID();
      const was = await client(() => w.url, { authorization: `Bearer ${secret}` }).post(path, body, { "idempotency-key": key });
      if (was.status >= 300) throw new Error(was.text);
      calls.push({ secret, path, body, key, was });
      return was;
    };
    const serials: string[] = (await say(shop.adminKey, "/carriers/batch", { productId: shop.product.id, count: JOBS })).body.serials;
    for (const serial of serials) await say(shop.adminKey, "/aidc/jobs", { gtin: shop.gtin, serial });
    for (let i = 0; i < JOBS; i += 1) {
      const take = async (secret: string): Promise<Claim> => (await say(secret, "/aidc/jobs/claim", { needs: ["qr"] })).body;
      const first = await take(one.secret);
      const at = `/aidc/jobs/${first.job.job_ref}`;
      const word = (claimed: Claim) => ({ attempt_id: claimed.attempt_id });
      await say(one.secret, `${at}/result`, { ...word(first), ...goodItems(first, true)[0] });
      await say(one.secret, `${at}/heartbeat`, word(first));
      await say(one.secret, `${at}/result`, { ...word(first), status: "FAILED", reason: "ribbon out" });
      const second = await take(other.secret);
      const items = goodItems(second, true);
      const burst = [...items, sealOf(items)].map((item) => ({
        ...item,
        ...word(second),
        job_ref: second.job.job_ref,
        idempotency_key: crypto.randomUUID(),
      }));
      await say(other.secret, "/aidc/results", { results: burst });
    }
    await say(shop.adminKey, "/carriers/print-status", { results: serials.map((serial) => ({ serial, status: "printed" })) });
    /** All that is on record of it. */
    const record = async () => {
      const { data } = (await shop.admin.get("/aidc/jobs?limit=200")).body as { data: { job_ref: string; serial: string }[] };
      const events = (await shop.admin.get("/epcis/events?perPage=200")).body.epcisBody.queryResults.resultsBody.eventList;
      const leaves = (await shop.admin.get("/log/checkpoint")).text.split("\n").slice(0, 3);
      const parts = [...data.map(({ job_ref: ref }) => `/aidc/jobs/${ref}/history`), `/carriers/export?productId=${shop.product.id}`];
      return [data, events, leaves, ...(await Promise.all(parts.map(async (path) => (await shop.admin.get(path)).text)))];
    };
    return { shop, calls, record };
  }
  type Day = Awaited<ReturnType<typeof aDay>>;

  async function again(calls: readonly Call[], headersOf: (call: Call) => Record<string, string>): Promise<{ call: Call; now: Answer }[]> {
    const heard: { call: Call; now: Answer }[] = [];
    const waiting = [...calls];
    const line = async () => {
      for (let call = waiting.shift(); call; call = waiting.shift()) {
        const as = client(() => w.url, { authorization: `Bearer ${call.secret}` });
        heard.push({ call, now: await as.post(call.path, call.body, headersOf(call)) });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, line));
    return heard;
  }
  const audited = async ({ shop }: Day) => (await shop.admin.get("/audit-logs/verify")).body.rows as number;

  test("under the same keys every answer is byte for byte what it was, and nothing happened", async () => {
    const day = await aDay();
    const [before, rows] = [await day.record(), await audited(day)];
    for (const seed of SEEDS) {
      const heard = await again(shuffled([...day.calls, ...day.calls], random(seed)), ({ key }) => ({ "idempotency-key": key }));
      const other = heard.filter(({ call, now }) => now.status !== call.was.status || now.text !== call.was.text);
      expect([seed, other.map(({ call, now }) => `${call.path}: ${now.text}`)]).toEqual([seed, []]);
    }
    expect(await day.record()).toEqual(before);
    expect(await audited(day)).toBe(rows);
  });

  test("reports that come again without a key move nothing: they repeat what is so, or are stale", async () => {
    const day = await aDay();
    const before = await day.record();
    const reports = day.calls.filter(({ path }) => /result|heartbeat|print-status/.test(path));
    for (const seed of SEEDS) {
      const heard = await again(shuffled([...reports, ...reports], random(seed)), () => ({}));
      const odd = heard.filter(({ now }) => now.status !== 200 && now.body.error.code !== "STALE_ATTEMPT");
      expect([seed, odd.map(({ now }) => now.text)]).toEqual([seed, []]);
    }
    expect(await day.record()).toEqual(before);
  });

  test("one key twice in a batch is one report where it says the same, and a conflict where it doesn't", async () => {
    const { shop } = await aDay();
    await shop.issue();
    const claimed = await shop.device.claim();
    const item = { ...goodItems(claimed, true)[0], job_ref: claimed.job.job_ref, attempt_id: claimed.attempt_id, idempotency_key: "k" };
    const failed = { ...item, status: "FAILED", reason: "x", evidence: undefined };
    const { results } = (await shop.device.api.post("/aidc/results", { results: [item, item, failed] })).body as {
      results: { status: number; job?: object; error?: { code: string } }[];
    };
    expect(results.map(({ status, error }) => [status, error?.code])).toEqual([
      [200, undefined],
      [200, undefined],
      [409, "IDEMPOTENCY_CONFLICT"],
    ]);
    expect(results[1]?.job).toEqual(results[0]?.job);
  });

  test("the control: under new keys the same traffic does move what is on record", async () => {
    const day = await aDay();
    const before = await day.record();
    await again(day.calls, () => ({ "idempotency-key": crypto.randomUUID() }));
    expect(await day.record()).not.toEqual(before);
  });
});
