// A folder for as long as a command works. What lies in it is a copy of everything, keys included: it goes also where the command is told to end.
import { mkdtempSync, rmSync } from "node:fs";

export async function inScratch<T>(prefix: string, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(prefix);
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  try {
    return await work(folder);
  } finally {
    process.off("exit", remove);
    remove();
  }
}
