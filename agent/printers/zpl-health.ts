// How a Zebra is and where its counters stand. Silence says something only of what it has answered before.
import { saying } from "#shared/sayings.ts";
import type { Clock } from "../clock.ts";
import type { Dialogue } from "./dialogue.ts";
import type { Counters, Profile, Status } from "./driver.ts";
import { type Answer, faultsOf, flagsOf, type HostStatus, waitingIn, warningsOf } from "./zpl-answers.ts";
import type { Counter, Variables } from "./zpl-variables.ts";

const SILENCES_MAX = 2; // unanswered questions after which it is taken to have no such counter
const COUNTERS: Counter[] = ["labels", "voids"];

type Line = { talk(): Dialogue<Answer>; variables: Variables; clock: Clock; answerMs: number };
export function healthOf({ talk, variables, clock, answerMs }: Line, profile: Profile) {
  const silences = { labels: 0, voids: 0 };
  const told = { labels: false, voids: false }; // a counter that was told once has to agree from then on: silence no longer means that there is none
  let usesHostStatus: boolean | undefined; // once it answered ~HS, its silence means something

  async function count(which: Counter): Promise<number | null> {
    if ((silences[which] >= SILENCES_MAX && !told[which]) || (which === "voids" && !profile.rfid)) return null;
    const value = await variables.count(which);
    const known = typeof value === "number";
    silences[which] = known ? 0 : value === null ? SILENCES_MAX : silences[which] + 1;
    told[which] ||= known;
    return known ? value : null;
  }

  /** Silence after ~HS is how newer firmware says that something is wrong: only ~HQES then tells what. */
  async function look(): Promise<Omit<Status, "counters">> {
    const lines: HostStatus = {};
    const isWhole = (answer: Answer) => {
      if (answer.kind === "hs") lines[answer.line] = answer.fields;
      return lines[1] && lines[2] ? true : undefined;
    };
    await talk().ask("~HS", isWhole, answerMs);
    const flags = await talk().ask("~HQES", (answer) => (answer.kind === "hqes" ? answer : undefined), answerMs);
    const source = [...(lines[1] ? ["~HS"] : []), ...(flags ? ["~HQES"] : [])];
    const faults = flags ? faultsOf(flags) : [];
    faults.push(...flagsOf(lines).filter(({ name }) => !faults.some((fault) => fault.name === name)));
    usesHostStatus = lines[1] !== undefined || (usesHostStatus ?? false);
    if (usesHostStatus && !lines[1] && flags && faults.length === 0) faults.push({ name: "silent", words: saying("silent_hs") });
    const ready = source.length === 0 ? null : faults.length === 0;
    return { at: clock.now(), source, ready, faults, warnings: warningsOf(flags), waiting: waitingIn(lines) };
  }

  return {
    look,
    counters: async (): Promise<Counters> => ({ labels: await count("labels"), voids: await count("voids") }),
    hasTold: (which: Counter): boolean => told[which],
    /** A counter that was told before, and isn't now. */
    untold: (now: Counters): Counter | undefined => COUNTERS.find((which) => told[which] && now[which] === null),
    /** Undefined until it was looked at. */
    usesHostStatus: () => usesHostStatus,
  };
}
