// The EPCIS query language: each parameter of SimpleEventQuery as a condition on events or on their terms; whatever else is refused by name.
import type { SQL } from "drizzle-orm";
import { sql } from "../store/drizzle.ts";
import { bareWord } from "#shared/cbv.ts";
import { type FieldFault, invalid, Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { Instant } from "#shared/wire/common.ts";
import { epcisEvents } from "../store/schema.ts";
import { judgeOf } from "../validate.ts";
import { type Level, type Pattern, patternOf } from "./epc.ts";
import { type Look, lookNames, lookOf } from "./epcis-looks.ts";
import { declaredAs, typedValue } from "./epcis-terms.ts";

export type Query = Readonly<Record<string, unknown>>;
/** On a term's columns, which a plan may have to keep from being looked up by. `wide`: may match more than a handful of values. */
export type Term = { term: (kind: SQL, value: SQL) => SQL; wide: boolean };
/** On a column of the event's; `values` are as many as it may have, where they are named. */
export type OnEvent = { event: SQL; on: keyof typeof epcisEvents.$inferSelect; values?: number };
/** On what the event itself says: it has to be read for that. */
type OnContent = { look: Look };
type Condition = OnEvent | Term | OnContent;
type Made = Condition | { fault: string };
type Parameter = (value: string) => Made;

const e = sql.identifier("e");
/** A column of the event, by the name that its table goes by in a selection. */
export const column = (name: keyof typeof epcisEvents.$inferSelect) => sql`${e}.${sql.identifier(epcisEvents[name].name)}`;
const oneOf = (left: SQL, values: readonly string[]): SQL =>
  sql`${left} IN (${sql.join(
    values.map((value) => sql`${value}`),
    sql`, `,
  )})`;
const either = (parts: SQL[]): SQL => sql`(${sql.join(parts, sql` OR `)})`;

const listed = (value: string): string[] => value.split("|");
const onColumn =
  (name: keyof typeof epcisEvents.$inferSelect, spelt: (value: string) => string = (value) => value): Parameter =>
  (value) => ({ event: oneOf(column(name), listed(value).map(spelt)), on: name, values: listed(value).length });
/** Both events of an id, where there are two. */
const onId: Parameter = (value) => {
  const keys = listed(value).flatMap((id) => [id, declaredAs(id)]);
  return { event: oneOf(column("eventId"), keys), on: "eventId", values: keys.length };
};
const onTerm =
  (name: string, spelt: (value: string) => string = (value) => value): Parameter =>
  (text) => ({ term: (kind, value) => sql`${kind} = ${name} AND ${oneOf(value, listed(text).map(spelt))}`, wide: false });
/** The last character that a prefix ends with, one further: where its range ends. */
const afterAll = (prefix: string) => prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
const inPattern = (pattern: Exclude<Pattern, { fault: string }>, value: SQL): SQL =>
  "key" in pattern
    ? oneOf(value, [pattern.key, ...(pattern.before ?? [])])
    : either(pattern.prefixes.map((prefix) => sql`(${value} >= ${prefix} AND ${value} < ${afterAll(prefix)})`));
const onNames =
  (level: Level, ...kinds: string[]): Parameter =>
  (text) => {
    if (!/^[\x21-\x7e]+$/.test(text)) return { fault: "must be URIs, percent-encoded where they aren't ASCII" };
    const patterns: Exclude<Pattern, { fault: string }>[] = [];
    for (const uri of listed(text)) {
      const pattern = patternOf(uri, level);
      if ("fault" in pattern) return { fault: `${uri.slice(0, 100)} ${pattern.fault}` };
      patterns.push(pattern);
    }
    if (patterns.some((pattern) => "prefixes" in pattern && pattern.prefixes.includes("")))
      return { fault: "matches everything: leave it out" };
    return {
      term: (kind, value) => sql`${oneOf(kind, kinds)} AND ${either(patterns.map((pattern) => inPattern(pattern, value)))}`,
      wide: patterns.some((pattern) => "prefixes" in pattern),
    };
  };
const judgeInstant = judgeOf(Instant);
const NO_INSTANT = { fault: "must be an instant with its offset, such as 2026-11-21T09:00:00Z" };
const onTime =
  (name: "eventTime" | "recordTime", operator: ">=" | "<"): Parameter =>
  (text) =>
    judgeInstant(text).length > 0 ? NO_INSTANT : { event: sql`${column(name)} ${sql.raw(operator)} ${Date.parse(text)}`, on: name };
const onErrorTime =
  (operator: ">=" | "<"): Parameter =>
  (text) => {
    if (judgeInstant(text).length > 0) return NO_INSTANT;
    const at = new Date(text).toISOString();
    return { term: (kind, value) => sql`${kind} = 'error' AND ${value} ${sql.raw(operator)} ${at}`, wide: true };
  };
const exists =
  (name: string): Parameter =>
  () => ({ term: (kind) => sql`${kind} = ${name}`, wide: true });

/** Every parameter that is looked up. A place within another isn't known here: WD_ finds what EQ_ finds. */
const PARAMETERS: Record<string, Parameter> = {
  eventType: onColumn("type"),
  EQ_action: (value) =>
    listed(value).every((action) => ["OBSERVE", "ADD", "DELETE"].includes(action))
      ? onColumn("action")(value)
      : { fault: "must be OBSERVE, ADD or DELETE" },
  EQ_bizStep: onColumn("bizStep", bareWord),
  EQ_disposition: onColumn("disposition", bareWord),
  EQ_persistentDisposition_set: onTerm("set", bareWord),
  EQ_persistentDisposition_unset: onTerm("unset", bareWord),
  EQ_readPoint: onColumn("readPoint"),
  WD_readPoint: onColumn("readPoint"),
  EQ_bizLocation: onColumn("bizLocation"),
  WD_bizLocation: onColumn("bizLocation"),
  EQ_eventID: onId,
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
export const parameterNames = [...Object.keys(PARAMETERS), ...lookNames];

const faulty = (field: string, message: string): FieldFault => ({ field, rule: "parameter", message });
function refuse(faults: FieldFault[]): never {
  throw new Refusal("VALIDATION_ERROR", invalid(faults).message, { epcisType: "epcisException:QueryParameterException", fields: faults });
}

function conditionOf(name: string, value: string): Made {
  if (value === "" && !name.startsWith("EXISTS_")) return { fault: "is empty" };
  if (listed(value).length > limits.EPCIS_VALUES_MAX_ITEMS) return { fault: `has more than ${limits.EPCIS_VALUES_MAX_ITEMS} values` };
  if (value.includes("\0") || !value.isWellFormed()) return { fault: "isn't text" };
  const parameter = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] : undefined;
  if (parameter) return parameter(value);
  const [, kind = "", type = ""] = TYPED.exec(name) ?? [];
  if (kind) return onTerm(kind, (one) => typedValue(type, one))(value);
  return lookOf(name, value) ?? { fault: "isn't a parameter of this query" };
}

export type Order = { by: "eventTime" | "recordTime"; descending: boolean };
export type Page = { at: number; eventId: string; left: number | null };

/** Undefined for what isn't a token of ours. */
function pageIn(token: string): Page | undefined {
  try {
    const [at, eventId, left] = JSON.parse(Buffer.from(token, "base64url").toString("utf8")) as unknown[];
    if (
      Number.isSafeInteger(at) &&
      typeof eventId === "string" &&
      !eventId.includes("\0") &&
      (left === null || (Number.isSafeInteger(left) && Number(left) > 0))
    )
      return { at: at as number, eventId, left: left as number | null };
  } catch {
    // said of all that isn't ours
  }
  return undefined;
}
export const tokenOf = ({ at, eventId, left }: Page) => Buffer.from(JSON.stringify([at, eventId, left])).toString("base64url");

export type Plan = {
  conditions: Condition[];
  order: Order;
  page: Page | undefined;
  perPage: number;
  most: number | undefined;
  ceiling: number | undefined;
};

/** A page may be smaller than what was asked for: the link says that there is more. */
export const pageSize = (asked: number = limits.EPCIS_PAGE_DEFAULT_ITEMS): number => Math.min(asked, limits.EPCIS_PAGE_MAX_ITEMS);

/** What is wrong with a query beyond the shape of its counts. */
export function queryFaults(query: Query): FieldFault[] {
  const faults: FieldFault[] = [];
  let looks = 0;
  for (const [name, value] of asked(query)) {
    const made = conditionOf(name, value);
    if ("fault" in made) faults.push(faulty(name, made.fault));
    if ("look" in made && (looks += 1) > limits.EPCIS_LOOKS_MAX_ITEMS)
      faults.push(faulty(name, `is one more than the ${limits.EPCIS_LOOKS_MAX_ITEMS} things that events are looked into for`));
  }
  const { orderBy = "eventTime", orderDirection = "DESC" } = query;
  if (orderBy !== "eventTime" && orderBy !== "recordTime") faults.push(faulty("orderBy", "must be eventTime or recordTime"));
  if (orderDirection !== "ASC" && orderDirection !== "DESC") faults.push(faulty("orderDirection", "must be ASC or DESC"));
  if (query["eventCountLimit"] !== undefined && query["maxEventCount"] !== undefined)
    faults.push(faulty("maxEventCount", "can't stand beside eventCountLimit"));
  if (typeof query["nextPageToken"] === "string" && !pageIn(query["nextPageToken"]))
    faults.push(faulty("nextPageToken", "isn't one that this query gave out: start without it"));
  return faults;
}
const asked = (query: Query): [string, string][] =>
  Object.entries(query).filter((entry): entry is [string, string] => !CONTROLS.has(entry[0]) && typeof entry[1] === "string");

/** Of a query without faults. `under` holds beside whatever else is asked, a parameter of the same name included. */
export function planOf(query: Query, under: Query): Plan {
  const conditions = [...asked(under), ...asked(query)].map(([name, value]) => {
    const made = conditionOf(name, value);
    return "fault" in made ? refuse([faulty(name, made.fault)]) : made;
  });
  const { orderBy, orderDirection, nextPageToken: token } = query;
  const count = (name: string) => (query[name] === undefined ? undefined : Number(query[name]));
  const page = typeof token === "string" ? pageIn(token) : undefined;
  const order: Order = { by: orderBy === "recordTime" ? orderBy : "eventTime", descending: orderDirection !== "ASC" };
  const [most, ceiling] = [count("eventCountLimit"), count("maxEventCount")];
  return { conditions, order, page, perPage: pageSize(count("perPage")), most: page?.left ?? most, ceiling };
}
