// Carriers: serials allocated for labels, what a printer needs to know of each, and what became of it.
import { Type } from "typebox";
import { limits } from "../limits.ts";
import { closed, Id, Instant, nullable, READABLE_OR_EMPTY, type Static } from "./common.ts";

export const printStates = ["printed", "failed", "pending"] as const;
export type PrintState = (typeof printStates)[number];

export const CarrierBatch = closed({
  productId: Id,
  count: Type.Integer({ minimum: 1, maximum: limits.SERIALS_MAX_ITEMS }),
});
export const CarriersMade = closed({ allocated: Type.Integer(), serials: Type.Array(Type.String()) });

/** An unknown printState is a 422 and so not a matter of shape. */
export const CarrierQuery = closed({
  productId: Id,
  format: Type.Optional(Type.Enum(["csv", "json"])),
  printState: Type.Optional(Type.String({ description: printStates.join(", ") })),
});

const PrintOutcome = closed({
  status: Type.Enum(["printed", "failed"]),
  reason: nullable(Type.String()),
  deviceId: nullable(Type.String()),
  reportedAt: Instant,
});
const Metadata = closed({ print: nullable(PrintOutcome) }, { description: "`print` is null until an outcome was reported" });
export const CarrierRow = closed({
  gtin: Type.String(),
  serial: Type.String(),
  digital_link: Type.String({ description: "What the symbol holds" }),
  sgtin96_epc: Type.String({ description: "24 hex digits, or empty where no company prefix of the tenant fits" }),
  metadata: Metadata,
});
export type CarrierRow = Static<typeof CarrierRow>;
export const CarriersExported = closed({ data: Type.Array(CarrierRow) });
export const Carrier = closed({ ...CarrierRow.properties, productId: Id, voidedAt: nullable(Instant), createdAt: Instant });
export type Carrier = Static<typeof Carrier>;

/** What a serial may be is no matter of shape: one that is no serial at all is unknown, and the others stand. An empty reason says nothing, as none does. */
const Outcome = closed({
  serial: Type.String({ minLength: 1, maxLength: limits.REPORTED_SERIAL_MAX_LENGTH }),
  status: Type.Enum(["printed", "failed"]),
  reason: Type.Optional(Type.String({ maxLength: limits.REASON_MAX_LENGTH, pattern: READABLE_OR_EMPTY })),
  deviceId: Type.Optional(Type.String({ maxLength: 64 })),
});
export type Outcome = Static<typeof Outcome>;
export const PrintStatus = closed({ results: Type.Array(Outcome, { minItems: 1, maxItems: limits.PRINT_OUTCOMES_MAX_ITEMS }) });

const Serials = Type.Array(Type.String());
export const PrintStatusTaken = closed({
  updated: Serials,
  unknown: Serials,
  printed: Serials,
  failed: Serials,
  reportedAt: Instant,
  events: Type.Array(closed({ type: Type.Enum(["print.confirmed", "print.failed"]), webhooksNotified: Type.Integer() })),
});
export type PrintStatusTaken = Static<typeof PrintStatusTaken>;

/** A label that somebody has and this cloud doesn't, as it was restored from a backup of before. */
export const LostLabel = closed({
  productId: Type.Optional({ ...Id, description: "What it was allocated for; left out: the model of its GTIN" }),
  gtin: Type.String({ minLength: 1, maxLength: 64 }),
  serial: Type.String({ minLength: 1, maxLength: 64 }),
  reason: Type.Optional(Type.String({ maxLength: limits.REASON_MAX_LENGTH, pattern: READABLE_OR_EMPTY })),
  deviceId: Type.Optional(Type.String({ maxLength: 64 })),
});
export type LostLabel = Static<typeof LostLabel>;
export const LostLabels = closed({ labels: Type.Array(LostLabel, { minItems: 1, maxItems: limits.PRINT_OUTCOMES_MAX_ITEMS }) });
export const Recovered = closed({
  results: Type.Array(
    closed({
      serial: Type.String(),
      outcome: Type.Enum(["recovered", "known", "refused"]),
      message: nullable(Type.String({ description: "Why it was refused, or what has to be done about one that is known" })),
    }),
  ),
});
export type Recovered = Static<typeof Recovered>;
