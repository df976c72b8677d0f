// Folders that are needed and may not be there yet.
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/** With all above it; says whether it is new. Node's own way up never ends where a folder takes none, as /proc does (Node 24.21). */
export function makeFolder(folder: string, mode = 0o777): boolean {
  if (existsSync(folder)) {
    if (statSync(folder).isDirectory()) return false;
    throw Object.assign(new Error(`${folder} is a file where a folder has to be`), { code: "ENOTDIR" });
  }
  if (dirname(folder) !== folder) makeFolder(dirname(folder), mode);
  try {
    mkdirSync(folder, { mode });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false; // somebody else was faster
    throw error;
  }
}
