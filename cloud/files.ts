// Folders, and small private files that must outlive a power cut: written beside, synced, then moved into place.
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { codeOf } from "#shared/fault.ts";
import { folderMaker, folderSyncer, inodeFinder } from "#shared/folder.ts";

export const makeFolder = folderMaker({ existsSync, mkdirSync, statSync }, dirname);
export const syncFolder = folderSyncer({ closeSync, fsyncSync, openSync }, process.platform);
export const inodeOf = inodeFinder({ statSync });

/** On the disk under it, for this user. */
export function freeBytesUnder(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

export function writeDurably(file: string, text: string): void {
  const folder = dirname(file);
  makeFolder(folder, 0o700);
  const beside = `${file}.${process.pid}.new`;
  rmSync(beside, { force: true }); // of a process that had our number and died
  const fd = openSync(beside, "wx", 0o600); // anew, so that no link leads root elsewhere
  try {
    try {
      writeFileSync(fd, text);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(beside, file);
  } catch (error) {
    rmSync(beside, { force: true }); // it may hold half a key
    throw error;
  }
  syncFolder(folder);
}

/** At most so much of it, be it a file or a pipe. */
export function bytesIn(file: string, mostBytes: number): Buffer {
  const [handle, bytes] = [openSync(file, "r"), Buffer.alloc(mostBytes + 1)];
  try {
    let size = 0;
    for (let read = -1; read !== 0 && size < bytes.length; size += read) read = readSync(handle, bytes, size, bytes.length - size, null);
    if (size > mostBytes) throw new Error(`${file} has more than ${mostBytes} bytes`);
    return bytes.subarray(0, size);
  } catch (error) {
    throw codeOf(error) === "EISDIR" ? new Error(`${file} is a folder, where a file has to be`, { cause: error }) : error;
  } finally {
    closeSync(handle);
  }
}
export const textIn = (file: string, mostBytes: number): string => bytesIn(file, mostBytes).toString("utf8");
const KEPT_MAX_BYTES = 65_536;
/** Of one of the small files in a data folder. */
export const keptText = (file: string): string => textIn(file, KEPT_MAX_BYTES);
