// What the cloud answered with an internal error, or something halfway won't let pass, by its id: tried again later, behind all others. A few only: if there are more, the cloud itself is at fault and all wait.
import type { Clock } from "./clock.ts";

const STUMBLES_MAX = 8;

export type Asides = ReturnType<typeof asides>;
export function asides(clock: Clock, ms: number) {
  const untilOf = new Map<string, number>();
  return {
    has: (id: string): boolean => untilOf.has(id),
    /** False where there are too many already. */
    put: (id: string): boolean => {
      if (untilOf.size >= STUMBLES_MAX) return false;
      untilOf.set(id, clock.now() + ms);
      return true;
    },
    forget: (): void => untilOf.clear(),
    /** Those whose time isn't up yet. */
    ids: (): string[] => {
      for (const [id, until] of untilOf) if (until <= clock.now()) untilOf.delete(id);
      return [...untilOf.keys()];
    },
  };
}
