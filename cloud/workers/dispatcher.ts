// Sends what the outbox holds: one turn after another writes down what came of tries, makes deliveries of events and begins new tries.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import type { Courier, Outcome } from "../adapters/courier.ts";
import { fanOut } from "../domain/fan-out.ts";
import { claim, type Lane, letGo, look, overShare } from "../domain/lanes.ts";
import { onEmission } from "../domain/outbox.ts";
import { type Settled, settle, type Try } from "../domain/tries.ts";
import type { Log } from "../log.ts";
import type { Seal } from "../seal.ts";
import type { Tracing } from "../tracing.ts";
import type { Store, Tx } from "../store/store.ts";
import { endingOwnLeases, startWorker, type Worker } from "./worker.ts";

const IDLE_MS = 200;
/** Of each kind in one turn: a unit stays short, because requests wait behind it. */
const TURN_ROWS = 32;
/** From one turn to the next: what comes in between shares a commit, and requests have the store for most of the time. */
const PACE_MS = 10;
/** Some thousand receivers that hang leave room for the others: once this many tries are on their way each webhook has at most one, and each tenant its share of lanes. */
const TRIES_BUSY = 1_000;
const LANES_MAX = 3_000;
/** Until what couldn't be written down comes again: what kept it from that may have been mended. */
const UNWRITTEN_MS = 5_000;
/** What was begun may end this long after the stop; the rest is sent again by whoever comes next. */
const DRAIN_MS = 3_000;

type Dispatcher = Worker & { inFlight(): number };

type Means = {
  courier: Courier;
  seal: Seal;
  /** Hears of each try that has ended. */
  tried?: (outcome: Outcome) => void;
  tracing?: Tracing | undefined;
};

export function startDispatcher(store: Store, log: Log, { courier, seal, tried, tracing }: Means): Dispatcher {
  const owner = randomUUID();
  let lanes = new Map<string, Lane>();
  let toLookAt = new Set<string>();
  let settled: Settled[] = [];
  const flying = new Set<Promise<void>>();
  let nextTurnAt = 0;
  let lastTenant = "";

  async function step(stopping: () => boolean): Promise<boolean> {
    await sleep(Math.max(0, nextTurnAt - performance.now()));
    try {
      return await turn(stopping);
    } catch (error) {
      if (!(error instanceof Refusal)) await settleEachAlone();
      throw error;
    } finally {
      nextTurnAt = performance.now() + PACE_MS;
    }
  }

  /** Where what came of one try can't be written down, that holds up none of the others: it comes again later. What could be is written once more by the turn to come, which changes nothing. */
  async function settleEachAlone(): Promise<void> {
    const isWritable = async (one: Settled) =>
      store
        .write("webhook try", (tx) => settle(tx, one))
        .then(
          () => true,
          (error: unknown) => error instanceof Refusal, // a store that is away takes it later
        );
    for (const one of settled.slice(0, TURN_ROWS)) {
      if (await isWritable(one)) continue;
      settled = settled.filter((other) => other !== one);
      setTimeout(() => worker.runs() && settled.push(one), UNWRITTEN_MS).unref();
    }
  }

  async function turn(stopping: () => boolean): Promise<boolean> {
    const [over, left] = [settled.slice(0, TURN_ROWS), settled.slice(TURN_ROWS)];
    const landed = Map.groupBy(over, ({ made }) => made.delivery.webhookId);
    const known = new Map(lanes);
    for (const [webhookId, tries] of landed) {
      const lane = known.get(webhookId);
      if (lane) known.set(webhookId, without(lane, tries));
    }
    const asked = new Set([...toLookAt, ...landed.keys()].filter((webhookId) => known.has(webhookId)));
    const greedy = flying.size < TRIES_BUSY ? [] : overShare([...known.values()], LANES_MAX);
    const done = await store.write("webhook turn", async (tx) => {
      await Promise.all([...landed.values()].map((tries) => settleAll(tx, tries)));
      if (stopping()) return { looks: [], more: false, lastTenant };
      const made = await fanOut(tx, TURN_ROWS, lastTenant);
      const claimed = await claim(tx, owner, Math.min(TURN_ROWS, LANES_MAX - known.size), greedy);
      const due = [...asked].slice(0, TURN_ROWS).flatMap((id) => known.get(id) ?? []);
      // Among them may be our own whose leases ran out, as by a clock that leapt: what is on its way of those isn't begun again.
      const ours = claimed.map((lane) => ({ ...lane, inFlight: known.get(lane.webhookId)?.inFlight ?? lane.inFlight }));
      const each = new Map([...due, ...ours].map((lane) => [lane.webhookId, lane]));
      const most = ({ tenantId }: Lane) => (flying.size < TRIES_BUSY ? undefined : greedy.includes(tenantId) ? 0 : 1);
      const looks = await Promise.all(
        [...each.values()].map(async (lane) => [lane.webhookId, await look(tx, owner, lane, most(lane))] as const),
      );
      return { looks, more: made.more || claimed.length === TURN_ROWS, lastTenant: made.lastTenant };
    });
    settled = settled.slice(over.length);
    lanes = known;
    toLookAt = asked;
    ({ lastTenant } = done);
    for (const [webhookId, { lane, tries, again }] of done.looks) {
      toLookAt.delete(webhookId);
      if (again) toLookAt.add(webhookId); // at the end, so that a long one lets others by
      if (lane) lanes.set(webhookId, withTries(lane, tries));
      else lanes.delete(webhookId);
      for (const one of tries) begin(one);
    }
    return done.more || left.length > 0 || (toLookAt.size > 0 && done.looks.length > 0);
  }

  function begin(made: Try): void {
    const flight = sent(made).then((outcome) => {
      flying.delete(flight);
      settled.push({ made, outcome });
      tried?.(outcome);
      say(made, outcome);
      worker.wake();
    });
    flying.add(flight);
  }

  /** Ids only: what was sent is its receiver's, and where to its tenant's. */
  function say({ delivery: { id, eventId, webhookId, tenantId, type }, requestId }: Try, { status, latencyMs }: Outcome): void {
    log.plain.info({ event: "delivery", requestId, deliveryId: id, eventId, webhookId, tenantId, type, status, ms: latencyMs });
  }

  async function sent({ delivery, body, url, sealed, at, requestId, traceparent }: Try): Promise<Outcome> {
    const secrets = sealed.map((text) => seal.open(text)).filter((secret) => secret !== undefined); // one of two is enough to sign
    if (secrets.length === 0) return NO_SECRET;
    const { id, tenantId, type } = delivery;
    const ids = { "imprimatur.request_id": requestId, "imprimatur.delivery_id": id, "imprimatur.tenant_id": tenantId };
    const traced = tracing?.begin(`webhook ${type}`, "out", traceparent, ids);
    const headers = {
      ...(requestId === null ? {} : { "x-correlation-id": requestId }),
      ...(traced ? { traceparent: traced.traceparent } : {}),
    };
    const outcome = await courier.send({ url, body, secrets, headers, deliveryId: id, at: Math.floor(at / 1000) });
    const { status } = outcome;
    traced?.end({ isFault: status === null || status >= 300, ids: { "http.response.status_code": status } });
    return outcome;
  }

  const first = endingOwnLeases(store, "webhook lanes", (tx) => letGo(tx));
  const worker = startWorker(log, { event: "dispatch-failed", idleMs: IDLE_MS, first, step });
  const deaf = onEmission(worker.wake);

  /** Waits a little for what is on its way, writes down what came of it and leaves the lanes to others. */
  async function drain(): Promise<void> {
    const late = new Promise((resolve) => setTimeout(resolve, DRAIN_MS).unref());
    await Promise.race([Promise.allSettled(flying), late]);
    try {
      while (settled.length > 0) await turn(() => true);
      await store.write("webhook lanes", (tx) => letGo(tx, owner));
    } catch (error) {
      log.error({ event: "dispatch-failed", err: error }, "the last tries couldn't be written down: they will be made again");
    } finally {
      await courier.close();
    }
  }

  return {
    ...worker,
    inFlight: () => flying.size,
    stop: async () => {
      deaf();
      await worker.stop();
      await drain();
    },
  };
}

/** Tries of one webhook one after another: the first may disable what the second would. */
async function settleAll(tx: Tx, tries: readonly Settled[]): Promise<void> {
  for (const one of tries) await settle(tx, one);
}

const NO_SECRET: Outcome = { status: null, error: saying("secret_sealed"), latencyMs: 0, head: null };

const withTries = (lane: Lane, tries: readonly Try[]): Lane => ({
  ...lane,
  inFlight: new Set([...lane.inFlight, ...tries.map(({ delivery }) => delivery.id)]),
});
const without = (lane: Lane, over: readonly Settled[]): Lane => {
  const ended = new Set(over.map(({ made }) => made.delivery.id));
  return { ...lane, inFlight: new Set([...lane.inFlight].filter((id) => !ended.has(id))) };
};
