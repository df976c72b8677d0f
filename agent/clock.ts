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

/** What `promise` brings, or what `late` says once the time is up; the promise itself goes on and is no longer awaited. */
export function within<T, L>(clock: Clock, ms: number, promise: Promise<T>, late: () => L): Promise<T | L> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => resolve(late()));
    void promise.then(
      (value) => (cancel(), resolve(value)),
      (error: unknown) => (cancel(), reject(error instanceof Error ? error : new Error(String(error)))),
    );
  });
}
