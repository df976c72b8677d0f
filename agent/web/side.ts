// Beside the line: the station's printers and scanners, what waits in its queue and buffer, and the button that pauses it.
import { heard } from "#shared/sayings.ts";
import { classes, h } from "#shared/web/dom.ts";
import { isHeld, PAUSE, setPaused } from "./acts.ts";
import { Button, shape, Theirs, type Tone, useRead } from "./parts.ts";
import { age, count, say, wordFor } from "./speech.ts";
import { isStuck, type PrinterState, type ScannerState, type State } from "./station.ts";

const PRINTER_TONES: Record<PrinterState["status"], Tone> = {
  starting: "idle",
  ready: "good",
  printing: "busy",
  blocked: "bad",
  offline: "bad",
};
const DeviceName = ({ name, simulated }: { name: string; simulated: boolean }) =>
  h("strong", null, name, simulated && h("b", { class: "sim-tag" }, say().simulated));
export function PrinterRow({ printer }: { printer: PrinterState }) {
  const words = say();
  const { name, status, faults, words: theirs, simulated } = printer;
  const waits = { waits_scan: words.waitsScan, waits_answer: words.waitsAnswer }[heard(theirs)?.name as string];
  const named = [...new Set(faults.map((fault) => wordFor(words.fault, fault)))].join(", ");
  const isBad = isStuck(printer);
  return h(
    "li",
    { class: classes("device", isBad && "is-bad") },
    shape(waits !== undefined && status === "ready" ? "busy" : PRINTER_TONES[status]),
    h(
      "div",
      null,
      h(DeviceName, { name, simulated }),
      h("span", { class: "condition" }, waits ?? words.status[status]),
      isBad && (named === "" ? h(Theirs, { text: theirs }) : h("span", { class: "why" }, named)),
    ),
  );
}
export function ScannerRow({ scanner }: { scanner: ScannerState }) {
  const words = say();
  const { name, up, last, simulated, words: theirs } = scanner;
  return h(
    "li",
    { class: classes("device", !up && "is-bad") },
    shape(up ? "good" : "bad"),
    h(
      "div",
      null,
      h(DeviceName, { name, simulated }),
      h("span", { class: "condition" }, up ? words.up : words.down),
      !up && h(Theirs, { text: theirs }),
      up && last !== null && last.why !== null && h("span", { class: "why" }, wordFor(words.why, last.why)),
    ),
  );
}

export function Side({ now }: { now: State }) {
  const words = say();
  const { counts } = now.ledger;
  const isRead = useRead(String(now.paused)); // the second of two taps would undo the first
  return h(
    "aside",
    { class: "side", "aria-label": words.station },
    h("h2", null, words.printers),
    h(
      "ul",
      { class: "devices" },
      now.printers.map((printer) => h(PrinterRow, { key: printer.name, printer })),
    ),
    now.scanners.length > 0 && h("h2", null, words.scanners),
    now.scanners.length > 0 &&
      h(
        "ul",
        { class: "devices" },
        now.scanners.map((scanner) => h(ScannerRow, { key: scanner.name, scanner })),
      ),
    h(
      "dl",
      { class: "figures" },
      h(Figure, { name: words.queueAhead, value: now.queue_ahead }),
      h(Figure, {
        name: words.buffer,
        value: now.buffer_depth,
        sub: now.buffer.oldest_at === null ? words.nothingWaits : words.oldest(age(now.buffer.oldest_at)),
        tone: now.online ? undefined : "warn",
      }),
    ),
    h(
      "dl",
      { class: "figures small" },
      (["printed", "void", "orphan", "sealed"] as const).map((name) =>
        h(Figure, {
          key: name,
          name: words.count[name],
          value: counts[name] ?? 0,
          tone: name !== "sealed" && name !== "printed" && (counts[name] ?? 0) > 0 ? "warn" : undefined,
        }),
      ),
    ),
    h(Button, {
      title: now.paused ? words.resume : words.pause,
      tone: now.paused ? "play" : "pause",
      disabled: isHeld(PAUSE) || !isRead,
      onPress: () => setPaused(!now.paused),
    }),
  );
}
type FigureProps = { name: string; value: number; sub?: string; tone?: "warn" | undefined };
const Figure = ({ name, value, sub, tone }: FigureProps) =>
  h(
    "div",
    { class: classes("figure", tone) },
    h("dt", null, name),
    h("dd", null, h("b", null, count(value)), sub !== undefined && h("small", null, sub)),
  );
