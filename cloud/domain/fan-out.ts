// The outbox's first step: events become deliveries, one for each webhook that wanted them when they happened.
import { eq } from "../store/drizzle.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { deliveries, outbox } from "../store/schema.ts";
import { db, eachBeside, run, SKIP_LOCKED, type Tx } from "../store/store.ts";
import { fresh, type Row as Delivery } from "./deliveries.ts";
import { markLane } from "./webhooks.ts";

const insertDelivery = prepared(db.insert(deliveries).values(placesOf(deliveries)));
const TENANTS_READ = 16;
const MESSAGES_READ = 16; // each may have a thousand targets
type Message = Pick<typeof outbox.$inferSelect, "id" | "tenantId" | "type"> & { targets: string[] };

// By nothing but `outbox_by_tenant`: in the words of its condition, and in its order, as a range of one tenant. Of `targets IS NOT NULL`, or of what a server
// takes for a tenant with many events that wait, it would go through everybody's by their id: a backlog of a hundred thousand several times a turn.
const WAITS = "COALESCE(targets, '') <> ''";
const NEXT_TENANT = `SELECT o.tenant_id FROM outbox o WHERE ${WAITS} AND o.tenant_id >`;
const TENANTS = `WITH RECURSIVE waiting (tenant_id, nth) AS (
  SELECT (${NEXT_TENANT} (? || '') ORDER BY o.tenant_id LIMIT 1), 1
  UNION ALL
  SELECT (${NEXT_TENANT} waiting.tenant_id ORDER BY o.tenant_id LIMIT 1), nth + 1 FROM waiting WHERE tenant_id IS NOT NULL AND nth < ${TENANTS_READ}
) SELECT tenant_id FROM waiting WHERE tenant_id IS NOT NULL`;
const tenantsBehind = async (last: string) => (await run(TENANTS, [last], "all")).rows.map((row) => (row as [string])[0]);

/** Tenants with events that wait, from the one with whom the turn before ended: each has its turn, however much another has waiting. */
async function tenantsInTurn(last: string): Promise<string[]> {
  const behind = await tenantsBehind(last);
  if (last === "" || behind.length === TENANTS_READ) return behind;
  return [...behind, ...(await tenantsBehind("")).filter((tenantId) => tenantId <= last)].slice(0, TENANTS_READ);
}

const WAITING = `outbox WHERE tenant_id BETWEEN (? || '') AND (? || '') AND ${WAITS} ORDER BY tenant_id, id LIMIT ?`;
/** A tenant's first ones. None after one that another node is at: told now, it would be heard of before that one. */
async function firstMessages(tenantId: string, most: number): Promise<Message[]> {
  const held = await run(`SELECT id, type, targets FROM ${WAITING} ${SKIP_LOCKED}`, [tenantId, tenantId, most], "all");
  // Looked for once ours are held: whatever was there before them is then either still there or made deliveries of.
  const there = await run(`SELECT id FROM ${WAITING}`, [tenantId, tenantId, most], "all");
  const messages = held.rows.map((row) => {
    const [id, type, targets] = row as [string, Message["type"], string];
    return { id, tenantId, type, targets: JSON.parse(targets) as string[] };
  });
  const overtakes = messages.findIndex(({ id }, nth) => id !== (there.rows[nth] as [string] | undefined)?.[0]);
  return overtakes < 0 ? messages : messages.slice(0, overtakes);
}

/**
 * Makes about `most` deliveries of events that have none yet: of some tenants, a like share for each, oldest event first. Says whether
 * more of them wait, and with whom the turn ended.
 */
export async function fanOut(tx: Tx, most: number, lastTenant = ""): Promise<{ more: boolean; lastTenant: string }> {
  const tenants = await tenantsInTurn(lastTenant);
  const each = Math.max(2, Math.ceil(MESSAGES_READ / tenants.length));
  const waiting = await eachBeside(tenants, (tenantId) => firstMessages(tenantId, each));
  if (tenants.length > 0) await tx.askMoment(); // their deliveries have ids that sort behind those that another node made of the events before
  const made: Delivery[] = [];
  let more = tenants.length === TENANTS_READ;
  for (const [nth, messages] of waiting.entries()) {
    let share = Math.ceil((most - made.length) / (tenants.length - nth));
    more ||= messages.length === each;
    for (const { id, tenantId, type, targets } of messages) {
      if (share <= 0) {
        more = true;
        break;
      }
      const [taken, rest] = [targets.slice(0, share), targets.slice(share)];
      more ||= rest.length > 0;
      share -= taken.length;
      await tx.db
        .update(outbox)
        .set({ targets: rest.length > 0 ? rest : null })
        .where(eq(outbox.id, id));
      for (const webhookId of taken) made.push(fresh(tx, { tenantId, webhookId, eventId: id, type }));
    }
  }
  // In one order on every node, so that two never wait for each other. A webhook without a lane was deleted meanwhile.
  const named = [...new Set(made.map(({ webhookId }) => webhookId))].toSorted();
  const living = new Set((await Promise.all(named.map((webhookId) => markLane.get({ webhookId })))).map((row) => row?.webhookId));
  await Promise.all(made.filter(({ webhookId }) => living.has(webhookId)).map((row) => insertDelivery.run(row)));
  return { more, lastTenant: tenants.length === TENANTS_READ ? (tenants.at(-1) ?? "") : "" };
}
