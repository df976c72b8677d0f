// What people have to know of a station that works all the same: on its page, in its health, in the log when it begins.
import type { Store } from "./buffer.ts";
import type { SteadyClock } from "./clock.ts";
import { type CloudTime, spanOf, WORTH_SAYING_MS } from "./cloud-time.ts";

export type Notice = {
  code: "buffer_set_aside" | "buffer_put_back" | "buffer_unwritable" | "clock_off" | "clock_went_back";
  words: string;
};

export function noticesOf({ store, clock, time }: { store: Store; clock: SteadyClock; time: CloudTime }): Notice[] {
  const aside = store.setAside();
  const isDue = store.meta("adoption") === "due";
  const unasked = "the cloud hasn't yet been asked what this station held";
  const all: [Notice["code"], string | null][] = [
    [
      "buffer_set_aside",
      aside &&
        `the buffer couldn't be read (${aside.why}) and was set aside as ${aside.file}${isDue ? `; ${unasked}` : ""}: look through the labels that lie here, then move that file away`,
    ],
    [
      "buffer_put_back",
      isDue && !aside ? `labels were begun here that the buffer doesn't know: it was put back, or is a new one; ${unasked}` : null,
    ],
    ["buffer_unwritable", store.fault()],
    ["clock_off", time.words()],
    [
      "clock_went_back",
      clock.ahead() < WORTH_SAYING_MS
        ? null
        : `this station's clock was set back; its own time runs on, ${spanOf(clock.ahead())} ahead of it`,
    ],
  ];
  return all.flatMap(([code, words]) => (words === null ? [] : { code, words }));
}
