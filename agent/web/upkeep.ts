// Maintenance: each device as it is now, a test label, a simulator's faults, how much evidence can be had here, what can't be detected, and the log.
import { grades } from "#shared/states.ts";
import { h, signal, useEffect } from "#shared/web/dom.ts";
import { quoted } from "#shared/web/telling.ts";
import { hindered, isBeingSaid, isHeld, printTest, tested } from "./acts.ts";
import { Button, Fact, Name, Panel, Refused, shape, Theirs, Time } from "./parts.ts";
import { PrinterRow, ScannerRow } from "./side.ts";
import { age, count, say, wordFor } from "./speech.ts";
import { api, type Faults, isCut, type PrinterState, type ScannerState, type State } from "./station.ts";

export function Upkeep({ now }: { now: State }) {
  const words = say();
  return h(
    "main",
    { class: "upkeep" },
    h("h1", null, words.upkeep),
    now.printers.map((printer) => h(PrinterPanel, { key: printer.name, printer })),
    now.scanners.length > 0 &&
      h(
        Panel,
        { title: words.scanners },
        now.scanners.map((scanner) => h(ScannerPanel, { key: scanner.name, scanner })),
      ),
    h(Limits, { now }),
    h(About, { now }),
    now.printers.filter(({ simulated }) => simulated).map((printer) => h(Simulator, { key: printer.name, printer })),
    h(Log, { lines: now.log }),
  );
}

function PrinterPanel({ printer }: { printer: PrinterState }) {
  const words = say();
  const result = tested.value[printer.name];
  const { name, driver, port, identity, since, ceiling, attest, warnings, words: theirs, label } = printer;
  return h(
    Panel,
    { title: `${words.printer}: ${name}` },
    h("ul", { class: "devices" }, h(PrinterRow, { printer })),
    h(
      "dl",
      { class: "facts wide" },
      h(Fact, {
        name: words.language_of_printer,
        value: `${driver} · ${label.dpi} dpi · ${words.size(count(label.width_mm), count(label.height_mm))}`,
      }),
      h(Fact, { name: words.address, value: port, code: true }),
      identity !== null && h(Fact, { name: words.identity, value: h(Name, { text: identity }) }),
      h(Fact, {
        name: words.condition,
        value: [`${words.status[printer.status]}: `, h(Theirs, { text: theirs }), ` ${words.since(age(since))}`],
      }),
      warnings.length > 0 &&
        h(Fact, { name: words.warnings, value: warnings.map((text, i) => [i > 0 && ", ", h(Theirs, { key: text, text })]) }),
      h(Fact, { name: words.ceiling, value: h(Ceiling, { ceiling, attest }) }),
    ),
    h(
      "div",
      { class: "answers" },
      h(Button, {
        title: words.testLabel,
        of: name,
        disabled: isHeld({ serial: name }),
        pressed: isBeingSaid(words.testLabel, { serial: name }),
        onPress: () => printTest(name),
      }),
    ),
    h(
      "p",
      { role: "status" },
      result !== undefined && [`${words.testDone}: `, typeof result === "string" ? h(Theirs, { text: result }) : h(Refused, result)],
    ),
  );
}
function Ceiling({ ceiling, attest }: Pick<PrinterState, "ceiling" | "attest">) {
  const words = say();
  if (ceiling === null) return words.gradeUnknown;
  return h(
    "span",
    null,
    h("b", { class: "grade" }, ceiling),
    ` ${words.grade[ceiling]}. `,
    grades[ceiling].attests ? words.attests[attest] : words.attestsPerson,
  );
}

const LOOK_MS = 5_000;
const faults = signal<Record<string, Faults | null>>({});
let pressed = 0;
/** One press breaks something, the next mends it. */
function Simulator({ printer: { name: printer, has_simulator: isThere, status } }: { printer: PrinterState }) {
  const words = say();
  const keep = (said: Awaited<ReturnType<typeof api.faults>>) => {
    if (!said.ok && said.status === 0) return; // a station that doesn't answer says nothing of its simulators
    faults.value = { ...faults.peek(), [printer]: said.ok ? said.value : null };
  };
  // Asked anew once the station or the simulator is back, and now and then: another page, or a start between two looks of the station, changes them unheard.
  useEffect(() => {
    if (!isThere) return;
    const look = () => {
      const before = pressed;
      void api.faults(printer).then((said) => before === pressed && keep(said));
    };
    look();
    const looking = setInterval(look, LOOK_MS);
    return () => clearInterval(looking);
  }, [printer, isThere, isCut.value, status]);
  const known = isThere ? faults.value[printer] : null;
  if (known === undefined) return undefined;
  const press = async (name: string, on: boolean) => {
    pressed += 1;
    const said = await api.setFault(printer, name, on);
    pressed += 1; // what was asked before, or meanwhile, is old
    if (said.ok) keep(said);
    else hindered(said);
  };
  return h(
    Panel,
    { title: `${words.faults}: ${printer}` },
    known === null && h("p", { class: "quiet" }, words.noSimulator),
    known !== null &&
      h(
        "ul",
        { class: "faults" },
        Object.entries(known.faults).map(([name, says]) => h(Fault, { key: name, name, says, isOn: known.active.includes(name), press })),
      ),
  );
}
type FaultProps = { name: string; says: string; isOn: boolean; press(name: string, on: boolean): Promise<void> };
const Fault = ({ name, says, isOn, press }: FaultProps) =>
  h(
    "li",
    null,
    h(
      "button",
      { type: "button", class: "button plain fault", "aria-pressed": isOn, onClick: () => void press(name, !isOn) },
      shape(isOn ? "warn" : "idle"),
      h(
        "span",
        { class: "button-text" },
        h("strong", null, say().simulatorFaults[name] ?? quoted(says), ` · ${isOn ? say().faultOn : say().faultOff}`),
        h("small", { class: "code" }, name),
      ),
    ),
  );

function ScannerPanel({ scanner }: { scanner: ScannerState }) {
  const words = say();
  const { last } = scanner;
  return h(
    "div",
    null,
    h("ul", { class: "devices" }, h(ScannerRow, { scanner })),
    last &&
      h(
        "dl",
        { class: "facts wide" },
        h(Fact, {
          name: words.lastScan,
          value: [last.why === null ? h(Theirs, { text: last.words }) : wordFor(words.why, last.why), " · ", h(Time, { at: last.at })],
        }),
      ),
  );
}

function Limits({ now }: { now: State }) {
  const words = say();
  return h(
    Panel,
    { title: words.cannotDetect, id: "limits" },
    now.printers.map(({ name, cannot_detect: theirs }) =>
      h(
        "div",
        { key: name },
        h("h3", null, name),
        h(
          "ul",
          { class: "plain-list" },
          theirs.map((text) => h("li", { key: text }, words.cannot[text] ?? h(Theirs, { text }))),
        ),
      ),
    ),
    h("h3", null, words.station),
    h(
      "ul",
      { class: "plain-list" },
      words.cannotDetectStation.map((text) => h("li", { key: text }, text)),
    ),
  );
}

function About({ now }: { now: State }) {
  const words = say();
  return h(
    Panel,
    { title: words.about },
    h(
      "dl",
      { class: "facts wide" },
      h(Fact, { name: words.station, value: now.station ?? "–" }),
      h(Fact, { name: words.device, value: now.device_id ?? "–", code: true }),
      h(Fact, { name: words.version, value: now.version }),
      h(Fact, { name: words.cloud, value: now.cloud, code: true }),
      h(Fact, { name: words.pictures, value: count(now.buffer.pictures) }),
    ),
  );
}

type Line = { level?: string; time?: string; msg?: string };
const parsed = (line: string): Line => {
  try {
    return JSON.parse(line) as Line;
  } catch {
    return { msg: line };
  }
};
function Log({ lines }: { lines: string[] }) {
  const words = say();
  return h(
    Panel,
    { title: words.log },
    h("p", { class: "quiet" }, words.logLong),
    h(
      "ol",
      { class: "log", lang: "en", tabIndex: 0, "aria-label": words.log },
      lines.toReversed().map((line, i) => {
        const { level = "", time, msg = "" } = parsed(line);
        return h(
          "li",
          { key: lines.length - i, class: level },
          time === undefined ? h("span", null) : h(Time, { at: time }),
          h("b", null, level),
          h("span", null, msg),
        );
      }),
    ),
  );
}
