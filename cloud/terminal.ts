// What the cloud shares with the other program about command lines and folders, made of what this one has.
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { parseArgs } from "node:util";
import { argumentsWith } from "#shared/arguments.ts";
import { folderMaker } from "#shared/folder.ts";

export const makeFolder = folderMaker({ existsSync, mkdirSync, statSync }, dirname);
export const argumentsOf = argumentsWith(parseArgs, (usage) => {
  process.stdout.write(`usage: ${usage}\n`);
  process.exit(0);
});
