// The store: units with group commit against the same SQL with a commit each, both synchronous=FULL, 64 callers.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { eq, integer, sql, sqliteTable, text } from "../../cloud/store/drizzle.ts";
import { connect, openSqlite } from "../../cloud/store/sqlite.ts";
import { db, storeOn } from "../../cloud/store/store.ts";
import { createLog } from "../../cloud/log.ts";
import { callers, duel, type Line, ratioLine } from "./measure.ts";
import { freshFolder } from "./servers.ts";

const CALLERS = 64;
const ROWS = 64;
const TABLES =
  "CREATE TABLE tallies (id INTEGER PRIMARY KEY, n INTEGER NOT NULL) STRICT; CREATE TABLE remarks (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;";
const FILL = Array.from({ length: ROWS }, (_, id) => `INSERT INTO tallies VALUES (${id}, 0);`).join("");

const tallies = sqliteTable("tallies", { id: integer().primaryKey(), n: integer().notNull() });
const remarks = sqliteTable("remarks", { id: integer().primaryKey(), text: text().notNull() });
const count = db
  .update(tallies)
  .set({ n: sql`${tallies.n} + 1` })
  .where(eq(tallies.id, sql.placeholder("id")))
  .returning({ n: tallies.n })
  .prepare();
const note = db
  .insert(remarks)
  .values({ text: sql.placeholder("text") })
  .prepare();

export async function storeBench(): Promise<Line[]> {
  const folder = freshFolder();
  const engine = openSqlite({ file: join(folder, "ours.db"), onFatal: (line) => process.stderr.write(`${line}\n`) });
  await engine.script(TABLES + FILL);
  const store = storeOn(engine, createLog("silent"));
  const plain = connect(join(folder, "plain.db"), "write");
  plain.exec(TABLES + FILL);
  plain.pragma("wal_autocheckpoint = 1000"); // as a plain program would leave it
  const countCounter = plain.prepare("UPDATE tallies SET n = n + 1 WHERE id = ? RETURNING n");
  const writeNote = plain.prepare("INSERT INTO remarks (text) VALUES (?)");
  let turn = 0;
  const text = "x".repeat(100);
  const commitEach = plain.transaction(() => {
    countCounter.get((turn += 1) % ROWS);
    writeNote.run(text);
  });
  try {
    const result = await duel(
      {
        name: "units of work",
        run: (ms) =>
          callers(CALLERS, ms, () =>
            store.write("bench", async () => {
              await count.get({ id: (turn += 1) % ROWS });
              await note.run({ text });
            }),
          ),
      },
      { name: "a commit each", run: (ms) => callers(CALLERS, ms, async () => commitEach.immediate()) },
    );
    return [ratioLine("store: units of work, FULL, 64 callers, against a commit each", result, 5, "units")];
  } finally {
    await store.close();
    plain.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
