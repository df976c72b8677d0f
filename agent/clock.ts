// Time as the agent asks for it: the system's, or in a test one that moves when told.

export type Clock = {
  now(): number;
  /** Calls once, later; what it returns calls it off. */
  after(ms: number, act: () => void): () => void;
};

export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, act) => {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
};

/** What `promise` brings, or what `late` says (or throws) once the time is up; the promise itself goes on and is no longer awaited. */
export async function within<T, L>(clock: Clock, ms: number, promise: Promise<T>, late: () => L): Promise<T | L> {
  const timer = Promise.withResolvers<typeof LATE>();
  const cancel = clock.after(ms, () => timer.resolve(LATE));
  try {
    const first = await Promise.race([promise, timer.promise]);
    return first === LATE ? late() : first;
  } finally {
    cancel();
  }
}
const LATE = Symbol("late");
