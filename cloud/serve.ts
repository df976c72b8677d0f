// The cloud as a program: settings, start, one line when ready, a clean end.
import { flushCompileCache } from "node:module";
import { type Config, ConfigError, loadConfig } from "./config.ts";
import { createLog } from "./log.ts";
import { type Cloud, closeOnSignal, startCloud } from "./start.ts";

/** Ends the process with one line where it can't serve. */
export async function serve(argv?: string[], defaults?: Record<string, string>): Promise<{ cloud: Cloud; config: Config }> {
  try {
    const config = loadConfig(argv, defaults);
    const log = createLog(config.LOG_LEVEL);
    const cloud = await startCloud(config, log);
    closeOnSignal(cloud, log);
    if (cloud.newBootstrapKey)
      process.stderr.write(
        `imprimatur: the first admin key, shown this once and kept in ${cloud.bootstrapFile}: ${cloud.newBootstrapKey}\n`,
      );
    log.info({ event: "ready", url: cloud.url, pid: process.pid }, `ready at ${cloud.url}`);
    log.flush();
    flushCompileCache();
    return { cloud, config };
  } catch (error) {
    process.stderr.write(`imprimatur: ${error instanceof ConfigError ? error.message : whyNot(error as Error & { code?: string })}\n`);
    process.exit(1);
  }
}

function whyNot(error: Error & { code?: string }): string {
  const { code = "", message } = error;
  if (code === "EADDRINUSE") return `${message}: stop what listens there, or set IMPRIMATUR_PORT`;
  if (code === "ENOTFOUND" || code === "EADDRNOTAVAIL") return `${message}: see IMPRIMATUR_HOST and IMPRIMATUR_DATABASE_URL`;
  if (["EACCES", "EROFS", "ENOTDIR", "EEXIST", "ENOSPC", "SQLITE_CANTOPEN", "SQLITE_READONLY"].includes(code))
    return `${message}: see IMPRIMATUR_DATA_DIR`;
  const cause = error.cause instanceof Error ? `: ${error.cause.message || (error.cause as { code?: string }).code}` : "";
  return `can't start: ${message || code || "unknown fault"}${cause}`;
}
