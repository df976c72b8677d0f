// The dispatcher's side of the outbox: events become deliveries, webhooks become lanes that one node works on at a time, tries become rows.
// A lane is leased as a whole: so first tries of one webhook begin in order, whoever runs, and a slow one holds up nobody but itself.
import { and, eq, inArray, isNotNull, isNull, lte, sql } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import type { Attempt, DisabledReason } from "#shared/wire/webhooks.ts";
import type { Outcome } from "../adapters/courier.ts";
import type { Caller } from "../route.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { deliveries, lanes, outbox, webhooks as table } from "../store/schema.ts";
import { db, SKIP_LOCKED, type Tx } from "../store/store.ts";
import * as audit from "./audit.ts";
import { fresh, type Row as Delivery } from "./deliveries.ts";
import * as webhooks from "./webhooks.ts";

const LEASE_MS = 30_000;
/** A lane in use is looked at whenever a try of it ends, so at least once within the time that a try may take. */
const RENEW_MS = LEASE_MS - 5_000;
/** One more try at a time for every so many that wait. */
const WAITING_PER_TRY = 8;
const SLICE_ROWS = 64;
/** What follows a failed try, the n-th after the n-th; then it is exhausted. */
export const SCHEDULE_MS = [5_000, 30_000, 120_000, 900_000, 3_600_000, 14_400_000, 43_200_000] as const;
const JITTER_SHARE = 0.1;

const at = sql.placeholder;
const skipLocked = sql.raw(SKIP_LOCKED);

// Events become deliveries.

const insertDelivery = prepared(db.insert(deliveries).values(placesOf(deliveries)));
const markLane = prepared(
  db
    .update(lanes)
    .set({ dueAt: 0, revision: sql`${lanes.revision} + 1` })
    .where(eq(lanes.webhookId, at("webhookId")))
    .returning({ webhookId: lanes.webhookId }),
);
const MESSAGES_READ = 16; // each may have a thousand targets
type Message = Pick<typeof outbox.$inferSelect, "id" | "tenantId" | "type"> & { targets: string[] };

async function waitingMessages(tx: Tx): Promise<Message[]> {
  const rows = await tx.db.values<[string, string, Message["type"], string]>(
    sql`SELECT id, tenant_id, type, targets FROM outbox WHERE targets IS NOT NULL ORDER BY id LIMIT ${MESSAGES_READ} ${skipLocked}`,
  );
  return rows.map(([id, tenantId, type, targets]) => ({ id, tenantId, type, targets: JSON.parse(targets) as string[] }));
}

/** Makes about `most` deliveries of events that have none yet, oldest event first; says whether there may be more. */
export async function fanOut(tx: Tx, most: number): Promise<boolean> {
  const made: Delivery[] = [];
  const messages = await waitingMessages(tx);
  let room = most;
  for (const { id, tenantId, type, targets } of messages) {
    if (room <= 0) break;
    const taken = targets.slice(0, room);
    room -= taken.length;
    const rest = targets.slice(taken.length);
    await tx.db
      .update(outbox)
      .set({ targets: rest.length > 0 ? rest : null })
      .where(eq(outbox.id, id));
    for (const webhookId of taken) made.push(fresh(tx, { tenantId, webhookId, eventId: id, type }));
  }
  // In one order on every node, so that two never wait for each other. A webhook without a lane was deleted meanwhile.
  const named = [...new Set(made.map(({ webhookId }) => webhookId))].toSorted();
  const living = new Set((await Promise.all(named.map((webhookId) => markLane.get({ webhookId })))).map((row) => row?.webhookId));
  await Promise.all(made.filter(({ webhookId }) => living.has(webhookId)).map((row) => insertDelivery.run(row)));
  return room <= 0 || messages.length === MESSAGES_READ;
}

// Lanes: leased, looked at, let go.

/** What goes out of an event, and where it came from. */
type Sent = Pick<typeof outbox.$inferSelect, "body" | "requestId" | "traceparent">;

/** A lane that this node works on. What is known of it is replaced as a whole after each commit. */
export type Lane = {
  webhookId: string;
  tenantId: string;
  leaseUntil: number;
  inFlight: ReadonlySet<string>;
  /** The lane's revision when a look left nothing waiting: while it stays that, there is nothing to look for. */
  restedAt: number | null;
};
export type Try = { delivery: Delivery; url: string; sealed: string[]; at: number } & Sent;

const claimDue = prepared(
  db
    .update(lanes)
    .set({ owner: sql`${at("owner")}`, leaseUntil: sql`${at("leaseUntil")}` })
    .where(
      and(
        sql`${lanes.webhookId} IN (SELECT webhook_id FROM lanes WHERE due_at IS NOT NULL AND due_at <= ${at("now")} AND lease_until <= ${at("now")}
          ORDER BY due_at LIMIT ${at("most")} ${skipLocked})`,
        lte(lanes.leaseUntil, at("now")),
      ),
    )
    .returning({ webhookId: lanes.webhookId, tenantId: lanes.tenantId, leaseUntil: lanes.leaseUntil }),
);
export async function claim(tx: Tx, owner: string, most: number): Promise<Lane[]> {
  if (most <= 0) return [];
  const rows = await claimDue.all({ owner, leaseUntil: tx.now + LEASE_MS, now: tx.now, most });
  return rows.map((row) => ({ ...row, inFlight: new Set<string>(), restedAt: null }));
}

const isMine = and(eq(lanes.webhookId, at("webhookId")), eq(lanes.owner, at("owner")));
const readLane = prepared(db.select({ revision: lanes.revision }).from(lanes).where(isMine));
const renewLane = prepared(
  db
    .update(lanes)
    .set({ leaseUntil: sql`${at("leaseUntil")}` })
    .where(isMine),
);
// If a delivery came since the revision was read, the lane is due again and has to be looked at instead.
const releaseLane = prepared(
  db
    .update(lanes)
    .set({
      owner: null,
      leaseUntil: 0,
      dueAt: sql`(SELECT min(due_at) FROM deliveries WHERE webhook_id = ${at("webhookId")} AND due_at IS NOT NULL)`,
    })
    .where(and(isMine, eq(lanes.revision, at("revision")))),
);
const isDue = and(eq(deliveries.webhookId, at("webhookId")), isNotNull(deliveries.dueAt), lte(deliveries.dueAt, at("now")));
const dueRows = prepared(db.select().from(deliveries).where(isDue).orderBy(deliveries.dueAt, deliveries.id).limit(at("most")));
const dueIds = prepared(
  db.select({ id: deliveries.id }).from(deliveries).where(isDue).orderBy(deliveries.dueAt, deliveries.id).limit(at("most")),
);
const whole = prepared(
  db
    .select()
    .from(deliveries)
    .where(and(eq(deliveries.webhookId, at("webhookId")), eq(deliveries.id, at("id")))),
);
const readBody = prepared(
  db
    .select({ body: outbox.body, requestId: outbox.requestId, traceparent: outbox.traceparent })
    .from(outbox)
    .where(eq(outbox.id, at("eventId"))),
);

// One body goes to many: it is read once. It never changes, so that a kept one is as good as the row.
const bodies = new Map<string, Sent>();
const BODIES_KEPT = 200;
const BODY_KEPT_MAX_LENGTH = 65_536;
async function sentOf(eventId: string): Promise<Sent | undefined> {
  const kept = bodies.get(eventId);
  if (kept !== undefined) return kept;
  const sent = await readBody.get({ eventId });
  if (sent !== undefined && sent.body.length <= BODY_KEPT_MAX_LENGTH) bodies.set(eventId, sent);
  if (bodies.size > BODIES_KEPT) bodies.delete(bodies.keys().next().value as string);
  return sent;
}

export type Look = { lane: Lane | undefined; tries: Try[]; again: boolean };
const gone: Look = { lane: undefined, tries: [], again: false };

/** What of a lane goes out now. Nothing due and nothing on its way: the lane is let go until something of it is due. */
export async function look(tx: Tx, owner: string, lane: Lane, most: number = limits.WEBHOOK_IN_FLIGHT_MAX): Promise<Look> {
  const { webhookId, tenantId, inFlight, restedAt } = lane;
  const release = async (revision: number) => (await releaseLane.run({ webhookId, owner, revision })) > 0;
  if (inFlight.size === 0 && restedAt !== null && (await release(restedAt))) return gone;
  const row = await readLane.get({ webhookId, owner });
  if (!row) return gone; // another node took it over
  const webhook = await webhooks.peek(tenantId, webhookId);
  if (!webhook) return purge(tx, lane);
  const waiting = await (webhook.enabled ? takeUp : hold)(tx, lane);
  if (waiting.length === 0 && inFlight.size === 0) return (await release(row.revision)) ? gone : { lane, tries: [], again: true };
  const allowed = Math.min(most, 1 + Math.floor(waiting.length / WAITING_PER_TRY));
  const tries = await begun(tx, webhook, waiting.slice(0, Math.max(0, allowed - inFlight.size)));
  const rested = tries.length === waiting.length ? row.revision : null;
  return { lane: { ...(await renewed(tx, owner, lane)), restedAt: rested }, tries, again: tries.length + inFlight.size === 0 };
}

async function renewed(tx: Tx, owner: string, lane: Lane): Promise<Lane> {
  if (lane.leaseUntil - tx.now > RENEW_MS) return lane;
  const leaseUntil = tx.now + LEASE_MS;
  await renewLane.run({ webhookId: lane.webhookId, owner, leaseUntil });
  return { ...lane, leaseUntil };
}

/** What waits, in order and at most a slice; whole where it is only a few, as it mostly is. */
type Waiting = { id: string; whole?: Delivery };
async function due(tx: Tx, { webhookId, inFlight }: Lane): Promise<Waiting[]> {
  const few = inFlight.size + 2;
  const rows = await dueRows.all({ webhookId, now: tx.now, most: few });
  const found: Waiting[] =
    rows.length < few
      ? rows.map((whole) => ({ id: whole.id, whole }))
      : await dueIds.all({ webhookId, now: tx.now, most: SLICE_ROWS + inFlight.size });
  return found.filter(({ id }) => !inFlight.has(id));
}

const UNWELL = sql`${deliveries.state} IN ('failed', 'exhausted', 'held')`;
const heldIds = prepared(
  db
    .select({ id: deliveries.id })
    .from(deliveries)
    .where(and(eq(deliveries.webhookId, at("webhookId")), eq(deliveries.state, "held"), UNWELL))
    .orderBy(deliveries.id)
    .limit(SLICE_ROWS),
);
const among = ({ webhookId }: Lane, ids: readonly string[]) => and(eq(deliveries.webhookId, webhookId), inArray(deliveries.id, [...ids]));

/** An enabled webhook: what was held is due again, and being older it goes first. */
async function takeUp(tx: Tx, lane: Lane): Promise<Waiting[]> {
  const { webhookId } = lane;
  const held = (await heldIds.get({ webhookId })) ? (await heldIds.all({ webhookId })).map(({ id }) => id) : []; // mostly there is none
  if (held.length > 0) await tx.db.update(deliveries).set({ state: "pending", dueAt: 0 }).where(among(lane, held));
  return due(tx, lane);
}

/** A disabled one: what is due is held, what was sent by hand goes out all the same. */
async function hold(tx: Tx, lane: Lane): Promise<Waiting[]> {
  const waiting = await due(tx, lane);
  if (waiting.length === 0) return [];
  const held = await tx.db
    .update(deliveries)
    .set({ state: "held", dueAt: null })
    .where(
      and(
        among(
          lane,
          waiting.map(({ id }) => id),
        ),
        eq(deliveries.byHand, false),
      ),
    )
    .returning({ id: deliveries.id });
  const gone = new Set(held.map(({ id }) => id));
  return waiting.filter(({ id }) => !gone.has(id));
}

/** A deleted one: its deliveries go, a slice at a time, and the lane with the last of them. */
async function purge(tx: Tx, lane: Lane): Promise<Look> {
  const { webhookId } = lane;
  const slice = sql`${deliveries.id} IN (SELECT id FROM deliveries WHERE webhook_id = ${webhookId} LIMIT ${SLICE_ROWS})`;
  const deleted = await tx.db
    .delete(deliveries)
    .where(and(eq(deliveries.webhookId, webhookId), slice))
    .returning({ id: deliveries.id });
  if (deleted.length === SLICE_ROWS) return { lane, tries: [], again: true };
  await tx.db.delete(lanes).where(eq(lanes.webhookId, webhookId));
  return gone;
}

async function begun(tx: Tx, webhook: webhooks.Row, waiting: readonly Waiting[]): Promise<Try[]> {
  const found = await Promise.all(waiting.map(async ({ id, whole: row }) => row ?? whole.get({ webhookId: webhook.id, id })));
  const tries: Try[] = [];
  for (const delivery of found) {
    if (!delivery) continue;
    const sent = await sentOf(delivery.eventId);
    if (sent === undefined) await record(tx, delivery, "exhausted", lost(tx.now));
    else tries.push({ delivery, ...sent, url: webhook.url, sealed: webhooks.secretsAt(webhook, tx.now), at: tx.now });
  }
  return tries;
}
const lost = (now: number): Attempt => attemptOf(now, { status: null, error: "its event was forgotten", latencyMs: 0, head: null }, null);

// Tries become rows.

const attemptOf = (begunAt: number, { status, error, latencyMs, head }: Outcome, nextAt: number | null): Attempt => ({
  at: new Date(begunAt).toISOString(),
  status,
  error,
  latencyMs,
  responseHead: head,
  nextTryAt: nextAt === null ? null : new Date(nextAt).toISOString(),
});

/** When it is tried again after its n-th failure, a little sooner or later so that many don't come at once; null: never. */
export function nextTryAt(now: number, failures: number): number | null {
  const delay = SCHEDULE_MS[failures - 1];
  return delay === undefined ? null : now + Math.round(delay * (1 + JITTER_SHARE * (2 * Math.random() - 1)));
}

const moveOn = prepared(
  db
    .update(deliveries)
    .set({
      state: sql`${at("state")}`,
      dueAt: sql`${at("dueAt")}`,
      tries: sql`${deliveries.tries} + 1`,
      attempts: sql`${at("attempts")}`,
      endedAt: sql`${at("endedAt")}`,
    })
    .where(
      and(
        eq(deliveries.webhookId, at("webhookId")),
        eq(deliveries.id, at("id")),
        eq(deliveries.tries, at("tries")),
        eq(deliveries.dueAt, at("begunDueAt")),
      ),
    ),
);
const withAttempt = ({ attempts }: Delivery, attempt: Attempt): Attempt[] =>
  [...attempts, attempt].slice(-limits.WEBHOOK_ATTEMPTS_SHOWN_MAX);

/** Where the delivery is no longer as it was when the try began (sent again by hand, tried by another node), the try is only noted. */
async function record(
  tx: Tx,
  delivery: Delivery,
  state: Delivery["state"],
  attempt: Attempt,
  dueAt: number | null = null,
): Promise<boolean> {
  const { webhookId, id, tries, dueAt: begunDueAt } = delivery;
  const attempts = JSON.stringify(withAttempt(delivery, attempt));
  const endedAt = dueAt === null ? tx.now : null;
  if ((await moveOn.run({ webhookId, id, tries, begunDueAt, state, dueAt, attempts, endedAt })) > 0) return true;
  const now = await whole.get({ webhookId, id });
  if (!now) return false; // deleted meanwhile
  const noted = withAttempt(now, { ...attempt, nextTryAt: null });
  await tx.db
    .update(deliveries)
    .set({ attempts: noted })
    .where(among({ webhookId } as Lane, [id]));
  return false;
}

const isWebhook = and(eq(table.tenantId, at("tenantId")), eq(table.id, at("webhookId")));
const nowWell = prepared(
  db
    .update(table)
    .set({ failingSince: null })
    .where(and(isWebhook, isNotNull(table.failingSince))),
);
const nowFailing = prepared(
  db
    .update(table)
    .set({ failingSince: sql`${at("now")}` })
    .where(and(isWebhook, isNull(table.failingSince))),
);

export type Settled = { made: Try; outcome: Outcome };

/** What came of a try: 2xx is delivered, a 4xx ends it, all else is tried again while the schedule lasts. */
export async function settle(tx: Tx, { made: { delivery, at: begunAt }, outcome }: Settled): Promise<void> {
  const { tenantId, webhookId } = delivery;
  const { status } = outcome;
  if (status !== null && status >= 200 && status < 300) {
    await record(tx, delivery, "delivered", attemptOf(begunAt, outcome, null));
    await nowWell.run({ tenantId, webhookId });
    return;
  }
  const ends = status !== null && status >= 400 && status < 500;
  const nextAt = ends ? null : nextTryAt(tx.now, delivery.tries + 1);
  const state = nextAt !== null ? "pending" : ends ? "failed" : "exhausted";
  await record(tx, delivery, state, attemptOf(begunAt, outcome, nextAt), nextAt);
  await nowFailing.run({ tenantId, webhookId, now: tx.now });
  const since = (await webhooks.peek(tenantId, webhookId))?.failingSince ?? tx.now;
  if (status === 410) await shut(tx, delivery, "gone");
  else if (tx.now - since >= limits.WEBHOOK_FAILING_MAX_MS) await shut(tx, delivery, "failing");
}

/** Nobody asked for it, so the audit log says it. */
async function shut(tx: Tx, { tenantId, webhookId, id, attempts }: Delivery, reason: DisabledReason): Promise<void> {
  const webhook = await webhooks.disable(tx, tenantId, webhookId, reason);
  if (!webhook) return;
  const details = { reason, url: webhook.url, deliveryId: id, failingSince: webhook.failingSince, tries: attempts.length + 1 };
  audit.append(tx, dispatcherOf(tenantId), { action: "webhook.disabled", subject: webhookId, details, requestId: id });
}
const dispatcherOf = (tenantId: string): Caller => ({
  tenantId,
  credential: { kind: "system", id: "system", name: "dispatcher" },
  scopes: [],
  deviceId: null,
  tier: "pro",
});

/** Lanes of a node that ends, or of one that has just begun and is the only one there is. */
export async function letGo(tx: Tx, owner?: string): Promise<void> {
  await tx.db
    .update(lanes)
    .set({ owner: null, leaseUntil: 0, dueAt: 0, revision: sql`${lanes.revision} + 1` })
    .where(owner === undefined ? isNotNull(lanes.owner) : and(isNotNull(lanes.owner), eq(lanes.owner, owner)));
}
