// Webhooks: a tenant's endpoints, what they listen to and the secret that they know us by.
import { and, count, eq, sql } from "../store/drizzle.ts";
import { type EventName, eventNames, isEventName } from "#shared/events.ts";
import { invalid, Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import type { DisabledReason, Webhook, WebhookCreate, WebhookMinted, WebhookPatch } from "#shared/wire/webhooks.ts";
import { urlFault } from "../adapters/address.ts";
import { mintWebhookSecret } from "../adapters/signature.ts";
import type { Seal } from "../seal.ts";
import { prepared } from "../store/prepared.ts";
import { lanes, subscriptions, webhooks } from "../store/schema.ts";
import { db, overtaken, type Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { found } from "./found.ts";
import { newIdIn } from "./ids.ts";
import { instant } from "./instant.ts";
import { nudge } from "./outbox.ts";
import { newestOf, type PageQuery } from "./page.ts";
import * as tenants from "./tenants.ts";

export type Row = typeof webhooks.$inferSelect;
/** What the rules of this node are: what opens secrets, and whether private addresses may be told. */
export type Rules = { seal: Seal; allowPrivate: boolean };

const toWire = (row: Row, now: number): Webhook => ({
  id: row.id,
  url: row.url,
  description: row.description,
  events: row.events,
  enabled: row.enabled,
  disabledAt: instant(row.disabledAt),
  disabledReason: row.disabledReason,
  failingSince: instant(row.failingSince),
  previousSecretUntil: instant(row.previousUntil !== null && row.previousUntil > now ? row.previousUntil : null),
  createdAt: instant(row.createdAt),
  updatedAt: instant(row.updatedAt),
});

/** Refuses names that no event has: only what is in the catalogue is ever delivered. */
export function known(names: readonly string[]): EventName[] {
  const unknown = names.filter((name) => !isEventName(name));
  if (unknown.length > 0)
    throw new Refusal("UNKNOWN_EVENT_TYPE", `there is no event ${unknown.join(", ")}; there are ${eventNames.join(", ")}`, {
      unknown,
      known: eventNames,
    });
  return names.filter(isEventName);
}

function refuseUrl(url: string, { allowPrivate }: Rules): void {
  const fault = urlFault(url, allowPrivate);
  if (fault) throw invalid([{ field: "url", rule: "url", message: fault }]);
}

const isMine = and(eq(webhooks.tenantId, sql.placeholder("tenantId")), eq(webhooks.id, sql.placeholder("id")));
const byId = prepared(db.select().from(webhooks).where(isMine));
export const peek = (tenantId: string, id: string): Promise<Row | undefined> => byId.get({ tenantId, id });

export const find = async (_tx: Tx, tenantId: string, id: string): Promise<Row> => found("webhook", await peek(tenantId, id));
export const get = async (tx: Tx, caller: Caller, id: string): Promise<Webhook> => toWire(await find(tx, caller.tenantId, id), tx.now);

async function listen(tx: Tx, { tenantId, id }: Row, types: readonly EventName[]): Promise<void> {
  await tx.db.delete(subscriptions).where(and(eq(subscriptions.tenantId, tenantId), eq(subscriptions.webhookId, id)));
  if (types.length > 0) await tx.db.insert(subscriptions).values(types.map((type) => ({ tenantId, type, webhookId: id })));
}

/** Its lane is due now; undefined where it was deleted meanwhile, with its lane. */
export const markLane = prepared(
  db
    .update(lanes)
    .set({ dueAt: 0, revision: sql`${lanes.revision} + 1` })
    .where(eq(lanes.webhookId, sql.placeholder("webhookId")))
    .returning({ webhookId: lanes.webhookId }),
);
/** Something of this webhook can go out now; false where there is no lane for it any more. */
export async function touchLane(tx: Tx, webhookId: string): Promise<boolean> {
  const marked = await markLane.get({ webhookId });
  nudge(tx);
  return marked !== undefined;
}

export async function create(tx: Tx, caller: Caller, input: WebhookCreate, rules: Rules): Promise<WebhookMinted> {
  const { tenantId } = caller;
  const events = known(input.events);
  refuseUrl(input.url, rules);
  await tenants.hold(tx, tenantId);
  const [held] = await tx.db.select({ webhooks: count() }).from(webhooks).where(eq(webhooks.tenantId, tenantId));
  if ((held?.webhooks ?? 0) >= limits.WEBHOOKS_MAX_ITEMS)
    throw new Refusal("WEBHOOKS_EXHAUSTED", `the tenant has ${limits.WEBHOOKS_MAX_ITEMS} webhooks: delete one first`);
  const secret = mintWebhookSecret();
  const row: Row = {
    tenantId,
    id: newIdIn(tx),
    url: input.url,
    description: input.description ?? null,
    events,
    enabled: true,
    disabledAt: null,
    disabledReason: null,
    failingSince: null,
    secret: rules.seal.close(secret),
    previousSecret: null,
    previousUntil: null,
    revision: 1,
    createdAt: tx.now,
    updatedAt: tx.now,
  };
  await tx.db.insert(webhooks).values(row);
  await tx.db.insert(lanes).values({ webhookId: row.id, tenantId, dueAt: null, owner: null, leaseUntil: 0, revision: 1 });
  await listen(tx, row, events);
  return { ...toWire(row, tx.now), secret };
}

/** Writes the changes if nobody was faster. */
async function change(tx: Tx, row: Row, changes: Partial<Row>): Promise<Row> {
  const [changed] = await tx.db
    .update(webhooks)
    .set({ ...changes, revision: row.revision + 1, updatedAt: tx.now })
    .where(and(eq(webhooks.tenantId, row.tenantId), eq(webhooks.id, row.id), eq(webhooks.revision, row.revision)))
    .returning();
  if (!changed) throw overtaken(`webhook ${row.id}`);
  return changed;
}

const disabled = (reason: DisabledReason, at: number): Partial<Row> => ({ enabled: false, disabledAt: at, disabledReason: reason });
const ENABLED: Partial<Row> = { enabled: true, disabledAt: null, disabledReason: null, failingSince: null };

export async function patch(tx: Tx, caller: Caller, id: string, changes: WebhookPatch, rules: Rules): Promise<Webhook> {
  const row = await find(tx, caller.tenantId, id);
  const { enabled = row.enabled, events, ...plain } = changes;
  if (plain.url !== undefined) refuseUrl(plain.url, rules);
  const after = await change(tx, row, {
    ...plain,
    ...(plain.url === undefined || plain.url === row.url ? {} : { failingSince: null }),
    ...(events === undefined ? {} : { events: known(events) }),
    ...(enabled === row.enabled ? {} : enabled ? ENABLED : disabled("by_hand", tx.now)),
  });
  await listen(tx, after, after.enabled ? after.events : []);
  if (after.enabled !== row.enabled) await touchLane(tx, id); // what waits is held, or what was held goes out
  return toWire(after, tx.now);
}

/** The dispatcher's own doing: nothing more is made for it, and what waits is held. */
export async function disable(tx: Tx, tenantId: string, id: string, reason: DisabledReason): Promise<Row | undefined> {
  const row = await peek(tenantId, id);
  if (!row?.enabled) return undefined;
  const after = await change(tx, row, disabled(reason, tx.now));
  await listen(tx, after, []);
  await touchLane(tx, id); // its lane may rest until the next try of another delivery is due
  return after;
}

/** Its deliveries follow, a slice at a time, by the hand of whoever works on its lane. */
export async function remove(tx: Tx, caller: Caller, id: string): Promise<Row> {
  const isIt = and(eq(webhooks.tenantId, caller.tenantId), eq(webhooks.id, id));
  const [gone] = await tx.db.delete(webhooks).where(isIt).returning();
  const row = found("webhook", gone);
  await listen(tx, row, []); // after the row is gone: who changes what it listens to has done so, or finds it gone
  await touchLane(tx, id);
  return row;
}

/** The old secret signs beside the new one for a day; one that was still signing from a rotation before ends now. */
export async function rotate(tx: Tx, caller: Caller, id: string, { seal }: Rules): Promise<WebhookMinted> {
  const row = await find(tx, caller.tenantId, id);
  const secret = mintWebhookSecret();
  const after = await change(tx, row, {
    secret: seal.close(secret),
    previousSecret: row.secret,
    previousUntil: tx.now + limits.WEBHOOK_SECRET_OVERLAP_MS,
  });
  return { ...toWire(after, tx.now), secret };
}

/** As they are sealed, the newest first. */
export const secretsAt = ({ secret, previousSecret, previousUntil }: Row, now: number): string[] =>
  previousSecret !== null && previousUntil !== null && now < previousUntil ? [secret, previousSecret] : [secret];

export const list = (tx: Tx, caller: Caller, query: PageQuery) =>
  newestOf(tx, query, { table: webhooks, where: eq(webhooks.tenantId, caller.tenantId), toWire: (row) => toWire(row, tx.now) });
