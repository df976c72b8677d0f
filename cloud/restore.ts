// imprimatur restore --from FILE --data DIR: a backup that holds becomes the data folder of a node. --set-back: does for a PostgreSQL database, which its
// own tools set back to an earlier state, what a restored folder gets besides.
import { argumentsOf, ConfigError } from "#shared/arguments.ts";
import { faultOf, runCommand, wordsOf } from "./backup/command.ts";
import { restoreBackup, settleDatabase } from "./backup/restore.ts";
import { loadConfig } from "./config.ts";

const USAGE = "imprimatur restore --from FILE --data DIR [--force] | imprimatur restore --set-back [--config FILE], with all nodes ended";
const OPTIONS = {
  from: { type: "string" },
  data: { type: "string" },
  force: { type: "boolean" },
  "set-back": { type: "boolean" },
  config: { type: "string" },
} as const;
const NOT_IN_IT =
  "What was answered after that isn't in it. Before any serial is printed next, a label of it is looked for: it may have come out since. " +
  "What a station had sealed since is listed there by imprimatur agent missing --since that time, and brought back with --recover.";
/** Each node keeps in mind when the last restore was that it heard of, in a folder that only it has. */
const KNOWN_ELSEWHERE = "A node that doesn't start even so knows of a later one: say it there as well.";
const ELSEWHERE = "IMPRIMATUR_DATABASE_URL is set here: a cloud that is started with it works on that database, and not in this folder.";
/** A restore needs no settings, and what is wrong with one is said when a cloud is started with it. */
function isElsewhere(file: string | undefined): boolean {
  try {
    return loadConfig(file).DATABASE_URL !== undefined;
  } catch {
    return false;
  }
}

await runCommand(async (argv, { log, now }) => {
  const { from, data: dataDir, force = false, "set-back": isSetBack, config: file } = argumentsOf(USAGE, OPTIONS, argv);
  if (isSetBack && (from !== undefined || dataDir !== undefined || force))
    throw new ConfigError(
      `--set-back is for a database that was set back by its own means: it goes without the others (usage: ${USAGE})`,
      2,
    );
  if (isSetBack) {
    const { takenAt, logSize } = await settleDatabase(loadConfig(file), log);
    return `the database goes to ${takenAt}, with a log of ${logSize} leaves; every tenant is told. ${NOT_IN_IT} ${KNOWN_ELSEWHERE}`;
  }
  if (from === undefined || dataDir === undefined)
    throw new ConfigError(`--${from === undefined ? "from" : "data"} is missing (usage: ${USAGE})`, 2);
  const { manifest, before } = await restoreBackup({ from, dataDir, force, log, now }).catch((cause: Error) => {
    throw new Error(`${from} wasn't restored into ${dataDir}: ${faultOf(cause)}`, { cause });
  });
  const aside = before ? `; what was there lies in ${before}` : "";
  const elsewhere = isElsewhere(file) ? `\n${ELSEWHERE}` : "";
  return `${dataDir} is restored from ${from}; ${wordsOf(manifest)}${aside}\n${NOT_IN_IT}${elsewhere}`;
});
