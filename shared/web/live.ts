// A stream of events that a page listens to while somebody looks at it: hidden it lets go, shown again it catches up.
import { signal } from "./dom.ts";

export type Live = { state: { readonly value: "off" | "waiting" | "live" }; start(): void; stop(): void };
type Handlers = { opened(): void; refused(): void; ended(): void; events: Readonly<Record<string, (data: unknown) => void>> };

const AGAIN_MS = 5_000;

export function listenTo(url: string, { opened, refused, ended, events }: Handlers): Live {
  const state = signal<"off" | "waiting" | "live">("off");
  let source: EventSource | undefined;
  let again: ReturnType<typeof setTimeout> | undefined;
  let wanted = false;

  function open(): void {
    clearTimeout(again);
    source?.close();
    if (!wanted || document.hidden) return;
    state.value = "waiting";
    source = new EventSource(url);
    source.addEventListener("open", () => {
      state.value = "live";
      opened();
    });
    source.addEventListener("error", () => {
      state.value = "waiting";
      if (source?.readyState !== EventSource.CLOSED) return; // it tries again by itself
      again = setTimeout(open, AGAIN_MS);
      refused();
    });
    source.addEventListener("end", ended);
    for (const [name, handle] of Object.entries(events))
      source.addEventListener(name, (event) => handle(JSON.parse((event as MessageEvent<string>).data)));
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? source?.close() : open()));
  return {
    state,
    start: () => {
      wanted = true;
      open();
    },
    stop: () => {
      wanted = false;
      clearTimeout(again);
      source?.close();
      state.value = "off";
    },
  };
}
