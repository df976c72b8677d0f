// Whether a PostgreSQL database is another program's, seen before anything is made in it: half of our tables among somebody else's help nobody.
import { sql } from "./drizzle.ts";
import type { Migration } from "./migrate.ts";
import type { Store } from "./store.ts";

const TOLD_TABLES = 3;
const COLUMNS = ["version", "name", "digest"];
const tablesIn = ({ text }: Migration): string[] => [...text.matchAll(/CREATE TABLE (\w+)/g)].map(([, name = ""]) => name);

/** Tables that our names meet are ours if our own list of migrations is beside them. What has other names, such as an extension's, is nobody's business. */
export async function refuseForeignTables(store: Store, known: Migration[]): Promise<void> {
  const names = new Set(["migrations", ...known.flatMap(tablesIn)]);
  const rows = await store.read("tables", ({ db }) =>
    db.values<[string, string]>(
      sql`SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY table_name`,
    ),
  );
  const met = [...new Set(rows.map(([table]) => table))].filter((table) => names.has(table));
  const columns = new Set(rows.filter(([table]) => table === "migrations").map(([, column]) => column));
  const isOurs = COLUMNS.every((column) => columns.has(column)) && (met.length === 1 || (await hasBegun(store)));
  if (met.length === 0 || isOurs) return;
  const more = met.length > TOLD_TABLES ? ", …" : "";
  throw new Error(
    `the database is another program's, with the tables ${met.slice(0, TOLD_TABLES).join(", ")}${more}: name one of our own with IMPRIMATUR_DATABASE_URL`,
  );
}

const hasBegun = (store: Store): Promise<boolean> =>
  store.read("migrations", async ({ db }) => (await db.values(sql`SELECT 1 FROM migrations LIMIT 1`)).length > 0);
