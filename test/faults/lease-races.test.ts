// The end of a lease, to the millisecond: two stations and the reaper in every order that there is, judged by a model of twenty lines and by what grants may overlap.
import { expect, test } from "vitest";
import { Refusal } from "#shared/errors.ts";
import type { JobState } from "#shared/states.ts";
import { byOf } from "../../cloud/domain/events.ts";
import { claim, heartbeat } from "../../cloud/domain/job-claims.ts";
import { report } from "../../cloud/domain/job-results.ts";
import { history } from "../../cloud/domain/jobs.ts";
import { reap } from "../../cloud/domain/reaper.ts";
import { openKeys } from "../../cloud/keys.ts";
import { openSeal } from "../../cloud/seal.ts";
import type { Caller } from "../../cloud/domain/callers.ts";
import { sql } from "../../cloud/store/drizzle.ts";
import type { Tx } from "../../cloud/store/store.ts";
import { goodItems, printShop } from "../../fixtures/print-shop.ts";
import { random } from "../../fixtures/random.ts";
import { freshFolder } from "../endings.ts";
import { type Answered, broken } from "../print-checker.ts";
import { freshDatabase, world } from "../world.ts";

const LEASE_MS = 30_000;
const GRACE_MS = 900_000;
const HOUR_MS = 3_600_000;
const SLICE_JOBS = 200;
const ops = ["A beats", "A reports", "the reaper", "B claims", "B reports", "A reports on"] as const;
type Op = (typeof ops)[number];
const orders = <T>(of: readonly T[]): T[][] =>
  of.length < 2 ? [[...of]] : of.flatMap((first, i) => orders(of.toSpliced(i, 1)).map((rest) => [first, ...rest]));

/** Where A stands when its time runs out, and what it says next. */
const starts = {
  CLAIMED: { upTo: 0, says: [0, 1], dueMs: LEASE_MS },
  SPOOL_SUBMITTED: { upTo: 2, says: [2, 3], dueMs: LEASE_MS + GRACE_MS },
} as const;
type Start = keyof typeof starts;
type Outcome = "done" | "nothing" | "stale" | "illegal";

/** What has to come of each op, by the rules alone. */
function model(start: Start, now: number) {
  const path: JobState[] = ["CLAIMED", "RENDERED", "SPOOL_SUBMITTED", "PRINTED_ATTESTED", "SCAN_VERIFIED"];
  let [at, holder, pooled, failed, due] = [path.indexOf(start), "A", false, false, starts[start].dueMs];
  const isOver = () => now >= due;
  const renew = () => ([pooled, due] = [false, now + LEASE_MS + (at >= 2 ? GRACE_MS : 0)]);
  const says = (who: string, step: number): Outcome => {
    if (holder !== who || failed) return "stale";
    if (at !== step) return "illegal";
    at = step + 1;
    renew();
    return "done";
  };
  const acts: Record<Op, () => Outcome> = {
    "A beats": () => (holder === "A" && !failed ? (renew(), "done") : "stale"),
    "A reports": () => says("A", starts[start].says[0]),
    "A reports on": () => says("A", starts[start].says[1]),
    "B reports": () => (holder === "B" ? says("B", 0) : "nothing"),
    "the reaper": () => {
      if (!isOver() || pooled) return "nothing";
      pooled = true;
      failed = at >= 2;
      return "done";
    },
    "B claims": () => {
      if (!pooled && !(isOver() && at < 2)) return "nothing";
      [at, holder, failed] = [0, "B", false];
      renew();
      return "done";
    },
  };
  return (op: Op) => acts[op]();
}

type Grant = { attemptId: string; from: number; until: number };
/** Attempts whose leases, as they were answered, were live at the same time. */
const overlaps = (grants: readonly Grant[]) =>
  grants.filter((one, i) => grants.some((other, j) => j > i && other.attemptId !== one.attemptId && other.from < one.until));

type Floor = Awaited<ReturnType<typeof floor>>;
/** A job at a station of its own for each schedule, two devices, and a time that is far enough ahead for the cloud's own reaper to keep out of it. */
async function floor(engine: "sqlite" | "postgres", schedules: number) {
  const dataDir = freshFolder("lease");
  const w = await world({ dataDir, databaseUrl: await freshDatabase(engine) });
  const shop = await printShop(w);
  const other = await shop.newDevice("line 2");
  const refs: string[] = [];
  for (let done = 0; done < schedules; done += SLICE_JOBS) {
    const serials = await shop.allocate(Math.min(SLICE_JOBS, schedules - done));
    const items = serials.map((serial, i) => ({ gtin: shop.gtin, serial, station: `s${done + i}`, max_attempts: 5 }));
    const { body } = await shop.admin.post("/aidc/jobs/batch", { items });
    refs.push(...body.jobs.map(({ job_ref: ref }: { job_ref: string }) => ref));
  }
  const callerOf = (id: string): Caller => ({
    tenantId: shop.tenantId,
    credential: { kind: "api_key", id, name: id },
    scopes: ["aidc:write"],
    deviceId: id,
    tier: "device",
  });
  const callers = { A: callerOf(shop.device.id), B: callerOf(other.id) };
  return {
    store: w.store,
    refs,
    T0: Date.now() + HOUR_MS,
    callers,
    signing: { keys: await openKeys(w.store, dataDir, await openSeal(w.store, dataDir, [])), origin: () => w.url },
  };
}

type Break = { unfenced?: boolean; reapsBlindly?: boolean };
/** A unit of work at that time: one of many inside another, or one by itself. */
type Write = <T>(now: number, work: (tx: Tx) => Promise<T>) => Promise<T>;

/** One job: A takes it, its time runs out all but `delta`, and the six ops happen in this order, or all at once. */
function schedule({ refs, T0, callers, signing }: Floor, n: number, start: Start, delta: number, write: Write, breaks: Break = {}) {
  const ref = refs[n] ?? "";
  let now = T0;
  const claims: Partial<Record<"A" | "B", Awaited<ReturnType<typeof claim>>[0]>> = {};
  const grants: Grant[] = [];
  const answered: Answered[] = [];
  const outcome = async (work: () => Promise<Outcome>): Promise<Outcome> => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof Refusal && error.code === "STALE_ATTEMPT") return "stale";
      if (error instanceof Refusal && error.code === "ILLEGAL_TRANSITION") return "illegal";
      throw error;
    }
  };
  const granted = (attemptId: string, until: string) => {
    const known = grants.find((grant) => grant.attemptId === attemptId);
    if (known) known.until = Date.parse(until);
    else grants.push({ attemptId, from: now, until: Date.parse(until) });
  };
  const take = (who: "A" | "B") =>
    outcome(async () => {
      const [made] = await write(now, (tx) =>
        claim(tx, callers[who], { station: `s${n}`, needs: ["qr"], max: 1, lease_seconds: 30 }, signing),
      );
      if (!made) return "nothing";
      claims[who] = made;
      granted(made.attempt_id, made.lease.expires_at);
      return "done";
    });
  const say = (who: "A" | "B", step: number) =>
    outcome(async () => {
      const made = claims[who];
      const item = goodItems((made ?? claims.A) as never, true)[step] as never as Parameters<typeof report>[4];
      if (!made) return "nothing";
      const { row, moved } = await write(now, async (tx) => {
        const holder = await tx.db.values<[string, string]>(sql`SELECT attempt_id, device_id FROM print_jobs WHERE job_ref = ${ref}`);
        const [attemptId, deviceId] = breaks.unfenced ? (holder[0] ?? ["", ""]) : [made.attempt_id, callers[who].deviceId];
        const caller = { ...callers[who], deviceId };
        return report(tx, byOf(caller, "r"), caller, ref, { ...item, attempt_id: attemptId });
      });
      granted(made.attempt_id, new Date(row.leaseExpiresAt ?? 0).toISOString());
      answered.push({ attempt_id: made.attempt_id, status: item.status, moved });
      return "done";
    });
  const revision = async ({ db }: Tx) => (await db.values<[number]>(sql`SELECT revision FROM print_jobs WHERE job_ref = ${ref}`))[0]?.[0];
  let seenDue = false;
  const acts: Record<Op, () => Promise<Outcome>> = {
    "A beats": () =>
      outcome(async () => {
        const { lease } = await write(now, (tx) => heartbeat(tx, callers.A, ref, { attempt_id: claims.A?.attempt_id ?? "" }));
        granted(claims.A?.attempt_id ?? "", lease.expires_at);
        return "done";
      }),
    "A reports": () => say("A", starts[start].says[0]),
    "A reports on": () => say("A", starts[start].says[1]),
    "the reaper": async () => {
      if (breaks.reapsBlindly) {
        const blind = sql`UPDATE print_jobs SET pool = 1, look_at = NULL WHERE job_ref = ${ref}`;
        if (seenDue) await write(now, async ({ db }) => db.run(blind));
        return seenDue ? "done" : "nothing";
      }
      const [before, after] = await write(now, async (tx) => [await revision(tx), (await reap(tx, 100), await revision(tx))]);
      return after === before ? "nothing" : "done";
    },
    "B claims": () => take("B"),
    "B reports": () => say("B", 0),
  };
  const begin = async () => {
    now = T0;
    await take("A");
    for (let step = 0; step < starts[start].upTo; step += 1) await say("A", step);
    now = T0 + starts[start].dueMs + delta;
    seenDue = delta >= 0; // what a reaper that doesn't compare has read before the others act
  };
  const faults = async () => {
    const record = await write(now, (tx) => history(tx, callers.A, ref, {}));
    return [...broken({ history: record.data, answered, print: null }), ...overlaps(grants).map(() => "two live grants")];
  };
  return { begin, act: (op: Op) => acts[op](), faults };
}
/** A whole schedule as parts of one unit of work: four thousand of them cost no more commits than that. */
const inOrder = (on: Floor, n: number, start: Start, delta: number, order: readonly Op[], breaks: Break = {}) =>
  on.store.write("schedule", async (tx) => {
    const one = schedule(on, n, start, delta, (now, work) => tx.attempt(() => work({ ...tx, now })), breaks);
    await one.begin();
    const was: string[] = [];
    for (const op of order) was.push(`${op}: ${await one.act(op)}`);
    return { was, faults: await one.faults() };
  });

/** Once paper may exist both of A's reports do the same, so one of them is enough there. */
const opsFrom: Record<Start, readonly Op[]> = { CLAIMED: ops, SPOOL_SUBMITTED: ops.filter((op) => op !== "A reports on") };
const all = (["CLAIMED", "SPOOL_SUBMITTED"] as const).flatMap((start) =>
  [-1, 0, 1].flatMap((delta) => orders(opsFrom[start]).map((order) => ({ start, delta, order }))),
);

test(
  "a millisecond before, at and after the end of a lease, all 720 orders of two stations and the reaper come out by the rules",
  { timeout: 300_000 },
  async () => {
    const on = await floor("sqlite", all.length);
    const wrong: string[] = [];
    for (const [n, { start, delta, order }] of all.entries()) {
      const expected = model(start, starts[start].dueMs + delta);
      const should = order.map((op) => `${op}: ${expected(op)}`);
      const { was, faults } = await inOrder(on, n, start, delta, order);
      if (was.join() !== should.join() || faults.length > 0)
        wrong.push(`${start} ${delta}: ${was.join(", ")} instead of ${should.join(", ")}; ${faults.join(", ")}`);
    }
    expect([wrong.length, wrong.slice(0, 3)]).toEqual([0, []]);
  },
);

test("on PostgreSQL they may come all at once, and no two grants are live together", { timeout: 120_000 }, async () => {
  const rounds = 120;
  const on = await floor("postgres", rounds);
  const chance = random(4);
  for (let n = 0; n < rounds; n += 1) {
    const { start, delta, order } = all[Math.floor(chance() * all.length)] as (typeof all)[0];
    const one = schedule(on, n, start, delta, (now, work) => on.store.write("op", (tx) => work({ ...tx, now })));
    await one.begin();
    await Promise.all(order.map(one.act));
    expect([n, start, delta, await one.faults()]).toEqual([n, start, delta, []]);
  }
});

test.each([
  ["without the fence", { unfenced: true }, 1, ["the reaper", "B claims", "A reports"], "RENDERED was answered and isn't on record once"],
  ["with a reaper that doesn't compare", { reapsBlindly: true }, 0, ["A beats", "the reaper", "B claims"], "two live grants"],
] as const)("the control: %s the same checks find the fault", async (_what, breaks, delta, order, says) => {
  const on = await floor("sqlite", 2);
  for (const [n, broke] of [breaks, {}].entries()) {
    const { faults } = await inOrder(on, n, "CLAIMED", delta, order, broke);
    if (n === 0) expect(faults).toContain(says);
    else expect(faults).toEqual([]);
  }
});
