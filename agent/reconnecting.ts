// What comes back by itself, ports above all: devices are unplugged, switched off and moved, and nobody restarts an agent for that.
import { saying } from "#shared/sayings.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { Port } from "./duplex.ts";

export type Link = { up: true } | { up: false; why: string };
type ReconnectOptions = {
  clock?: Clock;
  pausesMs?: readonly number[];
  /** Each new port, before anything of it is read. */
  onPort(port: Port): void;
  onLink?(link: Link): void;
};

export const PAUSES_MS = [1_000, 2_000, 5_000, 10_000, 30_000] as const;
export const STEADY_MS = 10_000; // what answers and hangs up at once is not back
/** The last of them lasts. */
export const pauseAfter = (failures: number, pausesMs: readonly number[] = PAUSES_MS): number =>
  pausesMs[Math.min(failures, pausesMs.length - 1)] ?? 0;
/** A change is told once: ten failures in a row are one piece of news. */
export function linkTold(why: string, onChange: (link: Link) => void) {
  let link: Link = { up: false, why };
  let told: boolean | undefined;
  return {
    link: () => link,
    tell: (news: Link): void => {
      link = news;
      if (told === news.up) return;
      told = news.up;
      onChange(news);
    },
  };
}

export function reconnecting(open: (leaving: AbortSignal) => Promise<Port>, options: ReconnectOptions) {
  const { clock = systemClock, pausesMs = PAUSES_MS, onPort, onLink } = options;
  let port: Port | undefined;
  let failures = 0;
  let over = false;
  const leaving = new AbortController();
  let cancel = () => {};
  let opening: Promise<void> = Promise.resolve();

  const { link, tell } = linkTold(saying("not_opened_yet"), (news) => {
    if (!over) onLink?.(news);
  });
  const later = () => {
    if (over) return;
    cancel = clock.after(pauseAfter(failures, pausesMs), () => {
      opening = attempt();
    });
    failures += 1;
  };
  const attempt = async () => {
    const opened = await open(leaving.signal).catch((error: Error) => {
      tell({ up: false, why: error.message });
      later();
    });
    if (!opened) return;
    if (over) return opened.destroy();
    port = opened;
    const openedAt = clock.now();
    onPort(opened);
    tell({ up: true });
    opened.onClose(({ words }) => {
      port = undefined;
      if (clock.now() - openedAt >= STEADY_MS) failures = 0;
      tell({ up: false, why: words });
      later();
    });
  };
  opening = attempt();

  return {
    link,
    /** Stops trying and ends the port. */
    end: async (): Promise<void> => {
      over = true;
      cancel();
      leaving.abort();
      await opening;
      await port?.end();
    },
  };
}
