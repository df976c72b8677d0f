// The station as a program: settings, start, one line when ready, and an end that leaves nothing unwritten.
import { type AgentConfig, ConfigError, loadAgentConfig } from "./config.ts";
import { addFace } from "./font.ts";
import { type AgentLog, createAgentLog } from "./log.ts";
import { type Station, startStation } from "./station.ts";
import { Refusal } from "#shared/errors.ts";

/** Ends the process with one line where it can't work. */
export async function serveAgent(argv?: string[]): Promise<Station> {
  try {
    process.umask(0o077);
    const config = loadAgentConfig(argv);
    for (const font of config.fonts) addFace(font);
    const log = createAgentLog(config.logLevel);
    const station = await startStation(config, { log });
    endOnSignal(station, log);
    sayReady(log, config, station.url);
    return station;
  } catch (error) {
    process.stderr.write(`imprimatur agent: ${whyNot(error as Error & { code?: string })}\n`);
    process.exit(1);
  }
}

function sayReady({ logger, flush }: AgentLog, { station }: AgentConfig, url: string): void {
  const line = { event: "ready", url, pid: process.pid, ...(station === undefined ? {} : { station }) };
  if (logger.isLevelEnabled("info")) logger.info(line, `the console is at ${url}`);
  flush();
}

function endOnSignal(station: Station, log: AgentLog): void {
  let ending = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => {
      if (ending) return;
      ending = true;
      void station.end().then(() => {
        log.flush();
        process.exit(0);
      });
    });
}

function whyNot(error: Error & { code?: string }): string {
  const { code = "", message } = error;
  if (error instanceof ConfigError || error instanceof Refusal) return message;
  if (code === "EADDRINUSE") return `${message}: another agent's console? set console.port`;
  if (["EACCES", "ENOENT", "EROFS", "ENOTDIR", "ENOSPC", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_FULL"].includes(code))
    return `${message}: see dataDir`;
  return `can't start: ${message}`;
}
