// What a station does again and again beside its lanes: a round, a pause that a call or its end cuts short, and an end that waits for the round.
import type { Clock } from "./clock.ts";
import { pulse } from "./pulse.ts";

/** A round says how long the pause after it is; a long one looks whether it is over. */
export function startRounds(clock: Clock, round: (isOver: () => boolean) => number | Promise<number>) {
  const pause = pulse(clock);
  let over = false;
  let called = false;
  async function rounds(): Promise<void> {
    while (!over) {
      called = false;
      const pauseMs = await round(() => over);
      if (!over && !called) await pause.next(pauseMs);
    }
  }
  /** Also heard in the middle of a round. */
  const wake = () => {
    called = true;
    pause.beat();
  };
  const running = rounds();
  return {
    wake,
    end: async () => {
      over = true;
      wake();
      await running;
    },
  };
}
