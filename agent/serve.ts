// The station as a program: settings, start, one line when ready, and an end that leaves nothing unwritten.
import { existsSync } from "node:fs";
import { ConfigError } from "#shared/arguments.ts";
import { type AgentConfig, loadAgentConfig } from "./config.ts";
import { addFace } from "./font.ts";
import { type AgentLog, createAgentLog } from "./log.ts";
import { startStation } from "./station.ts";
import { loadTemplates, templateFor } from "./template.ts";

export async function serve(file: string | undefined): Promise<void> {
  const config = loadAgentConfig(file);
  for (const font of config.fonts) addFace(font);
  checkLabels(config);
  const log = createAgentLog(config.logLevel);
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

/** Every job would be refused, and its attempts be spent. */
function checkLabels({ printers }: AgentConfig): void {
  const templates = loadTemplates();
  for (const [i, { label }] of printers.entries())
    try {
      templateFor(templates, label);
    } catch (error) {
      throw new ConfigError(`printers.${i}.label: ${(error as Error).message}`);
    }
}

const SAYS_READY = new Set(["trace", "debug", "info"]);
/** Said at any log level: who asked for a free port has to learn which. */
function sayReady({ logger }: AgentLog, { station, logLevel }: AgentConfig, url: string): void {
  const line = { event: "ready", url, pid: process.pid, ...(station === undefined ? {} : { station }) };
  logger.info(line, `the console is at ${url}`);
  if (!SAYS_READY.has(logLevel)) process.stdout.write(`${JSON.stringify({ level: "info", time: new Date().toISOString(), ...line })}\n`);
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
