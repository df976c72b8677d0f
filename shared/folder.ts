// What both programs ask of a disk: what a folder may be called, folders that are needed and may not be there yet, that a power cut changes no name in them, and whether a name still leads to the file that was opened.
import type { closeSync, existsSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs";
import type { dirname } from "node:path";

/** better-sqlite3 leaves blanks out before a file's name: the database would lie elsewhere than what lies beside it. What ~ is only a shell knows. */
export const IS_FOLDER = /^(?![\s~])[^\0]+$/;
export const FOLDER = IS_FOLDER.source;
export const FOLDER_WORDS = "must be a folder's path, which doesn't begin with a blank or ~";

type Disk = { existsSync: typeof existsSync; mkdirSync: typeof mkdirSync; statSync: typeof statSync };
type Handles = { closeSync: typeof closeSync; fsyncSync: typeof fsyncSync; openSync: typeof openSync };

/** Makes a folder and those above it; answers whether it is new. Node's `recursive` never returns where no folder can be made, as in /proc (Node 24.21). */
export const folderMaker = (disk: Disk, above: typeof dirname) =>
  function makeFolder(folder: string, mode = 0o777): boolean {
    if (disk.existsSync(folder)) {
      if (disk.statSync(folder).isDirectory()) return false;
      throw Object.assign(new Error(`${folder} is a file where a folder has to be`), { code: "ENOTDIR" });
    }
    if (above(folder) !== folder) makeFolder(above(folder), mode);
    try {
      disk.mkdirSync(folder, { mode });
      return true;
    } catch (error) {
      if ((error as { code?: string }).code === "EEXIST") return false; // somebody else was faster
      throw error;
    }
  };

/** Syncs a folder, so that what was renamed in it stays so after a power cut. */
export const folderSyncer = (disk: Handles, platform: string) =>
  function syncFolder(folder: string): void {
    if (platform === "win32") return; // Windows has no handle to a folder to sync
    const place = disk.openSync(folder, "r");
    disk.fsyncSync(place);
    disk.closeSync(place);
  };

/** The inode that a name leads to; 0: no file, undefined: it can't be told. */
export const inodeFinder = ({ statSync }: Pick<Disk, "statSync">) =>
  function inodeOf(file: string): number | undefined {
    try {
      return statSync(file, { throwIfNoEntry: false })?.ino ?? 0;
    } catch {
      return undefined;
    }
  };
