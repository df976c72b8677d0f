// The settings' file as enrolment writes it: for this user alone, whole or not at all, and never over another without being told.
import { closeSync, existsSync, fsyncSync, linkSync, openSync, renameSync, rmdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { ConfigError } from "#shared/arguments.ts";
import { codeOf } from "#shared/fault.ts";
import { makeFolder, syncFolder } from "./folder.ts";

export type Reserved = ReturnType<typeof reserve>;

const INTERRUPTIONS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const isThere = (file: string) => new ConfigError(`${file} is there already: name another with --config FILE, or replace it with --force`);

/** Those that aren't there, the innermost first. */
const missing = (folder: string): string[] => (existsSync(folder) ? [] : [folder, ...missing(dirname(folder))]);
function removeEmpty(folders: string[]): void {
  for (const folder of folders)
    try {
      rmdirSync(folder);
    } catch {
      // it was never made; or something is in it, the settings in the end, and with it in those above
    }
}

/** That it can be written is known before anything is asked of the cloud, whose key is shown once. */
export function reserve(file: string, force: boolean) {
  if (existsSync(file) && statSync(file).isDirectory()) throw new ConfigError(`${file} is a folder: name the file in it`);
  if (!force && existsSync(file)) throw isThere(file);
  const draft = `${file}.${process.pid}.draft`;
  const made = missing(dirname(file));
  let at: number;
  try {
    makeFolder(dirname(file), 0o700);
    at = openSync(draft, "wx", 0o600);
  } catch (error) {
    removeEmpty(made);
    throw new ConfigError(`the settings can't be written: ${(error as Error).message}`);
  }
  let isOpen = true;
  let isHeld = false;
  let waiting: NodeJS.Signals | undefined;
  const giveUp = () => {
    if (!isOpen) return;
    isOpen = false;
    for (const signal of INTERRUPTIONS) process.off(signal, leave);
    closeSync(at);
    rmSync(draft, { force: true });
    removeEmpty(made);
    if (waiting) process.kill(process.pid, waiting); // what it does where nobody listens
  };
  const leave = (signal: NodeJS.Signals) => {
    const isFirst = waiting === undefined;
    waiting = signal;
    if (isHeld && isFirst) process.stderr.write("waiting for the cloud, so that no device is left there; once more to end at once\n");
    else giveUp();
  };
  for (const signal of INTERRUPTIONS) process.on(signal, leave);
  return {
    giveUp,
    /** From here on the first interruption waits: what was begun at the cloud is undone before it has its way. */
    hold: () => void (isHeld = true),
    isInterrupted: () => waiting !== undefined,
    write: (settings: object): void => {
      writeFileSync(at, `${JSON.stringify(settings, null, 2)}\n`);
      fsyncSync(at);
      try {
        if (force) renameSync(draft, file);
        else linkSync(draft, file); // who was faster keeps his
      } catch (error) {
        throw codeOf(error) === "EEXIST" ? isThere(file) : error;
      }
      giveUp();
      syncFolder(dirname(file));
    },
  };
}
