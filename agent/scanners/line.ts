// A code scanner that sends what it reads as a line: fixed ones over TCP, hand ones over a serial line.
import { instant } from "../clock.ts";
import { parsePort } from "../port-url.ts";
import { linePort } from "./line-port.ts";
import { sightingOf } from "./lines.ts";
import type { ScannerDriver } from "./scanner.ts";

/** `serial` over TCP as well: a scanner's own decoder, and a text that could have been sent by anyone. */
export const line: ScannerDriver = {
  sees: "symbols",
  port: "wire",
  checkPort: parsePort,
  open: (settings, news, clock) =>
    linePort(settings, news, clock, (text) =>
      news.sighting(sightingOf(settings, text, { source: "serial", decoder: `scanner ${settings.name}`, scanned_at: instant(clock) })),
    ),
};
