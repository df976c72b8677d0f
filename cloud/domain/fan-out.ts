// The outbox's first step: events become deliveries, one for each webhook that wanted them when they happened.
import { eq, sql } from "../store/drizzle.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { deliveries, outbox } from "../store/schema.ts";
import { db, SKIP_LOCKED, type Tx } from "../store/store.ts";
import { fresh, type Row as Delivery } from "./deliveries.ts";
import { markLane } from "./webhooks.ts";

const insertDelivery = prepared(db.insert(deliveries).values(placesOf(deliveries)));
const MESSAGES_READ = 16; // each may have a thousand targets
type Message = Pick<typeof outbox.$inferSelect, "id" | "tenantId" | "type"> & { targets: string[] };

async function waitingMessages(tx: Tx): Promise<Message[]> {
  const rows = await tx.db.values<[string, string, Message["type"], string]>(
    sql`SELECT id, tenant_id, type, targets FROM outbox WHERE targets IS NOT NULL ORDER BY id LIMIT ${MESSAGES_READ} ${sql.raw(SKIP_LOCKED)}`,
  );
  return rows.map(([id, tenantId, type, targets]) => ({ id, tenantId, type, targets: JSON.parse(targets) as string[] }));
}

/** Without those whose tenant has an earlier event that another node is at: told now, it would be heard of before that one. */
async function inTurn(tx: Tx, messages: readonly Message[]): Promise<readonly Message[]> {
  const last = messages.at(-1);
  if (!last) return messages;
  const mine = new Set(messages.map(({ id }) => id));
  // Looked for once ours are held: whatever was there before them is then either still there or made deliveries of.
  const before = await tx.db.values<[string, string]>(
    sql`SELECT id, tenant_id FROM outbox WHERE targets IS NOT NULL AND id < ${last.id} ORDER BY id`,
  );
  await tx.askMoment(); // their deliveries have ids that sort behind those that another node made of the events before
  const earlier = before.filter(([id]) => !mine.has(id));
  return messages.filter(({ id, tenantId }) => !earlier.some(([other, itsTenant]) => itsTenant === tenantId && other < id));
}

/** Makes about `most` deliveries of events that have none yet, oldest event first; says whether there may be more. */
export async function fanOut(tx: Tx, most: number): Promise<boolean> {
  const made: Delivery[] = [];
  const messages = await inTurn(tx, await waitingMessages(tx));
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
