// Deliveries as their tenant sees them: listed with every try, sent again by hand, and a first one made to try an endpoint out.
import { and, asc, eq, inArray, isNull, sql } from "../store/drizzle.ts";
import type { SQL } from "drizzle-orm";
import { EVENT_API_VERSION, eventTable } from "#shared/events.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import type { Delivery, DeliveryQuery, WebhookTest } from "#shared/wire/webhooks.ts";
import { deliveries, outbox } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { noSuch } from "./found.ts";
import { newIdIn } from "./ids.ts";
import { instant } from "./instant.ts";
import { send } from "./outbox.ts";
import { pageOf, pageReply } from "./page.ts";
import { lookedThrough } from "./stretches.ts";
import * as webhooks from "./webhooks.ts";

export type Row = typeof deliveries.$inferSelect;

const toWire = (row: Row): Delivery => ({
  id: row.id,
  webhookId: row.webhookId,
  eventId: row.eventId,
  type: row.type,
  status: row.state,
  attempts: row.attempts,
  nextTryAt: row.dueAt === null ? null : instant(Math.max(row.dueAt, row.createdAt)),
  createdAt: instant(row.createdAt),
  endedAt: instant(row.endedAt),
});

export const fresh = (tx: Tx, of: Pick<Row, "tenantId" | "webhookId" | "eventId" | "type">, byHand = false): Row => ({
  ...of,
  id: newIdIn(tx),
  state: "pending",
  dueAt: 0,
  tries: 0,
  byHand,
  attempts: [],
  createdAt: tx.now,
  endedAt: null,
});

/** Spelled as the index of those that went wrong has it. */
export const WENT_WRONG = "state IN ('failed', 'exhausted', 'held')";
export const UNWELL = sql.raw(WENT_WRONG);
/** Ids in a state, found by an index that holds no delivered ones: a long past doesn't slow the look at what went wrong. */
const INDEXED: Partial<Record<Row["state"], SQL>> = { pending: sql`due_at IS NOT NULL`, failed: UNWELL, exhausted: UNWELL, held: UNWELL };
const inState = (state: Row["state"], webhookId: string, after: string | undefined, most: number): SQL | undefined =>
  INDEXED[state] &&
  sql`${deliveries.id} IN (SELECT id FROM deliveries WHERE webhook_id = ${webhookId} AND state = ${state} AND ${INDEXED[state]}
    AND id < ${after ?? "g"} ORDER BY id DESC LIMIT ${most})`; // no id reaches "g"

export async function list(store: Store, { tenantId }: Caller, webhookId: string, { status, ...query }: DeliveryQuery) {
  await store.read("webhook", (tx) => webhooks.find(tx, tenantId, webhookId));
  const page = pageOf(query);
  const found = status === undefined ? undefined : inState(status, webhookId, page.after, page.most);
  const { rows, limit } = await lookedThrough(store, "deliveries", page, {
    table: deliveries,
    key: deliveries.id,
    whole: and(eq(deliveries.tenantId, tenantId), eq(deliveries.webhookId, webhookId), found),
    fits: status === undefined || found ? undefined : eq(deliveries.state, status),
  });
  return pageReply(rows, limit, ({ id }) => id, toWire);
}

const mine = (caller: Caller, webhookId: string, id: string) =>
  and(eq(deliveries.tenantId, caller.tenantId), eq(deliveries.webhookId, webhookId), eq(deliveries.id, id));
const absent = () => new Refusal("NOT_FOUND", "there is no such delivery of this webhook");

export async function get(tx: Tx, caller: Caller, webhookId: string, id: string): Promise<Delivery> {
  const isIt = mine(caller, webhookId, id);
  const row = await tx.db.select().from(deliveries).where(isIt).get();
  if (!row) throw absent();
  return toWire(row);
}

/** A new round of tries under the same id, begun now, even where the webhook is disabled. */
export async function redeliver(tx: Tx, caller: Caller, webhookId: string, id: string): Promise<Delivery> {
  await webhooks.find(tx, caller.tenantId, webhookId);
  const [row] = await tx.db
    .update(deliveries)
    .set({ state: "pending", dueAt: tx.now, tries: 0, byHand: true, endedAt: null })
    .where(mine(caller, webhookId, id))
    .returning();
  if (!row) throw absent();
  const event = await tx.db.select({ id: outbox.id }).from(outbox).where(eq(outbox.id, row.eventId)).get();
  if (!event) throw new Refusal("NOT_FOUND", "its event is too old: it was forgotten");
  await webhooks.touchLane(tx, webhookId);
  return toWire(row);
}

/** The catalogue's example of an event, on its way like a real one. */
export async function tryOut(tx: Tx, caller: Caller, webhookId: string, { type }: WebhookTest, requestId: string): Promise<Delivery> {
  const webhook = await webhooks.find(tx, caller.tenantId, webhookId);
  const [name = webhook.events[0] ?? "product.created"] = type === undefined ? [] : webhooks.known([type]);
  const message = { id: newIdIn(tx), tenantId: caller.tenantId, type: name };
  const envelope = {
    id: message.id,
    type: name,
    timestamp: instant(tx.now),
    apiVersion: EVENT_API_VERSION,
    data: eventTable[name].example,
  };
  await send(tx, { ...message, body: JSON.stringify(envelope), targets: null, requestId });
  const row = fresh(tx, { tenantId: caller.tenantId, webhookId, eventId: message.id, type: name }, true);
  await tx.db.insert(deliveries).values(row);
  if (!(await webhooks.touchLane(tx, webhookId))) throw noSuch("webhook"); // nobody would work on it, or remove it
  return toWire(row);
}

const keptSince = (tx: Tx): number => tx.now - limits.WEBHOOK_KEEP_MS;
const forgetThose = async (tx: Tx, which: SQL, isOver: SQL): Promise<number> =>
  (
    await tx.db
      .delete(deliveries)
      .where(sql`(webhook_id, id) IN (${which}) AND (${isOver}) IS TRUE`) // still so where it is sent again meanwhile
      .returning({ id: deliveries.id })
  ).length;

/** Forgets what ended long ago. */
export function forgetEnded(tx: Tx, most: number): Promise<number> {
  const isOver = sql`ended_at IS NOT NULL AND ended_at < ${keptSince(tx)}`;
  return forgetThose(tx, sql`SELECT webhook_id, id FROM deliveries WHERE ${isOver} ORDER BY ended_at LIMIT ${most}`, isOver);
}

/** Forgets what a disabled webhook wasn't sent, once its event is forgotten as well. */
export function forgetHeld(tx: Tx, most: number): Promise<number> {
  const isOver = sql`state = 'held' AND created_at < ${keptSince(tx)}`;
  return forgetThose(tx, sql`SELECT webhook_id, id FROM deliveries WHERE ${isOver} ORDER BY created_at LIMIT ${most}`, isOver);
}

/** Forgets events that nobody can ask for any more. */
export async function forgetEvents(tx: Tx, most: number): Promise<number> {
  const oldest = await tx.db.select({ id: outbox.id, at: outbox.at }).from(outbox).orderBy(asc(outbox.id)).limit(most);
  const old = oldest.filter(({ at }) => at < keptSince(tx)).map(({ id }) => id);
  if (old.length === 0) return 0;
  const areDone = and(inArray(outbox.id, old), isNull(outbox.targets));
  return (await tx.db.delete(outbox).where(areDone).returning({ id: outbox.id })).length;
}
