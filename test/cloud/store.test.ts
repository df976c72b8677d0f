// Units of work: whole or not at all, never nested, never used after, with work that waits for the commit.
import { and, eq, isNull, sql } from "drizzle-orm";
import { expect, test } from "vitest";
import { claimSql } from "../../cloud/domain/job-claims.ts";
import { createLog } from "../../cloud/log.ts";
import { openStore } from "../../cloud/store/open.ts";
import { setForm } from "../../cloud/store/postgres-sets.ts";
import { prepared } from "../../cloud/store/prepared.ts";
import { counters } from "../../cloud/store/schema.ts";
import { asOne, db as anyDb, eachBeside, type Finale, LOCKED, run, together } from "../../cloud/store/store.ts";
import { freshFolder } from "../endings.ts";
import { Refusal } from "#shared/errors.ts";
import { engine, freshDatabase, world } from "../world.ts";

const w = await world();
const INSERT = "INSERT INTO signing_keys (kid, public_jwk, created_at) VALUES (?, '{}', 1)";
const FIND = "SELECT kid FROM signing_keys WHERE kid = ?";
const COUNT = "UPDATE signing_keys SET created_at = signing_keys.created_at + ? WHERE kid = ?";
const AT = "SELECT created_at FROM signing_keys WHERE kid = ?";
const GO = "DELETE FROM signing_keys WHERE kid = ?";
const named = (name: string) =>
  w.store.read("count", async ({ db }) =>
    Number((await db.values<[number]>(sql`SELECT count(*) FROM signing_keys WHERE kid = ${name}`))[0]?.[0]),
  );
const insert = (kid: string) => sql`INSERT INTO signing_keys (kid, public_jwk, created_at) VALUES (${kid}, '{}', 1)`;

test("a unit that throws leaves nothing, and its neighbours in the same commit stand", async () => {
  const results = await Promise.allSettled([
    w.store.write("one", async ({ db }) => void (await db.run(insert("one")))),
    w.store.write("two", async ({ db }) => {
      await db.run(insert("two"));
      throw new Error("changed my mind");
    }),
    w.store.write("three", async ({ db }) => void (await db.run(insert("three")))),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect([await named("one"), await named("two"), await named("three")]).toEqual([1, 0, 1]);
});

test("a prepared statement has its constants in its text, whatever they hold, and takes a value for each of its places", async () => {
  const name = 'what\'s this? a "counter" of $1 and ?';
  const place = sql.placeholder("value");
  const insertIt = prepared(anyDb.insert(counters).values({ name, value: place }));
  const find = prepared(anyDb.select().from(counters).where(and(eq(counters.name, name), eq(counters.value, place)))); // oxfmt-ignore
  const none = prepared(anyDb.select().from(counters).where(and(eq(counters.name, name), isNull(counters.value)))); // oxfmt-ignore
  await w.store.write("constant", () => insertIt.run({ value: 7 }));
  const found = (values: Record<string, unknown>) => w.store.read("constant", () => find.get(values));
  expect([await found({ value: 7 }), await found({ value: 8 }), await found({ value: null })]).toEqual([{ name, value: 7 }, undefined, undefined]); // oxfmt-ignore
  expect(await w.store.read("none", () => none.all({}))).toEqual([]);
  await expect(found({})).rejects.toThrow(/misses a value for "value"/);
  expect(() => prepared(anyDb.select().from(counters).where(sql`value = ${new Date(0)}`))).toThrow(/give it a placeholder/); // oxfmt-ignore
});

test.runIf(engine === "sqlite")("of a unit in which the disk was full nothing is kept, whatever it went on to ask beside", async () => {
  const pages = (most: number) => w.store.write("pages", async ({ db }) => void (await db.values(`PRAGMA max_page_count = ${most}`)));
  const large = `INSERT INTO signing_keys (kid, public_jwk, created_at) VALUES (?, '"' || hex(zeroblob(1000000)) || '"', 1)`;
  const both = () => together([run(large, ["large"], "run"), run(INSERT, ["beside it"], "run")]);
  await pages(1);
  await expect(w.store.write("full", both)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  await expect(w.store.write("full", (tx) => tx.attempt(both))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  await pages(1_000_000);
  expect([await named("large"), await named("beside it")]).toEqual([0, 0]);
});

test("a part that fails is undone by itself", async () => {
  await w.store.write("parts", async (tx) => {
    await tx.db.run(insert("kept"));
    await expect(tx.attempt(async () => tx.db.run(insert("kept")))).rejects.toThrow();
    await tx.db.run(insert("kept too"));
  });
  expect([await named("kept"), await named("kept too")]).toEqual([1, 1]);
});

test("a unit inside a unit, a statement outside of one and a statement after one are refused with a sentence", async () => {
  await expect(w.store.write("outer", async () => w.store.write("inner", async () => 1))).rejects.toThrow(
    /"inner" was begun inside "outer"/,
  );
  await expect(w.store.read("outer", async () => w.store.write("inner", async () => 1))).rejects.toThrow(/begun inside/);
  const { db } = await import("../../cloud/store/store.ts");
  await expect(db.values("SELECT 1")).rejects.toThrow();
  let late: (() => Promise<unknown>) | undefined;
  await w.store.read("early", async (tx) => {
    const bound = (await import("node:async_hooks")).AsyncLocalStorage.snapshot();
    late = () =>
      bound(() => tx.db.values("SELECT 1").catch((error: Error) => (error.cause as Error | undefined)?.message ?? error.message));
  });
  expect(await late?.()).toMatch(/over/);
});

test("a statement that is returned instead of awaited belongs to its unit all the same", async () => {
  await w.store.write("returned", ({ db }) => db.run(insert("returned")) as Promise<unknown>);
  expect(await named("returned")).toBe(1);
});

test("work after the commit runs once it is durable and never after a rollback; its failure is logged, not thrown", async () => {
  const done: string[] = [];
  await w.store.write("good", async (tx) => tx.after(() => done.push("good")));
  await expect(
    w.store.write("bad", async (tx) => {
      tx.after(() => done.push("bad"));
      throw new Error("no");
    }),
  ).rejects.toThrow("no");
  await w.store.write("failing", async (tx) => tx.after(() => Promise.reject(new Error("afterwards"))));
  expect(done).toEqual(["good"]);
  await expect.poll(() => w.logged().some((line) => line.includes("after-commit-failed"))).toBe(true);
});

test("a read can't write, and a slow unit is logged", async () => {
  await expect(w.store.read("sly", async ({ db }) => db.run(insert("sly")))).rejects.toThrow();
  await w.store.read("slow one", async () => new Promise((resolve) => setTimeout(resolve, 300)));
  expect(w.logged().some((line) => line.includes("slow-unit") && line.includes("slow one"))).toBe(true);
});

test("a store that is closed takes no more, and has done all that it took before", async () => {
  const [folder, databaseUrl] = [freshFolder("closing"), await freshDatabase()];
  const open = () => openStore({ dataDir: folder, databaseUrl, log: createLog("silent"), onFatal: (line) => expect.fail(line) });
  const [store, kids] = [await open(), Array.from({ length: 50 }, (_, i) => `closing ${i}`)];
  const asked = kids.map((kid) => store.write("last", async ({ db }) => void (await db.run(insert(kid)))));
  await Promise.all([...asked, store.close()]);
  await expect(store.write("late", async ({ db }) => void (await db.run(insert("late"))))).rejects.toMatchObject({ status: 503 });
  const after = await open();
  const found = await after.read("after", ({ db }) => db.values<[string]>(sql`SELECT kid FROM signing_keys ORDER BY created_at, kid`));
  await after.close();
  expect(found.flat()).toEqual(kids.toSorted());
});

/** Ends of units, by what they were to end with. */
const ends = (settled: PromiseSettledResult<unknown>[]) =>
  settled.map((end) => (end.status === "fulfilled" ? end.value : (end.reason as Error).message));
const refusal = (message: string) => new Refusal("NOT_FOUND", message);

test("reads that are asked for at once are no older than any of them, and one that fails or takes its time spoils no other", async () => {
  await w.store.write("fresh", async ({ db }) => void (await db.run(insert("fresh"))));
  const at = async () =>
    w.store.read("at", async ({ db }) =>
      Number((await db.values<[number]>(sql`SELECT created_at FROM signing_keys WHERE kid = 'fresh'`))[0]?.[0]),
    );
  let answered = 1;
  let isOver = false;
  const looking = Array.from({ length: 16 }, async (_, i) => {
    for (let n = 0; !isOver; n += 1) {
      const before = answered;
      if (i === 0) await expect(w.store.read("fails", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
      if (i === 1) await w.store.read("slow", () => new Promise((done) => setTimeout(done, 5)));
      expect(await at()).toBeGreaterThanOrEqual(before);
      if (n % 7 === i % 7) await new Promise((turn) => setImmediate(turn));
    }
  });
  for (let n = 2; n <= 100; n += 1) {
    await w.store.write(
      "fresher",
      async ({ db }) => void (await db.run(sql`UPDATE signing_keys SET created_at = ${n} WHERE kid = 'fresh'`)),
    );
    answered = n;
    expect(await Promise.all([at(), at(), at()])).toEqual([n, n, n]);
  }
  isOver = true;
  await Promise.all(looking);
});

test("joint units end as each would by itself, whatever the others do", async () => {
  const kinds = {
    writes: (kid: string) => async () => (await run(INSERT, [kid], "run"), kid),
    refuses: (kid: string) => async () => Promise.reject(refusal(kid)),
    "writes and refuses": (kid: string) => async () => {
      await run(INSERT, [kid], "run");
      throw refusal(kid);
    },
    "has a fault": (kid: string) => async () => Promise.reject(new TypeError(kid)),
    "writes what is there": (kid: string) => async () => (await run(INSERT, ["there"], "run"), kid),
  };
  await w.store.write("there", async () => run(INSERT, ["there"], "run"));
  const names = Object.keys(kinds) as (keyof typeof kinds)[];
  const rounds = [["writes", "refuses"], ["writes", "writes and refuses"], ["writes", "has a fault", "refuses"], names] as const;
  for (const [round, among] of rounds.entries()) {
    const units = Array.from({ length: 30 }, (_, i) => {
      const kind = among[i % among.length] ?? "writes";
      return { kind, kid: `${round} ${i} ${kind}` };
    });
    const settled = await Promise.allSettled(units.map(({ kind, kid }) => w.store.joint.write(kind, kinds[kind](kid))));
    expect(settled.map(({ status }) => status)).toEqual(units.map(({ kind }) => (kind === "writes" ? "fulfilled" : "rejected")));
    for (const { kind, kid } of units) expect([kid, await named(kid)]).toEqual([kid, kind === "writes" ? 1 : 0]);
    for (const [i, { kind, kid }] of units.entries()) if (kind.includes("refuses") || kind === "writes") expect(ends(settled)[i]).toBe(kid);
  }
});

test("who overlooks that a statement failed is told that the unit held only where it did", async () => {
  const overlooks = (kid: string) => async () => {
    await run(INSERT, [kid], "run");
    await run(INSERT, [kid], "run").catch(() => {});
    return kid;
  };
  const kids = ["alone", "joint", "beside"].map((kid) => `overlooks ${kid}`);
  const [alone = "", joint = "", beside = ""] = kids;
  const [held, ...together] = await Promise.allSettled([
    w.store.write("alone", overlooks(alone)),
    w.store.joint.write("joint", overlooks(joint)),
    w.store.joint.write("beside", async () => run(INSERT, [beside], "run")),
  ]);
  for (const [i, { status }] of [held, ...together].entries())
    expect([kids[i], await named(kids[i] ?? "")]).toEqual([kids[i], status === "fulfilled" ? 1 : 0]);
});

test("what joint units ask alike is answered to each, and none of two that change one row is lost", async () => {
  const [kids, counter] = [Array.from({ length: 50 }, (_, i) => `alike ${i}`), "alike counter"];
  await w.store.write("counter", async () => run(INSERT, [counter], "run"));
  for (let round = 1; round <= 3; round += 1) {
    const added = kids.map((kid, i) =>
      w.store.joint.write("add", async () => (await run(INSERT, [`${kid} ${round}`], "run")).changes === 1 && i),
    );
    expect(await Promise.all(added)).toEqual(kids.map((_, i) => i));
    const found = kids.map((kid, i) =>
      w.store.joint.read("find", async () => (await run(FIND, [i % 2 ? `${kid} ${round}` : "nobody"], "all")).rows.flat()),
    );
    expect(await Promise.all(found)).toEqual(kids.map((kid, i) => (i % 2 ? [`${kid} ${round}`] : [])));
    const counted = kids.map(() => w.store.joint.write("count", async () => (await run(COUNT, [1, counter], "run")).changes));
    expect(await Promise.all(counted)).toEqual(kids.map(() => 1));
    const gone = kids.map((kid, i) =>
      w.store.joint.write("go", async () => (await run(GO, [i < 25 ? `${kid} ${round}` : "nobody"], "run")).changes),
    );
    expect(await Promise.all(gone)).toEqual(kids.map((_, i) => (i < 25 ? 1 : 0)));
  }
  expect(await w.store.read("counter", async () => (await run(AT, [counter], "get")).rows)).toEqual([1 + 3 * kids.length]);
});

test("what joint units ask alike at one moment is asked once on a server; who asks alone, or on SQLite, is told that nobody did", async () => {
  const asked: string[] = [];
  const asking = (what: string) => async () => {
    asked.push(what);
    if (what === "bad") throw new Error("bad");
    return (await run(FIND, ["nobody"], "all")).rows.length;
  };
  const unit = (what: string, name: string) =>
    w.store.joint.write("as one", async () => {
      const answer = await asOne(what, asking(what));
      if (name === "no") throw refusal("no");
      await run(INSERT, [`asked ${name}`], "run");
      return answer;
    });
  const isServer = w.store.engine === "postgres";
  const found = await Promise.all([unit("good", "a"), unit("alone", "b"), unit("good", "c")]);
  expect(found).toEqual(isServer ? [0, undefined, 0] : [undefined, undefined, undefined]);
  expect(asked).toEqual(isServer ? ["good"] : []);
  const settled = await Promise.allSettled([unit("good", "d"), unit("good", "no"), unit("bad", "e"), unit("bad", "f")]);
  expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]); // whose question fails goes on by itself
  expect(asked).toEqual(isServer ? ["good", "good", "bad"] : []);
  expect(await Promise.all(["a", "b", "c", "d", "no", "e", "f"].map((name) => named(`asked ${name}`)))).toEqual([1, 1, 1, 1, 0, 1, 1]);
});

test("statements of one line keep their order, whatever lines beside it ask", async () => {
  const kids = Array.from({ length: 20 }, (_, i) => `ordered ${i}`);
  for (let round = 0; round < 3; round += 1)
    await w.store.write("lines", async () =>
      eachBeside(kids, async (kid) => {
        const i = kids.indexOf(kid);
        const [add, go] = [() => run(INSERT, [kid], "run"), () => run(GO, [kid], "run")];
        await together(i % 2 ? [go(), add()] : [add(), go()]);
      }),
    );
  expect(await Promise.all(kids.map(named))).toEqual(kids.map((_, i) => i % 2));
});

test("what is left for the end of a commit is said once for all whose work held, and fails those alone who left what can't be said", async () => {
  const said: string[][] = [];
  const finale: Finale<string> = {
    rank: 9,
    say: async (items) => {
      if (items.includes("unspeakable")) throw new Error("can't say that");
      said.push([...items]);
      await run(INSERT, [`said ${items.join(" ")}`], "run");
    },
  };
  const leave = (item: string, then?: () => never) =>
    w.store.joint.write("leave", async (tx) => {
      tx.atEnd(finale, item);
      then?.();
      return item;
    });
  const refuse = () => {
    throw refusal("not held");
  };
  await Promise.allSettled([leave("a"), leave("b", refuse), leave("c")]);
  expect(said.flat().toSorted()).toEqual(["a", "c"]);
  expect(ends(await Promise.allSettled([leave("d"), leave("unspeakable"), leave("e")]))).toEqual(["d", "can't say that", "e"]);
  expect(said.flat().toSorted()).toEqual(["a", "c", "d", "e"]);
  await w.store.write("parts", async (tx) => {
    tx.atEnd(finale, "kept");
    await tx.attempt(async () => (tx.atEnd(finale, "undone"), refuse())).catch(() => {}); // that it is undone is what is looked at
  });
  expect(said.at(-1)).toEqual(["kept"]);
  await expect(w.store.read("sly", async (tx) => tx.atEnd(finale, "unread"))).rejects.toThrow(/only reads/);
  expect(await named("said kept")).toBe(1);
});

test("what is written last leaves with the commit: where it fails nothing of it stands, and who left it is told", async () => {
  const last: Finale<string> = {
    rank: 9,
    say: async (items) => {
      await run(INSERT, [`first of ${items.join(" ")}`], "run");
      const say = async (item: string) => {
        if (item === "no words") throw new Error("no statement was begun");
        await run(INSERT, [item === "no name" ? null : item], "run");
      };
      return () => together(items.map(say));
    },
  };
  const leave = (item: string) => w.store.joint.write("leave last", async (tx) => (tx.atEnd(last, item), item));
  const outcomes = await Promise.allSettled(["last a", "no name", "last b", "no words"].map(leave));
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "rejected"]);
  expect([await named("last a"), await named("last b")]).toEqual([1, 1]);
  expect([await named("first of no name"), await named("first of no words")]).toEqual([0, 0]);
});

test("a set goes by its index from the first row on: its plan is kept while the table grows", async ({ skip }) => {
  skip(w.store.engine === "sqlite", "on SQLite test/rules/plans.test.ts reads the plans");
  const opened = "update serials set open_job = ? where tenant_id = ? and serial = ? and open_job IS NULL and voided_at IS NULL";
  const explained = `EXPLAIN (GENERIC_PLAN) ${setForm(opened, ["text", "text", "text"])}`;
  const { rows } = await w.store.read("plan", async () => run(explained, [["job"], ["nobody"], ["1"]], "all"));
  expect(rows.join("\n")).toContain("Index Scan using serials_pkey");
});

test.for([
  "update serials set open_job = ? where (serials.tenant_id = ? and serials.serial = ?) and open_job IS NULL and voided_at IS NULL",
  "delete from serials where print_status IS NULL AND print_batch = ? AND serials.tenant_id = ? AND serials.serial = ?",
  "select n from serials where gtin <> ? and tenant_id = ? and serial = ? and open_job IS NULL and voided_at IS NULL",
])("a set looks for each of its rows by the key in a table that nobody has looked into: %s", async (one, { skip }) => {
  skip(w.store.engine === "sqlite", "SQLite is asked one by one");
  const plan = w.store.write("plan", async () => {
    await run("DELETE FROM pg_statistic WHERE starelid = 'serials'::regclass", [], "run");
    const many = "SELECT 'many', n::text, 'g', 'p', n, 0 FROM generate_series(1, 8000) AS n";
    await run(`INSERT INTO serials (tenant_id, serial, gtin, product_id, n, created_at) ${many}`, [], "run");
    const given = [
      Array.from({ length: 1_000 }, () => "x"),
      Array.from({ length: 1_000 }, () => "many"),
      Array.from({ length: 1_000 }, (_, n) => `${n}`),
    ];
    const types = [one.includes("print_batch") ? "bytea" : "text", "text", "text"];
    const { rows } = await run(`EXPLAIN ${setForm(one, types)}`, given, "all");
    throw new Error(rows.join("\n")); // nothing of it stays
  });
  const words = await plan.catch((error: Error) => error.message);
  expect(words).toMatch(/Index Cond: .*tenant_id = .*given\.v2.* AND .*serial = .*given\.v3/);
  expect(words).not.toContain("Join Filter");
});

test("a claim finds leases that ran out among what is due, and not among all that is in a state", async ({ skip }) => {
  skip(w.store.engine === "sqlite", "on SQLite test/rules/plans.test.ts reads the plans");
  const values = [0, "", "", 0, 0, 0, 0, "", 1, "", 0, 0, 0, 1, 1];
  const { rows } = await w.store.read("plan", async () => run(`EXPLAIN (GENERIC_PLAN) ${claimSql(1, false)}`, values, "all"));
  const [, lost = ""] = rows.join("\n").split("on range1");
  expect(lost).toMatch(/print_jobs_look\b.*\n.*Index Cond: \(look_at <= COALESCE/);
});

test("a joint read has one statement, and knows its moment when that is answered", async ({ skip }) => {
  skip(w.store.engine === "sqlite", "on SQLite it is a read like any other");
  const look = () => run(FIND, ["one"], "get");
  expect(await w.store.joint.read("look", async (tx) => (await look(), typeof tx.now))).toBe("number");
  await expect(w.store.joint.read("too early", async (tx) => (tx.now, look()))).rejects.toThrow(/when its statement is answered/);
  await expect(w.store.joint.read("twice", async () => (await look(), look()))).rejects.toThrow(/one statement, and this is another/);
});

const ALONE_ON_SQLITE = "on SQLite units run one after another and take no locks";
test("a row that somebody holds keeps the unit waiting that wants it, and no other", async ({ skip }) => {
  skip(w.store.engine === "sqlite", ALONE_ON_SQLITE);
  const held = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  await w.store.write("row", async () => run(INSERT, ["wanted"], "run"));
  const holder = w.store.write("hold", async () => {
    await run(`${FIND} ${LOCKED}`, ["wanted"], "all");
    locked.resolve();
    await held.promise;
  });
  await locked.promise;
  const others = Array.from({ length: 5 }, (_, i) => w.store.joint.write("other", async () => run(INSERT, [`beside ${i}`], "run")));
  let isDone = false;
  const wants = w.store.joint.write("wants", async () => run(COUNT, [1, "wanted"], "run")).then(() => (isDone = true));
  await Promise.all(others);
  expect(isDone).toBe(false);
  held.resolve();
  await Promise.all([holder, wants]);
});

test("a joint unit may neither wait for a lock nor undo a part of itself", async ({ skip }) => {
  skip(w.store.engine === "sqlite", ALONE_ON_SQLITE);
  const locks = () => w.store.joint.write("locks", async () => run(`${FIND} ${LOCKED}`, ["there"], "all"));
  const undoes = () => w.store.joint.write("undoes", async (tx) => tx.attempt(async () => 1));
  const settled = await Promise.allSettled([locks(), locks(), undoes()]);
  for (const said of ends(settled)) expect(said).toMatch(/joint unit/);
});
