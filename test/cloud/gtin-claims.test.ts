// Who speaks for a GTIN: the first tenant that publishes it, whichever part of it, also when two try at the same instant.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { SQL } from "drizzle-orm";
import { eq, sql } from "../../cloud/store/drizzle.ts";
import { claim } from "../../cloud/domain/gtin-claims.ts";
import * as passports from "../../cloud/domain/passports.ts";
import { products } from "../../cloud/store/schema.ts";
import type { By } from "../../cloud/domain/events.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { draftPassport, publish } from "../../fixtures/passports.ts";
import { engine, world } from "../world.ts";

const w = await world();
const { id: otherId, admin: other } = await w.tenant("other");
let n = 590_000;

test("a model and an item of one GTIN, published by two tenants at once: one of them wins", async () => {
  for (let i = 0; i < 8; i += 1) {
    const gtin = gtinOf((n += 1));
    const [model, item] = [await draftPassport(w.admin, { gtin, granularity: "model" }), await draftPassport(other, { gtin })];
    const both = await Promise.all([publish(w.admin, model.productId), publish(other, item.productId)]);
    expect(new Set(both.map(({ body }) => body.error?.code ?? "published"))).toEqual(new Set(["published", "GTIN_CLAIMED"]));
  }
});

test("two items of one GTIN may be two tenants': only a whole GTIN takes them all", async () => {
  const gtin = gtinOf((n += 1));
  const [mine, theirs] = [
    await draftPassport(w.admin, { gtin, serialNumber: "1" }),
    await draftPassport(other, { gtin, serialNumber: "2" }),
  ];
  const both = await Promise.all([publish(w.admin, mine.productId), publish(other, theirs.productId)]);
  expect(both.map(({ status }) => status)).toEqual([200, 200]);
});

test("a serial on a publisher's labels isn't another tenant's item; who published the item first keeps it from the labels", async () => {
  const made = async (as: typeof w.admin, kettle: { gtin: string; serialNumber: string; granularity: string }) => {
    const { productId } = await draftPassport(as, kettle);
    const { serials } = (await as.post("/carriers/batch", { productId, count: 1 })).body;
    return { productId, serial: serials[0] as string };
  };
  const gtin = gtinOf((n += 1));
  const lot = await made(w.admin, { gtin, serialNumber: "L-1", granularity: "batch" });
  const item = await draftPassport(other, { gtin, serialNumber: lot.serial });
  await publish(w.admin, lot.productId);
  const target = async () => (await w.nobody.get(`//01/${gtin}/21/${lot.serial}`)).headers.get("location");
  const before = await target();
  expect((await publish(other, item.productId)).body.error?.code).toBe("GTIN_CLAIMED");
  expect([before, await target()]).toEqual(Array(2).fill(`${w.url}/p/${lot.productId}?serial=${lot.serial}`));
  const own = await draftPassport(w.admin, { gtin, serialNumber: lot.serial });
  expect((await publish(w.admin, own.productId)).status).toBe(200);

  const late = gtinOf((n += 1));
  const labels = await made(w.admin, { gtin: late, serialNumber: "L-1", granularity: "batch" });
  const early = await draftPassport(other, { gtin: late, serialNumber: labels.serial });
  expect((await publish(other, early.productId)).status).toBe(200);
  expect((await publish(w.admin, labels.productId)).body.error?.code).toBe("GTIN_CLAIMED");
});

// SQLite's plan stands in test/rules/plans.test.ts; PostgreSQL makes its own, by statistics that are older than what has just come.
test.runIf(engine === "postgres")(
  "labels are held against others' things product by product, also where the server knows none of them yet",
  async () => {
    const gtin = gtinOf((n += 1));
    const { productId } = await draftPassport(w.admin, { gtin, serialNumber: "L-0", granularity: "batch" });
    const theirs = await draftPassport(other, { gtin, serialNumber: "1" });
    expect((await publish(other, theirs.productId)).status).toBe(200);
    const plan: string[] = [];
    await w.store.write("claim", async (tx) => {
      const own = await tx.db.select().from(products).where(eq(products.id, productId)).get();
      if (!own) throw new Error("it isn't there");
      await tx.db.run(sql`INSERT INTO serials (tenant_id, serial, gtin, product_id, n, created_at)
      SELECT ${own.tenantId}, 's' || g, ${gtin}, ${productId}, -g, 1 FROM generate_series(1, 20000) g`);
      const explained = async (query: SQL) => {
        plan.push(...(await tx.db.values<[string]>(sql`EXPLAIN ${query}`)).flat());
        return tx.db.values(query);
      };
      await claim({ ...tx, db: new Proxy(tx.db, { get: (db, name) => (name === "values" ? explained : Reflect.get(db, name)) }) }, own);
    });
    expect(plan.flatMap((step) => /(?:using|on) (serials_\w+)/.exec(step)?.[1] ?? [])).toEqual(["serials_by_product"]);
  },
);

// On SQLite units follow one another, so that neither can begin in the middle of the other.
test.runIf(engine === "postgres")("who claims while another's claim isn't committed yet waits for it, and then sees it", async () => {
  const gtin = gtinOf((n += 1));
  const [model, item] = [await draftPassport(w.admin, { gtin, granularity: "model" }), await draftPassport(other, { gtin })];
  const { tenantId } = (await w.admin.get("/audit-logs?limit=1")).body.data[0];
  const by = (id: string): By => ({ tenantId: id, actor: { kind: "system", id: null, name: "test" }, requestId: "r" });
  const claimed = Promise.withResolvers<void>();
  const first = w.store.write("model", async (tx) => {
    await passports.publish(tx, by(tenantId), model.productId);
    claimed.resolve();
    await sleep(500); // long enough for the other to look, if it doesn't wait
  });
  await claimed.promise;
  const second = w.store.write("item", (tx) => passports.publish(tx, by(otherId), item.productId));
  await expect(second).rejects.toMatchObject({ code: "GTIN_CLAIMED" });
  await first;
});
