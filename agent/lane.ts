// One printer, one lane: it prints one label after another, and waits for paper, for people, for scans and for its lease.
import { saying } from "#shared/sayings.ts";
import { maySkip } from "./answers.ts";
import { askOf, type Attempt, isLying, paperMayExist } from "./attempt.ts";
import type { PrinterConfig } from "./config.ts";
import { type Flight, type FlightFloor, flights } from "./flight.ts";
import { LOOK_MS, openPress, type PressOptions } from "./press.ts";
import type { Printer } from "./printers/driver.ts";
import { recallOf } from "./recall.ts";
import * as steps from "./steps.ts";
import { printersFor, takersOf } from "./template.ts";
import { testLabels } from "./test-label.ts";

export type Lane = ReturnType<typeof startLane>;

const drawnBy = ({ label: { widthMm, heightMm }, dpi, simulated }: PrinterConfig) => [widthMm, heightMm, dpi, simulated];

export function startLane(floor: FlightFloor, config: PrinterConfig, options: PressOptions) {
  const { store, clock, news, say } = floor;
  const stop = new AbortController();
  const leaving = new AbortController();
  let hasLooked = false;
  let isResting = false;
  const press = openPress(floor, config, options, leaving.signal);
  const { mayHold, become, durable, isHeld, isOver } = press;
  const recall = recallOf(floor, config, press);
  const flight = flights(floor, config, press, recall, stop.signal);
  const tests = testLabels(floor, config, press, stop.signal);

  const isMine = (attempt: Attempt) => attempt.printer === config.name;
  /** Labels with a tag go one at a time, so that it is known whose the void ones are. */
  const isPlain = ({ task }: Attempt) => !task.needs.includes("rfid");
  /** Whoever may yet be asked for the label of an earlier attempt must not find the next one's instead. */
  const isUnsettled = (earlier: Attempt) =>
    earlier.ended === null && paperMayExist(earlier) && !(isLying(earlier) && earlier.work.answered !== undefined);
  const canStart = (attempt: Attempt) =>
    !paperMayExist(attempt) &&
    printersFor(floor, attempt).includes(config.name) &&
    askOf(attempt) === null &&
    !store.allOfLink(attempt.task.digital_link).some(isUnsettled);
  function pick(open: Attempt[]): Attempt | undefined {
    if (floor.paused() || store.fault() !== null) return undefined;
    const first = (may: (one: Attempt) => boolean) => open.find((one) => isMine(one) && may(one)) ?? open.find(may);
    return first((one) => !flight.isUnsure(one) && canStart(one)) ?? first(canStart);
  }

  /** What is drawn and can't be printed here now goes to the other printers, where all that may take it draw the very same label: what was reported of it stays true. */
  function share(): void {
    const drawing = JSON.stringify(drawnBy(config));
    for (const one of store.inHand()) {
      if (!isMine(one) || !maySkip(one)) continue;
      const takers = takersOf(floor, one);
      if (takers.length < 2 || takers.some((other) => JSON.stringify(drawnBy(other)) !== drawing)) continue;
      store.change(one.attemptId, { printer: null });
      news.beat();
    }
  }

  /** Prints a label and, as long as there are more of them, sends the next one behind it, so that the printer needn't stop between two. */
  async function work(attempt: Attempt, printer: Printer): Promise<void> {
    let flying = await flight.dispatch(attempt, printer);
    while (flying) {
      const isOut = new AbortController();
      const [followed, behind] = await Promise.allSettled([
        flight.follow(flying, printer).finally(() => {
          isOut.abort();
          news.beat();
        }),
        mayHold > 1 ? goBehind(flying, printer, isOut.signal) : undefined,
      ]);
      const next = behind.status === "fulfilled" ? behind.value : undefined;
      const isWell = followed.status === "fulfilled" && followed.value;
      if (next && !isWell) await durable(() => abandonIfSent(next.attemptId, saying("one_before_unknown")));
      for (const one of [followed, behind]) if (one.status === "rejected") throw one.reason;
      flying = isWell ? next : undefined;
    }
  }
  function abandonIfSent(attemptId: string, why: string): void {
    const attempt = store.must(attemptId);
    if (steps.isAbandoned(attempt)) steps.abandon(floor, attempt, why);
  }

  /** The next label, sent while this one moves; undefined where this one is out before there is one. */
  async function goBehind({ attemptId }: Flight, printer: Printer, isOut: AbortSignal): Promise<Flight | undefined> {
    if (!press.capabilities()?.counter || !isPlain(store.must(attemptId))) return undefined;
    while (!isOut.aborted && !isOver()) {
      const inHand = store.inHand();
      const held = inHand.filter(isHeld);
      const isFree = held.length < mayHold && held.every((one) => askOf(one) === null) && press.state().status === "printing";
      const next = isFree && !tests.isAsked() ? pick(inHand) : undefined;
      if (next && !isPlain(next)) return undefined;
      if (next) return flight.dispatch(next, printer, true);
      await news.next(LOOK_MS);
    }
    return undefined;
  }

  /** A label waits for people or for its scan, however long; what is heard during the look ends the wait as well. */
  async function rest(words: string): Promise<void> {
    let isHeard = false;
    const off = news.onBeat(() => void (isHeard = true));
    isResting = true;
    try {
      if (!(await press.glance(words))) share();
      await press.waitFor(() => isHeard, LOOK_MS);
    } finally {
      isResting = false;
      off();
    }
  }

  async function round(): Promise<void> {
    const inHand = store.inHand();
    const held = inHand.filter(isHeld);
    const given = held.find(({ stage }) => stage === "closing");
    if (given) return recall.close(given);
    const stray = store.orphans().find((one) => isMine(one) && one.work.held);
    if (stray) {
      await recall.drop(stray);
      if (press.printer()) return;
      share();
      return tests.drop();
    }
    const abandoned = held.find(steps.isAbandoned);
    if (abandoned) return durable(() => steps.abandon(floor, abandoned)); // a fault of ours let go of it
    const asking = held.find((one) => askOf(one) !== null);
    if (asking || held.length >= mayHold) {
      tests.drop();
      if (asking) await recall.watch(asking, !hasLooked);
      hasLooked = true;
      return rest(asking ? saying("waits_answer", { job: asking.jobRef }) : saying("waits_scan", { job: held[0]?.jobRef ?? "" }));
    }
    const printer = await press.open();
    if (!printer) {
      share();
      return tests.drop();
    }
    if (tests.isAsked()) return tests.answer(printer);
    const next = pick(inHand);
    if (press.isStale(next !== undefined) && !(await press.isReady(printer))) {
      share();
      return press.waitFor(isOver, LOOK_MS);
    }
    if (next) return work(next, printer);
    const { status, words } = press.state();
    if (status === "printing" || words.startsWith("waits for")) become("ready", saying("ready"));
    return news.next(LOOK_MS);
  }

  async function rounds(): Promise<void> {
    while (!isOver())
      try {
        await round();
      } catch (error) {
        say("error", { event: "lane", printer: config.name, stack: (error as Error).stack }, `${config.name}: ${(error as Error).message}`);
        become("blocked", (error as Error).message);
        await press.waitFor(isOver, LOOK_MS);
      }
    tests.drop();
    await press.close();
  }
  const running = rounds();
  return {
    config,
    state: press.state,
    /** Prints a label that is nobody's, between two jobs; says in words what came of it. */
    test: tests.ask,
    end: async (): Promise<void> => {
      leaving.abort();
      const cancel = clock.after(press.patience.drainMs, () => stop.abort());
      news.beat();
      if (isResting) await press.close(); // nobody waits for what it answers to a look
      await running;
      cancel();
    },
  };
}
