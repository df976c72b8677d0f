// Answers to SimpleEventQuery: pages of events by key, found from their order or from what they name, in the standard's document.
import { setImmediate as turn } from "node:timers/promises";
import type { SQL } from "drizzle-orm";
import { and, eq, sql } from "../store/drizzle.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { prepared } from "../store/prepared.ts";
import { epcisEvents, epcisTerms } from "../store/schema.ts";
import { db, type Store, together, type Tx } from "../store/store.ts";
import { column, type OnEvent, type Order, type Page, type Plan, planOf, type Query, type Term, tokenOf } from "./epcis-parameters.ts";
import type { Json } from "./epcis-rules.ts";
import { contextsOf, learn, type Names, sharedOf, spellingIn } from "./epcis-contexts.ts";
import { instant } from "./instant.ts";

export const CONTEXT = "https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld";
type Found = { eventId: string; eventTime: number; recordTime: number; contextId: string | null; body: Json; bytes: number };

const [kind, value] = [sql`kind`, sql`value`];
/** The same columns, which no index is entered by: what they say is tested on the terms of one event. */
const [testedKind, testedValue] = [sql`(kind || '')`, sql`(value || '')`];
/** Up to so many matches are sorted; more are met soon enough on the way through the events in their order. */
const FEW = 2_000;

/** The terms to begin from, if they are few: those of the narrowest condition. */
async function startOf(tx: Tx, tenantId: string, { conditions }: Plan): Promise<Term | undefined> {
  const terms = conditions.filter((condition) => "term" in condition);
  const first = terms.find(({ wide }) => !wide) ?? terms[0];
  if (!first) return undefined;
  const some = await tx.db.values(
    sql`SELECT 1 FROM ${epcisTerms} WHERE tenant_id = ${tenantId} AND ${first.term(kind, value)} LIMIT ${FEW + 1}`,
  );
  return some.length > FEW ? undefined : first;
}

/** What events are ordered by, and the place of one among them. */
const placeIn = ({ by }: Order): SQL => sql`${column(by)}, ${column("eventId")}`;
const compared = (order: Order, sign: "<" | ">" | "<=" | ">=", { at, eventId }: Page): SQL =>
  sql`(${placeIn(order)}) ${sql.raw(sign)} (${at}, ${eventId})`;
const behind = (order: Order, place: Page): SQL => compared(order, order.descending ? "<" : ">", place);
const upTo = (order: Order, place: Page): SQL => compared(order, order.descending ? ">=" : "<=", place);
const inOrder = (order: Order): SQL => {
  const direction = sql.raw(order.descending ? "DESC" : "ASC");
  return sql`ORDER BY ${column(order.by)} ${direction}, ${column("eventId")} ${direction}`;
};

type Search = { tenantId: string; plan: Plan; start: Term | undefined };
const looksOf = ({ conditions }: Plan) => conditions.flatMap((condition) => ("look" in condition ? condition.look : []));
/** Those that the store itself can judge. */
const storedOf = ({ conditions }: Plan) => conditions.filter((condition) => "event" in condition || "term" in condition);
/** From the plan's page on, up to the end of a stretch. */
function selection({ tenantId, plan, start }: Search, columns: SQL, limit: number, end?: Page): SQL {
  const { page, order } = plan;
  const has = ({ term, wide }: Term) => {
    const of = sql`SELECT 1 FROM ${epcisTerms} WHERE tenant_id = ${tenantId} AND event_id = ${column("eventId")}`;
    // The offset of nothing keeps PostgreSQL from turning the test into a join of all events with all terms.
    return wide ? sql`EXISTS (${of} AND ${term(testedKind, testedValue)} LIMIT 1 OFFSET 0)` : sql`EXISTS (${of} AND ${term(kind, value)})`;
  };
  const where = [
    sql`${column("tenantId")} = ${tenantId}`,
    ...(start ? [sql`${column("eventId")} = t.event_id`] : []),
    ...storedOf(plan)
      .filter((condition) => condition !== start)
      .map((condition) => ("term" in condition ? has(condition) : condition.event)),
    ...(page ? [behind(order, page)] : []),
    ...(end ? [upTo(order, end)] : []),
  ];
  // CROSS JOIN keeps SQLite from beginning at the other end; to PostgreSQL it is a join like another.
  const matches = start
    ? sql`(SELECT DISTINCT event_id FROM ${epcisTerms} WHERE tenant_id = ${tenantId} AND ${start.term(kind, value)}) t CROSS JOIN `
    : sql``;
  return sql`SELECT ${columns} FROM ${matches}${epcisEvents} e WHERE ${sql.join(where, sql` AND `)}
    ${inOrder(order)} LIMIT ${limit}`;
}

const STRETCH_ROWS = 4_096;
/**
 * Where a stretch of events ends, if there are more behind it: on so many events and no more conditions are tested in one unit, since everybody waits for
 * a store in our own process. What an index of the order begins with isn't tested, and things, ids and a server's events are found otherwise.
 */
async function endOf(store: Store, tx: Tx, { tenantId, plan, start }: Search): Promise<Page | undefined> {
  const { page, order } = plan;
  const conditions = storedOf(plan);
  const narrowing = conditions.flatMap((condition) => ("event" in condition && isNarrow(condition, order) ? condition.event : []));
  const isById = conditions.some((condition) => "event" in condition && condition.on === "eventId");
  if (!store.sole || start || isById || narrowing.length === conditions.length) return undefined;
  const where = [sql`${column("tenantId")} = ${tenantId}`, ...narrowing, ...(page ? [behind(order, page)] : [])];
  const [last] = await tx.db.values<[number, string]>(sql`SELECT ${placeIn(order)} FROM ${epcisEvents} e
    WHERE ${sql.join(where, sql` AND `)} ${inOrder(order)} LIMIT 1 OFFSET ${STRETCH_ROWS - 1}`);
  return last && { at: last[0], eventId: last[1], left: null };
}
const isNarrow = ({ on, values }: OnEvent, { by }: Order): boolean =>
  on === by || (on === "readPoint" && values === 1 && by === "eventTime");

const FIRST_EVENTS = 10;
const LOOKED_AT_ONCE = 200;
/** Events that are read in one unit; more of them where they are small, one where it is larger than that. */
const READ_MAX_BYTES = 4_194_304;
/** What is looked into before others get a turn. */
const LOOK_MAX_BYTES = 262_144;

/** `next`: where the events behind these begin, if there are more. */
type Piece = { read: Found[]; meant: Found[]; next: Page | undefined };
/** The events from the plan's page on, `most()` of them in each read unit. */
async function* piecesOf(store: Store, search: Search, most: () => number): AsyncGenerator<Piece> {
  const { order } = search.plan;
  const isLooking = looksOf(search.plan).length > 0;
  const names: Names = new Map();
  let from = search.plan.page;
  do {
    const here = { ...search, plan: { ...search.plan, page: from } };
    const { rows, isAll, end } = await store.read("epcis events", async (tx) => {
      const end = await endOf(store, tx, here);
      return { ...(await fetch(tx, here, most(), end)), end };
    });
    const last = isAll ? undefined : rows.at(-1);
    from = last ? placeOf(last, order) : end;
    yield { read: rows, meant: isLooking ? await looking(store, search, rows, names) : rows, next: from };
    await turn();
  } while (from);
}
const placeOf = (row: Pick<Found, "eventId" | Order["by"]>, { by }: Order): Page => ({ at: row[by], eventId: row.eventId, left: null });
const bytesOf = (rows: readonly Found[]): number => rows.reduce((sum, row) => sum + row.bytes, 0);

/** `rest`: where the next page has to begin, if this one ended before it was full. */
type Part = { rows: Found[]; rest?: Page | undefined };
/**
 * A page ends where it has enough bytes, too: nearly all events are small, and some dozens of the largest are more than one answer can hold. And where
 * enough was looked into, however little of it was meant.
 */
async function fetchPage(store: Store, search: Search, size: number): Promise<Part> {
  const isLooking = looksOf(search.plan).length > 0;
  const rows: Found[] = [];
  let [bytes, looked, count] = [0, 0, FIRST_EVENTS];
  for await (const { read, meant, next } of piecesOf(store, search, () =>
    isLooking ? LOOKED_AT_ONCE : Math.min(count, size - rows.length),
  )) {
    rows.push(...meant.slice(0, size - rows.length));
    bytes += bytesOf(read);
    looked += isLooking ? read.length : 0;
    count *= 5;
    if (rows.length >= size) break;
    if (bytes >= limits.EPCIS_PAGE_MAX_BYTES || looked >= limits.EPCIS_LOOKED_MAX_EVENTS) return { rows, rest: next };
  }
  return { rows };
}

/** Those among them that are meant by what they say themselves. */
async function looking(store: Store, { tenantId, plan }: Search, rows: Found[], names: Names): Promise<Found[]> {
  const looks = looksOf(plan);
  const meant: Found[] = [];
  let bytes = 0;
  await learn(store, tenantId, rows, names);
  for (const row of rows) {
    const { isUriOf, bytes: made } = spellingIn(names, row);
    bytes += made;
    let isMeant = true;
    for (const look of looks) {
      bytes += row.bytes;
      if (bytes > LOOK_MAX_BYTES) {
        bytes = 0;
        await turn();
      }
      isMeant &&= look(row.body, isUriOf);
      if (!isMeant) break;
    }
    if (isMeant) meant.push(row);
  }
  return meant;
}

const { eventId, body } = epcisEvents;
const isNamed = and(eq(epcisEvents.tenantId, sql.placeholder("tenantId")), eq(eventId, sql.placeholder("eventId")));
const bodyOf = prepared(db.select({ body }).from(epcisEvents).where(isNamed));

type Head = Omit<Found, "body">;
/** In their order; fewer than there are where together they are large. */
async function fetch(tx: Tx, search: Search, limit: number, end: Page | undefined): Promise<{ rows: Found[]; isAll: boolean }> {
  const columns = sql`${column("eventId")}, ${column("eventTime")}, ${column("recordTime")}, ${column("contextId")}, octet_length(${column("body")})`;
  const found = await tx.db.values<[string, number, number, string | null, number]>(selection(search, columns, limit, end));
  const heads: Head[] = [];
  let room = READ_MAX_BYTES;
  for (const [eventId, eventTime, recordTime, contextId, bytes] of found) {
    room -= bytes;
    if (room < 0 && heads.length > 0) break;
    heads.push({ eventId, eventTime, recordTime, contextId, bytes });
  }
  const bodies = await bodiesOf(search.tenantId, heads);
  const rows = heads.map((head) => ({ ...head, body: bodies.get(head.eventId) as Json }));
  return { rows, isAll: found.length < limit && heads.length === found.length };
}
/** Each by its key: asked for as a list, a server that hasn't looked into the table for a while goes through all events of the tenant. */
async function bodiesOf(tenantId: string, heads: readonly Head[]): Promise<Map<string, Json>> {
  const rows = await together(heads.map(({ eventId }) => bodyOf.get({ tenantId, eventId })));
  return new Map(heads.map(({ eventId }, n) => [eventId, rows[n]?.body as Json]));
}

async function refuseMany(store: Store, search: Search, ceiling: number): Promise<void> {
  const tooLarge = (message: string) => new Refusal("QUERY_TOO_LARGE", message, { epcisType: "epcisException:QueryTooLargeException" });
  if (looksOf(search.plan).length > 0) {
    let [matches, looked] = [0, 0];
    for await (const { read, meant } of piecesOf(store, search, () => LOOKED_AT_ONCE)) {
      matches += meant.length;
      looked += read.length;
      if (matches > ceiling) throw tooLarge(`more than ${ceiling} events match`);
      if (looked > limits.EPCIS_LOOKED_MAX_EVENTS)
        throw tooLarge("too many events would have to be looked into to count those that match: ask for less, such as a shorter time");
    }
    return;
  }
  let found = 0;
  let from: Page | undefined;
  do {
    const here = { ...search, plan: { ...search.plan, page: from } };
    const { more, end } = await store.read("epcis events", async (tx) => {
      const end = await endOf(store, tx, here);
      const matches = selection(here, column("eventId"), ceiling + 1 - found, end);
      const [counted] = await tx.db.values<[number]>(sql`SELECT count(*) FROM (${matches}) AS matches`);
      return { more: Number(counted?.[0]), end };
    });
    found += more;
    if (found > ceiling) throw tooLarge(`more than ${ceiling} events match`);
    from = end;
    await turn();
  } while (from);
}

export type Answer = { document: Json; next: string | null; found: number };

export async function query(store: Store, tenantId: string, asked: Query, under: Query = {}): Promise<Answer> {
  const plan = planOf(asked, under);
  const { perPage, most, ceiling, order } = plan;
  const { start, now } = await store.read("epcis events", async (tx) => ({ start: await startOf(tx, tenantId, plan), now: tx.now }));
  const search = { tenantId, plan, start };
  if (ceiling !== undefined) await refuseMany(store, search, ceiling);
  const size = Math.min(perPage, most ?? perPage);
  const { rows, rest } = await fetchPage(store, search, size + 1);
  const events = rows.slice(0, size);
  const last = events.at(-1);
  const left = most === undefined ? null : most - events.length;
  const from = rows.length > size && last ? placeOf(last, order) : rest;
  return {
    document: await documentOf(events, await contextsOf(store, tenantId, events), now), // of what came since, nothing is promised
    next: from && left !== 0 ? tokenOf({ ...from, left }) : null,
    found: events.length,
  };
}

export const once = (entries: unknown[]): unknown[] => [...new Map(entries.map((entry) => [JSON.stringify(entry), entry])).values()];

async function documentOf(found: Found[], contexts: Map<string, unknown[]>, now: number): Promise<Json> {
  const { shared, left } = await sharedOf(found, contexts);
  const eventList = found.map(({ body, contextId, recordTime }) => {
    const more = left.get(contextId ?? "");
    const its = body["@context"];
    const own = more ? { "@context": its === undefined ? more : once([...more, its].flat()) } : {}; // to compare them takes as long as to send them
    return { ...body, ...own, recordTime: instant(recordTime) };
  });
  return {
    "@context": [CONTEXT, ...shared],
    type: "EPCISQueryDocument",
    schemaVersion: "2.0",
    creationDate: instant(now),
    epcisBody: { queryResults: { queryName: "SimpleEventQuery", resultsBody: { eventList } } },
  };
}

/** One event, in a document like any other answer. */
export async function byId(store: Store, tenantId: string, eventId: string): Promise<Json> {
  const { document, found } = await query(store, tenantId, { EQ_eventID: eventId.replaceAll("|", "%7C") });
  if (found === 0) throw absent(`there is no event ${eventId.slice(0, limits.EPCIS_KEY_MAX_LENGTH)} in this tenant`);
  return document;
}

export const absent = (message: string) => new Refusal("NOT_FOUND", message, { epcisType: "epcisException:NoSuchResourceException" });
