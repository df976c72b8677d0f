// What a file of tests has started, ended with it, last first: a hook that a running test asks for, or a module that an earlier file has loaded, is never called.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ends: (() => unknown)[] = [];

export const endsWithFile = (end: () => unknown): void => void ends.push(end);

export function freshFolder(what: string): string {
  const folder = mkdtempSync(join(tmpdir(), `imprimatur-${what}-`));
  endsWithFile(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export async function endAll(): Promise<void> {
  const told = [];
  for (const end of ends.splice(0).toReversed())
    try {
      await end();
    } catch (error) {
      told.push(error);
    }
  if (told.length > 0) throw new AggregateError(told, "what a test had started couldn't be ended");
}
