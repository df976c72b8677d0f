// GS r behind a label: its answer carries no name, so it is counted how many are to come, and none is believed where some came that nobody asked for.
import { Buffer } from "node:buffer";
import { type Line, QUIET_MS } from "./escpos-health.ts";

export const askPaper = Buffer.from([0x1d, 0x72, 1]); // GS r 1
const HEARD_MAX = 64;

export function paperOf({ talk, echoes, answerMs }: Line) {
  let owed = 0; // answers that are still to come
  let isSettled = false;
  let strays = 0; // answers that nobody asked for
  let answers: number[] = []; // since the label in flight was sent

  async function isAnswered(): Promise<boolean> {
    owed += 1;
    return (await talk().ask(askPaper, (answer) => (answer.kind === "paper" ? true : undefined), answerMs)) ?? false;
  }

  /** Before a new question means anything each answer still under way has to arrive, and then none that wasn't asked for. */
  async function settle(tries = 2): Promise<boolean> {
    const before = strays;
    if (!(await isAnswered())) return false;
    await talk().pause(QUIET_MS);
    owed = 0;
    isSettled = strays === before && !echoes();
    return isSettled || (tries > 1 && !echoes() && settle(tries - 1)); // a late answer comes once, noise again
  }

  return {
    /** True where it can only be the answer behind the label in flight. */
    heard: (bits: number): boolean => {
      answers = [...answers, bits].slice(-HEARD_MAX);
      const isOfLabel = owed === 1 && isSettled;
      if (owed === 0) {
        isSettled = false; // from now on none can be told from another
        strays += 1;
      }
      owed = Math.max(0, owed - 1);
      return isOfLabel;
    },
    settle,
    isSettled: () => isSettled,
    unsettle: () => void (isSettled = false),
    /** A label goes, with the question behind it where it `isAsked`. */
    sends: (isAsked: boolean): void => {
      answers = [];
      if (isAsked) owed += 1;
    },
    /** A byte without a name may be a line's noise, or of a printer that was switched off and on: it has to answer once more, and the same, unless it is blocked by now. */
    isItsOwn: async (isBlocked: () => Promise<boolean>): Promise<boolean> => {
      const before = answers.length;
      const isHeard = (await settle(1)) || answers.length > before;
      const isOne = answers.every((bits) => bits === answers[0]);
      return isOne && (isHeard || (await isBlocked())); // the roll may have ended with this label
    },
  };
}
