// What every printer language promises: say what you know, how you know it, and "unknown" where you don't. One driver is one file.
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import { type Grade, grades } from "#shared/states.ts";
import type { Evidence } from "#shared/wire/evidence.ts";
import type { Bitmap } from "../bitmap.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { Dpi } from "../label.ts";
import type { Port } from "../duplex.ts";
import { openPort, type PortOptions } from "../port.ts";
import { parsePort } from "../port-url.ts";

/** Whether a device attests with it; else a person has to. */
export const attests = (grade: Grade): boolean => grades[grade].attests;

/** `blocked`: the label waits in the printer for a person; `unknown`: it may have come out, and nobody may print it again by himself. */
export type Outcome = "confirmed" | "blocked" | "failed" | "unknown";
type Provenance = "documented" | "probed" | "assumed";

export type Profile = {
  name: string;
  dpi: Dpi;
  rfid?: boolean;
  simulated?: boolean;
  /** Sent at the head of every label, as the operator wrote it. Absent: the printer's own media, darkness and width stay untouched. */
  setup?: string;
  /** Labels to try until a tag takes its EPC. */
  rfidTries?: number;
  /** ESC/POS: which answer in order this printer gives, where probing is unwanted. */
  fence?: "gs-h" | "gs-r" | "none";
  cut?: boolean;
  /** Labels that may be in it at once: the next then waits in its buffer while one is moving. 1 unless given. */
  inFlight?: number;
  timing?: Partial<Timing>;
};
export type Timing = {
  /** For an answer that a printer gives at once. */
  answerMs: number;
  /** Between two looks at its health while a label is under way. */
  pollMs: number;
  /** Until a label without an answer is unknown. */
  completionMs: number;
  /** From the answer until the counter has moved. */
  settleMs: number;
  /** A write that moves no byte for so long is over. */
  stallMs: number;
};
const TIMING: Timing = { answerMs: 1_000, pollMs: 500, completionMs: 30_000, settleMs: 5_000, stallMs: 10_000 };
const SLOWEST_MS_PER_MM = 40; // an inch a second
/** A long label moves on for seconds when its answer has left, or when the printer is told to drop it. */
export const movesMsFor = (heightMm: number): number => heightMm * SLOWEST_MS_PER_MM;
export const settleMsFor = (heightMm: number): number => TIMING.settleMs + movesMsFor(heightMm);
export const timingOf = ({ timing }: Profile): Timing => ({ ...TIMING, ...timing });

export type FaultName =
  | "media-out"
  | "ribbon-out"
  | "head-open"
  | "paused"
  | "over-temperature"
  | "under-temperature"
  | "head-element"
  | "cutter"
  | "jam"
  | "labels-waiting"
  | "label-not-taken"
  | "offline"
  | "silent"
  | "other";
export type Fault = { name: FaultName; words: string };
export type Status = {
  at: number;
  /** Which questions were answered. */
  source: string[];
  /** Nothing stands in the way; null: it said nothing either way. */
  ready: boolean | null;
  faults: Fault[];
  warnings: string[];
  /** Labels in its buffer. */
  waiting: number | null;
  counters: Counters;
};
/** A model, and the maker's number of this one, which tells a spare from the one that it stands in for; not all tell it. */
export const identityOf = (model: string, unit = ""): string => (/^[\w-]{1,40}$/.test(unit.trim()) ? `${model} (${unit.trim()})` : model);
const NUMBERED = /^(.*) \(([\w-]+)\)$/s;
/** Two names of one model are different printers only where both have a unit number. */
export function isOther(one: string, other: string): boolean {
  const [[, model = one, unit], [, otherModel = other, otherUnit]] = [NUMBERED.exec(one) ?? [], NUMBERED.exec(other) ?? []];
  return model !== otherModel || (unit ?? otherUnit) !== (otherUnit ?? unit);
}

/** Labels that left the printer in its life, and those among them with VOID on them. Null: it has no such counter, or didn't say. */
export type Counters = { labels: number | null; voids: number | null };

export type Capabilities = {
  driver: string;
  /** Null: it gives itself no name. */
  identity: string | null;
  fence: "zpl-hv" | "gs-h" | "gs-r" | "ipp-job" | "none";
  status: boolean;
  counter: boolean;
  rfid: "none" | "write" | "write+readback";
  provenance: Record<string, Provenance>;
  ceiling: Grade;
  /** In words for the station's page: what nothing this printer says could show. */
  cannotDetect: string[];
  /** What it says of itself that doesn't go with how it was set up. */
  warnings?: string[];
  simulated: boolean;
};

export type Encoded = { bytes: Uint8Array; sha256: string; token: string; epc?: string };
export type Submission = {
  token: string;
  epc?: string;
  bytesOffered: number;
  /** 0 says that surely nothing reached the printer; otherwise it may be less than a chunk too high. */
  bytesAccepted: number;
  /** Only where no byte left: the same attempt may be sent again. */
  retryable: boolean;
  before: Counters;
  at: number;
  fault?: string;
  spoolId?: string;
};
/** Its head stands in the printer, and what came next would be taken for its rest. */
export const isCut = ({ bytesAccepted: accepted, bytesOffered: offered }: Submission): boolean => accepted > 0 && accepted < offered;
/** As it goes to the cloud, under `completion`. */
export type CompletionEvidence = Evidence["completion"] & {
  before?: number;
  after?: number;
  epc?: string;
  tid?: string;
  answered_at?: string;
};
export type Completion = {
  outcome: Outcome;
  /** A sentence for the operator and the log. */
  reason: string;
  faults: Fault[];
  /** Labels that came out and must be destroyed before the item is tried again; null: can't be told. */
  toDestroy: number | null;
  evidence: CompletionEvidence;
  /** Its time is over: nothing came that could be its answer, and the line is still there. */
  unanswered?: true;
};
/** Clean: nothing of ours comes out any more. Whether something came out before that only the counters tell, or `untouched`: none of it had gone to the head. */
export type Flush = { clean: boolean; waiting: number | null; words: string; counters?: Counters; untouched?: boolean };

/** For how long a label's end is waited for. */
export type Waiting = { withinMs?: number; signal?: AbortSignal };

export type Printer = {
  /** Asks without printing. */
  probe(): Promise<Capabilities>;
  preflight(): Promise<Status>;
  /** Pure but for the token, which is drawn unless given; refuses what this language can't carry. May have to ask the printer first how it answers. */
  encode(bitmap: Bitmap, options?: { epc?: string; token?: string }): Promise<Encoded>;
  /**
   * The caller has written its intent down before this is called, and is asked once more before the first byte: the printer's answers come first, and take their
   * time. One label is in flight at a time, or as many as the profile says; one that was cut has to be flushed first.
   */
  submit(encoded: Encoded, mayLeave?: () => boolean): Promise<Submission>;
  /** May be called again after `blocked`. */
  awaitCompletion(submission: Submission, waiting?: Waiting): Promise<Completion>;
  /** Drops what waits in the printer and says whether it is known to be gone; if not, nothing more is sent until it is opened anew. A queue finds the label by its token, whoever sent it. */
  flush(token?: string): Promise<Flush>;
  /** Lets what was written go out. */
  close(): Promise<void>;
  /** Once it is closed: nothing of what was written and hasn't arrived arrives any more; a queue keeps what it has. */
  drop?(): void;
  /** The other side ended the line, as many do with one that is quiet for long; a queue keeps none. */
  isHungUp?(): boolean;
};

/** Beyond printing: it writes tags; tells apart what became of several labels under way; or is a queue, which keeps labels by their names when nobody is connected. */
export type Ability = "tags" | "several" | "queue";
export type Driver = {
  name: string;
  schemes: readonly string[];
  can: readonly Ability[];
  /** Throws a sentence that names what is wrong with an address of one of its schemes. */
  check(url: string): void;
  open(url: string, profile: Profile, options?: PortOptions): Promise<Printer>;
};

/** A language that is spoken over any duplex of bytes. */
export const overBytes = (
  name: string,
  can: readonly Ability[],
  over: (port: Port, profile: Profile, clock: Clock) => Printer,
): Driver => ({
  name,
  schemes: ["tcp", "serial", "file"],
  can,
  check: (url) => void parsePort(url),
  open: async (url, profile, options = {}) => {
    const port = await openPort(url, options);
    const { clock = systemClock } = options;
    return { ...over(port, profile, clock), isHungUp: () => port.closed?.by === "peer", drop: port.destroy };
  },
});

export const NO_COUNTERS: Counters = { labels: null, voids: null };

export const faultWords = (faults: readonly Fault[]): string => faults.map(({ words }) => words).join(", ");
/** What more than one language says. */
export const SCAN_ONLY = "whether the symbol on the paper can be read: only a scan shows it";
export const UNCOUNTED = "a second copy, or a label of somebody else: it has no label counter";
export const waitingWords = (labels: number | null): string =>
  labels === null ? saying("waiting_untold") : labels === 0 ? saying("nothing_waits") : saying("labels_wait", { count: labels });
export const noEncoder = ({ name }: Profile): Refusal => new Refusal("LABEL_REFUSED", saying("no_encoder", { printer: name }));
