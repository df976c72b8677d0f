// How a receipt printer is: by questions whose answers don't say to what, or by what it says unasked.
import { Buffer } from "node:buffer";
import { saying } from "#shared/sayings.ts";
import type { Clock } from "../clock.ts";
import { type Dialogue, nameless } from "./dialogue.ts";
import type { Fault, Status } from "./driver.ts";
import { type Answer, PAPER_LOW, realtimeFaults, unaskedFaults } from "./escpos-answers.ts";

const QUESTIONS = [1, 2, 3, 4] as const;
const askNow = (n: number): Buffer => Buffer.from([0x10, 0x04, n]); // DLE EOT n
export const QUIET_MS = 200;

/** `echoes`: it sends back what it is sent, so that nothing said unasked is to be believed. */
export type Line = { talk(): Dialogue<Answer>; echoes(): boolean; answerMs: number };

export function healthOf({ talk, echoes, answerMs }: Line, clock: Clock) {
  let asb: number[] | undefined; // what it said last of itself
  let tells = false;
  let inStep = true;
  const isStatus = (answer: Answer) => answer.kind === "realtime";
  const statuses = nameless<number>(() => talk().silence(isStatus, QUIET_MS));

  /** An answer doesn't say which question it answers, so old ones have to be over before the first is asked. */
  async function statusOf(n: 1 | 2 | 3 | 4): Promise<number | undefined> {
    const wasLate = !inStep; // every question that wasn't heard out has an answer to come
    if (wasLate) statuses.expectMore();
    inStep ||= await talk().silence(isStatus, answerMs);
    const now = () => talk().ask(askNow(n), (answer) => (answer.kind === "realtime" ? answer.bits : undefined), answerMs);
    const bits = inStep ? await statuses.answer(now, n === 4 || wasLate) : undefined; // the last of a look: what is left over would be the first of the next one's
    tells ||= bits !== undefined;
    inStep &&= bits !== undefined || !tells; // who never answered doesn't know the question
    return bits;
  }

  async function look(): Promise<Omit<Status, "counters">> {
    const faults: Fault[] = [];
    const source: string[] = [];
    const warnings: string[] = [];
    for (const n of QUESTIONS) {
      const bits = await statusOf(n);
      if (bits === undefined && n === 1) break; // it doesn't know the question
      if (bits === undefined) continue;
      source.push(`DLE EOT ${n}`);
      faults.push(...realtimeFaults(n, bits));
      if (n === 4 && (bits & PAPER_LOW) !== 0) warnings.push(saying("paper_low"));
    }
    if (source.length === 0 && asb && !echoes() && !talk().closed()) {
      source.push("ASB");
      faults.push(...unaskedFaults(asb));
    }
    const causes = faults.filter(({ name }, i) => faults.findIndex((fault) => fault.name === name) === i && name !== "offline");
    const named = causes.length > 0 ? causes : faults.slice(-1); // the last is the one that says most
    return { at: clock.now(), source, ready: source.length === 0 ? null : named.length === 0, faults: named, warnings, waiting: null };
  }

  return {
    heard: (answer: Answer): void => {
      if (answer.kind === "realtime") statuses.heard(answer.bits);
      if (answer.kind === "unasked") asb = answer.bytes;
    },
    look,
    /** It has told before how it is, and doesn't now. */
    isSilent: async (): Promise<boolean> => tells && (await statusOf(1)) === undefined,
    areTalkative: statuses.areTalkative,
  };
}
