// What time it is in the cloud, by the date on its answers: a station's clock that is hours off is said, and ends nothing that the cloud has signed.
import { saying } from "#shared/sayings.ts";
import type { SteadyClock } from "./clock.ts";
import type { Say } from "./floor.ts";

const HALF_S = 500; // the date is cut to whole seconds
const UNDER_WAY_MAX_MS = 5_000; // of an answer that was slower nobody knows when it was written
export const WORTH_SAYING_MS = 60_000;

export type CloudTime = ReturnType<typeof cloudTime>;

export function cloudTime(clock: SteadyClock, say: Say) {
  let skewMs: number | null = null;
  let told: string | null = null;
  /** The clock that people set, not the steady one that we count by. */
  const off = () => (skewMs === null ? 0 : -(skewMs + clock.ahead()));
  const words = (): string | null =>
    Math.abs(off()) < WORTH_SAYING_MS ? null : saying(off() > 0 ? "clock_ahead" : "clock_behind", { span: spanOf(off()) });
  return {
    /** Milliseconds that the cloud's clock is ahead of ours; null before it was heard of. */
    skew: () => skewMs,
    /** Ours or the cloud's, whichever is earlier: by a clock that is ahead, ours or that of a proxy, which dates what passes, nothing is over before its time. */
    now: () => clock.now() + Math.min(0, skewMs ?? 0),
    words,
    heard: (date: number, askedAt: number) => {
      const at = clock.now();
      if (Number.isNaN(date) || at - askedAt > UNDER_WAY_MAX_MS) return;
      skewMs = date + HALF_S - at;
      const now = words();
      if ((now === null) === (told === null)) return;
      told = now;
      say(
        now === null ? "info" : "warn",
        { event: "clock", skew_s: Math.round(-off() / 1_000) },
        now ?? "this station's clock agrees with the cloud's again",
      );
    },
  };
}

/** Ninety seconds: "1 min 30 s"; from ten minutes on, seconds say nothing: "2 h". */
export function spanOf(ms: number): string {
  const step = Math.abs(ms) < 600_000 ? 1 : 60;
  const s = Math.round(Math.abs(ms) / 1_000 / step) * step;
  const [h, min, rest] = [Math.floor(s / 3_600), Math.floor((s % 3_600) / 60), s % 60];
  return [h > 0 && `${h} h`, min > 0 && `${min} min`, h === 0 && rest > 0 && `${rest} s`].filter(Boolean).join(" ") || "0 s";
}
