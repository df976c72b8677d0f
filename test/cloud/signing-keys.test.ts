// A signing key that leaked is retired: whoever has it forges nothing any more, and what it had signed truly is signed anew.
import { randomUUID } from "node:crypto";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eq, sql } from "drizzle-orm";
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import { judgePassports, keysIn } from "../../cloud/domain/passport-check.ts";
import { type Place, resign, START, toResign } from "../../cloud/domain/signing-keys.ts";
import { keyFilesIn } from "../../cloud/key-files.ts";
import { openKeys } from "../../cloud/keys.ts";
import { openSeal } from "../../cloud/seal.ts";
import { passports, passportVersions } from "../../cloud/store/schema.ts";
import { verify } from "../../cloud/verify.ts";
import { refusal } from "../../fixtures/client.ts";
import { partsOf, tampered } from "../../fixtures/forge.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { draftPassport, publishedPassport } from "../../fixtures/passports.ts";
import type { World } from "../../fixtures/world.ts";
import { freshFolder } from "../endings.ts";
import { engine, freshDatabase, world } from "../world.ts";

const PUBLIC = { IMPRIMATUR_PUBLIC_URL: "https://dpp.example" }; // the issuer stays who it is from start to start
let gtins = 590_000;
const kidsIn = async (w: World) =>
  (await w.nobody.get("//.well-known/jwks.json")).body.keys.map(({ kid }: { kid: string }) => kid) as string[];
const assertedIn = async (w: World) => (await w.nobody.get("//.well-known/did.json")).body.assertionMethod as string[];
const signerOf = (jws: string) => String(partsOf(jws).header["kid"]).split("#").at(-1);
const keysOf = async (w: World) =>
  (await w.admin.get("/signing-keys")).body.data as { kid: string; retiredAt: string | null; resignedAt: string | null }[];
const retire = (w: World, kid: string) => w.admin.post(`/signing-keys/${kid}/retire`);

async function anchored(w: World) {
  const { id, productId } = await publishedPassport(w.admin, { gtin: gtinOf((gtins += 1)) });
  await w.admin.post(`/passports/${id}/validations`);
  return { id, productId, credential: (await w.nobody.get(`//p/${productId}.vc`)).text };
}
async function tokenOf(w: World) {
  const { client_id, client_secret } = (await w.admin.post("/oauth/clients", { name: "erp", scopes: ["products:read"] })).body;
  const request = { grant_type: "client_credentials", client_id, client_secret };
  const ask = async (key: string = randomUUID()): Promise<string> =>
    (await w.nobody.post("/oauth/token", request, { "idempotency-key": key })).body.access_token;
  return { token: await ask(), ask };
}

test("half a minute after a key was retired nothing that it signed counts, and every passport is signed anew, word for word", async () => {
  const w = await world({ settings: PUBLIC, clock: "stopped" });
  const [old = ""] = await kidsIn(w);
  const damaged = [await anchored(w), await anchored(w)];
  const made = [await anchored(w), await anchored(w)];
  const changed = await anchored(w);
  const isChanged = eq(passportVersions.passportId, changed.id);
  const forged = tampered(changed.credential, (parts) => ({
    ...parts,
    payload: { ...parts.payload, validFrom: "2020-01-01T00:00:00.000Z" },
  }));
  await w.store.write("forge", (tx) => tx.db.update(passportVersions).set({ credential: forged }).where(isChanged));
  for (const [i, { id }] of damaged.entries()) {
    const credential = ["no credential any more", "bnVsbA.e30."][i] as string;
    await w.store.write("damage", (tx) => tx.db.update(passportVersions).set({ credential }).where(eq(passportVersions.passportId, id)));
  }
  const { token, ask } = await tokenOf(w);
  const asked = await ask("asked-once");
  const worksWith = async (one: string) => (await w.as(one).get("/products")).status;
  expect(await worksWith(token)).toBe(200);

  w.later(60_000);
  const said = await retire(w, old);
  expect([said.status, said.body]).toEqual([
    200,
    { kid: old, createdAt: expect.any(String), retiredAt: expect.any(String), resignedAt: null },
  ]);
  expect((await retire(w, old)).body).toEqual(said.body);
  await expect.poll(async () => (await kidsIn(w)).length, { timeout: 30_000 }).toBe(2); // another signs from now on
  const [, fresh = ""] = await kidsIn(w);
  expect([await kidsIn(w), await worksWith(token)]).toEqual([[old, fresh], 200]); // where another node still signs with it nobody is refused

  w.later(limits.SIGNING_KEY_GRACE_MS);
  expect([await kidsIn(w), await assertedIn(w)]).toEqual([[fresh], [`did:web:dpp.example#${fresh}`]]);
  await expect
    .poll(async () => (await keysOf(w)).find(({ kid }) => kid === old)?.resignedAt, { timeout: 30_000 })
    .toEqual(expect.any(String));
  expect(await keysOf(w)).toMatchObject([{ kid: fresh, retiredAt: null, resignedAt: null }, { kid: old }]);
  expect(refusal(await w.as(token).get("/products"))).toEqual([401, "UNAUTHORIZED"]);
  expect(await worksWith(await ask())).toBe(200);
  const anew = await ask("asked-once");
  expect([anew === asked, await worksWith(anew), await ask("asked-once")]).toEqual([false, 200, anew]);

  const folder = freshFolder("retired");
  const saved = (name: string, content: string) => (writeFileSync(join(folder, name), content), join(folder, name));
  const keys = saved("did.json", (await w.nobody.get("//.well-known/did.json")).text);
  for (const { id, productId, credential } of made) {
    const anew = (await w.nobody.get(`//p/${productId}.vc`)).text;
    expect([signerOf(credential), signerOf(anew)]).toEqual([old, fresh]);
    expect(partsOf(anew).payload).toEqual(partsOf(credential).payload);
    const bundle = saved("bundle.json", (await w.admin.get(`/passports/${id}/proof`)).text);
    expect((await verify([bundle, "--keys", keys])).code).toBe(0);
    expect((await w.admin.post("/credentials/verify", { credential: anew })).body.verdict).toBe("valid");
    const judged = (await w.admin.post("/credentials/verify", { credential })).body;
    expect([judged.verdict, judged.checks[0].message]).toEqual(["invalid", expect.stringContaining(`the key ${old} was retired`)]);
    expect((await verify([saved("old.vc", credential), "--keys", keys])).code).toBe(1);
  }
  expect((await w.nobody.get(`//p/${changed.productId}.vc`)).text).toBe(forged); // and no better than before
  const audit = (await w.admin.get("/audit-logs?action=auth.signing_key_retired")).body.data;
  expect(audit.map(({ subject }: { subject: string }) => subject)).toEqual([old]); // once, however often it was said

  await w.restart();
  expect(await kidsIn(w)).toEqual([fresh]); // the file of the old one is still there
});

test("a retired key counts no longer than that where the clock was set back by an hour since", async () => {
  const w = await world({ settings: PUBLIC, clock: "stopped" });
  const [old = ""] = await kidsIn(w);
  const { token } = await tokenOf(w);
  await retire(w, old);
  w.later(-3_600_000);
  await expect.poll(async () => (await w.as(token).get("/products")).status).toBe(401);
  expect(await kidsIn(w)).not.toContain(old);
});

test("once all was signed anew, whoever looks through what is kept believes no passport that the retired key signed", async () => {
  const w = await world({ settings: PUBLIC, clock: "stopped" });
  const [old = ""] = await kidsIn(w);
  const { id, credential } = await anchored(w);
  const { tenantId } = (await w.store.read("whose", ({ db }) => db.select().from(passports).where(eq(passports.id, id)).get())) ?? {};
  const judge = async () => (await judgePassports(w.store, String(tenantId), await keysIn(w.store))).fault;
  await retire(w, old);
  expect(await judge()).toBeUndefined(); // it hasn't been signed anew yet
  w.later(limits.SIGNING_KEY_GRACE_MS);
  await expect
    .poll(async () => (await keysOf(w)).find(({ kid }) => kid === old)?.resignedAt, { timeout: 30_000 })
    .toEqual(expect.any(String));
  expect(await judge()).toBeUndefined();
  await w.store.write("put back", ({ db }) => db.update(passportVersions).set({ credential }).where(eq(passportVersions.passportId, id)));
  expect(await judge()).toContain("has a credential that doesn't hold");
});

test("what is large is signed anew a little at a time, so that whoever writes meanwhile waits for little", async () => {
  const w = await world({ settings: PUBLIC, clock: "stopped" });
  const [old = ""] = await kidsIn(w);
  for (let i = 0; i < 4; i += 1) {
    const { id } = await draftPassport(w.admin, { gtin: gtinOf((gtins += 1)) });
    const content = { notes: Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`note${n}`, "x".repeat(15_000)])) };
    expect((await w.admin.patch(`/passports/${id}`, { content })).status).toBe(200);
  }
  const folder = freshFolder("another");
  const keys = await openKeys(w.store, folder, await openSeal(w.store, folder, []));
  expect((await retire(w, old)).status).toBe(200);
  const { retired } = await w.store.read("retired", toResign);
  const counts: number[] = [];
  for (let after: Place | undefined = START; after;) {
    const from: Place = after;
    const { count, next } = await w.store.write("sign anew", (tx) => resign(tx, keys, retired, from));
    counts.push(count);
    after = next;
  }
  expect(Math.max(...counts)).toBe(1);
});

test("while passports are still signed anew the retired key counts no longer, and another one that is retired signs no longer", async () => {
  const w = await world({ settings: PUBLIC, clock: "stopped" });
  const [old = ""] = await kidsIn(w);
  await anchored(w);
  await w.store.write("many", ({ db }) =>
    db.run(sql`INSERT INTO passport_versions (passport_id, version, content, digest, credential, created_at)
      WITH RECURSIVE more (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM more WHERE n < 20000)
      SELECT passport_id, n, content, digest, credential, created_at FROM passport_versions, more`),
  );
  const { token } = await tokenOf(w);
  await retire(w, old);
  await expect.poll(async () => (await kidsIn(w)).length, { timeout: 30_000 }).toBe(2);
  const [, second = ""] = await kidsIn(w);
  w.later(limits.SIGNING_KEY_GRACE_MS);
  await retire(w, second);
  await expect.poll(async () => (await w.as(token).get("/products")).status, { timeout: 30_000 }).toBe(401);
  await expect.poll(async () => (await kidsIn(w)).length, { timeout: 30_000 }).toBe(2);
  expect((await keysOf(w)).map(({ resignedAt }) => resignedAt)).toEqual([null, null, null]);
});

test("a node that can't write its key down signs with a new one all the same, once its own was retired", async () => {
  const dataDir = freshFolder("unwritable");
  const w = await world({ settings: PUBLIC, clock: "stopped", dataDir });
  const [old = ""] = await kidsIn(w);
  const { ask } = await tokenOf(w);
  renameSync(join(dataDir, "keys"), join(dataDir, "away"));
  writeFileSync(join(dataDir, "keys"), "no folder");
  await retire(w, old);
  await expect.poll(async () => (await kidsIn(w)).length, { timeout: 15_000 }).toBe(2);
  w.later(limits.SIGNING_KEY_GRACE_MS);
  const [fresh = ""] = await kidsIn(w);
  const { credential } = await anchored(w);
  expect([signerOf(credential), signerOf(await ask())]).toEqual([fresh, fresh]);
  expect(w.logged().filter((line) => line.includes("key-renewal-failed"))).toHaveLength(1);

  rmSync(join(dataDir, "keys"));
  renameSync(join(dataDir, "away"), join(dataDir, "keys"));
  await w.restart();
  expect(signerOf((await anchored(w)).credential)).toBe((await kidsIn(w)).at(-1));
});

test("what a node still signed with the retired key when all was signed anew already, it signs anew as soon as it hears of it", async () => {
  const dataDir = freshFolder("late");
  const w = await world({ settings: PUBLIC, clock: "stopped", dataDir });
  const [old = ""] = await kidsIn(w);
  const { id, productId, credential } = await anchored(w);
  w.later(1_000);
  await retire(w, old);
  const isDone = async () => (await keysOf(w)).find(({ kid }) => kid === old)?.resignedAt;
  await expect.poll(async () => (await kidsIn(w)).length, { timeout: 30_000 }).toBe(2);
  w.later(limits.SIGNING_KEY_GRACE_MS);
  await expect.poll(isDone, { timeout: 30_000 }).toEqual(expect.any(String));
  // As one does of the version before, or whose data folder was set back.
  await w.store.write("late", (tx) => tx.db.update(passportVersions).set({ credential }).where(eq(passportVersions.passportId, id)));
  await w.restart(async () => {
    const newest = keyFilesIn(join(dataDir, "keys")).at(-1) as string;
    rmSync(join(dataDir, "keys", newest));
  });
  const signer = async () => signerOf((await w.nobody.get(`//p/${productId}.vc`)).text);
  await expect.poll(signer, { timeout: 30_000 }).toBe((await kidsIn(w)).at(-1));
  await expect.poll(isDone, { timeout: 30_000 }).toEqual(expect.any(String));
});

test("only the platform looks at signing keys and retires them, and only such as there are", async () => {
  const w = await world();
  const [kid = ""] = await kidsIn(w);
  const { admin } = await w.tenant("acme");
  expect(refusal(await admin.get("/signing-keys"))).toEqual([403, "API_SCOPE_DENIED"]);
  expect(refusal(await admin.post(`/signing-keys/${kid}/retire`))).toEqual([403, "API_SCOPE_DENIED"]);
  expect(refusal(await retire(w, "A".repeat(43)))).toEqual([404, "NOT_FOUND"]);
  expect(refusal(await retire(w, "x"))).toEqual([400, "VALIDATION_ERROR"]);
  expect((await keysOf(w)).map(({ retiredAt }) => retiredAt)).toEqual([null]);
});

test("a node whose key another one retired takes a new one, and what it had signed counts on neither", async (t) => {
  if (engine === "sqlite") return t.skip("several nodes need PostgreSQL");
  const key = "the-key-of-both-nodes-0123456789";
  const shared = {
    databaseUrl: await freshDatabase(),
    settings: { ...PUBLIC, IMPRIMATUR_BOOTSTRAP_KEY: key },
    clock: "stopped",
  } as const;
  const worlds = [await world(shared), await world(shared)];
  const [one, two] = worlds.map((w) => ({ ...w, admin: w.as(key) })) as [World, World];
  const [, ofTwo = ""] = await kidsIn(one);
  const { productId, credential } = await anchored(two);
  const { token } = await tokenOf(two);
  expect([signerOf(credential), signerOf(token)]).toEqual([ofTwo, ofTwo]);
  expect((await retire(one, ofTwo)).status).toBe(200);
  await expect.poll(async () => (await kidsIn(one)).length, { timeout: 30_000 }).toBe(3);
  const statuses = () => Promise.all([one, two].map(async (w) => (await w.as(token).get("/products")).status));
  expect(await statuses()).toEqual([200, 200]);
  for (const w of worlds) w.later(limits.SIGNING_KEY_GRACE_MS);
  await expect.poll(statuses, { timeout: 30_000 }).toEqual([401, 401]);
  await expect
    .poll(async () => (await keysOf(one)).find(({ kid }) => kid === ofTwo)?.resignedAt, { timeout: 30_000 })
    .toEqual(expect.any(String));
  const anew = (await one.nobody.get(`//p/${productId}.vc`)).text;
  expect(await kidsIn(two)).toContain(signerOf(anew));
  expect(partsOf(anew).payload).toEqual(partsOf(credential).payload);
  expect(signerOf((await tokenOf(two)).token)).not.toBe(ofTwo);
});
