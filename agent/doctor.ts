// imprimatur agent doctor: everything a station needs, looked at once, a line each. A running agent isn't disturbed: what it holds, it is asked about.
import { argumentsOf, ConfigError } from "#shared/arguments.ts";
import { urlAt } from "#shared/url-at.ts";
import ky from "ky";
import { addressFault, tryAddress } from "./address.ts";
import { brokerLine, cloudLines, meetCloud, type Meeting } from "./doctor-cloud.ts";
import { printerLine, scannerLine } from "./doctor-devices.ts";
import { type Line, linesOf } from "./doctor-line.ts";
import { bufferLine, configLine, diskLine, eyeLine, isHeld, isLeft } from "./doctor-local.ts";
import { type AgentConfig, DEFAULT_FILE, loadAgentConfig } from "./config.ts";
import { bufferOfService } from "./install.ts";
import type { State } from "./state.ts";
import { readable } from "./words.ts";
import { SERVICE } from "./unit.ts";

const ANSWER_MAX_MS = 2_000;

export async function doctor(argv: string[]): Promise<number> {
  const { config: file, json } = argumentsOf(
    "imprimatur agent doctor [--config FILE] [--json]",
    { config: { type: "string" }, json: { type: "boolean" } },
    argv,
  );
  const lines = await examine(file);
  const isWell = lines.every(({ level }) => level !== "FAIL");
  process.stdout.write(json ? `${JSON.stringify({ ok: isWell, checks: lines }, null, 2)}\n` : shown(lines));
  return isWell ? 0 : 1;
}
const shown = (lines: Line[]): string =>
  lines
    .map(({ check, level, words }) => `${level.padEnd(5)} ${check.padEnd(18)} ${readable(words.replaceAll(/\s+/g, " "), Infinity)}\n`)
    .join("");

async function examine(file: string | undefined): Promise<Line[]> {
  let config: AgentConfig;
  const service = bufferOfService(file);
  try {
    config = { ...loadAgentConfig(file), ...(service === undefined ? {} : { dataDir: service }) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [linesOf("settings").bad(error.message)];
  }
  const [answering, meeting] = await Promise.all([runningAt(config), meetCloud(config)]);
  const running = isAnothers(answering, meeting, config) && !isHeld(config) ? undefined : answering;
  const isElsewhere = running === undefined && isHeld(config); // its console is another one than these settings name
  const devices = isElsewhere ? unseen(config) : await deviceLines(config, running);
  return [
    configLine(config, file ?? DEFAULT_FILE),
    agentLine(config, running, {
      isService: service !== undefined,
      isElsewhere,
      unheard: running || isElsewhere ? undefined : await unheardAt(config),
    }),
    diskLine(config),
    bufferLine(config, running, meeting.said.ok ? meeting.said.value.device : null),
    ...(await cloudLines(config, meeting, running !== undefined || isElsewhere)),
    await brokerLine(config, meeting, running),
    ...devices,
    await eyeLine(config),
  ];
}

const deviceLines = ({ printers, scanners }: AgentConfig, running: State | undefined): Promise<Line[]> =>
  Promise.all([...printers.map((printer) => printerLine(printer, running)), ...scanners.map((scanner) => scannerLine(scanner, running))]);
const unseen = ({ printers, scanners }: AgentConfig): Line[] =>
  [...printers.map(({ name }) => `printer ${name}`), ...scanners.map(({ name }) => `scanner ${name}`)].map((check) =>
    linesOf(check).odd("isn't looked at: the agent that works here has it"),
  );

type Where = {
  isService: boolean;
  /** It runs, and its console isn't known. */
  isElsewhere: boolean;
  /** Why its console couldn't listen. */
  unheard: string | undefined;
};
function agentLine(config: AgentConfig, running: State | undefined, { isService, isElsewhere, unheard }: Where): Line {
  const { well, odd, bad } = linesOf("agent");
  if (running) {
    const { stopped, buffer, paused } = running;
    const words = `runs at ${consoleOf(config)}`;
    if (stopped !== null && stopped !== buffer.fault) return bad(`${words} and claims nothing: ${stopped}`);
    if (paused) return odd(`${words} and is paused: no label is begun until somebody resumes it there`);
    return well(`${words}; what it holds is told by it`);
  }
  if (isElsewhere && config.console.port === 0)
    return odd("runs, at a port of its own choice (console.port is 0) that its log tells: its devices are left to it");
  if (isElsewhere) return odd(`runs, and doesn't answer at ${consoleOf(config)}: its devices are left to it`);
  if (unheard !== undefined) return bad(`doesn't run, and can't be started: ${unheard}`);
  const words = "doesn't run: its devices are looked at from here";
  return isService ? odd(`${words}; it is a service of this machine: systemctl status ${SERVICE} says why`) : well(words);
}

const consoleOf = ({ console: { host, port } }: AgentConfig): string => urlAt({ "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host, port);
const unheardAt = ({ console: address }: AgentConfig): Promise<string | undefined> =>
  tryAddress(address).then(
    () => undefined,
    (error: Error) => addressFault(error) ?? error.message,
  );
/** A second station of a machine finds the first one's console, until its own has a port: the two are told apart by their devices, or by a buffer that nobody has. */
const isAnothers = (answering: State | undefined, { said }: Meeting, config: AgentConfig): boolean =>
  said.ok ? typeof answering?.device_id === "string" && answering.device_id !== said.value.device.id : isLeft(config);
/** The agent of these settings, if its console answers. */
async function runningAt(config: AgentConfig): Promise<State | undefined> {
  try {
    const state = await ky(`${consoleOf(config)}/api/state`, { retry: 0, timeout: ANSWER_MAX_MS, redirect: "error" }).json<State>();
    const isOurs =
      Array.isArray(state.printers) && config.printers.every(({ name }) => state.printers.some((printer) => printer.name === name));
    return isOurs ? state : undefined;
  } catch {
    return undefined; // nobody there, or somebody else
  }
}
