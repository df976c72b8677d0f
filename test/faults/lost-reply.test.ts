// The answer is lost after the work was done: whoever asks again with the same key, however often, wherever and whenever within the day, gets the one true answer.
import { afterAll, describe, expect, test } from "vitest";
import { type Answer, type Client, client } from "../../fixtures/client.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { startNetwork } from "../../fixtures/network.ts";
import { goodItems, printShop } from "../../fixtures/print-shop.ts";
import { freshDatabase, world } from "../world.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const PATIENCE = 10;
let n = 790_000;

describe.each(["sqlite", "postgres"] as const)("on %s", async (engine) => {
  const w = await world({ databaseUrl: await freshDatabase(engine) }, afterAll);
  const network = await startNetwork(() => w.url);
  afterAll(() => network.end());
  const shop = await printShop(w);
  const from = (origin: () => string, secret: string) => client(origin, { authorization: `Bearer ${secret}` });
  const onTheWay = (secret: string) => from(() => network.url, secret);
  const direct = (secret: string) => from(() => w.url, secret);

  /** Each mutation leaves exactly one row, so that the chain's length counts effects. */
  const effects = async () => (await shop.admin.get("/audit-logs/verify")).body as { rows: number; valid: boolean };
  const lose = (times: number) => {
    let left = times;
    network.rule(({ method }) => (method === "POST" && (left -= 1) >= 0 ? "lose" : "pass"));
  };
  async function insist(ask: () => Promise<Answer>): Promise<Answer> {
    for (let tries = 1; tries < PATIENCE; tries += 1) {
      const answer = await ask().catch(() => undefined);
      if (answer) return answer;
    }
    throw new Error("never answered");
  }

  /** What a tenant and a station do over the wire, each with the secret that it takes; made anew for every test. */
  async function calls() {
    const kettle = productOf({ gtin: gtinOf((n += 1)) });
    const station = `s${n}`;
    const [serial] = await shop.allocate(1);
    await shop.issue({ station });
    const waits = await shop.issue({ station: `${station}-b` });
    const claimed = await shop.device.claim({ station });
    const [render, ...rest] = goodItems(claimed, true);
    const word = { attempt_id: claimed.attempt_id };
    const result = `/aidc/jobs/${claimed.job.job_ref}/result`;
    const many = rest.slice(0, 2).map((item) => ({ job_ref: claimed.job.job_ref, ...word, ...item }));
    const asBoss = shop.adminKey;
    const asDevice = shop.device.secret;
    return [
      ["a product is created", asBoss, "/products", kettle],
      ["serials are allocated", asBoss, "/carriers/batch", { productId: shop.product.id, count: 3 }],
      ["a job is issued", asBoss, "/aidc/jobs", { gtin: shop.gtin, serial }],
      ["a job is claimed", asDevice, "/aidc/jobs/claim", { station: waits.station }],
      ["a state is reported", asDevice, result, { ...word, ...render }],
      ["an outage is made up for", asDevice, "/aidc/results", { results: many }],
    ] as const;
  }
  const keyed = () => ({ "idempotency-key": crypto.randomUUID() });

  test.each([1, 2, 3, 4, 5])("an answer that is lost %i times is had in the end, and nothing is done twice", async (times) => {
    for (const [what, secret, path, body] of await calls()) {
      const key = keyed();
      const { rows } = await effects();
      lose(times);
      const answer = await insist(() => onTheWay(secret).post(path, body, key));
      expect([what, answer.status < 300]).toEqual([what, true]);
      const elsewhere = await direct(secret).post(path, body, key);
      expect([what, elsewhere.status, elsewhere.text, elsewhere.headers.get("idempotency-replayed")]).toEqual([
        what,
        answer.status,
        answer.text,
        "true",
      ]);
      expect([what, await effects()]).toEqual([what, expect.objectContaining({ rows: rows + 1, valid: true })]);
    }
  });

  test("eight who ask at once, half of them over a line that loses answers, hear the same", async () => {
    for (const [what, secret, path, body] of await calls()) {
      const key = keyed();
      const { rows } = await effects();
      lose(6);
      const ask = (as: Client) => insist(() => as.post(path, body, key));
      const answers = await Promise.all(Array.from({ length: 8 }, (_, i) => ask(i % 2 ? onTheWay(secret) : direct(secret))));
      expect([what, new Set(answers.map(({ status, text }) => `${status} ${text}`)).size]).toEqual([what, 1]);
      // Of two claims at once one may pass over the job that the other holds: then both hear that nothing waits, and so it stays.
      expect([what, (await effects()).rows]).toEqual([what, rows + (answers[0]?.status === 204 ? 0 : 1)]);
    }
  });

  test("after a restart it is the same answer", async () => {
    const asked = (await calls()).map((call) => ({ call, key: keyed() }));
    lose(asked.length);
    for (const {
      call: [, secret, path, body],
      key,
    } of asked)
      await expect(onTheWay(secret).post(path, body, key)).rejects.toThrow(/network error/);
    const { rows } = await effects();
    await w.restart();
    for (const {
      call: [what, secret, path, body],
      key,
    } of asked) {
      const answer = await direct(secret).post(path, body, key);
      expect([what, answer.status < 300, answer.headers.get("idempotency-replayed")]).toEqual([what, true, "true"]);
    }
    expect((await effects()).rows).toBe(rows);
  });

  test("the control: without a key every lost answer is one more effect, and the count shows it", async () => {
    const { rows } = await effects();
    lose(3);
    await insist(() => onTheWay(shop.adminKey).post("/carriers/batch", { productId: shop.product.id, count: 1 }));
    expect((await effects()).rows).toBe(rows + 4);
  });

  test("after 23 hours and 59 minutes it is still the same, after 24 hours and a minute the key is free", async () => {
    const key = keyed();
    const allocate = () => direct(shop.adminKey).post("/carriers/batch", { productId: shop.product.id, count: 2 }, key);
    const first = await allocate();
    w.later(DAY_MS - MINUTE_MS);
    expect((await allocate()).text).toBe(first.text);
    w.later(2 * MINUTE_MS);
    const later = await allocate();
    expect([later.status, later.headers.get("idempotency-replayed")]).toEqual([201, null]);
    expect(later.body.serials).not.toEqual(first.body.serials);
  });
});
