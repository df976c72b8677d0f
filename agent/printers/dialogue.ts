// Questions and answers over a port that also speaks unasked: everything is heard, at any time, and a question waits no longer than it said.
import type { Buffer } from "node:buffer";
import { afterHearing, type Clock } from "../clock.ts";
import type { Port, Written } from "../duplex.ts";

const LATE_MAX = 20;

export type Dialogue<Answer> = ReturnType<typeof dialogue<Answer>>;

/** `lex` takes what came and gives the whole answers in it; what is incomplete it keeps. `onAnswer` hears every one, asked for or not. */
export function dialogue<Answer>(port: Port, clock: Clock, lex: (bytes: Buffer) => Answer[], onAnswer: (answer: Answer) => void) {
  const waiting = new Set<(answer: Answer | undefined) => void>();
  port.onData((bytes) => {
    for (const answer of lex(bytes)) {
      onAnswer(answer);
      for (const wait of waiting) wait(answer); // one that is served takes itself out
    }
  });
  port.onClose(() => {
    for (const wait of waiting) wait(undefined);
  });

  /** The first answer that `pick` makes something of; undefined when the time is up or the port is closed. */
  const hear = <T>(pick: (answer: Answer) => T | undefined, ms: number): Promise<T | undefined> =>
    new Promise((resolve) => {
      if (port.closed) return resolve(undefined);
      const wait = (answer: Answer | undefined) => {
        const picked = answer === undefined ? undefined : pick(answer);
        if (answer !== undefined && picked === undefined) return;
        waiting.delete(wait);
        cancel();
        resolve(picked);
      };
      const cancel = afterHearing(clock, ms, () => wait(undefined));
      waiting.add(wait);
    });
  const send = (bytes: Uint8Array | string, stallMs: number): Promise<Written> =>
    port.write(typeof bytes === "string" ? Uint8Array.from(bytes, (letter) => letter.charCodeAt(0)) : bytes, { stallMs });
  return {
    send,
    hear,
    /** Hears what is answered to it; undefined as well where it can't be sent. */
    ask: async <T>(question: Uint8Array | string, pick: (answer: Answer) => T | undefined, ms: number): Promise<T | undefined> => {
      const answer = hear(pick, ms);
      const { fault } = await send(question, ms);
      return fault === undefined ? answer : undefined;
    },
    /** Waits until no late answer to an earlier question has come for so long, since answers don't say to which they are. False where there is no end to them. */
    silence: async (isLate: (answer: Answer) => boolean, ms: number): Promise<boolean> => {
      for (let n = 0; n < LATE_MAX; n += 1) if (!(await hear((answer) => isLate(answer) || undefined, ms))) return true;
      return false;
    },
    /** Nothing but time; shorter when the port closes. */
    pause: async (ms: number): Promise<void> => {
      await hear(() => undefined, ms);
    },
    closed: () => port.closed,
  };
}

const SAID_MAX = 8;
const ASKED_MAX = 3; // for one that is asked by others as well

/** Answers that don't say to what: where more come than were asked for (others ask on the same line, or it says things twice) all of them have to agree. One is asked at a time. */
export function nameless<Value>(quiet: () => Promise<unknown>) {
  let said: Value[] = []; // since the last question
  let expected = Infinity; // as many as would be no news
  let isTalkative: boolean | undefined; // until it was asked once nobody knows
  async function once(ask: () => Promise<Value | undefined>, isKept: boolean): Promise<Value | undefined> {
    [said, expected] = [[], 1];
    const value = await ask();
    if (value !== undefined && (isKept || isTalkative !== false)) await quiet();
    if (value !== undefined) isTalkative ??= false;
    expected = said.length;
    return said.every((other) => other === value) ? value : undefined;
  }
  return {
    heard: (value: Value) => {
      said = [...said, value].slice(-SAID_MAX);
      if (said.length > expected) isTalkative = true;
    },
    /** More than one will come, late ones among them. */
    expectMore: () => void (expected = Infinity),
    areTalkative: () => isTalkative === true,
    /** `isKept`: it isn't asked again and again, and a wrong answer would stay. */
    answer: async (ask: () => Promise<Value | undefined>, isKept = false): Promise<Value | undefined> => {
      let value = await once(ask, isKept);
      for (let tries = 1; value === undefined && said.length > 1 && tries < ASKED_MAX; tries += 1) value = await once(ask, isKept);
      return value;
    },
  };
}

/** One after another, whoever asks: two questions at once would take each other's answers. */
export function oneAtATime(): <T>(act: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (act) => {
    const mine = last.then(act, act);
    last = mine.catch(() => undefined); // its failure is its asker's; who comes next only waits for its end
    return mine;
  };
}
