// Folders, and small private files that must outlive a power cut: written beside, synced, then moved into place.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { folderMaker } from "#shared/folder.ts";

export const makeFolder = folderMaker({ existsSync, mkdirSync, statSync }, dirname);

export function writeDurably(file: string, text: string): void {
  const folder = dirname(file);
  makeFolder(folder, 0o700);
  const beside = `${file}.${process.pid}.new`;
  rmSync(beside, { force: true }); // of a process that had our number and died
  const fd = openSync(beside, "wx", 0o600); // anew, so that no link leads root elsewhere
  try {
    writeSync(fd, text);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(beside, file);
  syncFolder(folder);
}

/** What was renamed into a folder, or out of it, is so after a power cut too. */
export function syncFolder(folder: string): void {
  if (process.platform === "win32") return; // Windows has no handle to a folder to sync
  const place = openSync(folder, "r");
  fsyncSync(place);
  closeSync(place);
}
