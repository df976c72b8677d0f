// What the two commands about backups have in common: settings, a line for every outcome, an exit code, and the words about a backup.
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import type { Config } from "../config.ts";
import { loadConfig } from "../config.ts";
import { createLog, type Log } from "../log.ts";
import type { Manifest } from "./archive.ts";

export type Values = Record<string, string | boolean | undefined>;
type Command = {
  usage: string;
  options: ParseArgsOptionsConfig;
  /** Undefined where the command line isn't one. */
  run(values: Values, means: { config(): Config; log: Log; now: number }): Promise<string> | undefined;
};

export async function runCommand({ usage, options, run }: Command, argv: string[] = process.argv.slice(2)): Promise<void> {
  process.umask(0o077);
  const log = createLog("warn");
  try {
    const values = valuesOf(argv, options);
    const config = () => loadConfig(typeof values?.["config"] === "string" ? ["--config", values["config"]] : []);
    const said = values && (await run(values, { config, log, now: Date.now() }));
    process[said ? "stdout" : "stderr"].write(`${said ?? usage}\n`);
    process.exitCode = said ? 0 : 2;
  } catch (error) {
    process.stderr.write(`imprimatur: ${(error as Error).message}\n`);
    process.exitCode = 1;
  }
}

function valuesOf(argv: string[], options: ParseArgsOptionsConfig): Values | undefined {
  try {
    return parseArgs({ args: argv, options }).values as Values;
  } catch {
    return undefined; // the usage says what there is
  }
}

export function wordsOf({ takenAt, log, audit, needs, files }: Manifest): string {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const secrets = needs.length > 0 ? `; it needs ${needs.join(", ")} as set when it was taken` : "";
  return (
    `it goes to ${takenAt}: a log of ${log.size} leaves with the root ${log.root.slice(0, 16)}…, ` +
    `${audit.rows} audit rows of ${audit.tenants} tenants, ${files.length} files, ${bytes} bytes${secrets}`
  );
}
