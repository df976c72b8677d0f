// What earns each state its evidence, one step a state. All of it in the buffer first.
import { hash } from "node:crypto";
import { digestOf } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import type { Evidence } from "#shared/wire/evidence.ts";
import type { JobActor } from "#shared/wire/jobs.ts";
import { askOf, type Attempt, hasSeenOther } from "./attempt.ts";
import { pngOf } from "./bitmap.ts";
import type { PrinterConfig } from "./config.ts";
import { drawn } from "./drawing.ts";
import { fail, unlessRefused } from "./ends.ts";
import { instant } from "./clock.ts";
import { DEVICE, type Floor, isOver, MAY_BE_HERE, tell } from "./floor.ts";
import type { Label } from "./label.ts";
import { attests, type Capabilities, type Completion, type Submission } from "./printers/driver.ts";
import { tagIn } from "./rfid.ts";
import { type GoodScan, withTag } from "./scan-result.ts";
import { answered, hasTwin, SEEN_AHEAD_MS } from "./twins.ts";

// --- RENDERED

/** Undefined where the label can't be: its attempt has failed. */
export const render = (floor: Floor, attempt: Attempt, printer: PrinterConfig): Promise<Label | undefined> =>
  unlessRefused(floor, attempt, async () => {
    const label = await drawn(floor, attempt, printer);
    if (attempt.stage === "waiting") rendered(floor, attempt, label);
    else if (told(floor, attempt) !== label.manifest.sha256) throw new Refusal("LABEL_REFUSED", saying("drawn_otherwise"));
    return label;
  });
/** The dots that the cloud has heard of. */
function told({ store }: Floor, { attemptId }: Attempt): string | undefined {
  const said = store.items(attemptId).find(({ status }) => status === "RENDERED")?.evidence;
  return (said?.["render_manifest"] as Label["manifest"] | undefined)?.sha256;
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
  sent: { token: string; sha256: string; bytes: number; counter: number | null; sentTo: string | null },
): number =>
  store.write(() => {
    const counter = sent.counter ?? undefined;
    const sentTo = sent.sentTo ?? undefined;
    store.change(attemptId, {
      stage: "sending",
      printer,
      work: { submittedAt: instant(clock), sha256: sent.sha256, sentTo, counter, early: undefined, outFrom: undefined },
    });
    return store.intend(attemptId, printer, sent);
  });

/** The receipt of the act, and what follows from how much left; false where surely nothing did. */
export function submitted(floor: Floor, attemptId: string, act: number, submission: Submission, printer: PrinterConfig): boolean {
  const { store } = floor;
  return store.write(() => {
    const { bytesAccepted: accepted, bytesOffered: offered, fault, spoolId, at, before } = submission;
    store.receipt(act, { accepted, offered, fault: fault ?? null, spool_id: spoolId ?? null, at: new Date(at).toISOString() });
    const attempt = store.must(attemptId);
    if (accepted === 0) return nothingLeft(floor, attempt);
    if (isOver(attempt)) return true; // its job went on meanwhile, or was refused: the label stands in the ledger already
    store.label(printer.name, "unknown", saying("sent_to_printer"), attempt);
    tellSent(floor, attemptId, printer.name, {
      spool_id: spoolId ?? null,
      bytes: accepted,
      ...(accepted < offered ? { bytes_offered: offered } : {}),
      ...(fault === undefined ? {} : { fault }),
      sha256: attempt.work.sha256 ?? "",
    });
    store.change(attemptId, {
      stage: "sent",
      work: { bytes: { offered, accepted }, ...(before.labels === null ? {} : { counter: before.labels }) },
    });
    return true;
  });
}
type Left = Pick<Evidence["spool_receipt"], "spool_id" | "bytes" | "sha256"> & { bytes_offered?: number; fault?: string; note?: string };
function tellSent(floor: Floor, attemptId: string, name: string, left: Left): void {
  const printer = floor.printers.find((one) => one.name === name);
  const transport = printer?.port.split(":")[0] ?? "unknown";
  const simulated = printer?.simulated ? { simulated: true } : {};
  const receipt: Evidence["spool_receipt"] = { transport, printer: name, ...left, accepted_at: instant(floor.clock), ...simulated };
  tell(floor, attemptId, { status: "SPOOL_SUBMITTED", evidence: { spool_receipt: receipt } });
}
function nothingLeft({ store }: Floor, attempt: Attempt): boolean {
  const { attemptId, stage } = attempt;
  if (stage === "sending") store.change(attemptId, { stage: "rendered" });
  if (isOver(attempt)) store.relabel(attemptId, MAY_BE_HERE, "not_printed", saying("nothing_left"));
  if (stage !== "orphan") return false;
  store.reportOrphan(attempt, { evidence: { outcome: "not_printed" }, disposition: "destroyed", actor: DEVICE });
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
  sending: saying("stopped_sending"),
  sent: saying("stopped_before_answer"),
};
export function abandon(floor: Floor, attempt: Attempt, why = STOPPED[attempt.stage] ?? ""): void {
  const { store, say, news } = floor;
  const { attemptId, stage, jobRef } = attempt;
  store.write(() => {
    if (stage === "sending") assumeSent(floor, attempt, why);
    answered(floor, attempt, 0);
    store.change(attemptId, { stage: "sent", work: { unknown: why } });
    useEarly(floor, attemptId);
  });
  say("warn", { event: "unknown_outcome", job_ref: jobRef }, `${jobRef}: ${why}; look for it`);
  news.beat();
}

/** The worst has to be assumed for the next attempt's sake, and the receipt says that it is assumed. */
export function assumeSent(floor: Floor, attempt: Attempt, why: string): void {
  const act = floor.store.lastAct(attempt.attemptId);
  const name = act?.printer ?? attempt.printer ?? "unknown";
  floor.store.label(name, "unknown", why, attempt);
  tellSent(floor, attempt.attemptId, name, {
    spool_id: null,
    bytes: Math.max(1, act?.bytes ?? 1),
    note: `${why}: how many of these bytes left isn't known`,
    sha256: act?.sha256 ?? "0".repeat(64),
  });
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
  const { outcome, reason, evidence } = completion;
  const { jobRef } = store.must(attemptId);
  store.write(() => {
    const attempt = store.must(attemptId);
    if (isOver(attempt) || attempt.stage !== "sent") return putVoidsAside(floor, attempt, evidence.voids ?? 0, printer.name);
    answered(floor, attempt, SEEN_AHEAD_MS);
    const voids = voidsOf(completion);
    for (let i = 0; i < voids; i += 1) store.label(printer.name, "void", reason, attempt);
    if (outcome === "confirmed") confirmed(floor, attempt, completion, printer, voids);
    else if (outcome === "failed") failed(floor, attempt, completion, voids);
    else unclear(floor, attempt, completion, printer, capabilities);
  });
  say(outcome === "confirmed" ? "info" : "warn", { event: outcome, job_ref: jobRef, grade: evidence.grade }, `${jobRef}: ${reason}`);
  news.beat();
}

/** Labels that came out void, as far as the printer says. */
function voidsOf({ outcome, evidence, toDestroy }: Completion): number {
  if (outcome === "confirmed") return evidence.voids ?? 0;
  return outcome === "failed" ? (toDestroy ?? 0) : 0;
}

/** Of nobody's attempt: what a person finds out about the label itself is no word on these. */
function putVoidsAside({ store }: Floor, { serial }: Attempt, voids: number, printer: string): void {
  for (let i = 0; i < voids; i += 1) store.label(printer, "void", saying("void_in_place", { serial }));
}

function confirmed(floor: Floor, { attemptId }: Attempt, { evidence, reason }: Completion, printer: PrinterConfig, voids: number): void {
  const { store } = floor;
  const work = { completion: evidence, ...tagIn(evidence), ...(voids > 0 ? { voids } : {}) };
  store.relabel(attemptId, ["unknown"], "printed", reason);
  if (printer.attest === "device" && attests(evidence.grade)) {
    tell(floor, attemptId, { status: "PRINTED_ATTESTED", evidence: { completion: evidence }, actor: DEVICE });
    store.change(attemptId, { stage: "printed", work });
    useEarly(floor, attemptId);
  } else store.change(attemptId, { work: { ...work, needsPerson: true } });
}

function failed(floor: Floor, attempt: Attempt, { reason, toDestroy }: Completion, voids: number): void {
  const { store } = floor;
  const { attemptId, work } = attempt;
  if (voids > 0) {
    store.relabel(attemptId, ["unknown"], "not_printed", reason);
    return void store.change(attemptId, { work: { failing: reason, voids } });
  }
  const isNone = toDestroy === 0 && work.early === undefined; // what was scanned came out
  fail(floor, attempt, reason, isNone ? { disposition: "not_printed" } : {});
}

function unclear(floor: Floor, attempt: Attempt, completion: Completion, printer: PrinterConfig, { ceiling }: Capabilities): void {
  const { store } = floor;
  const { attemptId, work } = attempt;
  const { evidence, reason: unknown } = completion;
  putVoidsAside(floor, attempt, evidence.voids ?? 0, printer.name);
  const isWhole = work.bytes !== undefined && work.bytes.accepted === work.bytes.offered;
  // A printer that never attests, and took everything, is asked for as a matter of course; everything else is a case for a search.
  if (isWhole && !attests(ceiling)) store.change(attemptId, { work: { needsPerson: true, completion: evidence } });
  else store.change(attemptId, { work: { unknown, stood: evidence.after } });
  useEarly(floor, attemptId);
}

/** The label is there: a person said so, or a scan showed it where nobody knew. */
export function attested(
  floor: Floor,
  { attemptId, work }: Attempt,
  actor: JobActor,
  completion = work.completion as object | undefined,
): void {
  const { store } = floor;
  store.relabel(attemptId, ["unknown"], "printed", saying("attested"));
  tell(floor, attemptId, { status: "PRINTED_ATTESTED", ...(completion ? { evidence: { completion } } : {}), actor });
  store.change(attemptId, { stage: "printed", work: { unknown: undefined, needsPerson: undefined } });
}

// --- SCAN_VERIFIED and SEALED

/** Whether a scan decides that a label came out, where nobody knows. */
const decides = (floor: Floor, attempt: Attempt, scan: GoodScan): boolean =>
  askOf(attempt) === "unknown_outcome" && mayDecide(scan) && !hasTwin(floor, attempt) && !hasSeenOther(attempt);
const mayDecide = ({ source, actor }: GoodScan): boolean => source === "scanner" || actor.kind === "operator";

/** Says in words what became of it. */
export function scanned(floor: Floor, attemptId: string, scan: GoodScan): { moved: boolean; why: string | null; words: string } {
  const { store, news } = floor;
  const said = store.write(() => {
    const attempt = store.must(attemptId);
    const ask = askOf(attempt);
    const notYet = (words: string) => ({ moved: false, why: "kept", words });
    if (ask === "destroy_void") return notYet(saying("voids_first"));
    if (ask === "destroy_earlier") return notYet(saying("earlier_first"));
    if (attempt.stage !== "printed" && !decides(floor, attempt, scan)) {
      const { early } = attempt.work; // the first, unless only a later one can decide
      const isBetter = early === undefined || (mayDecide(scan) && !mayDecide(early) && !hasTwin(floor, attempt));
      if (isBetter) store.change(attemptId, { work: { early: scan } });
      return notYet(ask === null ? saying("kept_for_printer") : saying("kept_for_person"));
    }
    verified(floor, attempt, scan);
    return { moved: true, why: null, words: saying("verified") };
  });
  news.beat();
  return said;
}

/** Where nobody knew whether the label came out, its scan says so. */
function verified(floor: Floor, attempt: Attempt, scan: GoodScan): void {
  const { actor } = scan;
  const { scanned_at, simulated } = scan.result;
  const completion = { basis: "scan", grade: "B", scanned_at, ...(simulated ? { simulated: true } : {}) };
  if (attempt.stage === "sent") {
    attested(floor, attempt, actor, actor.kind === "device" ? completion : undefined);
    floor.store.change(attempt.attemptId, { work: { completion: undefined } });
  }
  seal(floor, attempt, scan);
}

/** What was scanned before its turn counts as soon as it is its turn, or the only thing that is known. */
export function useEarly(floor: Floor, attemptId: string): void {
  const attempt = floor.store.must(attemptId);
  const { early, rfid } = attempt.work;
  if (!early || !(decides(floor, attempt, early) || (attempt.stage === "printed" && askOf(attempt) === null))) return;
  const { result } = early;
  if (rfid?.tid !== undefined && result.rfid?.tid !== undefined && rfid.tid !== result.rfid.tid) {
    floor.store.change(attemptId, { work: { early: undefined } });
    const words = `the printer wrote to the chip ${rfid.tid}, and the label that was scanned has ${result.rfid.tid}`;
    return floor.say("warn", { event: "other_chip", job_ref: attempt.jobRef }, `${attempt.jobRef}: ${words}: scan the label that came out`);
  }
  if (!attempt.task.needs.includes("rfid") || result.rfid) return verified(floor, attempt, early);
  if (!rfid) return; // it has to be scanned again, once somebody has read its tag
  verified(floor, attempt, { ...early, result: withTag(result, rfid) });
}

/** The last two words of an attempt go into the buffer together: there is nothing between them to wait for. */
function seal(floor: Floor, { attemptId, jobRef }: Attempt, { result, actor }: GoodScan): void {
  const { store, say } = floor;
  tell(floor, attemptId, { status: "SCAN_VERIFIED", evidence: { scan_result: result }, ...(actor.kind === "operator" ? { actor } : {}) });
  const sha256 = digestOf(store.items(attemptId));
  tell(floor, attemptId, { status: "SEALED", evidence: { evidence_bundle: { sha256 } } });
  store.change(attemptId, { stage: "sealing", work: { early: undefined, ...(result.rfid ? { rfid: result.rfid } : {}) } });
  say("info", { event: "verified", job_ref: jobRef, sha256 }, `${jobRef}: scanned, bundle ${sha256.slice(0, 12)}…`);
}
