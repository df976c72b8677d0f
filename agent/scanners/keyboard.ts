// What was typed into the console, by a person or by a scanner that plays keyboard: text like any other, and marked as such.
import { Buffer } from "node:buffer";
import { type Clock, instant } from "../clock.ts";
import { textOf, withoutAim } from "./lines.ts";
import { type News, type Scanner, type ScannerSettings, simulatedOf } from "./scanner.ts";

const TYPED_MAX_LENGTH = 4_096;

export const openKeyboard = (settings: ScannerSettings, news: News, clock: Clock): Scanner => ({
  name: settings.name,
  link: () => ({ up: true }),
  take: (typed, session) => {
    const whole = typed.replace(/[\r\n\t ]+$/, ""); // a wedge ends with Enter or Tab
    if (whole === "" || whole.length > TYPED_MAX_LENGTH || textOf(Buffer.from(whole)) === undefined)
      return news.trouble({
        scanner: settings.name,
        at: instant(clock),
        words: `what was typed is empty, longer than ${TYPED_MAX_LENGTH} characters, or has control characters`,
      });
    news.sighting({
      scanner: settings.name,
      source: "keyboard",
      ...withoutAim(whole),
      decoder: "keyboard",
      scanned_at: instant(clock),
      in_view: 1,
      mirrored: false,
      inverted: false,
      ...(session === undefined ? {} : { session }),
      ...simulatedOf(settings),
    });
  },
  end: async () => {},
});
