// Whether a PostgreSQL database is one to work in as it is set up, seen before anything is made in it; each refusal says what to set.
import { sql } from "./drizzle.ts";
import type { Store } from "./store.ts";

const LOOK = sql`SELECT current_setting('server_encoding'), current_setting('search_path'), current_schema(), current_user,
  has_schema_privilege(current_schema(), 'CREATE'), current_schemas(false)::text[]`;
type Found = [encoding: string, path: string, schema: string | null, user: string, mayMake: boolean | null, schemas: string[]];

export async function refuseUnfit(store: Store): Promise<void> {
  const [found] = await store.read("database", ({ db }) => db.values<Found>(LOOK));
  const [encoding, path, schema, user, mayMake, schemas] = found as Found;
  if (encoding !== "UTF8")
    throw new Error(`the database's encoding is ${encoding}, which not all texts have: make one with ENCODING 'UTF8' TEMPLATE template0`);
  if (schema === null)
    throw new Error(`no schema of the search path (${path}) is there for ${user}: CREATE SCHEMA, or ALTER ROLE ${user} SET search_path`);
  if (!mayMake) throw new Error(`${user} may make no tables in the schema ${schema}: GRANT CREATE ON SCHEMA ${schema} TO ${user}`);
  const behind = await oursIn(store, schemas);
  if (behind !== undefined && behind !== schema)
    throw new Error(
      `our tables are in the schema ${behind}, and the search path (${path}) has ${schema} before it: ALTER ROLE ${user} SET search_path = the one that is meant`,
    );
}

/** The first of these schemas that has our list of migrations. */
async function oursIn(store: Store, schemas: string[]): Promise<string | undefined> {
  const rows = await store.read("schemas", ({ db }) =>
    db.values<[string]>(
      sql`SELECT table_schema FROM information_schema.columns WHERE table_name = 'migrations' AND column_name IN ('version', 'name', 'digest')
        GROUP BY table_schema HAVING count(*) = 3`,
    ),
  );
  return schemas.find((schema) => rows.some(([ours]) => ours === schema));
}

/** Said where a pooler keeps from the server what is asked for with each connection, and nobody has set it there. */
export async function settingsLost(store: Store): Promise<string | undefined> {
  const [[bySequence] = ["off"]] = await store.read("settings", ({ db }) =>
    db.values<[string]>(sql`SELECT current_setting('enable_seqscan')`),
  );
  return bySequence === "off"
    ? undefined
    : 'a pooler keeps our settings from the server: set them on the role, as "PostgreSQL of others" in the README says, or units may hang and plans be slow';
}
