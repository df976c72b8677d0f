// A regulation pack that a database has seen stays what it was: for whatever node starts later, and for two that start at once.
import { afterAll, expect, test } from "vitest";
import { keep } from "../../cloud/domain/regulations.ts";
import { loadPacks } from "../../cloud/packs.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { packFolder, packLike, ruleLike } from "../../fixtures/packs.ts";
import { startWorld } from "../../fixtures/world.ts";
import { exemplary } from "../../fixtures/compliance.ts";
import { freshFolder } from "../endings.ts";
import { freshDatabase, world } from "../world.ts";

const name = "32024R1781-1.0.0.json";
const folders: ReturnType<typeof packFolder>[] = [];
afterAll(() => folders.forEach(({ remove }) => remove()));
function folderOf(files: Record<string, unknown>): URL {
  const folder = packFolder(files);
  folders.push(folder);
  return folder.at;
}

test("a changed file under an old version refuses to start, and says which; under a new version it starts", async () => {
  const w = await world({ packsFrom: folderOf({ [name]: packLike() }) });
  const changed = loadPacks(folderOf({ [name]: packLike({ priority: "critical" }) }));
  const seen = (packs: typeof changed) => w.store.write("packs", (tx) => keep(tx, packs));
  await expect(seen(changed)).rejects.toThrow(
    `regulation pack ${name}: it isn't what this database knows as 32024R1781 1.0.0: give the change a new version`,
  );
  const next = { [name]: packLike(), "32024R1781-1.1.0.json": packLike({ version: "1.1.0", effectiveFrom: "2025-01-01T00:00:00.000Z" }) };
  await seen(loadPacks(folderOf(next)));
  await seen(loadPacks(folderOf({ [name]: packLike() }))); // a node that isn't as new starts as well
});

test("the start itself fails with that line, and works again with the file as it was", async () => {
  const databaseUrl = await freshDatabase();
  const dataDir = freshFolder("packs-data");
  const start = (file: unknown) => startWorld({ databaseUrl, dataDir, packsFrom: folderOf({ [name]: file }) });
  await (await start(packLike())).end();
  await expect(start(packLike({ title: "Another law" }))).rejects.toThrow("isn't what this database knows");
  await expect(start("{")).rejects.toThrow(`regulation pack ${name}: it can't be read`);
  await (await start(packLike())).end();
});

test("nodes that start at once agree on what a version is", async () => {
  const w = await world({ packsFrom: folderOf({ [name]: packLike() }) });
  const one = loadPacks(folderOf({ "32011L0065-1.0.0.json": packLike({ celexId: "32011L0065", sectors: ["rohs"] }) }));
  const other = loadPacks(folderOf({ "32011L0065-1.0.0.json": packLike({ celexId: "32011L0065", sectors: ["rohs"], priority: "high" }) }));
  const outcomes = await Promise.allSettled([one, one, other].map((packs) => w.store.write("packs", (tx) => keep(tx, packs))));
  const [first, second, third] = outcomes.map(({ status }) => status);
  expect([first, second]).toEqual([first, first]);
  expect(third).not.toBe(first);
});

test("a pack that takes effect later judges from then on; what was judged before stays as it was answered", async () => {
  const soon = new Date(Date.now() + 3_600_000).toISOString();
  const stricter = packLike({ version: "2.0.0", effectiveFrom: soon, rules: [ruleLike("ESPR_ART1_TEST"), ruleLike("ESPR_ART2_TEST")] });
  const w = await world({ packsFrom: folderOf({ [name]: packLike(), "32024R1781-2.0.0.json": stricter }) });
  const { id } = (await w.admin.post("/products", { ...exemplary.electronics, gtin: gtinOf(500_000), serialNumber: "1" })).body;
  const full = async () => (await w.admin.get(`/products/${id}/compliance/espr/full`)).body;
  const states = async () => (await w.admin.get("/compliance/packs")).body.data.map(({ status }: { status: string }) => status);
  const before = await full();
  expect([before.pack.version, before.findings.length, await states()]).toEqual(["1.0.0", 1, ["effective", "draft"]]);
  w.later(3_700_000);
  const after = await full();
  expect([after.pack.version, after.findings.length, await states()]).toEqual(["2.0.0", 2, ["superseded", "effective"]]);
  expect(after.productVersion).toBe(before.productVersion);
  const none = await w.admin.get(`/products/${id}/compliance/rohs/full`);
  expect([none.status, none.body.error.message]).toEqual([
    404,
    expect.stringContaining("no regulation pack of the sector rohs is in effect"),
  ]);
});
