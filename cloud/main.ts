// imprimatur cloud: settings, start, one line when ready, a clean end.
import "./fit.ts";
import { ConfigError, loadConfig } from "./config.ts";
import { createLog } from "./log.ts";
import { closeOnSignal, startCloud } from "./start.ts";

try {
  const config = loadConfig();
  const log = createLog(config.LOG_LEVEL);
  const cloud = await startCloud(config, log);
  closeOnSignal(cloud, log);
  if (cloud.newBootstrapKey) process.stderr.write(`imprimatur: the first admin key, shown this once and kept in ${cloud.bootstrapFile}: ${cloud.newBootstrapKey}\n`);
  log.info({ event: "ready", url: cloud.url }, `ready at ${cloud.url}`);
  log.flush();
} catch (error) {
  process.stderr.write(`imprimatur: ${error instanceof ConfigError ? error.message : whyNot(error as Error & { code?: string })}\n`);
  process.exit(1);
}

function whyNot(error: Error & { code?: string }): string {
  if (error.code === "EADDRINUSE") return `${error.message}: stop what listens there, or set IMPRIMATUR_PORT`;
  if (error.code === "EACCES" || error.code === "EROFS" || error.code === "ENOTDIR" || error.code === "EEXIST") return `${error.message}: see IMPRIMATUR_DATA_DIR`;
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return `can't start: ${error.message || error.code || "unknown fault"}${cause}`;
}
