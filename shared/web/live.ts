// A stream of events that a page listens to while somebody looks at it: hidden it lets go, shown again it catches up.
import { BEAT_MS } from "../beat.ts";
import { signal } from "./dom.ts";

export type Live = { state: { readonly value: "off" | "waiting" | "live" }; start(): void; stop(): void };
type Handlers = { opened(): void; refused(): void; ended(): void; events: Readonly<Record<string, (data: unknown) => void>> };

const AGAIN_MS = 5_000;
const SILENCE_MAX_MS = 2 * BEAT_MS;

export function listenTo(url: string, { opened, refused, ended, events }: Handlers): Live {
  const state = signal<"off" | "waiting" | "live">("off");
  let source: EventSource | undefined;
  let again: ReturnType<typeof setTimeout> | undefined;
  let silence: ReturnType<typeof setTimeout> | undefined;
  let wanted = false;

  /** A line can die without closing: then nobody tells the browser, and the old picture would stand as if it were live. */
  function heard(): void {
    clearTimeout(silence);
    silence = setTimeout(open, SILENCE_MAX_MS);
  }
  function close(): void {
    clearTimeout(again);
    clearTimeout(silence);
    source?.close();
  }
  function open(): void {
    close();
    if (!wanted || document.hidden) return;
    state.value = "waiting";
    source = new EventSource(url);
    heard();
    source.addEventListener("open", () => {
      heard();
      opened();
    });
    source.addEventListener("error", () => {
      state.value = "waiting";
      if (source?.readyState !== EventSource.CLOSED) return; // it tries again by itself
      close();
      again = setTimeout(open, AGAIN_MS);
      refused();
    });
    source.addEventListener("end", ended);
    for (const [name, handle] of Object.entries(events))
      source.addEventListener(name, (event) => {
        heard();
        handle(JSON.parse((event as MessageEvent<string>).data));
        if (wanted) state.value = "live"; // not as soon as it is open: on a slow line what the page knew would be taken for news
      });
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  return {
    state,
    start: () => {
      wanted = true;
      open();
    },
    stop: () => {
      wanted = false;
      close();
      state.value = "off";
    },
  };
}
