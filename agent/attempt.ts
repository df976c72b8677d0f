// One physical try as the station knows it, and what it asks of a person: tables, so that the loop, the console and the tests read one rule.
import { saying } from "#shared/sayings.ts";
import type { JobState } from "#shared/states.ts";
import type { Need } from "#shared/wire/jobs.ts";
import type { CompletionEvidence } from "./printers/driver.ts";
import type { HeardTag } from "./rfid.ts";
import type { GoodScan } from "./scan-result.ts";

/** What the signed envelope says, and nothing that the answer around it says. */
export type Task = {
  job_ref: string;
  attempt: number;
  gtin: string;
  serial: string;
  digital_link: string;
  sgtin96_epc: string | null;
  needs: Need[];
  template: string;
  template_sha256: string | null;
  duplicate_risk: boolean;
  /** Absent in an envelope from before it was told. */
  product_name: string | null;
  reprint: boolean;
};

/** Where an attempt is on this floor, and which of the cloud's states that is. */
export const stages = {
  waiting: { says: "claimed, nothing done yet", state: "CLAIMED", paper: false },
  rendered: { says: "drawn and read back", state: "RENDERED", paper: false },
  sending: { says: "bytes may be leaving: from here on nothing is printed again by itself", state: "RENDERED", paper: true },
  sent: { says: "bytes have left; whether a label came out isn't known yet", state: "SPOOL_SUBMITTED", paper: true },
  closing: {
    says: "a person has said that there is no good label; what the printer still holds is dropped",
    state: "SPOOL_SUBMITTED",
    paper: true,
  },
  printed: { says: "a label came out and waits for its scan", state: "PRINTED_ATTESTED", paper: true },
  sealing: { says: "scanned and sealed here; the cloud hears of it", state: "SCAN_VERIFIED", paper: true },
  orphan: { says: "a label may lie here whose job went on without it", state: "FAILED", paper: true },
} as const satisfies Record<string, { says: string; state: JobState; paper: boolean }>;
export type Stage = keyof typeof stages;
/** A label of it may be about. */
export const paperMayExist = ({ stage }: { stage: Stage }): boolean => stages[stage].paper;

/** Its label has come out, and can be found. */
export const isLying = ({ stage }: { stage: Stage }): boolean => stage === "printed" || stage === "sealing";

export const verdicts = ["good", "misprint", "not_printed", "destroyed"] as const;
export type Verdict = (typeof verdicts)[number];

/** What a person is asked, and which answers there are. `scan`: nobody is asked, but a label that can't be scanned can be given up. */
export const asks = {
  destroy_earlier: { words: saying("ask_earlier"), allowed: ["destroyed", "not_printed"] },
  destroy_void: { words: saying("ask_void"), allowed: ["destroyed"] },
  attest: { words: saying("ask_attest"), allowed: ["good", "misprint", "not_printed"] },
  unknown_outcome: { words: saying("ask_unknown"), allowed: ["good", "misprint", "not_printed", "destroyed"] },
} as const satisfies Record<string, { words: string; allowed: readonly Verdict[] }>;
export type Ask = keyof typeof asks;
export const GIVE_UP: readonly Verdict[] = ["misprint", "destroyed"];

/** What was learned on the way; all of it durable. */
export type Work = {
  /** It was begun, and the buffer was put back to how it was before: the cloud is asked what it has heard, and then a person. */
  begun?: true;
  /** A label of an earlier attempt may lie here, of which the cloud hasn't heard yet. */
  earlier?: boolean;
  /** The cloud had sealed a label of it on our word, and gives it out as if it hadn't: it was set back to how it was before. */
  sealedBefore?: true;
  /** When an operator said that earlier labels of this serial are gone. */
  destroyedAt?: string;
  submittedAt?: string;
  sha256?: string;
  bytes?: { offered: number; accepted: number };
  /** Who the printer that was sent it said that it was: another one in its place knows nothing of this label. */
  sentTo?: string;
  /** The printer's label counter before it: what it has moved by since tells of labels that come out late. */
  counter?: number;
  /** Where the counter stood when a person was asked: what came out later isn't what he found, a scrap perhaps. */
  stood?: number;
  /** When its label came out at the earliest, as far as the printer's answer tells. */
  outFrom?: string;
  /** Why nobody knows what came out. */
  unknown?: string;
  /** Nothing this printer says can attest, or the settings want a person to. */
  needsPerson?: true;
  completion?: CompletionEvidence;
  rfid?: HeardTag;
  /** Void labels that lie there. */
  voids?: number;
  /** No tag took it, or the wrong one did: it fails once what came out is destroyed. */
  failing?: string;
  /** A good scan that came before its turn. */
  early?: GoodScan;
  /** When another label of this serial was last seen here, of which nobody has said what became of it. */
  otherSeenAt?: string;
  /** The person was asked after the printer was told to drop what it holds, and to make sure where it didn't confirm that: the next word counts. */
  emptied?: true;
  closing?: { verdict: Verdict; operator: string; reason: string };
  /** Its job went on while the printer may have held it still. */
  held?: true;
  /** What a person said of its label before the printer had dropped it, or before it was heard that its job had gone on. */
  answered?: { verdict: Verdict; operator: string };
};

/** How it is over here: `let go` before anything of it was on paper, `stale` where its job went on first; of a refusal the cloud's code stands behind it. */
export type Ended = "sealed" | "failed" | "let go" | "stale" | "orphan, destroyed" | `quarantined: ${string}`;
/** The cloud refused what it was told, which people have to see to. */
export const isQuarantined = ({ ended }: Pick<Attempt, "ended">): boolean => ended?.startsWith("quarantined") ?? false;

export type Attempt = {
  attemptId: string;
  jobRef: string;
  serial: string;
  task: Task;
  envelope: string;
  printer: string | null;
  stage: Stage;
  work: Work;
  leaseSeconds: number;
  leaseUntil: number;
  envelopeUntil: number;
  askSince: number | null;
  /** Null while it is anybody's business here. */
  ended: Ended | null;
  createdAt: number;
  updatedAt: number;
};

/** Another label of this serial may exist, as the cloud says or as this station knows. */
export const isRisky = ({ task, work }: Pick<Attempt, "task" | "work">): boolean =>
  task.duplicate_risk || work.earlier === true || work.sealedBefore === true;

/** Another label of this serial was seen here, and nobody has said since that it is gone. */
export const hasSeenOther = ({ work }: Pick<Attempt, "work">): boolean => (work.otherSeenAt ?? "") > (work.destroyedAt ?? "");

type Asking = Pick<Attempt, "stage" | "work" | "task" | "ended">;
/** What has to be asked now; follows from what is known, so that it can't be forgotten in a crash. */
export function askOf({ stage, work, task, ended }: Asking): Ask | null {
  if (ended !== null) return null;
  if (stage === "orphan") return work.answered === undefined ? "destroy_earlier" : null;
  if (!paperMayExist({ stage })) return isRisky({ task, work }) && work.destroyedAt === undefined ? "destroy_earlier" : null;
  if (stage === "sent") {
    if (work.unknown !== undefined) return "unknown_outcome";
    if (work.failing !== undefined) return "destroy_void";
    return work.needsPerson ? "attest" : null;
  }
  if (stage !== "printed") return null;
  if ((work.voids ?? 0) > 0) return "destroy_void";
  return hasSeenOther({ work }) ? "destroy_earlier" : null;
}

/** Its printer hasn't answered for it yet. */
export const isAwaited = (attempt: Attempt): boolean =>
  askOf(attempt) === null && attempt.stage !== "printed" && attempt.work.completion === undefined;

/** Also where the same is asked, and more is known of what may have come out since: who looked before that looks again. */
export const isAskedAnew = (before: Asking, now: Asking): boolean =>
  askOf(now) !== askOf(before) || now.work.unknown !== before.work.unknown || now.work.held !== before.work.held;

export function allowedFor(attempt: Asking): readonly Verdict[] {
  const ask = askOf(attempt);
  if (ask) return asks[ask].allowed;
  return attempt.ended === null && attempt.stage === "printed" ? GIVE_UP : [];
}
