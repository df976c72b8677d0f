// A print job and its attempts: issued, claimed under a lease, reported stage by stage, sealed with its evidence.
import { Type } from "typebox";
import { limits } from "../limits.ts";
import { jobStateNames } from "../states.ts";
import {
  closed,
  ErrorReply,
  Id,
  Instant,
  MaxAttempts,
  MoreCursor,
  nullable,
  PageQuery,
  Reason,
  Sha256,
  shownAs,
  type Static,
  Word,
} from "./common.ts";
import { evidenceShapes } from "./evidence.ts";
import { LogProof } from "./log.ts";

const State = Type.Enum(jobStateNames);
export const needNames = ["qr", "rfid"] as const;
export type Need = (typeof needNames)[number];
export const Needs = Type.Array(Type.Enum([...needNames]), { minItems: 1, maxItems: needNames.length, uniqueItems: true });
const LeaseSeconds = Type.Integer({ minimum: limits.LEASE_MIN_S, maximum: limits.LEASE_MAX_S, default: limits.LEASE_DEFAULT_S });
const JobRef = Type.String({ minLength: 1, maxLength: 64, description: "pj_ and 26 characters that sort as they were issued" });

export const JobCreate = closed({
  gtin: Type.String({ minLength: 1, maxLength: 64 }),
  serial: Type.String({ minLength: 1, maxLength: 64, description: "Allocated by POST /carriers/batch" }),
  needs: Type.Optional(Needs),
  template: Type.Optional(Word),
  priority: Type.Optional(Type.Integer({ minimum: -1_000_000, maximum: 1_000_000, default: 0, description: "The higher, the sooner" })),
  station: Type.Optional(nullable(Word)),
  max_attempts: Type.Optional(MaxAttempts),
  reprint: Type.Optional(Type.Boolean({ description: "Needed where the serial was sealed before" })),
  reason: Type.Optional(Reason),
});
export type JobCreate = Static<typeof JobCreate>;
export const JobBatch = closed({ items: Type.Array(shownAs(JobCreate), { minItems: 1, maxItems: limits.JOBS_MAX_ITEMS }) });

const Lease = closed({ device_id: Id, expires_at: Instant });
export const Job = closed({
  job_ref: JobRef,
  state: State,
  product_id: Id,
  gtin: Type.String(),
  serial: Type.String(),
  digital_link: Type.String(),
  sgtin96_epc: nullable(Type.String()),
  needs: Needs,
  template: Type.String(),
  priority: Type.Integer(),
  station: nullable(Type.String()),
  attempt_id: nullable(Id),
  attempt: Type.Integer(),
  max_attempts: Type.Integer(),
  lease: nullable(Lease),
  reason: nullable(Type.String()),
  duplicate_risk: Type.Boolean({ description: "A label of an earlier attempt may exist: have it destroyed first" }),
  reprint: Type.Boolean(),
  created_at: Instant,
  updated_at: Instant,
});
export type Job = Static<typeof Job>;
export const JobsMade = closed({
  created: Type.Integer(),
  failed: Type.Integer(),
  errors: Type.Array(closed({ index: Type.Integer(), error: Type.String() })),
  jobs: Type.Array(Job, { description: "Those created, in the order of their items" }),
});
export type JobsMade = Static<typeof JobsMade>;

export const RefParams = closed({ ref: JobRef });
export const JobQuery = closed({
  ...PageQuery,
  state: Type.Optional(State),
  gtin: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  serial: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  device: Type.Optional(Id),
});
export type JobQuery = Static<typeof JobQuery>;
export const JobCancel = closed({ reason: Type.Optional(Reason) });

const claim = { needs: Type.Optional(Needs), station: Type.Optional(Word), lease_seconds: Type.Optional(LeaseSeconds) };
export const Claim = closed({ ...claim, max: Type.Optional(Type.Literal(1)) });
export const ClaimBatch = closed({
  ...claim,
  max: Type.Optional(Type.Integer({ minimum: 1, maximum: limits.CLAIMS_MAX_ITEMS, default: 1 })),
});
export type ClaimBatch = Static<typeof ClaimBatch>;
/** What the header of an envelope says that it is, so that nothing else that we signed passes for one. */
export const ENVELOPE_TYPE = "imprimatur-job+jwt";
export const Claimed = closed({ job: Job, attempt_id: Id, lease: Lease, envelope: Type.String({ description: "A compact JWS (EdDSA)" }) });
export type Claimed = Static<typeof Claimed>;
export const ClaimedMany = closed({ claims: Type.Array(Claimed) });

export const Heartbeat = closed({ attempt_id: Id, lease_seconds: Type.Optional(LeaseSeconds) });
export const LeaseTaken = closed({ lease: Lease });

const Actor = closed({ kind: Type.Enum(["device", "operator"]), id: Type.Optional(Word) });
export type JobActor = Static<typeof Actor>;
const Disposed = Type.Object(
  { outcome: Type.String({ description: "destroyed or not_printed, of an attempt that failed; anything else says nothing" }) },
  { additionalProperties: true },
);
/** What a stage needs, and what an attempt that failed may say of its label. */
const Staged = Type.Object(
  {
    ...Type.Partial(Type.Object(evidenceShapes)).properties,
    label_disposition: Type.Optional(Disposed),
  },
  { additionalProperties: true, description: "What the status needs, under its own name; each is required by its status alone" },
);
/** What each stage brings is judged where the state is known, so that a refusal can say what is missing. */
const Evidence = Type.Record(Type.String(), Type.Unknown(), { description: `By stage: ${Object.keys(evidenceShapes).join(", ")}` });
const SentEvidence = Type.Record(Type.String(), Type.Unknown(), { shownAs: Staged });
const report = {
  status: State,
  attempt_id: Id,
  evidence: Type.Optional(SentEvidence),
  reason: Type.Optional(Reason),
  actor: Type.Optional(Actor),
  occurred_at: Type.Optional(Instant),
};
export const Result = closed(report);
export type Result = Static<typeof Result>;
export const ResultItem = closed({
  ...report,
  job_ref: JobRef,
  idempotency_key: Type.Optional(Type.String({ minLength: 1, maxLength: limits.IDEMPOTENCY_KEY_MAX_LENGTH })),
});
export type ResultItem = Static<typeof ResultItem>;
export const ResultBatch = closed({ results: Type.Array(shownAs(ResultItem), { minItems: 1, maxItems: limits.RESULTS_MAX_ITEMS }) });
const ResultOutcome = closed({
  index: Type.Integer(),
  status: Type.Integer(),
  job: Type.Optional(Job),
  error: Type.Optional(ErrorReply.properties.error),
});
export type ResultOutcome = Static<typeof ResultOutcome>;
export const ResultOutcomes = closed({ results: Type.Array(ResultOutcome) });

const Moment = closed({
  at: Instant,
  from: nullable(State),
  to: State,
  attempt_id: nullable(Id),
  attempt: Type.Integer(),
  actor: closed({ kind: Type.String(), id: nullable(Type.String()) }),
  reason: nullable(Type.String()),
  occurred_at: nullable(Type.String()),
  label_disposition: Type.Optional(Disposed),
});
export const JobHistory = closed({ data: Type.Array(Moment), nextCursor: MoreCursor });
export type JobHistory = Static<typeof JobHistory>;

export const BundleItem = closed({
  status: State,
  evidence: Type.Optional(Evidence),
  actor: Type.Optional(Actor),
  occurred_at: Type.Optional(Type.String()),
});
export type BundleItem = Static<typeof BundleItem>;
export const EvidenceQuery = closed({ attempt_id: Type.Optional(Id) });
export type EvidenceQuery = Static<typeof EvidenceQuery>;
export const EvidenceBundle = closed({
  attempt_id: Id,
  items: Type.Array(BundleItem, { description: "RENDERED to SCAN_VERIFIED, as they were sent" }),
  sha256: Type.String({ description: "SHA-256 of the RFC 8785 form of `items`" }),
  proof: nullable(LogProof),
  fault: Type.Optional(
    Type.String({
      description: "Only where what is kept isn't what was sealed: how they differ. `proof` is of the digest that was sealed",
    }),
  ),
});
export type EvidenceBundle = Static<typeof EvidenceBundle>;

const Disposition = Type.Enum(["found", "destroyed"]);
export const OrphanReport = closed({
  job_ref: JobRef,
  attempt_id: Id,
  evidence: Evidence,
  disposition: Disposition,
  actor: Actor,
});
export type OrphanReport = Static<typeof OrphanReport>;
export const Orphan = closed({
  id: Id,
  job_ref: JobRef,
  attempt_id: Id,
  gtin: Type.String(),
  serial: Type.String(),
  disposition: Disposition,
  evidence: Evidence,
  actor: Actor,
  created_at: Instant,
  updated_at: Instant,
});
export type Orphan = Static<typeof Orphan>;
export const OrphanQuery = closed({ ...PageQuery, disposition: Type.Optional({ ...Disposition, default: "found" }) });

export const BlobParams = closed({ sha256: Sha256 });
export const BlobKept = closed({ sha256: Type.String(), bytes: Type.Integer() });
