// imprimatur backup --to FILE, of a node that goes on working; --verify FILE says whether a backup could be restored.
import { tmpdir } from "node:os";
import { argumentsOf, ConfigError } from "#shared/arguments.ts";
import { faultOf, runCommand, wordsOf } from "./backup/command.ts";
import { verifyBackup } from "./backup/restore.ts";
import { takeBackup } from "./backup/take.ts";
import { loadConfig } from "./config.ts";

const USAGE = "imprimatur backup --to FILE [--config FILE] | imprimatur backup --verify FILE";
const OPTIONS = { to: { type: "string" }, verify: { type: "string" }, config: { type: "string" } } as const;

await runCommand(async (argv, { log, now }) => {
  const { to, verify, config: file } = argumentsOf(USAGE, OPTIONS, argv);
  if (to === "-") throw new ConfigError("--to names a file: it is checked before it is called a backup, and stdout can't be", 2);
  if (to !== undefined && verify === undefined)
    return `${to}: taken and checked; ${wordsOf(await takeBackup(loadConfig(file), to, log, now))}`;
  if (verify === undefined || to !== undefined) throw new ConfigError(`one of --to and --verify is needed (usage: ${USAGE})`, 2);
  const manifest = await verifyBackup(verify, log).catch((cause: Error & { code?: string; path?: string }) => {
    const room = cause.path === verify ? "" : `; all of it is unpacked in ${tmpdir()} for the while, and TMPDIR names another place`;
    if (cause.code !== undefined) throw new Error(`${verify} couldn't be looked at: ${faultOf(cause)}${room}`, { cause }); // says nothing about the backup
    throw new Error(`${verify} can't be restored: ${cause.message}`, { cause });
  });
  return `${verify}: all of it holds; ${wordsOf(manifest)}`;
});
