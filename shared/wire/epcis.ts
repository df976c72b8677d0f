// EPCIS 2.0 as JSON: the shapes of its five events, its documents and its capture job. What holds between fields is judged in the domain.
import { type TProperties, type TSchema, Type } from "typebox";
import { limits } from "../limits.ts";
import { AnyObject, closed, EPCIS_2, HEX, OFFSET, type Static, UNIT_CODE } from "./common.ts";

const Uri = Type.String({ format: "uri" });
/** One that events are found by. */
const Key = Type.String({ format: "uri", maxLength: limits.EPCIS_KEY_MAX_LENGTH });
/** A bare word of the CBV or a URI; which words there are is a table of its own. */
const Word = Type.String({ minLength: 1, maxLength: limits.EPCIS_KEY_MAX_LENGTH });
const Time = Type.String({ format: "date-time" });
const list = <Schema extends TSchema>(item: Schema, more: { uniqueItems?: boolean; minItems?: number } = {}) => Type.Array(item, more);
const unique = { uniqueItems: true };

/** An object with room for extensions: keys with a namespace, `prefix:name` or a whole URI. */
const open = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false, patternProperties: { ":": {} } });
const some = (properties: Record<string, TSchema>) =>
  Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, Type.Optional(schema)]));

const Quantity = closed({
  epcClass: Key,
  quantity: Type.Optional(Type.Number()),
  uom: Type.Optional(Type.String({ pattern: UNIT_CODE, description: "UN/CEFACT Recommendation 20" })),
});
const Place = Type.Object({ id: Key });
const ErrorDeclaration = open({ declarationTime: Time, ...some({ reason: Word, correctiveEventIDs: list(Key) }) });
const PersistentDisposition = Type.Object(
  some({ set: list(Word, { ...unique, minItems: 1 }), unset: list(Word, { ...unique, minItems: 1 }) }),
  { additionalProperties: false, minProperties: 1 },
);
const Origin = { deviceID: Key, deviceMetadata: Uri, rawData: Uri, dataProcessingMethod: Key, bizRules: Key };
const numbers = ["value", "minValue", "maxValue", "meanValue", "sDev", "percRank", "percValue"];
const SensorReport = open({
  type: Word,
  ...some({
    ...Origin,
    ...Object.fromEntries(numbers.map((name) => [name, Type.Number()])),
    exception: Word,
    time: Time,
    microorganism: Key,
    chemicalSubstance: Key,
    coordinateReferenceSystem: Uri,
    component: Word,
    stringValue: Type.String(),
    booleanValue: Type.Boolean(),
    hexBinaryValue: Type.String({ pattern: HEX }),
    uriValue: Uri,
    uom: Type.String(),
  }),
});
const SensorElement = open({
  sensorMetadata: Type.Optional(open(some({ ...Origin, time: Time, startTime: Time, endTime: Time }))),
  sensorReport: list(SensorReport, { minItems: 1 }),
});

const common = {
  "@context": Type.Optional(Type.Unknown()),
  eventTime: Time,
  eventTimeZoneOffset: Type.String({ pattern: OFFSET, description: "±hh:mm up to 14:00, never Z" }),
  ...some({
    recordTime: Time,
    eventID: Key,
    certificationInfo: Type.Union([Uri, list(Uri)]),
    errorDeclaration: ErrorDeclaration,
  }),
};
const Transaction = closed({ type: Type.Optional(Word), bizTransaction: Key });
const business = some({
  bizStep: Word,
  disposition: Word,
  persistentDisposition: PersistentDisposition,
  readPoint: Place,
  bizLocation: Place,
  bizTransactionList: list(Transaction),
  sourceList: list(closed({ type: Word, source: Key })),
  destinationList: list(closed({ type: Word, destination: Key })),
  sensorElementList: list(SensorElement),
});
const action = Type.Enum(["OBSERVE", "ADD", "DELETE"]);
const Ilmd = open({});
const children = { ...some({ childEPCs: list(Key), childQuantityList: list(Quantity) }), action };
const event = <Properties extends TProperties>(type: string, properties: Properties) =>
  open({ type: Type.Literal(type), ...common, ...business, ...properties });

export const eventSchemas = {
  ObjectEvent: event("ObjectEvent", { ...some({ epcList: list(Key, unique), quantityList: list(Quantity), ilmd: Ilmd }), action }),
  AggregationEvent: event("AggregationEvent", { ...some({ parentID: Key }), ...children }),
  AssociationEvent: event("AssociationEvent", { parentID: Key, ...children }),
  TransactionEvent: event("TransactionEvent", {
    ...some({ parentID: Key, epcList: list(Key), quantityList: list(Quantity) }),
    action,
    bizTransactionList: list(Transaction, { minItems: 1 }),
  }),
  TransformationEvent: event(
    "TransformationEvent",
    some({
      inputEPCList: list(Key, unique),
      inputQuantityList: list(Quantity),
      outputEPCList: list(Key, unique),
      outputQuantityList: list(Quantity),
      transformationID: Key,
      ilmd: Ilmd,
    }),
  ),
} as const;
/** An event of a type of one's own, named by a URI: what all events have, and whatever else. */
export const ExtendedEvent = Type.Object({ type: Key, ...common });

const ContextEntry = Type.Union([Uri, Type.Object({})]);
export const Context = Type.Union([ContextEntry, list(ContextEntry, unique)]);
const head = { "@context": Type.Unknown(), ...some({ id: Uri }) };
const version = Type.String({ pattern: EPCIS_2, description: "2.0" });
export const EpcisDocument = open({
  ...head,
  type: Type.Literal("EPCISDocument"),
  schemaVersion: version,
  creationDate: Time,
  ...some({ instanceIdentifier: Type.String(), sender: Type.String(), receiver: Type.String() }),
  epcisHeader: Type.Optional(open(some({ epcisMasterData: AnyObject }))),
  epcisBody: Type.Object(some({ eventList: list(Type.Unknown()), event: AnyObject }), { minProperties: 1 }),
});
const results = (events: TSchema) =>
  open({
    queryResults: open({
      queryName: Type.String(),
      ...some({ subscriptionID: Type.String() }),
      resultsBody: open({ eventList: events, ...some({ vocabularyList: list(AnyObject) }) }),
    }),
  });
export const EpcisQueryDocument = open({
  ...head,
  type: Type.Literal("EPCISQueryDocument"),
  ...some({ schemaVersion: version, creationDate: Time }),
  epcisBody: results(list(Type.Unknown())),
});

export const OneEvent = Type.Union([...Object.values(eventSchemas), ExtendedEvent], {
  description: `One event of EPCIS 2.0 in JSON, of ${limits.EPCIS_EVENT_MAX_BYTES} bytes at most`,
});
/** Events inside a document are judged one by one, as if they came alone. */
export const Captured = Type.Union([EpcisDocument, EpcisQueryDocument, OneEvent], {
  description: `A document of EPCIS 2.0, or one event; each event has ${limits.EPCIS_EVENT_MAX_BYTES} bytes at most`,
});

const Count = Type.Integer({ minimum: 1, maximum: 1_000_000_000 });
const PerPage = Type.Integer({ minimum: 1, maximum: 1_000_000_000, default: limits.EPCIS_PAGE_DEFAULT_ITEMS });
const NextPageToken = Type.String({ minLength: 1, maxLength: 2_000, description: "From the Link of the page before" });
export const JobQuery = closed(some({ perPage: PerPage, nextPageToken: NextPageToken }));
/** The query language's parameters by their names; which there are is the query's own table. */
const saysOf = (name: string): string => {
  if (name.startsWith("EXISTS_")) return "Events that have it; the value doesn't matter";
  if (/Time$|_time$/.test(name)) return "An instant with its offset, such as 2026-11-21T09:00:00Z";
  return name.startsWith("EQ_") || name === "eventType" || /^(MATCH|WD)_/.test(name) ? "Values parted by |" : "A number";
};
export const eventQuery = (names: readonly string[]) =>
  Type.Object(
    some({
      ...Object.fromEntries(names.map((name) => [name, Type.String({ description: saysOf(name) })])),
      orderBy: Type.String({ description: "eventTime or recordTime" }),
      orderDirection: Type.String({ description: "ASC or DESC" }),
      eventCountLimit: Count,
      maxEventCount: Count,
      perPage: PerPage,
      nextPageToken: NextPageToken,
    }),
    { additionalProperties: Type.String() },
  );
export const EventAnswer = Type.Object(
  {
    type: Type.Literal("EPCISQueryDocument"),
    schemaVersion: Type.String(),
    creationDate: Type.String(),
    epcisBody: results(list(AnyObject)),
  },
  { additionalProperties: true, description: "EPCISQueryDocument with the result of a SimpleEventQuery" },
);
export const EventKept = Type.Object(
  { "@context": Type.Unknown(), type: Type.String(), eventID: Type.String(), recordTime: Type.String() },
  { additionalProperties: true, description: "The event as it is kept" },
);
export type EventKept = Static<typeof EventKept>;

export const behaviours = ["rollback", "proceed"] as const;
export type Behaviour = (typeof behaviours)[number];
const Problem = Type.Object({ type: Type.String(), title: Type.String(), status: Type.Integer(), detail: Type.String() });
export type Problem = Static<typeof Problem>;
export const CaptureJob = closed({
  captureID: Type.String(),
  createdAt: Type.String(),
  finishedAt: Type.String(),
  running: Type.Boolean(),
  success: Type.Boolean(),
  captureErrorBehaviour: Type.Enum([...behaviours]),
  errors: list(Problem),
});
export type CaptureJob = Static<typeof CaptureJob>;
