// Receipt printers' language: the label as a raster, and behind it a question that the printer answers only when it has come so far.
import { Buffer } from "node:buffer";
import { hash, randomBytes } from "node:crypto";
import { saying } from "#shared/sayings.ts";
import type { Grade } from "#shared/states.ts";
import { type Clock, inTime } from "../clock.ts";
import type { Port } from "../duplex.ts";
import { dialogue, oneAtATime } from "./dialogue.ts";
import {
  type Capabilities,
  type Completion,
  type CompletionEvidence,
  type Encoded,
  type Fault,
  type FaultName,
  faultWords,
  isCut,
  NO_COUNTERS,
  noEncoder,
  type Outcome,
  overBytes,
  type Printer,
  type Profile,
  SCAN_ONLY,
  UNCOUNTED,
  waitingWords,
  type Submission,
  timingOf,
  type Waiting,
} from "./driver.ts";
import { type Answer, lexer, PAPER_END } from "./escpos-answers.ts";
import { healthOf } from "./escpos-health.ts";
import { askPaper, paperOf } from "./escpos-paper.ts";
import { rasterOf } from "./escpos-raster.ts";

const ECHO = saying("echo");
const HEARD_MAX = 64;
/** After these a label goes on in another place, or on another roll. */
const CUTTING = new Set<FaultName>(["media-out", "head-open"]);

const bytes = (...values: number[]): Buffer => Buffer.from(values);
const askDone = (token: string): Buffer => Buffer.concat([bytes(0x1d, 0x28, 0x48, 6, 0, 0x30, 0x30), Buffer.from(token, "latin1")]); // GS ( H
const dropAll = bytes(0x10, 0x14, 8, 1, 3, 20, 1, 6, 2, 8); // DLE DC4 8

type Fence = NonNullable<Profile["fence"]>;
/** How it answers behind a label, in order: what such an answer is worth, and the question that stands there. */
const FENCES: Record<Fence, { grade?: Grade; question(token: string): Buffer }> = {
  "gs-h": { grade: "A", question: askDone },
  "gs-r": { grade: "B", question: () => askPaper },
  none: { question: () => bytes() },
};

function overPort(port: Port, profile: Profile, clock: Clock): Printer {
  const timing = timingOf(profile);
  const alone = oneAtATime();
  let fence: Fence | undefined = profile.fence;
  let inFlight: string | undefined;
  let echoes = false; // its line does
  const heard = new Map<string, number>();
  let paperless: string | undefined; // the label behind which it answered that its paper has ended
  let stopped: { token: string; faults: Fault[] } | undefined; // the label in which it stood still, perhaps: it goes on with the next row, on the next roll
  const note = (token: string) => {
    if (!heard.has(token)) heard.set(token, clock.now()); // the first counts, a second is an echo
    for (const oldest of [...heard.keys()].slice(0, -HEARD_MAX)) heard.delete(oldest);
  };
  const line = { talk: () => talk, echoes: () => echoes, answerMs: timing.answerMs };
  const health = healthOf(line, clock);
  const paper = paperOf(line);
  const talk = dialogue(port, clock, lexer(), (answer) => {
    health.heard(answer);
    if (answer.kind === "done") note(answer.token);
    if (answer.kind === "echo") echoes = true;
    if (answer.kind !== "paper" || !paper.heard(answer.bits) || inFlight === undefined || fence !== "gs-r") return;
    if ((answer.bits & PAPER_END) === 0) note(inFlight);
    else paperless = inFlight;
  });

  const isAnswered = (token: string) => heard.has(token) || paperless === token || undefined;
  const ask = <T>(question: Buffer, pick: (answer: Answer) => T | undefined) => talk.ask(question, pick, timing.answerMs);
  async function knowsDone(): Promise<boolean> {
    const token = tokenOf();
    return (await ask(askDone(token), (answer) => (answer.kind === "done" && answer.token === token ? true : undefined))) ?? false;
  }
  const isBlocked = async () => (await health.look()).faults.length > 0;
  /** Printing nothing, the questions that stand behind a label are answered at once by a printer that knows them, unless it is blocked. */
  async function findFence(): Promise<Fence | undefined> {
    if (await knowsDone()) return "gs-h";
    if (await paper.settle()) return "gs-r";
    return (await isBlocked()) ? undefined : "none";
  }

  async function probe(): Promise<Capabilities> {
    fence ??= await findFence();
    const { source } = await health.look();
    return {
      driver: "escpos",
      identity: null, // clones answer with the name of what they imitate
      fence: fence ?? "none",
      status: source.length > 0,
      counter: false,
      rfid: "none",
      provenance: { fence: profile.fence ? "documented" : "probed", status: "probed" },
      ceiling: FENCES[fence ?? "none"].grade ?? (source.length > 0 ? "C" : "E"),
      cannotDetect: [
        SCAN_ONLY,
        UNCOUNTED,
        "a dead element of its head",
        ...(fence === "gs-r"
          ? ["whether the label came out whole: it answers when it has read the label, in order, and the last lines may still be printing"]
          : []),
        ...(fence === "none" || fence === undefined
          ? ["whether the label was printed at all: it answers no question that waits for the label"]
          : []),
      ],
      ...(fence === undefined && !echoes ? { warnings: [saying("blocked_when_asked")] } : {}),
      ...(echoes ? { warnings: [ECHO] } : {}),
      simulated: profile.simulated ?? false,
    };
  }

  async function submit({ bytes: sent, token }: Encoded, mayLeave = () => true): Promise<Submission> {
    const offered = { token, bytesOffered: sent.length, before: NO_COUNTERS };
    const refused = (fault: string): Submission => ({ ...offered, bytesAccepted: 0, retryable: true, at: clock.now(), fault });
    if (inFlight !== undefined) return refused(saying("another_in_flight"));
    if (fence === "gs-r" && !paper.isSettled() && !(await paper.settle())) return refused(echoes ? ECHO : saying("silent_or_talkative"));
    if (await health.isSilent()) return refused(health.areTalkative() ? saying("status_drowned") : saying("status_silent"));
    if (!mayLeave()) return refused(saying("nothing_left_station"));
    const at = clock.now();
    inFlight = token;
    paper.sends(fence === "gs-r");
    const { accepted, fault } = await talk.send(sent, timing.stallMs);
    if (accepted === 0) inFlight = undefined;
    if (accepted < sent.length) paper.unsettle();
    return { ...offered, bytesAccepted: accepted, retryable: accepted === 0, at, ...(fault === undefined ? {} : { fault }) };
  }

  async function awaitCompletion(submission: Submission, { withinMs = timing.completionMs, signal }: Waiting = {}): Promise<Completion> {
    const { token } = submission;
    const done = (completion: Completion) => {
      if (inFlight === token && completion.outcome !== "blocked" && !isCut(submission)) inFlight = undefined;
      if (completion.outcome === "unknown") paper.unsettle();
      return completion;
    };
    if (submission.retryable) return done(verdict(token, "failed", saying("nothing_left_station")));
    return inTime(clock, withinMs, async (isUp) => {
      for (;;) {
        const end = await endOf(token);
        if (end) return done(end);
        await talk.hear(() => isAnswered(token), timing.pollMs);
        if (isAnswered(token) || talk.closed()) continue;
        const { faults, source } = await health.look();
        if (faults.some(({ name }) => CUTTING.has(name))) stopped = { token, faults };
        if (isAnswered(token)) continue;
        if (faults.length > 0) return done(verdict(token, "blocked", saying("printer_waits", { faults: faultWords(faults) }), { faults }));
        if (!signal?.aborted && !isUp()) continue;
        const isAllThereIs = fence === "none" && source.length > 0 && !isCut(submission); // where an answer was to come, its absence speaks against the label
        const said = verdict(token, "unknown", saying("no_answer_for_label"), isAllThereIs ? { wellBy: source.join(", ") } : {});
        return done({ ...said, ...(talk.closed() ? {} : { unanswered: true }) });
      }
    });
  }

  /** A label's end by what has come; undefined where nothing has. */
  async function endOf(token: string): Promise<Completion | undefined> {
    const at = heard.get(token);
    if (at !== undefined) {
      if (fence === "gs-r" && !(await paper.isItsOwn(isBlocked))) return verdict(token, "unknown", saying("noise_behind"));
      if (stopped?.token !== token) return verdict(token, "confirmed", saying("answered_behind"), { answeredAt: at });
      return verdict(token, "unknown", saying("stopped_within", { faults: faultWords(stopped.faults) }), stopped);
    }
    if (paperless === token) {
      const faults: Fault[] = [{ name: "media-out", words: saying("out_of_paper") }];
      return verdict(token, "unknown", saying("paper_ended_behind"), { faults });
    }
    const lost = talk.closed();
    return lost && verdict(token, "unknown", saying("lost_before_answer", { why: lost.words }));
  }

  function verdict(
    token: string,
    outcome: Outcome,
    reason: string,
    { faults = [], answeredAt, wellBy }: { faults?: Fault[]; answeredAt?: number; wellBy?: string } = {},
  ): Completion {
    const asked = fence ?? "none";
    const unproven = wellBy === undefined ? { basis: "none", grade: "E" as const } : { basis: wellBy, grade: "C" as const };
    const evidence: CompletionEvidence = {
      ...(outcome === "confirmed" ? { basis: asked, grade: FENCES[asked].grade ?? "E" } : unproven),
      token,
      ...(answeredAt === undefined ? {} : { answered_at: new Date(answeredAt).toISOString() }),
      ...(profile.simulated ? { simulated: true } : {}),
    };
    return { outcome, reason, faults, toDestroy: outcome === "unknown" ? null : 0, evidence };
  }

  return {
    probe: () => alone(probe),
    preflight: () => alone(async () => ({ ...(await health.look()), counters: NO_COUNTERS })),
    encode: async (bitmap, { epc, token = tokenOf() } = {}) => {
      if (epc !== undefined) throw noEncoder(profile);
      if (!/^[0-9A-Z]{4}$/.test(token)) throw new TypeError(`the token ${token} isn't four of 0-9 and A-Z`);
      fence ??= await alone(findFence);
      if (fence === undefined) throw new Error(saying("blocked_cant_ask", { printer: profile.name }));
      const whole = Buffer.concat([await rasterOf(bitmap, profile), FENCES[fence].question(token)]);
      return { bytes: whole, sha256: hash("sha256", whole, "hex"), token };
    },
    submit: (encoded, mayLeave) => alone(() => submit(encoded, mayLeave)),
    awaitCompletion: (submission, options) => alone(() => awaitCompletion(submission, options)),
    flush: () =>
      alone(async () => {
        // A blocked printer answers nothing that stands in its queue, so its word that the queue is empty has to do.
        const clean = (await ask(dropAll, (answer) => (answer.kind === "cleared" ? true : undefined))) ?? false;
        paper.unsettle();
        if (clean) inFlight = undefined;
        const waiting = clean ? 0 : null;
        return { clean, waiting, words: waitingWords(waiting) };
      }),
    close: () => port.end(),
  };
}

/** Another one each time, so that a late answer for an earlier label is told from this one's. */
const tokenOf = (): string => (randomBytes(4).readUInt32BE() % 36 ** 4).toString(36).toUpperCase().padStart(4, "0");

export const driver = overBytes("escpos", [], overPort);
