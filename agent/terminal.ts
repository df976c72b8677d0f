// What the station shares with the other program about command lines and the disk, made of what this one has.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { parseArgs } from "node:util";
import { argumentsWith } from "#shared/arguments.ts";
import { folderMaker, folderSyncer, inodeFinder } from "#shared/folder.ts";

export const makeFolder = folderMaker({ existsSync, mkdirSync, statSync }, dirname);
export const syncFolder = folderSyncer({ closeSync, fsyncSync, openSync }, process.platform);
export const inodeOf = inodeFinder({ statSync });
export const argumentsOf = argumentsWith(parseArgs, (usage) => {
  process.stdout.write(`usage: ${usage}\n`);
  process.exit(0);
});
