// What the two commands about backups have in common: settings, a line for every outcome, an exit code, and the words about a backup.
import { constants } from "node:os";
import { ConfigError } from "#shared/arguments.ts";
import { codeOf, reasonOf } from "#shared/fault.ts";
import { createLog, type Log } from "../log.ts";
import { remedyOf } from "../store/remedies.ts";
import type { Manifest } from "./archive.ts";

type Means = { log: Log; now: number };

/** To its end: what it says, or why it doesn't, is a line, and the exit code tells them apart. */
export async function runCommand(run: (argv: string[], means: Means) => Promise<string>): Promise<void> {
  process.umask(0o077);
  let isDone = false;
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
    process.once(signal, () => {
      if (isDone) return;
      process.stderr.write(`imprimatur: ended by ${signal} before it was done\n`);
      process.exit(128 + constants.signals[signal]); // what lies half-made goes with it
    });
  try {
    const said = await run(process.argv.slice(2), { log: createLog("warn"), now: Date.now() });
    isDone = true;
    process.stdout.write(`${said}\n`);
  } catch (error) {
    process.stderr.write(`imprimatur: ${whyNot(error as Error)}\n`);
    process.exitCode = error instanceof ConfigError ? error.exitCode : 1;
  }
}

const isRefusal = (error: Error): boolean => codeOf(error) === "STORE_UNAVAILABLE";
/** A store's refusal is worded for callers of the API: who runs a command needs the reason. */
export const faultOf = (error: Error): string => (isRefusal(error) ? reasonOf(error) : error.message);
const whyNot = (error: Error): string => (isRefusal(error) ? `${faultOf(error)}: ${remedyOf(error)}` : faultOf(error));

export function wordsOf({ takenAt, log, audit, needs, files }: Manifest): string {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const secrets = needs.length > 0 ? `; it needs ${needs.join(", ")} as set when it was taken` : "";
  return (
    `it goes to ${takenAt}: a log of ${log.size} leaves with the root ${log.root.slice(0, 16)}…, ` +
    `${audit.rows} audit rows of ${audit.tenants} tenants, ${files.length} files, ${bytes} bytes${secrets}`
  );
}
