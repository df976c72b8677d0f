// One store and one data folder, under worlds that come one after another or side by side, and a look at what lies there while none runs.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { onServer } from "../fixtures/postgres.ts";
import type { World } from "../fixtures/world.ts";
import { freshFolder } from "./endings.ts";
import { engine, freshDatabase, world } from "./world.ts";

export type SameStore = Awaited<ReturnType<typeof sameStore>>;

export async function sameStore() {
  const dataDir = freshFolder("same-store");
  const databaseUrl = await freshDatabase();
  const start = (settings: Record<string, string> = {}, folder = dataDir): Promise<World> =>
    world({ dataDir: folder, databaseUrl, settings: { IMPRIMATUR_WEBHOOK_PRIVATE: "on", ...settings } });
  return {
    dataDir,
    databaseUrl,
    start,
    /** A node with a folder of its own. */
    another: (settings: Record<string, string> = {}) => start(settings, freshFolder("same-store")),
    /** By another hand than ours, which knows nothing of how we keep things; while no world runs. */
    script: async (text: string): Promise<void> => {
      if (databaseUrl !== undefined) return onServer(databaseUrl, text);
      const database = new DatabaseSync(join(dataDir, "imprimatur.db"));
      database.exec(text);
      database.close();
    },
  };
}

/** Every byte of a folder. */
export const bytesIn = (folder: string): Buffer =>
  Buffer.concat(
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .map((name) => join(folder, name))
      .filter((file) => statSync(file).isFile())
      .map((file) => readFileSync(file)),
  );

/** All that the tables hold, as text; bytes are in hex, as they are written there. */
export const dumpOf = ({ store }: World): Promise<string> =>
  store.read("dump", async ({ db }) => {
    if (engine === "sqlite") return ""; // its bytes are in the folder
    const tables = (await db.values("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")).flat() as string[];
    const rows = await Promise.all(tables.map((name) => db.values(`SELECT CAST(t AS text) FROM ${name} t`)));
    return rows.flat(2).join("\n");
  });
