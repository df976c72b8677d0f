// imprimatur restore --from FILE --data DIR: a backup becomes the data folder of a node, if nothing about it is wrong.
import { argumentsOf, ConfigError } from "#shared/arguments.ts";
import { runCommand, wordsOf } from "./backup/command.ts";
import { restoreBackup } from "./backup/restore.ts";

const USAGE = "imprimatur restore --from FILE --data DIR [--force]";
const OPTIONS = { from: { type: "string" }, data: { type: "string" }, force: { type: "boolean" } } as const;

await runCommand(async (argv, { log, now }) => {
  const { from, data: dataDir, force = false } = argumentsOf(USAGE, OPTIONS, argv);
  if (from === undefined || dataDir === undefined)
    throw new ConfigError(`--${from === undefined ? "from" : "data"} is missing (usage: ${USAGE})`, 2);
  const { manifest, before } = await restoreBackup({ from, dataDir, force, log, now }).catch((cause: Error) => {
    throw new Error(`${from} wasn't restored into ${dataDir}: ${cause.message}`, { cause });
  });
  const aside = before ? `; what was there lies in ${before}` : "";
  return `${dataDir} is restored from ${from}; ${wordsOf(manifest)}${aside}\nWhat was answered after that isn't in it. Labels of jobs that were open then are looked for before they are printed.`;
});
