// What people have to know of a station that works all the same: on its page, in its health, in the log when it begins.
import { saying } from "#shared/sayings.ts";
import type { Store } from "./buffer.ts";
import type { SteadyClock } from "./clock.ts";
import { type CloudTime, spanOf, WORTH_SAYING_MS } from "./cloud-time.ts";

export type Notice = {
  code:
    | "buffer_set_aside"
    | "buffer_put_back"
    | "buffer_unwritable"
    | "clock_off"
    | "clock_went_back"
    | "envelopes_refused"
    | "evidence_refused";
  words: string;
};

type Known = {
  store: Store;
  clock: SteadyClock;
  time: CloudTime;
  /** Jobs in a row whose envelopes weren't to be trusted, where no more are claimed for that. */
  wary: number | null;
  /** Labels in a row of which the cloud wouldn't hear, likewise. */
  refused: number | null;
};
export function noticesOf({ store, clock, time, wary, refused }: Known): Notice[] {
  const aside = store.setAside();
  const isDue = store.meta("adoption") === "due";
  const all: [Notice["code"], string | null][] = [
    ["buffer_set_aside", aside && saying(isDue ? "buffer_set_aside_unasked" : "buffer_set_aside", aside)],
    ["buffer_put_back", isDue && !aside ? saying("buffer_put_back") : null],
    ["buffer_unwritable", store.fault()],
    ["envelopes_refused", wary === null ? null : saying("envelopes_refused", { count: wary })],
    ["evidence_refused", refused === null ? null : saying("evidence_refused", { count: refused })],
    ["clock_off", time.words()],
    ["clock_went_back", clock.ahead() < WORTH_SAYING_MS ? null : saying("clock_went_back", { span: spanOf(clock.ahead()) })],
  ];
  return all.flatMap(([code, words]) => (words === null ? [] : { code, words }));
}
