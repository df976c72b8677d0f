// Something changed: whoever waits looks again. Nobody is told what, so that nothing can be missed.
import type { Clock } from "./clock.ts";

export type Pulse = {
  beat(): void;
  /** Until the next beat, or until the time is up. */
  next(ms: number): Promise<void>;
  onBeat(fn: () => void): () => void;
};

export function pulse(clock: Clock): Pulse {
  const listeners = new Set<() => void>();
  const onBeat = (fn: () => void) => {
    listeners.add(fn);
    return () => void listeners.delete(fn);
  };
  return {
    onBeat,
    beat: () => {
      for (const fn of Array.from(listeners)) fn(); // whoever is called may leave
    },
    next: (ms) =>
      new Promise((resolve) => {
        const done = () => {
          off();
          cancel();
          resolve();
        };
        const off = onBeat(done);
        const cancel = clock.after(ms, done);
      }),
  };
}
