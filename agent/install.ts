// imprimatur agent install: the station as a service of this machine. It says what it would do and does it only when told.
import { execFileSync } from "node:child_process";
import { existsSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { argumentsOf, ConfigError } from "#shared/arguments.ts";
import { type AgentConfig, BUFFER_FILE, DEFAULT_FILE, loadAgentConfig, variablesSet } from "./config.ts";
import { closedTo, inShell, SERVICE, settingsIn, startsBrought, startsUnseen, STATE_DIR, unitOf, unseenOf } from "./unit.ts";
import { makeFolder } from "./folder.ts";

const OPTIONS = {
  config: { type: "string" },
  root: { type: "string" },
  print: { type: "boolean" },
  yes: { type: "boolean" },
  uninstall: { type: "boolean" },
} as const;
const USAGE = "imprimatur agent install [--config FILE] [--root DIR] [--print | --yes] [--uninstall]";
type Step = { says: string; act(): void };

export function install(argv: string[]): Promise<number> {
  const { config: named, root: under = "/", print, yes, uninstall } = argumentsOf(USAGE, OPTIONS, argv);
  const file = resolve(named ?? DEFAULT_FILE);
  const root = resolve(under);
  const at = join(root, "etc/systemd/system", SERVICE);
  if (uninstall) return carryOut(removal(at, root), yes);
  const config = settingsOfService(file);
  const font = config.fonts.find((path) => !isAbsolute(path));
  if (font !== undefined)
    throw new ConfigError(`${file}: fonts: ${font} would be looked for in /, where a service begins: give its whole path`);
  const unit = unitOf(config, file, systemdVersion());
  if (print) return said(unit);
  const kept = join(config.dataDir, BUFFER_FILE);
  const steps: Step[] = [
    { says: `write ${at}${existsSync(at) ? `, over the one that is there${whoseOther(at, file)}` : ""}`, act: () => write(at, unit) },
    ...(isLive(root)
      ? [systemctl("daemon-reload"), systemctl("enable", SERVICE), systemctl("restart", SERVICE)]
      : [systemctl(`--root=${root}`, "enable", SERVICE)]),
  ];
  const note = existsSync(kept)
    ? `the buffer ${kept} isn't moved: ${moveOf(kept)}`
    : `the settings stay at ${file}, given to the service as a credential; its buffer is in ${STATE_DIR}`;
  const beware = obstaclesTo(config)
    .map((one) => `; ${one}`)
    .join("");
  const again = startsBrought()
    ? "; it runs on the Node that was brought along, which an upgrade takes away: run this again after each"
    : "";
  return carryOut(steps, yes, `${note}${beware}${again}; look with: systemctl status ${SERVICE}, journalctl -u ${SERVICE} -o cat`, beware);
}

/** The machine that runs, and no image of another. */
const isLive = (root: string): boolean => root === "/";

/** What may keep the service from starting, or from what its settings name. */
function obstaclesTo(config: AgentConfig): string[] {
  const closed = closedTo();
  return [
    ...(closed === undefined
      ? []
      : [`${closed} is closed to the service's own user: it won't start from there, let others read it or install elsewhere`]),
    ...(startsUnseen() ? ["this installation lies under a /tmp, which no service sees: it won't start from there"] : []),
    ...unseenOf(config).map((path) => `${path} lies under a /tmp, which no service sees: put it elsewhere`),
    ...(variablesSet().length > 0 ? [notForIt()] : []),
  ];
}

/** The files beside it say what was begun and not yet put in; once the service has run, systemd leaves what root lays there to root. */
const moveOf = (kept: string): string =>
  `if anything in it waits, end that agent, systemctl stop ${SERVICE}, mkdir -p ${STATE_DIR} && cp ${inShell(kept)}* ${STATE_DIR}/ && ` +
  `chown --reference=${STATE_DIR}/. ${STATE_DIR}/*, and start the service`;

/** A machine has one service of a station: a second one takes the first one's place, and its buffer. */
function whoseOther(at: string, file: string): string {
  const other = settingsIn(at);
  const isSame = other === undefined || (existsSync(other) ? realpathSync(other) === realpathSync(file) : other === file); // by a link, perhaps
  return isSame ? "" : `, which is of ${other}: that station ends here`;
}

/** The buffer of the service that has these settings, where this machine has such a service and it ever ran, and no other buffer is named in the environment. */
export function bufferOfService(file = DEFAULT_FILE): string | undefined {
  const unit = `/etc/systemd/system/${SERVICE}`;
  if (variablesSet().includes("IMPRIMATUR_AGENT_DATA_DIR")) return undefined;
  return existsSync(unit) && settingsIn(unit) === resolve(file) && existsSync(STATE_DIR) ? STATE_DIR : undefined;
}

/** The file alone: a service has nothing of the environment that it is installed from. */
function settingsOfService(file: string): AgentConfig {
  try {
    if (!existsSync(file))
      throw new ConfigError(`there is no ${file}: make one with imprimatur agent enroll, or name it with --config FILE`);
    return loadAgentConfig(file, {});
  } catch (error) {
    if (error instanceof ConfigError && variablesSet().length > 0) throw new ConfigError(`${error.message}; ${notForIt()}`);
    throw error;
  }
}
const notForIt = () => `the service doesn't see what is set here (${variablesSet().join(", ")}): it has to stand in the file`;

/** 0 where there is none. */
function systemdVersion(): number {
  try {
    return Number(
      /^systemd (\d+)/.exec(execFileSync("systemctl", ["--version"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }))?.[1] ?? 0,
    );
  } catch {
    return 0;
  }
}

function removal(at: string, root: string): Step[] {
  if (!existsSync(at)) throw new ConfigError(`there is no ${at}: nothing is installed`);
  return [
    ...(isLive(root) ? [systemctl("disable", "--now", SERVICE)] : [systemctl(`--root=${root}`, "disable", SERVICE)]),
    { says: `remove ${at}; ${STATE_DIR} and the settings stay`, act: () => rmSync(at) },
    ...(isLive(root) ? [systemctl("daemon-reload")] : []),
  ];
}

/** `beware`: what may be why a step fails. */
async function carryOut(steps: Step[], yes = false, note?: string, beware = ""): Promise<number> {
  if (!yes) {
    const list = steps.map(({ says }) => `would ${says}`);
    return said(
      [...list, ...(note === undefined ? [] : [note]), "nothing is done yet: say --yes to do it, --print to see the unit", ""].join("\n"),
    );
  }
  for (const { says, act } of steps) {
    try {
      act();
    } catch (error) {
      throw new ConfigError(`can't ${says}: ${reason(error as Error & { code?: string; stderr?: Buffer })}${beware}`);
    }
    await said(`${says}\n`);
  }
  return note === undefined ? 0 : said(`${note}\n`);
}
function reason({ code, message, stderr }: Error & { code?: string; stderr?: Buffer }): string {
  if (code === "EACCES" || code === "EPERM") return "this user may not; run it as root";
  if (code === "ENOENT") return "this machine has no systemd; take the unit from --print, or run imprimatur agent under what it has";
  return (String(stderr ?? "").trim() || message).replaceAll(/\s+/g, " ");
}
const said = (text: string): Promise<number> => new Promise((done) => process.stdout.write(text, () => done(0)));
const systemctl = (...args: string[]): Step => ({
  says: `run systemctl ${args.join(" ")}`,
  act: () => void execFileSync("systemctl", args, { stdio: ["ignore", "ignore", "pipe"] }),
});

function write(at: string, unit: string): void {
  process.umask(0o022); // whoever uses the machine may read its units, and what lies beside them
  const folder = dirname(at);
  makeFolder(folder, 0o755);
  writeFileSync(at, unit, { mode: 0o644 });
}
