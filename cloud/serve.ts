// The cloud as a program: settings, start, one line when ready, a clean end.
import { flushCompileCache } from "node:module";
import { resolve } from "node:path";
import { argumentsOf, ConfigError, type Given, type Options } from "#shared/arguments.ts";
import { reasonOf, wordsOf } from "#shared/fault.ts";
import { limits } from "#shared/limits.ts";
import { type Config, loadConfig } from "./config.ts";
import { createLog, type Log } from "./log.ts";
import { type Cloud, closeOnSignal, startCloud } from "./start.ts";
import { remedyOf } from "./store/remedies.ts";

/** Who types --port is to find where the port is set. */
const WHERE_SET = " [--config FILE]; settings such as IMPRIMATUR_PORT come from the environment or from FILE";

type Served<O extends Options> = { cloud: Cloud; config: Config; given: Given<O> };
/** Ends the process with one line where it can't serve. The command's own options are those beside `--config`. */
export async function serve<O extends Options>(command: string, options: O, defaults?: Record<string, string>): Promise<Served<O>> {
  try {
    process.umask(0o077); // what we write is ours alone
    const given = argumentsOf(command + WHERE_SET, { ...options, config: { type: "string" } as const }, process.argv.slice(2));
    const config = loadConfig(given.config as string | undefined, defaults);
    const log = createLog(config.LOG_LEVEL);
    const cloud = await startCloud(config, log, { onNewKey: show });
    closeOnSignal(cloud, log, limits.DRAIN_MAX_MS + config.DRAIN_NOTICE_S * 1000);
    flushCompileCache();
    globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" }); // a start leaves 30 MB that nobody needs again
    sayReady(log, cloud, config.DATA_DIR);
    return { cloud, config, given };
  } catch (error) {
    process.stderr.write(`imprimatur: ${error instanceof ConfigError ? error.message : whyNot(error as Error)}\n`);
    process.exit(error instanceof ConfigError ? error.exitCode : 1);
  }
}

const show = (secret: string, file: string) =>
  process.stderr.write(`imprimatur: the first admin key, shown this once and kept in ${file}: ${secret}\n`);

/** Said at any log level: who asked for a free port has to learn which, and who began in another folder, or without a database's URL, that all is new and empty here. */
function sayReady(log: Log, { url, store: { engine: store } }: Cloud, folder: string): void {
  const dataDir = resolve(folder);
  const line = { event: "ready", url, pid: process.pid, store, dataDir };
  if (log.isLevelEnabled("info")) log.info(line, `ready at ${url}, on ${store} and the folder ${dataDir}`);
  else process.stdout.write(`${JSON.stringify({ level: "info", time: new Date().toISOString(), ...line })}\n`);
  log.flush();
}

function whyNot(error: Error & { code?: string; syscall?: string }): string {
  const { code = "", message, syscall } = error;
  if (code === "EADDRINUSE") return `${message}: stop what listens there, or set IMPRIMATUR_PORT`;
  if (code === "EACCES" && syscall === "listen") return `${message}: see IMPRIMATUR_HOST and IMPRIMATUR_PORT`;
  if (code === "ENOTFOUND" || code === "EADDRNOTAVAIL") return `${message}: see IMPRIMATUR_HOST and IMPRIMATUR_DATABASE_URL`;
  if (code === "STORE_UNAVAILABLE") return `${reasonOf(error)}: ${remedyOf(error)}`;
  if (/^(EACCES|ENOENT|EROFS|ENOTDIR|EEXIST|ENOSPC|ELOOP|ENAMETOOLONG|SQLITE_(CANTOPEN|READONLY).*)$/.test(code))
    return `${message}: see IMPRIMATUR_DATA_DIR`;
  const cause = error.cause instanceof Error ? wordsOf(error.cause) : "";
  const remedy = remedyOf(error);
  return `can't start: ${message || code || "unknown fault"}${message.includes(cause) ? "" : `: ${cause}`}${remedy ? `: ${remedy}` : ""}`;
}
