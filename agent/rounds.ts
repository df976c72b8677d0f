// What a station does again and again beside its lanes: a round, a pause that its end cuts short, and an end that waits for the round.
import type { Clock } from "./clock.ts";
import { pulse } from "./pulse.ts";

/** A round says how long the pause after it is; a long one looks whether it is over. */
export function startRounds(clock: Clock, round: (isOver: () => boolean) => number | Promise<number>) {
  const stop = pulse(clock);
  let over = false;
  async function rounds(): Promise<void> {
    while (!over) {
      const pauseMs = await round(() => over);
      if (!over) await stop.next(pauseMs);
    }
  }
  const running = rounds();
  return {
    end: async () => {
      over = true;
      stop.beat();
      await running;
    },
  };
}
