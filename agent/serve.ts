// The station as a program: settings, start, one line when ready, and an end that leaves nothing unwritten.
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { ConfigError } from "#shared/arguments.ts";
import { type AgentConfig, loadAgentConfig } from "./config.ts";
import { addFace } from "./font.ts";
import { type AgentLog, createAgentLog } from "./log.ts";
import { startStation } from "./station.ts";
import { loadTemplates, templateFor } from "./template.ts";

export async function serve(file: string | undefined): Promise<void> {
  const config = loadAgentConfig(file);
  for (const font of config.fonts) addFace(font);
  const log = createAgentLog(config.logLevel);
  checkLabels(config, log);
  const station = await startStation(config, { log });
  let ending = false;
  const end = (code: number) => {
    if (ending) return;
    ending = true;
    void station.end().then(() => log.exit(code));
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => end(0)); // the last: its terminal is closed
  whenReplaced(() => {
    log.logger.error(
      { event: "replaced" },
      "this program's files are gone, as after an upgrade: it ends, so that its service starts what is there now",
    );
    end(1);
  });
  sayReady(log, config, station.url);
}

/** A job for a printer with such labels would be refused, and spend its attempts; where there is no other printer, each would. */
function checkLabels({ printers }: AgentConfig, { logger }: AgentLog): void {
  const templates = loadTemplates();
  const unfit = printers.flatMap(({ name, label }, i) => {
    try {
      templateFor(templates, label);
      return [];
    } catch (error) {
      return [{ name, words: `printers.${i}.label: ${(error as Error).message}` }];
    }
  });
  if (unfit.length === printers.length) throw new ConfigError(unfit[0]?.words ?? "");
  for (const { name, words } of unfit) logger.warn({ event: "label", printer: name }, words);
}

/** At these the log shows it. Its logger can't be asked: it takes every line, for the console. */
const SHOWS_INFO = new Set(["trace", "debug", "info"]);
/** Said at any log level: who asked for a free port has to learn which, and who began in another folder that its buffer is another one. */
function sayReady({ logger }: AgentLog, { station, logLevel, dataDir }: AgentConfig, url: string): void {
  const line = { event: "ready", url, pid: process.pid, dataDir: resolve(dataDir), ...(station === undefined ? {} : { station }) };
  logger.info(line, `the console is at ${url}`);
  if (!SHOWS_INFO.has(logLevel)) process.stdout.write(`${JSON.stringify({ level: "info", time: new Date().toISOString(), ...line })}\n`);
}

const LOOK_MS = 2_000;
/** What hasn't been needed yet isn't loaded, and couldn't be any more: it would claim jobs and print none. */
function whenReplaced(act: () => void): void {
  const timer = setInterval(() => {
    if (existsSync(import.meta.filename)) return;
    clearInterval(timer);
    act();
  }, LOOK_MS);
  timer.unref();
}
