// What the station shares with the other program about folders, made of the disk that this one has.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { folderMaker, folderSyncer, inodeFinder } from "#shared/folder.ts";

export const makeFolder = folderMaker({ existsSync, mkdirSync, statSync }, dirname);
export const syncFolder = folderSyncer({ closeSync, fsyncSync, openSync }, process.platform);
export const inodeOf = inodeFinder({ statSync });
