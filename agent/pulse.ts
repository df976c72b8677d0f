// Something changed: whoever waits looks again. Nobody is told what, so that nothing can be missed.
import type { Clock } from "./clock.ts";

export type Pulse = ReturnType<typeof pulse>;

export function pulse(clock: Clock) {
  const listeners = new Set<() => void>();
  const onBeat = (fn: () => void) => {
    listeners.add(fn);
    return () => void listeners.delete(fn);
  };
  return {
    onBeat,
    beat: (): void => {
      for (const fn of Array.from(listeners)) fn(); // whoever is called may leave
    },
    /** Until the next beat, or until the time is up. */
    next: (ms: number) =>
      new Promise<void>((resolve) => {
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
