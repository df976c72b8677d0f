// Time as the agent asks for it: the system's, or in a test one that moves when told.
import { uptime } from "node:os";

export type Clock = {
  now(): number;
  /** Calls once, later; what it returns calls it off. */
  after(ms: number, act: () => void): () => void;
  /** What has passed since some moment, asleep or awake, whoever sets the clock. Where it isn't known, a leap of the clock is taken for time that passed. */
  uptime?(): number;
};

export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, act) => {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
  uptime: () => uptime() * 1_000,
};

/** As everybody else writes it down. */
export const instant = (clock: Pick<Clock, "now">): string => new Date(clock.now()).toISOString();

export const pause = (clock: Pick<Clock, "after">, ms: number): Promise<void> => new Promise((resolve) => void clock.after(ms, resolve));

const SLICES = 10;

/**
 * Like `after`, for the time within which an answer has to come. While this process stands still (stopped, starved, behind a slow disk) it hears no answer,
 * so the time is counted in slices: however long it stood still, that costs one slice at most.
 */
export function afterHearing(clock: Pick<Clock, "after">, ms: number, act: () => void): () => void {
  let cancel: () => void;
  const wait = (slices: number) => void (cancel = clock.after(ms / SLICES, () => (slices > 1 ? wait(slices - 1) : act())));
  wait(SLICES);
  return () => cancel();
}

/** `act` may ask whether its time is up; setting the clock forward brings that no nearer. */
export async function inTime<T>(clock: Pick<Clock, "after">, ms: number, act: (isUp: () => boolean) => Promise<T>): Promise<T> {
  let up = false;
  const cancel = afterHearing(clock, ms, () => void (up = true));
  try {
    return await act(() => up);
  } finally {
    cancel();
  }
}

export type SteadyClock = Clock & {
  /** How far it is ahead of the clock behind it, which was set back. */
  ahead(): number;
  /** It goes on from there at the earliest: what is written down can't lie in the future. */
  atLeast(ms: number): void;
};
const CLOSING = 0.05; // of the time that passes: by so much it falls back, until it is the clock's again
const TOLD_FROM_MS = 1_000;

/**
 * Time that never goes back, whoever sets the clock behind it: leases end when they end, and what came later is later. A clock that is set forward again,
 * as one that began where the machine was switched off, closes up at once: else what is written down would be dated in the future for weeks.
 */
export function steady(clock: Clock, wentBack: (ms: number) => void): SteadyClock {
  let last = clock.now();
  let ahead = 0;
  let setTo = 0; // of the clock against the uptime, looked at while there is something to close
  const setting = () => last - (clock.uptime?.() ?? last);
  function setForward(passed: number): number {
    const now = setting();
    const by = now - setTo;
    if (by >= 0 && by < TOLD_FROM_MS) return 0; // neither is that fine
    setTo = now;
    return Math.max(0, Math.min(passed, by));
  }
  const now = () => {
    const behind = clock.now();
    const passed = behind - last;
    last = behind;
    if (passed < 0) {
      ahead -= passed;
      setTo = setting();
    } else if (ahead > 0) {
      const leapt = setForward(passed);
      ahead -= Math.min(ahead, leapt + (passed - leapt) * CLOSING);
    }
    if (passed <= -TOLD_FROM_MS) wentBack(-passed);
    return Math.floor(behind + ahead);
  };
  const atLeast = (ms: number) => {
    ahead = Math.max(ahead, ms - now() + ahead);
    setTo = setting();
  };
  return { now, after: clock.after, ahead: () => ahead, atLeast };
}

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
