// What the station shares with the other program about command lines and the disk, made of what this one has.
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { parseArgs } from "node:util";
import { argumentsWith } from "#shared/arguments.ts";
import { folderMaker, inodeFinder } from "#shared/folder.ts";

export const makeFolder = folderMaker({ existsSync, mkdirSync, statSync }, dirname);
export const inodeOf = inodeFinder({ statSync });
export const argumentsOf = argumentsWith(parseArgs, (usage) => {
  process.stdout.write(`usage: ${usage}\n`);
  process.exit(0);
});
