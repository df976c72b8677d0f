// Migrations: once, whole, in order; a changed or foreign one stops the start; the tables are what schema.ts says.
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { getTableColumns, getTableName, is, sql } from "drizzle-orm";
import { SQLiteTable } from "drizzle-orm/sqlite-core";
import { expect, test } from "vitest";
import { migrate, migrationsIn } from "../../cloud/store/migrate.ts";
import { openPostgres } from "../../cloud/store/postgres.ts";
import * as schema from "../../cloud/store/schema.ts";
import { openSqlite } from "../../cloud/store/sqlite.ts";
import { storeOn } from "../../cloud/store/store.ts";
import { createLog } from "../../cloud/log.ts";
import { freshFolder } from "../endings.ts";
import { engine, freshDatabase, world } from "../world.ts";

const folder = freshFolder("migrate");
const log = createLog("silent");

async function open(name: string, url: string | undefined) {
  const made = url ? openPostgres({ url }) : openSqlite({ file: join(folder, `${name}.db`), onFatal: (line) => expect.fail(line) });
  return { made, store: storeOn(made, log) };
}

function given(files: Record<string, string>) {
  const at = mkdtempSync(join(folder, "set-"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(at, name), text);
  return migrationsIn(pathToFileURL(`${at}/`));
}

const before = (version: number) => migrationsIn().filter((one) => one.version < version);

test("a changed migration, a newer database and a broken migration stop the start with a sentence", async () => {
  const { made, store } = await open("one", await freshDatabase());
  const one = { "0001-a.sql": "CREATE TABLE a (x INTEGER NOT NULL) STRICT;" };
  await migrate(made, store, given(one));
  await migrate(made, store, given(one)); // again: nothing to do
  await expect(migrate(made, store, given({ "0001-a.sql": "CREATE TABLE a (x TEXT) STRICT;" }))).rejects.toThrow(
    "migration 0001-a.sql was changed after it ran",
  );
  const broken = { ...one, "0002-b.sql": "CREATE TABLE b (x INTEGER NOT NULL) STRICT;\nCREATE TABLE a (x INTEGER) STRICT;" };
  await expect(migrate(made, store, given(broken))).rejects.toThrow();
  await expect(store.read("half", async ({ db }) => db.values(sql`SELECT * FROM b`))).rejects.toThrow(); // whole or not at all
  await migrate(made, store, given({ ...one, "0002-b.sql": "CREATE TABLE b (x INTEGER NOT NULL) STRICT;" }));
  await expect(migrate(made, store, given(one))).rejects.toThrow("made by a newer Imprimatur (it knows migration 0002-b.sql)");
  await store.close();
});

test("an upgrade that fails leaves a file that the version before opens, and a server whatever had come so far", async () => {
  const { made, store } = await open("failed", await freshDatabase());
  const one = { "0001-a.sql": "CREATE TABLE a (x INTEGER NOT NULL) STRICT;" };
  const two = { ...one, "0002-b.sql": "CREATE TABLE b (x INTEGER NOT NULL) STRICT;" };
  await migrate(made, store, given(one));
  await expect(migrate(made, store, given({ ...two, "0003-c.sql": "CREATE TABLE a (x INTEGER) STRICT;" }))).rejects.toThrow();
  const outcome = await migrate(made, store, given(one)).catch((error: Error) => error.message);
  expect(outcome).toEqual(engine === "sqlite" ? undefined : expect.stringContaining("made by a newer Imprimatur"));
  await migrate(made, store, given(two));
  expect(await store.read("b", async ({ db }) => db.values(sql`SELECT * FROM b`))).toEqual([]);
  await store.close();
});

test.each([
  ["CREATE TABLE products (id INTEGER)", "products"],
  ["CREATE TABLE migrations (id INTEGER, name TEXT)", "migrations"],
])(
  "a server's database of another program's, with %s, is named and left as it is; tables of other names don't matter",
  async (theirs, table) => {
    const url = await freshDatabase();
    if (url === undefined) return expect(engine).toBe("sqlite"); // a file is looked at before it is opened
    const { made, store } = await open("theirs", url);
    await made.script(theirs);
    await expect(migrate(made, store)).rejects.toThrow(`another program's, with the tables ${table}: name one of our own`);
    const tables = sql`SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`;
    expect(await store.read("left", ({ db }) => db.values(tables))).toEqual([[table]]);
    await made.script(`ALTER TABLE ${table} RENAME TO theirs`);
    await migrate(made, store);
    await store.close();
  },
);

test("nodes that start at once on an empty database all come up", async () => {
  const url = await freshDatabase(); // on SQLite there is one node
  const nodes = await Promise.all((url ? [1, 2, 3, 4] : [1]).map(() => open("many", url)));
  await Promise.all(nodes.map(({ made, store }) => migrate(made, store)));
  const applied = await nodes[0]?.store.read("applied", async ({ db }) => db.values(sql`SELECT version FROM migrations ORDER BY version`));
  expect(applied).toEqual(migrationsIn().map(({ version }) => [version]));
  await Promise.all(nodes.map(({ store }) => store.close()));
});

test("what is about SQLite's files only is noted on a server, and not done", async () => {
  const { made, store } = await open("layout", await freshDatabase());
  await migrate(made, store, given({ "0001-a.sql": "CREATE TABLE a (x INTEGER NOT NULL) STRICT;", "0002-b.sqlite.sql": "DROP TABLE a;" }));
  const look = store.read("layout", async ({ db }) => db.values(sql`SELECT * FROM a`)).catch(() => "gone");
  expect(await look).toEqual(engine === "sqlite" ? "gone" : []);
  expect(await store.read("noted", async ({ db }) => db.values(sql`SELECT version FROM migrations ORDER BY version`))).toEqual([[1], [2]]);
  await store.close();
});

test("each migration of a store that is in use is told before it begins, and none of a new one", async () => {
  const { made, store } = await open("told", await freshDatabase());
  const told: string[] = [];
  await migrate(made, store, before(20), (names) => void told.push(...names));
  expect(told).toEqual([]);
  await migrate(made, store, migrationsIn(), (names) => void told.push(...names));
  expect(told).toEqual(migrationsIn().filter(({ version }) => version >= 20).map(({ name }) => name)); // oxfmt-ignore
  await store.close();
});

test("what a migration sorts lies in a file, so that millions of rows need no more memory than a few; units undo in memory", async () => {
  if (engine !== "sqlite") return expect(engine).toBe("postgres"); // a server has its own ways
  const { made, store } = await open("sorted", undefined);
  const [IN_FILE, IN_MEMORY] = [1, 2];
  await made.script("CREATE TABLE seen AS SELECT temp_store FROM pragma_temp_store");
  await expect(made.script("nonsense")).rejects.toThrow("syntax error");
  const seen = await store.write("seen", ({ db }) => db.values(sql`SELECT * FROM seen UNION ALL SELECT temp_store FROM pragma_temp_store`));
  expect(seen).toEqual([[IN_FILE], [IN_MEMORY]]);
  await store.close();
});

test("keys that were kept before they had an index of their own are kept still", async () => {
  const { made, store } = await open("kept", await freshDatabase());
  await migrate(made, store, before(19));
  const bytes = engine === "sqlite" ? "x'0a'" : "'\\x0a'";
  await made.script(
    `INSERT INTO idempotency VALUES (${bytes}, 'one', ${bytes}, 201, '{}', NULL, 9), (${bytes}, 'two', ${bytes}, 200, '{}', '{}', 3)`,
  );
  await migrate(made, store);
  const kept = await store.read("kept", async ({ db }) =>
    db.values(sql`SELECT key, status, body, expires_at FROM idempotency ORDER BY key`),
  );
  expect(kept).toEqual([
    ["one", 201, null, 9],
    ["two", 200, "{}", 3],
  ]);
  await expect(made.script(`INSERT INTO idempotency VALUES (${bytes}, 'one', ${bytes}, 201, '{}', NULL, 9)`)).rejects.toThrow();
  await store.close();
});

test("serials from before they lay in turn keep all that was said of them", async () => {
  const { made, store } = await open("serials", await freshDatabase());
  await migrate(made, store, before(21));
  const bytes = engine === "sqlite" ? "x'0a'" : "'\\x0a'";
  const names =
    "tenant_id, serial, gtin, product_id, n, print_status, print_reason, print_device_id, print_reported_at, print_batch, open_job, sealed_job, stray_job, voided_at, void_reason, created_at";
  await made.script(
    `INSERT INTO serials (${names}) VALUES ('t', 'b', 'g', 'p', 1, 'failed', 'jam', 'd', 2, ${bytes}, 'o', 's', 'y', 3, 'why', 4);
     INSERT INTO serials (${names}) VALUES ('t', 'a', 'h', 'p', 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 4);`,
  );
  const all = () => store.read("all", async ({ db }) => db.values(sql`SELECT ${sql.raw(names)} FROM serials ORDER BY serial`));
  const kept = await all();
  await migrate(made, store);
  expect(await all()).toEqual(kept);
  expect(kept).toHaveLength(2);
  if (engine === "sqlite")
    // on a server rows lie as they come anyway
    expect(await store.read("turn", async ({ db }) => db.values(sql`SELECT serial FROM serials ORDER BY rowid`))).toEqual([["b"], ["a"]]);
  await expect(made.script(`INSERT INTO serials (${names}) SELECT ${names} FROM serials`)).rejects.toThrow();
  await store.close();
});

test("what declared an event an error before the two could stand side by side makes room for it", async () => {
  const { made, store } = await open("declared", await freshDatabase());
  await migrate(made, store, before(25));
  const events = "epcis_events (tenant_id, event_id, type, event_time, record_time, body)";
  await made.script(
    `INSERT INTO ${events} VALUES ('t', 'urn:x:a', 'ObjectEvent', 1, 1, '{}'), ('t', 'urn:x:b', 'ObjectEvent', 1, 1, '{}'), ('u', 'urn:x:a', 'ObjectEvent', 1, 1, '{}');
     INSERT INTO epcis_terms VALUES ('t', 'epc', 'e', 'urn:x:a'), ('t', 'error', '2026', 'urn:x:a'), ('t', 'epc', 'e', 'urn:x:b'), ('u', 'epc', 'e', 'urn:x:a');`,
  );
  await migrate(made, store);
  const all = (what: ReturnType<typeof sql>) => store.read("all", async ({ db }) => db.values(what));
  const keys = [["t", "urn:x:a error"], ["t", "urn:x:b"], ["u", "urn:x:a"]]; // oxfmt-ignore
  expect(await all(sql`SELECT tenant_id, event_id FROM epcis_events ORDER BY 1, 2`)).toEqual(keys);
  expect(await all(sql`SELECT DISTINCT tenant_id, event_id FROM epcis_terms ORDER BY 1, 2`)).toEqual(keys);
  await store.close();
});

test("what an older version left of a deleted webhook's deliveries without a lane gets one, by which it goes; other lanes stay as they are", async () => {
  const { made, store } = await open("strays", await freshDatabase());
  await migrate(made, store, before(30));
  const delivery = (webhook: string, id: string, state: string, due: string) => `('${webhook}', '${id}', 't', 'e', 'print.confirmed', '${state}', ${due}, 0, 0, '[]', 1)`; // oxfmt-ignore
  await made.script(
    `INSERT INTO lanes VALUES ('kept', 't', 5, 'a node', 7, 3);
     INSERT INTO deliveries (webhook_id, id, tenant_id, event_id, type, state, due_at, tries, by_hand, attempts, created_at) VALUES
     ${[delivery("kept", "a", "pending", "5"), delivery("left", "a", "pending", "0"), delivery("left", "b", "pending", "9"), delivery("told", "a", "held", "NULL")].join()}`,
  );
  await migrate(made, store);
  const all = await store.read("lanes", async ({ db }) => db.values(sql`SELECT * FROM lanes ORDER BY webhook_id`));
  expect(all).toEqual([["kept", "t", 5, "a node", 7, 3], ["left", "t", 0, null, 0, 0]]); // oxfmt-ignore
  await store.close();
});

test("every table of schema.ts has the columns, and no others, that the migrations made, nullable where it says so", async () => {
  const w = await world();
  for (const table of Object.values(schema).filter((value) => is(value, SQLiteTable))) {
    const name = getTableName(table);
    const rows = await w.store.read("columns", async ({ db }) =>
      db.values<[string, unknown]>(
        engine === "sqlite"
          ? sql`SELECT name, "notnull" OR pk > 0 FROM pragma_table_info(${name})`
          : sql`SELECT column_name, is_nullable = 'NO' FROM information_schema.columns WHERE table_name = ${name}`,
      ),
    );
    const made = Object.fromEntries(rows.map(([column, required]) => [column, Boolean(required)]));
    const said = Object.fromEntries(Object.values(getTableColumns(table)).map((column) => [column.name, column.notNull]));
    expect({ [name]: made }).toEqual({ [name]: said });
  }
});

test("passports from before credentials had a bit each keep theirs, whole and revoked as they were", async () => {
  const { made, store } = await open("older", await freshDatabase());
  await migrate(made, store, before(7));
  const passport = (id: string, bit: number, revoked: string) =>
    `INSERT INTO passports VALUES ('t', '${id}', 'product ${id}', 'published', NULL, 1, 1, ${bit}, ${revoked}, '{}', 'r', 0, 3, 10, 20);
     INSERT INTO passport_versions VALUES ('${id}', 1, '{}', 'd', 'jws', 10, 20);`;
  await made.script(
    `INSERT INTO tenants VALUES ('t', 't', 'standard', 0, NULL, '[]', NULL, 900, 3, 1, 1);${passport("a", 5, "NULL")}${passport("b", 6, "99")}`,
  );
  await migrate(made, store);
  const rows = await store.read("issued", async ({ db }) =>
    db.values(sql`
      SELECT p.id, p.revision, v.credential_id, c.tenant_id, c.version, c.status_index, c.revoked_at
      FROM passports p JOIN passport_versions v ON v.passport_id = p.id JOIN issued_credentials c ON c.id = v.credential_id ORDER BY p.id`),
  );
  expect(rows).toEqual([
    ["a", 3, "a.1", "t", 1, 5, null],
    ["b", 3, "b.1", "t", 1, 6, 99],
  ]);
  await store.close();
});
