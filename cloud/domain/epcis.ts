// EPCIS events on their way into the store: captured in jobs or one by one, each once, and those that the print loop writes by itself.
import { setImmediate as turn } from "node:timers/promises";
import type { SQL } from "drizzle-orm";
import { and, desc, eq, lt, sql } from "../store/drizzle.ts";
import { bareWord } from "#shared/cbv.ts";
import { digestOf } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import type { CaptureJob, EventKept } from "#shared/wire/epcis.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { epcisCaptures, epcisContexts, epcisEvents, epcisTerms } from "../store/schema.ts";
import { db, inTurn, together, type Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import * as carriers from "./carriers.ts";
import { itemOf, keyOf } from "./epc.ts";
import { type Prepared, problemOf, type Ready } from "./epcis-document.ts";
import { pageSize } from "./epcis-parameters.ts";
import { absent, CONTEXT, once } from "./epcis-query.ts";
import { contentOf, type Json, textsIn } from "./epcis-rules.ts";
import { declaredAs, isDeclared } from "./epcis-terms.ts";
import type { By } from "./events.ts";
import { newIdIn } from "./ids.ts";
import { instant } from "./instant.ts";
import { emit } from "./outbox.ts";
import { fitting, pageOf, pageReply, UUID } from "./page.ts";
import * as products from "./products.ts";

type Row = typeof epcisEvents.$inferSelect;

const insertNew = prepared(db.insert(epcisEvents).values(placesOf(epcisEvents)));
// Counted, not RETURNING: in SQLite that is a trigger, whose journal is walked anew for every row of a large unit.
const insertEvent = prepared(db.insert(epcisEvents).values(placesOf(epcisEvents)).onConflictDoNothing());
const mine = and(eq(epcisEvents.tenantId, sql.placeholder("tenantId")), eq(epcisEvents.eventId, sql.placeholder("eventId")));
const remove = prepared(db.delete(epcisEvents).where(mine));
const keptRow = prepared(
  db.select({ body: epcisEvents.body, recordTime: epcisEvents.recordTime, contextId: epcisEvents.contextId }).from(epcisEvents).where(mine),
);
const isThere = prepared(db.select({ eventId: epcisEvents.eventId }).from(epcisEvents).where(mine));
const isContext = and(eq(epcisContexts.tenantId, sql.placeholder("tenantId")), eq(epcisContexts.id, sql.placeholder("id")));
const keptContext = prepared(db.select({ context: epcisContexts.context }).from(epcisContexts).where(isContext));
const insertTerm = prepared(db.insert(epcisTerms).values(placesOf(epcisTerms)));
const insertContext = prepared(db.insert(epcisContexts).values(placesOf(epcisContexts)).onConflictDoNothing());

/** Null for what no event is found by: one of a type of one's own may have anything there, more than PostgreSQL's index has room for. */
const text = (value: unknown): string | null =>
  typeof value === "string" && Buffer.byteLength(value) <= limits.EPCIS_KEY_MAX_LENGTH ? value : null;
const word = (value: unknown): string | null => (typeof value === "string" ? text(bareWord(value)) : null);
const idOf = (value: unknown): string | null => text((value as Json | undefined | null)?.["id"]);

const rowOf = (tx: Tx, tenantId: string, event: Json, eventId: string, contextId: string | null): Row => ({
  tenantId,
  eventId,
  type: String(event["type"]),
  action: text(event["action"]),
  bizStep: word(event["bizStep"]),
  disposition: word(event["disposition"]),
  readPoint: idOf(event["readPoint"]),
  bizLocation: idOf(event["bizLocation"]),
  eventTime: Date.parse(String(event["eventTime"])),
  recordTime: tx.now,
  contextId,
  body: event,
});

type Sighting = { gtin: string; serial: string; at: string; eventId: string };
/** Inspecting a label is verifying it: each of this tenant's serials in sight is a scan. Saying that it was an error isn't. */
function sightingsIn({ event, eventId }: Ready): Sighting[] {
  if (isDeclared(event)) return [];
  if (event["type"] !== "ObjectEvent" || event["action"] !== "OBSERVE" || word(event["bizStep"]) !== "inspecting") return [];
  const at = new Date(String(event["eventTime"])).toISOString();
  const named = textsIn(event["epcList"]).flatMap((epc) => itemOf(epc) ?? []);
  const items = [...new Map(named.map((item) => [`${item.gtin}/${item.serial}`, item])).values()]; // a link and a URN may name the same one
  return items.map(({ gtin, serial }) => ({ gtin, serial, at, eventId }));
}
async function verifyLabels(tx: Tx, by: By, events: readonly Ready[]): Promise<void> {
  for (const some of slicesOf(events.flatMap(sightingsIn), SLICE_TERMS))
    await Promise.all(
      some.map(async ({ gtin, serial, at, eventId }) => {
        const label = await carriers.find(tx, by.tenantId, serial);
        const productId = label?.gtin === gtin ? label.productId : (await products.ofSerial(tx, by.tenantId, gtin, serial))?.id;
        if (productId) await emit(tx, by, "scan.recorded", { gtin, serial, productId, at, source: "epcis", eventId });
      }),
    );
}

const SLICE_EVENTS = 100;
const SLICE_TERMS = 500;
const SLICE_JUDGED = 10; // each is compared with what is kept, which may have megabytes
const EXISTS = "epcisException:ResourceAlreadyExistsException";

/** Stores what isn't there yet. Statements of a slice don't wait for one another, and others get a turn between slices. */
async function store(tx: Tx, by: By, { events, context }: Prepared): Promise<{ stored: number; clashes: Ready[] }> {
  const { tenantId } = by;
  const contextId = context && digestOf(context);
  if (contextId) await insertContext.run({ tenantId, id: contextId, context });
  const fresh = await takeKeys(tx, tenantId, events, contextId);
  const clashing = await takeOutClashing(tenantId, events, fresh, context ?? []);
  for (const slice of slicesOf(events.filter((event) => fresh.has(event)))) {
    await keepTerms(tenantId, slice);
    await verifyLabels(tx, by, slice);
  }
  return { stored: fresh.size, clashes: events.filter((event) => clashing.has(event)) };
}

/** Stores each under its key. Answers those whose keys were free. */
async function takeKeys(tx: Tx, tenantId: string, events: readonly Ready[], contextId: string | null): Promise<Set<Ready>> {
  const fresh = new Set<Ready>();
  const places = placesOfDeclared(events);
  for (const slice of slicesOf(inTurn([...events, ...places], ({ key }) => key))) {
    const rows = await Promise.all(slice.map(({ event, key }) => insertEvent.run(rowOf(tx, tenantId, event, key, contextId))));
    const taken = slice.filter((_, n) => rows[n]);
    for (const one of taken) if (!places.has(one)) fresh.add(one);
    const toGiveBack = taken.filter((one) => places.has(one));
    await Promise.all(toGiveBack.map(({ key }) => remove.run({ tenantId, eventId: key })));
    await turn();
  }
  return fresh;
}

/** Those that say otherwise than what is kept of their ids; what of them was stored just now is taken out again, of `fresh` too. */
async function takeOutClashing(tenantId: string, events: readonly Ready[], fresh: Set<Ready>, around: unknown[]): Promise<Set<Ready>> {
  const clashing = new Set<Ready>();
  async function judge(event: Ready): Promise<void> {
    if (await (fresh.has(event) ? mirrors : isSame)(tenantId, event, around)) return;
    clashing.add(event);
    if (fresh.delete(event)) await remove.run({ tenantId, eventId: event.key });
  }
  // What was taken may be taken out again: if another of this capture has its key, that one is looked at behind it. All else is looked at together.
  const awaited = await declaredBefore(tenantId, fresh);
  const toJudge = Map.groupBy(
    events.filter((event) => !fresh.has(event) || isDeclared(event.event) || awaited.has(event.key)),
    ({ key }) => key,
  );
  for (const some of slicesOf([...toJudge.values()], SLICE_JUDGED)) {
    await Promise.all(
      some.map(async (ofOneKey) => {
        for (const event of ofOneKey) await judge(event);
      }),
    );
    await turn();
  }
  return clashing;
}

async function keepTerms(tenantId: string, events: readonly Ready[]): Promise<void> {
  const terms = events.flatMap(({ terms: its, key }) => its.map(([kind, value]) => ({ tenantId, kind, value, eventId: key })));
  for (const some of slicesOf(terms, SLICE_TERMS)) {
    await Promise.all(some.map((term) => insertTerm.run(term)));
    await turn();
  }
}

/**
 * The places of events that are declared errors here and aren't among these, each once. Taken and given back at once: so who declares an error waits for
 * who is at its event at the same moment, and the other way round. Else neither would see that the two differ.
 */
function placesOfDeclared(events: readonly Ready[]): Set<Ready> {
  const keys = new Set(events.map(({ key }) => key));
  const alone = events.filter(({ event, eventId }) => isDeclared(event) && !keys.has(eventId));
  return new Set(new Map(alone.map((one) => [one.eventId, { ...one, key: one.eventId }])).values());
}

const slicesOf = <T>(all: readonly T[], size = SLICE_EVENTS): T[][] =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, n) => all.slice(n * size, (n + 1) * size));

/** An event as it is kept, with what its document declared around it. */
async function kept(tenantId: string, eventId: string) {
  const row = await keptRow.get({ tenantId, eventId });
  const around = row?.contextId ? await keptContext.get({ tenantId, id: row.contextId }) : undefined;
  return row && { ...row, around: around?.context ?? [] };
}

async function isSame(tenantId: string, { key, event }: Ready, around: unknown[]): Promise<boolean> {
  const known = await kept(tenantId, key);
  return known !== undefined && contentOf(known.body, known.around) === contentOf(event, around);
}

/** An event that is declared an error is repeated as it was; the other of the two may come later, or to another repository. */
async function mirrors(tenantId: string, { eventId, event }: Ready, around: unknown[]): Promise<boolean> {
  const other = await kept(tenantId, isDeclared(event) ? eventId : declaredAs(eventId));
  return other === undefined || contentOf(undeclared(other.body), other.around) === contentOf(undeclared(event), around);
}
const undeclared = ({ errorDeclaration: _, ...event }: Json): Json => event;

const isError = and(eq(epcisTerms.tenantId, sql.placeholder("tenantId")), eq(epcisTerms.kind, "error"));
const anyDeclared = prepared(db.select({ eventId: epcisTerms.eventId }).from(epcisTerms).where(isError).limit(1));
/** The keys of those that were declared errors before they came, which one of the same capture doesn't say; most tenants have none to look for. */
async function declaredBefore(tenantId: string, fresh: ReadonlySet<Ready>): Promise<Set<string>> {
  const before = new Set<string>();
  if (fresh.size === 0 || !(await anyDeclared.get({ tenantId }))) return before;
  const beside = new Set([...fresh].map(({ key }) => key));
  for (const slice of slicesOf([...fresh].filter(({ event }) => !isDeclared(event)))) {
    const keys = slice.flatMap(({ key }) => (beside.has(declaredAs(key)) ? [] : key));
    const found = await together(keys.map((key) => isThere.get({ tenantId, eventId: declaredAs(key) })));
    for (const [n, key] of keys.entries()) if (found[n]) before.add(key);
    await turn();
  }
  return before;
}

const clash = ({ eventId }: Ready): string => `the eventID ${eventId} was captured before with other content`;

/** One job, whole in this unit: when it is answered it is finished, and a crash before that leaves nothing of it. */
export async function capture(tx: Tx, by: By, given: Prepared): Promise<{ job: CaptureJob; stored: number; failed: number }> {
  const { behaviour, problems, unfit } = given;
  let [stored, failed, errors] = [0, unfit, problems];
  try {
    await tx.attempt(async () => {
      const done = await store(tx, by, given);
      stored = done.stored;
      failed += done.clashes.length;
      errors = [...errors, ...done.clashes.map((event) => problemOf(clash(event), EXISTS, "Another event has this eventID", 409))];
      if (behaviour === "rollback" && done.clashes.length > 0) throw ROLLED_BACK;
    });
  } catch (error) {
    if (error !== ROLLED_BACK) throw error;
    stored = 0;
  }
  const row = {
    tenantId: by.tenantId,
    id: newIdIn(tx),
    behaviour,
    success: errors.length === 0,
    errors: errors.slice(0, limits.EPCIS_ERRORS_MAX_ITEMS),
    createdAt: tx.now,
  };
  await tx.db.insert(epcisCaptures).values(row);
  return { job: toWire(row), stored, failed };
}
const ROLLED_BACK = new Error("a capture job was rolled back");

/** One event, at once; it is answered as it is kept, so that who sent it without an id or before knows what and since when. */
export async function captureOne(tx: Tx, by: By, given: Prepared): Promise<{ event: EventKept; stored: number }> {
  const { stored, clashes } = await store(tx, by, given);
  const [other] = clashes;
  if (other) throw new Refusal("EVENT_EXISTS", clash(other), { epcisType: EXISTS, eventID: other.eventId });
  const found = await kept(by.tenantId, given.events[0]?.key ?? "");
  if (!found) throw new Error("an event that was captured isn't there");
  const { "@context": own = CONTEXT, ...said } = found.body;
  const declared = once([...[own].flat(), ...found.around]);
  return { event: { "@context": declared, ...said, recordTime: instant(found.recordTime) } as EventKept, stored };
}

const toWire = ({ id, behaviour, success, errors, createdAt }: typeof epcisCaptures.$inferSelect): CaptureJob => ({
  captureID: id,
  createdAt: instant(createdAt),
  finishedAt: instant(createdAt),
  running: false,
  success,
  captureErrorBehaviour: behaviour,
  errors,
});

export async function job(tx: Tx, caller: Caller, id: string): Promise<CaptureJob> {
  const isIt = and(eq(epcisCaptures.tenantId, caller.tenantId), eq(epcisCaptures.id, id));
  const row = await tx.db.select().from(epcisCaptures).where(isIt).get();
  if (!row) throw absent("there is no such capture job in this tenant");
  return toWire(row);
}

export async function jobs(tx: Tx, caller: Caller, query: { perPage?: number; nextPageToken?: string }) {
  const cursor = query.nextPageToken;
  const perPage = pageSize(query.perPage);
  const { after } = pageOf(cursor === undefined ? {} : { cursor }, UUID, "nextPageToken");
  const where = and(eq(epcisCaptures.tenantId, caller.tenantId), after === undefined ? undefined : lt(epcisCaptures.id, after));
  const size = await jobsInPage(tx, where, perPage);
  const most = size + 1;
  const rows = await tx.db.select().from(epcisCaptures).where(where).orderBy(desc(epcisCaptures.id)).limit(most);
  return pageReply(rows, size, ({ id }) => id, toWire);
}

/** As with events: a thousand jobs, each with a thousand errors, are more than one answer can hold. */
async function jobsInPage(tx: Tx, where: SQL | undefined, perPage: number): Promise<number> {
  const bytes = sql<number>`octet_length(${epcisCaptures.errors})`;
  const each = await tx.db.select({ bytes }).from(epcisCaptures).where(where).orderBy(desc(epcisCaptures.id)).limit(perPage);
  return fitting(each, perPage, limits.EPCIS_PAGE_MAX_BYTES);
}

/** A label of ours, and what became of it. */
export type Label = { digitalLink: string; at: number; deviceId?: string; readPoint?: string; bizLocation?: string };

/** Two prepared inserts: the print loop seals thousands of labels a second. */
async function tell(
  tx: Tx,
  tenantId: string,
  label: Label,
  what: { action: string; bizStep: string; disposition: string },
): Promise<string> {
  const { digitalLink, at, deviceId, bizLocation } = label;
  const eventId = `urn:uuid:${newIdIn(tx)}`;
  const readPoint = label.readPoint ?? (deviceId && `urn:uuid:${deviceId}`);
  const event: Json = {
    type: "ObjectEvent",
    eventID: eventId,
    eventTime: instant(at),
    eventTimeZoneOffset: "+00:00",
    ...what,
    epcList: [digitalLink],
    ...(readPoint ? { readPoint: { id: readPoint } } : {}),
    ...(bizLocation ? { bizLocation: { id: bizLocation } } : {}),
  };
  await together([
    insertNew.run(rowOf(tx, tenantId, event, eventId, null)),
    insertTerm.run({ tenantId, kind: "epc", value: keyOf(digitalLink), eventId }),
  ]);
  return eventId;
}

/** A label was sealed: its thing begins to exist as one that can be told apart. Answers the event's id. */
export const commissioned = (tx: Tx, tenantId: string, label: Label): Promise<string> =>
  tell(tx, tenantId, label, { action: "ADD", bizStep: "commissioning", disposition: "active" });

/** A printed serial was voided: its label is good no more. */
export const decommissioned = (tx: Tx, tenantId: string, label: Label): Promise<string> =>
  tell(tx, tenantId, label, { action: "DELETE", bizStep: "decommissioning", disposition: "inactive" });
