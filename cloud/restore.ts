// imprimatur restore --from FILE --data DIR: a backup becomes the data folder of a node, if nothing about it is wrong.
import { runCommand, wordsOf } from "./backup/command.ts";
import { restoreBackup } from "./backup/restore.ts";

await runCommand({
  usage: "usage: imprimatur restore --from FILE --data DIR [--force]",
  options: { from: { type: "string" }, data: { type: "string" }, force: { type: "boolean" } },
  run: ({ from, data, force }, { log, now }) => {
    if (typeof from !== "string" || typeof data !== "string") return undefined;
    return restored(from, data);

    async function restored(file: string, dataDir: string): Promise<string> {
      const { manifest, before } = await restoreBackup({ from: file, dataDir, force: force === true, log, now }).catch((cause: Error) => {
        throw new Error(`${file} wasn't restored into ${dataDir}: ${cause.message}`, { cause });
      });
      const aside = before ? `; what was there lies in ${before}` : "";
      return `${dataDir} is restored from ${file}; ${wordsOf(manifest)}${aside}\nWhat was answered after that isn't in it. Labels of jobs that were open then are looked for before they are printed.`;
    }
  },
});
