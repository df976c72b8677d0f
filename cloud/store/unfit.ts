// Whether a PostgreSQL database is one to work in, seen before anything is made in it: set up as it has to be, and not another program's. Each refusal says what to set.
import { sql } from "./drizzle.ts";
import type { Store } from "./store.ts";

const OURS = ["version", "name", "digest"];
/** Our own list of migrations, which tells that the tables beside it are ours. */
export const isOurList = (columns: string[]): boolean => OURS.every((column) => columns.includes(column));
const TOLD_TABLES = 3;
export const withTables = (tables: string[]): string =>
  `with the tables ${tables.slice(0, TOLD_TABLES).join(", ")}${tables.length > TOLD_TABLES ? ", …" : ""}`;

/** Starts say it in one line, the doctor in two parts. */
const unfit = (says: string, todo: string): Error => Object.assign(new Error(`${says}: ${todo}`), { says, todo });

const LOOK = sql`SELECT current_setting('server_encoding'), current_setting('search_path'), current_schema(), current_user,
  has_schema_privilege(current_schema(), 'CREATE'), current_schemas(false)::text[]`;
type Found = [encoding: string, path: string, schema: string | null, user: string, mayMake: boolean | null, schemas: string[]];

type Script = { text: string };
/** `ours`: what makes our tables. */
export async function refuseUnfit(store: Store, ours: Script[]): Promise<void> {
  const [found] = await store.read("database", ({ db }) => db.values<Found>(LOOK));
  const [encoding, path, schema, user, mayMake, schemas] = found as Found;
  if (encoding !== "UTF8")
    throw unfit(`the database's encoding is ${encoding}, which not all texts have`, "make one with ENCODING 'UTF8' TEMPLATE template0");
  if (schema === null)
    throw unfit(`no schema of the search path (${path}) is there for ${user}`, `CREATE SCHEMA, or ALTER ROLE ${user} SET search_path`);
  if (!mayMake) throw unfit(`${user} may make no tables in the schema ${schema}`, `GRANT CREATE ON SCHEMA ${schema} TO ${user}`);
  const behind = await oursIn(store, schemas);
  if (behind !== undefined && behind !== schema)
    throw unfit(
      `our tables are in the schema ${behind}, and the search path (${path}) has ${schema} before it`,
      `ALTER ROLE ${user} SET search_path = the one that is meant`,
    );
  await refuseForeignTables(store, ours);
}

/** The first of these schemas that has our list of migrations. */
async function oursIn(store: Store, schemas: string[]): Promise<string | undefined> {
  const rows = await store.read("schemas", ({ db }) =>
    db.values<[string, string]>(sql`SELECT table_schema, column_name FROM information_schema.columns WHERE table_name = 'migrations'`),
  );
  return schemas.find((schema) => isOurList(rows.filter(([within]) => within === schema).map(([, column]) => column)));
}

const tablesIn = ({ text }: Script): string[] => [...text.matchAll(/CREATE TABLE (\w+)/g)].map(([, name = ""]) => name);

/** Half of our tables among somebody else's help nobody. Tables that our names meet are ours if our own list is beside them; what has other names, such as an extension's, is nobody's business. */
async function refuseForeignTables(store: Store, ours: Script[]): Promise<void> {
  const names = new Set(["migrations", ...ours.flatMap(tablesIn)]);
  const rows = await store.read("tables", ({ db }) =>
    db.values<[string, string]>(
      sql`SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY table_name`,
    ),
  );
  const met = [...new Set(rows.map(([table]) => table))].filter((table) => names.has(table));
  const columns = rows.filter(([table]) => table === "migrations").map(([, column]) => column);
  const isOurs = isOurList(columns) && (met.length === 1 || (await hasBegun(store)));
  if (met.length > 0 && !isOurs)
    throw unfit(`the database is another program's, ${withTables(met)}`, "name one of our own with IMPRIMATUR_DATABASE_URL");
}

const hasBegun = (store: Store): Promise<boolean> =>
  store.read("migrations", async ({ db }) => (await db.values(sql`SELECT 1 FROM migrations LIMIT 1`)).length > 0);

/** Said where a pooler keeps from the server what is asked for with each connection, and nobody has set it there. */
export async function settingsLost(store: Store): Promise<string | undefined> {
  const [[bySequence] = ["off"]] = await store.read("settings", ({ db }) =>
    db.values<[string]>(sql`SELECT current_setting('enable_seqscan')`),
  );
  return bySequence === "off"
    ? undefined
    : 'a pooler keeps our settings from the server: set them on the role, as "PostgreSQL of others" in the README says, or units may hang and plans be slow';
}
