// Chaos for long: at 60 % of what the floor can do, with a misfortune every five seconds, until memory, WAL and files have shown whether they grow.
import { type Look, type Outcome, type Plan, runChaos } from "./chaos.ts";

export const MIB = 1_048_576;
export const SHARE = 0.6;
const PACE = { everyMs: 5_000, lastsMs: 4_000 };
const MINUTE_MS = 60_000;
/** Of the run: so long the cloud isn't killed any more, at the end; and of that life, so long it may warm up. */
const LIFE = 0.6;
const WARM_UP = 0.25;
const GROWTH_MAX_BYTES = 32 * MIB;

export type Soaked = Outcome & { grownBytes: number };
type Options = Pick<Plan, "seed" | "postgres" | "onLook"> & { minutes: number };

export async function soak({ minutes, ...plan }: Options): Promise<Soaked> {
  const forMs = minutes * MINUTE_MS;
  const sparedFrom = forMs * (1 - LIFE);
  const outcome = await runChaos({ ...plan, pace: { ...PACE, forMs, sparedFrom }, load: { share: SHARE } });
  const warmFrom = (sparedFrom + forMs * LIFE * WARM_UP) / 1_000;
  const isWarm = ({ seconds }: Look) => seconds > warmFrom && seconds < forMs / 1_000;
  const grownBytes = growth(outcome.looks.filter(isWarm).map(({ figures }) => figures.rssBytes));
  const grows = grownBytes > GROWTH_MAX_BYTES ? [`I14: once warm, memory still grew by ${Math.round(grownBytes / MIB)} MiB`] : [];
  return { ...outcome, grownBytes, broken: [...outcome.broken, ...grows] };
}

/** How much is gained from the first to the last by the straight line through all. */
function growth(values: readonly number[]): number {
  const n = values.length;
  if (n < 3) return 0;
  const [midX, midY] = [(n - 1) / 2, values.reduce((sum, y) => sum + y, 0) / n];
  const over = values.reduce((sum, y, x) => sum + (x - midX) * (y - midY), 0);
  const under = values.reduce((sum, _y, x) => sum + (x - midX) ** 2, 0);
  return (over / under) * (n - 1);
}
