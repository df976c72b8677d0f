// Chaos for long: at 60 % of what the floor can do, with a misfortune every five seconds, until memory, WAL and files have shown whether they grow.
import type { Figures } from "../fixtures/chaos/site.ts";
import { type Look, type Outcome, type Plan, runChaos } from "./chaos.ts";

export const MIB = 1_048_576;
export const SHARE = 0.6;
const PACE = { everyMs: 5_000, lastsMs: 4_000 };
const MINUTE_MS = 60_000;
/** Of the run: so long the cloud isn't killed any more, at the end; and of that life, so long it may warm up. */
const LIFE = 0.6;
const WARM_UP = 0.25;
/** Fewer say nothing of what grows. */
const LOOKS_MIN = 6;
/** Allowed from one half of the warm life to the other: to what is left after the best collection of garbage, and to the most that the process has held. */
const GAIN_MAX_BYTES = { heap: 16 * MIB, resident: 32 * MIB };

export type Gains = Record<keyof typeof GAIN_MAX_BYTES, number>;
/** Of each node. */
export type Soaked = Outcome & { gains: Gains[] };
type Options = Pick<Plan, "seed" | "postgres" | "nodes" | "onLook"> & { minutes: number };

export async function soak({ minutes, nodes = 1, ...plan }: Options): Promise<Soaked> {
  const forMs = minutes * MINUTE_MS;
  const sparedFrom = forMs * (1 - LIFE);
  const outcome = await runChaos({ ...plan, nodes, pace: { ...PACE, forMs, sparedFrom }, load: { share: SHARE } });
  const warmFrom = (sparedFrom + forMs * LIFE * WARM_UP) / 1_000;
  const isWarm = ({ seconds }: Look) => seconds > warmFrom && seconds < forMs / 1_000;
  const warm = outcome.looks.filter(isWarm);
  const gains = Array.from({ length: nodes }, (_, n) => gainsOf(warm.flatMap(({ figures }) => figures[n] ?? [])));
  const leaks = gains.flatMap((of, n) => tooMuch(of).map((fault) => `I14: node ${n + 1}: ${fault}`));
  const blind = warm.length < LOOKS_MIN ? [`I14: it could be looked at only ${warm.length} times once warm`] : [];
  return { ...outcome, gains, broken: [...outcome.broken, ...leaks, ...blind] };
}

/** Memory goes up until garbage is collected, and a process keeps for a while what it was given: a leak is what neither of the two explains. */
export function gainsOf(figures: readonly Pick<Figures, "heapBytes" | "rssBytes">[]): Gains {
  const half = Math.floor(figures.length / 2);
  if (half === 0) return { heap: 0, resident: 0 };
  const [first, second] = [figures.slice(0, half), figures.slice(half)];
  const least = (some: typeof figures) => Math.min(...some.map(({ heapBytes }) => heapBytes));
  const most = (some: typeof figures) => Math.max(...some.map(({ rssBytes }) => rssBytes));
  return { heap: least(second) - least(first), resident: most(second) - most(first) };
}

export const tooMuch = (gains: Gains): string[] =>
  (["heap", "resident"] as const)
    .filter((name) => gains[name] > GAIN_MAX_BYTES[name])
    .map((name) => `once warm, ${name} memory still grew by ${Math.round(gains[name] / MIB)} MiB`);
