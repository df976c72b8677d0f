// An RFID reader that sends `EPC` or `EPC,TID` in hex, one tag a line: the eye that the printer's own read-back can't replace.
import { saying } from "#shared/sayings.ts";
import { instant } from "../clock.ts";
import { parsePort } from "../port-url.ts";
import { linePort } from "./line-port.ts";
import { type ScannerDriver, simulatedOf } from "./scanner.ts";

/** Of any length that a tag can hold: one that can't be of ours is in the field all the same. */
const TAG = /^\s*((?:[0-9a-f]{4}){1,31})\s*(?:,\s*([0-9a-f]{8,64})?\s*)?$/i;

export const rfidLine: ScannerDriver = {
  sees: "tags",
  port: "wire",
  checkPort: parsePort,
  open: (settings, news, clock) =>
    linePort(settings, news, clock, (line) => {
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
    }),
};
