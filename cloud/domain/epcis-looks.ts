// Parameters of the query language that look into the events themselves: amounts, sensor readings, extensions. No index holds what they ask for.
import { isObject } from "#shared/object.ts";
import { InstantOrDay } from "#shared/wire/common.ts";
import { eventSchemas } from "#shared/wire/epcis.ts";
import { judgeOf } from "../validate.ts";
import { declaredIn, type Json, objectsIn, QUANTITIES } from "./epcis-rules.ts";

/** Whether that is a prefixed name's URI: as its context makes it, or as the query language has it, with a # between namespace and name. */
export type IsUriOf = (asked: string, name: string) => boolean;
/** Says whether an event is meant. */
export type Look = (event: Json, isUriOf: IsUriOf) => boolean;

const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?$/i;
const judgeInstant = judgeOf(InstantOrDay);

type Amount = { of: "number" | "time"; amount: number };
function amountOf(value: unknown): Amount | undefined {
  if (typeof value === "number") return { of: "number", amount: value };
  if (typeof value !== "string") return undefined;
  if (NUMBER.test(value)) return { of: "number", amount: Number(value) };
  return judgeInstant(value).length === 0 ? { of: "time", amount: Date.parse(value) } : undefined;
}

const ORDERS: Record<string, (its: number, asked: number) => boolean> = {
  GT: (its, asked) => its > asked,
  GE: (its, asked) => its >= asked,
  LT: (its, asked) => its < asked,
  LE: (its, asked) => its <= asked,
};
type Test = (value: unknown) => boolean;

type Kind = "number" | "time" | "any";
const WANTED: Record<Kind, string> = {
  number: "must be a number",
  time: "must be an instant with its offset, such as 2026-11-21T09:00:00Z, or a day",
  any: "must be a number, an instant with its offset, such as 2026-11-21T09:00:00Z, or a day",
};
/** What an operator asks of a value of that kind; undefined where it can't be asked that. */
function testOf(operator: string, text: string, kind: Kind): Test | undefined {
  if (operator === "EXISTS") return () => true;
  const fits = (asked: Amount | undefined): asked is Amount => asked !== undefined && (kind === "any" || asked.of === kind);
  const inOrder = ORDERS[operator];
  if (!inOrder) return kind === "any" || text.split("|").map(amountOf).every(fits) ? isOneOf(text.split("|")) : undefined;
  const asked = amountOf(text);
  if (!fits(asked)) return undefined;
  return (value) => {
    const its = amountOf(value);
    return its?.of === asked.of && inOrder(its.amount, asked.amount);
  };
}
/** The same text, the same number, or the same instant however it is spelt. */
function isOneOf(texts: string[]): Test {
  const amounts = texts.map(amountOf);
  return (value) => {
    if (texts.includes(String(value))) return !isObject(value);
    const its = typeof value === "string" && NUMBER.test(value) ? undefined : amountOf(value);
    return its !== undefined && amounts.some((asked) => asked?.of === its.of && asked.amount === its.amount);
  };
}

const elementsIn = (event: Json): Json[] => objectsIn(event["sensorElementList"]);
const metadataIn = (event: Json): Json[] => objectsIn(elementsIn(event).map(({ sensorMetadata }) => sensorMetadata));
const reportsIn = (event: Json): Json[] => elementsIn(event).flatMap(({ sensorReport }) => objectsIn(sensorReport));
const quantitiesIn = (event: Json): Json[] => QUANTITIES.flatMap((list) => objectsIn(event[list]));

/** Where extensions are looked for, by the word that stands before their name. */
const ROOMS: Record<string, (event: Json) => Json[]> = {
  ILMD: ({ ilmd }) => objectsIn([ilmd]),
  ERROR_DECLARATION: ({ errorDeclaration }) => objectsIn([errorDeclaration]),
  SENSORELEMENT: elementsIn,
  SENSORMETADATA: metadataIn,
  SENSORREPORT: reportsIn,
  readPoint: ({ readPoint }) => objectsIn([readPoint]),
  bizLocation: ({ bizLocation }) => objectsIn([bizLocation]),
};
const isExtension = ([name]: [string, unknown]): boolean => name.includes(":");

/** Every value of this name, within lists and objects at any depth. */
function* within(value: unknown, isMeant: (name: string) => boolean): Generator {
  if (Array.isArray(value)) for (const item of value) yield* within(item, isMeant);
  if (!isObject(value)) return;
  for (const [name, inner] of Object.entries(value)) {
    if (isMeant(name)) yield inner;
    yield* within(inner, isMeant);
  }
}
/** A list's items, and what JSON-LD wraps: `{ "@value": 5 }`, `{ "@id": "urn:x:y" }`. */
const bare = (value: unknown): unknown[] => [value].flat().map((item) => (isObject(item) ? (item["@value"] ?? item["@id"] ?? item) : item));

function extensionsIn(event: Json, [, , inner, room, asked = ""]: Match, isUriOf: IsUriOf): unknown[] {
  const isMeant = (name: string) => name === asked || isUriOf(asked, name);
  const fields = (room === undefined ? [event] : (ROOMS[room]?.(event) ?? [])).flatMap((each) => Object.entries(each));
  return inner === undefined
    ? fields.flatMap(([name, value]) => (isMeant(name) ? bare(value) : []))
    : fields.filter(isExtension).flatMap(([, value]) => [...within(value, isMeant)].flatMap(bare));
}

type Match = (string | undefined)[];
type Family = readonly [shape: RegExp, kind: Kind, valuesIn: (event: Json, match: Match, isUriOf: IsUriOf) => unknown[]];
const inReports = (event: Json, [, , field = ""]: Match): unknown[] => reportsIn(event).map((report) => report[field]);
const inSensors = (event: Json, [, , field = ""]: Match): unknown[] =>
  [...metadataIn(event), ...reportsIn(event)].map((sensed) => sensed[field]);

/** By the shape of their names: the operator, then what it looks at. Amounts of other units don't count, convertible or not. */
const FAMILIES: readonly Family[] = [
  [
    /^(EQ|GT|GE|LT|LE)_quantity(?:_([A-Z0-9]{2,3}))?$/,
    "number",
    (event, [, , unit]) => quantitiesIn(event).flatMap(({ quantity, uom }) => (unit === undefined || uom === unit ? [quantity] : [])),
  ],
  [
    /^(EQ|GT|GE|LT|LE)_(value|minValue|maxValue|meanValue|sDev|percValue)_([A-Z0-9]{2,4})$/,
    "number",
    (event, [, , field = "", unit]) => reportsIn(event).flatMap((report) => (report["uom"] === unit ? [report[field]] : [])),
  ],
  [/^(EQ|GT|GE|LT|LE)_(percRank)$/, "number", inReports],
  [/^(EQ)_(stringValue|booleanValue|hexBinaryValue|uriValue)$/, "any", inReports],
  [/^(EQ)_(deviceMetadata|rawData)$/, "any", inSensors],
  [/^(GE|LT)_(time|startTime|endTime)$/, "time", inSensors],
  // Names of one's own have a namespace, but for what stands inside another, and what senses has the standard's own fields.
  [
    /^(EQ|GT|GE|LT|LE|EXISTS)_(?=INNER_|SENSORMETADATA_|SENSORREPORT_|.*:)(INNER_)?(?:(ILMD|ERROR_DECLARATION|SENSORELEMENT|SENSORMETADATA|SENSORREPORT|readPoint|bizLocation)_)?([^_].*)$/s,
    "any",
    extensionsIn,
  ],
];
/** Those of them that have one name only. */
export const lookNames = [
  ...["EQ", "GT", "GE", "LT", "LE"].flatMap((operator) => [`${operator}_quantity`, `${operator}_percRank`]),
  ...["stringValue", "booleanValue", "hexBinaryValue", "uriValue", "deviceMetadata", "rawData"].map((field) => `EQ_${field}`),
  ...["time", "startTime", "endTime"].flatMap((field) => [`GE_${field}`, `LT_${field}`]),
];

const FIELDS = new Set([
  ...Object.values(eventSchemas).flatMap(({ properties }) => Object.keys(properties)),
  ...lookNames.map((name) => name.slice("EQ_".length)),
]);
/** With something behind a colon it is no extension's name, but mistyped. */
const isField = (name: string): boolean => FIELDS.has(name) || FAMILIES.some(([shape]) => shape.test(`GE_${name}`));

/** Undefined for what is no parameter of these. */
export function lookOf(name: string, text: string): { look: Look } | { fault: string } | undefined {
  for (const [shape, kind, valuesIn] of FAMILIES) {
    const match = shape.exec(name);
    const [field = "", ...more] = match?.at(-1)?.split(":") ?? [];
    if (!match || (more.length > 0 && isField(field))) continue;
    const test = testOf(match[1] ?? "", text, kind);
    if (!test) return { fault: WANTED[kind] };
    return { look: (event, isUriOf) => valuesIn(event, match, isUriOf).some((value) => value !== undefined && test(value)) };
  }
  return undefined;
}

/** How names are spelt out under these contexts. */
export function spellerOf(contexts: readonly unknown[]): IsUriOf {
  const declared = declaredIn(contexts);
  return (asked, name) => {
    const colon = name.indexOf(":");
    const prefix = name.slice(0, colon);
    const to = colon > 0 && Object.hasOwn(declared, prefix) ? declared[prefix] : undefined;
    const base = isObject(to) ? to["@id"] : to;
    const own = name.slice(colon + 1);
    return typeof base === "string" && (asked === base + own || asked === `${base}#${own}`);
  };
}
