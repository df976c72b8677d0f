// Retention: what is over goes, what is evidence stays, and the floor works on meanwhile.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { DEFAULT_TENANT } from "../../cloud/domain/tenants.ts";
import { endSweep, type Forget, retained, takeSweep } from "../../cloud/domain/retention.ts";
import { createLog } from "../../cloud/log.ts";
import { run, type Tx } from "../../cloud/store/store.ts";
import { createMetrics } from "../../cloud/metrics.ts";
import { startSweeper } from "../../cloud/workers/sweeper.ts";
import * as schema from "../../cloud/store/schema.ts";
import { eq, sql } from "../../cloud/store/drizzle.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const AGES_DAYS = [0, 1, 29, 31, 89, 91, 400];
const ROWS_AN_AGE = 12;
const w = await world();
const shop = await printShop(w);

/** Never to be touched, whatever its age. */
const KEPT = {
  auditLog: schema.auditLog,
  blobs: schema.blobs,
  events: schema.events,
  issuedCredentials: schema.issuedCredentials,
  logLeaves: schema.logLeaves,
  logNodes: schema.logNodes,
  orphans: schema.orphans,
  passportVersions: schema.passportVersions,
  printEvents: schema.printEvents,
  printJobs: schema.printJobs,
  serials: schema.serials,
  validations: schema.validations,
};
const rowsOf = (table: SQLiteTable): Promise<string[]> =>
  w.store.read("rows", async ({ db }) => (await db.select().from(table)).map((row) => JSON.stringify(row)));
const kept = async (): Promise<Record<string, string[]>> =>
  Object.fromEntries(await Promise.all(Object.entries(KEPT).map(async ([name, table]) => [name, await rowsOf(table)])));

/** Rows of each kind and each age, straight into the tables: only their age tells them apart. */
const fill = () =>
  w.store.write("fill", async ({ db, now }) => {
    for (const days of AGES_DAYS)
      for (let n = 0; n < ROWS_AN_AGE; n += 1) {
        const at = now - days * DAY_MS + 60_000;
        const id = `old-${String(days).padStart(3, "0")}-${n}`;
        const order = `00${999 - days}-`; // the ids of events rise with time
        const event = { tenantId: DEFAULT_TENANT, type: "print.confirmed" as const };
        await db
          .insert(schema.scans)
          .values({ id, tenantId: DEFAULT_TENANT, productId: "p", gtin: "g", serial: "s", at, agent: "program" });
        await db.insert(schema.uploads).values([0, 1, 2].map((slice) => ({ id, n: slice, at, bytes: Buffer.alloc(64) })));
        await db.insert(schema.consoleSessions).values({ hash: id, tenantId: DEFAULT_TENANT, credentialKind: "api_key", credentialId: "k", createdAt: at, endsAt: at + 12 * HOUR_MS }); // oxfmt-ignore
        await db.insert(schema.idempotency).values({ scope: Buffer.from("s"), key: id, fingerprint: Buffer.alloc(32), status: 200, headers: {}, body: null, expiresAt: at + DAY_MS }); // oxfmt-ignore
        await db.insert(schema.rateBudgets).values({ key: id, fullAt: at + HOUR_MS });
        await db.insert(schema.outbox).values({ ...event, id: `${order}${id}`, at, body: "{}", targets: null });
        const delivery = { ...event, webhookId: "w", id, eventId: `${order}${id}`, tries: 1, byHand: false, attempts: [], createdAt: at };
        await db.insert(schema.deliveries).values([
          { ...delivery, state: "delivered", dueAt: null, endedAt: at },
          { ...delivery, id: `h-${id}`, state: "held", dueAt: null, endedAt: null },
          { ...delivery, id: `p-${id}`, state: "pending", dueAt: now + DAY_MS, endedAt: null },
        ]);
        await db.insert(schema.jobHours).values({ tenantId: DEFAULT_TENANT, state: "SEALED", hour: at - (at % HOUR_MS) - n * HOUR_MS, jobs: 2 }).onConflictDoNothing(); // oxfmt-ignore
      }
  });

const daysIn = (texts: readonly string[]) => new Set(texts.flatMap((text) => /old-(\d{3})-/.exec(text)?.[1] ?? []).map(Number));
const within = (days: number) => new Set(AGES_DAYS.filter((age) => age <= days));

test(
  "with the clock moved on, what is over goes in slices while the floor prints, and all that is evidence stays byte for byte",
  { timeout: 120_000 },
  async () => {
    await shop.issue();
    await shop.device.seal(await shop.device.claim());
    await fill();
    const total = () =>
    w.store.read("total", async ({ db }) => Number((await db.values<[number]>(sql`SELECT SUM(jobs) FROM job_hours WHERE tenant_id = ${DEFAULT_TENANT}`))[0]?.[0])); // oxfmt-ignore
    const [before, jobs] = [await kept(), await total()];
    let isOver = false;
    let sealed = 0;
    const floor = (async () => {
      while (!isOver) {
        await shop.issue();
        expect((await shop.device.seal(await shop.device.claim())).status).toBe(200);
        sealed += 1;
      }
    })();
    const sweeper = startSweeper(w.store, createLog("silent"), createMetrics()); // it looks at once, then once a minute
    const left = async () => ({
      scans: daysIn(await rowsOf(schema.scans)),
      uploads: daysIn(await rowsOf(schema.uploads)),
      sessions: daysIn(await rowsOf(schema.consoleSessions)),
      answers: daysIn(await rowsOf(schema.idempotency)),
      budgets: daysIn(await rowsOf(schema.rateBudgets)),
      events: daysIn(await rowsOf(schema.outbox)),
      delivered: daysIn((await rowsOf(schema.deliveries)).filter((row) => row.includes('"delivered"'))),
      held: daysIn((await rowsOf(schema.deliveries)).filter((row) => row.includes('"held"'))),
      pending: daysIn((await rowsOf(schema.deliveries)).filter((row) => row.includes('"pending"'))),
    });
    await expect.poll(left, { timeout: 60_000, interval: 500 }).toEqual({
      scans: within(90),
      uploads: within(0),
      sessions: within(0),
      answers: within(1),
      budgets: within(0),
      events: within(30),
      delivered: within(30),
      held: within(30),
      pending: new Set(AGES_DAYS), // somebody still waits for them
    });
    const counted = sealed;
    await expect.poll(() => sealed).toBeGreaterThan(counted + 2);
    isOver = true;
    await floor;
    const hours = () =>
      w.store.read("hours", async ({ db, now }) =>
        (await db.select().from(schema.jobHours)).filter(({ hour }) => hour > 0 && hour < now - limits.JOB_HOURS_KEEP_MS - HOUR_MS),
      );
    await expect.poll(hours).toEqual([]);
    expect(await total()).toBe(jobs); // the hours are gone, their sum isn't
    const after = await kept();
    for (const [name, rows] of Object.entries(before)) expect([name, after[name]]).toEqual([name, expect.arrayContaining(rows)]);
    w.later(2 * 365 * DAY_MS);
    sweeper.wake();
    await expect.poll(async () => (await left()).scans.size).toBe(0);
    for (const [name, rows] of Object.entries(after)) expect([name, (await kept())[name]]).toEqual([name, expect.arrayContaining(rows)]);
    expect((await shop.admin.get("/audit-logs/verify")).body.valid).toBe(true);
    await sweeper.stop();
  },
);

test("a slice forgets no more than it was asked to", async () => {
  await fill().catch(() => {}); // what is still there from before is as good
  for (const [name, forget] of Object.entries(retained))
    expect(await w.store.write(name, (tx) => forget({ ...tx, now: tx.now + 1_000 * DAY_MS }, 3))).toBeLessThanOrEqual(3);
});

test.for(["deliveries", "held deliveries"])(
  "%s are forgotten by their keys, also in a table that the server has never looked into",
  async (name, { skip }) => {
    skip(w.store.engine === "sqlite", "on SQLite test/rules/plans.test.ts reads the plans");
    const looked = w.store.write("old", async (tx) => {
      const many = `SELECT 'w', n || state, 't', 'e', 'print.confirmed', state, 1, 0, '[]', 1, ended FROM generate_series(1, 4000) AS n, (VALUES ('delivered', 1), ('held', NULL)) AS of(state, ended)`;
      await run(
        `INSERT INTO deliveries (webhook_id, id, tenant_id, event_id, type, state, tries, by_hand, attempts, created_at, ended_at) ${many}`,
        [],
        "run",
      );
      const fetched = async () =>
        Number((await run("SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'deliveries'", [], "get")).rows[0]);
      const before = await fetched();
      expect(await (retained[name] as Forget)(tx, 8)).toBe(8);
      throw new Error(String((await fetched()) - before)); // nothing of it stays
    });
    expect(Number(await looked.catch((error: Error) => error.message))).toBeLessThan(100);
  },
);

test("what is begun anew while it is swept stays: a key that is used again, a delivery that is sent again", async () => {
  const [answers, sent] = [schema.idempotency, schema.deliveries];
  const id = "begun-anew";
  await w.store.write("old", async ({ db, now }) => {
    const ended = now - 40 * DAY_MS;
    await db.insert(answers).values({ scope: Buffer.from("s"), key: id, fingerprint: Buffer.alloc(32), status: 200, headers: {}, body: null, expiresAt: now }); // oxfmt-ignore
    await db.insert(sent).values({ tenantId: DEFAULT_TENANT, type: "print.confirmed", webhookId: "w", id, eventId: id, state: "delivered", dueAt: null, tries: 1, byHand: false, attempts: [], createdAt: ended, endedAt: ended }); // oxfmt-ignore
  });
  const changed = Promise.withResolvers<void>();
  const anew = w.store.write("anew", async ({ db, now }) => {
    await db
      .update(answers)
      .set({ expiresAt: now + DAY_MS })
      .where(eq(answers.key, id));
    await db.update(sent).set({ state: "pending", dueAt: now, endedAt: null }).where(eq(sent.id, id));
    changed.resolve();
    await sleep(300); // both are about to commit while the sweeper comes by
  });
  await changed.promise;
  const swept = ["idempotency answers", "deliveries"].map((name) => w.store.write(name, (tx) => (retained[name] as Forget)(tx, 1_000)));
  await Promise.all([anew, ...swept]);
  const left = await Promise.all([rowsOf(answers), rowsOf(sent)]);
  expect(left.map((rows) => rows.filter((row) => row.includes(id)).length)).toEqual([1, 1]);
});

test("a kind that can't be swept holds up none of those that come after it", async () => {
  const old = ({ db, now }: Tx) => db.insert(schema.scans).values({ id: "old-400-behind", tenantId: DEFAULT_TENANT, productId: "p", gtin: "g", serial: "s", at: now - 400 * DAY_MS, agent: "program" }); // oxfmt-ignore
  await w.store.write("old", old);
  const rename = (from: string, to: string) => w.store.write("rename", ({ db }) => db.run(sql.raw(`ALTER TABLE ${from} RENAME TO ${to}`)));
  await rename("uploads", "uploads_away");
  await w.store.write("turn", ({ db }) =>
    db
      .update(schema.counters)
      .set({ value: 0 })
      .where(sql`name = 'sweep_until'`),
  ); // the cloud's own may have it, and be past scans
  const sweeper = startSweeper(w.store, createLog("silent"), createMetrics());
  const isThere = async () => (await rowsOf(schema.scans)).some((row) => row.includes("behind"));
  try {
    await expect.poll(isThere, { timeout: 20_000 }).toBe(false);
  } finally {
    await rename("uploads_away", "uploads");
    await sweeper.stop();
  }
});

test("a sweeper that waited long for a row ends soon all the same", async ({ skip }) => {
  skip(w.store.engine === "sqlite", "on SQLite nobody else holds a row");
  const old = Array.from({ length: 40 }, (_, n) => ({
    id: `old-400-held-${n}`,
    tenantId: DEFAULT_TENANT,
    productId: "p",
    gtin: "g",
    serial: "s",
    at: 1,
    agent: "program" as const,
  }));
  await w.store.write("old", async ({ db }) => {
    await db.insert(schema.scans).values(old);
    await db
      .update(schema.counters)
      .set({ value: 0 })
      .where(sql`name = 'sweep_until'`);
  });
  const held = Promise.withResolvers<void>();
  const holding = w.store.write("hold", async ({ db }) => {
    await db.update(schema.scans).set({ agent: "browser" }).where(eq(schema.scans.at, 1));
    await held.promise;
  });
  const waits = sql`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE 'delete from "scans"%'`;
  const sweeper = startSweeper(w.store, createLog("silent"), createMetrics());
  await expect.poll(() => w.store.read("waits", ({ db }) => db.values(waits)), { timeout: 20_000 }).toHaveLength(1);
  const began = performance.now();
  await sleep(3_000);
  held.resolve();
  await holding;
  const heldMs = performance.now() - began;
  await expect
    .poll(async () => (await rowsOf(schema.scans)).filter((row) => row.includes("held")).length, { interval: 5 })
    .toBeLessThan(40);
  const stopped = performance.now();
  await sweeper.stop();
  expect(performance.now() - stopped).toBeLessThan(heldMs);
});

test("one node sweeps at a time; who holds it keeps it, and a dead one's turn ends by itself", async () => {
  // In one unit, so that the cloud's own sweeper doesn't come in between.
  await w.store.write("turns", async (tx) => {
    await tx.db.update(schema.counters).set({ value: 0 }).where(sql`name = 'sweep_until'`); // oxfmt-ignore
    const take = (held: number, laterMs = 0) => takeSweep({ ...tx, now: tx.now + laterMs }, held);
    const mine = (await take(0)) ?? 0;
    expect([await take(0), await take(mine - 1)]).toEqual([undefined, undefined]);
    const kept = (await take(mine, 1)) ?? 0;
    expect(kept).toBe(mine + 1);
    await endSweep(tx, mine); // not its own any more
    expect(await take(0)).toBeUndefined();
    expect(await take(0, 10 * 60_000)).toBeGreaterThan(kept);
    expect(await take(0, 365 * 86_400_000)).toBeGreaterThan(kept); // by a clock that is ahead
    expect(await take(0)).toBe(tx.now + 120_000); // and was set right while its node was dead
  });
});
