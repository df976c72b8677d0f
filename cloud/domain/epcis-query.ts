// SimpleEventQuery: the standard's parameters as conditions on events and their terms, pages by key, and the document that answers.
import type { SQL } from "drizzle-orm";
import { and, eq, inArray, sql } from "../store/drizzle.ts";
import { bareWord } from "#shared/cbv.ts";
import { type FieldFault, invalid, Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { judgeOf } from "../validate.ts";
import { Instant } from "#shared/wire/common.ts";
import { epcisContexts, epcisEvents, epcisTerms } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { type Level, patternOf } from "./epc.ts";
import type { Json } from "./epcis-rules.ts";
import { typedValue } from "./epcis-terms.ts";

export const CONTEXT = "https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld";
type Query = Readonly<Record<string, unknown>>;
type Found = { eventId: string; eventTime: number; recordTime: number; contextId: string | null; body: Json };

const e = sql.identifier("e");
const column = (name: keyof typeof epcisEvents.$inferSelect) => sql`${e}.${sql.identifier(epcisEvents[name].name)}`;
const oneOf = (left: SQL, values: readonly string[]): SQL =>
  sql`${left} IN (${sql.join(
    values.map((value) => sql`${value}`),
    sql`, `,
  )})`;
const either = (parts: SQL[]): SQL => sql`(${sql.join(parts, sql` OR `)})`;
const all = (parts: SQL[]): SQL => sql.join(parts, sql` AND `);

type Condition = { event: SQL } | { term: SQL };
type Made = Condition | { fault: string };
type Parameter = (value: string, name: string) => Made;

const listed = (value: string): string[] => value.split("|");
const onColumn =
  (name: keyof typeof epcisEvents.$inferSelect, spelt: (value: string) => string = (value) => value): Parameter =>
  (value) => ({ event: oneOf(column(name), listed(value).map(spelt)) });
const [kindColumn, valueColumn] = [sql.identifier("kind"), sql.identifier("value")];
const onTerm =
  (kind: string, spelt: (value: string) => string = (value) => value): Parameter =>
  (value) => ({ term: sql`${kindColumn} = ${kind} AND ${oneOf(sql`${valueColumn}`, listed(value).map(spelt))}` });
/** The last character that a prefix ends with, one further: where its range ends. */
const afterAll = (prefix: string) => prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
const onNames =
  (level: Level, ...kinds: string[]): Parameter =>
  (value) => {
    const matches = listed(value).flatMap((uri) => {
      const pattern = patternOf(uri, level);
      if ("key" in pattern) return [sql`${valueColumn} = ${pattern.key}`];
      return pattern.prefixes.filter(Boolean).map((prefix) => sql`(${valueColumn} >= ${prefix} AND ${valueColumn} < ${afterAll(prefix)})`);
    });
    return matches.length === 0
      ? { fault: "matches everything: leave it out" }
      : { term: sql`${oneOf(sql`${kindColumn}`, kinds)} AND ${either(matches)}` };
  };
const judgeInstant = judgeOf(Instant);
const instant = (value: string): number | undefined => (judgeInstant(value).length === 0 ? Date.parse(value) : undefined);
const onTime =
  (name: "eventTime" | "recordTime", operator: ">=" | "<"): Parameter =>
  (value) => {
    const at = instant(value);
    return at === undefined
      ? { fault: "must be an instant with its offset, such as 2026-11-21T09:00:00Z" }
      : { event: sql`${column(name)} ${sql.raw(operator)} ${at}` };
  };
const onErrorTime =
  (operator: ">=" | "<"): Parameter =>
  (value) => {
    const at = instant(value);
    if (at === undefined) return { fault: "must be an instant with its offset, such as 2026-11-21T09:00:00Z" };
    return { term: sql`${kindColumn} = 'error' AND ${valueColumn} ${sql.raw(operator)} ${new Date(at).toISOString()}` };
  };
const exists =
  (kind: string): Parameter =>
  () => ({ term: sql`${kindColumn} = ${kind}` });

/** Every parameter there is. A place within another isn't known here: WD_ finds what EQ_ finds. */
const PARAMETERS: Record<string, Parameter> = {
  eventType: onColumn("type"),
  EQ_action: (value) =>
    listed(value).every((action) => ["OBSERVE", "ADD", "DELETE"].includes(action))
      ? onColumn("action")(value, "")
      : { fault: "must be OBSERVE, ADD or DELETE" },
  EQ_bizStep: onColumn("bizStep", bareWord),
  EQ_disposition: onColumn("disposition", bareWord),
  EQ_persistentDisposition_set: onTerm("set", bareWord),
  EQ_persistentDisposition_unset: onTerm("unset", bareWord),
  EQ_readPoint: onColumn("readPoint"),
  WD_readPoint: onColumn("readPoint"),
  EQ_bizLocation: onColumn("bizLocation"),
  WD_bizLocation: onColumn("bizLocation"),
  EQ_eventID: onColumn("eventId"),
  EQ_transformationID: onTerm("transformation"),
  MATCH_epc: onNames("item", "epc"),
  MATCH_parentID: onNames("item", "parent"),
  MATCH_inputEPC: onNames("item", "input"),
  MATCH_outputEPC: onNames("item", "output"),
  MATCH_anyEPC: onNames("item", "epc", "parent", "input", "output"),
  MATCH_epcClass: onNames("class", "class"),
  MATCH_inputEPCClass: onNames("class", "inputClass"),
  MATCH_outputEPCClass: onNames("class", "outputClass"),
  MATCH_anyEPCClass: onNames("class", "class", "inputClass", "outputClass"),
  GE_eventTime: onTime("eventTime", ">="),
  LT_eventTime: onTime("eventTime", "<"),
  GE_recordTime: onTime("recordTime", ">="),
  LT_recordTime: onTime("recordTime", "<"),
  EXISTS_errorDeclaration: exists("error"),
  GE_errorDeclarationTime: onErrorTime(">="),
  LT_errorDeclarationTime: onErrorTime("<"),
  EQ_errorReason: onTerm("errorReason", bareWord),
  EQ_correctiveEventID: onTerm("corrects"),
  EXISTS_sensorElementList: exists("sensor"),
  EQ_type: onTerm("measurement", bareWord),
  EQ_deviceID: onTerm("device"),
  EQ_dataProcessingMethod: onTerm("method"),
  EQ_microorganism: onTerm("microorganism"),
  EQ_chemicalSubstance: onTerm("substance"),
  EQ_bizRules: onTerm("rules"),
};
/** Parameters whose names end in a type. */
const TYPED = /^EQ_(bizTransaction|source|destination)_(.+)$/;
const CONTROLS = new Set(["orderBy", "orderDirection", "eventCountLimit", "maxEventCount", "perPage", "nextPageToken"]);
export const parameterNames = Object.keys(PARAMETERS);

const faulty = (field: string, message: string): FieldFault => ({ field, rule: "parameter", message });
function refuse(faults: FieldFault[]): never {
  throw new Refusal("VALIDATION_ERROR", invalid(faults).message, { epcisType: "epcisException:QueryParameterException", fields: faults });
}

function conditionOf(name: string, value: string): Made {
  if (value === "" && !name.startsWith("EXISTS_")) return { fault: "is empty" };
  if (listed(value).length > limits.EPCIS_VALUES_MAX_ITEMS) return { fault: `has more than ${limits.EPCIS_VALUES_MAX_ITEMS} values` };
  if (value.includes("\0") || !value.isWellFormed()) return { fault: "isn't text" };
  if (Object.hasOwn(PARAMETERS, name)) return PARAMETERS[name]?.(value, name) ?? { fault: "isn't known" };
  const [, kind = "", type = ""] = TYPED.exec(name) ?? [];
  return kind ? onTerm(kind, (one) => typedValue(type, one))(value, name) : { fault: "isn't a parameter of this query" };
}

type Order = { by: "eventTime" | "recordTime"; descending: boolean };
type Page = { at: number; eventId: string; left: number | null };

function pageIn(token: string | undefined): Page | undefined {
  if (token === undefined) return undefined;
  try {
    const [at, eventId, left] = JSON.parse(Buffer.from(token, "base64url").toString("utf8")) as unknown[];
    if (Number.isSafeInteger(at) && typeof eventId === "string" && !eventId.includes("\0") && (left === null || Number.isSafeInteger(left)))
      return { at: at as number, eventId, left: left as number | null };
  } catch {
    // told below, like all that isn't ours
  }
  return refuse([faulty("nextPageToken", "isn't one that this query gave out; start without it")]);
}
const tokenOf = ({ at, eventId, left }: Page) => Buffer.from(JSON.stringify([at, eventId, left])).toString("base64url");

type Plan = {
  conditions: Condition[];
  order: Order;
  page: Page | undefined;
  perPage: number;
  most: number | undefined;
  ceiling: number | undefined;
};

function planOf(query: Query): Plan {
  const faults: FieldFault[] = [];
  const conditions: Condition[] = [];
  for (const [name, value] of Object.entries(query)) {
    if (CONTROLS.has(name) || typeof value !== "string") continue;
    const made = conditionOf(name, value);
    if ("fault" in made) faults.push(faulty(name, made.fault));
    else conditions.push(made);
  }
  const by = query["orderBy"] ?? "eventTime";
  if (by !== "eventTime" && by !== "recordTime") faults.push(faulty("orderBy", "must be eventTime or recordTime"));
  const direction = query["orderDirection"] ?? "DESC";
  if (direction !== "ASC" && direction !== "DESC") faults.push(faulty("orderDirection", "must be ASC or DESC"));
  const count = (name: string) => (query[name] === undefined ? undefined : Number(query[name]));
  const [most, ceiling] = [count("eventCountLimit"), count("maxEventCount")];
  if (most !== undefined && ceiling !== undefined) faults.push(faulty("maxEventCount", "can't stand beside eventCountLimit"));
  if (faults.length > 0) refuse(faults);
  const page = pageIn(query["nextPageToken"] as string | undefined);
  const order: Order = { by: by === "recordTime" ? by : "eventTime", descending: direction === "DESC" };
  return { conditions, order, page, perPage: count("perPage") ?? limits.EPCIS_PAGE_DEFAULT_ITEMS, most: page?.left ?? most, ceiling };
}

/** From the events in their order, or, where there are terms to find them by, from the terms to their events. */
function selection(tenantId: string, { conditions, page, order }: Plan, columns: SQL, limit: number): SQL {
  const terms = conditions.flatMap((condition) => ("term" in condition ? [condition.term] : []));
  const [first, ...more] = terms;
  const key = sql`(${column(order.by)}, ${column("eventId")})`;
  const where = [
    ...(first
      ? [sql`${column("tenantId")} = ${tenantId}`, sql`${column("eventId")} = t.event_id`]
      : [sql`${column("tenantId")} = ${tenantId}`]),
    ...conditions.flatMap((condition) => ("event" in condition ? [condition.event] : [])),
    ...more.map(
      (term) => sql`EXISTS (SELECT 1 FROM ${epcisTerms} WHERE tenant_id = ${tenantId} AND ${term} AND event_id = ${column("eventId")})`,
    ),
    ...(page ? [sql`${key} ${sql.raw(order.descending ? "<" : ">")} (${page.at}, ${page.eventId})`] : []),
  ];
  const matches = first && sql`(SELECT DISTINCT event_id FROM ${epcisTerms} WHERE tenant_id = ${tenantId} AND ${first}) t CROSS JOIN `;
  const direction = sql.raw(order.descending ? "DESC" : "ASC");
  return sql`SELECT ${columns} FROM ${matches ?? sql``}${epcisEvents} e WHERE ${all(where)}
    ORDER BY ${column(order.by)} ${direction}, ${column("eventId")} ${direction} LIMIT ${limit}`;
}

async function fetch(tx: Tx, tenantId: string, plan: Plan, limit: number): Promise<Found[]> {
  const columns = sql`${column("eventId")}, ${column("eventTime")}, ${column("recordTime")}, ${column("contextId")}, ${column("body")}`;
  const rows = await tx.db.values<[string, number, number, string | null, string]>(selection(tenantId, plan, columns, limit));
  return rows.map(([eventId, eventTime, recordTime, contextId, body]) => ({
    eventId,
    eventTime,
    recordTime,
    contextId,
    body: JSON.parse(body) as Json,
  }));
}

/** The contexts of these events by their ids, each once. */
async function contextsOf(tx: Tx, tenantId: string, found: Found[]): Promise<Map<string, unknown[]>> {
  const ids = [...new Set(found.flatMap(({ contextId }) => contextId ?? []))];
  if (ids.length === 0) return new Map();
  const rows = await tx.db
    .select()
    .from(epcisContexts)
    .where(and(eq(epcisContexts.tenantId, tenantId), inArray(epcisContexts.id, ids)));
  return new Map(rows.map(({ id, context }) => [id, context]));
}

async function refuseMany(tx: Tx, tenantId: string, plan: Plan, ceiling: number): Promise<void> {
  const rows = await tx.db.values(selection(tenantId, { ...plan, page: undefined }, column("eventId"), ceiling + 1));
  if (rows.length > ceiling)
    throw new Refusal("QUERY_TOO_LARGE", `more than ${ceiling} events match`, { epcisType: "epcisException:QueryTooLargeException" });
}

export type Answer = { document: Json; next: string | null; found: number };

export async function query(tx: Tx, tenantId: string, asked: Query): Promise<Answer> {
  const plan = planOf(asked);
  const { perPage, most, ceiling, order } = plan;
  if (ceiling !== undefined) await refuseMany(tx, tenantId, plan, ceiling);
  const size = Math.min(perPage, most ?? perPage);
  const rows = await fetch(tx, tenantId, plan, size + 1);
  const events = rows.slice(0, size);
  const last = events.at(-1);
  const left = most === undefined ? null : most - events.length;
  const more = rows.length > size && left !== 0 && last;
  return {
    document: documentOf(events, await contextsOf(tx, tenantId, events), tx.now),
    next: more ? tokenOf({ at: last[order.by], eventId: last.eventId, left }) : null,
    found: events.length,
  };
}

/** What all contexts together may declare on top of one document, and what is left of each because two mean different things by a name. */
function sharedOf(contexts: Map<string, unknown[]>): { shared: unknown[]; left: Map<string, unknown[]> } {
  const shared = new Map<string, unknown>();
  const meanings = new Map<string, string>();
  const left = new Map<string, unknown[]>();
  for (const [id, context] of contexts)
    for (const entry of context) {
      const declared = typeof entry === "object" && entry !== null ? Object.entries(entry) : [];
      const clashes = declared.some(([name, to]) => (meanings.get(name) ?? JSON.stringify(to)) !== JSON.stringify(to));
      if (clashes) left.set(id, [...(left.get(id) ?? []), entry]);
      else shared.set(JSON.stringify(entry), entry);
      if (!clashes) for (const [name, to] of declared) meanings.set(name, JSON.stringify(to));
    }
  return { shared: [...shared.values()], left };
}

function documentOf(found: Found[], contexts: Map<string, unknown[]>, now: number): Json {
  const { shared, left } = sharedOf(contexts);
  const eventList = found.map(({ body, contextId, recordTime }) => {
    const more = left.get(contextId ?? "");
    const own = more ? { "@context": [...more, ...[body["@context"] ?? []].flat()] } : {};
    return { ...body, ...own, recordTime: new Date(recordTime).toISOString() };
  });
  return {
    "@context": [CONTEXT, ...shared],
    type: "EPCISQueryDocument",
    schemaVersion: "2.0",
    creationDate: new Date(now).toISOString(),
    epcisBody: { queryResults: { queryName: "SimpleEventQuery", resultsBody: { eventList } } },
  };
}

/** One event, in a document like any other answer. */
export async function byId(tx: Tx, tenantId: string, eventId: string): Promise<Json> {
  const { document, found } = await query(tx, tenantId, { EQ_eventID: eventId.replaceAll("|", "%7C") });
  if (found === 0) throw absent(`there is no event ${eventId.slice(0, limits.EPCIS_KEY_MAX_LENGTH)} in this tenant`);
  return document;
}

export const absent = (message: string) => new Refusal("NOT_FOUND", message, { epcisType: "epcisException:NoSuchResourceException" });
