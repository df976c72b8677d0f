// One printer, one lane: one label in flight, from its drawing to its seal. It waits for paper, for people and for its lease, and never prints a label twice.
import { Refusal } from "#shared/errors.ts";
import { askAgain, closeAttempt } from "./answers.ts";
import { askOf, type Attempt } from "./attempt.ts";
import type { PrinterConfig } from "./config.ts";
import type { Label } from "./label.ts";
import { drivers } from "./printers/index.ts";
import {
  attests,
  type Capabilities,
  type Fault,
  type FaultName,
  type Printer,
  type Status,
  type Submission,
  type Timing,
} from "./printers/driver.ts";
import { PAUSES_MS } from "./reconnecting.ts";
import * as steps from "./steps.ts";

export type LaneState = {
  name: string;
  /** In a word, and in words. */
  status: "starting" | "ready" | "printing" | "blocked" | "offline";
  words: string;
  since: number;
  capabilities: Capabilities | null;
  warnings: string[];
  /** What keeps it from printing, by name. */
  faults: FaultName[];
};
export type Lane = {
  config: PrinterConfig;
  state(): LaneState;
  /** Prints a label that is nobody's, between two jobs; says in words what came of it. */
  test(operator: string): Promise<string>;
  end(): Promise<void>;
};
export type Lease = "alive" | "lost" | "unknown";
export type LaneFloor = steps.Floor & {
  paused(): boolean;
  /** Makes sure that the job is still ours, for long enough to print it. */
  holds(attempt: Attempt): Promise<Lease>;
  /** There is room for another job. */
  hungry(): void;
};
export type LanePatience = {
  /** How long a label may wait in a printer that needs a person, before it is taken back. */
  blockedMs: number;
  idleMs: number;
  drainMs: number;
  /** For a label's end, from a printer that never tells one. */
  muteMs: number;
  retryMs: readonly number[];
  /** A printer that didn't answer when it was asked what it can is asked again at the next opening after this. */
  probeAgainMs: number;
};
export const PATIENCE: LanePatience = {
  blockedMs: 30 * 60_000,
  idleMs: 10_000,
  drainMs: 5_000,
  muteMs: 1_500,
  retryMs: PAUSES_MS,
  probeAgainMs: 60_000,
};

/** A label on its way through the printer. */
type Flight = { attemptId: string; submission: Submission };
const LOOK_MS = 1_000;
const SETTLE_MS = 500;
const LAST_TRIES = 3;
const FRESH_MS = 2_000;
const UNEXPLAINED_MAX = 20;
const TEST_MS = 10_000;

export function startLane(
  floor: LaneFloor,
  config: PrinterConfig,
  options: { timing?: Partial<Timing>; patience?: Partial<LanePatience> } = {},
): Lane {
  const { store, clock, news, say } = floor;
  const patience = { ...PATIENCE, ...options.patience };
  const stop = new AbortController();
  const mayHold = config.inFlight ?? 1;
  let over = false;
  let printer: Printer | undefined;
  let capabilities: Capabilities | null = null;
  let probedAt = -Infinity;
  let failures = 0;
  let lookedAt = 0;
  let state: LaneState = {
    name: config.name,
    status: "starting",
    words: "not looked at yet",
    since: clock.now(),
    capabilities: null,
    warnings: [],
    faults: [],
  };

  /** A change is told once. */
  function become(status: LaneState["status"], words: string, warnings: string[] = [], faults: Fault[] = []): void {
    const isNews = status !== state.status || words !== state.words;
    if (isNews && (status === "blocked" || status === "offline"))
      say("warn", { event: "printer", printer: config.name, status }, `${config.name}: ${words}`);
    if (isNews && status === "ready" && (state.status === "blocked" || state.status === "offline"))
      say("info", { event: "printer", printer: config.name, status }, `${config.name} is ready again`);
    const isBack = status === "ready" && state.status !== "ready" && state.status !== "printing";
    state = {
      ...state,
      status,
      words,
      warnings,
      faults: faults.map(({ name }) => name),
      capabilities,
      since: isNews ? clock.now() : state.since,
    };
    if (isNews) news.beat();
    if (isBack) floor.hungry();
  }

  async function open(): Promise<Printer | undefined> {
    if (printer) return printer;
    const { name, dpi, rfid, simulated, setup, rfidTries, fence, cut, inFlight, driver, port } = config;
    const profile = {
      name, dpi, rfid, simulated, ...(setup === undefined ? {} : { setup }), ...(rfidTries === undefined ? {} : { rfidTries }),
      ...(fence === undefined ? {} : { fence }), ...(cut === undefined ? {} : { cut }), ...(inFlight === undefined ? {} : { inFlight }), ...(options.timing ? { timing: options.timing } : {}),
    }; // oxfmt-ignore
    try {
      const opened = await drivers[driver]?.open(port, profile, { clock });
      if (!opened) throw new Error(`there is no driver ${driver}`);
      printer = opened;
      // What never answers is spared the questions for a while; it may only have been starting up.
      if (!capabilities || attests(capabilities.ceiling) || clock.now() - probedAt > patience.probeAgainMs) {
        capabilities = await opened.probe();
        probedAt = clock.now();
      }
      failures = 0;
      lookedAt = 0;
      become(state.status === "printing" ? "printing" : "ready", "ready");
    } catch (error) {
      await close();
      become("offline", (error as Error).message);
      const pauseMs = patience.retryMs[Math.min(failures, patience.retryMs.length - 1)] ?? LOOK_MS;
      failures += 1;
      await waitFor(() => over, pauseMs);
    }
    return printer;
  }
  async function close(): Promise<void> {
    const closing = printer;
    printer = undefined;
    await closing?.close();
  }
  /** Looks again at every piece of news, for so long. */
  async function waitFor(isSo: () => boolean, ms: number): Promise<void> {
    for (const until = clock.now() + ms; !isSo() && clock.now() < until;) await news.next(Math.max(1, until - clock.now()));
  }

  /** Whether it could print now; a printer that says nothing of itself is taken at its word. */
  async function isReady(at: Printer): Promise<boolean> {
    if (capabilities && !capabilities.status && config.driver !== "ipp") {
      become("ready", "it doesn't tell how it is");
      return true;
    }
    const status = await at.preflight();
    lookedAt = clock.now();
    if (status.source.length === 0 && status.ready !== false) {
      become("offline", "it no longer answers: is it on?");
      await close();
      return false;
    }
    watchCounter(status);
    if (status.ready === false) {
      become("blocked", status.faults.map(({ words }) => words).join(", ") || "it isn't ready", status.warnings, status.faults);
      return false;
    }
    become("ready", "ready", status.warnings);
    return true;
  }

  // --- the counter: labels that came out without a job of ours

  const counterName = `odometer:${config.name}`;
  const expected = (): number | null => JSON.parse(store.meta(counterName) ?? "null") as number | null;
  function watchCounter({ counters }: Status): void {
    const now = counters.labels;
    const before = expected();
    if (now === null || now === before) return;
    if (before === null && store.inHand().some(holds)) return; // a label whose end isn't known may move it yet
    store.write(() => {
      store.setMeta(counterName, JSON.stringify(now));
      if (before === null) return;
      const moved = now - before;
      for (let i = 0; i < Math.min(moved, UNEXPLAINED_MAX); i += 1)
        store.label(config.name, "unexplained", `its counter went from ${before} to ${now} without a job`);
      say(
        "warn",
        { event: "counter", printer: config.name, before, now },
        `${config.name}: its label counter went from ${before} to ${now} without a job of ours`,
      );
    });
  }

  // --- one label

  /** A label, and as long as there are more of them the next behind it, so that the printer needn't stop between two. */
  async function work(attempt: Attempt, at: Printer): Promise<void> {
    let flight = await dispatch(attempt, at);
    while (flight) {
      const isOut = new AbortController();
      const [followed, behind] = await Promise.allSettled([
        follow(flight, at).finally(() => {
          isOut.abort();
          news.beat();
        }),
        mayHold > 1 ? goBehind(flight, at, isOut.signal) : undefined,
      ]);
      const next = behind.status === "fulfilled" ? behind.value : undefined;
      const isWell = followed.status === "fulfilled" && followed.value;
      if (next && !isWell) await durable(() => abandonIfSent(next.attemptId, "what became of the label before it isn't known"));
      for (const one of [followed, behind]) if (one.status === "rejected") throw one.reason;
      flight = isWell ? next : undefined;
    }
  }
  function abandonIfSent(attemptId: string, why: string): void {
    const attempt = store.must(attemptId);
    if (steps.isAbandoned(attempt)) steps.abandon(floor, attempt, why);
  }
  /** Tags are written one at a time, so that void labels belong to somebody. */
  const isPlain = ({ task }: Attempt) => !task.needs.includes("rfid");
  const holds = (attempt: Attempt) => isMine(attempt) && attempt.stage !== "waiting" && attempt.stage !== "rendered";

  /** The next label, sent while this one moves; undefined where this one is out before there is one. */
  async function goBehind({ attemptId }: Flight, at: Printer, isOut: AbortSignal): Promise<Flight | undefined> {
    if (!capabilities?.counter || !isPlain(store.must(attemptId))) return undefined;
    while (!isOut.aborted && !over) {
      const inHand = store.inHand();
      const held = inHand.filter(holds);
      const isFree = held.length < mayHold && held.every((one) => askOf(one) === null) && state.status === "printing";
      const next = isFree && !asked && !floor.paused() && store.fault() === null ? pick(inHand) : undefined;
      if (next && !isPlain(next)) return undefined;
      if (next) return dispatch(next, at, true);
      await news.next(LOOK_MS);
    }
    return undefined;
  }

  async function dispatch(attempt: Attempt, at: Printer, isBehind = false): Promise<Flight | undefined> {
    floor.hungry();
    const lease = await floor.holds(attempt);
    if (lease !== "alive" || over || store.must(attempt.attemptId).ended !== null) {
      if (lease === "unknown" && !isBehind) become("ready", "a job waits for word from the cloud that it is still ours");
      if (lease === "unknown" && !over) await news.next(LOOK_MS);
      return undefined;
    }
    const claimed = attempt.printer === config.name ? attempt : store.change(attempt.attemptId, { printer: config.name });
    const label = await steps.render(floor, claimed, config);
    if (!label || over || !isToSend(attempt.attemptId)) return undefined;
    if (!isBehind) become("printing", `prints ${attempt.jobRef}`);
    const submission = await send(store.must(attempt.attemptId), at, label, isBehind);
    return submission && { attemptId: attempt.attemptId, submission };
  }

  /** Its job may have gone on, or been refused, while it was drawn. */
  function isToSend(attemptId: string): boolean {
    const { stage, ended } = store.must(attemptId);
    return stage === "rendered" && ended === null;
  }

  /** Undefined where surely nothing left: the same attempt may be sent again. */
  async function send(attempt: Attempt, at: Printer, { bitmap }: Label, isBehind: boolean): Promise<Submission | undefined> {
    const { attemptId, task } = attempt;
    const epc = task.needs.includes("rfid") ? steps.contentOf(attempt).epc : undefined;
    const token = config.driver === "ipp" ? { token: `${task.job_ref}/${attemptId}` } : {};
    const encoded = await at.encode(bitmap, { ...(epc === undefined ? {} : { epc }), ...token });
    if (!isToSend(attemptId)) return undefined;
    const act = steps.intend(floor, attempt, config.name, {
      token: encoded.token,
      sha256: encoded.sha256,
      bytes: encoded.bytes.length,
      counter: expected(),
    });
    const submission = await at.submit(encoded);
    const left = await durable(() => {
      store.setMeta(counterName, "null"); // until the label's end is known, the counter may move
      return steps.submitted(floor, attemptId, act, submission, config);
    });
    news.beat();
    if (left) return submission;
    if (!submission.retryable) steps.fail(floor, attempt, submission.fault ?? "the printer refused it", { disposition: "not_printed" });
    else if (!isBehind) {
      become("offline", submission.fault ?? "nothing could be sent");
      await close();
      await waitFor(() => over, patience.retryMs[0] ?? LOOK_MS);
    }
    return undefined;
  }

  /** Whatever the disk says: what was done is written down before anything else is. */
  async function durable<T>(act: () => T): Promise<T> {
    for (let tries = 1; ; tries += 1)
      try {
        return act();
      } catch (error) {
        if (store.fault() === null || (over && tries > LAST_TRIES)) throw error; // the intent is written: the next start asks
        become("blocked", store.fault() ?? "");
        await waitFor(() => false, LOOK_MS);
      }
  }

  /** Whether it came out well, so that what is behind it can be told from it. */
  async function follow({ attemptId, submission }: Flight, at: Printer): Promise<boolean> {
    if (mayHold > 1) become("printing", `prints ${store.must(attemptId).jobRef}`);
    const known = capabilities as Capabilities;
    const isMute = known.fence === "none" || (!attests(known.ceiling) && config.driver !== "ipp");
    const blockedFrom = clock.now();
    for (;;) {
      const completion = await at.awaitCompletion(submission, { signal: stop.signal, ...(isMute ? { withinMs: patience.muteMs } : {}) });
      if (completion.outcome !== "blocked") {
        const after = completion.outcome === "confirmed" ? completion.evidence.after : undefined;
        if (completion.outcome === "failed") await at.flush();
        await durable(() => {
          steps.completed(floor, attemptId, completion, config, known);
          store.setMeta(counterName, JSON.stringify((mayHold === 1 && after) || null)); // the one behind it moves it on
        });
        // What comes late belongs to nobody's next label; and one that never answers may wait for our goodbye before it prints.
        if (completion.outcome === "unknown" && config.driver !== "ipp") await close();
        return completion.outcome === "confirmed";
      }
      become("blocked", completion.reason, [], completion.faults);
      const isGone = store.must(attemptId).stage !== "sent";
      if (stop.signal.aborted) return false; // it waits in the printer: the next start asks for it
      if (isGone || clock.now() - blockedFrom > patience.blockedMs) {
        await takeBack(attemptId, at, completion.reason);
        return false;
      }
      await waitFor(() => stop.signal.aborted || store.must(attemptId).stage !== "sent", LOOK_MS);
    }
  }
  /** What can't be printed is taken out of the printer before its job is given back, so that it can't come out later. */
  async function takeBack(attemptId: string, at: Printer, reason: string): Promise<void> {
    const flushed = await at.flush();
    const counter = await cameOut(at, store.must(attemptId));
    await durable(() => {
      const attempt = store.must(attemptId);
      if (attempt.stage !== "sent") return;
      if (counter !== null) askAgain(floor, attempt, counter);
      else if (flushed.clean && (mayHold === 1 || attempt.work.counter !== undefined))
        steps.fail(floor, attempt, `taken out of the printer: ${reason}`, { disposition: "not_printed" });
      else store.change(attemptId, { work: { unknown: `${reason}; and ${flushed.words}` } });
    });
    news.beat();
  }

  /** Where the counter stands, if it has moved since the label was sent; null where it hasn't, or there is none. */
  async function cameOut(at: Printer, { work }: Attempt): Promise<number | null> {
    if (work.counter === undefined || !capabilities?.counter) return null;
    await waitFor(() => false, SETTLE_MS); // a label that was moving has come out by then
    const { counters } = await at.preflight();
    return counters.labels !== null && counters.labels > work.counter ? counters.labels : null;
  }

  /** A person has said that there is no good label; nothing of it may come out later. */
  async function closing(attempt: Attempt): Promise<void> {
    const at = printer ?? (await open());
    const flushed = at ? { ...(await at.flush()), asked: true } : { waiting: null, words: "the printer can't be asked", asked: false };
    // Of a label that was sent behind another nobody knows where the counter stood: it is looked for once more, now that nothing can come out.
    const isBlind = mayHold > 1 && attempt.work.counter === undefined;
    const look = async (printer: Printer) => (isBlind ? (await printer.preflight()).counters.labels : cameOut(printer, attempt));
    const counter = at && attempt.work.closing?.verdict === "not_printed" ? await look(at) : null;
    await durable(() => {
      if (counter === null) closeAttempt(floor, attempt, flushed);
      else askAgain(floor, attempt, counter);
      store.setMeta(counterName, "null");
    });
  }

  // --- a label that is nobody's

  let asked: { operator: string; done: PromiseWithResolvers<string> } | undefined;
  function test(operator: string): Promise<string> {
    if (over) throw new Refusal("NOT_READY", "the station is ending");
    if (asked) throw new Refusal("ILLEGAL_TRANSITION", "a test label is already asked for", { allowed: [] });
    const isBusy = store.inHand().some(holds);
    if (isBusy || (state.status !== "ready" && state.status !== "blocked"))
      throw new Refusal("ILLEGAL_TRANSITION", `${config.name} can't print a test label now: ${state.words}`, { allowed: [] });
    asked = { operator, done: Promise.withResolvers<string>() };
    news.beat();
    return asked.done.promise;
  }
  /** Asked for and not to be had: it must not come out later, when nobody looks any more. */
  function dropTest(): void {
    asked?.done.reject(new Refusal("ILLEGAL_TRANSITION", `${config.name} can't print a test label now: ${state.words}`, { allowed: [] }));
    asked = undefined;
  }
  async function answerTest(at: Printer): Promise<void> {
    if (!asked) return;
    const { operator, done } = asked;
    try {
      done.resolve(await printTest(at, operator));
    } catch (error) {
      done.reject(error);
    } finally {
      asked = undefined;
    }
  }
  async function printTest(at: Printer, operator: string): Promise<string> {
    if (!(await isReady(at))) throw new Refusal("ILLEGAL_TRANSITION", `${config.name} can't print now: ${state.words}`, { allowed: [] });
    const encoded = await at.encode(steps.testDrawing(floor, config));
    store.write(() => {
      store.label(config.name, "explained", `a test label, as ${operator} asked`);
      store.setMeta(counterName, "null");
    });
    become("printing", "prints a test label");
    const submission = await at.submit(encoded);
    if (submission.bytesAccepted === 0) throw new Refusal("NOT_READY", submission.fault ?? "nothing could be sent");
    const completion = await at.awaitCompletion(submission, { signal: stop.signal, withinMs: TEST_MS });
    if (completion.outcome !== "confirmed") await at.flush();
    store.setMeta(counterName, JSON.stringify(completion.outcome === "confirmed" ? (completion.evidence.after ?? null) : null));
    become("ready", "ready");
    say("info", { event: "test_label", printer: config.name, operator }, `${config.name}: test label: ${completion.reason}`);
    return `${completion.outcome}: ${completion.reason}`;
  }

  // --- the loop

  const isMine = (attempt: Attempt) => attempt.printer === config.name;
  const canDo = ({ task }: Attempt) => config.rfid || !task.needs.includes("rfid");
  const canStart = (attempt: Attempt) =>
    (attempt.stage === "waiting" || attempt.stage === "rendered") &&
    (attempt.printer === null || attempt.printer === config.name) &&
    askOf(attempt) === null &&
    canDo(attempt);
  const pick = (open: Attempt[]): Attempt | undefined => open.find((one) => isMine(one) && canStart(one)) ?? open.find(canStart);

  async function round(): Promise<void> {
    const inHand = store.inHand();
    const held = inHand.filter(holds);
    const given = held.find(({ stage }) => stage === "closing");
    if (given) return closing(given);
    const abandoned = held.find(steps.isAbandoned);
    if (abandoned) return durable(() => steps.abandon(floor, abandoned)); // a fault of ours let go of it
    const asking = held.find((one) => askOf(one) !== null);
    if (asking || held.length >= mayHold) {
      dropTest();
      const words = asking ? `waits for an answer about ${asking.jobRef}` : `waits for the scan of ${held[0]?.jobRef}`;
      become(state.status === "offline" ? "offline" : "ready", words);
      return news.next(LOOK_MS);
    }
    const at = await open();
    if (!at) return dropTest();
    if (asked) return answerTest(at);
    const next = floor.paused() || store.fault() !== null ? undefined : pick(inHand);
    const isStale = clock.now() - lookedAt > (next ? FRESH_MS : patience.idleMs) || (capabilities?.counter && expected() === null);
    if ((isStale || state.status === "blocked") && !(await isReady(at))) return waitFor(() => over, LOOK_MS);
    if (!next) {
      if (state.status === "printing") become("ready", "ready");
      if (state.words.startsWith("waits for")) become("ready", "ready");
      return news.next(LOOK_MS);
    }
    await work(next, at);
  }

  async function rounds(): Promise<void> {
    while (!over)
      try {
        await round();
      } catch (error) {
        say("error", { event: "lane", printer: config.name, stack: (error as Error).stack }, `${config.name}: ${(error as Error).message}`);
        become("blocked", (error as Error).message);
        await waitFor(() => over, LOOK_MS);
      }
    dropTest();
    await close();
  }
  const running = rounds();
  return {
    config,
    state: () => ({ ...state, capabilities }),
    test,
    end: async () => {
      over = true;
      const cancel = clock.after(patience.drainMs, () => stop.abort());
      news.beat();
      await running;
      cancel();
    },
  };
}
