// Carriers: serials that never repeat and can't be guessed, the file that printers work from, and what is reported back.
import { randomBytes } from "node:crypto";
import { integer, property, assert as holds } from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeSgtin96 } from "#shared/gs1.ts";
import { limits } from "#shared/limits.ts";
import { exported } from "../../cloud/domain/carriers.ts";
import { afterRestore, warnOfSerials } from "../../cloud/domain/restored.ts";
import { permuted, placeOf, SERIALS_OF_A_TENANT, serialsAt } from "../../cloud/domain/serial-numbers.ts";
import { DEFAULT_TENANT } from "../../cloud/domain/tenants.ts";
import { and, eq, inArray, sql } from "../../cloud/store/drizzle.ts";
import { counters, serialCounters, serials } from "../../cloud/store/schema.ts";
import { startDistance } from "../../fixtures/distance.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { productMaker } from "../../fixtures/publishing.ts";
import { turnsOf } from "../../fixtures/turns.ts";
import { engine, freshDatabase, world } from "../world.ts";

const w = await world();
const shop = await printShop(w);
const { admin, product } = shop;
const exportOf = (more = "") => admin.get(`/carriers/export?productId=${product.id}${more}`);
const rowsOf = (csv: string) =>
  csv
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => line.split(","));
const report = (results: object[], headers = {}) => admin.post("/carriers/print-status", { results }, headers);

describe("serials", () => {
  test("10,000 in one call: numeric, without leading zeros, within 38 bits, none twice, and not in a row", async () => {
    const home = await printShop(w);
    const all = [...(await home.allocate(10_000)), ...(await home.allocate(10_000))];
    expect(new Set(all).size).toBe(20_000);
    expect(all.every((serial) => /^[1-9][0-9]*$/.test(serial) && Number(serial) < 2 ** 38)).toBe(true);
    const steps = new Set(all.slice(1).map((serial, i) => Number(serial) - Number(all[i])));
    expect(steps.size).toBeGreaterThan(19_990);
    expect((await home.admin.get(`/products/${home.product.id}`)).body.version).toBe(home.product.version + 3); // no version of its own
  });

  test("the permutation is one: no two places give the same number, and 0 is never given out", () => {
    const secret = randomBytes(32);
    holds(
      property(integer({ min: 1, max: 2 ** 38 - 20_000 }), (from) => {
        const made = serialsAt(secret, from, 500);
        expect(new Set(made).size).toBe(500);
        expect(made.every((serial) => Number(serial) >= 1 && Number(serial) < 2 ** 38)).toBe(true);
      }),
      { numRuns: 20 },
    );
    expect(new Set(permuted(secret, [0, 1, 2 ** 38 - 1])).size).toBe(3);
    expect(serialsAt(randomBytes(32), 1, 100)).not.toEqual(serialsAt(secret, 1, 100));
  });

  test("the place of a serial is found again, also of the one that stands where 0 would come out; what is no serial has none", () => {
    const secret = randomBytes(32);
    holds(
      property(integer({ min: 1, max: SERIALS_OF_A_TENANT }), (place) => {
        expect(placeOf(secret, serialsAt(secret, place, 1)[0] ?? "")).toBe(place);
      }),
      { numRuns: 200 },
    );
    const standsForZero = placeOf(secret, String(permuted(secret, [0])[0])) ?? 0;
    expect(permuted(secret, [standsForZero])).toEqual([0]);
    for (const word of ["", "0", "007", "-1", "1.5", "1e3", " 1", "12a", String(2 ** 38), "9".repeat(64)])
      expect([word, placeOf(secret, word)]).toEqual([word, undefined]);
  });

  test("two calls at once share none", async () => {
    const home = await printShop(w);
    const many = (await Promise.all(Array.from({ length: 8 }, () => home.allocate(200)))).flat();
    expect(new Set(many).size).toBe(1_600);
  });

  test.each([0, 10_001, 1.5, -1, "3", null])("a count of %j is refused", async (count) => {
    expect((await admin.post("/carriers/batch", { productId: product.id, count })).status).toBe(400);
  });

  test("the same Idempotency-Key allocates once", async () => {
    const call = () => admin.post("/carriers/batch", { productId: product.id, count: 3 }, { "idempotency-key": "three" });
    const [first, second] = [await call(), await call()];
    expect([second.status, second.body, second.headers.get("idempotency-replayed")]).toEqual([201, first.body, "true"]);
  });

  test("a voided product gets none; a foreign one is not there", async () => {
    const home = await printShop(w);
    expect((await admin.post("/carriers/batch", { productId: home.product.id, count: 1 })).status).toBe(404);
    await home.admin.post(`/products/${home.product.id}/void`, { reason: "recalled" });
    const answer = await home.admin.post("/carriers/batch", { productId: home.product.id, count: 1 });
    expect([answer.status, answer.body.error.code]).toEqual([409, "ALREADY_VOIDED"]);
  });

  test("a GTIN that serials alone hang on can't change either, where there is no passport yet", async () => {
    const home = await printShop(w);
    const { id } = await productMaker(home.admin)({ gtin: gtinOf(770_003) }, "none");
    const move = async (gtin: string) => (await home.admin.patch(`/products/${id}`, { gtin })).body.error?.code;
    expect(await move(gtinOf(770_004))).toBeUndefined();
    await home.admin.post("/carriers/batch", { productId: id, count: 1 });
    expect(await move(gtinOf(770_003))).toBe("SCHEME_LOCKED");
  });

  test("a GTIN that serials hang on can't change", async () => {
    const answer = await admin.patch(`/products/${product.id}`, { gtin: "09506000134352" });
    expect([answer.status, answer.body.error.code]).toEqual([409, "SCHEME_LOCKED"]);
  });
});

describe("the export", () => {
  test("is CSV by default: GTIN, serial, link and EPC, in the order of allocation", async () => {
    const home = await printShop(w);
    const serials = await home.allocate(2_500);
    const answer = await home.admin.get(`/carriers/export?productId=${home.product.id}`);
    expect(answer.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(answer.text.split("\n")[0]).toBe("gtin,serial,digital_link,sgtin96_epc");
    const rows = rowsOf(answer.text);
    expect(rows.map(([, serial]) => serial)).toEqual(serials);
    for (const [gtin, serial, link, epc = ""] of rows.slice(0, 50)) {
      expect([gtin, link]).toEqual([home.gtin, `${w.url}/01/${home.gtin}/21/${serial}`]);
      expect(decodeSgtin96(epc)).toMatchObject({ gtin, serial, filter: 1, companyPrefixLength: 7 });
    }
  });

  test("takes the longest company prefix that fits, and leaves the EPC empty where none does", async () => {
    const home = await printShop(w);
    const epc = async (prefixes: string[]) => {
      await home.admin.patch("/tenant", { companyPrefixes: prefixes });
      return rowsOf((await home.admin.get(`/carriers/export?productId=${home.product.id}`)).text)[0]?.[3];
    };
    await home.allocate(1);
    const digits = home.gtin.slice(1);
    expect(decodeSgtin96((await epc([digits.slice(0, 6), digits.slice(0, 9), "999999"])) ?? "").companyPrefixLength).toBe(9);
    expect(await epc(["999999"])).toBe("");
    expect(await epc([digits.slice(1, 8)])).toBe(""); // it has to begin there, not only to occur
  });

  test("has no voided serial among what is to print, nor among all; what was printed stays so", async () => {
    const home = await printShop(w);
    const [kept = "", blank = "", printed = "", failed = ""] = await home.allocate(4);
    const results = [
      { serial: printed, status: "printed" },
      { serial: failed, status: "failed" },
    ];
    await home.admin.post("/carriers/print-status", { results });
    for (const serial of [blank, printed, failed])
      await home.admin.post(`/products/${home.product.id}/void`, { serial, reason: "scratched" });
    const shown = async (more = "") =>
      rowsOf((await home.admin.get(`/carriers/export?productId=${home.product.id}${more}`)).text).map(([, serial]) => serial);
    expect(await shown()).toEqual([kept]);
    expect(await shown("&printState=pending")).toEqual([kept]);
    expect(await shown("&printState=failed")).toEqual([]);
    expect(await shown("&printState=printed")).toEqual([printed]);
  });

  test("is JSON when asked, empty products included", async () => {
    const home = await printShop(w);
    const json = async () => (await home.admin.get(`/carriers/export?productId=${home.product.id}&format=json`)).body;
    expect(await json()).toEqual({ data: [] });
    const [serial] = await home.allocate(1);
    expect(await json()).toEqual({
      data: [{ gtin: home.gtin, serial, digital_link: expect.any(String), sgtin96_epc: expect.any(String), metadata: { print: null } }],
    });
  });

  test("looks through so many places at a time, however few are in the state, and others get a turn in between", async () => {
    const home = await printShop(w);
    const serials = await home.allocate(10_000);
    const [early = "", late = "", last = ""] = [serials[1_999], serials[7_000], serials[9_999]];
    await home.admin.post("/carriers/print-status", { results: [late, last, early].map((serial) => ({ serial, status: "printed" })) });
    const { counted, end } = turnsOf(w.store);
    const credential = { kind: "system" as const, id: "test", name: "test" };
    const from = { tenantId: home.tenantId, credential, productId: home.product.id, state: "printed" as const };
    const rows = (await Array.fromAsync(await exported(counted, from, w.url))).flat();
    const [, ...slices] = end(); // the first looks at the product
    expect(rows.map(({ serial }) => serial)).toEqual([early, late, last]);
    expect(slices).toHaveLength(6);
    expect(new Set(slices).size).toBe(slices.length);
  });

  test("goes on one at a time, however many are asked for", async () => {
    const MANY = 12;
    const home = await printShop(w);
    await home.allocate(10_000);
    const { counted, end } = turnsOf(w.store);
    const credential = { kind: "system" as const, id: "test", name: "test" };
    const from = { tenantId: home.tenantId, credential, productId: home.product.id, state: undefined };
    const wholeOf = async () => (await Array.fromAsync(await exported(counted, from, w.url))).flat().length;
    expect(await Promise.all(Array.from({ length: MANY }, wholeOf))).toEqual(Array.from({ length: MANY }, () => 10_000));
    const later = end().slice(2 * MANY); // each looks at the product, and begins
    const inOne = Object.values(Object.groupBy(later, String)).map((slices) => slices?.length ?? 0);
    expect(Math.max(...inOne)).toBeLessThan(MANY / 2);
  });

  test("breaks off where the key that asked for it dies meanwhile", async () => {
    const home = await printShop(w);
    for (let i = 0; i < 4; i += 1) await home.allocate(10_000); // more than lies ready on the way to a reader
    const { id, secret } = (await home.admin.post("/api-keys", { name: "export", scopes: ["production:view"] })).body.data;
    const headers = { authorization: `Bearer ${secret}` };
    const { body } = await fetch(`${w.url}/api/v2/carriers/export?productId=${home.product.id}&format=json`, { headers });
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    await home.admin.delete(`/api-keys/${id}`);
    const rest = async () => {
      while (!(await reader.read()).done);
    };
    await expect(rest()).rejects.toThrow("terminated");
  });

  test("of another tenant's product is 404, of an unknown printState 422, with an unknown parameter 400", async () => {
    const home = await printShop(w);
    expect((await home.admin.get(`/carriers/export?productId=${product.id}`)).status).toBe(404);
    for (const word of ["lost", "x".repeat(100), ""]) {
      const answer = await exportOf(`&printState=${word}`);
      expect([answer.status, answer.body.error.code]).toEqual([422, "INVALID_PRINT_STATE"]);
    }
    expect((await exportOf("&state=failed")).status).toBe(400);
  });
});

describe("print-status", () => {
  test("known outcomes stand, unknown serials are named, and the re-print file is exactly what failed", async () => {
    const home = await printShop(w);
    const [one = "", two = "", three = "", four = ""] = await home.allocate(4);
    const answer = await home.admin.post("/carriers/print-status", {
      results: [
        { serial: one, status: "failed", reason: "smudged" },
        { serial: two, status: "failed", reason: "torn", deviceId: "zd-1" },
        { serial: "99", status: "printed" },
        { serial: one, status: "printed", deviceId: "zd-2" },
      ],
    });
    expect(answer.body).toEqual({
      updated: [one, two],
      unknown: ["99"],
      printed: [one],
      failed: [two],
      reportedAt: expect.any(String),
      events: [
        { type: "print.confirmed", webhooksNotified: 0 },
        { type: "print.failed", webhooksNotified: 0 },
      ],
    });
    const serialsIn = async (state: string) =>
      rowsOf((await home.admin.get(`/carriers/export?productId=${home.product.id}&printState=${state}`)).text).map(([, serial]) => serial);
    expect([await serialsIn("printed"), await serialsIn("failed"), await serialsIn("pending")]).toEqual([[one], [two], [three, four]]);
    expect((await home.admin.get(`/carriers/${two}`)).body.metadata.print).toEqual({
      status: "failed",
      reason: "torn",
      deviceId: "zd-1",
      reportedAt: answer.body.reportedAt,
    });
    await home.admin.post(`/products/${home.product.id}/void`, { serial: two, reason: "torn for good" });
    expect(await serialsIn("failed")).toEqual([]);
  });

  test("what is no serial at all is unknown as well, and empty text is none: the other outcomes stand", async () => {
    const home = await printShop(w);
    const [one = "", two = ""] = await home.allocate(2);
    const link = (await home.admin.get(`/carriers/${one}`)).body.digital_link;
    const unknown = [`${link}?${"x".repeat(100)}`, "7".repeat(65), "é 😀"];
    const results = [
      ...unknown.map((serial) => ({ serial, status: "printed" })),
      { serial: one, status: "printed", reason: "", deviceId: "" },
      { serial: two, status: "failed", reason: "" },
    ];
    const { status, body } = await home.admin.post("/carriers/print-status", { results });
    expect([status, body.unknown, body.printed, body.failed]).toEqual([200, unknown, [one], [two]]);
    expect((await home.admin.get(`/carriers/${one}`)).body.metadata.print).toMatchObject({
      status: "printed",
      reason: null,
      deviceId: null,
    });
    const again = await home.admin.post("/carriers/print-status", { results });
    expect([again.headers.get("idempotency-replayed"), again.body]).toEqual(["true", body]);
  });

  test("a thousand failures with the longest reasons are one call's, whatever their script", async () => {
    const home = await printShop(w);
    const serials = await home.allocate(1_000);
    const results = serials.map((serial) => ({ serial, status: "failed", reason: "\u{1f5b6}".repeat(1_000) }));
    const answer = await home.admin.post("/carriers/print-status", { results });
    expect([answer.status, answer.body.failed?.length]).toEqual([200, 1_000]);
  });

  test("voiding one serial is told as a change of its product, and is never the model, whatever number that has", async () => {
    const home = await printShop(w);
    const [one = "", two = ""] = await home.allocate(2);
    const { version } = (await home.admin.patch(`/products/${home.product.id}`, { serialNumber: one })).body;
    const voided = (serial: string) => home.admin.post(`/products/${home.product.id}/void`, { serial, reason: "scratched" });
    expect((await voided("K17-0001")).body.error.code).toBe("SERIAL_NOT_ALLOCATED");
    const answer = await voided(one);
    expect([answer.status, answer.body.voidedAt, answer.body.version]).toEqual([200, null, version + 1]);
    const said = (await home.admin.get(`/products/${home.product.id}/versions?limit=4`)).body.data;
    expect(said[0]).toMatchObject({ type: "product.updated", changed: [], serial: one, reason: "scratched" });
    expect(said.find(({ type }: { type: string }) => type === "product.published")).toMatchObject({ changed: [], passportVersion: 1 });
    expect((await home.admin.get(`/products/${home.product.id}/events`)).body.data.at(-1)).toMatchObject({
      type: "product.updated",
      data: { serial: one, reason: "scratched", changed: [] },
    });
    const linkOf = (serial: string) => w.nobody.get(`//01/${home.gtin.padStart(14, "0")}/21/${serial}`);
    expect([(await linkOf(one)).status, (await linkOf(two)).status]).toEqual([410, 302]);
    expect((await home.admin.post("/aidc/jobs", { gtin: home.gtin, serial: two })).status).toBe(201);
    expect((await voided(one)).body.error.code).toBe("ALREADY_VOIDED");
  });

  test("a serial that hangs on a lot is voided by way of its model, too, and both tell of it", async () => {
    const home = await printShop(w);
    const lot = await productMaker(home.admin)({ gtin: home.gtin, granularity: "batch", serialNumber: "L-1" }, "none");
    const { serials } = (await home.admin.post("/carriers/batch", { productId: lot.id, count: 1 })).body;
    const [serial] = serials as [string];
    const said = { serial, reason: "scratched" };
    expect((await home.admin.post(`/products/${home.product.id}/void`, said)).status).toBe(200);
    for (const id of [home.product.id, lot.id])
      expect((await home.admin.get(`/products/${id}/events`)).body.data.at(-1)).toMatchObject({ type: "product.updated", data: said });
    expect((await home.admin.get(`/products/${lot.id}`)).body).toMatchObject({ version: 2, voidedAt: null });
  });

  test("serials of a product that was deleted are refused as that, whoever has its GTIN now", async () => {
    const home = await printShop(w);
    const { productName: name, productDescription: description, ...rest } = (await home.admin.get(`/products/${home.product.id}`)).body;
    const { category, serialNumber, extensions } = rest;
    const item = { name, description, category, serialNumber, extensions, gtin: gtinOf(770_001) };
    const { id } = (await home.admin.post("/products", item)).body;
    const { serials } = (await home.admin.post("/carriers/batch", { productId: id, count: 1 })).body;
    expect((await home.admin.delete(`/products/${id}`)).status).toBe(204);
    expect((await home.admin.post("/products", item)).status).toBe(201);
    const { error } = (await home.admin.post("/aidc/jobs", { gtin: item.gtin, serial: serials[0] })).body;
    expect([error.code, error.message]).toEqual(["SERIAL_NOT_ALLOCATED", expect.stringContaining("was deleted since")]);
  });

  test.each(["printed", "failed"])("a product isn't deleted once another system says that a label of it was %s", async (status) => {
    const home = await printShop(w);
    const { id } = await productMaker(home.admin)({ gtin: gtinOf(770_002) }, "none");
    const { serials } = (await home.admin.post("/carriers/batch", { productId: id, count: 1 })).body;
    await home.admin.post("/carriers/print-status", { results: [{ serial: serials[0], status }] });
    expect((await home.admin.delete(`/products/${id}`)).body.error?.code).toBe("PRODUCT_REFERENCED");
  });

  test("many batches about the same serials, crosswise, are all taken, each told in its own order", async () => {
    const home = await printShop(w);
    const serials = await home.allocate(100);
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, i) => {
        const named = i % 2 === 0 ? serials : serials.toReversed();
        const results = named.map((serial) => ({ serial, status: "failed", reason: `smudged by ${i}` }));
        return home.admin.post("/carriers/print-status", { results });
      }),
    );
    for (const [i, { status, body }] of answers.entries())
      expect([status, body.updated]).toEqual([200, i % 2 === 0 ? serials : serials.toReversed()]);
    const { data } = (await home.admin.get(`/carriers/export?productId=${home.product.id}&format=json`)).body;
    const reasons = new Set(data.map(({ metadata }: { metadata: { print: { reason: string } } }) => metadata.print.reason));
    expect(reasons.size).toBe(1); // the last batch whole, and no mixture
  });

  test("a later outcome replaces the earlier one wholesale", async () => {
    const [serial = ""] = await shop.allocate(1);
    await report([{ serial, status: "failed", reason: "torn", deviceId: "zd-1" }]);
    await report([{ serial, status: "printed" }]);
    expect((await admin.get(`/carriers/${serial}`)).body.metadata.print).toMatchObject({ status: "printed", reason: null, deviceId: null });
  });

  test("the same batch again replays; A, B and A again is news", async () => {
    const [serial = ""] = await shop.allocate(1);
    const [a, b] = [[{ serial, status: "failed" }], [{ serial, status: "printed" }]];
    const first = await report(a);
    w.later(1_000);
    const again = await report(a);
    expect([again.headers.get("idempotency-replayed"), again.body]).toEqual(["true", first.body]);
    await report(b);
    const back = await report(a);
    expect(back.headers.get("idempotency-replayed")).toBe(null);
    expect(back.body.reportedAt > first.body.reportedAt).toBe(true);
    expect((await admin.get(`/carriers/${serial}`)).body.metadata.print.status).toBe("failed");
  });

  test("the same batch again replays as long as another changed none of its outcomes", async () => {
    const [one = "", two = "", three = ""] = await shop.allocate(3);
    const said = (...serials: string[]) => serials.map((serial) => ({ serial, status: "failed", reason: "torn" }));
    const first = await report(said(one, two));
    w.later(1_000);
    await report(said(two, three));
    const again = await report(said(one, two));
    expect([again.headers.get("idempotency-replayed"), again.body]).toEqual(["true", first.body]);
    for (const change of [{ reason: "smudged" }, { reason: "torn", deviceId: "zd-2" }]) {
      await report([{ serial: two, status: "failed", ...change }]);
      expect((await report(said(one, two))).headers.get("idempotency-replayed")).toBe(null);
    }
  });

  test("the same batch again is news once a job has had its word on the label, though it says the same of it", async () => {
    const { device, gtin, ...home } = await printShop(w);
    const [serial = ""] = await home.allocate(1);
    const say = () => home.admin.post("/carriers/print-status", { results: [{ serial, status: "printed", deviceId: device.id }] });
    await say();
    await home.admin.post("/aidc/jobs", { gtin, serial });
    await device.seal(await device.claim());
    expect((await say()).headers.get("idempotency-replayed")).toBe(null);
    expect((await say()).headers.get("idempotency-replayed")).toBe("true");
  });

  test("a key of one's own makes an identical batch a request of its own", async () => {
    const [serial = ""] = await shop.allocate(1);
    const batch = [{ serial, status: "printed" }];
    await report(batch);
    w.later(1_000);
    const keyed = await report(batch, { "idempotency-key": `own ${serial}` });
    expect(keyed.headers.get("idempotency-replayed")).toBe(null);
    expect((await report(batch, { "idempotency-key": `own ${serial}` })).headers.get("idempotency-replayed")).toBe("true");
    expect((await report([{ serial, status: "failed" }], { "idempotency-key": `own ${serial}` })).status).toBe(409);
  });

  test("an unknown serial that is allocated meanwhile makes the same batch news", async () => {
    const home = await printShop(w);
    const guess = [{ serial: "123", status: "printed" }];
    expect((await home.admin.post("/carriers/print-status", { results: guess })).body.unknown).toEqual(["123"]);
    await w.store.write("allocated", async ({ db, now }) => {
      const { serials } = await import("../../cloud/store/schema.ts");
      const row = { tenantId: home.tenantId, serial: "123", gtin: home.gtin, productId: home.product.id, n: 1, createdAt: now };
      await db.insert(serials).values(row);
    });
    const more = [...guess, { serial: "456", status: "printed" }]; // that has it as it was guessed
    for (const results of [more, guess])
      expect((await home.admin.post("/carriers/print-status", { results })).body.updated).toEqual(["123"]);
  });

  test("tells nothing of another tenant's serials", async () => {
    const home = await printShop(w);
    const [serial = ""] = await shop.allocate(1);
    expect((await home.admin.post("/carriers/print-status", { results: [{ serial, status: "failed" }] })).body).toMatchObject({
      updated: [],
      unknown: [serial],
    });
    expect((await admin.get(`/carriers/${serial}`)).body.metadata.print).toBe(null);
    expect((await home.admin.get(`/carriers/${serial}`)).status).toBe(404);
    const nowhere = { results: [{ serial: "987654321", status: "failed" }] };
    for (const each of [home.admin, admin])
      expect((await each.post("/carriers/print-status", nowhere)).headers.get("idempotency-replayed")).toBe(null); // what one said isn't said for the other
  });

  test.each([
    ["none", []],
    ["1,001", Array.from({ length: 1_001 }, (_, i) => ({ serial: String(i + 1), status: "printed" }))],
    ["another state", [{ serial: "1", status: "pending" }]],
    ["a number for a serial", [{ serial: 1, status: "printed" }]],
    ["a field nobody knows", [{ serial: "1", status: "printed", state: "x" }]],
  ])("%s is refused", async (_what, results) => {
    expect((await report(results as object[])).status).toBe(400);
  });
});

test("a restore by a clock that is decades ahead leaves serials to give out", async () => {
  const home = await printShop(w);
  expect(await home.allocate(1)).toHaveLength(1);
  await w.store.write("restored", (tx) => afterRestore(tx, { takenAt: "1950-01-01T00:00:00.000Z", logSize: 0 }));
  expect(await home.allocate(1)).toHaveLength(1);
});

test.each([
  ["an hour ago", 3_600],
  ["in this very second", 0.02],
])(
  "a restore leaves out serials and places in status lists, more of them the longer ago the backup was taken: %s",
  async (_when, seconds) => {
    const home = await printShop(w);
    await home.allocate(1);
    const next = () =>
      w.store.read("next", async ({ db }) => {
        const [serial] = await db.select().from(serialCounters).where(eq(serialCounters.tenantId, home.tenantId));
        const [credential] = await db.select().from(counters).where(eq(counters.name, "credential_status"));
        return [serial?.next ?? 0, credential?.value ?? 0] as const;
      });
    const before = await next();
    await w.store.write("restored", (tx) => afterRestore(tx, { takenAt: new Date(tx.now - seconds * 1_000).toISOString(), logSize: 0 }));
    const after = await next();
    expect([after[0] - before[0], after[1] - before[1]]).toEqual([
      limits.RESTORE_SKIP_SERIALS + seconds * limits.RESTORE_SKIP_SERIALS_PER_S,
      limits.RESTORE_SKIP_CREDENTIALS + seconds * limits.RESTORE_SKIP_CREDENTIALS_PER_S,
    ]);
  },
);

test("after a restore every serial of a tenant warns its next job, however many there are; a voided one needs no warning", async () => {
  const { tenantId } = await printShop(w);
  const count = 100_003; // more than one slice takes
  await w.store.write("very many", ({ db }) =>
    db.run(sql`INSERT INTO serials (tenant_id, serial, gtin, product_id, n, voided_at, created_at)
      WITH RECURSIVE places (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM places WHERE n < ${count})
      SELECT ${tenantId}, CAST(1000000 + n AS TEXT), 'g', 'p', n, CASE WHEN n = 7 THEN 1 ELSE NULL END, 1 FROM places`),
  );
  const warnFrom = (after: string) => w.store.write("restored", (tx) => warnOfSerials(tx, tenantId, after));
  for (let after: string | undefined = ""; after !== undefined;) after = await warnFrom(after);
  const left = await w.store.read("left", ({ db }) =>
    db.values<[string]>(sql`SELECT serial FROM serials WHERE tenant_id = ${tenantId} AND stray_job IS NULL`),
  );
  expect(left).toEqual([["1000007"]]);
});

describe("labels that a restore has lost", () => {
  type Home = Awaited<ReturnType<typeof printShop>>;
  const lose = async ({ tenantId, ...home }: Home, count: number): Promise<string[]> => {
    const lost = await home.allocate(count);
    for (const serial of lost)
      await w.store.write("restored", ({ db }) =>
        db.delete(serials).where(and(eq(serials.tenantId, tenantId), eq(serials.serial, serial))),
      );
    return lost;
  };
  const recover = (home: Home, labels: object[], by = home.admin) => by.post("/carriers/recover", { labels });
  const labelsOf = ({ gtin }: Home, some: readonly string[]) => some.map((serial) => ({ gtin, serial, reason: "sealed as pj_1" }));
  const fates = (some: readonly string[], outcome: string, message: unknown = null) => some.map((serial) => ({ serial, outcome, message }));

  test("are brought back at their places by whoever printed them, count as printed, and said again change nothing", async () => {
    const home = await printShop(w);
    const [kept = ""] = await home.allocate(1);
    const lost = await lose(home, 3);
    expect((await home.admin.get(`/carriers/${lost[0]}`)).status).toBe(404);
    const device = w.as((await home.newDevice()).secret);
    const back = await recover(home, labelsOf(home, lost), device);
    expect([back.status, back.body]).toEqual([200, { results: fates(lost, "recovered") }]);
    const shown = async () => (await Promise.all(lost.map((serial) => home.admin.get(`/carriers/${serial}`)))).map(({ body }) => body);
    const before = await shown();
    expect(before.map(({ productId, metadata: { print } }) => [productId, print.status, print.reason])).toEqual(
      lost.map(() => [home.product.id, "printed", "sealed as pj_1"]),
    );
    expect((await recover(home, labelsOf(home, lost))).body.results).toEqual(fates(lost, "known"));
    expect(await shown()).toEqual(before);
    const later = await home.allocate(2);
    const rows = rowsOf((await home.admin.get(`/carriers/export?productId=${home.product.id}`)).text);
    expect(rows.map(([, serial]) => serial)).toEqual([kept, ...lost, ...later]);
    const { job_ref: ref } = await home.issue({ serial: lost[0] });
    expect((await home.admin.get(`/aidc/jobs/${ref}`)).body.duplicate_risk).toBe(true);
    const { data } = (await home.admin.get("/audit-logs?action=print.labels_recovered")).body;
    expect(data.map(({ details }: { details: object }) => details)).toEqual([
      { recovered: 0, known: 3, refused: 0 },
      { recovered: 3, known: 0, refused: 0 },
    ]);
  });

  test("come back also where they were their tenant's first, and the backup is from before any was given out", async () => {
    const home = await printShop(w);
    const isOurs = inArray(serialCounters.tenantId, [home.tenantId, DEFAULT_TENANT]); // nor has the latter ever given one out
    const backup = await w.store.read("backup", ({ db }) => db.select().from(serialCounters).where(isOurs));
    expect(backup).toHaveLength(2);
    const lost = await lose(home, 3);
    await w.store.write("restored", async (tx) => {
      await tx.db.delete(serialCounters).where(isOurs);
      await tx.db.insert(serialCounters).values(backup);
      await afterRestore(tx, { takenAt: new Date(tx.now).toISOString(), logSize: 0 });
    });
    expect((await recover(home, labelsOf(home, lost))).body.results).toEqual(fates(lost, "recovered"));
  });

  test("are no serials that were never given out, nor another tenant's, nor those of other products", async () => {
    const [home, other] = [await printShop(w), await printShop(w)];
    const [theirs = ""] = await other.allocate(1);
    const [lost = ""] = await lose(home, 1);
    const ahead = await home.allocate(2);
    await w.store.write("not given out yet", async ({ db }) => {
      const [isOurs, isCounter] = [eq(serials.tenantId, home.tenantId), eq(serialCounters.tenantId, home.tenantId)];
      await db.delete(serials).where(and(isOurs, inArray(serials.serial, ahead)));
      await db
        .update(serialCounters)
        .set({ next: sql`${serialCounters.next} - 2` })
        .where(isCounter);
    });
    const unknown = [...ahead, theirs, "x", "007"];
    const { results } = (await recover(home, labelsOf(home, unknown))).body;
    expect(results).toEqual(fates(unknown, "refused", "it is no serial that this tenant has given out"));
    const strange = (serial: string) => ({ gtin: gtinOf(4_711), serial });
    expect((await recover(home, [strange(lost)])).body.results).toEqual(
      fates([lost], "refused", expect.stringMatching(/^no product of its GTIN is known: create it first/)),
    );
    const [kept = ""] = await home.allocate(1);
    expect((await recover(home, [strange(kept)])).body.results).toEqual(fates([kept], "refused", `its GTIN is ${home.gtin} here`));
    expect((await recover(home, labelsOf(home, [lost]), other.admin)).body.results[0].outcome).toBe("refused");
    expect((await recover(home, labelsOf(home, [lost]))).body.results).toEqual(fates([lost], "recovered"));
  });

  test("whose serials the cloud knows are said to be printed, with what there is to do about their jobs", async () => {
    const home = await printShop(w);
    const [sealed, open] = [await home.issue(), await home.issue()];
    await home.device.seal(await home.device.claim());
    const [first = "", second = ""] = [open, sealed].map(({ serial }) => serial as string);
    const { results } = (await recover(home, labelsOf(home, [first, second]))).body;
    expect(results).toEqual([
      ...fates([first], "known", `its job ${open.job_ref} is open: cancel it, or there will be two labels`),
      ...fates([second], "known", `${sealed.job_ref} sealed a label of it too: only one of the two may be about`),
    ]);
    expect((await home.admin.get(`/aidc/jobs/${open.job_ref}`)).body.duplicate_risk).toBe(true);
  });

  test("hang on the model of their GTIN, or on the product that is named", async () => {
    const home = await printShop(w);
    const lot = { name: "a lot", description: "of one GTIN", category: "electronics", extensions: home.product.extensions };
    const batch = async (gtin: string) =>
      (await home.admin.post("/products", { ...lot, gtin, serialNumber: "LOT-7", granularity: "batch" })).body;
    const lost = await lose(home, 3);
    const { id } = await batch(home.gtin);
    const [one = {}, other = {}, third = {}] = labelsOf(home, lost);
    const foreign = (await printShop(w)).product.id;
    const { results } = (await recover(home, [one, { ...other, productId: id }, { ...third, productId: foreign }])).body;
    const outcomes = new Map(results.map(({ serial, outcome }: { serial: string; outcome: string }) => [serial, outcome]));
    expect(lost.map((serial) => outcomes.get(serial))).toEqual(["recovered", "recovered", "refused"]);
    const owners = lost.slice(0, 2).map(async (serial) => (await home.admin.get(`/carriers/${serial}`)).body.productId);
    expect(await Promise.all(owners)).toEqual([home.product.id, id]);
  });

  test("are told one after another by two who tell them at once", async () => {
    const home = await printShop(w);
    const lost = await lose(home, 20);
    const told = await Promise.all([lost, lost.toReversed()].map((some) => recover(home, labelsOf(home, some))));
    expect(told.map(({ status }) => status)).toEqual([200, 200]);
    const outcomes = told.map(({ body }) => new Set(body.results.map(({ outcome }: { outcome: string }) => outcome)));
    expect(new Set(outcomes.flatMap((some) => [...some]))).toEqual(new Set(["recovered", "known"]));
  });

  test.skipIf(engine === "sqlite")(
    "come back in one call, as many as it takes, where the store is far away",
    async (t) => {
      const near = (await freshDatabase()) ?? "";
      const distance = await startDistance(near, 4);
      t.onTestFinished(distance.end);
      const far = await world({ databaseUrl: Object.assign(new URL(near), { host: new URL(distance.url).host }).href });
      t.onTestFinished(far.close);
      const home = await printShop(far);
      const lost = await home.allocate(limits.PRINT_OUTCOMES_MAX_ITEMS);
      await far.store.write("restored", ({ db }) => db.delete(serials));
      const back = await recover(home, labelsOf(home, lost));
      expect([back.status, back.body]).toEqual([200, { results: fates(lost, "recovered") }]);
    },
    120_000,
  );
});
