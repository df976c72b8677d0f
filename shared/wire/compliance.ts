// Compliance as it is asked for and answered: packs, selections, evaluations with their findings.
import { Type } from "typebox";
import {
  type ComplianceStatus,
  lifecycleStages,
  type Outcome,
  outcomes,
  type PackState,
  packStates,
  priorities,
  regions,
  sectorNames,
  severities,
  type Severity,
  statuses,
} from "../compliance.ts";
import { limits } from "../limits.ts";
import { closed, Id, Instant, InstantOrDay, nullable, Sha256, type Static, VISIBLE } from "./common.ts";

export const SectorName = Type.Enum([...sectorNames]);
export const Priority = Type.Enum([...priorities]);
const Status = Type.Enum(Object.keys(statuses) as ComplianceStatus[]);
export const Celex = Type.String({ pattern: "^3[0-9]{4}[A-Z][0-9]{4}$", description: "CELEX number of the regulation" });
export const Semver = Type.String({ pattern: String.raw`^(0|[1-9]\d{0,5})(\.(0|[1-9]\d{0,5})){2}$` });
const Digest = Type.String({ ...Sha256, description: "SHA-256 of the pack's file by RFC 8785" });
export const Term = Type.String({ minLength: 1, maxLength: 100, pattern: VISIBLE });

export const PackEntry = closed({
  celexId: Celex,
  version: Semver,
  title: Type.String(),
  status: Type.Enum(Object.keys(packStates) as PackState[]),
  priority: Priority,
  sectors: Type.Array(SectorName),
  jurisdiction: Type.String(),
  categories: nullable(Type.Array(Type.String(), { description: "null: products of any" })),
  lifecycleStages: Type.Array(Type.Enum([...lifecycleStages])),
  effectiveFrom: nullable(Instant),
  effectiveUntil: nullable(Instant),
  quarantined: Type.Boolean({ description: "Kept, shown and never evaluated" }),
  obligations: Type.Integer({ description: "How many rules it has" }),
  digest: Digest,
});
export type PackEntry = Static<typeof PackEntry>;

export const RegulationSelect = closed({
  context: closed({
    region: Type.Enum([...regions], { description: "EU or one of its members, ISO 3166-1 alpha-2" }),
    productCategory: Term,
    lifecycleStage: Term,
    effectiveDate: InstantOrDay,
  }),
  minimumPriorityLevel: Priority,
});
export type RegulationSelect = Static<typeof RegulationSelect>;
export const RegulationSelection = closed({
  data: Type.Array(PackEntry),
  unrecognised: Type.Array(Type.String(), { description: "Fields of the context whose value nobody knows: they narrowed nothing" }),
  evaluatedAt: Instant,
});

const Looked = closed({
  field: Type.String({ description: "JSON pointer into the product, its extensions and its passport" }),
  present: Type.Boolean(),
  value: Type.Optional(Type.Unknown({ description: "As it was then" })),
  digest: Type.Optional(Type.String({ description: "SHA-256 by RFC 8785, where the value is too large to be shown" })),
});
export const Finding = closed({
  obligationId: Type.String({ description: "Such as ESPR_ART7_DURABILITY" }),
  title: Type.String(),
  article: Type.String(),
  text: Type.String({ description: "What the law asks, paraphrased" }),
  outcome: Type.Enum(Object.keys(outcomes) as Outcome[]),
  severity: Type.Enum(Object.keys(severities) as Severity[]),
  message: Type.String(),
  evidence: closed({
    fields: Type.Array(Looked),
    missing: Type.Array(Type.String(), { description: "Fields that it needs and that are absent" }),
    satisfiedBy: Type.String({ description: "What would satisfy it" }),
  }),
});
export type Finding = Static<typeof Finding>;

const Pinned = closed({ celexId: Celex, version: Semver, digest: Digest });
export const Evaluation = closed({
  productId: Id,
  productName: Type.String(),
  gtin: Type.String(),
  productVersion: Type.Integer(),
  passport: nullable(closed({ id: Id, version: nullable(Type.Integer()), revision: Type.Integer() })),
  sector: SectorName,
  pack: Pinned,
  score: Type.Integer({ minimum: 0, maximum: 100 }),
  status: Status,
  findings: Type.Array(Finding),
  evaluatedAt: Instant,
});
export type Evaluation = Static<typeof Evaluation>;

export const EvaluationBatch = closed({
  sectors: Type.Optional(Type.Array(SectorName, { minItems: 1, uniqueItems: true, description: "All that are evaluated, where absent" })),
  productIds: Type.Array(Id, { minItems: 1, maxItems: limits.BATCH_MAX_ITEMS }),
});
export type EvaluationBatch = Static<typeof EvaluationBatch>;
export const EvaluationSummary = closed({
  productId: Id,
  sector: SectorName,
  pack: Pinned,
  score: Type.Integer(),
  status: Status,
  evaluatedAt: Instant,
});
export type EvaluationSummary = Static<typeof EvaluationSummary>;
export const EvaluationSummaries = closed({ data: Type.Array(EvaluationSummary) });
export const EvaluationBatchResult = closed({
  data: Type.Array(EvaluationSummary),
  errors: Type.Array(
    closed({ index: Type.Integer({ description: "Place in productIds" }), productId: Id, sector: SectorName, error: Type.String() }),
  ),
});
export type EvaluationBatchResult = Static<typeof EvaluationBatchResult>;

export const SectorParams = closed({ id: Id, sector: Type.String({ minLength: 1, maxLength: 50, description: "One of the sectors" }) });
