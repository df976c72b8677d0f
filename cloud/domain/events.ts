// Domain events: written in the unit of work that they tell of, numbered by their subject's version, so that order is a fact of the row.
import type { EventData, EventName } from "#shared/events.ts";
import { and, asc, desc, eq, getTableColumns, gt, isNotNull, lt, sql } from "../store/drizzle.ts";
import type { DomainEvent } from "#shared/wire/products.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { type Actor, events } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { newIdIn } from "./ids.ts";
import { instant } from "./instant.ts";
import { emit } from "./outbox.ts";
import { fitting, pageOf, type PageQuery, pageReply, SEQ } from "./page.ts";

/** Who did it, in answer to which request. */
export type By = { tenantId: string; actor: Actor; requestId: string };
export const byOf = ({ tenantId, credential: { kind, id, name } }: Caller, requestId: string): By => ({
  tenantId,
  actor: { kind, id, name },
  requestId,
});

export type Row = typeof events.$inferSelect;
type Entry<Name extends EventName> = Pick<Row, "subject" | "seq"> & { type: Name; data: EventData[Name]; snapshot?: Row["snapshot"] };

const insertEvent = prepared(db.insert(events).values(placesOf(events)));
/** Goes out as well, under the same id. */
export async function record<Name extends EventName>(tx: Tx, by: By, { snapshot = null, ...entry }: Entry<Name>): Promise<void> {
  const id = newIdIn(tx);
  await insertEvent.run({ ...by, ...entry, snapshot, id, at: tx.now } satisfies Row);
  await emit(tx, by, entry.type, entry.data, { id });
}

const toWire = ({ id, type, at, requestId, actor, data }: Omit<Row, "snapshot">): DomainEvent => ({
  id,
  type,
  timestamp: instant(at),
  correlationId: requestId,
  actor,
  data,
});

const { snapshot: _, ...told } = getTableColumns(events); // which is the whole product, and may be a megabyte
/** Oldest first: read on, and you have lived it. */
export async function list(tx: Tx, tenantId: string, subject: string, query: PageQuery) {
  const { limit, most, after } = pageOf(query, SEQ);
  const isIts = and(eq(events.subject, subject), eq(events.tenantId, tenantId), gt(events.seq, Number(after ?? 0)));
  const rows = await tx.db.select(told).from(events).where(isIts).orderBy(asc(events.seq)).limit(most);
  return pageReply(rows, limit, ({ seq }) => String(seq), toWire);
}

/** The events that left a snapshot, newest first. */
export async function snapshots(tx: Tx, tenantId: string, subject: string, query: PageQuery) {
  const { limit, after } = pageOf(query, SEQ);
  const before = after === undefined ? sql`1 = 1` : lt(events.seq, Number(after));
  const isIts = and(eq(events.subject, subject), eq(events.tenantId, tenantId), isNotNull(events.snapshot), before);
  const bytes = sql<number>`octet_length(${events.snapshot})`;
  const each = await tx.db.select({ bytes }).from(events).where(isIts).orderBy(desc(events.seq)).limit(limit);
  const size = fitting(each, limit);
  const most = size + 1;
  const rows = await tx.db.select().from(events).where(isIts).orderBy(desc(events.seq)).limit(most);
  return { rows, limit: size };
}
