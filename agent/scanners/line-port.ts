// A device that sends lines, on any port, for ever: code scanners and tag readers differ only in what a line means.
import { type Clock, instant } from "../clock.ts";
import { openPort } from "../port.ts";
import { parsePort } from "../port-url.ts";
import { reconnecting } from "../reconnecting.ts";
import { type LineNews, lines } from "./lines.ts";
import type { News, Scanner, ScannerSettings } from "./scanner.ts";

export function linePort(
  { name, port: url }: ScannerSettings,
  news: News,
  clock: Clock,
  line: (text: string) => void,
  mostASecond?: number,
): Scanner {
  parsePort(url); // a typo stops the start; only a device may be away
  const trouble: LineNews["trouble"] = (words, why) => news.trouble({ scanner: name, at: instant(clock), words, ...(why ? { why } : {}) });
  const connection = reconnecting((leaving) => openPort(url, { clock, leaving }), {
    clock,
    onLink: (link) => news.link(name, link),
    onPort: (port) => {
      const heard = lines(clock, { line, trouble }, mostASecond);
      port.onData(heard.push);
      port.onClose(heard.drop);
    },
  });
  return { name, link: connection.link, end: connection.end };
}
