// Units of work: whole or not at all, never nested, never used after, with work that waits for the commit.
import { sql } from "drizzle-orm";
import { expect, test } from "vitest";
import { world } from "../world.ts";

const w = await world();
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
