// What an event can be found by beyond its own columns: pairs of a kind and a value, one row each. A query asks for a kind's values.
import { bareWord } from "#shared/cbv.ts";
import { keyOf } from "./epc.ts";
import { type Json, objectsIn, textsIn } from "./epcis-rules.ts";

export type Term = readonly [kind: string, value: string];

/** What declares an earlier event to be an error repeats it, its eventID included: the one case in which the standard has two events of one id. */
export const isDeclared = (event: Json): boolean => event["errorDeclaration"] !== undefined;
/** Such an event's key; no id has a blank in it. */
export const declaredAs = (eventId: string): string => `${eventId} error`;

const names = (kind: string, value: unknown): Term[] => textsIn(value).map((name) => [kind, keyOf(name)] as const);
const texts = (kind: string, value: unknown): Term[] => textsIn(value).map((text) => [kind, text] as const);
const wordsOf = (kind: string, value: unknown): Term[] => textsIn(value).map((word) => [kind, bareWord(word)] as const);
const classes = (kind: string, value: unknown): Term[] => objectsIn(value).flatMap(({ epcClass }) => names(kind, epcClass));
/** `type value`: neither has a blank in it. */
const typed = (kind: string, value: unknown, field: string): Term[] =>
  objectsIn(value).flatMap((item) => textsIn(item[field]).map((text) => [kind, typedValue(item["type"], text)] as const));
export const typedValue = (type: unknown, value: string): string => `${typeof type === "string" ? bareWord(type) : ""} ${value}`;

const SENSED = {
  device: "deviceID",
  method: "dataProcessingMethod",
  microorganism: "microorganism",
  substance: "chemicalSubstance",
  rules: "bizRules",
};

const VALUE_MAX_BYTES = 1_600; // a third of a page of PostgreSQL's has to hold a whole entry of an index

export function termsOf(event: Json): Term[] {
  const error = event["errorDeclaration"] as Json | undefined;
  const persistent = event["persistentDisposition"] as Json | undefined;
  const elements = objectsIn(event["sensorElementList"]);
  const reports = elements.flatMap(({ sensorReport }) => objectsIn(sensorReport));
  const sensed = [...reports, ...elements.map(({ sensorMetadata }) => (sensorMetadata ?? {}) as Json)];
  const all: Term[] = [
    ...names("epc", event["epcList"]),
    ...names("epc", event["childEPCs"]),
    ...names("parent", event["parentID"]),
    ...names("input", event["inputEPCList"]),
    ...names("output", event["outputEPCList"]),
    ...classes("class", event["quantityList"]),
    ...classes("class", event["childQuantityList"]),
    ...classes("inputClass", event["inputQuantityList"]),
    ...classes("outputClass", event["outputQuantityList"]),
    ...typed("bizTransaction", event["bizTransactionList"], "bizTransaction"),
    ...typed("source", event["sourceList"], "source"),
    ...typed("destination", event["destinationList"], "destination"),
    ...texts("transformation", event["transformationID"]),
    ...wordsOf("set", persistent?.["set"]),
    ...wordsOf("unset", persistent?.["unset"]),
    ...textsIn(error?.["declarationTime"]).map((at) => ["error", new Date(at).toISOString()] as const),
    ...wordsOf("errorReason", error?.["reason"]),
    ...texts("corrects", error?.["correctiveEventIDs"]),
    ...(elements.length > 0 ? [["sensor", ""] as const] : []),
    ...reports.flatMap(({ type }) => wordsOf("measurement", type)),
    ...Object.entries(SENSED).flatMap(([kind, field]) => sensed.flatMap((item) => texts(kind, item[field]))),
  ];
  const fitting = all.filter(([, value]) => Buffer.byteLength(value) <= VALUE_MAX_BYTES); // an event of a type of one's own may hold anything
  return [...new Map(fitting.map((term) => [term.join(" "), term])).values()];
}
