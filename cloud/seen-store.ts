// How far the store had gone when this node last looked, in a file beside its keys: one that was set back since would give out again what is on labels.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Seen, seenNow, wasSetBack } from "./domain/set-back.ts";
import { keptText, writeDurably } from "./files.ts";
import type { Store } from "./store/store.ts";

export const SEEN = "seen.json";
const fileIn = (dataDir: string): string => join(dataDir, SEEN);
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const isSeen = (said: Partial<Seen> | null): said is Seen =>
  isCount(said?.size) && said?.size !== 0 && isCount(said?.serials) && isCount(said?.restoredAt);
/** What is in the file, if anything. One that isn't what was written there says as little as none. */
export function lastSeen(dataDir: string): Seen | undefined {
  const file = fileIn(dataDir);
  if (!existsSync(file)) return undefined;
  try {
    const said = JSON.parse(keptText(file)) as Seen;
    return isSeen(said) ? said : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
/** That it was set back, and what to do; undefined where it goes on from what was seen. */
export async function setBackOf(store: Store, dataDir: string): Promise<{ says: string; todo: string } | undefined> {
  const file = fileIn(dataDir);
  const seen = lastSeen(dataDir);
  if (!seen || !(await store.read("what was seen", (tx) => wasSetBack(tx, seen)))) return undefined;
  const settle =
    store.engine === "postgres"
      ? "imprimatur restore --set-back"
      : "imprimatur backup --to FILE, then imprimatur restore --from FILE --data DIR --force";
  return {
    says: `the store was set back: it doesn't go on from the log of ${seen.size} leaves and the ${seen.serials} serials that this node has seen (${file}), and would give out again what is on labels`,
    todo: `end every node on it, then ${settle}`,
  };
}

export async function refuseSetBack(store: Store, dataDir: string): Promise<void> {
  const fault = await setBackOf(store, dataDir);
  if (fault) throw new Error(`${fault.says}: ${fault.todo}`);
}

/** Nothing of a store that was set back meanwhile: the next start has to find that out. */
export async function keepSeen(store: Store, dataDir: string): Promise<void> {
  const file = fileIn(dataDir);
  const known = lastSeen(dataDir);
  const seen = await store.read("what is seen", async (tx) => (known && (await wasSetBack(tx, known)) ? undefined : seenNow(tx)));
  const text = `${JSON.stringify(seen)}\n`;
  if (seen && !(existsSync(file) && keptText(file) === text)) writeDurably(file, text);
}
