// Lists that are looked through a stretch at a time: what fits is found whole, newest first, wherever the stretches part.
import { eq, sql } from "drizzle-orm";
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import { uses } from "../../cloud/domain/categories.ts";
import { DEFAULT_TENANT } from "../../cloud/domain/tenants.ts";
import { lookedThrough } from "../../cloud/domain/stretches.ts";
import { anonymous } from "../../cloud/http.ts";
import { scans } from "../../cloud/store/schema.ts";
import type { Store } from "../../cloud/store/store.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { engine, world } from "../world.ts";

const w = await world();
const ROWS = 6_144;
const EACH = 512; // of which the first fits: some stand several stretches from the last row, and each stretch ends with one
const idOf = (n: number) => String(n).padStart(5, "0");

test("a page goes over as many stretches as it takes, and the next one begins where it ended", async () => {
  await w.store.write("scans", async ({ db }) => {
    await db.run(sql`
      WITH RECURSIVE row (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < ${sql.raw(String(ROWS))})
      INSERT INTO scans (id, tenant_id, product_id, gtin, serial, at, agent)
      SELECT substr(cast(100000 + n AS text), 2), 't', 'p', 'g', CASE WHEN n % ${sql.raw(String(EACH))} = 1 THEN 'rare' ELSE 'common' END, ${sql.raw(String(Date.now()))}, 'program' FROM row`);
  });
  const page = async (serial: string, limit: number, after?: string) => {
    const list = { table: scans, key: scans.id, whole: eq(scans.tenantId, "t"), fits: eq(scans.serial, serial) };
    return (await lookedThrough(w.store, "look", { limit, after }, list)).rows.map(({ id }) => id);
  };
  const rare = Array.from({ length: ROWS / EACH }, (_, i) => idOf(ROWS + 1 - (i + 1) * EACH));
  expect(await page("rare", 4)).toEqual(rare.slice(0, 5)); // one more than asked for: there are more
  expect(await page("rare", 200, rare[4])).toEqual(rare.slice(5));
  expect(await page("rare", 200)).toEqual(rare);
  expect(await page("common", 2)).toEqual([idOf(ROWS), idOf(ROWS - 1), idOf(ROWS - 2)]);
  expect(await page("nobody", 2)).toEqual([]);
  /** Rows of so many bytes each: which, and how many of them are the page. */
  const heavy = async (bytes: number, after?: string) => {
    const list = { table: scans, key: scans.id, whole: eq(scans.tenantId, "t"), fits: eq(scans.serial, "rare") };
    const size = sql<number>`${sql.raw(String(bytes))}`;
    const { rows, limit } = await lookedThrough(w.store, "look", { limit: 200, after }, { ...list, bytes: size });
    return [rows.map(({ id }) => id), limit];
  };
  expect(await heavy(limits.PAGE_MAX_BYTES)).toEqual([rare.slice(0, 2), 1]);
  expect(await heavy(limits.PAGE_MAX_BYTES / 2)).toEqual([rare.slice(0, 3), 2]); // the third stands a stretch further on
  expect(await heavy(limits.PAGE_MAX_BYTES / 2, rare.at(-3))).toEqual([rare.slice(-2), 2]);
});

test("how many products each category has is counted whole, a stretch a unit, so that others are answered meanwhile", async () => {
  const { id } = (await w.admin.post("/products", productOf({ gtin: gtinOf(640_001) }))).body;
  const copies = 20_000;
  await w.store.write("products", ({ db }) =>
    db.run(sql`
      WITH RECURSIVE row (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < ${sql.raw(String(copies))})
      INSERT INTO products (tenant_id, id, identity, gtin, serial_number, granularity, category, name, name_folded, description, extensions,
        schema_version, stage, version, serials, printed, passports, created_at, updated_at)
      SELECT tenant_id, 'copy-' || n, 'copy-' || n, gtin, serial_number, granularity, CASE WHEN n % 3 = 0 THEN 'textile' ELSE category END, name,
        name_folded, description, extensions, schema_version, stage, version, serials, printed, passports, created_at, updated_at
      FROM products CROSS JOIN row WHERE id = ${id}`),
  );
  const asked = async () => (await w.admin.get("/products/categories")).body.data as { category: string; products: number }[];
  const counts = Object.fromEntries((await asked()).map(({ category, products }) => [category, products]));
  expect(counts).toMatchObject({ electronics: copies + 1 - Math.floor(copies / 3), textile: Math.floor(copies / 3), furniture: 0 });
  let units = 0;
  const watched: Store = { ...w.store, read: (label, work) => ((units += 1), w.store.read(label, work)) };
  const { data } = await uses(watched, { ...anonymous, tenantId: DEFAULT_TENANT }, {});
  expect(Object.fromEntries(data.map(({ category, products }) => [category, products]))).toEqual(counts);
  expect(units).toBeGreaterThan(engine === "sqlite" ? copies / 4_096 : 0); // a server counts beside us
});
