// What was typed into the console, by a person or by a scanner that plays keyboard: text like any other, and marked as such.
import { Buffer } from "node:buffer";
import { saying } from "#shared/sayings.ts";
import { type Clock, instant } from "../clock.ts";
import { sightingOf, textOf } from "./lines.ts";
import type { ScannerDriver, ScannerSettings, Sighting, Trouble } from "./scanner.ts";

const TYPED_MAX_LENGTH = 4_096;

/** What was typed at a keyboard, as what a scanner saw. */
export function typedAs(settings: ScannerSettings, typed: string, clock: Clock): Sighting | Trouble {
  const at = instant(clock);
  const whole = typed.replace(/[\r\n\t ]+$/, ""); // a wedge ends with Enter or Tab
  if (whole === "" || whole.length > TYPED_MAX_LENGTH || textOf(Buffer.from(whole)) === undefined)
    return { scanner: settings.name, at, words: saying("typed_unfit", { most: TYPED_MAX_LENGTH }) };
  return sightingOf(settings, whole, { source: "keyboard", decoder: "keyboard", scanned_at: at });
}

export const keyboard: ScannerDriver = {
  sees: "symbols",
  port: "none",
  checkPort: () => {}, // one that names a port works all the same; doctor says that nobody reads it
  open: ({ name }) => ({ name, link: () => ({ up: true }), end: async () => {} }),
};
