// Beside the buffer, a line for each label that was begun: what a buffer that was put back to how it was, or lost, doesn't know any more stands here.
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { dirname } from "node:path";

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
const KEPT = 2_000;

export function begunBeside(buffer: string) {
  const file = `${buffer}.begun`;
  let all = existsSync(file) ? wholeIn(readFileSync(file, "utf8")) : [];
  if (!existsSync(file)) shorten();
  let handle = openSync(file, "a");

  function shorten(): void {
    all = all.slice(-KEPT);
    const draft = `${file}.draft`;
    writeFileSync(draft, all.map(lineOf).join(""), { mode: 0o600, flush: true });
    renameSync(draft, file);
    const folder = openSync(dirname(file), "r");
    fsyncSync(folder);
    closeSync(folder);
  }

  return {
    after: (n: number): Begun[] => all.filter((one) => one.n > n),
    /** Durable before the first byte leaves. */
    note: (begun: Begun): void => {
      writeSync(handle, lineOf(begun));
      fsyncSync(handle);
      all.push(begun);
      if (all.length < 2 * KEPT) return;
      shorten();
      closeSync(handle);
      handle = openSync(file, "a");
    },
    close: () => closeSync(handle),
  };
}

/** A line begins anew, whatever became of the one before it. */
const lineOf = (begun: Begun): string => `\n${JSON.stringify(begun)}`;
const wholeIn = (text: string): Begun[] =>
  text.split("\n").flatMap((line) => {
    try {
      const begun = JSON.parse(line) as Begun;
      return Number.isInteger(begun.n) && typeof begun.attempt_id === "string" ? [begun] : [];
    } catch {
      return []; // torn by a power failure or a full disk
    }
  });
