// What the doctor finds at the devices: asked without printing, and by the running agent where it holds them.
import type { Grade } from "#shared/states.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { AgentConfig, PrinterConfig } from "./config.ts";
import { type Line, linesOf } from "./doctor-line.ts";
import { isWorking } from "./press.ts";
import { attests, faultWords, type Printer } from "./printers/driver.ts";
import { openPrinter } from "./printers/index.ts";
import type { Link } from "./reconnecting.ts";
import { openScanner, scannerDrivers } from "./scanners/index.ts";
import type { State } from "./state.ts";

const ANSWER_MAX_MS = 4_000;
const PICTURE_MAX_MS = 30_000; // by then a camera has said itself what is wrong: a large picture takes seconds to be read
type Found = { trouble: string | null; warnings: string[]; ceiling: Grade | null; identity: string | null; isMute?: boolean };

export async function printerLine(config: PrinterConfig, running: State | undefined): Promise<Line> {
  const { well, odd, bad } = linesOf(`printer ${config.name}`);
  const theirs = running?.printers.find(({ name }) => name === config.name);
  const { trouble, warnings, ceiling, identity, isMute } = theirs ? toldOf(theirs) : await lookedAt(config);
  if (trouble !== null) return bad(trouble);
  const evidence = ceiling === null ? "" : `, evidence up to ${ceiling}`;
  const words = `${identity ?? config.driver} at ${config.port} ${isMute ? "takes the connection" : "is ready"}${evidence}`;
  const asks =
    ceiling !== null && !attests(ceiling) && config.attest === "device" ? ["it can't attest: an operator is asked for each label"] : [];
  const all = [...warnings, ...asks];
  return all.length === 0 ? well(words) : odd([words, ...all].join("; "));
}

/** As the running agent tells it. */
const toldOf = ({ status, words, warnings, ceiling, identity }: State["printers"][number]): Found => ({
  trouble: isWorking({ status }) ? null : `${status}: ${words}`,
  warnings,
  ceiling,
  identity,
});
async function lookedAt(config: PrinterConfig): Promise<Found> {
  let printer: Printer | undefined;
  try {
    printer = await openPrinter(config);
    const capabilities = await printer.probe();
    const status = await printer.preflight();
    const isMute = status.source.length === 0 && status.ready === null;
    const faults = faultWords(status.faults);
    return {
      trouble: status.ready === false ? `${faults || "it isn't ready"}: see to it at the printer` : null,
      warnings: [
        ...(capabilities.warnings ?? []),
        ...status.warnings,
        ...(isMute
          ? ["it says nothing of itself: is this its port, is it on and of this language, and does no other program hold it?"]
          : []),
      ],
      ceiling: capabilities.ceiling,
      identity: capabilities.identity,
      isMute,
    };
  } catch (error) {
    return { trouble: (error as Error).message, warnings: [], ceiling: null, identity: null };
  } finally {
    await printer?.close();
  }
}

/** `clock`: by which it is waited for. */
export async function scannerLine(
  config: AgentConfig["scanners"][number],
  running: State | undefined,
  clock: Pick<Clock, "after"> = systemClock,
): Promise<Line> {
  const { name, driver, port = "", simulated = false } = config;
  const { well, odd, bad } = linesOf(`scanner ${name}`);
  if (scannerDrivers[driver].port === "none" && port !== "")
    return odd(`a ${driver} types into the console, and nobody reads ${port}: name the driver that does, such as line, or leave port out`);
  const theirs = running?.scanners.find((scanner) => scanner.name === name);
  if (theirs) return theirs.up ? well(theirs.words) : bad(theirs.words);
  const told = Promise.withResolvers<Link>();
  const mostMs = scannerDrivers[driver].port === "picture" ? PICTURE_MAX_MS : ANSWER_MAX_MS;
  const cancel = clock.after(mostMs, () => told.resolve({ up: false, why: "it doesn't answer" }));
  const quiet = () => {};
  const news = { sighting: quiet, tag: quiet, trouble: quiet, link: (_name: string, link: Link) => told.resolve(link) };
  const scanner = openScanner({ name, driver, port, simulated }, news);
  if (scanner.link().up) told.resolve({ up: true });
  const link = await told.promise;
  cancel();
  await scanner.end();
  return link.up ? well(`${port || "the console's keyboard"} can be opened`) : bad(link.why);
}
