// Imports: whatever a spreadsheet writes, worked off once, with every fault at its line and column.
import { stringify } from "csv-stringify/sync";
import { expect, test } from "vitest";
import { catalogue, type FieldSchema } from "../../cloud/catalogue.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { limits } from "#shared/limits.ts";
import { claim, movement } from "../../cloud/domain/imports.ts";
import { DEFAULT_TENANT } from "../../cloud/domain/tenants.ts";
import { drop, forgetAbandoned } from "../../cloud/domain/uploads.ts";
import { eq, inArray } from "../../cloud/store/drizzle.ts";
import { imports as table, uploads } from "../../cloud/store/schema.ts";
import { run } from "../../cloud/store/store.ts";
import { engine, world } from "../world.ts";

const w = await world();
let n = 100_000;
const gtin = () => gtinOf((n += 1));
const HEADER = "name,description,gtin,serialNumber,energyEfficiencyClass,hazardousSubstances";
const row = (more = "") => `Kettle,A kettle of 1.7 litres,${gtin()},SN-1,A,lead;mercury${more}`;

type Sending = { query?: string; headers?: Record<string, string> };
const send = (csv: string | Uint8Array<ArrayBuffer>, { query = "?category=electronics", headers = {} }: Sending = {}) =>
  w.admin.send("POST", `/imports${query}`, { body: csv, headers: { "content-type": "text/csv", ...headers } });
const ended = async (id: string) => {
  const now = async () => (await w.admin.get(`/imports/${id}`)).body;
  await expect.poll(async () => (await now()).status).toMatch(/completed|failed/);
  return now();
};
async function imported(csv: string | Uint8Array<ArrayBuffer>, category = "electronics") {
  const taken = await send(csv, { query: `?category=${category}` });
  expect([taken.status, taken.headers.get("location")]).toEqual([202, `/api/v2/imports/${taken.body.data?.id}`]);
  return ended(taken.body.data.id as string);
}

test("a row that its own semicolons have torn apart is told to put that cell into quotes", async () => {
  const kettle = (list: string) => `Kettle;A kettle of 1.7 litres;${gtin()};SN-1;A;${list}`;
  const done = await imported(
    `${HEADER.replaceAll(",", ";")}\n${kettle("lead; mercury")}\n${kettle('"lead; mercury"')}\nKettle;A kettle\n`,
  );
  expect([done.created, done.errors.map(({ message }: { message: string }) => message)]).toEqual([
    1,
    [
      "there are 7 cells for 6 columns: one that has the separator in it has to stand in quotes",
      "the row has 2 cells where the header has 6",
    ],
  ]);
});

test("a file is taken at once, worked off afterwards, and its rows are products", async () => {
  const before = gtin();
  const done = await imported(`${HEADER}\nPot,A pot of two litres,${before},SN-7,B,[]\n${row()}\n`);
  expect(done).toMatchObject({ status: "completed", total: 2, processed: 2, created: 2, failed: 0, fault: null, errors: [] });
  const { data } = (await w.admin.get(`/products?gtin=${before}`)).body;
  expect(data[0]).toMatchObject({
    productName: "Pot",
    serialNumber: "SN-7",
    extensions: { energyEfficiencyClass: "B", hazardousSubstances: [] },
  });
  const events = (await w.admin.get(`/products/${data[0].id}/events`)).body.data;
  expect(events[0].actor.kind).toBe("api_key");
});

test("a refused row is told by line, column and code; the others stand", async () => {
  const twin = gtin();
  const lines = [
    HEADER,
    row(),
    `Kettle,short,${gtin()},SN-1,A,`,
    `Two lines,"A kettle of\n1.7 litres",${twin},SN-1,A,`,
    `Kettle,A kettle of 1.7 litres,${twin},SN-1,A,`,
    `Kettle,A kettle of 1.7 litres,123,${"x".repeat(21)},${"A".repeat(21)},`,
    "Kettle,A kettle of 1.7 litres",
    row(",one,more"),
    "",
    row(),
  ];
  const done = await imported(lines.join("\r\n"));
  expect([done.status, done.total, done.created, done.failed]).toEqual(["completed", 8, 3, 5]);
  expect(done.errors.map(({ line, column, code }: { line: number; column: string; code: string }) => [line, column, code])).toEqual([
    [3, "description", "VALIDATION_ERROR"],
    [6, "gtin", "DUPLICATE_GTIN"],
    [7, "serialNumber", "VALIDATION_ERROR"],
    [7, "gtin", "VALIDATION_ERROR"],
    [7, "energyEfficiencyClass", "VALIDATION_ERROR"],
    [8, null, "VALIDATION_ERROR"],
    [9, null, "VALIDATION_ERROR"],
  ]);
});

test("of a list in a cell it is said where in it the fault stands", async () => {
  const fibres = '"[{""fibre"":""wool"",""percentage"":100},{""fibre"":""silk""}]"';
  const csv = `name,description,gtin,serialNumber,fibreComposition\nShirt,A shirt of two fibres,${gtin()},SN-1,${fibres}\n`;
  const { errors } = await imported(csv, "textile");
  expect(errors).toEqual([{ line: 2, column: "fibreComposition", code: "VALIDATION_ERROR", message: "1.percentage: is required" }]);
});

test("what is wrong with a name that no database can hold is told, and the import ends", async () => {
  const fibres = '"[{""fib\\u0000re"":""wool"",""percentage"":100}]"';
  const csv = `name,description,gtin,serialNumber,fibreComposition\nShirt,A shirt of two fibres,${gtin()},SN-1,${fibres}\n`;
  const { errors } = await imported(csv, "textile");
  const message = "0.fib\ufffdre: contains a NUL character";
  expect(errors[0]).toEqual({ line: 2, column: "fibreComposition", code: "VALIDATION_ERROR", message });
});

test("a cell of blanks is an empty one, and separators alone are no list: neither says that a product has no substances of concern", async () => {
  const gtins = Array.from({ length: 4 }, gtin);
  const [blank, spaces, none, separators] = [" ", '" \u00a0\t"', "[]", ";"];
  const rows = [blank, spaces, none, separators].map(
    (cell, i) => `Pot,A pot of two litres,${gtins[i]},SN-1,${i === 0 ? " " : "A"},${cell}`,
  );
  const done = await imported([HEADER, ...rows].join("\n"));
  expect([done.created, done.errors]).toMatchObject([3, [{ line: 5, column: "hazardousSubstances", code: "VALIDATION_ERROR" }]]);
  const extensionsOf = async (gtin?: string) => (await w.admin.get(`/products?gtin=${gtin}`)).body.data[0]?.extensions;
  expect(await Promise.all(gtins.map(extensionsOf))).toEqual([
    {},
    { energyEfficiencyClass: "A" },
    { energyEfficiencyClass: "A", hazardousSubstances: [] },
    undefined,
  ]);
});

test.each([
  ["a byte order mark, CRLF and quotes", () => `\ufeff${HEADER}\r\n"Kettle ""XL"", blue","A kettle, of 1.7 litres",${gtin()},SN-1,A,\r\n`],
  ["semicolons", () => `${HEADER.replaceAll(",", ";")}\nKettle;A kettle of 1.7 litres;${gtin()};SN-1;A;"lead;mercury"\n`],
  ["tabs", () => `${HEADER.replaceAll(",", "\t")}\nKettle\tA kettle of 1.7 litres\t${gtin()}\tSN-1\tA\t\n`],
  ["empty lines anywhere and no last line break", () => `\n\n${HEADER}\n\n${row()}\n\n${row()}`],
  [
    "a first line of blanks above semicolons",
    () => ` \t\r\n${HEADER.replaceAll(",", ";")}\r\nKettle;A kettle of 1.7 litres;${gtin()};SN-1;A;"lead;mercury"\r\n`,
  ],
  ["empty cells behind its columns, as spreadsheets leave them", () => `${HEADER},,\n${row()},,\n${row()}\n${row()}, ,,,\n`],
  ["any script", () => `${HEADER}\n电热水壶 ☕,غلاية كهربائية سعة لترين,${gtin()},S/N?=&%,A,свинец;鉛\n`],
])("a file with %s is read", async (_what, csv) => {
  const done = await imported(csv());
  expect([done.status, done.failed, done.errors]).toEqual(["completed", 0, []]);
});

test("lines are counted as an editor counts them, whatever ends them and whatever stands in quotes", async () => {
  const bad = "Kettle,short,X,SN-1,A,";
  for (const end of ["\r\n", "\n", "\r"]) {
    const lines = ["", HEADER, `Two,"A kettle of${end}1.7 litres,${end}really",${gtin()},SN-1,A,`, bad, ",,,,,", "", row(), bad];
    const done = await imported(lines.join(end));
    expect([...new Set(done.errors.map(({ line }: { line: number }) => line))]).toEqual([6, 10]);
    expect([done.total, done.created]).toEqual([4, 2]);
  }
  const mixed = await imported(`${HEADER}\r\n${row()}\n${row()}\r\n${bad}\n${row()}`);
  expect([mixed.created, mixed.errors[0].line]).toEqual([3, 4]);
});

test.each([
  ["80,000 columns", `${Array.from({ length: 80_000 }, (_, i) => `c${i}`).join(",")}\nx\n`],
  ["a row of a million commas", `${HEADER}\n${",".repeat(1_000_000)}x\n`],
  ["a quote behind a megabyte", `${HEADER}\n${"\u0001".repeat(1_000_000)}"\n`],
])("a file with %s fails at once and with few words", async (_what, csv) => {
  const [done, alive] = await Promise.all([imported(csv), w.admin.get("//healthz")]);
  expect([done.status, alive.status]).toEqual(["failed", 200]);
  expect(done.fault.length).toBeLessThan(3_000);
});

test.each([
  ["an unknown column", `${HEADER},colour\n`, '"colour" isn\'t a column of electronics'],
  ["a column twice", `${HEADER},name\n`, '"name" is there twice'],
  ["a column missing", "name,description,gtin\n", '"serialNumber" is missing'],
  ["no rows", `${HEADER}\n`, "no rows"],
  ["nothing but line breaks", "\n\n\n", "is empty"],
  ["an open quote", `${HEADER}\n"Kettle,x\n`, "isn't CSV"],
  ["UTF-16", new Uint8Array([0xff, 0xfe, 0x6e, 0x00, 0x61, 0x00]), "isn't UTF-8"],
  ["UTF-16 that doesn't say so", new Uint8Array(Buffer.from(`${HEADER}\n`, "utf16le")), '"n\ufffda\ufffdm'],
  ["half a sign where its column's name is cut", `${"x".repeat(99)}\u{1f600}\n`, "x\ufffd\" isn't a column"],
  ["Latin-1", new Uint8Array(Buffer.from(`${HEADER}\nKühler`, "latin1")), "isn't UTF-8"],
  ["a record without end", `${HEADER}\n"${"x".repeat(5_000_000)}`, "isn't CSV"],
])("a file with %s fails as a whole with a sentence, and nothing of it is imported", async (_what, csv, says) => {
  const done = await imported(csv);
  expect(done).toMatchObject({ status: "failed", created: 0, fault: expect.stringContaining(says) });
});

test.each([
  ["a quote that is never closed", '"Kettle,x', /a quote in the record that begins at line 9 is never closed$/],
  ["one that is closed by a later row's", '"Kettle,x\nPan,"A pan, of iron"', /got "A" at line 10 .*\(its record begins at line 9\)$/],
  ["one that swallows more than a record may hold", `"${"Kettle,x\n".repeat(400_000)}`, /the record that begins at line 9 is longer than/],
])("%s is told where it stands, and not where the file was given up", async (_what, wrong, says) => {
  const before = [HEADER, "", `"Two\nlines",A kettle of 1.7 litres,${gtin()},SN-1,A,`, "", ",,,,,", "", row(), wrong];
  const { fault } = await imported([...before, ...Array.from({ length: 300 }, () => row())].join("\n"));
  expect(fault).toMatch(says);
});

test("a cell of a megabyte is one refused row", async () => {
  const done = await imported(`${HEADER}\n${"x".repeat(1_000_000)},A kettle of 1.7 litres,${gtin()},SN-1,A,\n${row()}\n`);
  expect([done.created, done.failed, done.errors[0].column]).toEqual([1, 1, "name"]);
});

test("one file waits for one of another tenant, however many files that one has sent", async () => {
  const [{ admin: many }, { admin: single }] = [await w.tenant("many"), await w.tenant("single")];
  const bring = async (rows: number, by = many) => {
    const csv = [HEADER, ...Array.from({ length: rows }, () => row())].join("\n");
    const { body } = await by.send("POST", "/imports?category=electronics", { body: csv, headers: { "content-type": "text/csv" } });
    return body.data.id as string;
  };
  const sent: string[] = [];
  for (let i = 0; i < 6; i += 1) sent.push(await bring(400));
  const own = await bring(1, single);
  const endOf = async (id: string, by: typeof many) => {
    const now = async () => (await by.get(`/imports/${id}`)).body;
    await expect.poll(async () => (await now()).status, { timeout: 30_000 }).toBe("completed");
    return Date.parse((await now()).updatedAt);
  };
  const last = Math.max(...(await Promise.all(sent.map((id) => endOf(id, many)))));
  expect(await endOf(own, single)).toBeLessThan(last);
});

test("what can't be taken in is refused at once", async () => {
  const codeOf = ({ status, body }: { status: number; body: { error: { code: string } } }) => [status, body.error.code];
  expect(codeOf(await send(`${HEADER}\n`, { query: "" }))).toEqual([400, "VALIDATION_ERROR"]);
  expect(codeOf(await send(`${HEADER}\n`, { query: "?category=vehicle" }))).toEqual([422, "SCHEMA_NOT_FOUND"]);
  expect(codeOf(await send(`${HEADER}\n`, { query: `?category=${"toys".repeat(20)}` }))).toEqual([422, "SCHEMA_NOT_FOUND"]);
  expect(codeOf(await send(""))).toEqual([400, "VALIDATION_ERROR"]);
  expect(codeOf(await w.admin.post("/imports?category=electronics", {}))).toEqual([415, "UNSUPPORTED_MEDIA_TYPE"]);
  expect(codeOf(await w.admin.send("POST", "/imports?category=electronics"))).toEqual([415, "UNSUPPORTED_MEDIA_TYPE"]);
});

test("a form with a file is taken as well, and the document shows what is in it", async () => {
  const document = (await w.nobody.get("/openapi.json")).body;
  const shown = document.paths["/api/v2/imports"].post.requestBody.content["multipart/form-data"];
  expect(shown.schema).toMatchObject({ type: "object", required: ["file"], additionalProperties: false });
  expect(Object.keys(shown.example)).toEqual(Object.keys(shown.schema.properties));
  const form = new FormData();
  const [part = ""] = Object.keys(shown.example);
  form.set(part, new Blob([`${HEADER}\n${row()}\n`], { type: shown.schema.properties[part].contentMediaType }), "products.csv");
  const answer = await fetch(`${w.url}/api/v2/imports?category=electronics`, {
    method: "POST",
    headers: { authorization: `Bearer ${w.adminKey}` },
    body: form,
  });
  expect(answer.status).toBe(202);
  const { data } = (await answer.json()) as { data: { id: string } };
  expect(await ended(data.id)).toMatchObject({ status: "completed", created: 1 });
});

const sendForm = (body: FormData | string, type?: string) => {
  const headers = { authorization: `Bearer ${w.adminKey}`, ...(type ? { "content-type": type } : {}) };
  return fetch(`${w.url}/api/v2/imports?category=electronics`, { method: "POST", headers, body });
};

test("a form's file needs no name of its own", async () => {
  const part = `--b\r\ncontent-disposition: form-data; name="file"\r\n\r\n${HEADER}\n${row()}\n\r\n`;
  const answer = await sendForm(`${part}--b--\r\n`, "multipart/form-data; boundary=b");
  expect(answer.status).toBe(202);
  const { data } = (await answer.json()) as { data: { id: string } };
  expect(await ended(data.id)).toMatchObject({ status: "completed", created: 1 });
  const twice = await sendForm(`${part}${part}--b--\r\n`, "multipart/form-data; boundary=b");
  expect(await twice.json()).toMatchObject({ error: { message: "file: is there twice" } });
});

test("a form with anything beside its file, or cut off, is refused", async () => {
  const post = async (body: FormData | string, type?: string) => {
    const answer = await sendForm(body, type);
    return [answer.status, ((await answer.json()) as { error: { code: string } }).error.code];
  };
  const form = (...parts: [string, string | Blob][]) => {
    const made = new FormData();
    for (const [name, value] of parts) made.append(name, value);
    return made;
  };
  const file = new Blob([`${HEADER}\n${row()}\n`], { type: "text/csv" });
  expect(await post(form(["file", file], ["file", file]))).toEqual([400, "VALIDATION_ERROR"]);
  expect(await post(form(["file", file], ["category", "textile"]))).toEqual([400, "VALIDATION_ERROR"]);
  expect(await post(form(["avatar", file]))).toEqual([400, "VALIDATION_ERROR"]);
  expect(await post("x", "multipart/form-data")).toEqual([400, "MALFORMED_REQUEST"]);
  const cut = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.csv"\r\n\r\nname';
  expect(await post(cut, "multipart/form-data; boundary=b")).toEqual([400, "MALFORMED_REQUEST"]);
});

test("the same key and file are one import; the same key and another file a conflict", async () => {
  const csv = `${HEADER}\n${row()}\n`;
  const key = { headers: { "idempotency-key": "import-1" } };
  const [first, second] = [await send(csv, key), await send(csv, key)];
  expect([second.status, second.body.data.id, second.headers.get("idempotency-replayed")]).toEqual([202, first.body.data.id, "true"]);
  expect((await send(`${csv}\n`, key)).body.error.code).toBe("IDEMPOTENCY_CONFLICT");
});

/** A value that fits the field, as a cell would hold it. */
function cellFor(
  field: FieldSchema["properties"][string] & { enum?: string[]; pattern?: string; format?: string; items?: object },
): string {
  if (field.enum) return field.enum[0] ?? "";
  if (field.type === "number" || field.type === "integer") return "1";
  if (field.type === "boolean") return "TRUE";
  if (field.format === "uri") return "https://example.com/a,b";
  if (field.format === "date") return "2026-02-28";
  if (field.pattern === "^[A-Z]{2}$") return "DE";
  if (field.type !== "array") return 'text with "quotes"';
  const item = JSON.stringify(field.items);
  if (item.includes('"fibre"')) return '[{"fibre":"cotton","percentage":100}]';
  return item.includes('"material"') ? '[{"material":"oak","percentage":80.5}]' : "one; two";
}

test.each(catalogue.effective(Date.now()))("the import template of %s comes back filled in", async (category) => {
  const columns = (await w.admin.get(`/schemas/categories/${category}/import-template`)).text.trim().split(",");
  const fields = catalogue.find(category, Date.now())?.fieldSchema.properties ?? {};
  const own: Record<string, string> = {
    name: "Thing",
    description: "A thing, of a kind",
    gtin: gtin(),
    serialNumber: "1",
    granularity: "item",
  };
  const csv = stringify([columns, columns.map((column) => own[column] ?? cellFor(fields[column] ?? {}))]);
  const done = await imported(csv, category);
  expect([done.status, done.created, done.errors]).toEqual(["completed", 1, []]);
  const { data } = (await w.admin.get(`/products?gtin=${own["gtin"]}`)).body;
  expect(Object.keys(data[0].extensions)).toEqual(Object.keys(fields));
});

test("progress is seen while it runs; a restart in the middle loses and doubles no row", async () => {
  const { admin: shop } = await w.tenant("importer");
  const rows = Array.from({ length: 6_000 }, () => row());
  const taken = await shop.send("POST", "/imports?category=electronics", {
    body: [HEADER, ...rows].join("\n"),
    headers: { "content-type": "text/csv" },
  });
  const now = async () => (await shop.get(`/imports/${taken.body.data.id}`)).body;
  const seen = new Set<number>();
  await expect.poll(async () => seen.add((await now()).processed).size, { interval: 10 }).toBeGreaterThan(2);
  await w.restart();
  expect((await now()).status).toBe("running");
  await w.restart();
  if (w.store.sole === undefined) w.later(31_000); // the node that was stopped still holds its lease
  await expect.poll(async () => (await now()).status).toBe("completed");
  expect(await now()).toMatchObject({ total: 6_000, processed: 6_000, created: 6_000, failed: 0 });
  const uses = (await shop.get("/products/categories")).body.data;
  expect(uses.find(({ category }: { category: string }) => category === "electronics").products).toBe(6_000);
});

test("that an import moves is seen, also of one behind a thousand, by a look at few of them", async () => {
  const tenantId = DEFAULT_TENANT;
  const looks = w.store.write("looks", async (tx) => {
    const actor = { kind: "api_key", id: "k", name: "k" };
    const common = {
      tenantId,
      category: "electronics",
      actor,
      requestId: "r",
      bytes: 1,
      total: 1,
      created: 1,
      failed: 0,
      fault: null,
      leaseUntil: 0,
    };
    const one = (id: string, status: "completed" | "pending", at: number) => ({
      ...common,
      id,
      status,
      processed: 1,
      createdAt: at,
      updatedAt: at,
    });
    const ids = Array.from({ length: 1_000 }, (_, i) => `0-${i}`);
    await tx.db.insert(table).values([one("", "pending", 1), ...ids.map((id) => one(id, "completed", 2))]);
    if (engine === "postgres") await run("ANALYZE imports", [], "run");
    const fetched = async () =>
      engine === "sqlite"
        ? 0
        : Number((await run("SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'imports'", [], "get")).rows[0]);
    const before = await fetched();
    const seen = [await movement(tx, tenantId), await movement(tx, tenantId)];
    const cost = (await fetched()) - before;
    const move = (id: string, changes: object) => tx.db.update(table).set(changes).where(eq(table.id, id));
    for (const moved of [
      move("", { status: "running", updatedAt: tx.now + 1 }),
      move("", { status: "completed", updatedAt: tx.now + 2 }),
      move("0-999", { updatedAt: tx.now + 3 }),
    ]) {
      await moved;
      seen.push(await movement(tx, tenantId));
    }
    throw new Error(JSON.stringify({ different: new Set(seen).size, asked: seen.length, isCheap: cost < 300 })); // nothing of it stays
  });
  await expect(looks).rejects.toThrow(JSON.stringify({ different: 4, asked: 5, isCheap: true }));
});

test("a file whose node died goes on before those that came in since", async () => {
  const first = await w.store.write("claim", async (tx) => {
    const { now, db } = tx;
    const actor = { kind: "api_key", id: "k", name: "k" };
    const common = {
      tenantId: DEFAULT_TENANT,
      category: "electronics",
      actor,
      requestId: "r",
      bytes: 1,
      total: 1,
      created: 0,
      failed: 0,
      fault: null,
    };
    const [begun, next] = [
      { ...common, id: "begun", status: "running", processed: 1, leaseUntil: now - 1, createdAt: now - 60_000, updatedAt: now - 60_000 },
      { ...common, id: "next", status: "pending", processed: 0, leaseUntil: 0, createdAt: now, updatedAt: now },
    ] as const;
    for (const row of [next, begun]) await db.insert(table).values(row);
    const claimed = await claim(tx);
    await db.delete(table).where(inArray(table.id, [begun.id, next.id]));
    return claimed?.id;
  });
  expect(first).toBe("begun");
});

test("a file that was worked off goes a few slices at a time, and what a node left of it goes with what was abandoned", async () => {
  const { id } = await imported(`${HEADER}\n${row()}\n`);
  const slices = () =>
    w.store.read("slices", async ({ db }) => (await db.select({ n: uploads.n }).from(uploads).where(eq(uploads.id, id))).length);
  await expect.poll(slices).toBe(0);
  await w.store.write("slices", async ({ db, now }) => {
    for (let n = 0; n < 70; n += 1) await db.insert(uploads).values({ id, n, at: now, bytes: Buffer.alloc(8) });
  });
  const dropped: [boolean, number][] = [];
  for (let n = 0; n < 2; n += 1) dropped.push([await w.store.write("drop", (tx) => drop(tx, id)), await slices()]);
  expect(dropped).toEqual([
    [true, 38],
    [true, 6],
  ]);
  const forgotten = await w.store.write("forget", async (tx) => {
    await tx.db
      .update(uploads)
      .set({ at: tx.now - 2 * limits.UPLOAD_ABANDONED_MS })
      .where(eq(uploads.id, id));
    return [await forgetAbandoned(tx, 4), await forgetAbandoned(tx, 4), await forgetAbandoned(tx, 4)];
  });
  expect([forgotten, await slices()]).toEqual([[4, 4, 0], 0]);
  expect(await w.store.write("drop", (tx) => drop(tx, id))).toBe(false);
});

test("a file of which a part was forgotten while it came in, by a clock that leapt, isn't taken for a shorter one", async () => {
  const long = "A kettle of 1.7 litres. ".repeat(400);
  const rows = Array.from({ length: 100 }, () => `Kettle,${long},${gtin()},SN-1,A,lead\n`);
  const part = (from: number, to: number) => new TextEncoder().encode(rows.slice(from, to).join(""));
  const slices = () => w.store.read("slices", async ({ db }) => db.select({ id: uploads.id, n: uploads.n }).from(uploads));
  await w.store.write("left by the tests above", async ({ db }) => db.delete(uploads));
  const [came, leapt] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const body = new ReadableStream<Uint8Array>({
    start: async (line) => {
      line.enqueue(new TextEncoder().encode(`${HEADER}\n`));
      line.enqueue(part(0, 80));
      came.resolve();
      await leapt.promise;
      line.enqueue(part(80, 100));
      line.close();
    },
  });
  const headers = { "content-type": "text/csv", authorization: `Bearer ${w.adminKey}` };
  const taken = fetch(`${w.url}/api/v2/imports?category=electronics`, { method: "POST", headers, body, duplex: "half" } as RequestInit);
  await came.promise;
  await expect.poll(async () => (await slices()).length).toBe(2);
  w.later(2 * limits.UPLOAD_ABANDONED_MS);
  expect(await w.store.write("forget", (tx) => forgetAbandoned(tx, 1))).toBe(1);
  leapt.resolve();
  const { data } = (await (await taken).json()) as { data: { id: string } };
  const { status, created, fault } = await ended(data.id);
  expect([status, created, fault]).toEqual(["failed", 0, "a part of the file was lost before it was worked off: send it again"]);
});

test("another tenant's import isn't there", async () => {
  const taken = await send(`${HEADER}\n${row()}\n`);
  const { admin: other } = await w.tenant("nosy");
  expect((await other.get(`/imports/${taken.body.data.id}`)).status).toBe(404);
});

test("large rows are taken a few at a time, so that nobody waits for a hundred of them", async () => {
  const flood = JSON.stringify(Array.from({ length: 6_000 }, () => ({ a: 1 })));
  const many = Array.from({ length: 40 }, () => stringify([["Kettle", "A kettle of 1.7 litres", gtin(), "SN-1", "A", flood]])).join("");
  const { id } = (await send(`${HEADER}\n${many}`)).body.data;
  const seen = new Set<number>();
  const look = async () => {
    const { status, processed } = (await w.admin.get(`/imports/${id}`)).body;
    seen.add(processed);
    return status;
  };
  while ((await look()) !== "completed");
  expect([seen.size > 2, Math.max(...seen)]).toEqual([true, 40]);
});

test("rows with very many faults are counted and shown, and the import ends", async () => {
  const substances = JSON.stringify(Array.from({ length: 60 }, () => ({ name: "lead", casNumber: "none" })));
  const many = Array.from({ length: 99 }, () => stringify([["Kettle", "A kettle of 1.7 litres", gtin(), "SN-1", "A", substances]])).join(
    "",
  );
  const done = await imported(`${HEADER}\n${many}`);
  expect(done).toMatchObject({ status: "completed", total: 99, created: 0, failed: 99 });
  expect(done.errors).toHaveLength(1_000);
});
