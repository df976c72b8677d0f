// All of the log, as a monitor takes it: tiles by the names that C2SP gives them, every root recomputed from them, and `verify` at the log's own address.
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { and, eq } from "drizzle-orm";
import { expect, test } from "vitest";
import { canonical } from "#shared/canonical.ts";
import { grow, leafHash, nodeHash, rootAt, type Subtree } from "#shared/merkle.ts";
import { bundled, entriesIn, TILE_WIDTH, tileName, tileOf } from "#shared/tiles.ts";
import { LEVEL_PATTERN, NAME_PATTERN } from "#shared/wire/log.ts";
import { logLeaves, logNodes } from "../../cloud/store/schema.ts";
import * as log from "../../cloud/domain/log.ts";
import { verify } from "../../cloud/verify.ts";
import { refusal } from "../../fixtures/client.ts";
import { closed, listening } from "../../fixtures/listening.ts";
import { endsWithFile, freshFolder } from "../endings.ts";
import { world } from "../world.ts";

const folder = freshFolder("log");
let files = 0;
function saved(content: string): string {
  const file = join(folder, String((files += 1)));
  writeFileSync(file, content);
  return file;
}
const random = (n: number) => createHash("sha256").update(String(n)).digest("hex");
const grown = (store: Awaited<ReturnType<typeof world>>["store"], from: number, to: number) =>
  store.write("append", async (tx) => {
    for (let n = from; n < to; n += 1) log.appendLast(tx, { kind: n % 10 === 0 ? "passport" : "print_bundle", digest: random(n) });
  });
const bytesAt = async (url: string, path: string): Promise<Buffer> => {
  const response = await fetch(`${url}/api/v2/log/tile/${path}`);
  expect([path, response.status, response.headers.get("content-type")]).toEqual([path, 200, "application/octet-stream"]);
  expect(response.headers.get("cache-control")).toBe("public, immutable, max-age=31536000");
  return Buffer.from(await response.arrayBuffer());
};
const hashesIn = (bytes: Buffer) => Array.from({ length: bytes.length / 32 }, (_, i) => bytes.subarray(32 * i, 32 * (i + 1)));
/** Of hashes that stand next to each other, the one above all of them. */
const above = (hashes: Buffer[]): Buffer => (hashes.length === 1 ? (hashes[0] as Buffer) : above(pairs(hashes)));
const pairs = (hashes: Buffer[]) => hashes.flatMap((left, i) => (i % 2 === 0 ? [nodeHash(left, hashes[i + 1] as Buffer)] : []));

test("a tile has the name that C2SP gives it, and no other", () => {
  expect(tileName({ n: 1_234_067, width: 256 })).toBe("x001/x234/067");
  expect(tileName({ n: 0, width: 256 })).toBe("000");
  expect(tileName({ n: 273, width: 112 })).toBe("273.p/112");
  const [isLevel, isName] = [new RegExp(LEVEL_PATTERN), new RegExp(NAME_PATTERN)];
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 63 }),
      fc.integer({ min: 0, max: 1e12 - 1 }),
      fc.integer({ min: 1, max: 256 }),
      (level, n, width) => {
        const name = tileName({ n, width });
        expect([isLevel.test(String(level)), isName.test(name)]).toEqual([true, true]);
        expect(tileOf(String(level), name)).toEqual({ level, n, width });
        expect(tileOf("entries", name)).toEqual({ level: "entries", n, width });
      },
    ),
  );
  for (const name of ["x000/000", "x000/x001/000", "x000/001.p/5"])
    expect([isName.test(name), tileOf("0", name)]).toEqual([true, undefined]);
  for (const name of ["0", "1000", "000.p/0", "000.p/256", "000.p/01", "000/001", "x001", "x001/", "000.p", "-01"])
    expect([name, isName.test(name)]).toEqual([name, false]);
  for (const level of ["64", "00", "-1", "", "data"]) expect([level, isLevel.test(level)]).toEqual([level, false]);
});

test("entries come out of a bundle as they went in, and of one that was cut off nothing does", () => {
  const entry = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.array(entry, { minLength: 1, maxLength: 5 }), (entries) => {
      const bundle = bundled(entries);
      expect(entriesIn(bundle)).toEqual(entries);
      expect(entriesIn(bundle.subarray(0, -1))?.length).not.toBe(entries.length);
    }),
  );
  expect(entriesIn(Buffer.of(0))).toBeUndefined();
  expect(entriesIn(Buffer.of(0, 2, 1))).toBeUndefined();
});

test("the tiles are the whole tree: from the entries to the head, at every level", async () => {
  const { store, url, nobody } = await world();
  const SIZE = 1_900; // 7 full tiles and 108 of the next; one level up 7
  await grown(store, 0, SIZE);
  const open: Subtree[] = [];
  const tops: Buffer[] = [];
  for (let n = 0; n * TILE_WIDTH < SIZE; n += 1) {
    const width = Math.min(TILE_WIDTH, SIZE - n * TILE_WIDTH);
    const entries = entriesIn(await bytesAt(url, `entries/${tileName({ n, width })}`)) ?? [];
    const leaves = entries.map((entry) => leafHash(entry));
    expect(hashesIn(await bytesAt(url, `0/${tileName({ n, width })}`))).toEqual(leaves);
    expect(leaves.length).toBe(width);
    for (const [i, hash] of leaves.entries()) grow(open, { level: 0, n: n * TILE_WIDTH + i, hash });
    if (width === TILE_WIDTH) tops.push(above(leaves));
    if (n === 3) expect(JSON.parse(String(entries[7]))).toMatchObject({ kind: "print_bundle", digest: random(3 * TILE_WIDTH + 7) });
  }
  expect(tops.length).toBe(7);
  expect(hashesIn(await bytesAt(url, "1/000.p/7"))).toEqual(tops);
  const { text } = await nobody.get("/log/checkpoint");
  expect(text.split("\n").slice(1, 3)).toEqual([String(SIZE), rootAt(open).toString("base64")]);

  // What an earlier head needed is served as long as the log is: the beginning of a tile that has more by now.
  expect(hashesIn(await bytesAt(url, "1/000.p/2"))).toEqual(tops.slice(0, 2));
  expect((await bytesAt(url, "0/007.p/108")).subarray(0, 32 * 9)).toEqual(await bytesAt(url, "0/007.p/9"));
  expect(await bytesAt(url, "0/007.p%2F9")).toEqual(await bytesAt(url, "0/007.p/9")); // as a client writes one value of a path

  const asked = async (path: string) => refusal(await nobody.get(`/log/tile/${path}`));
  for (const path of [
    "0/007",
    "0/007.p/109",
    "0/008",
    "1/000",
    "1/000.p/8",
    "2/000.p/1",
    "63/000.p/1",
    "entries/x999/x999/x999/999",
    "0/x000/000",
  ])
    expect([path, await asked(path)]).toEqual([path, [404, "NOT_FOUND"]]);
  for (const path of ["0/66", "64/000", "data/000", "0/000.p/256", "0/000/", "0/x1/000", "0/000?x=1"])
    expect([path, await asked(path)]).toEqual([path, [400, "VALIDATION_ERROR"]]);
  expect((await nobody.get("/log/tile/0/007")).body.error.message).toBe("the log has 1900 entries: of this there is 007.p/108 yet");
  expect((await nobody.get("/log/tile/entries/x001/x234/067")).body.error.message).toBe("the log has 1900 entries: this isn't there yet");
  expect((await nobody.send("HEAD", "/log/tile/0/000")).headers.get("content-length")).toBe("8192");
  expect((await nobody.send("POST", "/log/tile/0/x001/000")).status).toBe(405);
  expect(
    (await nobody.get("/log/tile/0/000", { headers: { origin: "https://auditor.example" } })).headers.get("access-control-allow-origin"),
  ).toBe("*");
});

test("`verify` at a log's address recomputes all of it, and finds what was changed, taken back or forked since a head that one knows", async () => {
  const w = await world();
  const run = async (...args: string[]) => {
    const { code, said } = await verify(args);
    return { code, said: said.join("\n") };
  };
  const checkpoint = async () => saved((await w.nobody.get("/log/checkpoint")).text);
  const empty = await checkpoint();
  expect(await run(w.url, "--checkpoint", empty)).toMatchObject({
    code: 0,
    said: expect.stringMatching(/^holds: the log's 0 entries give/),
  });
  await grown(w.store, 0, 300);
  const early = await checkpoint();
  await grown(w.store, 300, 520);
  const keys = saved((await w.nobody.get("//.well-known/did.json")).text);
  for (const address of [w.url, `${w.url}/`, `${w.url}/api/v2/log`, `${w.url}/api/v2/log/checkpoint`])
    for (const known of [empty, early, await checkpoint()]) {
      const { code, said } = await run(address, "--keys", keys, "--checkpoint", known);
      expect([code, said]).toEqual([0, expect.stringContaining("52 passport, 468 print_bundle")]);
      expect(said.match(/^holds: /gm)).toHaveLength(4);
    }
  const unsigned = await run(w.url);
  expect([unsigned.code, unsigned.said.match(/^note: /gm)?.length]).toEqual([0, 2]);

  const other = await world();
  await grown(other.store, 0, 520); // at other instants
  expect((await run(other.url, "--keys", keys)).said).toContain("fails: the checkpoint was signed by none of the keys given");
  const renamed = (file: string) => saved(file.replaceAll(new URL(w.url).host, new URL(other.url).host));
  const forked = renamed((await w.nobody.get("/log/checkpoint")).text);
  expect(await run(other.url, "--checkpoint", forked)).toMatchObject({ code: 1, said: expect.stringContaining("rewritten or forked") });
  expect((await run(other.url, "--checkpoint", early)).said).toContain("fails: the checkpoint that you know is of");
  await grown(w.store, 520, 530);
  const longer = renamed((await w.nobody.get("/log/checkpoint")).text);
  expect((await run(other.url, "--checkpoint", longer)).said).toContain(
    "fails: the log has 520 entries, and you know 530: it was rolled back",
  );

  const changed = { kind: "passport", digest: random(1), at: "2026-01-01T00:00:00.000Z" } as const;
  await w.store.write("forge", (tx) => tx.db.update(logLeaves).set({ entry: changed }).where(eq(logLeaves.n, 400)));
  const forged = await run(w.url, "--keys", keys, "--checkpoint", early);
  expect([forged.code, forged.said]).toEqual([
    1,
    expect.stringContaining("fails: the log's 530 entries give another root than its checkpoint names"),
  ]);
  expect(forged.said).toContain("holds: the first 300 entries give the root that you know");
});

test("of a log that lost a row no tile goes out cut short, to be kept for ever", async () => {
  const w = await world();
  await grown(w.store, 0, 3);
  await w.store.write("lose", async ({ db }) => {
    await db.delete(logLeaves).where(eq(logLeaves.n, 1));
    await db.delete(logNodes).where(and(eq(logNodes.level, 0), eq(logNodes.n, 1)));
  });
  for (const level of ["entries", "0"]) expect((await w.nobody.get(`/log/tile/${level}/000.p/3`)).status).toBe(500);
  for (const level of ["entries", "0"]) expect((await w.nobody.get(`/log/tile/${level}/000.p/1`)).status).toBe(200);
});

test("`verify` waits where it is told to, and says what it can't use", async () => {
  const w = await world();
  await grown(w.store, 0, 5);
  let answers: ((path: string) => { status: number; body?: Buffer; after?: string } | undefined)[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? "/";
    const told = answers.shift()?.(path);
    if (told) return void response.writeHead(told.status, told.after ? { "retry-after": told.after } : {}).end(told.body);
    void fetch(w.url + path).then(async (got) => response.writeHead(got.status).end(Buffer.from(await got.arrayBuffer())));
  });
  const url = `http://127.0.0.1:${await listening(server)}`;
  endsWithFile(() => closed(server));
  const said = async (...told: typeof answers) => {
    answers = told;
    const { code, said: lines } = await verify([url]);
    return [code, lines.join("\n")];
  };
  const through = () => undefined;
  expect(
    await said(
      () => ({ status: 429, after: "1" }),
      through,
      () => ({ status: 503, after: "1" }),
    ),
  ).toEqual([0, expect.stringContaining("5 entries")]);
  expect(await said(() => ({ status: 404 }))).toEqual([2, "imprimatur: the log's checkpoint can't be had: it answered 404"]);
  expect(await said(() => ({ status: 200, body: Buffer.from("hello") }))).toEqual([2, expect.stringContaining("isn't a log's checkpoint")]);
  expect(await said(through, () => ({ status: 200, body: bundled([Buffer.from("one")]) }))).toEqual([
    2,
    "imprimatur: the log's tile/entries/000.p/5 hasn't the 5 entries that it should have",
  ]);
  const gone = () => ({ status: 404 });
  const all = Array.from({ length: 256 }, (_, n) => Buffer.from(`{"grown":${n}}`));
  for (const [i, { entry }] of (await w.store.read("entries", ({ db }) => db.select().from(logLeaves).orderBy(logLeaves.n))).entries())
    all[i] = Buffer.from(canonical(entry));
  const asked: string[] = [];
  const grownSince = (path: string) => (asked.push(path), { status: 200, body: bundled(all) });
  expect(await said(through, gone, grownSince)).toEqual([0, expect.stringContaining("the log's 5 entries give the root")]); // and its parts dropped
  expect(asked).toEqual(["/api/v2/log/tile/entries/000"]);
  expect(await said(through, gone, gone)).toEqual([2, "imprimatur: the log's tile/entries/000.p/5 can't be had: it answered 404"]);
  const closedToUs = () => ({ status: 403 });
  expect(await said(through, gone, closedToUs)).toEqual([2, "imprimatur: the log's tile/entries/000 can't be had: it answered 403"]);
  const strange = Array.from({ length: 5 }, (_, n) => Buffer.from(n === 0 ? "no JSON" : '{"kind":"tea"}'));
  expect(await said(through, () => ({ status: 200, body: bundled(strange) }))).toEqual([
    1,
    expect.stringContaining("5 of no kind that we know"),
  ]);
  const { code, said: lines } = await verify([url, "--status", saved("x")]);
  expect([code, lines[0]]).toEqual([2, expect.stringContaining("--status goes with a file")]);
  await closed(server);
  expect(await said()).toEqual([2, expect.stringMatching(/the log's checkpoint can't be had: .*ECONNREFUSED/)]);
});
