// The outbox: an event is a row in the unit that it tells of. Who listens is noted then; the dispatcher makes deliveries of it afterwards.
import { and, eq, sql } from "../store/drizzle.ts";
import { envelopeOf, EVENT_API_VERSION, type EventData, type EventName, eventNames } from "#shared/events.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { outbox, subscriptions } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";
import { type Judge, judgeOf } from "../validate.ts";
import { newIdIn } from "./ids.ts";
import { instant } from "./instant.ts";

const isSubscribed = and(eq(subscriptions.tenantId, sql.placeholder("tenantId")), eq(subscriptions.type, sql.placeholder("type")));
const listening = prepared(db.select({ id: subscriptions.webhookId }).from(subscriptions).where(isSubscribed));
export const listenersOf = async (_tx: Tx, tenantId: string, type: EventName): Promise<string[]> =>
  (await listening.all({ tenantId, type })).map(({ id }) => id);
const insert = prepared(db.insert(outbox).values(placesOf(outbox)));
const judges = Object.fromEntries(eventNames.map((name) => [name, judgeOf(envelopeOf(name))])) as Record<EventName, Judge>;

const woken = new Set<() => void>();
/** Called after each commit that left something to send; the other way round to end it. */
export function onEmission(wake: () => void): () => void {
  woken.add(wake);
  return () => void woken.delete(wake);
}
/** Says, once the unit is durable, that there is something to do; who doesn't hear it finds it by looking. */
export const nudge = (tx: Tx): void => tx.after(() => woken.forEach((wake) => wake()));

/**
 * Tells every enabled webhook of the tenant that listens; says how many there are. Whatever the unit does comes true with it or not at all.
 * Data that doesn't fit its schema is a fault of ours and undoes the unit. Without a listener it is one look at an index.
 */
export async function emit<Name extends EventName>(
  tx: Tx,
  { tenantId, requestId = null }: { tenantId: string; requestId?: string | null },
  type: Name,
  data: EventData[Name],
  { id = newIdIn(tx), listeners }: { id?: string; listeners?: string[] } = {},
): Promise<number> {
  const envelope = { id, type, timestamp: instant(tx.now), apiVersion: EVENT_API_VERSION, data };
  const faults = judges[type](envelope);
  if (faults.length > 0)
    throw new Error(`${type} can't be emitted: ${faults.map(({ field, message }) => `${field} ${message}`).join("; ")}`);
  const targets = listeners ?? (await listenersOf(tx, tenantId, type));
  if (targets.length === 0) return 0;
  await send(tx, { id, tenantId, type, body: JSON.stringify(envelope), targets, requestId });
  return targets.length;
}

export async function send(tx: Tx, message: Omit<typeof outbox.$inferSelect, "at" | "traceparent">): Promise<void> {
  await insert.run({ ...message, at: tx.now, traceparent: tx.traceparent });
  nudge(tx);
}
