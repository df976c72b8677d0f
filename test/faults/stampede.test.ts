// Many at one pool: sixty-four stations that claim at once, a tenant that never stops asking, ten thousand stations with nothing to do.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { hashOf, lookupOf, mintSecret } from "../../cloud/domain/secrets.ts";
import { sql } from "../../cloud/store/drizzle.ts";
import { apiKeys, devices } from "../../cloud/store/schema.ts";
import type { Client } from "../../fixtures/client.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { startWorld, type World } from "../../fixtures/world.ts";
import { freshDatabase, world } from "../world.ts";
import { size, timeout } from "./size.ts";

const STATIONS = 64;
const JOBS = size(1_000, 1_000_000);
const IDLE_STATIONS = 10_000;
const CONNECTIONS = 64;
const SLICE_ROWS = 500;
const SLOWER_AT_MOST = 64; // a label that waits in each of its calls behind one of every caller
const SLICE_JOBS = 100;
const settings = { IMPRIMATUR_LOG_LEVEL: "warn" };

async function fill(shop: Shop, count: number, more: Record<string, unknown> = {}): Promise<void> {
  for (let left = count; left > 0; left -= SLICE_JOBS) {
    const items = (await shop.allocate(Math.min(left, SLICE_JOBS))).map((serial) => ({ gtin: shop.gtin, serial, ...more }));
    expect((await shop.admin.post("/aidc/jobs/batch", { items })).body.failed).toBe(0);
  }
}
/** What was given out more than once. */
function twice(refs: readonly string[]): string[] {
  const seen = new Set<string>();
  return refs.filter((ref) => seen.size === seen.add(ref).size);
}

describe.each(["sqlite", "postgres"] as const)("on %s", async (engine) => {
  const w = await world({ databaseUrl: await freshDatabase(engine), settings }, afterAll);

  test(
    "sixty-four stations at one pool: every job is granted once, each with an attempt of its own",
    { timeout: timeout(120_000) },
    async () => {
      const shop = await printShop(w);
      await fill(shop, JOBS);
      const stations = await Promise.all(Array.from({ length: STATIONS }, (_, i) => shop.newDevice(`line ${i}`)));
      const granted: { ref: string; attemptId: string }[] = [];
      const claim = async ({ api }: { api: Client }) => {
        for (let empty = 0; empty < 3;) {
          const { status, body } = await api.post("/aidc/jobs/claim/batch", { max: 1 + Math.floor(Math.random() * 4), lease_seconds: 600 });
          expect(status).toBe(200);
          if (body.claims.length === 0) empty += 1;
          for (const { job, attempt_id: attemptId } of body.claims) granted.push({ ref: job.job_ref, attemptId });
        }
      };
      await Promise.all(stations.map(claim));
      expect(twice(granted.map(({ ref }) => ref))).toEqual([]);
      expect(twice(granted.map(({ attemptId }) => attemptId))).toEqual([]);
      expect(granted).toHaveLength(JOBS);
    },
  );

  test("a tenant that never stops asking leaves another its share", { timeout: 60_000 }, async () => {
    const [noisy, quiet] = [await printShop(w), await printShop(w)];
    let over = false;
    const asking = async (api: Client) => {
      let answered = 0;
      for (; !over; answered += 1) expect((await api.post("/aidc/jobs/claim", { needs: ["qr"] })).status).toBe(204);
      return answered;
    };
    const noise = Array.from({ length: STATIONS }, () => asking(noisy.device.api));
    const heard = asking(quiet.device.api);
    await fill(quiet, 5, { station: "elsewhere" });
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    over = true;
    const each = (await Promise.all(noise)).reduce((sum, count) => sum + count, 0) / STATIONS;
    expect((await heard) / each).toBeGreaterThan(1 / 3);
  });
});

test("the control: jobs that are looked at first and taken afterwards are granted twice, and the check sees it", async () => {
  const w = await startWorld({ settings });
  const shop = await printShop(w);
  await fill(shop, 100);
  const oldest = sql`SELECT job_ref FROM print_jobs WHERE state = 'QUEUED' ORDER BY job_ref LIMIT 1`;
  const first = () => w.store.read("look", async ({ db }) => (await db.values<[string]>(oldest))[0]?.[0]);
  const take = (ref: string) =>
    w.store.write("take", async ({ db }) => void (await db.run(sql`UPDATE print_jobs SET state = 'CLAIMED' WHERE job_ref = ${ref}`)));
  const granted: string[] = [];
  const station = async () => {
    for (let ref = await first(); ref !== undefined; ref = await first()) {
      await take(ref);
      granted.push(ref);
    }
  };
  await Promise.all(Array.from({ length: STATIONS }, station));
  expect(twice(granted).length).toBeGreaterThan(0);
  await w.end();
});

/** Stations by the thousand, put straight into the tables; their secrets. */
async function manyStations({ store }: World, tenantId: string, count: number): Promise<string[]> {
  const secrets = Array.from({ length: count }, mintSecret);
  for (let from = 0; from < count; from += SLICE_ROWS)
    await store.write("many stations", async ({ db, now: createdAt }) => {
      const made = secrets.slice(from, from + SLICE_ROWS).map((secret) => ({ secret, id: randomUUID(), keyId: randomUUID() }));
      await db.insert(devices).values(
        made.map(({ id, keyId }) => ({
          tenantId,
          id,
          name: id,
          station: null,
          capabilities: ["qr" as const],
          apiKeyId: keyId,
          report: {},
          lastSeenAt: null,
          deletedAt: null,
          createdAt,
          updatedAt: createdAt,
        })),
      );
      await db.insert(apiKeys).values(
        made.map(({ id, keyId, secret }) => ({
          id: keyId,
          tenantId,
          name: id,
          scopes: ["aidc:read", "aidc:write"],
          lookup: lookupOf(hashOf(secret)),
          hash: hashOf(secret),
          prefix: "imp_",
          deviceId: id,
          bootstrap: false,
          createdAt,
          revokedAt: null,
        })),
      );
    });
  return secrets;
}

const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
afterAll(() => agent.destroy());
/** As an agent asks for work, key and all; by Node's own client, which costs half of fetch. */
async function poll(url: string, secret: string): Promise<string> {
  const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json", "idempotency-key": randomUUID() };
  const asked = request(`${url}/api/v2/aidc/jobs/claim/batch`, { agent, method: "POST", headers });
  asked.end(JSON.stringify({ needs: ["qr"], max: 4, lease_seconds: 60, station: "line-1" }));
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  const said = `${answer.statusCode} ${await text(answer)}`;
  if (!said.includes("OVERLOADED")) return said;
  await sleep(1_000); // shed before it began, as any client is by a machine that stood still
  return poll(url, secret);
}

test(
  "ten thousand stations with nothing to do each ask once, while labels go their whole way among them",
  { timeout: 120_000 },
  async () => {
    const w = await startWorld({ settings });
    const [idle, busy] = [await printShop(w), await printShop(w)];
    const secrets = await manyStations(w, idle.tenantId, IDLE_STATIONS);
    let sealed = 0;
    const print = async () => {
      await busy.issue();
      const { status } = await busy.device.seal(await busy.device.claim());
      if (status === 200) sealed += 1;
    };
    const timed = async (work: () => Promise<unknown>) => {
      const began = performance.now();
      await work();
      return (performance.now() - began) / 1_000;
    };
    const alone = await timed(async () => {
      for (let i = 0; i < 10; i += 1) await print();
    });
    const pollSeconds = (await busy.device.api.get("/aidc/station")).body.poll_interval_ms / 1_000;
    const before = sealed;
    const answers = new Map<string, number>();
    const waiting = [...secrets];
    const asking = async () => {
      for (let secret = waiting.pop(); secret !== undefined; secret = waiting.pop()) {
        const answer = await poll(w.url, secret);
        answers.set(answer, (answers.get(answer) ?? 0) + 1);
      }
    };
    let over = false;
    const printing = (async () => {
      while (!over) await print();
    })();
    const seconds = await timed(() => Promise.all(Array.from({ length: CONNECTIONS }, asking)));
    over = true;
    await printing;
    const during = sealed - before;
    const times = seconds / during / (alone / 10);
    process.stdout.write(
      `${IDLE_STATIONS} idle stations asked once in ${seconds.toFixed(1)} s (they ask every ${pollSeconds} s); a label took ${times.toFixed(1)} times as long as alone\n`,
    );
    expect([...answers]).toEqual([['200 {"claims":[]}', IDLE_STATIONS]]);
    expect(times).toBeLessThan(SLOWER_AT_MOST);
    expect((await busy.admin.get("/audit-logs/verify")).body.valid).toBe(true);
    await w.end();
  },
);
