// Bytes into lines, for whatever sends a line per event: in pieces, run together, cut off or mad, it never invents a whole line from a part.
import { Buffer } from "node:buffer";
import { saying } from "#shared/sayings.ts";
import { afterHearing, type Clock } from "../clock.ts";
import { type ScannerSettings, type Sighting, simulatedOf } from "./scanner.ts";

const LINE_MAX_BYTES = 4_096; // the longest QR code holds 2,953
/** A line pauses no longer than this; what then still has no end never gets one. */
const IDLE_MS = 500;
const SECOND_MS = 1_000;
/** More than anybody scans. Each that is taken is judged and written down, and the station does nothing else meanwhile. */
const LINES_A_SECOND_MAX = 50;
const CR = 0x0d;
const LF = 0x0a;

export type LineNews = { line(text: string): void; trouble(words: string, why?: "no_line_end"): void };

export function lines(clock: Clock, { line, trouble }: LineNews, mostASecond = LINES_A_SECOND_MAX) {
  let inSecond = 0;
  let held = Buffer.alloc(0);
  let tooLong = false;
  let cancel = () => {};

  const isBeyond = () => {
    inSecond += 1;
    if (inSecond === 1) clock.after(SECOND_MS, () => void (inSecond = 0));
    if (inSecond === mostASecond + 1) trouble(saying("lines_too_many", { most: mostASecond }));
    return inSecond > mostASecond;
  };
  const finish = () => {
    const bytes = held;
    held = Buffer.alloc(0);
    if (tooLong) return void (tooLong = false); // it was told when it grew too long
    if (bytes.length === 0 || isBeyond()) return; // between CR and LF, or an empty line
    const text = textOf(bytes);
    if (text === undefined) trouble(saying("line_ignored")); // in the same words each time, which are no news: a device that sends no text sends much of it
    else line(text);
  };
  const hold = (bytes: Uint8Array) => {
    if (tooLong || bytes.length === 0) return;
    held = Buffer.concat([held, bytes]);
    if (held.length <= LINE_MAX_BYTES) return;
    held = Buffer.alloc(0);
    tooLong = true;
    trouble(saying("line_too_long", { bytes: LINE_MAX_BYTES }));
  };
  const expire = () => {
    const words = saying("no_line_end", { bytes: held.length });
    if (held.length > 0) trouble(words, "no_line_end");
    held = Buffer.alloc(0); // half a serial number can be another item's whole one, so that a line without its end is never believed
    // A line that is too long goes on until its end, however long it pauses: its tail would look like a line.
  };
  return {
    push: (bytes: Uint8Array): void => {
      cancel();
      let from = 0;
      for (let i = 0; i < bytes.length; i += 1) {
        if (bytes[i] !== CR && bytes[i] !== LF) continue;
        hold(bytes.subarray(from, i));
        finish();
        from = i + 1;
      }
      hold(bytes.subarray(from));
      if (held.length > 0) cancel = afterHearing(clock, IDLE_MS, expire);
    },
    /** The line was cut off with the cable: what there is of it is no line. */
    drop: (): void => {
      cancel();
      held = Buffer.alloc(0);
      tooLong = false;
    },
  };
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
/** Undefined where it isn't text. */
export function textOf(bytes: Uint8Array): string | undefined {
  if (bytes.some((byte) => byte < 0x20 || byte === 0x7f)) return undefined;
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined; // not UTF-8
  }
}

/** The AIM identifier that a scanner may be set to send before the text. */
export function withoutAim(line: string): { symbology: string; text: string } {
  const aim = /^\][A-Za-z][0-9A-Za-z]/.exec(line)?.[0];
  return aim ? { symbology: aim, text: line.slice(aim.length) } : { symbology: "unknown", text: line };
}

/** What a scanner's own decoder read, or was typed: nothing but the text is known of it. */
export const sightingOf = (
  settings: ScannerSettings,
  line: string,
  told: Pick<Sighting, "source" | "decoder" | "scanned_at">,
): Sighting => ({
  scanner: settings.name,
  ...withoutAim(line),
  ...told,
  in_view: 1,
  mirrored: false,
  inverted: false,
  ...simulatedOf(settings),
});
