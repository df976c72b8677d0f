// What a node keeps in mind of its store: one that doesn't go on from there was set back, and ends it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { afterRestore } from "../../cloud/domain/restored.ts";
import { keepSeen, refuseSetBack } from "../../cloud/seen-store.ts";
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
  writeFileSync(join(folder, "seen.json"), "half a");
  expect(await refused(folder)).toBeUndefined();
  expect(await refused(freshFolder("seen-nothing"))).toBeUndefined();
});

test.each([
  ["a log that was longer", (seen: Record<string, unknown>) => ({ size: Number(seen["size"]) + 1 })],
  ["another log", () => ({ root: "0".repeat(64) })],
  ["more serials", (seen: Record<string, unknown>) => ({ serials: Number(seen["serials"]) + 1 })],
  ["a restore that isn't there any more", (seen: Record<string, unknown>) => ({ restores: Number(seen["restores"]) + 1 })],
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
