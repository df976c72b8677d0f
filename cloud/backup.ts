// imprimatur backup --to FILE, of a node that goes on working; --verify FILE says whether a backup could be restored.
import { runCommand, wordsOf } from "./backup/command.ts";
import { verifyBackup } from "./backup/restore.ts";
import { takeBackup } from "./backup/take.ts";

await runCommand({
  usage: "usage: imprimatur backup --to FILE [--config FILE] | imprimatur backup --verify FILE",
  options: { to: { type: "string" }, verify: { type: "string" }, config: { type: "string" } },
  run: ({ to, verify }, { config, log, now }) => {
    if ((to === undefined) === (verify === undefined)) return undefined;
    return to === undefined ? judged(String(verify)) : taken(String(to));

    async function taken(file: string): Promise<string> {
      return `${file}: taken and checked; ${wordsOf(await takeBackup(config(), file, log, now))}`;
    }
    async function judged(file: string): Promise<string> {
      const manifest = await verifyBackup(file, log).catch((cause: Error) => {
        throw new Error(`${file} can't be restored: ${cause.message}`, { cause });
      });
      return `${file}: all of it holds; ${wordsOf(manifest)}`;
    }
  },
});
