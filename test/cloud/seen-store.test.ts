// What a node keeps in mind of its store: one that doesn't go on from there was set back, and ends it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { afterRestore } from "../../cloud/domain/restored.ts";
import { keepSeen, refuseSetBack } from "../../cloud/seen-store.ts";
import { eq } from "../../cloud/store/drizzle.ts";
import { counters } from "../../cloud/store/schema.ts";
import { startStoreWatcher } from "../../cloud/workers/store-watcher.ts";
import { createLog } from "../../cloud/log.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { freshFolder } from "../endings.ts";
import { world } from "../world.ts";

const w = await world();
const shop = await printShop(w); // with a leaf in the log

const seenIn = (folder: string) => JSON.parse(readFileSync(join(folder, "seen.json"), "utf8")) as Record<string, unknown>;
const sees = (folder: string, what: object) => writeFileSync(join(folder, "seen.json"), JSON.stringify({ ...seenIn(folder), ...what }));
const refused = (folder: string): Promise<string | undefined> =>
  refuseSetBack(w.store, folder).then(
    () => undefined,
    (error: Error) => error.message,
  );
const seeing = async (): Promise<string> => {
  const folder = freshFolder("seen");
  await keepSeen(w.store, folder);
  return folder;
};

test("a store that goes on is no store that was set back, nor is another one, nor one of which nothing is known", async () => {
  const folder = await seeing();
  const { serials } = seenIn(folder);
  expect(await refused(folder)).toBeUndefined();
  await shop.allocate(3);
  await keepSeen(w.store, folder);
  expect(seenIn(folder)["serials"]).toBe(Number(serials) + 3);
  sees(folder, { first: "0".repeat(64), size: 1_000_000 });
  expect(await refused(folder)).toBeUndefined();
  const whole = readFileSync(join(await seeing(), "seen.json"), "utf8");
  for (const text of ["half a", "", "null", "[]", whole.replace(/"size":\d+/, '"size":"many"'), whole.replace(/"size":/, '"size":-')]) {
    writeFileSync(join(folder, "seen.json"), text);
    expect([text, await refused(folder)]).toEqual([text, undefined]);
  }
  expect(await refused(freshFolder("seen-nothing"))).toBeUndefined();
});

test.each([
  ["a log that was longer", (seen: Record<string, unknown>) => ({ size: Number(seen["size"]) + 1 })],
  ["another log", () => ({ root: "0".repeat(64) })],
  ["more serials", (seen: Record<string, unknown>) => ({ serials: Number(seen["serials"]) + 1 })],
  ["a restore that isn't there any more", (seen: Record<string, unknown>) => ({ restoredAt: Number(seen["restoredAt"]) + 1 })],
])("who has seen %s isn't to go on: a start is refused, and a node ends, until the restore is said", async (_what, change) => {
  const folder = await seeing();
  sees(folder, change(seenIn(folder)));
  const says = /^the store was set back: .* would give out again what is on labels: end every node on it, then imprimatur /;
  expect(await refused(folder)).toMatch(says);
  await keepSeen(w.store, folder); // a node that ends before it has looked doesn't take it for what it knew
  expect(await refused(folder)).toMatch(says);
  const onFatal = vi.fn<(line: string) => void>();
  const watcher = startStoreWatcher(w.store, createLog("silent"), folder, onFatal);
  await vi.waitUntil(() => onFatal.mock.calls.length > 0);
  await watcher.stop();
  expect(onFatal.mock.calls[0]?.[0]).toMatch(says);
  for (let i = 0; i < 2; i += 1) await w.store.write("restored", (tx) => afterRestore(tx, { takenAt: new Date(tx.now).toISOString(), logSize: 0 }));
  expect(await refused(folder)).toBeUndefined();
}); // oxfmt-ignore

test("a store that was set back to the same moment once more, and says so again, isn't refused by who saw it after the first time", async () => {
  const restored = () => w.store.write("restored", (tx) => afterRestore(tx, { takenAt: new Date(tx.now).toISOString(), logSize: 0 }));
  const isMark = eq(counters.name, "restored_at");
  const marks = await w.store.read("marks", ({ db }) => db.select().from(counters).where(isMark));
  await restored();
  const folder = await seeing();
  sees(folder, { size: 1_000_000 }); // it went on, and that is lost
  expect(await refused(folder)).toMatch(/^the store was set back/);
  await sleep(5);
  await w.store.write("set back", async ({ db }) => {
    await db.delete(counters).where(isMark);
    for (const mark of marks) await db.insert(counters).values(mark);
  });
  expect(await refused(folder)).toMatch(/^the store was set back/);
  await restored();
  expect(await refused(folder)).toBeUndefined();
});

test("what was seen of a store stays known while it is set back, also to a node that ends before it has looked", async () => {
  const folder = await seeing();
  sees(folder, { size: 1_000_000 });
  const before = seenIn(folder);
  await keepSeen(w.store, folder);
  expect(seenIn(folder)).toEqual(before);
});
