// An RFID reader that sends `EPC` or `EPC,TID` in hex, one tag a line: the eye that the printer's own read-back can't replace.
import { heard, saying } from "#shared/sayings.ts";
import { type Clock, instant } from "../clock.ts";
import { parsePort } from "../port-url.ts";
import { linePort } from "./line-port.ts";
import { type News, type ScannerDriver, type ScannerSettings, simulatedOf } from "./scanner.ts";

/** Of any length that a tag can hold: one that can't be of ours is in the field all the same. */
const TAG = /^\s*((?:[0-9a-f]{4}){1,31})\s*(?:,\s*([0-9a-f]{8,64})?\s*)?$/i;
const TAGS_A_SECOND_MAX = 1_000; // a reader says the same ones again and again
/** One that is set to another format says something wrong for each tag, for as long as one is in its field. */
const TROUBLE_EVERY_MS = 10_000;

export const rfidLine: ScannerDriver = {
  sees: "tags",
  port: "wire",
  checkPort: parsePort,
  open: (settings, news, clock) => {
    const seldom = { ...news, trouble: seldomTold(news.trouble, clock) };
    return linePort(settings, seldom, clock, tagsTold(settings, seldom, clock), TAGS_A_SECOND_MAX);
  },
};

/** Each kind of trouble by itself. */
function seldomTold(tell: News["trouble"], clock: Clock): News["trouble"] {
  const toldAt = new Map<string, number>();
  return (trouble) => {
    const kind = heard(trouble.words)?.name ?? "";
    if (clock.now() - (toldAt.get(kind) ?? -Infinity) < TROUBLE_EVERY_MS) return;
    toldAt.set(kind, clock.now());
    tell(trouble);
  };
}

const tagsTold = (settings: ScannerSettings, news: News, clock: Clock) => (line: string) => {
  const [, epc, tid] = TAG.exec(line) ?? [];
  const at = instant(clock);
  if (epc === undefined)
    return news.trouble({ scanner: settings.name, at, words: saying("not_epc", { line: JSON.stringify(line.slice(0, 80)) }) });
  news.tag({
    reader: settings.name,
    epc: epc.toUpperCase(),
    ...(tid === undefined ? {} : { tid: tid.toUpperCase() }),
    read_at: at,
    ...simulatedOf(settings),
  });
};
