// The functions of shared/folder.ts, bound to this machine's disk.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { folderMaker, folderSyncer, inodeFinder } from "#shared/folder.ts";

export const makeFolder = folderMaker({ existsSync, mkdirSync, statSync }, dirname);
export const syncFolder = folderSyncer({ closeSync, fsyncSync, openSync }, process.platform);
export const inodeOf = inodeFinder({ statSync });
