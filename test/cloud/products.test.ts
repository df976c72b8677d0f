// Products: the rows of the spec's tables, each by name.
import { expect, test } from "vitest";
import { sql } from "drizzle-orm";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { world } from "../world.ts";

const w = await world();
let n = 0;
const freshGtin = (): string => gtinOf((n += 1));
const extensions = { energyEfficiencyClass: "A", weeeCategory: "small_equipment" };
const kettle = (more: Record<string, unknown> = {}) => productOf({ gtin: freshGtin(), serialNumber: "SN-1", extensions, ...more });
const create = async (more: Record<string, unknown> = {}) => {
  const answer = await w.admin.post("/products", kettle(more));
  expect([answer.status, answer.text]).toEqual([201, expect.any(String)]);
  return answer.body;
};
const refusal = ({ status, body }: { status: number; body: { error?: { code: string; details?: { fields?: { field: string }[] } } } }) => [
  status,
  body.error?.code,
  ...(body.error?.details?.fields?.map(({ field }) => field) ?? []),
];
const move = (id: string, stage: string, more = {}) => w.admin.post(`/products/${id}/lifecycle/transition`, { stage, ...more });

test("a product is created unwrapped, renamed, as a draft, with its GTIN in 14 digits", async () => {
  const { status, body, headers } = await w.admin.post("/products", kettle({ gtin: "4006381333931" }));
  expect([status, headers.get("location"), headers.get("etag")]).toEqual([201, `/api/v2/products/${body.id}`, '"1"']);
  expect(body).toMatchObject({
    productName: "Kettle",
    productDescription: "A kettle of 1.7 litres",
    gtin: "04006381333931",
    status: "Draft",
    stage: "draft",
    version: 1,
  });
  expect((await w.admin.get(`/products/${body.id}`)).body).toEqual(body);
});

test.each([
  ["description shorter than 10 characters", { description: "too short" }, [400, "VALIDATION_ERROR", "description"]],
  [
    "description shorter, and no extensions",
    { description: "short", extensions: undefined },
    [400, "VALIDATION_ERROR", "description", "extensions"],
  ],
  ["extensions missing", { extensions: undefined }, [422, "EXTENSIONS_REQUIRED"]],
  ["extensions missing in an unknown category", { extensions: undefined, category: "toys" }, [422, "EXTENSIONS_REQUIRED"]],
  ["category unknown", { category: "toys" }, [422, "SCHEMA_NOT_FOUND"]],
  ["category named, not in effect", { category: "vehicle" }, [422, "SCHEMA_NOT_FOUND"]],
  ["category without effect and serial too long", { category: "dpp", serialNumber: "x".repeat(21) }, [422, "SCHEMA_NOT_FOUND"]],
  ["serial longer than 20 characters", { serialNumber: "x".repeat(21) }, [400, "VALIDATION_ERROR", "serialNumber"]],
  ["serial with a space", { serialNumber: "a b" }, [400, "VALIDATION_ERROR", "serialNumber"]],
  ["serial that is a dot", { serialNumber: "." }, [400, "VALIDATION_ERROR", "serialNumber"]],
  ["serial that is two dots", { serialNumber: ".." }, [400, "VALIDATION_ERROR", "serialNumber"]],
  ["bad check digit", { gtin: "04006381333932" }, [400, "VALIDATION_ERROR", "gtin"]],
  ["letters in the GTIN", { gtin: "0400638133393X" }, [400, "VALIDATION_ERROR", "gtin"]],
  ["a GTIN of nine digits", { gtin: "400638133" }, [400, "VALIDATION_ERROR", "gtin"]],
  [
    "everything wrong at once",
    { description: "short", serialNumber: "x".repeat(600), gtin: "12", extensions: { bar: 1 } },
    [400, "VALIDATION_ERROR", "description", "serialNumber", "gtin", "extensions.bar"],
  ],
  ["a category of many letters", { category: "x".repeat(300) }, [422, "SCHEMA_NOT_FOUND"]],
  ["a description of spaces", { description: " ".repeat(20) }, [400, "VALIDATION_ERROR", "description"]],
  ["serial and GTIN both wrong", { gtin: "1", serialNumber: "." }, [400, "VALIDATION_ERROR", "serialNumber", "gtin"]],
  [
    "extensions that aren't the category's",
    { extensions: { energyEfficiencyClass: 7, colour: "red" } },
    [400, "VALIDATION_ERROR", "extensions.colour", "extensions.energyEfficiencyClass"],
  ],
  ["a WEEE category by number", { extensions: { weeeCategory: 5 } }, [400, "VALIDATION_ERROR", "extensions.weeeCategory"]],
  ["an unknown field", { colour: "red" }, [400, "VALIDATION_ERROR", "colour"]],
])("create refuses: %s", async (_what, more, expected) => {
  expect(refusal(await w.admin.post("/products", kettle(more)))).toEqual(expected);
});

test("a serial with a space is told the characters that fit, in words that read as one fault", async () => {
  const { error } = (await w.admin.post("/products", kettle({ serialNumber: "a b" }))).body;
  expect(error.message.split("; ")).toEqual([expect.stringMatching(/^serialNumber: may only have .*:;<=>/)]);
});

test("a serial that is too long is told the SGTIN-96 bound; SCHEMA_NOT_FOUND names the categories there are", async () => {
  const long = await w.admin.post("/products", kettle({ serialNumber: "x".repeat(21) }));
  expect(long.body.error.message).toContain("SGTIN-96");
  const toys = await w.admin.post("/products", kettle({ category: "toys" }));
  expect(toys.body.error.details.availableCategories).toEqual(["battery", "electronics", "furniture", "textile"]);
});

test("a substance may be a name or a thing; what is wrong within the thing is told, not that it is no name", async () => {
  const faults = async (substance: unknown) =>
    (await w.admin.post("/products", kettle({ extensions: { hazardousSubstances: [substance] } }))).body.error.details.fields.map(
      ({ field, rule }: { field: string; rule: string }) => `${field.replace("extensions.hazardousSubstances.", "")} ${rule}`,
    );
  expect(await faults({ casNumber: "7439-92-1" })).toEqual(["0.name required"]);
  expect(await faults({ name: "Lead", casNumber: "7439921", concentrationPercentage: 101 })).toEqual([
    "0.casNumber pattern",
    "0.concentrationPercentage maximum",
  ]);
  expect(await faults("")).toEqual(["0 minLength"]);
  expect(await faults(5)).toEqual(["0 type"]);
});

test("the same GTIN is a duplicate in any of its lengths, for a model; two items differ by serial", async () => {
  await create({ gtin: "73513537" });
  expect(refusal(await w.admin.post("/products", kettle({ gtin: "00000073513537" })))).toEqual([409, "DUPLICATE_GTIN"]);
  const gtin = freshGtin();
  await create({ gtin, granularity: "item", serialNumber: "1" });
  await create({ gtin, granularity: "item", serialNumber: "2" });
  expect(refusal(await w.admin.post("/products", kettle({ gtin, granularity: "item", serialNumber: "2" })))).toEqual([
    409,
    "DUPLICATE_GTIN",
  ]);
});

test("sixteen creates of one GTIN at once: exactly one 201", async () => {
  const gtin = freshGtin();
  const answers = await Promise.all(Array.from({ length: 16 }, () => w.admin.post("/products", kettle({ gtin }))));
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, ...Array.from({ length: 15 }, () => 409)]);
});

test("two products moved to one GTIN at once: one has it, the other is told", async () => {
  const [a, b, gtin] = [await create(), await create(), freshGtin()];
  const answers = await Promise.all([a, b].map(({ id }) => w.admin.patch(`/products/${id}`, { gtin })));
  expect(answers.map(({ status }) => status).toSorted((x, y) => x - y)).toEqual([200, 409]);
});

test("PATCH takes any subset, each field as a whole; PUT is the same; a change makes a version", async () => {
  const { id } = await create();
  const patched = await w.admin.patch(`/products/${id}`, { name: "Kettle XL" }, { "if-match": '"1"' });
  expect([patched.status, patched.headers.get("etag")]).toEqual([200, '"2"']);
  expect(patched.body).toMatchObject({ productName: "Kettle XL", productDescription: "A kettle of 1.7 litres", version: 2 });
  const put = await w.admin.send("PUT", `/products/${id}`, { json: { extensions: { repairabilityScore: 7.5 } } });
  expect(put.body).toMatchObject({ productName: "Kettle XL", extensions: { repairabilityScore: 7.5 }, version: 3 });
  expect(refusal(await w.admin.patch(`/products/${id}`, { description: "short" }))).toEqual([400, "VALIDATION_ERROR", "description"]);
  await w.admin.patch(`/products/${id}`, { extensions: { energyEfficiencyClass: "B" } });
  expect(refusal(await w.admin.patch(`/products/${id}`, { category: "textile" }))).toEqual([
    400,
    "VALIDATION_ERROR",
    "extensions.energyEfficiencyClass",
  ]);
});

test("a product whose ETag is known is 304 until it changes", async () => {
  const { id } = await create();
  const at = `/products/${id}`;
  const known = async (tag: string, method = "GET") => {
    const { status, text, headers } = await w.admin.send(method, at, { headers: { "if-none-match": tag } });
    return [status, text === "" ? "" : "body", headers.get("etag")];
  };
  for (const tag of ['"1"', 'W/"1"', '"7", "1"', "*"]) expect(await known(tag)).toEqual([304, "", '"1"']);
  expect([await known('"1"', "HEAD"), await known('"2"')]).toEqual([[304, "", '"1"'], [200, "body", '"1"']]); // oxfmt-ignore
  await w.admin.patch(at, { name: "Kettle 2" });
  expect(await known('"1"')).toEqual([200, "body", '"2"']);
});

test("a stale If-Match is 412, a damaged one 400, a star anything", async () => {
  const { id } = await create();
  await w.admin.patch(`/products/${id}`, { name: "Kettle 2" });
  const change = (tag: string) => w.admin.patch(`/products/${id}`, { name: "Kettle 3" }, { "if-match": tag });
  expect(refusal(await change('"1"'))).toEqual([412, "PRECONDITION_FAILED"]);
  const weak = await change('W/"2"');
  expect(refusal(weak)).toEqual([412, "PRECONDITION_FAILED"]);
  expect(weak.body.error.message).toContain('send "2"'); // a compressing proxy's client has seen no other
  expect(refusal(await change("2"))).toEqual([400, "VALIDATION_ERROR", "If-Match"]);
  const both = await w.admin.patch(`/products/${id}`, { description: "short" }, { "if-match": "2" });
  expect(both.body.error.details.fields.map(({ field }: { field: string }) => field)).toEqual(["description", "If-Match"]);
  expect((await change('"9", "2"')).status).toBe(200);
  expect((await change("*")).status).toBe(200);
});

test("the GTIN can't change once serials or a passport hang on it; anything else can", async () => {
  const { id } = await create();
  await w.store.write("allocated", async ({ db }) => void (await db.run(sql`UPDATE products SET serials = 3 WHERE id = ${id}`)));
  expect(refusal(await w.admin.patch(`/products/${id}`, { gtin: freshGtin() }))).toEqual([409, "SCHEME_LOCKED"]);
  expect((await w.admin.patch(`/products/${id}`, { name: "Another" })).status).toBe(200);
});

test("a product moves one stage at a time, with its reason on the event; what doesn't follow is refused with what does", async () => {
  const { id } = await create();
  const skip = await move(id, "ready_for_dpp");
  expect([...refusal(skip), skip.body.error.details]).toEqual([
    409,
    "ILLEGAL_TRANSITION",
    { from: "draft", to: "ready_for_dpp", allowed: ["validated"] },
  ]);
  expect((await move(id, "validated", { reason: "checked by hand" })).body).toMatchObject({ stage: "validated", status: "Validated" });
  expect(refusal(await move(id, "validated"))).toEqual([409, "ILLEGAL_TRANSITION"]);
  expect(refusal(await move(id, "draft"))).toEqual([409, "ILLEGAL_TRANSITION"]);
  expect((await move(id, "ready_for_dpp")).body).toMatchObject({ stage: "ready_for_dpp", status: "ReadyForDpp" });
  expect((await move(id, "draft")).status).toBe(200);
  expect(refusal(await move(id, "printed"))).toEqual([400, "VALIDATION_ERROR", "stage"]);
  const { data } = (await w.admin.get(`/products/${id}/events`)).body;
  expect(data[1].data).toMatchObject({ from: "draft", to: "validated", reason: "checked by hand", stage: "validated" });
});

test("a ready product with a passport can't go back to draft", async () => {
  const { id } = await create();
  await move(id, "validated");
  await move(id, "ready_for_dpp");
  await w.store.write("passport", async ({ db }) => void (await db.run(sql`UPDATE products SET passports = 1 WHERE id = ${id}`)));
  const back = await move(id, "draft");
  expect([back.status, back.body.error.details.allowed]).toEqual([409, []]);
});

test("a battery can be created and not validated", async () => {
  const { id } = await create({ category: "battery", extensions: { batteryCategory: "industrial", ratedCapacityAh: 100 } });
  expect(refusal(await move(id, "validated"))).toEqual([503, "COMPLIANCE_EVALUATION_UNAVAILABLE"]);
  expect((await w.admin.get(`/products/${id}`)).body.stage).toBe("draft");
});

test("voiding is for good, needs a reason and leaves a tombstone that nothing moves", async () => {
  const { id, serialNumber } = await create({ granularity: "item" });
  expect(refusal(await w.admin.post(`/products/${id}/void`, {}))).toEqual([400, "VALIDATION_ERROR", "reason"]);
  expect(refusal(await w.admin.post(`/products/${id}/void`, { reason: "lost", serial: "other" }))).toEqual([422, "SERIAL_NOT_ALLOCATED"]);
  const voided = await w.admin.post(`/products/${id}/void`, { reason: "fell off the lorry", serial: serialNumber });
  expect(voided.body).toMatchObject({ status: "Voided", voidReason: "fell off the lorry" });
  for (const again of [
    await w.admin.post(`/products/${id}/void`, { reason: "twice" }),
    await w.admin.patch(`/products/${id}`, { name: "Risen" }),
    await w.admin.delete(`/products/${id}`),
  ])
    expect(refusal(again)).toEqual([409, "ALREADY_VOIDED"]);
  expect((await move(id, "validated")).body.error.details).toEqual({ from: "voided", to: "validated", allowed: [] });
  const rows = (await w.admin.get("/audit-logs?action=product.voided")).body.data;
  expect(rows[0]).toMatchObject({ subject: id, details: { reason: "fell off the lorry" } });
});

test("delete is 204 and final, unless the product was in the print loop", async () => {
  const { id } = await create();
  expect((await w.admin.delete(`/products/${id}`)).status).toBe(204);
  expect(refusal(await w.admin.get(`/products/${id}`))).toEqual([404, "NOT_FOUND"]);
  expect(refusal(await w.admin.delete(`/products/${id}`))).toEqual([404, "NOT_FOUND"]);
  const printed = await create();
  await w.store.write("printed", async ({ db }) => void (await db.run(sql`UPDATE products SET printed = 1 WHERE id = ${printed.id}`)));
  expect(refusal(await w.admin.delete(`/products/${printed.id}`))).toEqual([409, "PRODUCT_REFERENCED"]);
  expect((await w.admin.post(`/products/${printed.id}/void`, { reason: "recalled" })).status).toBe(200);
});

test("every change is an event in order and a version, with correlation id, actor and what changed", async () => {
  const correlation = { "x-correlation-id": "walk-1" };
  const made = (await w.admin.post("/products", kettle(), correlation)).body;
  await w.admin.patch(`/products/${made.id}`, { name: "Renamed", description: made.productDescription }, { "x-correlation-id": "walk-2" });
  await move(made.id, "validated");
  const { data } = (await w.admin.get(`/products/${made.id}/events`)).body;
  expect(data.map(({ type }: { type: string }) => type)).toEqual(["product.created", "product.updated", "product.updated"]);
  expect(data[0]).toMatchObject({ correlationId: "walk-1", actor: { kind: "api_key" }, data: { productId: made.id, version: 1 } });
  expect(data[1].data.changed).toEqual(["name"]);
  const versions = (await w.admin.get(`/products/${made.id}/versions`)).body.data;
  expect(versions.map(({ version }: { version: number }) => version)).toEqual([3, 2, 1]);
  expect(versions[2].snapshot).toEqual(made);
  expect(versions[1]).toMatchObject({ correlationId: "walk-2", changed: ["name"], snapshot: { productName: "Renamed" } });
  const page = (await w.admin.get(`/products/${made.id}/events?limit=2`)).body;
  const rest = (await w.admin.get(`/products/${made.id}/events?limit=2&cursor=${page.nextCursor}`)).body;
  expect([...page.data, ...rest.data]).toEqual(data);
});

test("a batch commits its good rows and names the others by index, code and field", async () => {
  const twin = freshGtin();
  const items = [
    kettle({ gtin: twin }),
    kettle({ description: "short" }),
    kettle({ gtin: twin }),
    kettle({ extensions: undefined }),
    7,
    kettle(),
  ];
  const { status, body } = await w.admin.post("/products/batch", { items });
  expect([status, body.created, body.failed]).toEqual([200, 2, 4]);
  expect(
    body.errors.map(({ index, error }: { index: number; error: string }) => [index, error.split(": ").slice(0, 2).join(": ")]),
  ).toEqual([
    [1, "VALIDATION_ERROR: description"],
    [2, "DUPLICATE_GTIN: gtin"],
    [3, "EXTENSIONS_REQUIRED: extensions"],
    [4, "VALIDATION_ERROR: body"],
  ]);
  const unfit = await w.admin.post("/products/batch", { items: [kettle({ name: "a\u0000" }), kettle(), JSON.parse('{"__proto__":{}}')] });
  expect([unfit.status, unfit.body.created, unfit.body.errors.map(({ index }: { index: number }) => index)]).toEqual([200, 1, [0, 2]]);
  const ordered = (await w.admin.get("/products?limit=2")).body.data;
  expect(ordered[0].id > ordered[1].id).toBe(true);
  expect(refusal(await w.admin.post("/products/batch", { items: [] }))).toEqual([400, "VALIDATION_ERROR", "items"]);
  expect(refusal(await w.admin.post("/products/batch", { items: Array.from({ length: 1_001 }, () => 1) }))).toEqual([
    400,
    "VALIDATION_ERROR",
    "items",
  ]);
});

test("the list filters by category, status, GTIN, a part of the name in any case and script, and the time of change", async () => {
  const { admin: shop } = await w.tenant("shop");
  const add = async (more: Record<string, unknown>) => (await shop.post("/products", kettle(more))).body;
  const cup = await add({ name: "Größe 50% ÄÖ_x", category: "textile", extensions: {} });
  const gtin = freshGtin();
  const pot = await add({ name: "电热水壶", gtin });
  w.later(60_000);
  const since = new Date(Date.now() + 59_000).toISOString();
  const late = await add({ name: "late" });
  await shop.post(`/products/${late.id}/void`, { reason: "wrong" });
  const ids = async (query: string) => (await shop.get(`/products?${query}`)).body.data.map(({ id }: { id: string }) => id);
  expect(await ids("")).toEqual([late.id, pot.id, cup.id]);
  expect(await ids("category=textile")).toEqual([cup.id]);
  expect(await ids("status=Draft")).toEqual([pot.id, cup.id]);
  expect(await ids("status=Voided")).toEqual([late.id]);
  expect(await ids(`gtin=${gtin}`)).toEqual([pot.id]);
  expect(await ids(`q=${encodeURIComponent("GRÖSSE")}`)).toEqual([cup.id]);
  expect(await ids(`q=${encodeURIComponent("größe 50% äö_")}`)).toEqual([cup.id]);
  expect(await ids(`q=${encodeURIComponent("水壶")}`)).toEqual([pot.id]);
  expect(await ids(`q=${encodeURIComponent("5__")}`)).toEqual([]);
  expect(await ids(`q=${encodeURIComponent("\u0301")}`)).toEqual([]); // an accent by itself
  for (const limit of ["Infinity", "-Infinity", "1e309"])
    expect(refusal(await shop.get(`/products?limit=${limit}`))).toEqual([400, "VALIDATION_ERROR", "limit"]);
  expect(await ids(`updatedSince=${since}`)).toEqual([late.id]);
  expect(await ids("updatedSince=2020-01-01")).toEqual([late.id, pot.id, cup.id]);
  const first = (await shop.get("/products?limit=2")).body;
  expect((await shop.get(`/products?limit=2&cursor=${first.nextCursor}`)).body.data.map(({ id }: { id: string }) => id)).toEqual([cup.id]);
  expect(refusal(await shop.get("/products?colour=red"))).toEqual([400, "VALIDATION_ERROR", "colour"]);
  expect(refusal(await shop.get("/products?gtin=123"))).toEqual([400, "VALIDATION_ERROR", "gtin"]);
  expect((await shop.get("/products/categories")).body.data).toEqual([
    { category: "battery", products: 0, effectiveNow: true },
    { category: "electronics", products: 2, effectiveNow: true },
    { category: "furniture", products: 0, effectiveNow: true },
    { category: "textile", products: 1, effectiveNow: true },
  ]);
});

test("a page of large products, or of versions of one, ends before it has as many as it may, and the next one goes on", async () => {
  const { admin: own } = await w.tenant("large");
  const text = "墨".repeat(300);
  const hazardousSubstances = Array.from({ length: 200 }, () => ({ name: text, location: text }));
  const extensions = { hazardousSubstances, certifications: Array(200).fill("墨".repeat(500)) };
  const items = Array.from({ length: 16 }, () => kettle({ category: "textile", extensions }));
  expect((await own.post("/products/batch", { items })).body).toMatchObject({ created: 16 });
  const pagesOf = async (path: string, keyOf: (row: Record<string, unknown>) => unknown) => {
    const pages: unknown[][] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const { body } = await own.get(`${path}limit=200${cursor && `&cursor=${cursor}`}`);
      pages.push(body.data.map(keyOf));
      cursor = body.nextCursor as string | null;
    }
    return pages;
  };
  const all = await pagesOf("/products?", ({ id }) => id);
  expect([all.map(({ length }) => length), new Set(all.flat()).size]).toEqual([[13, 3], 16]);
  expect(await pagesOf("/products?q=kettle&", ({ id }) => id)).toEqual(all);
  const [id = ""] = all.flat() as string[];
  for (let i = 0; i < 13; i += 1) await own.patch(`/products/${id}`, { name: `Kettle ${i}` });
  const versions = await pagesOf(`/products/${id}/versions?`, ({ version }) => version);
  expect(versions).toEqual([Array.from({ length: 13 }, (_, i) => 14 - i), [1]]);
});

test("the same key creates one product", async () => {
  const body = kettle();
  const key = { "idempotency-key": "create-1" };
  const [first, second] = [await w.admin.post("/products", body, key), await w.admin.post("/products", body, key)];
  expect([second.status, second.body.id, second.headers.get("idempotency-replayed"), second.headers.get("etag")]).toEqual([
    201,
    first.body.id,
    "true",
    '"1"',
  ]);
});

test("nothing changed is no change: no version, no event", async () => {
  const made = await create();
  const reordered = Object.fromEntries(Object.entries(made.extensions).toReversed());
  expect(Object.keys(reordered).length).toBeGreaterThan(1);
  for (const changes of [{}, { name: made.productName, extensions: made.extensions }, { extensions: reordered }])
    expect((await w.admin.patch(`/products/${made.id}`, changes)).body).toEqual(made);
  expect((await w.admin.get(`/products/${made.id}/events`)).body.data).toHaveLength(1);
});

test("what was validated as one category doesn't become another, a battery least of all", async () => {
  const { id } = await create();
  await move(id, "validated");
  expect(refusal(await w.admin.patch(`/products/${id}`, { category: "battery", extensions: {} }))).toEqual([409, "SCHEME_LOCKED"]);
  const draft = await create();
  expect((await w.admin.patch(`/products/${draft.id}`, { category: "textile", extensions: {} })).body.category).toBe("textile");
});

test("a stale If-Match holds back every change, and another If-Match is another request", async () => {
  const { id } = await create();
  await w.admin.patch(`/products/${id}`, { name: "Kettle 2" });
  const stale = { "if-match": '"1"' };
  expect(refusal(await w.admin.delete(`/products/${id}`, stale))).toEqual([412, "PRECONDITION_FAILED"]);
  expect(refusal(await w.admin.post(`/products/${id}/void`, { reason: "x" }, stale))).toEqual([412, "PRECONDITION_FAILED"]);
  const go = (tag: string) =>
    w.admin.post(`/products/${id}/lifecycle/transition`, { stage: "validated" }, { "if-match": tag, "idempotency-key": "if-match" });
  expect(refusal(await go('"1"'))).toEqual([412, "PRECONDITION_FAILED"]);
  expect(refusal(await go('"2"'))).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
});

test("a hundred thousand faults are told as a hundred, and nobody waits for them", async () => {
  const many = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`f${i}`, 1]));
  const [flood, alive] = await Promise.all([w.admin.post("/products", kettle(many)), w.admin.get("//healthz")]);
  expect([flood.status, flood.body.error.details.fields.length, alive.status]).toEqual([400, 100, 200]);
  const list = await w.admin.post("/products", kettle({ extensions: { hazardousSubstances: Array.from({ length: 100_000 }, () => 1) } }));
  expect([list.status, list.body.error.details.fields.length <= 100]).toEqual([400, true]);
});

test("of a list of a million, each wrong, the first fault is told: all of them would take more room than there is", async () => {
  const extensions = { hazardousSubstances: Array.from({ length: 1_000_000 }, () => 1) };
  const { body } = await w.admin.post("/products/batch", { items: [kettle({ extensions }), kettle()] });
  const error = "VALIDATION_ERROR: extensions.hazardousSubstances: must NOT have more than 200 items";
  expect(body).toEqual({ created: 1, failed: 1, errors: [{ index: 0, error }] });
});
