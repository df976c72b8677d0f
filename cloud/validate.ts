// Input is judged before anything happens: all faults of all parts at once, each with the field's name.
import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import addFormats from "ajv-formats";
import type { TSchema } from "typebox";
import { type FieldFault, invalid } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { near } from "#shared/nearest.ts";
import { isObject } from "#shared/object.ts";
import { saying } from "#shared/sayings.ts";
import { closed, patternWords } from "#shared/wire/common.ts";
import { NEEDS_ESCAPE } from "./json.ts";
import type { Route } from "./route.ts";

// Only text that came in a URL or a form is turned into numbers and booleans; JSON says what it means.
const options = {
  allErrors: true,
  removeAdditional: false,
  useDefaults: false,
  strictTypes: false,
  strictRequired: false,
  verbose: true,
} as const;
const strict = new Ajv({ ...options, coerceTypes: false });
const lenient = new Ajv({ ...options, coerceTypes: true });
const brief = new Ajv({ ...options, coerceTypes: false, allErrors: false });
for (const ajv of [strict, lenient, brief]) {
  addFormats.default(ajv);
  for (const keyword of ["shownAs", "asksToo"]) ajv.addKeyword(keyword); // for the document alone
  ajv.addFormat("date-time", { validate: isInstant });
  // Ajv's own holds each item against each other one unless it is told that all are text: a megabyte of words kept everybody waiting for most of a minute.
  ajv.removeKeyword("uniqueItems").addKeyword({
    keyword: "uniqueItems",
    type: "array",
    schemaType: "boolean",
    validate: (isAsked: boolean, list: unknown[]) => !isAsked || new Set(list.map(comparable)).size === list.length,
    error: { message: saying("no_duplicates") },
  });
}

/** Two that say the same are the same text, in whichever order their fields stand. */
const comparable = (item: unknown): unknown => (isNested(item) ? `\0${JSON.stringify(item, (_, value) => inOrder(value))}` : item);
/** An object or a list. */
const isNested = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
const inOrder = (value: unknown): unknown =>
  isObject(value) ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) : value;

type Errors = (value: unknown) => ErrorObject[];
/** What is wrong by the schema, which is compiled when something is first held against it: to compile those of every route took a third of a start. */
function errorsWith(ajv: Ajv, schema: object): Errors {
  let valid: ValidateFunction | undefined;
  return (value) => {
    valid ??= ajv.compile(schema);
    if (valid(value)) return [];
    const { errors } = valid;
    valid.errors = null; // they hold what was sent, which would stay as long as nobody else is judged here
    return errors ?? [];
  };
}
/** All that is wrong by the schema; of a very large value the first thing, since a million items can be a million faults. */
function errorsBy(schema: object): Errors {
  const [first, all] = [errorsWith(brief, schema), errorsWith(strict, schema)];
  return (value) => {
    const found = first(value);
    return found.length === 0 || isLarge(value) ? found : all(value);
  };
}

/** Counted no further than that. */
function isLarge(value: unknown): boolean {
  const open = [value];
  for (const next of open)
    if (isNested(next))
      for (const inner of Array.isArray(next) ? next : Object.values(next))
        if (open.push(inner) > limits.FAULTS_SOUGHT_MAX_VALUES) return true;
  return false;
}

const INSTANT = /^\d{4}-\d{2}-\d{2}T(?!24)\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/;
const YEAR_0 = Date.parse("0000-01-01T00:00:00Z");
const YEAR_10000 = Date.UTC(10_000, 0);
/** Narrower than RFC 3339: a T, no leap second, no 24:00 for the next day's 00:00, a day that exists, and a year of four digits once it is UTC. */
function isInstant(text: string): boolean {
  if (!INSTANT.test(text)) return false;
  const at = Date.parse(text);
  const day = text.slice(0, 10);
  return at >= YEAR_0 && at < YEAR_10000 && (day.slice(8) <= "28" || new Date(`${day}T00:00:00Z`).toISOString().startsWith(day));
}

export type Parts = { params: unknown; query: unknown; body: unknown };
export type Check = (parts: Parts, more: FieldFault[]) => void;

type Faults = (value: unknown) => FieldFault[];
const none: Faults = () => [];
/** Of a part of a request: what is wrong with it before its schema is asked, which turns a query's text into numbers, by its schema, and after that. */
type Part = { name: keyof Parts; before: Faults; errorsIn: Errors; after: Faults };

/** Judges all parts of a request; `more` is what was already found in its headers. */
export function checkOf({
  params,
  query,
  body,
  judge,
  judgesItems,
  judgesBody,
}: Pick<Route, "params" | "query" | "body" | "judge" | "judgesItems" | "judgesBody">): Check {
  const wholeNumbers = integersOf(query);
  const inQuery: Faults = (value) => [...unsafeIn(value), ...twiceIn(value), ...laxIn(value, wholeNumbers)];
  const parts: Part[] = [
    { name: "params", before: unsafeIn, errorsIn: errorsBy(params ?? NOTHING), after: none },
    { name: "query", before: inQuery, errorsIn: errorsWith(lenient, query ?? NOTHING), after: unsafeIn }, // a number that came as text is one only then
    ...(judgesBody
      ? []
      : [{ name: "body", before: judgesItems ? none : unsafeIn, errorsIn: errorsBy(body ?? NOTHING), after: none } as const]),
  ];
  const judged = body === undefined ? "query" : "body";
  return (values, more) => {
    const faults = parts.flatMap(({ name, before, errorsIn, after }) => {
      const value = values[name];
      const unsafe = before(value);
      const isTooMuch = unsafe.length >= limits.FAULTS_MAX_ITEMS || unsafe.some(({ rule }) => rule === "depth");
      const found = isTooMuch ? [] : faultsOf(errorsIn(value), body === undefined && name === "body");
      const soFar = [...unsafe, ...found, ...after(value)];
      const across = name === judged && judge && !isTooMuch && isNested(value) ? judge(value, soFar, values.params) : [];
      return oneEach([...soFar, ...across]);
    });
    if (faults.length + more.length > 0) throw invalid([...faults, ...more]);
  };
}

/** The fields of a query that are whole numbers. */
const integersOf = (query: { properties?: Record<string, { type?: string }> } = {}): string[] =>
  Object.entries(query.properties ?? {}).flatMap(([name, { type }]) => (type === "integer" ? name : []));

/** No parameter of ours is a list: which of the two would count? */
const twiceIn = (value: unknown): FieldFault[] =>
  Object.entries(isObject(value) ? value : {}).flatMap(([field, said]) =>
    Array.isArray(said) ? { field: shown(field), rule: "once", message: saying("is_twice") } : [],
  );

/** A number in a URL is its digits: what else JavaScript takes for one (1e1, 0x10, +5, a space before it) is a slip of its sender. */
const laxIn = (value: unknown, wholeNumbers: readonly string[]): FieldFault[] =>
  wholeNumbers.flatMap((field) => {
    const said = isObject(value) ? value[field] : undefined;
    if (typeof said !== "string" || /^-?[0-9]+$/.test(said)) return [];
    return { field, rule: "type", message: saying("must_be_digits") };
  });

/** Judges one value by one schema: its faults, each field's name after `prefix`. */
export type Judge = (value: unknown, prefix?: string) => FieldFault[];
export function judgeOf(schema: object): Judge {
  const errorsIn = errorsBy(schema);
  return (value, prefix = "") => {
    const unsafe = unsafeIn(value, prefix);
    if (unsafe.length > 0) return unsafe;
    const at = (field: string) => (prefix === "" || field === "body" ? prefix || field : `${prefix}.${field}`);
    return faultsOf(errorsIn(value), false).map((fault) => ({ ...fault, field: at(fault.field) }));
  };
}

/** The judge of each of these, by its name. */
export const judgesOf = <Name extends string>(schemas: Record<Name, object>): Record<Name, Judge> =>
  Object.fromEntries(Object.entries<object>(schemas).map(([name, schema]) => [name, judgeOf(schema)])) as Record<Name, Judge>;

const NOTHING = closed({});

/** True when `value` has the shape; for tests that hold answers against what is documented. */
export const fitting = (schema: TSchema): ValidateFunction => strict.compile(schema); // which keeps what it has compiled

function faultsOf(all: ErrorObject[], bodyless: boolean): FieldFault[] {
  if (all.length === 0) return [];
  const errors = ofItsKind(all.slice(0, 10 * limits.FAULTS_MAX_ITEMS));
  const named = errors
    .filter(({ keyword }) => keyword !== "anyOf" || errors.length === 1)
    .map((error) => ({ error, field: fieldOf(error) }));
  // Words are found for what is told alone: a batch is eight megabytes of fields that nobody knows.
  return oneEach(named).map(({ error, field }) => ({
    field,
    rule: error.keyword,
    message: bodyless ? saying("no_fields_here") : sentence(error, errors),
  }));
}

/** What may be a text or an object isn't told to be a text where it is an object that has a fault. */
function ofItsKind(errors: ErrorObject[]): ErrorObject[] {
  const choices = new Map(errors.filter(({ keyword }) => keyword === "anyOf").map((error) => [choiceOf(error), error.schema as unknown[]]));
  if (choices.size === 0) return errors;
  const otherKinds = Map.groupBy(
    errors.filter(({ keyword }) => keyword === "type"),
    choiceOf,
  );
  return errors.filter((error) => {
    const [choice, others = []] = [choices.get(choiceOf(error)), otherKinds.get(choiceOf(error))];
    return error.keyword !== "type" || choice === undefined || others.length % choice.length === 0; // once for each time that it was asked
  });
}
const choiceOf = ({ instancePath, schemaPath }: ErrorObject): string => `${instancePath} ${schemaPath.replace(/\/\d+\/type$/, "")}`;

function fieldOf({ instancePath, params }: ErrorObject): string {
  const at = instancePath.slice(1).replaceAll("/", ".").replaceAll("~1", "/").replaceAll("~0", "~");
  const child = (params["missingProperty"] ?? params["additionalProperty"]) as string | undefined;
  return shown([at, child === "" ? '""' : child].filter(Boolean).join(".")) || "body"; // a name may be empty, too
}

/** A name is its sender's, who may give it the length of the whole body and a hundred faults. */
export const shown = (name: string): string =>
  (name.length <= limits.FAULT_FIELD_MAX_LENGTH ? name : `${name.slice(0, limits.FAULT_FIELD_MAX_LENGTH)}…`).toWellFormed();

/** The first sentence about each field is enough. */
function oneEach<Fault extends { field: string }>(faults: Fault[]): Fault[] {
  if (faults.length < 2) return faults;
  const firsts = new Map<string, Fault>();
  for (const fault of faults) {
    if (firsts.size >= limits.FAULTS_MAX_ITEMS) break;
    if (!firsts.has(fault.field)) firsts.set(fault.field, fault);
  }
  return [...firsts.values()];
}

function sentence({ keyword, params, parentSchema, instancePath, message = saying("is_wrong") }: ErrorObject, all: ErrorObject[]): string {
  if (keyword === "required") return saying("is_required");
  if (keyword === "additionalProperties") {
    const name = near(params["additionalProperty"] as string, Object.keys((parentSchema?.["properties"] as object | undefined) ?? {}));
    return name === undefined ? saying("unknown_field") : saying("unknown_field_near", { name });
  }
  if (keyword === "pattern") return patternWords[params["pattern"] as string] ?? message;
  if (keyword === "minLength" && params["limit"] === 1) return saying("not_empty");
  if (keyword === "format" && params["format"] === "date-time") {
    const isDayToo = all.some((other) => other.instancePath === instancePath && other.params["format"] === "date");
    return saying(isDayToo ? "must_be_instant_or_day" : "must_be_instant");
  }
  if (keyword === "format" && params["format"] === "uri") return saying("must_be_uri");
  if (keyword === "const") return saying("must_be", { value: JSON.stringify(params["allowedValue"]) });
  if (keyword === "enum") return saying("must_be_one_of", { values: (params["allowedValues"] as unknown[]).join(", ") });
  return message;
}

const isText = (value: string): boolean => !value.includes("\0") && value.isWellFormed();
/** What a list may hold by the million: it is passed over without a name for each of its places. */
const isHarmless = (value: unknown): boolean =>
  typeof value === "string" ? isText(value) : typeof value === "number" ? Number.isFinite(value) : typeof value === "boolean";

/** What no schema sees: text that a database can't hold, numbers that JSON can't, keys that reach for prototypes, nesting that eats the stack. */
function unsafeIn(value: unknown, path = ""): FieldFault[] {
  const found: FieldFault[] = [];
  lookInto(value, path === "" ? [] : path.split("."), 0, found);
  return found;
}

/** `path` is one list for all of the value, which is put together only where there is a fault. */
function lookInto(value: unknown, path: string[], depth: number, found: FieldFault[]): void {
  const fault = (rule: string, message: string, field = shown(path.join(".")) || "body") => void found.push({ field, rule, message });
  if (typeof value === "string") {
    if (value.includes("\0")) fault("nul", saying("has_nul"));
    else if (!value.isWellFormed()) fault("unicode", saying("has_half_pair"));
    return;
  }
  if (typeof value === "number" && !Number.isFinite(value)) fault("number", saying("number_too_large"));
  if (typeof value !== "object" || value === null) return;
  if (depth >= limits.JSON_MAX_DEPTH) return fault("depth", saying("too_deep", { most: limits.JSON_MAX_DEPTH }), path[0] || "body");
  const isList = Array.isArray(value);
  for (const key of isList ? value.keys() : Object.keys(value)) {
    if (found.length >= limits.FAULTS_MAX_ITEMS) break;
    const child = (value as Record<string | number, unknown>)[key];
    if (isList && isHarmless(child)) continue;
    path.push(shown(String(key)));
    lookInto(key, path, depth, found);
    if (key === "__proto__" || key === "constructor" || key === "prototype") fault("key", saying("name_not_allowed"));
    else if (typeof key === "string" && NEEDS_ESCAPE.test(key)) fault("key", saying("name_has_quote"));
    else lookInto(child, path, depth + 1, found);
    path.pop();
  }
}
