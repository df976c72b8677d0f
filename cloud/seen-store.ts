// How far the store had gone when this node last looked, in a file beside its keys: one that was set back since would give out again what is on labels.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Seen, seenNow, wasSetBack } from "./domain/set-back.ts";
import { writeDurably } from "./files.ts";
import type { Store } from "./store/store.ts";

export const SEEN = "seen.json";
const fileIn = (dataDir: string): string => join(dataDir, SEEN);
/** One that isn't what was written there says as little as none. */
function seenIn(file: string): Seen | undefined {
  if (!existsSync(file)) return undefined;
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Seen;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
/** That it was set back, and what to do; undefined where it goes on from what was seen. */
export async function setBackOf(store: Store, dataDir: string): Promise<{ says: string; todo: string } | undefined> {
  const file = fileIn(dataDir);
  const seen = seenIn(file);
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
  const known = seenIn(file);
  const seen = await store.read("what is seen", async (tx) => (known && (await wasSetBack(tx, known)) ? undefined : seenNow(tx)));
  const text = `${JSON.stringify(seen)}\n`;
  if (seen && !(existsSync(file) && readFileSync(file, "utf8") === text)) writeDurably(file, text);
}
