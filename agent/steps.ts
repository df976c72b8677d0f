// What earns each state its evidence, one step a state; and what becomes of an attempt that is abandoned or lost. All of it in the buffer first.
import { hash } from "node:crypto";
import { digestOf } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import type { BundleItem, JobActor } from "#shared/wire/jobs.ts";
import { askOf, type Attempt, stages } from "./attempt.ts";
import { pngOf } from "./bitmap.ts";
import type { Store } from "./buffer.ts";
import type { LabelState } from "./buffer-labels.ts";
import type { Clock } from "./clock.ts";
import type { PrinterConfig } from "./config.ts";
import { drawn } from "./drawing.ts";
import type { Label } from "./label.ts";
import { attests, type Capabilities, type Completion, type Submission } from "./printers/driver.ts";
import type { Pulse } from "./pulse.ts";
import type { ScanResult } from "./scan-result.ts";
import type { Template } from "./template.ts";

export type Say = (level: "debug" | "info" | "warn" | "error", line: object, words: string) => void;
export type Floor = { store: Store; clock: Clock; news: Pulse; say: Say; templates: Template[]; printers: PrinterConfig[] };
type Item = Omit<BundleItem, "occurred_at"> & { reason?: string };

export const instant = (clock: Clock): string => new Date(clock.now()).toISOString();
const DEVICE: JobActor = { kind: "device" };
export const MAY_BE_HERE: readonly LabelState[] = ["unknown", "printed", "orphan", "void"];

/** Nothing is said any more of an attempt that is over. */
function tell({ store, clock }: Floor, attemptId: string, item: Item): void {
  if (store.must(attemptId).ended === null) store.report(attemptId, { ...item, occurred_at: instant(clock) });
}
const isOver = ({ stage, ended }: Attempt): boolean => ended !== null || stage === "orphan";

export type Disposition = "destroyed" | "not_printed";
/** The attempt is over; `disposition` where it is known that no label of it is left. */
export function fail(
  floor: Floor,
  { attemptId }: Attempt,
  reason: string,
  said: { disposition?: Disposition; operator?: string } = {},
): void {
  const { store, say } = floor;
  const { disposition, operator } = said;
  if (isOver(store.must(attemptId))) return;
  store.write(() => {
    const actor: JobActor = operator === undefined ? DEVICE : { kind: "operator", id: operator };
    const evidence = disposition ? { evidence: { label_disposition: { outcome: disposition, ...(operator ? { operator } : {}) } } } : {};
    tell(floor, attemptId, { status: "FAILED", reason: readable(reason), actor, ...evidence });
    if (disposition) store.relabel(attemptId, MAY_BE_HERE, disposition, reason);
    store.change(attemptId, { ended: "failed" });
  });
  say("warn", { event: "failed", job_ref: store.must(attemptId).jobRef, reason }, `${store.must(attemptId).jobRef} failed: ${reason}`);
  floor.news.beat();
}
const readable = (text: string): string => text.replaceAll(/\p{Cc}/gu, " ").slice(0, limits.REASON_MAX_LENGTH) || "no reason was given";

// --- RENDERED

/** Undefined where the label can't be: its attempt has failed. */
export async function render(floor: Floor, attempt: Attempt, printer: PrinterConfig): Promise<Label | undefined> {
  try {
    const label = await drawn(floor, attempt, printer);
    if (attempt.stage === "waiting") rendered(floor, attempt, label);
    return label;
  } catch (error) {
    if (!(error instanceof Refusal) || error.code === "STORE_UNAVAILABLE") throw error;
    fail(floor, attempt, `${error.code}: ${error.message}`);
    return undefined;
  }
}
export function rendered(floor: Floor, { attemptId }: Attempt, { manifest, bitmap }: Label): void {
  const { store, news } = floor;
  const picture = pngOf(bitmap);
  const preview = hash("sha256", picture, "hex");
  store.write(() => {
    if (picture.length <= limits.BLOB_MAX_BYTES) store.picture(preview, "image/png", picture);
    tell(floor, attemptId, { status: "RENDERED", evidence: { render_manifest: { ...manifest, preview_sha256: preview } } });
    store.change(attemptId, { stage: "rendered" });
  });
  news.beat();
}

// --- SPOOL_SUBMITTED

export const intend = (
  { store, clock }: Floor,
  { attemptId }: Attempt,
  printer: string,
  sent: { token: string; sha256: string; bytes: number; counter: number | null },
): number =>
  store.write(() => {
    const counter = sent.counter ?? undefined;
    store.change(attemptId, { stage: "sending", printer, work: { submittedAt: instant(clock), sha256: sent.sha256, counter } });
    return store.intend(attemptId, printer, sent);
  });

/** The receipt of the act, and what follows from how much left; false where surely nothing did. */
export function submitted(floor: Floor, attemptId: string, act: number, submission: Submission, printer: PrinterConfig): boolean {
  const { store, clock } = floor;
  return store.write(() => {
    const { bytesAccepted: accepted, bytesOffered: offered, fault, spoolId, at, before } = submission;
    store.receipt(act, { accepted, offered, fault: fault ?? null, spool_id: spoolId ?? null, at: new Date(at).toISOString() });
    const attempt = store.must(attemptId);
    if (accepted === 0) return nothingLeft(floor, attempt);
    if (isOver(attempt)) return true; // its job went on meanwhile: the label stands in the ledger as an orphan
    store.label(printer.name, "unknown", "sent to the printer", attempt);
    const receipt = {
      transport: printer.port.split(":")[0] ?? "",
      printer: printer.name,
      spool_id: spoolId ?? null,
      bytes: accepted,
      ...(accepted < offered ? { bytes_offered: offered } : {}),
      ...(fault === undefined ? {} : { fault }),
      sha256: attempt.work.sha256 ?? "",
      accepted_at: instant(clock),
      ...(printer.simulated ? { simulated: true } : {}),
    };
    tell(floor, attemptId, { status: "SPOOL_SUBMITTED", evidence: { spool_receipt: receipt } });
    store.change(attemptId, {
      stage: "sent",
      work: { bytes: { offered, accepted }, ...(before.labels === null ? {} : { counter: before.labels }) },
    });
    return true;
  });
}
function nothingLeft({ store }: Floor, { attemptId, stage, jobRef }: Attempt): boolean {
  if (stage === "sending") store.change(attemptId, { stage: "rendered" });
  if (stage !== "orphan") return false;
  store.relabel(attemptId, MAY_BE_HERE, "not_printed", "nothing left the station");
  store.reportOrphan({
    job_ref: jobRef,
    attempt_id: attemptId,
    evidence: { outcome: "not_printed" },
    disposition: "destroyed",
    actor: DEVICE,
  });
  store.change(attemptId, { ended: "stale" });
  return false;
}

/** Bytes may have left, and nobody listens for the answer any more. */
export const isAbandoned = (attempt: Attempt): boolean =>
  attempt.ended === null && (attempt.stage === "sending" || (attempt.stage === "sent" && askOf(attempt) === null));

/** What a killed agent leaves is never sent again; it is asked. */
export function recover(floor: Floor): void {
  for (const attempt of floor.store.inHand()) if (isAbandoned(attempt)) abandon(floor, attempt);
}

const STOPPED: Partial<Record<Attempt["stage"], string>> = {
  sending: "the station stopped while it sent this label",
  sent: "the station stopped before the printer's answer",
};
export function abandon(floor: Floor, attempt: Attempt, why = STOPPED[attempt.stage] ?? ""): void {
  const { store, say, news } = floor;
  const { attemptId, stage, jobRef } = attempt;
  store.write(() => {
    if (stage === "sending") assumeSent(floor, attempt, why);
    store.change(attemptId, { stage: "sent", work: { unknown: why } });
  });
  say("warn", { event: "unknown_outcome", job_ref: jobRef }, `${jobRef}: ${why}; look for it`);
  news.beat();
}

/** The worst has to be assumed for the next attempt's sake, and the receipt says that it is assumed. */
export function assumeSent(floor: Floor, attempt: Attempt, why: string): void {
  const { store, clock, printers } = floor;
  const act = store.lastAct(attempt.attemptId);
  const name = act?.printer ?? attempt.printer ?? "unknown";
  const printer = printers.find((one) => one.name === name);
  store.label(name, "unknown", why, attempt);
  const receipt = {
    transport: printer?.port.split(":")[0] ?? "unknown",
    printer: name,
    spool_id: null,
    bytes: Math.max(1, act?.bytes ?? 1),
    note: `${why}: how many of these bytes left isn't known`,
    sha256: act?.sha256 ?? "0".repeat(64),
    accepted_at: instant(clock),
    ...(printer?.simulated ? { simulated: true } : {}),
  };
  tell(floor, attempt.attemptId, { status: "SPOOL_SUBMITTED", evidence: { spool_receipt: receipt } });
}

// --- PRINTED_ATTESTED

/** What the printer said in the end. `blocked` is no end: the lane waits. */
export function completed(
  floor: Floor,
  attemptId: string,
  completion: Completion,
  printer: PrinterConfig,
  capabilities: Capabilities,
): void {
  const { store, say, news } = floor;
  const { outcome, reason, evidence, toDestroy } = completion;
  store.write(() => {
    const attempt = store.must(attemptId);
    if (isOver(attempt) || attempt.stage !== "sent") return;
    const voids = outcome === "confirmed" ? (evidence.voids ?? 0) : outcome === "failed" ? (toDestroy ?? 0) : 0;
    for (let i = 0; i < voids; i += 1) store.label(printer.name, "void", reason, attempt);
    if (outcome === "confirmed") return confirmed(floor, attempt, completion, printer, voids);
    if (outcome === "failed" && voids > 0) {
      store.relabel(attemptId, ["unknown"], "not_printed", reason);
      return void store.change(attemptId, { work: { failing: reason, voids } });
    }
    if (outcome === "failed") return fail(floor, attempt, reason, toDestroy === 0 ? { disposition: "not_printed" } : {});
    const { bytes } = attempt.work;
    const isWhole = bytes !== undefined && bytes.accepted === bytes.offered;
    // A printer that never attests, and took everything, is asked for as a matter of course; everything else is a case for a search.
    if (isWhole && !attests(capabilities.ceiling)) store.change(attemptId, { work: { needsPerson: true, completion: evidence } });
    else store.change(attemptId, { work: { unknown: reason } });
  });
  say(
    outcome === "confirmed" ? "info" : "warn",
    { event: outcome, job_ref: store.must(attemptId).jobRef, grade: evidence.grade },
    `${store.must(attemptId).jobRef}: ${reason}`,
  );
  news.beat();
}

function confirmed(floor: Floor, { attemptId }: Attempt, { evidence, reason }: Completion, printer: PrinterConfig, voids: number): void {
  const { store } = floor;
  const { epc, tid } = evidence;
  const rfid =
    epc === undefined
      ? {}
      : { rfid: { epc, ...(tid ? { tid } : {}), reader: "printer" as const, ...(printer.simulated ? { simulated: true as const } : {}) } };
  const work = { completion: evidence, ...rfid, ...(voids > 0 ? { voids } : {}) };
  store.relabel(attemptId, ["unknown"], "printed", reason);
  if (printer.attest === "device" && attests(evidence.grade)) {
    tell(floor, attemptId, { status: "PRINTED_ATTESTED", evidence: { completion: evidence }, actor: DEVICE });
    store.change(attemptId, { stage: "printed", work });
    useKept(floor, attemptId);
  } else store.change(attemptId, { work: { ...work, needsPerson: true } });
}

/** A person's word, or a scan's where nobody knew. */
export function attested(
  floor: Floor,
  { attemptId, work }: Attempt,
  actor: JobActor,
  completion = work.completion as object | undefined,
): void {
  const { store } = floor;
  store.relabel(attemptId, ["unknown"], "printed", "attested");
  tell(floor, attemptId, { status: "PRINTED_ATTESTED", ...(completion ? { evidence: { completion } } : {}), actor });
  store.change(attemptId, { stage: "printed", work: { unknown: undefined, needsPerson: undefined } });
}

// --- SCAN_VERIFIED and SEALED

/** A scan that the rules have let pass. */
export type GoodScan = { result: ScanResult; actor: JobActor; source: "scanner" | "person" };

/** Says in words what became of it. */
export function scanned(floor: Floor, attemptId: string, scan: GoodScan): { moved: boolean; words: string } {
  const { store, news } = floor;
  const said = store.write(() => {
    const attempt = store.must(attemptId);
    const ask = askOf(attempt);
    if (ask === "destroy_void") return { moved: false, words: "void labels lie here: destroy them and say so, then scan the good one" };
    if (attempt.stage === "sent" && ask === "unknown_outcome" && (scan.source === "scanner" || scan.actor.kind === "operator")) {
      const completion = {
        basis: "scan",
        grade: "B",
        scanned_at: scan.result.scanned_at,
        ...(scan.result.simulated ? { simulated: true } : {}),
      };
      attested(floor, attempt, scan.actor, scan.actor.kind === "device" ? completion : undefined);
      store.change(attemptId, { work: { completion: undefined } });
    } else if (attempt.stage !== "printed") {
      store.change(attemptId, { work: { kept: scan.result } });
      return { moved: false, words: ask === null ? "kept until the printer has answered" : "kept: now say what came out, with your badge" };
    }
    seal(floor, store.must(attemptId), scan.result, scan.actor);
    return { moved: true, words: "verified" };
  });
  news.beat();
  return said;
}

export function useKept(floor: Floor, attemptId: string): void {
  const attempt = floor.store.must(attemptId);
  const { kept, rfid } = attempt.work;
  if (attempt.stage !== "printed" || !kept || askOf(attempt) !== null) return;
  if (!attempt.task.needs.includes("rfid") || kept.rfid) return seal(floor, attempt, kept, DEVICE);
  if (!rfid) return; // it has to be scanned again, once somebody has read its tag
  const { simulated, ...tag } = rfid;
  seal(floor, attempt, { ...kept, rfid: tag, ...(simulated ? { simulated } : {}) }, DEVICE);
}

/** The last two words of an attempt go into the buffer together: there is nothing between them to wait for. */
function seal(floor: Floor, { attemptId, jobRef }: Attempt, result: ScanResult, actor: JobActor): void {
  const { store, say } = floor;
  tell(floor, attemptId, { status: "SCAN_VERIFIED", evidence: { scan_result: result }, ...(actor.kind === "operator" ? { actor } : {}) });
  const sha256 = digestOf(store.items(attemptId));
  tell(floor, attemptId, { status: "SEALED", evidence: { evidence_bundle: { sha256 } } });
  store.change(attemptId, { stage: "sealing", work: { kept: undefined } });
  say("info", { event: "verified", job_ref: jobRef, sha256 }, `${jobRef}: scanned, bundle ${sha256.slice(0, 12)}…`);
}

// --- jobs that went on

/** The cloud gave the job to somebody else, or ended it. What may lie here on paper is an orphan from now on. */
export function lost(floor: Floor, attemptId: string, why: string): void {
  const { store, say, news } = floor;
  store.write(() => {
    const attempt = store.attempt(attemptId);
    if (!attempt || isOver(attempt)) return attempt && store.dropReports(attemptId, why);
    store.dropReports(attemptId, why);
    if (!stages[attempt.stage].paper) return void store.change(attemptId, { ended: "stale" });
    if (store.relabel(attemptId, ["unknown", "printed"], "orphan", why) === 0) store.label(attempt.printer ?? "", "orphan", why, attempt);
    store.reportOrphan({
      job_ref: attempt.jobRef, attempt_id: attemptId, evidence: { stage: attempt.stage, why: readable(why), work: { ...attempt.work } }, disposition: "found", actor: DEVICE,
    }); // oxfmt-ignore
    store.change(attemptId, { stage: "orphan" });
    say(
      "error",
      { event: "orphan", job_ref: attempt.jobRef },
      `${attempt.jobRef} went on without us (${why}): its label here has to be destroyed`,
    );
  });
  news.beat();
}
