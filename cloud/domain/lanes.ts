// A webhook's deliveries are a lane, which one node at a time leases, works on and lets go: so the first tries of a webhook begin in order, however many
// nodes run, and a slow webhook holds up only itself.
import type { SQL } from "drizzle-orm";
import { and, eq, gt, inArray, isNotNull, lte, notInArray, sql } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import { prepared } from "../store/prepared.ts";
import { deliveries, lanes } from "../store/schema.ts";
import { db, SKIP_LOCKED, type Tx } from "../store/store.ts";
import { UNWELL } from "./deliveries.ts";
import { begun, type Try, type Waiting } from "./tries.ts";
import * as webhooks from "./webhooks.ts";

const LEASE_MS = 30_000;
/** A lane in use is looked at whenever a try of it ends, so at least once within the time that a try may take. */
const RENEW_MS = LEASE_MS - 5_000;
/** One more try at a time for every so many that wait. */
const WAITING_PER_TRY = 8;
const SLICE_ROWS = 64;
const { placeholder } = sql;

/** A lane that this node works on. What is known of it is replaced as a whole after each commit. */
export type Lane = {
  webhookId: string;
  tenantId: string;
  leaseUntil: number;
  inFlight: ReadonlySet<string>;
  /** The lane's revision when a look left nothing waiting: while it stays that, there is nothing to look for. */
  restedRevision: number | null;
};
const claiming = (given: Record<"owner" | "leaseUntil" | "now" | "most", unknown>, among = sql``) =>
  db
    .update(lanes)
    .set({ owner: sql`${given.owner}`, leaseUntil: sql`${given.leaseUntil}` })
    .where(
      and(
        // Asked once: a server that believes in one lane would ask anew for each that there is, pass over those that it has just taken, and so take all.
        sql`${lanes.webhookId} IN (WITH due AS MATERIALIZED (SELECT webhook_id FROM lanes WHERE due_at IS NOT NULL AND due_at <= ${given.now} AND lease_until <= ${given.now} ${among}
          ORDER BY due_at LIMIT ${given.most} ${sql.raw(SKIP_LOCKED)}) SELECT webhook_id FROM due)`,
        sql`${lanes.leaseUntil} <= ${given.now}`,
      ),
    )
    .returning({ webhookId: lanes.webhookId, tenantId: lanes.tenantId, leaseUntil: lanes.leaseUntil });
const claimDue = prepared(
  claiming({ owner: placeholder("owner"), leaseUntil: placeholder("leaseUntil"), now: placeholder("now"), most: placeholder("most") }),
);
/** Some that are due, of any tenant but these. */
export async function claim(tx: Tx, owner: string, most: number, without: readonly string[] = []): Promise<Lane[]> {
  if (most <= 0) return [];
  const given = { owner, leaseUntil: tx.now + LEASE_MS, now: tx.now, most };
  const rows = await (without.length === 0 ? claimDue.all(given) : claiming(given, sql`AND ${notInArray(lanes.tenantId, [...without])}`));
  return rows.map((row) => ({ ...row, inFlight: new Set<string>(), restedRevision: null }));
}

/** Tenants that have their share of so many lanes: one that is as large as if one more tenant had come, so that there is always room for it. */
export function overShare(held: readonly Lane[], most: number): string[] {
  const byTenant = Map.groupBy(held, ({ tenantId }) => tenantId);
  const share = most / (byTenant.size + 1);
  return [...byTenant].filter(([, its]) => its.length >= share).map(([tenantId]) => tenantId);
}

const isMine = and(eq(lanes.webhookId, placeholder("webhookId")), eq(lanes.owner, placeholder("owner")));
const readLane = prepared(db.select({ revision: lanes.revision }).from(lanes).where(isMine));
// None of these waits for who makes a delivery for the lane at this moment: having marked it, that one may wait for a lane that this turn marked before.
const isFree = sql`${lanes.webhookId} IN (SELECT webhook_id FROM lanes WHERE webhook_id = ${placeholder("webhookId")} AND owner = ${placeholder("owner")} ${sql.raw(SKIP_LOCKED)})`;
const isMineNow = and(isMine, isFree);
const renewLane = prepared(
  db
    .update(lanes)
    .set({ leaseUntil: sql`${placeholder("leaseUntil")}` })
    .where(isMineNow),
);
const yieldLane = prepared(
  db
    .update(lanes)
    .set({ owner: null, leaseUntil: 0, dueAt: sql`${placeholder("now")}` })
    .where(isMineNow),
);
// If a delivery came since the revision was read, the lane is due again and has to be looked at instead.
const releaseLane = prepared(
  db
    .update(lanes)
    .set({
      owner: null,
      leaseUntil: 0,
      dueAt: sql`(SELECT min(due_at) FROM deliveries WHERE webhook_id = ${placeholder("webhookId")} AND due_at IS NOT NULL)`,
    })
    .where(and(isMineNow, eq(lanes.revision, placeholder("revision")))),
);
const isDue = and(
  eq(deliveries.webhookId, placeholder("webhookId")),
  isNotNull(deliveries.dueAt),
  lte(deliveries.dueAt, placeholder("now")),
);
const dueRows = prepared(db.select().from(deliveries).where(isDue).orderBy(deliveries.dueAt, deliveries.id).limit(placeholder("most")));
const dueIds = prepared(
  db.select({ id: deliveries.id }).from(deliveries).where(isDue).orderBy(deliveries.dueAt, deliveries.id).limit(placeholder("most")),
);
const timed = { id: deliveries.id, dueAt: deliveries.dueAt, createdAt: deliveries.createdAt };
const timedRows = prepared(
  db.select(timed).from(deliveries).where(isDue).orderBy(deliveries.dueAt, deliveries.id).limit(placeholder("most")),
);
const isRetryDue = and(isDue, sql`${deliveries.dueAt} > 0`);
const retriesDue = prepared(
  db.select(timed).from(deliveries).where(isRetryDue).orderBy(deliveries.dueAt, deliveries.id).limit(placeholder("most")),
);
export type Look = { lane: Lane | undefined; tries: Try[]; again: boolean };
const gone: Look = { lane: undefined, tries: [], again: false };

/**
 * What of a lane goes out now, `most` at a time. A lane with nothing due and nothing on its way is let go until something of it is due; one of which nothing may
 * go now stays due, behind others.
 */
export async function look(tx: Tx, owner: string, lane: Lane, most: number = limits.WEBHOOK_IN_FLIGHT_MAX): Promise<Look> {
  const { webhookId, tenantId, inFlight, restedRevision } = lane;
  const release = async (revision: number) => (await releaseLane.run({ webhookId, owner, revision })) > 0;
  if (inFlight.size === 0 && restedRevision !== null && (await release(restedRevision))) return gone;
  if (inFlight.size === 0 && most === 0 && (await yieldLane.run({ webhookId, owner, now: tx.now })) > 0) return gone;
  const row = await readLane.get({ webhookId, owner });
  if (!row) return gone; // another node took it over
  const webhook = await webhooks.peek(tenantId, webhookId);
  if (!webhook) return purge(tx, lane, row.revision);
  if (!webhook.enabled && (await holdLater(tx, lane)) === SLICE_ROWS)
    return { lane: await renewed(tx, owner, lane), tries: [], again: true };
  const waiting = await (webhook.enabled ? takeUp : hold)(tx, lane);
  if (waiting.length === 0 && inFlight.size === 0) return (await release(row.revision)) ? gone : { lane, tries: [], again: true };
  const allowed = Math.min(most, 1 + Math.floor(waiting.length / WAITING_PER_TRY));
  const tries = await begun(tx, webhook, waiting.slice(0, Math.max(0, allowed - inFlight.size)));
  const isRested = tries.length === waiting.length;
  const kept = await renewed(tx, owner, lane);
  return {
    lane: { ...kept, restedRevision: isRested ? row.revision : null },
    tries,
    again: tries.length + inFlight.size === 0 || !isLong(tx, kept),
  };
}

const isLong = (tx: Tx, { leaseUntil }: Lane): boolean => leaseUntil - tx.now > RENEW_MS;
async function renewed(tx: Tx, owner: string, lane: Lane): Promise<Lane> {
  if (isLong(tx, lane)) return lane;
  const leaseUntil = tx.now + LEASE_MS;
  return (await renewLane.run({ webhookId: lane.webhookId, owner, leaseUntil })) > 0 ? { ...lane, leaseUntil } : lane;
}

/** What waits, in turn and at most a slice of each; whole where it is only a few, as it mostly is. */
async function due(tx: Tx, { webhookId, inFlight }: Lane): Promise<Waiting[]> {
  const few = inFlight.size + 2;
  const rows = await dueRows.all({ webhookId, now: tx.now, most: few });
  const found: Waiting[] =
    rows.length < few
      ? rows.map((whole) => ({ id: whole.id, whole }))
      : await manyDue({ webhookId, now: tx.now, most: SLICE_ROWS + inFlight.size });
  return found.filter(({ id }) => !inFlight.has(id));
}

async function manyDue(asked: { webhookId: string; now: number; most: number }): Promise<Waiting[]> {
  const retries = await retriesDue.all(asked); // mostly there is none, and an index alone tells the others
  return retries.length === 0 ? dueIds.all(asked) : interleaved(await timedRows.all({ ...asked, now: 0 }), retries);
}

type Timed = Pick<typeof deliveries.$inferSelect, keyof typeof timed>;
/** First tries in their order, among them each retry when it has waited for longer than what follows: else a busy webhook would have none. */
function interleaved(firsts: readonly Timed[], retries: readonly Timed[]): Timed[] {
  const left = [...retries];
  const found: Timed[] = [];
  for (const first of firsts) {
    while (left[0] && (left[0].dueAt ?? 0) <= first.createdAt) found.push(...left.splice(0, 1));
    found.push(first);
  }
  return [...found, ...left];
}

const isHeld = and(eq(deliveries.webhookId, placeholder("webhookId")), eq(deliveries.state, "held"), UNWELL);
const heldIds = prepared(db.select({ id: deliveries.id }).from(deliveries).where(isHeld).orderBy(deliveries.id).limit(SLICE_ROWS));
const among = ({ webhookId }: Lane, ids: readonly string[]) => and(eq(deliveries.webhookId, webhookId), inArray(deliveries.id, [...ids]));

/** An enabled webhook: what was held is due again, and being older it goes first. */
async function takeUp(tx: Tx, lane: Lane): Promise<Waiting[]> {
  const { webhookId } = lane;
  const held = (await heldIds.get({ webhookId })) ? (await heldIds.all({ webhookId })).map(({ id }) => id) : []; // mostly there is none
  if (held.length > 0) await tx.db.update(deliveries).set({ state: "pending", dueAt: 0 }).where(among(lane, held));
  return due(tx, lane);
}

const holding = (tx: Tx, which: ReturnType<typeof and>) =>
  tx.db.update(deliveries).set({ state: "held", dueAt: null }).where(which).returning({ id: deliveries.id });
/** A disabled webhook: deliveries that are due are held, except those that somebody sent again by hand. */
async function hold(tx: Tx, lane: Lane): Promise<Waiting[]> {
  const waiting = await due(tx, lane);
  if (waiting.length === 0) return [];
  const ids = waiting.map(({ id }) => id);
  const held = await holding(tx, and(among(lane, ids), eq(deliveries.byHand, false)));
  const nowHeld = new Set(held.map(({ id }) => id));
  return waiting.filter(({ id }) => !nowHeld.has(id));
}

/** Deliveries that wait for their next try are held, too, so that they go out as soon as the webhook is enabled again. A slice of them; answers how many. */
async function holdLater(tx: Tx, lane: Lane): Promise<number> {
  const isLater = and(gt(deliveries.dueAt, tx.now), eq(deliveries.byHand, false));
  const ids = await someOf(tx, and(eq(deliveries.webhookId, lane.webhookId), isNotNull(deliveries.dueAt), isLater));
  return (await holding(tx, and(among(lane, ids), sql`(${isLater}) IS TRUE`))).length; // still so where it is sent by hand meanwhile
}

/** A slice, named by their keys before they change: by one statement for both a server that doesn't know better goes through all of a webhook's. */
async function someOf(tx: Tx, which: SQL | undefined): Promise<string[]> {
  const rows = await tx.db.select({ id: deliveries.id }).from(deliveries).where(which).limit(SLICE_ROWS);
  return rows.map(({ id }) => id);
}

/** A deleted one: its deliveries go, a slice at a time, and the lane with the last of them; where one came since the revision was read, it goes first. */
async function purge(tx: Tx, lane: Lane, revision: number): Promise<Look> {
  const { webhookId } = lane;
  const ids = await someOf(tx, eq(deliveries.webhookId, webhookId));
  const deleted = await tx.db.delete(deliveries).where(among(lane, ids)).returning({ id: deliveries.id });
  if (deleted.length === SLICE_ROWS) return { lane, tries: [], again: true };
  const isUnchanged = and(eq(lanes.webhookId, webhookId), eq(lanes.revision, revision));
  const areAllGone = sql`NOT EXISTS (SELECT 1 FROM deliveries WHERE webhook_id = ${webhookId})`; // those of this slice another node may have removed, whose lease has run out
  const [last] = await tx.db.delete(lanes).where(and(isUnchanged, areAllGone)).returning({ webhookId: lanes.webhookId });
  return last ? gone : { lane, tries: [], again: true };
}

/** Lanes of a node that ends, or of one that has just begun and is the only one there is. */
export async function letGo(tx: Tx, owner?: string): Promise<void> {
  await tx.db
    .update(lanes)
    .set({ owner: null, leaseUntil: 0, dueAt: 0, revision: sql`${lanes.revision} + 1` })
    .where(owner === undefined ? isNotNull(lanes.owner) : and(isNotNull(lanes.owner), eq(lanes.owner, owner)));
}
