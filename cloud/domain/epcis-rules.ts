// What makes an EPCIS event acceptable beyond its shape: what its type and action ask for, whose words it speaks, whether its names can be true.
import { canonical } from "#shared/canonical.ts";
import { type Vocabulary, wordFault } from "#shared/cbv.ts";
import type { FieldFault } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { isObject } from "#shared/object.ts";
import { Context, eventSchemas, ExtendedEvent } from "#shared/wire/epcis.ts";
import { judgeOf, judgesOf } from "../validate.ts";
import { type Level, nameFault } from "./epc.ts";

export type Json = Record<string, unknown>;
type EventType = keyof typeof eventSchemas;
type Found = (field: string, rule: string, message: string) => void;

const shapes = judgesOf(eventSchemas);
const contextShape = judgeOf(Context);
const extendedShape = judgeOf(ExtendedEvent);
const isEventType = (type: unknown): type is EventType => typeof type === "string" && Object.hasOwn(eventSchemas, type);

/** Prefixes that the standard's own context declares. */
export const KNOWN_PREFIXES: ReadonlySet<string> = new Set(["epcis", "cbv", "cbvmda", "gs1", "rdfs", "owl", "xsd", "dcterms"]);
/** The prefixes that may stand before an extension's name; undefined where a context of others may declare any. */
type Prefixes = ReadonlySet<string> | undefined;
const STANDARD_CONTEXT = /^https?:\/\/(?:ref\.gs1\.org|gs1\.github\.io)\/[^\s]*epcis-context\.jsonld$/i;

export const objectsIn = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : []);
export const textsIn = (value: unknown): string[] =>
  (Array.isArray(value) ? value : [value]).filter((item): item is string => typeof item === "string");

/** What a context adds to the standard's own. */
export const extrasOf = (context: unknown): unknown[] =>
  (Array.isArray(context) ? context : [context]).filter(
    (entry) => entry !== undefined && !(typeof entry === "string" && STANDARD_CONTEXT.test(entry)),
  );

/** What prefixes stand for: of two contexts that declare one, the later counts. */
export const declaredIn = (contexts: readonly unknown[]): Json => Object.assign({}, ...contexts.filter(isObject)) as Json;

/** What an event says, whatever stands around it: of prefixes it counts what those that are used stand for. */
export function contentOf(event: Json, around: readonly unknown[]): string {
  const { "@context": own, ...said } = event;
  const text = canonical(said);
  const contexts = [...around, ...extrasOf(own)];
  const declared = declaredIn(contexts);
  const named = new Set<string>(); // in one walk: a context may declare thousands, and an event have megabytes
  for (const [, prefix = ""] of text.matchAll(/"([^":]+):/g)) named.add(prefix);
  const used = Object.entries(declared).filter(([prefix]) => named.has(prefix));
  const isElsewhere = [...text.matchAll(/"([^":]+):[^"]*":/g)].some(
    ([, prefix = ""]) => !(prefix in declared) && !KNOWN_PREFIXES.has(prefix),
  );
  return `${text} ${canonical([Object.fromEntries(used), isElsewhere ? textsIn(contexts) : []])}`;
}

export function contextFault(context: unknown): string | undefined {
  if (contextShape(context).length > 0) return "must be a URL, an object that declares prefixes, or a list of these, each once";
  return sizeFault(context, limits.EPCIS_CONTEXT_MAX_BYTES);
}
/** Of what is nested so deep that it can't be written, nothing: its shape tells. */
function sizeFault(value: unknown, mostBytes: number): string | undefined {
  try {
    const bytes = Buffer.byteLength(JSON.stringify(value));
    return bytes > mostBytes ? `has ${bytes} bytes where ${mostBytes} may be` : undefined;
  } catch (error) {
    if (error instanceof RangeError) return undefined; // the stack ended
    throw error;
  }
}

export function prefixesOf(context: unknown, outer: Prefixes = KNOWN_PREFIXES): Prefixes {
  const extras = extrasOf(context);
  if (extras.some((entry) => typeof entry === "string")) return undefined;
  return new Set([...outer, ...extras.filter(isObject).flatMap((entry) => Object.keys(entry))]);
}

const EVENT_ID_FORMS: Record<string, { shape: RegExp; says: string }> = {
  "urn:uuid:": { shape: /^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, says: "isn't urn:uuid: and a UUID" },
  "ni:": {
    shape:
      /^ni:\/\/\/(?:(?:sha-256|sha3-256);[0-9a-f]{64}|(?:sha-384|sha3-384);[0-9a-f]{96}|(?:sha-512|sha3-512);[0-9a-f]{128})\?ver=CBV2\.\d+$/i,
    says: "isn't an event hash as the CBV has it: ni:///sha-256;<64 hex digits>?ver=CBV2.0",
  },
};
function eventIdFault(id: string): string | undefined {
  const form = Object.entries(EVENT_ID_FORMS).find(([prefix]) => id.toLowerCase().startsWith(prefix))?.[1];
  return form && !form.shape.test(id) ? form.says : undefined;
}

/** Lists of names, and whether things or classes stand in them. */
const NAMES: Record<string, Level> = { epcList: "item", childEPCs: "item", parentID: "item", inputEPCList: "item", outputEPCList: "item" };
export const QUANTITIES = ["quantityList", "childQuantityList", "inputQuantityList", "outputQuantityList"];

function judgeNames(event: Json, found: Found): void {
  for (const [field, level] of Object.entries(NAMES))
    for (const [i, name] of textsIn(event[field]).entries()) {
      const fault = nameFault(name, level);
      if (fault) found(Array.isArray(event[field]) ? `${field}.${i}` : field, "epc", fault);
    }
  for (const field of QUANTITIES)
    for (const [i, { epcClass }] of objectsIn(event[field]).entries()) {
      const fault = typeof epcClass === "string" ? nameFault(epcClass, "class") : undefined;
      if (fault) found(`${field}.${i}.epcClass`, "epcClass", fault);
    }
  for (const field of ["readPoint", "bizLocation"]) {
    const id = (event[field] as Json | undefined)?.["id"];
    const fault = typeof id === "string" && /\/414\/|^urn:epc:/.test(id) ? nameFault(id) : undefined;
    if (fault) found(`${field}.id`, "location", fault);
  }
  const fault = typeof event["eventID"] === "string" ? eventIdFault(event["eventID"]) : undefined;
  if (fault) found("eventID", "eventID", fault);
}

function judgeWords(event: Json, found: Found): void {
  const word = (vocabulary: Vocabulary, field: string, value: unknown) => {
    const fault = typeof value === "string" ? wordFault(vocabulary, value) : undefined;
    if (fault) found(field, "vocabulary", fault);
  };
  word("bizStep", "bizStep", event["bizStep"]);
  word("disposition", "disposition", event["disposition"]);
  const persistent = event["persistentDisposition"] as Json | undefined;
  for (const key of ["set", "unset"])
    for (const [i, value] of textsIn(persistent?.[key]).entries()) word("disposition", `persistentDisposition.${key}.${i}`, value);
  word("errorReason", "errorDeclaration.reason", (event["errorDeclaration"] as Json | undefined)?.["reason"]);
  for (const [list, vocabulary] of [
    ["bizTransactionList", "bizTransaction"],
    ["sourceList", "party"],
    ["destinationList", "party"],
  ] as const)
    for (const [i, { type }] of objectsIn(event[list]).entries()) word(vocabulary, `${list}.${i}.type`, type);
  for (const [i, { sensorReport }] of objectsIn(event["sensorElementList"]).entries())
    for (const [j, { type, exception, component }] of objectsIn(sensorReport).entries()) {
      const at = `sensorElementList.${i}.sensorReport.${j}`;
      word("measurement", `${at}.type`, type);
      word("sensorAlert", `${at}.exception`, exception);
      word("component", `${at}.component`, component);
    }
}

const filled = (event: Json, ...fields: string[]) => fields.some((field) => Array.isArray(event[field]) && event[field].length > 0);

/** What each type asks of its fields together. */
const TOGETHER: Record<EventType, (event: Json, found: Found) => void> = {
  ObjectEvent: (event, found) => {
    const seen = filled(event, "sensorElementList") && event["readPoint"] !== undefined;
    const named = filled(event, "epcList", "quantityList") || seen;
    if (!named && (event["action"] === "ADD" || event["epcList"] === undefined))
      found(
        "epcList",
        "required",
        "must name something, or quantityList must, or a readPoint with a sensorElementList says where it is seen",
      );
    if (event["ilmd"] !== undefined && event["action"] !== "ADD")
      found("ilmd", "action", "belongs to the beginning of a thing: it stands with action ADD only");
  },
  AggregationEvent: (event, found) => {
    childrenNamed(event, found);
    if (event["parentID"] === undefined && event["action"] !== "OBSERVE")
      found("parentID", "required", "is required with action ADD and DELETE: of what is it a part");
  },
  AssociationEvent: childrenNamed,
  TransactionEvent: (event, found) => {
    if (event["action"] !== "DELETE" && event["epcList"] === undefined && !filled(event, "quantityList"))
      found("epcList", "required", "is required, or a quantityList, unless the action is DELETE");
  },
  TransformationEvent: (event, found) => {
    const [input, output] = [filled(event, "inputEPCList", "inputQuantityList"), filled(event, "outputEPCList", "outputQuantityList")];
    if (input && output) return;
    if (event["transformationID"] === undefined)
      found(
        input ? "outputEPCList" : "inputEPCList",
        "required",
        "a transformation has inputs and outputs, or a transformationID that joins it with others",
      );
    else if (!input && !output) found("inputEPCList", "required", "must name something: inputs or outputs");
  },
};
function childrenNamed(event: Json, found: Found): void {
  if (event["action"] !== "DELETE" && !filled(event, "childEPCs", "childQuantityList"))
    found("childEPCs", "required", "must name something, or childQuantityList must, unless the action is DELETE");
}

/** Where extensions may stand: in the event itself and in those of its parts that have room for them. */
function* roomsIn(event: Json): Generator<[path: string, value: Json]> {
  yield ["", event];
  for (const field of ["errorDeclaration", "ilmd", "readPoint", "bizLocation"])
    if (isObject(event[field])) yield [`${field}.`, event[field]];
  for (const [i, element] of objectsIn(event["sensorElementList"]).entries()) {
    const at = `sensorElementList.${i}.`;
    yield [at, element];
    if (isObject(element["sensorMetadata"])) yield [`${at}sensorMetadata.`, element["sensorMetadata"]];
    for (const [j, report] of objectsIn(element["sensorReport"]).entries()) yield [`${at}sensorReport.${j}.`, report];
  }
}

function judgeExtensions(event: Json, prefixes: Prefixes, found: Found): void {
  for (const [path, room] of roomsIn(event))
    for (const key of Object.keys(room)) {
      const [, prefix = "", name = ""] = /^([^:]*):(.*)$/s.exec(key) ?? [];
      if (!key.includes(":")) continue;
      if (!/^[A-Za-z][\w+.-]*$/.test(prefix) || !/^\S+$/.test(name)) found(path + key, "extension", "isn't a name with a namespace");
      else if (!name.startsWith("//") && prefix !== "urn" && prefixes && !prefixes.has(prefix))
        found(path + key, "context", `has the prefix ${prefix}, which no @context declares`);
    }
}

export type LongNumber = { field: string; number: number };
/** Whole numbers in extensions that may have had more digits than a number keeps; what the standard has for an amount is no name of anything. */
function longNumbersIn(event: Json, prefix: string): LongNumber[] {
  const isOwnType = !isEventType(event["type"]);
  const found: LongNumber[] = [];
  for (const [path, room] of roomsIn(event))
    for (const [name, value] of Object.entries(room))
      if (name.includes(":") || isOwnType || path === "readPoint." || path === "bizLocation.")
        collectLong(value, [...(prefix ? [prefix] : []), path + name], found);
  return found;
}

/** `path` is one list for all of the value, which is put together only where there is something to say. */
function collectLong(value: unknown, path: (string | number)[], found: LongNumber[]): void {
  if (typeof value === "number") {
    if (Number.isInteger(value) && !Number.isSafeInteger(value) && found.length < limits.FAULTS_MAX_ITEMS)
      found.push({ field: path.join(".").slice(0, limits.FAULT_FIELD_MAX_LENGTH), number: value });
    return;
  }
  if (typeof value !== "object" || value === null || path.length > limits.JSON_MAX_DEPTH) return; // deeper ones may stand behind all faults that are told
  for (const name of Array.isArray(value) ? value.keys() : Object.keys(value)) {
    const inner = (value as Record<string | number, unknown>)[name];
    if (typeof inner === "string" || Number.isSafeInteger(inner)) continue; // what a list may hold by the million
    path.push(name);
    collectLong(inner, path, found);
    path.pop();
  }
}

/** What is nested too deep, or has names that nothing may have, isn't looked into. */
export const isUnfathomed = (faults: FieldFault[]): boolean => faults.some(({ rule }) => rule === "depth" || rule === "key");

/** All that is wrong with an event, each fault's field after `prefix`; but for its long numbers, which go into `long`. */
export function eventFaults(event: unknown, declared: Prefixes, prefix: string, long: LongNumber[]): FieldFault[] {
  const whole = (rule: string, message: string): FieldFault => ({ field: prefix || "body", rule, message });
  if (!isObject(event)) return [whole("type", "must be an event, an object")];
  const size = sizeFault(event, limits.EPCIS_EVENT_MAX_BYTES);
  if (size) return [whole("size", size)]; // before anything is sought in it
  const faults: FieldFault[] = [];
  const found: Found = (field, rule, message) => {
    if (faults.length < limits.FAULTS_MAX_ITEMS) faults.push({ field: prefix ? `${prefix}.${field}` : field, rule, message });
  };
  const { type } = event;
  if (!isEventType(type) && !(typeof type === "string" && type.includes(":"))) {
    found("type", "enum", `must be one of ${Object.keys(eventSchemas).join(", ")}, or the URI of a type of your own`);
    return faults;
  }
  faults.push(...(isEventType(type) ? shapes[type] : extendedShape)(event, prefix));
  if (isUnfathomed(faults)) return faults;
  long.push(...longNumbersIn(event, prefix));
  const context = event["@context"];
  const fault = context === undefined ? undefined : contextFault(context);
  if (fault) found("@context", "context", fault);
  judgeNames(event, found);
  judgeWords(event, found);
  judgeExtensions(event, context === undefined || !declared ? declared : prefixesOf(context, declared), found);
  if (isEventType(type)) TOGETHER[type](event, found);
  return faults;
}
