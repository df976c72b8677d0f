// What signs and what serials are made with lie sealed: on the disk, through a change of the sealing key, an upgrade and the loss of the key.
import { createPrivateKey, createPublicKey, randomBytes } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import { secretOf } from "../../cloud/domain/serial-secrets.ts";
import { serialsAt } from "../../cloud/domain/serial-numbers.ts";
import { openSeal, type Seal } from "../../cloud/seal.ts";
import { DEFAULT_TENANT } from "../../cloud/domain/tenants.ts";
import { ne } from "../../cloud/store/drizzle.ts";
import { serialCounters } from "../../cloud/store/schema.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { publishedPassport } from "../../fixtures/passports.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import type { World } from "../../fixtures/world.ts";
import { bytesIn, dumpOf, type SameStore, sameStore } from "../same-store.ts";
import { engine } from "../world.ts";

const OLD = "the sealing key of last year, long enough";
const NEW = "the sealing key of this year, long enough";
const ORIGIN = { IMPRIMATUR_PUBLIC_URL: "https://dpp.example" };
const keys = (...lines: string[]) => ({ ...ORIGIN, IMPRIMATUR_SEALING_KEY: lines.join("\n") });

const keyFile = (folder: string) => join(folder, "keys", readdirSync(join(folder, "keys")).toSorted().at(-1) ?? "none");
const pemOf = (folder: string, seal: Seal) => {
  const text = readFileSync(keyFile(folder), "utf8").trim();
  return text.startsWith("-----") ? text : (seal.open(text) ?? "");
};
const seedOf = (pem: string) => Buffer.from(createPrivateKey(pem).export({ format: "jwk" }).d ?? "", "base64url");
const kidsOf = async (w: World) =>
  (await w.nobody.get("//.well-known/jwks.json")).body.keys.map(({ kid }: { kid: string }) => kid) as string[];
/** Those of whom serials were asked for. */
const rowsIn = ({ store }: World) =>
  store.read("rows", async ({ db }) => db.select().from(serialCounters).where(ne(serialCounters.tenantId, DEFAULT_TENANT)));
const sealOf = (w: World, { dataDir }: SameStore, ...set: string[]) => openSeal(w.store, dataDir, set);
const secretsIn = async (w: World, seal: Seal) => (await rowsIn(w)).map((row) => secretOf(row, seal));
const secretIn = async (w: World, { tenantId }: Shop, seal: Seal) => {
  const row = (await rowsIn(w)).find((one) => one.tenantId === tenantId);
  return row ? secretOf(row, seal) : Buffer.alloc(0);
};
const told = (w: World, event: string) =>
  w
    .logged()
    .filter((line) => line.includes(`"event":"${event}"`))
    .map((line) => JSON.parse(line));

const allocate = (w: World, { adminKey, product }: Shop, count: number, headers = {}) =>
  w.as(adminKey).post("/carriers/batch", { productId: product.id, count }, headers);
const serials = async (w: World, shop: Shop, count = 20) => (await allocate(w, shop, count)).body.serials as string[];
/** A credential that the node signed, and its verdict at whichever node. */
async function credentialOf(w: World, n: number): Promise<string> {
  const { id } = await publishedPassport(w.admin, { gtin: gtinOf(n) });
  return (await w.admin.get(`/passports/${id}`)).body.credential;
}
const verdictOf = async (w: World, credential: string) => (await w.admin.post("/credentials/verify", { credential })).body.verdict;

/** Which of these secrets can be read in the bytes, in any of the usual spellings. */
const readable = (bytes: Buffer, secrets: readonly Buffer[]) =>
  secrets.filter(
    (secret) => bytes.includes(secret) || (["hex", "base64", "base64url"] as const).some((way) => bytes.includes(secret.toString(way))),
  );
async function lying(same: SameStore, w: World): Promise<Buffer> {
  const dump = await dumpOf(w);
  await w.close();
  return Buffer.concat([bytesIn(same.dataDir), Buffer.from(dump)]);
}

test("neither the store nor the folder shows a private key or a serial secret, whichever key seals them", async () => {
  for (const set of [[], [NEW]]) {
    const same = await sameStore();
    const w = await same.start(keys(...set));
    for (let n = 0; n < 5; n += 1) await serials(w, await printShop(w, { sandbox: false }));
    const seal = await sealOf(w, same, ...set);
    const secrets = [...(await secretsIn(w, seal)), seedOf(pemOf(same.dataDir, seal))];
    expect(secrets).toHaveLength(6);
    const bytes = await lying(same, w);
    expect(readable(bytes, secrets)).toEqual([]);
    expect(bytes.includes("PRIVATE KEY")).toBe(false);
    expect(readable(Buffer.concat([bytes, ...secrets]), secrets)).toEqual(secrets); // the control: where they lie they are seen
  }
});

const MORE = 300;
const tenantOf = (id: string) => `INSERT INTO tenants VALUES ('${id}', 't', 'standard', 0, NULL, '[]', NULL, 900, 3, 1, 1)`;
/** What the version before left: its tables, its rows in clear after a life of allocations, its key file in clear. */
async function asBefore(same: SameStore, w: World): Promise<{ secrets: Buffer[]; pem: string }> {
  const seal = await sealOf(w, same);
  const rows = await rowsIn(w);
  const pem = pemOf(same.dataDir, seal);
  const file = keyFile(same.dataDir);
  await w.close();
  const inClear = rows.map((row) => ({ ...row, secret: secretOf(row, seal) }));
  const hex = engine === "sqlite" ? (bytes: Buffer) => `x'${bytes.toString("hex")}'` : (bytes: Buffer) => `'\\x${bytes.toString("hex")}'`;
  const more = Array.from({ length: MORE }, (_, n) => ({
    tenantId: `t${n}`,
    secret: Buffer.from(`secret ${n} `.padEnd(32, String(n))),
    next: 1,
  }));
  await same.script(
    [
      `DELETE FROM serial_counters WHERE tenant_id = '${DEFAULT_TENANT}'`, // it made none before the first serial
      "ALTER TABLE serial_counters DROP COLUMN sealed",
      "DELETE FROM migrations WHERE version = 18",
      "DELETE FROM counters WHERE name = 'serials_in_clear_until'",
      ...more.map(({ tenantId }) => tenantOf(tenantId)),
      "CREATE TABLE gone (text TEXT)", // pages that fall free, among those of the secrets
      ...more.flatMap(({ tenantId, secret, next }) => [
        `INSERT INTO serial_counters VALUES ('${tenantId}', ${hex(secret)}, ${next})`,
        `INSERT INTO gone VALUES ('${"x".repeat(3_000)}')`,
      ]),
      ...inClear.map(({ tenantId, secret }) => `UPDATE serial_counters SET secret = ${hex(secret)} WHERE tenant_id = '${tenantId}'`),
      "DELETE FROM gone",
      ...Array.from({ length: 8 }, (_, n) => `UPDATE serial_counters SET next = next + ${7 ** n} WHERE tenant_id LIKE 't%'`),
    ].join(";\n"),
  );
  writeFileSync(file, `${pem}\n`);
  return { secrets: [...inClear, ...more].map(({ secret }) => secret), pem };
}

test("what a version before left in clear is read, is sealed, and goes on: the same key signs, the same permutation makes serials", async () => {
  const same = await sameStore();
  const first = await same.start(ORIGIN);
  const shop = await printShop(first, { sandbox: false });
  const before = await serials(first, shop);
  const credential = await credentialOf(first, 581_001);
  const kids = await kidsOf(first);
  const { secrets, pem } = await asBefore(same, first);
  const all = [...secrets, seedOf(pem)];
  expect(bytesIn(same.dataDir).includes("PRIVATE KEY")).toBe(true);

  const second = await same.start(ORIGIN);
  const more = await serials(second, shop);
  const secret = secrets[0] ?? Buffer.alloc(0);
  expect([...before, ...more]).toEqual(serialsAt(secret, 1, 40));
  expect([await kidsOf(second), await verdictOf(second, credential)]).toEqual([kids, "valid"]);
  await expect.poll(() => bytesIn(same.dataDir).includes("PRIVATE KEY")).toBe(false);
  if (engine === "postgres") {
    expect((await rowsIn(second)).filter(({ sealed }) => sealed !== null)).toEqual([]); // other nodes may still need it as it was
    second.later(limits.SERIALS_IN_CLEAR_MS);
    await second.restart();
  }
  await expect.poll(async () => (await rowsIn(second)).filter(({ sealed }) => sealed === null)).toEqual([]);
  const counts = () => told(second, "secrets-resealed").map(({ serials: one = 0, signingKeys = 0 }) => [one, signingKeys]);
  await expect.poll(() => counts().reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0])).toEqual([MORE + (engine === "sqlite" ? 1 : 2), 1]); // beside other nodes the first tenant's is made in clear, too
  expect((await secretsIn(second, await sealOf(second, same))).map(String).toSorted()).toEqual(secrets.map(String).toSorted());
  expect(await serials(second, shop)).toEqual(serialsAt(secret, 41, 20));
  expect(await kidsOf(second)).toEqual(kids);
  expect(readable(await lying(same, second), all)).toEqual([]);
});

test.runIf(engine === "sqlite")("of what lay in clear no copy stays in the file, not even in pages that fell free", async () => {
  const same = await sameStore();
  const first = await same.start();
  await serials(first, await printShop(first, { sandbox: false }));
  const { secrets } = await asBefore(same, first);
  expect(readable(bytesIn(same.dataDir), secrets)).toHaveLength(secrets.length); // the control: they lay there
  const second = await same.start();
  await second.close(); // before anything else could be written over them
  expect(readable(bytesIn(same.dataDir), secrets)).toEqual([]);
});

test.runIf(engine === "postgres")(
  "beside a node of the version before both draw from one row, also for tenants that come meanwhile",
  async () => {
    const same = await sameStore();
    const first = await same.start(ORIGIN);
    const shop = await printShop(first, { sandbox: false });
    await serials(first, shop);
    await asBefore(same, first);
    const second = await same.start(ORIGIN);
    /** What a node of the version before does. */
    const theirs = ({ tenantId }: Shop, count = 20): Promise<string[]> =>
      second.store.write("as before", async ({ db }) => {
        await db.values(
          `INSERT INTO serial_counters (tenant_id, secret, next) VALUES ('${tenantId}', '\\x${randomBytes(32).toString("hex")}', 1)
           ON CONFLICT DO NOTHING RETURNING tenant_id`,
        );
        const [row] = (await db.values(
          `UPDATE serial_counters SET next = next + ${count} WHERE tenant_id = '${tenantId}' RETURNING tenant_id, secret, next`,
        )) as [string, Buffer, number][];
        return serialsAt(row?.[1] ?? Buffer.alloc(0), Number(row?.[2]) - count, count);
      });
    const newcomer = await printShop(second, { sandbox: false });
    for (const one of [shop, newcomer]) {
      const drawn = [];
      for (let n = 0; n < 3; n += 1) drawn.push(await Promise.all([serials(second, one), theirs(one)]));
      expect(new Set(drawn.flat(2)).size).toBe(120);
    }
    second.later(limits.SERIALS_IN_CLEAR_MS);
    await second.restart();
    await expect.poll(async () => (await rowsIn(second)).every(({ sealed }) => sealed !== null)).toBe(true);
    const then = await rowsIn(second);
    await expect(theirs(shop)).rejects.toThrow("key length"); // who comes too late gives out nothing, rather than something else
    expect(await rowsIn(second)).toEqual(then);
    const late = await printShop(second, { sandbox: false });
    await serials(second, late);
    expect((await rowsIn(second)).find(({ tenantId }) => tenantId === late.tenantId)?.secret).toHaveLength(0);
    await second.close();
  },
);

test("a new sealing key closes all of it anew, and then is enough alone", async () => {
  const same = await sameStore();
  const first = await same.start(keys(OLD));
  const shop = await printShop(first, { sandbox: false });
  const drawn = await serials(first, shop);
  const kids = await kidsOf(first);
  const { id: was } = await sealOf(first, same, OLD);
  await first.close();

  const both = await same.start(keys(NEW, OLD));
  const { id } = await sealOf(both, same, NEW, OLD);
  const inUse = async () =>
    new Set(
      [...(await rowsIn(both)).map(({ sealed }) => sealed), readFileSync(keyFile(same.dataDir), "utf8")].map((text) => text?.slice(0, 8)),
    );
  await expect.poll(inUse).toEqual(new Set([id]));
  await expect.poll(() => told(both, "secrets-resealed")).toMatchObject([{ webhooks: 0, serials: 2, signingKeys: 1, keyId: id }]);
  drawn.push(...(await serials(both, shop)));
  await both.close();

  const alone = await same.start(keys(NEW));
  drawn.push(...(await serials(alone, shop)));
  expect([...told(alone, "sealing-key-missing"), ...told(alone, "signing-key-unopenable")]).toEqual([]);
  expect(drawn).toEqual(serialsAt(await secretIn(alone, shop, await sealOf(alone, same, NEW)), 1, 60));
  expect([await kidsOf(alone), was === id]).toEqual([kids, false]);
  await alone.close();
});

test("without its sealing key a node signs with another key, and gives out no serial until it has it back", async () => {
  const same = await sameStore();
  const first = await same.start(keys(OLD));
  const shop = await printShop(first, { sandbox: false });
  const drawn = await serials(first, shop);
  const credential = await credentialOf(first, 581_002);
  const [kid = ""] = await kidsOf(first);
  const file = keyFile(same.dataDir);
  const sealed = readFileSync(file, "utf8");
  await first.close();

  const second = await same.start(keys(NEW));
  const [line, ...others] = told(second, "signing-key-unopenable");
  expect([line.level, line.file, others]).toEqual(["error", file, []]);
  expect(line.msg).toContain("IMPRIMATUR_SEALING_KEY");
  expect(told(second, "sealing-key-missing")).toMatchObject([{ level: "error", webhooks: 0, serials: 1 }]);
  const kids = await kidsOf(second);
  expect([kids.length, kids[0]]).toEqual([2, kid]);
  expect([await verdictOf(second, credential), await verdictOf(second, await credentialOf(second, 581_003))]).toEqual(["valid", "valid"]);
  const then = await rowsIn(second);
  const once = { "idempotency-key": "asked while the key was away" };
  for (let n = 0; n < 2; n += 1) {
    const refused = await allocate(second, shop, 20, once);
    expect([refused.status, refused.body.error.code, refused.headers.get("retry-after")]).toEqual([503, "SERIALS_UNAVAILABLE", "60"]);
    expect(refused.body.error.message).toContain("IMPRIMATUR_SEALING_KEY");
  }
  expect(await rowsIn(second)).toEqual(then); // not even a place is lost
  expect(await serials(second, await printShop(second, { sandbox: false }))).toHaveLength(20); // a new tenant has one that opens
  expect(readFileSync(file, "utf8")).toBe(sealed);
  await second.close();

  const third = await same.start(keys(NEW)); // it is told of once: there is a key now
  expect([told(third, "signing-key-unopenable"), await kidsOf(third)]).toEqual([[], kids]);
  await third.close();

  const back = await same.start(keys(NEW, OLD));
  const late = await allocate(back, shop, 20, once);
  expect([late.status, [...drawn, ...late.body.serials]]).toEqual([
    201,
    serialsAt(await secretIn(back, shop, await sealOf(back, same, NEW, OLD)), 1, 40),
  ]);
  expect(await kidsOf(back)).toEqual(kids);
  await back.close();
});

test("tenants that a version before made without it get what their serials are made with, however many they are", async () => {
  const same = await sameStore();
  await (await same.start()).close();
  await same.script(Array.from({ length: MORE }, (_, n) => tenantOf(`t${n}`)).join(";\n"));
  const w = await same.start();
  const seal = await sealOf(w, same);
  expect(new Set((await rowsIn(w)).map((row) => secretOf(row, seal).toString("hex"))).size).toBe(MORE);
  await w.close();
});

test("a tenant that had no serial yet when the key was lost gets its first ones with another", async () => {
  const same = await sameStore();
  const first = await same.start(keys(OLD));
  const shop = await printShop(first, { sandbox: false });
  await first.close();
  const second = await same.start(keys(NEW));
  expect(told(second, "sealing-key-missing")).toEqual([]);
  const drawn = [...(await serials(second, shop)), ...(await serials(second, shop))];
  expect(drawn).toEqual(serialsAt(await secretIn(second, shop, await sealOf(second, same, NEW)), 1, 40));
  await second.close();
});

test("a serial secret that was damaged is refused like one whose key is missing, and left as it is", async () => {
  const same = await sameStore();
  const first = await same.start(keys(OLD));
  const shop = await printShop(first, { sandbox: false });
  await serials(first, shop);
  const [row] = await rowsIn(first);
  const whole = row?.sealed ?? "";
  await first.close();
  const [cut, other] = [whole.slice(0, 20), `${whole.slice(0, 40)}${whole[40] === "A" ? "B" : "A"}${whole.slice(41)}`];
  for (const sealed of [cut, other, ""]) {
    await same.script(`UPDATE serial_counters SET sealed = '${sealed}'`);
    const w = await same.start(keys(NEW, OLD)); // the resealer meets it too
    expect((await allocate(w, shop, 1)).body.error.code).toBe("SERIALS_UNAVAILABLE");
    expect((await rowsIn(w))[0]?.sealed).toBe(sealed);
    expect(w.logged().filter((line) => line.includes("reseal-failed"))).toEqual([]);
    await w.close();
  }
  await same.script(`UPDATE serial_counters SET sealed = '${whole}'`);
  const w = await same.start(keys(NEW, OLD));
  expect((await allocate(w, shop, 1)).status).toBe(201);
  await w.close();
});

test.runIf(engine === "postgres")(
  "two nodes in the midst of a change of the key draw from one row, each with its own signing key",
  async () => {
    const same = await sameStore();
    const one = await same.start(keys(OLD, NEW));
    const two = await same.another(keys(NEW, OLD));
    const shop = await printShop(two, { sandbox: false }); // who came last has the bootstrap key that lives
    const drawn = await Promise.all([one, two, one, two].map((w) => serials(w, shop))); // also the first draw of all, at once
    for (let n = 0; n < 3; n += 1) drawn.push(...(await Promise.all([serials(one, shop), serials(two, shop)])));
    expect(new Set(drawn.flat()).size).toBe(200);
    expect(await kidsOf(one)).toHaveLength(2);
    const credential = await credentialOf(two, 581_004);
    const { admin } = { admin: one.as(two.adminKey) };
    expect((await admin.post("/credentials/verify", { credential })).body.verdict).toBe("valid");
    await one.close();
    await two.close();
  },
);

test("a signing key's file is its owner's alone, and what it seals is the private half of the key in the store", async () => {
  const same = await sameStore();
  const w = await same.start(keys(NEW));
  const pem = pemOf(same.dataDir, await sealOf(w, same, NEW));
  const { x } = createPublicKey(pem).export({ format: "jwk" });
  expect((await w.nobody.get("//.well-known/jwks.json")).body.keys).toMatchObject([{ x }]);
  await w.close();
});
