// Print queues: CUPS and printers that speak IPP. A queue's "completed" says that bytes were handed on; whether a label came out a person has to say.
import { Buffer } from "node:buffer";
import { hash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import { type Bitmap, pngOf } from "../bitmap.ts";
import { type Clock, inTime, pause, systemClock } from "../clock.ts";
import { oneAtATime } from "./dialogue.ts";
import {
  type Completion,
  type CompletionEvidence,
  type Driver,
  type Encoded,
  type Fault,
  faultWords,
  type Flush,
  NO_COUNTERS,
  type Outcome,
  type Printer,
  type Profile,
  UNCOUNTED,
  type Status,
  type Submission,
  timingOf,
  type Waiting,
} from "./driver.ts";
import { conditionOf, FORMAT, hasBegun, type Job, jobOf, OWN_RETRIES, retriesItself } from "./ipp-answers.ts";
import { type Attributes, firstOf } from "./ipp-codec.ts";
import { type Answer, type Endpoint, endpointOf } from "./ipp-endpoint.ts";

const FINAL = new Set(["canceled", "aborted", "completed"]);
const JOB_ATTRIBUTES = [
  "job-id",
  "job-name",
  "job-state",
  "job-state-reasons",
  "job-state-message",
  "job-printer-state-message",
  "time-at-processing",
];
const PRINTER_ATTRIBUTES = [
  "printer-state",
  "printer-state-reasons",
  "printer-state-message",
  "printer-is-accepting-jobs",
  "queued-job-count",
  "printer-make-and-model",
  "document-format-supported",
  "printer-error-policy",
];
const NOT_FOUND = 0x0406;
const MAY_HAVE_BEGUN = new Set([0x0500, 0x0504, 0x0508]); // internal-error, device-error, job-canceled: there may be a job all the same
/** Of how the queue is, or of who asks, and nothing against the label. */
const NOT_NOW = new Set([
  0x0401, 0x0402, 0x0403, // forbidden, not-authenticated, not-authorized
  0x0404, 0x0502, 0x0505, 0x0506, 0x0507, // not-possible (CUPS: too many jobs), service-unavailable, temporary-error, not-accepting-jobs, busy
]); // oxfmt-ignore

export const driver: Driver = {
  name: "ipp",
  schemes: ["ipp", "ipps"],
  can: ["queue"],
  check: (url) => void endpointOf(url, 0),
  open: async (url, profile, { clock = systemClock } = {}) => overQueue(endpointOf(url, timingOf(profile).answerMs, clock), profile, clock),
};

function overQueue(queue: Endpoint, profile: Profile, clock: Clock): Printer {
  const timing = timingOf(profile);
  const alone = oneAtATime();
  let last: string | undefined;
  let atWork: string | undefined; // the label that was seen to have begun, whatever is said of it later

  const attributes = async (): Promise<Attributes> =>
    good(await queue.ask("Get-Printer-Attributes", { wants: PRINTER_ATTRIBUTES })).printer[0] ?? {};
  /** Jobs of this name, done ones too as far as the queue remembers. */
  async function named(name: string): Promise<Job[]> {
    const answers = await Promise.all(
      ["not-completed", "completed"].map((which) => queue.ask("Get-Jobs", { wants: JOB_ATTRIBUTES, keywords: { "which-jobs": which } })),
    );
    return answers.flatMap((answer) => good(answer).jobs.map(jobOf)).filter((job) => job.name === name);
  }
  async function job(id: number): Promise<Job | undefined> {
    const answer = await queue.ask("Get-Job-Attributes", { jobId: id, wants: JOB_ATTRIBUTES });
    if (answer.code === NOT_FOUND) return undefined;
    const found = good(answer).jobs.map(jobOf);
    return found.find((one) => one.id === id) ?? found.find((one) => one.id === 0); // or it told no number
  }
  /** Numbers begin anew with some queues that restart: a job of another name is somebody else's. A queue may cut a name, or tell none. */
  const isOurs = ({ name }: Job, token: string): boolean => token.startsWith(name);

  async function preflight(): Promise<Status> {
    const nothing = { at: clock.now(), source: [], faults: [], warnings: [], waiting: null, counters: NO_COUNTERS };
    try {
      const found = await attributes();
      const { faults, warnings } = conditionOf(found);
      return {
        ...nothing,
        source: ["Get-Printer-Attributes"],
        ready: faults.length === 0,
        faults,
        warnings,
        waiting: firstOf(found, "queued-job-count", "number") ?? null,
      };
    } catch (error) {
      return { ...nothing, ready: false, faults: [{ name: "offline", words: (error as Error).message }] };
    }
  }

  async function submit({ bytes, token }: Encoded, mayLeave = () => true): Promise<Submission> {
    const offered = { token, bytesOffered: bytes.length, before: NO_COUNTERS, at: clock.now() };
    const nothingSent = (fault: string, retryable = true): Submission => ({ ...offered, bytesAccepted: 0, retryable, fault });
    const sent = { ...offered, bytesAccepted: bytes.length, retryable: false };
    const taken = (id: number): Submission => ({ ...sent, spoolId: String(id) });
    /** The label may be in the queue all the same, and its name says so. */
    const unsure = async (fault: string): Promise<Submission> => {
      const [there] = await named(token).catch(() => []);
      return there ? taken(there.id) : { ...sent, fault };
    };
    last = token;
    try {
      const [there] = await named(token);
      if (there) return taken(there.id); // it was sent before, and the answer was lost: never again
      const policy = firstOf(await attributes(), "printer-error-policy", "string");
      if (policy !== undefined && OWN_RETRIES.has(policy)) return nothingSent(retriesItself(policy), false);
    } catch (error) {
      return nothingSent((error as Error).message);
    }
    if (!mayLeave()) return nothingSent(saying("nothing_left_station"));
    try {
      const answer = await queue.ask("Print-Job", { name: token, format: FORMAT, document: bytes, withinMs: timing.stallMs });
      if (answer.fault !== undefined && MAY_HAVE_BEGUN.has(answer.code)) return await unsure(answer.fault);
      if (answer.fault !== undefined) return nothingSent(saying("queue_refused_why", { why: answer.fault }), NOT_NOW.has(answer.code));
      const id = firstOf(answer.jobs[0], "job-id", "number");
      return id === undefined ? { ...sent, fault: saying("queue_no_id") } : taken(id);
    } catch (error) {
      const { message, untouched } = error as Error & { untouched?: boolean };
      return untouched ? nothingSent(message) : unsure(message);
    }
  }

  async function awaitCompletion(submission: Submission, { withinMs = timing.completionMs, signal }: Waiting = {}): Promise<Completion> {
    if (submission.retryable) return verdict("failed", saying("nothing_reached_queue"), { toDestroy: 0 });
    if (submission.bytesAccepted === 0) return verdict("failed", submission.fault ?? saying("queue_refused"), { toDestroy: 0 });
    const { token } = submission;
    let seen = submission.fault ?? saying("queue_silent");
    return inTime(clock, withinMs, async (isUp) => {
      for (;;) {
        try {
          const id = submission.spoolId === undefined ? (await named(token))[0]?.id : Number(submission.spoolId);
          const now = id === undefined ? undefined : await job(id);
          if (!now && id !== undefined) return verdict("unknown", saying("queue_forgot_job", { job: id }));
          if (now && !isOurs(now, token)) return verdict("unknown", saying("queue_other_job", { job: now.id }));
          if (now && FINAL.has(now.state)) return ended(now, atWork === token);
          if (now && hasBegun(now)) atWork = token;
          if (now && atWork === token && (now.state === "pending" || now.state === "pending-held")) return await takenBack(now);
          if (now) seen = saying("job_is", { job: now.id, state: now.state, words: now.words });
          if (now?.state === "pending-held" || now?.state === "processing-stopped")
            return verdict("blocked", seen, { faults: await faultsNow(now) });
        } catch (error) {
          seen = (error as Error).message; // a queue that restarts comes back with its jobs
        }
        if (signal?.aborted || isUp()) return overdue(seen);
        await pause(clock, timing.pollMs);
      }
    });
  }
  /** It had begun and waits again: the queue means to send the whole label once more, and no queue decides that. */
  async function takenBack(job: Job): Promise<Completion> {
    const { fault } = await queue.ask("Cancel-Job", { jobId: job.id });
    return verdict(
      "unknown",
      fault ? saying("cut_off_stays", { job: job.id, words: job.words, why: fault }) : saying("cut_off", { job: job.id, words: job.words }),
    );
  }
  /** Waiting is no proof of anything: what the queue says of its printer decides whether a person is called to it or to the label. */
  async function overdue(words: string): Promise<Completion> {
    const { faults } = await preflight();
    return faults.length > 0 && faults[0]?.name !== "offline"
      ? verdict("blocked", saying("printer_waits_words", { faults: faultWords(faults), words }), { faults })
      : verdict("unknown", words);
  }
  async function faultsNow({ state, words }: Job): Promise<Fault[]> {
    const { faults } = await preflight();
    return faults.length > 0 ? faults : [{ name: "paused", words: saying("the_job_is", { state, words }) }];
  }
  function ended(job: Job, begun: boolean): Completion {
    const said = saying("job_is", { job: job.id, state: job.state, words: job.words });
    if (job.state === "completed") return verdict("unknown", saying("queue_says_done", { words: said }));
    if (job.wasProcessed === false && !begun) return verdict("failed", saying("ended_untouched", { words: said }), { toDestroy: 0 });
    return verdict("unknown", saying("ended_touched", { words: said }));
  }
  const verdict = (outcome: Outcome, reason: string, more: { faults?: Fault[]; toDestroy?: number } = {}): Completion => {
    const evidence: CompletionEvidence = { basis: `ipp: ${reason}`, grade: "D", ...(profile.simulated ? { simulated: true } : {}) };
    return { outcome, reason, faults: more.faults ?? [], toDestroy: more.toDestroy ?? null, evidence };
  };

  /** By its name, as the queue keeps it: it may have been sent before this agent began. What isn't surely untouched may still come out of the printer. */
  async function flush(token: string | undefined): Promise<Flush> {
    if (token === undefined) return { clean: true, waiting: 0, words: saying("queue_nothing_of_ours"), untouched: true };
    let begun = 0;
    try {
      const found = await named(token);
      if (found.length === 0) return { clean: false, waiting: null, words: saying("queue_forgot_label") };
      for (const before of found) {
        if (!FINAL.has(before.state)) await queue.ask("Cancel-Job", { jobId: before.id });
        const now = await job(before.id);
        const isUntouched = now !== undefined && isOurs(now, token) && FINAL.has(now.state) && now.wasProcessed === false;
        if (!isUntouched || hasBegun(before) || atWork === token) begun += 1;
      }
    } catch (error) {
      return { clean: false, waiting: null, words: (error as Error).message };
    }
    return begun === 0
      ? { clean: true, waiting: 0, words: saying("queue_nothing_of_ours"), untouched: true }
      : { clean: false, waiting: begun, words: saying("gone_before_cancel") };
  }

  return {
    probe: async () => {
      const found = await attributes().catch((): Attributes => ({}));
      return {
        driver: "ipp",
        identity: firstOf(found, "printer-make-and-model", "string") ?? null,
        fence: "ipp-job",
        status: "printer-state" in found,
        counter: false,
        rfid: "none",
        provenance: { fence: "documented", status: "probed" },
        ceiling: "D",
        cannotDetect: [
          "whether a label came out: a queue calls a job completed when it has handed it on",
          UNCOUNTED,
          "a dead element of the head, or no ribbon, where the printer doesn't tell the queue",
        ],
        simulated: profile.simulated ?? false,
      };
    },
    preflight,
    encode: async (bitmap, { epc, token = `imprimatur/${randomBytes(8).toString("hex")}` } = {}) => {
      if (epc !== undefined) throw new Refusal("LABEL_REFUSED", saying("queue_no_tags"));
      const bytes = pngAtScale(bitmap, profile.dpi);
      return { bytes, sha256: hash("sha256", bytes, "hex"), token };
    },
    submit: (encoded, mayLeave) => alone(() => submit(encoded, mayLeave)),
    awaitCompletion,
    flush: (token = last) => alone(() => flush(token)),
    close: async () => {},
  };
}

/** A question that was refused is no answer of "nothing there". */
function good(answer: Answer): Answer {
  if (answer.fault !== undefined) throw new Error(saying("queue_refuses_answer", { why: answer.fault }));
  return answer;
}

const PNG_HEAD_BYTES = 33; // signature and IHDR

/** Says how large a dot is, so that a filter on the way prints the label at its size and not over the whole sheet. */
function pngAtScale(bitmap: Bitmap, dpi: number): Buffer {
  const png = pngOf(bitmap);
  const chunk = Buffer.alloc(21);
  chunk.writeUInt32BE(9, 0);
  chunk.write("pHYs", 4, "latin1");
  const perMetre = Math.round(dpi / 0.0254);
  chunk.writeUInt32BE(perMetre, 8);
  chunk.writeUInt32BE(perMetre, 12);
  chunk[16] = 1; // metres
  chunk.writeUInt32BE(crc32(chunk.subarray(4, 17)), 17);
  return Buffer.concat([png.subarray(0, PNG_HEAD_BYTES), chunk, png.subarray(PNG_HEAD_BYTES)]);
}
