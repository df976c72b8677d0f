// The private halves of signing keys: files of the data folder, each sealed. What an earlier version left in clear is read, and then sealed too.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { keptText, writeDurably } from "./files.ts";
import { keyIdOf, type Opener, type Seal } from "./seal.ts";

export const keyFolder = (dataDir: string): string => join(dataDir, "keys");

/** Their names begin with the instant they were made; oldest first. */
export const keyFilesIn = (folder: string): string[] =>
  (statSync(folder, { throwIfNoEntry: false }) ? readdirSync(folder) : [])
    .filter((name) => /^\d+\.pem$/.test(name))
    .toSorted((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10));

const isClear = (text: string): boolean => text.startsWith("-----BEGIN ");

/** Undefined where it was sealed with a key that isn't here, or changed since. */
export function pemIn(file: string, { open }: Opener): string | undefined {
  const text = keptText(file).trim();
  return isClear(text) ? text : open(text);
}

export const keepPem = (file: string, pem: string, { close }: Seal): void => writeDurably(file, `${close(pem)}\n`);

/** The name of the key that it was sealed with; null: it lies in clear. */
export function sealedWith(file: string): string | null {
  const text = keptText(file);
  return isClear(text) ? null : keyIdOf(text);
}

/** Closes with the newest key what it didn't close; how many files. What can't be opened stays as it is. */
export function sealKeyFiles(folder: string, seal: Seal): number {
  let closed = 0;
  for (const name of keyFilesIn(folder)) {
    const file = join(folder, name);
    const pem = sealedWith(file) === seal.id ? undefined : pemIn(file, seal);
    if (pem === undefined) continue;
    keepPem(file, pem, seal);
    closed += 1;
  }
  return closed;
}

/** The file of the newest key, where it can't be opened here. */
export function unopenableKey(folder: string, opener: Opener): string | undefined {
  const newest = keyFilesIn(folder).at(-1);
  const file = newest && join(folder, newest);
  return file && pemIn(file, opener) === undefined ? file : undefined;
}
