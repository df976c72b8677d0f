// A buffer that begins anew knows nothing of what this device holds in the cloud's eyes. It asks, and takes the worst for granted: nothing of it is printed again by itself.
import { Refusal } from "#shared/errors.ts";
import { digestOf } from "#shared/canonical.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { type JobState, leasedStates } from "#shared/states.ts";
import type { BundleItem, Job } from "#shared/wire/jobs.ts";
import type { Attempt, Stage, Task, Work } from "./attempt.ts";
import type { Begun } from "./begun.ts";
import type { CompletionEvidence } from "./printers/driver.ts";
import { drawn } from "./drawing.ts";
import type { Label } from "./label.ts";
import type { PrinterConfig } from "./config.ts";
import { fail } from "./ends.ts";
import { instant } from "./clock.ts";
import type { Lease } from "./flight.ts";
import { fateOf, isAway, settles } from "./fates.ts";
import { type Floor, isOver, MAY_BE_HERE } from "./floor.ts";
import { tagIn } from "./rfid.ts";
import * as steps from "./steps.ts";
import type { Talks } from "./standing.ts";

const HELD = leasedStates.toReversed(); // what has come furthest is first in the lane
const ENVELOPE_LIFE_MS = limits.ENVELOPE_LIFE_S * 1_000;
const WHY = saying("buffer_lost");
const STUMBLES_MAX_MS = 60_000; // a cloud that stumbles over everything may be well again

type Left = Pick<Job, "job_ref" | "attempt_id" | "serial">;
export type Adoption = ReturnType<typeof adoptionOf>;
type AdoptionDeps = Talks & { floor: Floor; leaseSeconds: number };
export function adoptionOf({ cloud, uplink, floor, leaseSeconds }: AdoptionDeps) {
  const { store, clock, say } = floor;
  const caughtUp = new Set<string>(); // attempts of which the cloud has said in this run what it had heard
  async function adopted(attemptId: string, task: Task, items: BundleItem[]): Promise<void> {
    await adopt(floor, attemptId, task, items, leaseSeconds);
    caughtUp.add(attemptId);
  }
  /** All of them or null, where the cloud didn't say. */
  async function heldBy(deviceId: string): Promise<Job[] | null> {
    const held: Job[] = [];
    for (const state of HELD) {
      let cursor: string | null | undefined;
      do {
        const said = await cloud.jobs({ device: deviceId, state, ...(cursor ? { cursor } : {}) });
        uplink.heard(said);
        if (!said.ok) return null;
        held.push(...said.value.data);
        cursor = said.value.nextCursor;
      } while (cursor);
    }
    return held;
  }

  /** Unknown: the cloud can't be asked now. Stumbled: over this one, and perhaps over no other. */
  async function take(job: Job): Promise<"taken" | "unknown" | "stumbled"> {
    const { job_ref: ref, attempt_id: attemptId } = job;
    if (attemptId === null || store.attempt(attemptId)) return "taken";
    const said = await cloud.evidence(ref);
    uplink.heard(said);
    if (!said.ok) return isAway(said) ? "unknown" : "stumbled";
    if (said.value.attempt_id !== attemptId) return "taken"; // it went on meanwhile
    await adopted(attemptId, taskOf(job), said.value.items);
    return "taken";
  }

  /**
   * A buffer that was restored from a copy, or whose disk lost its last writes, doesn't know all that it has told the cloud. So the cloud is asked before anything
   * of the attempt is printed, and before its label is taken for an orphan.
   */
  async function catchUp({ jobRef, attemptId, task, stage }: Attempt): Promise<"known" | Exclude<Lease, "alive"> | "stumbled"> {
    if (caughtUp.has(attemptId)) return "known";
    const said = await cloud.evidence(jobRef);
    uplink.heard(said);
    const fate = said.ok ? null : fateOf(said);
    if (fate !== null && !settles(fate)) return fate === "aside" ? "stumbled" : "unknown";
    const now = store.must(attemptId);
    if (isOver(now) || now.stage !== stage) return "lost"; // as another answer said meanwhile
    const own = store.items(attemptId);
    const isAhead = said.ok && said.value.attempt_id === attemptId && said.value.items.length > own.length;
    if (isAhead || now.work.begun) {
      await adopted(attemptId, task, isAhead ? said.value.items : own);
      return "lost"; // as far as it may be begun
    }
    caughtUp.add(attemptId);
    return "known"; // what became of the job its lease says
  }

  let stumblesSince: number | undefined;
  /** What the cloud can't tell about keeps nobody waiting: its label is open in the ledger, so that who prints the serial next here is asked for it first. */
  function leave(
    { job_ref: jobRef, attempt_id: attemptId, serial }: Left,
    why: "buffer_lost_nor_cloud" | "buffer_lost_job_went_on",
    printer = "unknown",
  ): void {
    const words = saying(why, { why: WHY });
    store.label(printer, "unknown", words, { attemptId: attemptId ?? "", jobRef, serial });
    say("error", { event: "not_adopted", job_ref: jobRef }, `${jobRef}: ${words}`);
  }

  /** Labels of attempts that this buffer has lost and that we no longer hold in the cloud. Nothing is asked about those of which it knows the end. False where it can't say now. */
  async function takeBegun(): Promise<boolean> {
    const left = () => store.kept("begun_elsewhere") ?? [];
    for (const begun of left()) {
      const isAccountedFor = store.attempt(begun.attempt_id) !== undefined || (await hasHeardTheEnd(begun));
      if (isAccountedFor === undefined) return false;
      store.write(() => {
        if (!isAccountedFor) leave(begun, "buffer_lost_job_went_on", begun.printer);
        const others = left().filter(({ n }) => n !== begun.n);
        store.keep("begun_elsewhere", others);
      });
      if (!store.attempt(begun.attempt_id)) store.noteOver(begun.attempt_id);
    }
    return true;
  }
  /** Sealed, or given up by who had it: not by the reaper. Undefined where it can't be asked now. */
  async function hasHeardTheEnd({ job_ref: ref, attempt_id: attemptId }: Begun): Promise<boolean | undefined> {
    const said = await cloud.history(ref);
    uplink.heard(said);
    if (!said.ok) return isAway(said) ? undefined : said.code === "NOT_FOUND"; // another tenant's
    return said.value.data.some(
      ({ attempt_id: of, to, actor }) => of === attemptId && (to === "SEALED" || (to === "FAILED" && actor.kind !== "system")),
    );
  }

  async function run(deviceId: string): Promise<boolean> {
    const jobs = await heldBy(deviceId);
    if (!jobs) return false;
    const stumbled: Job[] = [];
    for (const job of jobs) {
      const became = await take(job);
      if (became === "unknown") return false;
      if (became === "stumbled") stumbled.push(job);
    }
    if (stumbled.length > 0) {
      stumblesSince ??= clock.now();
      if (clock.now() - stumblesSince < STUMBLES_MAX_MS) return false;
    }
    if (!(await takeBegun())) return false;
    store.write(() => {
      for (const job of stumbled) leave(job, "buffer_lost_nor_cloud");
      store.setMeta("adoption", "done");
    });
    const words =
      jobs.length === 0 ? "nothing" : `${jobs.length} ${jobs.length === 1 ? "job" : "jobs"}: what became of each label is asked`;
    say(
      jobs.length === 0 ? "info" : "warn",
      { event: "adopted", jobs: jobs.map(({ job_ref: ref }) => ref) },
      `the cloud was asked what this station held before: ${words}`,
    );
    return true;
  }
  return { isDue: () => store.meta("adoption") === "due", run, catchUp };
}

/** The cloud knows what it was told; what the lost buffer hadn't told yet may have happened all the same. */
async function adopt(floor: Floor, attemptId: string, task: Task, items: BundleItem[], leaseSeconds: number): Promise<void> {
  const { store } = floor;
  const before = store.attempt(attemptId);
  const printer = printerOf(floor, task, items, store.lastAct(attemptId)?.printer);
  const label = items.length > 0 || !printer ? undefined : await drawing(floor, task, printer);
  store.write(() => {
    const now = store.attempt(attemptId);
    if (now?.stage !== before?.stage || now?.ended !== before?.ended) return; // somebody else who asked was faster
    store.take({ attemptId, task, envelope: "", leaseSeconds, leaseUntil: 0, envelopeUntil: floor.clock.now() + ENVELOPE_LIFE_MS });
    store.heardBefore({ attemptId, jobRef: task.job_ref }, items.slice(store.items(attemptId).length));
    store.change(attemptId, { printer: printer?.name ?? null, work: { submittedAt: instant(floor.clock), begun: undefined } });
    if (label instanceof Refusal)
      return fail(floor, store.must(attemptId), `${label.code}: ${label.message}`, { disposition: "not_printed" });
    if (label) steps.rendered(floor, store.must(attemptId), label);
    (advance[items.at(-1)?.status ?? "CLAIMED"] ?? sent)(floor, store.must(attemptId), items, printer?.name ?? "unknown");
  });
  floor.news.beat();
}

type Advance = (floor: Floor, attempt: Attempt, items: BundleItem[], printer: string) => void;
/** Where the cloud has heard of no bytes: they may have left all the same. */
const sent: Advance = (floor, attempt) => {
  steps.assumeSent(floor, attempt, WHY);
  become(floor, attempt, "sent", { unknown: WHY });
};
/** By the last that it has heard. */
const advance: Partial<Record<JobState, Advance>> = {
  SPOOL_SUBMITTED: (floor, attempt, _items, printer) => {
    floor.store.label(printer, "unknown", WHY, attempt);
    become(floor, attempt, "sent", { unknown: WHY });
  },
  PRINTED_ATTESTED: (floor, attempt, items, printer) => {
    lies(floor, attempt, printer, saying("came_out_before_loss"));
    become(floor, attempt, "printed", printedWork(items));
  },
  SCAN_VERIFIED: (floor, attempt, items, printer) => {
    lies(floor, attempt, printer, saying("scanned_before_loss"));
    floor.store.report(attempt.attemptId, {
      status: "SEALED", evidence: { evidence_bundle: { sha256: digestOf(items) } }, occurred_at: instant(floor.clock),
    }); // oxfmt-ignore
    become(floor, attempt, "sealing", {});
  },
};
/** Its label, which the ledger knows where the buffer was only put back. */
function lies({ store }: Floor, attempt: Attempt, printer: string, words: string): void {
  if (store.relabel(attempt.attemptId, MAY_BE_HERE, "printed", words) === 0) store.label(printer, "printed", words, attempt);
}
function become({ store, say }: Floor, { attemptId, jobRef }: Attempt, stage: Stage, work: Work): void {
  store.change(attemptId, { stage, work });
  say("warn", { event: "adopted_job", job_ref: jobRef, stage }, `${jobRef} was held before the buffer was lost: ${work.unknown ?? stage}`);
}

/** What the printer read back of the tag is needed again when the label is scanned. */
function printedWork(items: BundleItem[]): Work {
  const completion = items.findLast(({ status }) => status === "PRINTED_ATTESTED")?.evidence?.["completion"] as
    | CompletionEvidence
    | undefined;
  return completion ? tagIn(completion) : {};
}

/** From the cloud's answer and not from an envelope, so nothing is ever printed from it: it is only asked about. */
function taskOf(job: Job): Task {
  const { job_ref, attempt, gtin, serial, digital_link, sgtin96_epc, needs, template, duplicate_risk, reprint } = job;
  const named = { job_ref, attempt, gtin, serial, digital_link, sgtin96_epc, product_name: null };
  return { ...named, needs, template, template_sha256: null, duplicate_risk, reprint };
}

function printerOf({ printers }: Floor, { needs }: Task, items: BundleItem[], begunOn?: string): PrinterConfig | undefined {
  const receipt = items.find(({ status }) => status === "SPOOL_SUBMITTED")?.evidence?.["spool_receipt"] as { printer?: string } | undefined;
  const itsName = receipt?.printer ?? begunOn;
  return printers.find(({ name }) => name === itsName) ?? printers.find(({ rfid }) => rfid || !needs.includes("rfid"));
}

/** What this station would have printed, but for the product's name, which only the envelope told; a label that it refuses can't have come out of it. */
async function drawing(floor: Floor, task: Task, printer: PrinterConfig): Promise<Label | Refusal> {
  try {
    return await drawn(floor, { task }, printer);
  } catch (error) {
    if (error instanceof Refusal && error.code !== "STORE_UNAVAILABLE") return error;
    throw error;
  }
}
