// A code scanner that sends what it reads as a line: fixed ones over TCP, hand ones over a serial line.
import { type Clock, instant } from "../clock.ts";
import { linePort } from "./line-port.ts";
import { withoutAim } from "./lines.ts";
import { type News, type Scanner, type ScannerSettings, simulatedOf } from "./scanner.ts";

export const openLine = (settings: ScannerSettings, news: News, clock: Clock): Scanner =>
  linePort(settings, news, clock, (line) =>
    news.sighting({
      scanner: settings.name,
      source: "serial", // over TCP as well: a scanner's own decoder, and a text that could have been sent by anyone
      ...withoutAim(line),
      decoder: `scanner ${settings.name}`,
      scanned_at: instant(clock),
      in_view: 1,
      mirrored: false,
      inverted: false,
      ...simulatedOf(settings),
    }),
  );
