// Beside the buffer, a line for each label that was begun: what a buffer that was put back to how it was, or lost, doesn't know any more stands here.
import { Buffer } from "node:buffer";
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { syncFolder } from "./folder.ts";

/** An act as the buffer has it, and whose label it is. */
export type Begun = {
  n: number;
  attempt_id: string;
  job_ref: string;
  serial: string;
  printer: string;
  token: string;
  sha256: string;
  bytes: number;
  at: number;
};
const LINES_MAX = 10_000;

export function begunBeside(buffer: string) {
  const file = `${buffer}.begun`;
  const flag = "r+"; // as it will be written: for reading alone a folder opens as well, and what then fails doesn't name it
  const lines = existsSync(file) ? wholeIn(readFileSync(file, { encoding: "utf8", flag })) : [];
  const open = new Map<string, Begun>();
  let last = 0;
  let written = 0;
  for (const line of lines) take(line);
  if (!existsSync(file)) shorten();
  let handle = openSync(file, "a");

  function take(line: Line): void {
    written += 1;
    if ("over" in line) return void open.delete(line.over);
    open.set(line.attempt_id, line);
    last = Math.max(last, line.n);
  }
  function write(line: Line): void {
    const bytes = Buffer.from(textOf(line));
    if (writeSync(handle, bytes) < bytes.length) throw new Error("the disk took only a part of it"); // it was full within the line
    take(line);
  }
  /** What is over isn't needed any more. */
  function shorten(): void {
    const draft = `${file}.draft`;
    writeFileSync(draft, [...open.values()].map(textOf).join(""), { mode: 0o600, flush: true });
    renameSync(draft, file);
    syncFolder(dirname(file));
    written = open.size;
  }

  return {
    /** The number of the latest one. */
    last: () => last,
    after: (n: number): Begun[] => [...open.values()].filter((one) => one.n > n),
    /** Durable before the first byte leaves. */
    note: (begun: Begun): void => {
      write(begun);
      fsyncSync(handle);
      if (written < LINES_MAX + open.size) return;
      shorten();
      closeSync(handle);
      handle = openSync(file, "a");
    },
    /** Nothing is to be found out about it any more. */
    over: (attemptId: string): void => {
      if (!open.has(attemptId)) return;
      try {
        write({ over: attemptId });
      } catch {
        open.delete(attemptId); // a full disk costs no more than that the cloud is asked once again
      }
    },
    close: () => closeSync(handle),
  };
}

type Line = Begun | { over: string };
/** A line begins anew, whatever became of the one before it. */
const textOf = (line: Line): string => `\n${JSON.stringify(line)}`;
const isLine = (said: Partial<Begun & { over: string }> | null): boolean =>
  typeof said?.over === "string" || (Number.isInteger(said?.n) && typeof said?.attempt_id === "string");
const wholeIn = (text: string): Line[] =>
  text.split("\n").flatMap((line) => {
    try {
      const said = JSON.parse(line) as Line;
      return isLine(said) ? [said] : [];
    } catch {
      return []; // torn by a power failure or a full disk
    }
  });
