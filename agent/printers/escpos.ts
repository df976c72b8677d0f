// Receipt printers' language: the label as a raster, and behind it a question that the printer answers only when it has come so far.
import { Buffer } from "node:buffer";
import { hash, randomBytes } from "node:crypto";
import { saying } from "#shared/sayings.ts";
import type { Grade } from "#shared/states.ts";
import { type Clock, inTime } from "../clock.ts";
import type { Port } from "../duplex.ts";
import { dialogue, lane, nameless } from "./dialogue.ts";
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
  overBytes,
  type Printer,
  type Profile,
  says,
  type Status,
  type Submission,
  timingOf,
  type Waiting,
} from "./driver.ts";
import { type Answer, lexer, PAPER_END, PAPER_LOW, realtimeFaults, unaskedFaults } from "./escpos-answers.ts";
import { rasterOf } from "./escpos-raster.ts";

const REALTIME_QUESTIONS = [1, 2, 3, 4] as const;
const QUIET_MS = 200;
const ECHO = saying("echo");
const HEARD_MAX = 64;
/** After these a label goes on in another place, or on another roll. */
const CUTTING = new Set<FaultName>(["media-out", "head-open"]);

const bytes = (...values: number[]): Buffer => Buffer.from(values);
const askDone = (token: string): Buffer => Buffer.concat([bytes(0x1d, 0x28, 0x48, 6, 0, 0x30, 0x30), Buffer.from(token, "latin1")]); // GS ( H
const askPaper = bytes(0x1d, 0x72, 1); // GS r 1
const askNow = (n: number): Buffer => bytes(0x10, 0x04, n); // DLE EOT n
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
  const alone = lane();
  let asb: number[] | undefined;
  let fence: Fence | undefined = profile.fence;
  let inFlight: string | undefined;
  let owed = 0; // answers to GS r that are still to come: they carry no name
  let settled = false;
  let strays = 0; // answers to GS r that nobody asked for
  let papers: number[] = []; // what came since the label in flight was sent
  let echoes = false;
  let tellsHealth = false;
  let inStep = true;
  const heard = new Map<string, number>();
  let paperless: string | undefined; // the label behind which it answered that its paper has ended
  let stopped: { token: string; faults: Fault[] } | undefined; // the label in which it stood still, perhaps: it goes on with the next row, on the next roll
  const note = (token: string) => {
    if (!heard.has(token)) heard.set(token, clock.now()); // the first counts, a second is an echo
    for (const oldest of [...heard.keys()].slice(0, -HEARD_MAX)) heard.delete(oldest);
  };
  const statuses = nameless<number>(() => talk.silence((answer) => answer.kind === "realtime", QUIET_MS));
  const talk = dialogue(port, clock, lexer(), (answer) => {
    if (answer.kind === "realtime") statuses.heard(answer.bits);
    if (answer.kind === "unasked") asb = answer.bytes;
    if (answer.kind === "done") note(answer.token);
    if (answer.kind === "echo") echoes = true;
    if (answer.kind === "paper") {
      papers = [...papers, answer.bits].slice(-HEARD_MAX);
      if (owed === 1 && inFlight !== undefined && fence === "gs-r" && settled) {
        if ((answer.bits & PAPER_END) === 0) note(inFlight);
        else paperless = inFlight;
      }
      if (owed === 0) {
        settled = false; // from now on none can be told from another
        strays += 1;
      }
      owed = Math.max(0, owed - 1);
    }
  });

  const isAnswered = (token: string) => heard.has(token) || paperless === token || undefined;
  const ask = <T>(question: Buffer, pick: (answer: Answer) => T | undefined) => talk.ask(question, pick, timing.answerMs);
  const isDone = async (token = tokenOf()) =>
    (await ask(askDone(token), (answer) => (answer.kind === "done" && answer.token === token ? true : undefined))) ?? false;
  async function answersPaper(): Promise<boolean> {
    owed += 1;
    return (await ask(askPaper, (answer) => (answer.kind === "paper" ? true : undefined))) ?? false;
  }

  /** An answer doesn't say which question it answers, so old ones have to be over before the first is asked. */
  async function statusOf(n: 1 | 2 | 3 | 4): Promise<number | undefined> {
    const wasLate = !inStep; // every question that wasn't heard out has an answer to come
    if (wasLate) statuses.expectMore();
    inStep ||= await talk.silence((answer) => answer.kind === "realtime", timing.answerMs);
    const now = () => ask(askNow(n), (answer) => (answer.kind === "realtime" ? answer.bits : undefined));
    const bits = inStep ? await statuses.answer(now, n === 4 || wasLate) : undefined; // the last of a look: what is left over would be the first of the next one's
    tellsHealth ||= bits !== undefined;
    inStep &&= bits !== undefined || !tellsHealth; // who never answered doesn't know the question
    return bits;
  }

  async function health(): Promise<Omit<Status, "counters">> {
    const faults: Fault[] = [];
    const source: string[] = [];
    const warnings: string[] = [];
    for (const n of REALTIME_QUESTIONS) {
      const bits = await statusOf(n);
      if (bits === undefined && n === 1) break; // it doesn't know the question
      if (bits === undefined) continue;
      source.push(`DLE EOT ${n}`);
      faults.push(...realtimeFaults(n, bits));
      if (n === 4 && (bits & PAPER_LOW) !== 0) warnings.push(saying("paper_low"));
    }
    if (source.length === 0 && asb && !echoes && !talk.closed()) {
      source.push("ASB");
      faults.push(...unaskedFaults(asb));
    }
    const causes = faults.filter(({ name }, i) => faults.findIndex((fault) => fault.name === name) === i && name !== "offline");
    const named = causes.length > 0 ? causes : faults.slice(-1); // the last is the one that says most
    return { at: clock.now(), source, ready: source.length === 0 ? null : named.length === 0, faults: named, warnings, waiting: null };
  }

  /** Printing nothing, the questions that stand behind a label are answered at once by a printer that knows them, unless it is blocked. */
  async function findFence(): Promise<Fence | undefined> {
    if (await isDone()) return "gs-h";
    if (await settle()) return "gs-r";
    return (await health()).faults.length > 0 ? undefined : "none";
  }
  /** Answers to GS r have no name: before a new question means anything each one still under way has to arrive, and then none that wasn't asked for. */
  async function settle(tries = 2): Promise<boolean> {
    const before = strays;
    if (!(await answersPaper())) return false;
    await talk.pause(QUIET_MS);
    owed = 0;
    settled = strays === before && !echoes;
    return settled || (tries > 1 && !echoes && settle(tries - 1)); // a late answer comes once, noise again
  }

  /** A byte without a name may be a line's noise, or of a printer that was switched off and on: it has to answer once more, and the same. */
  async function isItsOwn(): Promise<boolean> {
    const before = papers.length;
    const isAnswered = (await settle(1)) || papers.length > before;
    const isOne = papers.every((bits) => bits === papers[0]);
    return isOne && (isAnswered || (await health()).faults.length > 0); // the roll may have ended with this label
  }

  async function probe(): Promise<Capabilities> {
    fence ??= await findFence();
    const { source } = await health();
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
        says.scanOnly,
        says.uncounted,
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
    if (inFlight !== undefined) return refused(says.otherInFlight);
    if (fence === "gs-r" && !settled && !(await settle())) return refused(echoes ? ECHO : saying("silent_or_talkative"));
    if (tellsHealth && (await statusOf(1)) === undefined)
      return refused(statuses.areTalkative() ? saying("status_drowned") : saying("status_silent"));
    if (!mayLeave()) return refused(says.nothingLeft);
    const at = clock.now();
    inFlight = token;
    papers = [];
    if (fence === "gs-r") owed += 1;
    const { accepted, fault } = await talk.send(sent, timing.stallMs);
    if (accepted === 0) inFlight = undefined;
    if (accepted < sent.length) settled = false;
    return { ...offered, bytesAccepted: accepted, retryable: accepted === 0, at, ...(fault === undefined ? {} : { fault }) };
  }

  async function awaitCompletion(submission: Submission, { withinMs = timing.completionMs, signal }: Waiting = {}): Promise<Completion> {
    const { token } = submission;
    const done = (completion: Completion) => {
      if (inFlight === token && completion.outcome !== "blocked" && !isCut(submission)) inFlight = undefined;
      if (completion.outcome === "unknown") settled = false;
      return completion;
    };
    if (submission.retryable) return done(verdict(token, "failed", says.nothingLeft));
    return inTime(clock, withinMs, async (isUp) => {
      for (;;) {
        const at = heard.get(token);
        if (at !== undefined && fence === "gs-r" && !(await isItsOwn())) return done(verdict(token, "unknown", saying("noise_behind")));
        if (at !== undefined && stopped?.token === token)
          return done(verdict(token, "unknown", saying("stopped_within", { faults: faultWords(stopped.faults) }), stopped));
        if (at !== undefined) return done(verdict(token, "confirmed", saying("answered_behind"), { answeredAt: at }));
        if (paperless === token) {
          const why = saying("paper_ended_behind");
          return done(verdict(token, "unknown", why, { faults: [{ name: "media-out", words: saying("out_of_paper") }] }));
        }
        const lost = talk.closed();
        if (lost) return done(verdict(token, "unknown", says.lost(lost)));
        await talk.hear(() => isAnswered(token), timing.pollMs);
        if (isAnswered(token) || talk.closed()) continue;
        const { faults, source } = await health();
        if (faults.some(({ name }) => CUTTING.has(name))) stopped = { token, faults };
        if (isAnswered(token)) continue;
        if (faults.length > 0) return done(verdict(token, "blocked", says.blocked(faults), { faults }));
        if (!signal?.aborted && !isUp()) continue;
        const isAllThereIs = fence === "none" && source.length > 0 && !isCut(submission); // where an answer was to come, its absence speaks against the label
        const said = verdict(token, "unknown", saying("no_answer_for_label"), isAllThereIs ? { wellBy: source.join(", ") } : {});
        return done({ ...said, ...(talk.closed() ? {} : { unanswered: true }) });
      }
    });
  }

  function verdict(
    token: string,
    outcome: Completion["outcome"],
    reason: string,
    more: { faults?: Fault[]; answeredAt?: number; wellBy?: string } = {},
  ): Completion {
    const { grade } = FENCES[fence ?? "none"];
    const isConfirmed = outcome === "confirmed";
    const { wellBy } = more;
    const evidence: CompletionEvidence = {
      basis: isConfirmed ? (fence ?? "none") : (wellBy ?? "none"),
      grade: (isConfirmed ? grade : undefined) ?? (wellBy === undefined ? "E" : "C"),
      token,
      ...(more.answeredAt === undefined ? {} : { answered_at: new Date(more.answeredAt).toISOString() }),
      ...(profile.simulated ? { simulated: true } : {}),
    };
    return { outcome, reason, faults: more.faults ?? [], toDestroy: outcome === "unknown" ? null : 0, evidence };
  }

  return {
    probe: () => alone(probe),
    preflight: () => alone(async () => ({ ...(await health()), counters: NO_COUNTERS })),
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
        settled = false;
        if (clean) inFlight = undefined;
        const waiting = clean ? 0 : null;
        return { clean, waiting, words: says.waiting(waiting) };
      }),
    close: () => port.end(),
  };
}

/** Another one each time, so that a late answer for an earlier label is told from this one's. */
const tokenOf = (): string => (randomBytes(4).readUInt32BE() % 36 ** 4).toString(36).toUpperCase().padStart(4, "0");

export const driver = overBytes("escpos", [], overPort);
