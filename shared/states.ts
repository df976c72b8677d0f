// What may follow what, as tables: the domain, the SQL, OpenAPI and the README read these and nothing else.

/** A product's way to its passport. The way back from ready_for_dpp is open only while there is no passport. */
export const productStages = {
  draft: { status: "Draft", next: ["validated"] },
  validated: { status: "Validated", next: ["ready_for_dpp"] },
  ready_for_dpp: { status: "ReadyForDpp", next: ["draft"] },
} as const satisfies Record<string, { status: string; next: readonly string[] }>;

export type ProductStage = keyof typeof productStages;
export const VOIDED = "Voided";
export const productStatuses = [...Object.values(productStages).map(({ status }) => status), VOIDED] as const;

/** What a product is, and with it its passport: all of a model, a batch of it, or one thing. */
export const granularities = ["model", "batch", "item"] as const;
export type Granularity = (typeof granularities)[number];

/** A passport's commands and the states that they are legal in; `draft` where they also need an open draft version. */
export const passportCommands = {
  edit: { from: ["draft", "published"], draft: true },
  delete: { from: ["draft"], draft: true },
  publish: { from: ["draft", "published", "suspended"], draft: true },
  reinstate: { from: ["suspended"], draft: false },
  revise: { from: ["published"], draft: false },
  suspend: { from: ["published"], draft: false },
  archive: { from: ["published", "suspended"], draft: false },
  validate: { from: ["draft", "published", "suspended"], draft: false },
} as const satisfies Record<string, { from: readonly PassportState[]; draft: boolean }>;

export const passportStates = ["generating", "draft", "published", "suspended", "archived"] as const;
export type PassportState = (typeof passportStates)[number];
export type PassportCommand = keyof typeof passportCommands;

/** Evidence by grade: how sure one can be that paper came out. A device attests from `attests` on; below it a person does. */
export const grades = {
  "A+": { says: "the printer keeps a job id that can be asked for later", attests: true },
  A: { says: "the printer echoed, in order, that this label is done", attests: true },
  B: { says: "the printer answered, in order, behind the label", attests: true },
  C: { says: "the printer's status around the transmission", attests: false },
  D: { says: "a spooler or a print server said completed", attests: false },
  E: { says: "the transport took the bytes, nothing more", attests: false },
} as const satisfies Record<string, { says: string; attests: boolean }>;
export type Grade = keyof typeof grades;

/** Who can say something of a print job. `system` is the reaper, `issuer` whoever may write jobs. */
export type Assertor = "issuer" | "device" | "operator" | "system";

/**
 * A print job's states. `next`: what may follow, and nothing else. `by`: on whose word the state is entered. `evidence`: what that word has to bring.
 * `lease`: what the end of a lease means there; where it is `uncertain` a label may exist, so that only a void cancels the job.
 */
export const jobStates = {
  QUEUED: {
    says: "created from an allocated serial, waiting for a claim",
    next: ["CLAIMED", "CANCELLED"],
    by: ["issuer"],
    evidence: null,
    lease: null,
  },
  CLAIMED: {
    says: "a device holds it under a lease, with a fresh attempt_id",
    next: ["RENDERED", "FAILED", "CLAIMED", "CANCELLED", "DEAD_LETTER"],
    by: ["device"],
    evidence: null,
    lease: "reclaimable",
  },
  RENDERED: {
    says: "label content produced, decoded back and equal",
    next: ["SPOOL_SUBMITTED", "FAILED", "CLAIMED", "CANCELLED", "DEAD_LETTER"],
    by: ["device", "operator"],
    evidence: "render_manifest",
    lease: "reclaimable",
  },
  SPOOL_SUBMITTED: {
    says: "the next machine accepted every byte; paper isn't implied",
    next: ["PRINTED_ATTESTED", "FAILED", "CANCELLED"],
    by: ["device", "operator"],
    evidence: "spool_receipt",
    lease: "uncertain",
  },
  PRINTED_ATTESTED: {
    says: "paper came out, on the word of a device that can know or of a person",
    next: ["SCAN_VERIFIED", "FAILED", "CANCELLED"],
    by: ["device", "operator"],
    evidence: "completion",
    lease: "uncertain",
  },
  SCAN_VERIFIED: {
    says: "the printed symbol was decoded to the expected payload",
    next: ["SEALED", "FAILED", "CANCELLED"],
    by: ["device", "operator"],
    evidence: "scan_result",
    lease: "uncertain",
  },
  SEALED: {
    says: "ended well: the evidence is bundled and anchored",
    next: [],
    by: ["device", "operator"],
    evidence: "evidence_bundle",
    lease: null,
  },
  FAILED: {
    says: "this attempt failed; the job is claimable while its budget lasts",
    next: ["CLAIMED", "CANCELLED", "DEAD_LETTER"],
    by: ["device", "operator", "system"],
    evidence: null,
    lease: null,
  },
  DEAD_LETTER: { says: "ended badly: the budget of attempts is used up", next: [], by: ["system"], evidence: null, lease: null },
  CANCELLED: {
    says: "ended before physical work, or with its serial or product voided",
    next: [],
    by: ["issuer"],
    evidence: null,
    lease: null,
  },
} as const satisfies Record<
  string,
  { says: string; next: readonly string[]; by: readonly Assertor[]; evidence: string | null; lease: "reclaimable" | "uncertain" | null }
>;
export type JobState = keyof typeof jobStates;
export const jobStateNames = Object.keys(jobStates) as JobState[];

/** The way of one attempt, in order: a device reports its states one by one from the third on. */
export const jobPath = ["QUEUED", "CLAIMED", "RENDERED", "SPOOL_SUBMITTED", "PRINTED_ATTESTED", "SCAN_VERIFIED", "SEALED"] as const;
/** A state's place on that path; -1 for a state that isn't on it, in which the attempt is over. */
export const rankOf = (state: JobState): number => (jobPath as readonly JobState[]).indexOf(state);
export const PAPER_MAY_EXIST = rankOf("SPOOL_SUBMITTED");

export const mayFollow = (from: JobState, to: JobState): boolean => (jobStates[from].next as readonly string[]).includes(to);
export const hasEnded = (state: JobState): boolean => jobStates[state].next.length === 0;
export const openStates = jobStateNames.filter((state) => !hasEnded(state));
/** Before physical work, or once its attempt has failed. */
export const mayCancel = (state: JobState): boolean => mayFollow(state, "CANCELLED") && leaseOf(state) !== "uncertain";
export const leaseOf = (state: JobState) => jobStates[state].lease;
export const leasedStates = jobStateNames.filter((state) => leaseOf(state) !== null);
