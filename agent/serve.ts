// The station as a program: settings, start, one line when ready, and an end that leaves nothing unwritten.
import { type AgentConfig, loadAgentConfig } from "./config.ts";
import { addFace } from "./font.ts";
import { type AgentLog, createAgentLog } from "./log.ts";
import { type Station, startStation } from "./station.ts";

export async function serve(file: string | undefined): Promise<void> {
  const config = loadAgentConfig(file);
  for (const font of config.fonts) addFace(font);
  const log = createAgentLog(config.logLevel);
  const station = await startStation(config, { log });
  endOnSignal(station, log);
  sayReady(log, config, station.url);
}

const SAYS_READY = new Set(["trace", "debug", "info"]);
/** Said at any log level: who asked for a free port has to learn which. */
function sayReady({ logger }: AgentLog, { station, logLevel }: AgentConfig, url: string): void {
  const line = { event: "ready", url, pid: process.pid, ...(station === undefined ? {} : { station }) };
  logger.info(line, `the console is at ${url}`);
  if (!SAYS_READY.has(logLevel)) process.stdout.write(`${JSON.stringify({ level: "info", time: new Date().toISOString(), ...line })}\n`);
}

function endOnSignal(station: Station, log: AgentLog): void {
  let ending = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => {
      if (ending) return;
      ending = true;
      void station.end().then(() => log.exit(0));
    });
}
