// A lane's printer: opened, and opened again after it was away; asked how it is, with each change told once.
import { saying } from "#shared/sayings.ts";
import { type Attempt, paperMayExist } from "./attempt.ts";
import type { PrinterConfig } from "./config.ts";
import { odometerOf } from "./odometer.ts";
import { can, openPrinter } from "./printers/index.ts";
import {
  attests,
  type Capabilities,
  type Fault,
  type FaultName,
  faultWords,
  type Printer,
  type Status,
  type Timing,
} from "./printers/driver.ts";
import { pauseAfter, PAUSES_MS } from "./reconnecting.ts";
import type { Floor } from "./floor.ts";

export type PressState = {
  /** In a word, and in words. */
  status: "starting" | "ready" | "printing" | "blocked" | "offline";
  words: string;
  since: number;
  capabilities: Capabilities | null;
  warnings: string[];
  /** What keeps it from printing, by name. */
  faults: FaultName[];
};
/** It prints, or could at once. */
export const isWorking = ({ status }: Pick<PressState, "status">): boolean => status === "ready" || status === "printing";
/** Somebody has to see to it. */
const isStuck = ({ status }: Pick<PressState, "status">): boolean => status === "blocked" || status === "offline";
/** Nothing that it was asked did it answer. */
const saysNothing = ({ identity, status, ceiling }: Capabilities): boolean => identity === null && !status && !attests(ceiling);
/** Nothing is wrong with it but that a label hangs at its edge. */
const isToBeTaken = ({ faults }: Status): boolean => faults.length > 0 && faults.every(({ name }) => name === "label-not-taken");
type Patience = {
  /** How long a label may wait in a printer that needs a person, before it is taken back. */
  blockedMs: number;
  idleMs: number;
  drainMs: number;
  /** For a label's end, from a printer that never tells one. */
  muteMs: number;
  /** The same, from one that answers other questions and has never told one. */
  inVainMs: number;
  retryMs: readonly number[];
  /** A printer that didn't answer when it was asked what it can do is asked again when it is opened after this time. */
  probeAgainMs: number;
};
export const PATIENCE: Patience = {
  blockedMs: 30 * 60_000,
  idleMs: 10_000,
  drainMs: 5_000,
  muteMs: 1_500,
  inVainMs: 5_000,
  retryMs: PAUSES_MS,
  probeAgainMs: 60_000,
};
export type PressOptions = { timing?: Partial<Timing>; patience?: Partial<Patience> };
export type PressFloor = Floor & {
  /** There is room for another job. */
  hungry(): void;
};
export type Press = ReturnType<typeof openPress>;

export const LOOK_MS = 1_000;
const FRESH_MS = 2_000; // how old the last look may be when a label is begun
const LAST_TRIES = 3; // once the station ends
const LEFT_MAX = 8;
const NO_LONGER_ANSWERS = saying("no_longer_answers");
const NO_LONGER_COUNTS = saying("no_longer_counts");

export function openPress(floor: PressFloor, config: PrinterConfig, { timing, patience: given }: PressOptions, leaving: AbortSignal) {
  const { store, clock, news, say } = floor;
  const patience = { ...PATIENCE, ...given };
  const { name, inFlight: mayHold = 1 } = config;
  const isQueue = can(config, "queue");
  const isOver = () => leaving.aborted;
  const counter = odometerOf(floor, name);
  let printer: Printer | undefined;
  const left: Printer[] = []; // closed lately
  let capabilities: Capabilities | null = null;
  let probedAt = -Infinity;
  let hasAnswered = false; // in this run
  let failures = 0;
  let lookedAt = 0;
  let glancedAt = 0;
  let state: Omit<PressState, "capabilities"> = {
    status: "starting",
    words: saying("not_looked_yet"),
    since: clock.now(),
    warnings: [],
    faults: [],
  };

  /** A change is told once. */
  function become(status: PressState["status"], words: string, warnings: string[] = [], faults: Fault[] = []): void {
    const isNews = status !== state.status || words !== state.words;
    if (isNews && isStuck({ status })) say("warn", { event: "printer", printer: name, status }, `${name}: ${words}`);
    if (isNews && status === "ready" && isStuck(state)) say("info", { event: "printer", printer: name, status }, `${name} is ready again`);
    const isBack = status === "ready" && !isWorking(state);
    const since = isNews ? clock.now() : state.since;
    state = { ...state, status, words, warnings, faults: faults.map((fault) => fault.name), since };
    if (isNews) news.beat();
    if (isBack) floor.hungry();
  }

  async function open(): Promise<Printer | undefined> {
    const opened = await tryOpen();
    if (opened) failures = 0;
    else await waitFor(isOver, pauseAfter(failures++, patience.retryMs));
    return opened;
  }
  async function tryOpen(): Promise<Printer | undefined> {
    if (printer?.isHungUp?.()) await close(); // a new line shows whether it is there
    if (printer) return printer;
    try {
      printer = await openPrinter(config, { timing, clock, leaving });
      // What never answers is spared the questions for a while; it may only have been starting up.
      if (!capabilities || attests(capabilities.ceiling) || clock.now() - probedAt > patience.probeAgainMs) {
        const found = await printer.probe();
        if (counter.isKeptBack(found)) throw new Error(NO_LONGER_COUNTS);
        counter.met(found);
        capabilities = found;
        hasAnswered ||= !saysNothing(found);
        probedAt = clock.now();
      }
      lookedAt = 0; // that it answers doesn't say that it could print: isReady does
    } catch (error) {
      await close();
      if (!isOver()) become("offline", (error as Error).message);
    }
    return printer;
  }
  async function close(): Promise<void> {
    const closing = printer;
    printer = undefined;
    await closing?.close();
    if (closing) left.push(closing);
    dropLeft(LEFT_MAX);
  }
  /** Of what was sent over a line that is closed the network may hold a part, and deliver it when it is back: after somebody has looked, it mustn't. */
  function dropLeft(most = 0): void {
    for (const one of left.splice(0, Math.max(0, left.length - most))) one.drop?.();
  }
  /** Looks again at every piece of news, for so long. */
  async function waitFor(isSo: () => boolean, ms: number): Promise<void> {
    for (const until = clock.now() + ms; !isSo() && clock.now() < until;) await news.next(Math.max(1, until - clock.now()));
  }

  /** Whether it could print now. A printer that says nothing of itself is taken at its word; where a label is waited for, `waits` says so instead of "ready". */
  async function isReady(opened: Printer, waits?: string): Promise<boolean> {
    if (capabilities && hasGoneSilent(capabilities)) {
      probedAt = -Infinity;
      become("offline", NO_LONGER_ANSWERS);
      await close();
      return false;
    }
    if (capabilities && !capabilities.status && !isQueue) {
      become("ready", waits ?? saying("doesnt_tell"));
      return true;
    }
    const wasSeen = lookedAt > 0; // over this line
    const status = await opened.preflight();
    if (isOver()) return false; // its port may have been closed meanwhile
    lookedAt = clock.now();
    if (status.source.length === 0 && status.ready !== false) {
      if (!wasSeen || !opened.isHungUp?.()) become("offline", saying("no_longer_there")); // else a new line shows whether it is
      await close();
      return false;
    }
    counter.read(status.counters.labels, isHolding);
    if (status.ready === false && !(waits !== undefined && isToBeTaken(status))) {
      become("blocked", faultWords(status.faults) || saying("isnt_ready"), status.warnings, status.faults);
      return false;
    }
    if (state.status === "blocked" && capabilities && !attests(capabilities.ceiling) && !isQueue) {
      capabilities = await opened.probe(); // asked while it was blocked, it couldn't say how it answers for a label
      if (isOver()) return false;
    }
    become("ready", waits ?? saying("ready"), status.warnings);
    if (status.ready === false) lookedAt = 0; // the next label can't begin before that one is taken
    return true;
  }
  const isHolding = () => store.inHand().some(isHeld);
  const isStale = (hasWork: boolean): boolean =>
    clock.now() - lookedAt > (hasWork ? FRESH_MS : patience.idleMs) ||
    (capabilities?.counter === true && counter.expected() === null && !isHolding()) ||
    state.status === "blocked";

  /** Looked at as rarely as at any other time while a label waits, whatever is heard; false where somebody has to see to it. */
  async function glance(waits: string): Promise<boolean> {
    if (isWorking(state)) become("ready", waits, state.warnings);
    if (clock.now() - glancedAt < LOOK_MS || (printer && !isStale(false))) return !isStuck(state);
    try {
      const opened = await tryOpen();
      if (opened) await isReady(opened, waits);
    } finally {
      glancedAt = clock.now();
    }
    return !isStuck(state);
  }

  /** Writes down what was done before anything else is done: tried again for as long as the disk takes nothing. */
  async function durable<T>(act: () => T): Promise<T> {
    for (let tries = 1; ; tries += 1)
      try {
        return act();
      } catch (error) {
        if (store.fault() === null || (isOver() && tries > LAST_TRIES)) throw error; // the intent is written: the next start asks
        become("blocked", store.fault() ?? "");
        await waitFor(() => false, LOOK_MS);
      }
  }

  const isHeld = (attempt: Attempt) => attempt.printer === name && paperMayExist(attempt);

  /** Many printers heed one connection at a time: this one may be another program's, and would print our label once that one has gone. */
  const hasGoneSilent = (now: Capabilities): boolean => !isQueue && saysNothing(now) && (hasAnswered || counter.toldBy() !== null);

  return {
    patience,
    /** Labels that may be in it at once. */
    mayHold,
    /** It keeps labels by their names, whoever is connected. */
    isQueue,
    isOver,
    state: (): PressState => ({ ...state, capabilities }),
    capabilities: () => capabilities,
    /** Who it says that it is, or said when it last did. */
    identity: (): string | null => capabilities?.identity ?? counter.toldBy()?.identity ?? null,
    printer: () => printer,
    /** Labels that this printer may hold, or that wait for word of theirs. */
    isHeld,
    counter,
    become,
    open,
    close,
    dropLeft,
    waitFor,
    isReady,
    isStale,
    glance,
    durable,
  };
}
