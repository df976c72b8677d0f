// Tries of deliveries: what goes out of an event, and what came of it as a row.
import { and, eq, isNotNull, isNull, sql } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import type { Attempt, DisabledReason } from "#shared/wire/webhooks.ts";
import { isNo, type Outcome } from "../adapters/courier.ts";
import { prepared } from "../store/prepared.ts";
import { deliveries, outbox, webhooks as table } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";
import * as audit from "./audit.ts";
import type { Row as Delivery } from "./deliveries.ts";
import { instant } from "./instant.ts";
import * as webhooks from "./webhooks.ts";

/** What follows a failed try, the n-th after the n-th; then it is exhausted. */
export const SCHEDULE_MS = [5_000, 30_000, 120_000, 900_000, 3_600_000, 14_400_000, 43_200_000] as const;
const JITTER_SHARE = 0.1;

const { placeholder } = sql;

/** What goes out of an event, and where it came from. */
type Sent = Pick<typeof outbox.$inferSelect, "body" | "requestId" | "traceparent">;

export type Try = { delivery: Delivery; url: string; sealed: string[]; at: number } & Sent;

/** A delivery that is due; whole where it was read as such. */
export type Waiting = { id: string; whole?: Delivery };

const isDelivery = and(eq(deliveries.webhookId, placeholder("webhookId")), eq(deliveries.id, placeholder("id")));
const whole = prepared(db.select().from(deliveries).where(isDelivery));
const isEvent = eq(outbox.id, placeholder("eventId"));
const readBody = prepared(
  db.select({ body: outbox.body, requestId: outbox.requestId, traceparent: outbox.traceparent }).from(outbox).where(isEvent),
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

/** What is sent now of what waits; whose event is gone ends. */
export async function begun(tx: Tx, webhook: webhooks.Row, waiting: readonly Waiting[]): Promise<Try[]> {
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
const lost = (now: number): Attempt => attemptOf(now, { status: null, error: saying("event_forgotten"), latencyMs: 0, head: null }, null);

const attemptOf = (begunAt: number, { status, error, latencyMs, head }: Outcome, nextAt: number | null): Attempt => ({
  at: instant(begunAt),
  status,
  error,
  latencyMs,
  responseHead: head,
  nextTryAt: instant(nextAt),
});

/** When it is tried again after its n-th failure, a little sooner or later so that many don't come at once; null: never. */
function nextTryAt(now: number, failures: number): number | null {
  const delay = SCHEDULE_MS[failures - 1];
  return delay === undefined ? null : now + Math.round(delay * (1 + JITTER_SHARE * (2 * Math.random() - 1)));
}

const moveOn = prepared(
  db
    .update(deliveries)
    .set({
      state: sql`${placeholder("state")}`,
      dueAt: sql`${placeholder("dueAt")}`,
      tries: sql`${deliveries.tries} + 1`,
      attempts: sql`${placeholder("attempts")}`,
      endedAt: sql`${placeholder("endedAt")}`,
    })
    .where(
      and(
        eq(deliveries.webhookId, placeholder("webhookId")),
        eq(deliveries.id, placeholder("id")),
        eq(deliveries.tries, placeholder("tries")),
        eq(deliveries.dueAt, placeholder("begunDueAt")),
      ),
    ),
);
const withAttempt = ({ attempts }: Delivery, attempt: Attempt): Attempt[] =>
  [...attempts, attempt].slice(-limits.WEBHOOK_ATTEMPTS_SHOWN_MAX);

const isSame = (one: Attempt, other: Attempt): boolean =>
  (["at", "status", "error", "latencyMs"] as const).every((name) => one[name] === other[name]);

/** Where the delivery is no longer as it was when the try began (sent again by hand, tried by another node), the try is only noted. */
async function record(tx: Tx, delivery: Delivery, state: Delivery["state"], attempt: Attempt, dueAt: number | null = null): Promise<void> {
  const { webhookId, id, tries, dueAt: begunDueAt } = delivery;
  const attempts = JSON.stringify(withAttempt(delivery, attempt));
  const endedAt = dueAt === null ? tx.now : null;
  if ((await moveOn.run({ webhookId, id, tries, begunDueAt, state, dueAt, attempts, endedAt })) > 0) return;
  const now = await whole.get({ webhookId, id });
  if (!now) return; // deleted meanwhile
  if (now.attempts.some((one) => isSame(one, attempt))) return; // it was written down, and the answer to that was lost
  const noted = withAttempt(now, { ...attempt, nextTryAt: null });
  await tx.db
    .update(deliveries)
    .set({ attempts: noted })
    .where(and(eq(deliveries.webhookId, webhookId), eq(deliveries.id, id)));
}

const isWebhook = and(eq(table.tenantId, placeholder("tenantId")), eq(table.id, placeholder("webhookId")));
const isFailing = and(isWebhook, isNotNull(table.failingSince));
const nowWell = prepared(db.update(table).set({ failingSince: null }).where(isFailing));
const nowFailing = prepared(
  db
    .update(table)
    .set({ failingSince: sql`${placeholder("now")}` })
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
  const ends = isNo(status);
  const nextAt = ends ? null : nextTryAt(tx.now, delivery.tries + 1);
  const state = nextAt !== null ? "pending" : ends ? "failed" : "exhausted";
  await record(tx, delivery, state, attemptOf(begunAt, outcome, nextAt), nextAt);
  await nowFailing.run({ tenantId, webhookId, now: tx.now });
  const since = (await webhooks.peek(tenantId, webhookId))?.failingSince ?? tx.now;
  if (status === 410) await shut(tx, delivery, "gone");
  else if (isPast(tx, since) && (nextAt === null || isLate(tx, delivery))) await shut(tx, delivery, "failing");
}

const isPast = (tx: Tx, at: number): boolean => tx.now - at >= limits.WEBHOOK_FAILING_MAX_MS;
/**
 * Of what happens rarely the failure before this one may be weeks old: one that is to be tried again shows nothing yet. But where a receiver hangs and much
 * happens, first tries are ever later, and no delivery comes to the end of its own.
 */
const isLate = (tx: Tx, { tries, byHand, createdAt }: Delivery): boolean => tries === 0 && !byHand && isPast(tx, createdAt);

/** Nobody asked for it, so the audit log says it. */
async function shut(tx: Tx, { tenantId, webhookId, id, attempts }: Delivery, reason: DisabledReason): Promise<void> {
  const webhook = await webhooks.disable(tx, tenantId, webhookId, reason);
  if (!webhook) return;
  const details = { reason, url: webhook.url, deliveryId: id, failingSince: instant(webhook.failingSince), tries: attempts.length + 1 };
  audit.append(tx, audit.ourselves(tenantId, "dispatcher"), { action: "webhook.disabled", subject: webhookId, details, requestId: id });
}
