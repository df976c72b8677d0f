// A Zebra's variables: answers that don't say to what. What came late, came twice or was asked by another program is told from what was asked.
import { type Dialogue, nameless } from "./dialogue.ts";
import type { Answer } from "./zpl-answers.ts";

export type Counter = "labels" | "voids";

const NAMES = {
  labels: "odometer.total_label_count",
  voids: "odometer.rfid.void_resettable",
  words: "device.languages",
  unit: "device.unique_id",
} as const;
const isCount = (value: string) => /^\d{1,15}$/.test(value.trim()); // what a number holds
const HAS_NONE = "?";
const QUIET_MS = 100; // after an answer, until another one would be of another question

export type Variables = ReturnType<typeof variablesOf>;
/** One is asked at a time. */
export function variablesOf(line: () => Dialogue<Answer>, answerMs: number) {
  let inStep = true;
  const ask = <T>(name: string, pick: (value: string) => T | undefined) =>
    line().ask(`! U1 getvar "${name}"\r\n`, (answer) => (answer.kind === "sgd" ? pick(answer.value) : undefined), answerMs);
  const silence = (ms: number) => line().silence((answer) => answer.kind === "sgd", ms);

  const answers = nameless<string>(() => silence(QUIET_MS));
  /** After an answer that didn't come in time, a question with an answer in words shows that it answers again, and then where the late ones end. */
  async function backInStep(): Promise<boolean> {
    answers.expectMore();
    const isBack = await ask(NAMES.words, (value) => !isCount(value) || undefined);
    return isBack === true && silence(answerMs);
  }
  async function variable(name: string, isKept = false): Promise<string | undefined> {
    inStep ||= await backInStep();
    const value = inStep ? await answers.answer(() => ask(name, (said) => said), isKept) : undefined;
    inStep &&= value !== undefined;
    return value;
  }

  return {
    heard: answers.heard,
    areTalkative: answers.areTalkative,
    unit: () => variable(NAMES.unit, true),
    /** Null: it says that it has none; undefined: it didn't say. */
    count: async (which: Counter): Promise<number | null | undefined> => {
      const value = await variable(NAMES[which]);
      if (value === HAS_NONE) return null;
      inStep &&= value !== undefined && isCount(value); // anything else may be the answer to another question
      return value !== undefined && isCount(value) ? Number(value) : undefined;
    },
  };
}
