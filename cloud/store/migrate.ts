// Forward migrations: each file runs once, in order, whole or not at all (on SQLite all of them); a file that changed after it ran stops the start.
import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { sql } from "./drizzle.ts";
import type { Engine, Store } from "./store.ts";
import { refuseUnfit } from "./unfit.ts";

type Migration = {
  version: number;
  name: string;
  text: string;
  digest: string;
  /** It changes only how SQLite lays rows down: a server notes it, and does nothing. */
  isLayout: boolean;
};

const folder = new URL("./migrations/", import.meta.url);

export function migrationsIn(from: URL = folder): Migration[] {
  return readdirSync(from)
    .filter((name) => /^\d{4}-.*\.sql$/.test(name))
    .toSorted()
    .map((name) => {
      const text = readFileSync(new URL(name, from), "utf8");
      return {
        version: Number(name.slice(0, 4)),
        name,
        text,
        digest: hash("sha256", text, "hex"),
        isLayout: name.endsWith(".sqlite.sql"),
      };
    });
}

/** The portable text as PostgreSQL spells it. */
const forPostgres = (text: string) =>
  text
    .replaceAll(/\bINTEGER\b/g, "BIGINT")
    .replaceAll(/\bBLOB\b/g, "BYTEA")
    .replaceAll(/\bTEXT\b/g, 'TEXT COLLATE "C"') // bytes decide the order, as in SQLite, whatever the database's locale
    .replaceAll(/\)\s*(?:STRICT|WITHOUT ROWID)(?:,\s*(?:STRICT|WITHOUT ROWID))*/g, ")");

const spelled = (engine: Engine["name"], text: string) => (engine === "postgres" ? forPostgres(text) : text);
const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;

const TABLE = "CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL)";

type Applied = { version: number; name: string; digest: string };
const appliedTo = (store: Store): Promise<Applied[]> =>
  store.read("migrations", async ({ db }) => {
    const rows = await db.values<[number, string, string]>(sql`SELECT version, name, digest FROM migrations ORDER BY version`);
    return rows.map(([version, name, digest]) => ({ version, name, digest }));
  });

/** With which migration came what a look at an older store, or at a backup of one, has to do without. */
export const SINCE = { sealedSerials: 18, looks: 24, retiredKeys: 28, nodes: 29 } as const;

/** The latest that this Imprimatur knows. */
export const newestKnown = (): number => migrationsIn().at(-1)?.version ?? 0;

/** The latest that ran. */
export const versionOf = async (store: Store): Promise<number> => (await appliedTo(store)).at(-1)?.version ?? 0;

function refuseNewerOrChanged(applied: Applied[], known: Migration[]): void {
  for (const { version, name, digest } of applied) {
    const ours = known.find((migration) => migration.version === version);
    if (!ours)
      throw new Error(`the database was made by a newer Imprimatur (it knows migration ${name}): start that one, or restore a backup`);
    if (ours.digest !== digest) throw new Error(`migration ${name} was changed after it ran on this database: write a new one instead`);
  }
}

/** A file takes all that is missing as one, so that the version before still opens it where this fails. A server takes each by itself: old nodes wait for its locks. */
function scriptsOf(engine: Engine["name"], missing: Migration[]): string[] {
  const scripts = missing.map(
    ({ version, name, digest, text, isLayout }) =>
      `INSERT INTO migrations VALUES (${version}, ${quoted(name)}, ${quoted(digest)});\n${isLayout && engine === "postgres" ? "" : spelled(engine, text)}`,
  );
  return engine === "sqlite" && scripts.length > 0 ? [scripts.join("\n;\n")] : scripts;
}

/** Two nodes may start at once: the row of the version is inserted first, so the second one fails whole and looks again. */
export async function migrate(
  engine: Engine,
  store: Store,
  known: Migration[] = migrationsIn(),
  tell: (names: string[]) => Promise<void> | void = () => {},
): Promise<void> {
  if (engine.name === "postgres") await refuseUnfit(store, known);
  await twice(() => engine.script(spelled(engine.name, TABLE)));
  for (let tries = 1; ; tries += 1) {
    const applied = await appliedTo(store);
    refuseNewerOrChanged(applied, known);
    const missing = known.filter(({ version }) => !applied.some((row) => row.version === version));
    try {
      if (applied.length > 0 && missing.length > 0) await tell(missing.map(({ name }) => name));
      for (const script of scriptsOf(engine.name, missing)) await engine.script(script);
      return;
    } catch (error) {
      const faster = (await appliedTo(store)).length > applied.length;
      if (!faster || tries > known.length) throw error;
    }
  }
}

/** PostgreSQL's CREATE TABLE IF NOT EXISTS may fail when two begin it at the same moment. */
async function twice(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch {
    await work();
  }
}
