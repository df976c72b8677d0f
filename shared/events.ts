// The catalogue of events: what each tells and the shape of its data, once. OpenAPI, README, validation and tests read it from here.
import { type Static, type TProperties, Type } from "typebox";
import { API } from "./api.ts";
import { limits } from "./limits.ts";
import { granularities } from "./states.ts";
import { closed, Id, Instant, nullable } from "./wire/common.ts";

/** The date form of the envelope and of all data shapes below. */
export const EVENT_API_VERSION = "2026-11-01";

const text = Type.String();
const product = {
  productId: Id,
  gtin: text,
  serialNumber: text,
  granularity: Type.Enum([...granularities]),
  category: text,
  status: text,
  stage: text,
  version: Type.Integer({ description: "The product's version that this event made" }),
  changed: Type.Array(text, { description: "Fields that changed" }),
};
const imported = {
  importId: Id,
  category: text,
  total: nullable(Type.Integer()),
  processed: Type.Integer(),
  created: Type.Integer(),
  failed: Type.Integer(),
  fault: nullable(Type.String({ description: "Why the file as a whole was no use" })),
};
const judged = {
  productId: Id,
  sector: text,
  pack: closed({ celexId: text, version: text }),
  status: text,
  score: nullable(Type.Number()),
  evaluatedAt: Type.Optional(Instant),
};
const serials = Type.Array(text, { minItems: 1, maxItems: limits.PRINT_OUTCOMES_MAX_ITEMS });
/** A batch of outcomes has serials of any product; one label's job names its own. */
const outcome = {
  serials,
  gtin: Type.Optional(text),
  productId: Type.Optional(Id),
  job_ref: Type.Optional(text),
  attempt_id: Type.Optional(text),
  deviceId: Type.Optional(nullable(text)),
  reportedAt: Type.Optional(Instant),
};

type Row<Data extends TProperties> = { says: string; data: Data; example: object };
const event = <Data extends TProperties>(row: Row<Data>) => ({ ...row, data: closed(row.data) });

const PRODUCT = "019a0000-0000-7000-8000-000000000001";
const kettle = {
  productId: PRODUCT,
  gtin: "04006381333931",
  serialNumber: "K17-1",
  granularity: "model",
  category: "electronics",
  status: "Draft",
  stage: "draft",
};
const file = { importId: "019a0000-0000-7000-8000-000000000002", category: "electronics" };
const verdict = { productId: PRODUCT, sector: "espr", pack: { celexId: "32024R1781", version: "1.0.0" } };

export const eventTable = {
  "product.created": event({
    says: "A product was created, by itself, in a batch or by an import",
    data: product,
    example: { ...kettle, version: 1, changed: ["name", "description"] },
  }),
  "product.updated": event({
    says: "A product was changed, moved to another stage or voided",
    data: {
      ...product,
      from: Type.Optional(Type.String({ description: "The stage before, where it moved" })),
      to: Type.Optional(Type.String({ description: "The stage that it moved to" })),
      reason: Type.Optional(nullable(text)),
      serial: Type.Optional(Type.String({ description: "The one serial that was voided, where it wasn't the product" })),
    },
    example: { ...kettle, version: 2, changed: ["name"] },
  }),
  "product.deleted": event({
    says: "A product was deleted",
    data: product,
    example: { ...kettle, version: 3, changed: [] },
  }),
  "product.published": event({
    says: "A product's passport became what the public sees",
    data: { ...product, passportId: Id, passportVersion: Type.Integer() },
    example: {
      ...kettle,
      status: "ReadyForDpp",
      stage: "ready_for_dpp",
      version: 4,
      changed: [],
      passportId: "019a0000-0000-7000-8000-000000000003",
      passportVersion: 1,
    },
  }),
  "compliance.verified": event({
    says: "A product was evaluated against a regulation pack",
    data: { ...judged, obligationIds: Type.Array(text, { description: "Those that are met" }) },
    example: { ...verdict, status: "FullyCompliant", score: 100, obligationIds: ["ESPR_ART7_DURABILITY"] },
  }),
  "compliance.violation_created": event({
    says: "An evaluation found obligations violated",
    data: { ...judged, obligationIds: Type.Array(text, { minItems: 1 }) },
    example: { ...verdict, status: "NonCompliant", score: 60, obligationIds: ["ESPR_ART7_REPAIRABILITY"] },
  }),
  "passport.anchored": event({
    says: "A passport's current version was signed and anchored",
    data: { passportId: Id, productId: Id, version: Type.Integer(), digest: text, anchor: text },
    example: {
      passportId: "019a0000-0000-7000-8000-000000000003",
      productId: PRODUCT,
      version: 1,
      digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
      anchor: `https://passports.example${API}/log#7`,
    },
  }),
  "scan.recorded": event({
    says: "A label was scanned: its link was resolved, or an inspection captured",
    data: {
      gtin: text,
      serial: nullable(text),
      at: Instant,
      source: Type.Enum(["resolver", "epcis"]),
      eventId: Type.Optional(text),
      productId: Type.Optional(Id),
    },
    example: { gtin: "04006381333931", serial: "1234567", at: "2026-11-01T12:00:00.000Z", source: "resolver" },
  }),
  "import.completed": event({
    says: "A file of products was worked off",
    data: imported,
    example: { ...file, total: 2, processed: 2, created: 1, failed: 1, fault: null },
  }),
  "import.failed": event({
    says: "A file of products was no use; nothing after the named fault was taken",
    data: imported,
    example: { ...file, total: null, processed: 0, created: 0, failed: 0, fault: "the file isn't UTF-8" },
  }),
  "carrier.generated": event({
    says: "Serials were allocated; their print file waits at exportPath",
    data: { productId: Id, gtin: text, count: Type.Integer(), exportPath: text, serials: Type.Optional(Type.Array(text)) },
    example: { productId: PRODUCT, gtin: "04006381333931", count: 100, exportPath: `${API}/carriers/export?productId=${PRODUCT}` },
  }),
  "print.confirmed": event({
    says: "Labels were printed: outcomes of one report, or a job that was sealed",
    data: outcome,
    example: { serials: ["1234567"], gtin: "04006381333931", job_ref: "pj_01K9A0B1C2D3E4F5G6H7J8K9MN" },
  }),
  "print.failed": event({
    says: "Labels weren't printed, each with its reason",
    data: {
      ...outcome,
      failures: Type.Array(closed({ serial: text, reason: nullable(text) }), { minItems: 1, maxItems: limits.PRINT_OUTCOMES_MAX_ITEMS }),
    },
    example: { serials: ["1234568"], failures: [{ serial: "1234568", reason: "ribbon out" }] },
  }),
} as const;

export type EventName = keyof typeof eventTable;
export type EventData = { [Name in EventName]: Static<(typeof eventTable)[Name]["data"]> };
export const eventNames = Object.keys(eventTable) as EventName[];
export const isEventName = (name: string): name is EventName => Object.hasOwn(eventTable, name);

/** What is sent: these five and no more. */
export const envelopeOf = (type: EventName) =>
  closed({
    id: Type.String({ format: "uuid", description: "The event's; the same at every endpoint and every try" }),
    type: Type.Literal(type),
    timestamp: Instant,
    apiVersion: Type.Literal(EVENT_API_VERSION),
    data: eventTable[type].data,
  });
