// Verifiable credentials: judged check by check, forgeries of every kind refused, revoked one version at a time and for good.
import { createPublicKey } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { statusList } from "../../cloud/domain/issued-credentials.ts";
import { openKeys } from "../../cloud/keys.ts";
import { openSeal } from "../../cloud/seal.ts";
import { sql } from "../../cloud/store/drizzle.ts";
import { issuedCredentials } from "../../cloud/store/schema.ts";
import type { Tx } from "../../cloud/store/store.ts";
import { refusal } from "../../fixtures/client.ts";
import { confused, partsOf, signedBy, stranger, tampered, unsigned } from "../../fixtures/forge.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { draftPassport, publish, publishedPassport } from "../../fixtures/passports.ts";
import { startWorld, type World } from "../../fixtures/world.ts";
import { freshFolder } from "../endings.ts";
import { freshDatabase, world } from "../world.ts";
import { limits } from "#shared/limits.ts";

const w = await world();
let n = 540_000;
const kettle = () => ({ gtin: gtinOf((n += 1)) });
const verify = (credential: string) => w.admin.post("/credentials/verify", { credential });
const passportOf = async (id: string) => (await w.admin.get(`/passports/${id}`)).body;
const outcomesOf = async (credential: string) => {
  const { status, body } = await verify(credential);
  expect(status).toBe(200);
  const checks = body.checks as { name: string; outcome: string; message: string }[];
  return { verdict: body.verdict, ...Object.fromEntries(checks.map(({ name, outcome }) => [name, outcome])) };
};
const GOOD = { signature: "passed", issuer: "passed", validity: "passed", status: "passed", schema: "passed" };
/** The bit as a stranger reads it from the signed list. */
async function bitOf(credential: string): Promise<number> {
  const { statusListCredential, statusListIndex } = partsOf(credential).payload["credentialStatus"] as Record<string, string>;
  const list = partsOf((await w.nobody.get(`/${new URL(statusListCredential ?? "").pathname}`)).text).payload;
  const bits = gunzipSync(Buffer.from((list["credentialSubject"] as { encodedList: string }).encodedList.slice(1), "base64url"));
  const at = Number(statusListIndex);
  return ((bits[at >> 3] ?? 0) >> (7 - (at & 7))) & 1;
}

test.each(['{"alg":"\\ud83d"}', '{"alg":"nineteen-characters😀"}', '{"alg":"EdDSA","typ":"\\ud83d"}'])(
  "what is quoted of a stranger's credential is text that any parser takes: %s",
  async (header) => {
    const parts = [header, '{"issuer":"\\ud83d"}'].map((json) => Buffer.from(json).toString("base64url"));
    const { body, text } = await verify(`${parts.join(".")}.AAAA`);
    expect(body.verdict).toBe("invalid");
    expect(text).not.toMatch(/\\ud[89a-f]/i);
  },
);

test("a credential of ours is valid, check by check, and the verdict is in the audit log", async () => {
  const { id } = await publishedPassport(w.admin, kettle());
  const { credential } = await passportOf(id);
  expect(await outcomesOf(credential)).toEqual({ verdict: "valid", ...GOOD });
  const { data } = (await w.admin.get("/audit-logs?action=passport.credential_verified&limit=1")).body;
  expect(data[0]).toMatchObject({ subject: partsOf(credential).payload["id"], details: { verdict: "valid", ...GOOD } });
});

test("a tenant's credentials are listed, newest first, a page at a time and nobody else's", async () => {
  const admin = w.as((await w.admin.post("/tenants", { name: "alone" })).body.adminKey.secret);
  const made = [
    await publishedPassport(admin, kettle()),
    await publishedPassport(admin, kettle()),
    await publishedPassport(admin, kettle()),
  ];
  await admin.post(`/credentials/${made[1]?.id}/revoke`);
  const first = (await admin.get("/credentials?limit=2")).body;
  const rest = (await admin.get(`/credentials?limit=2&cursor=${first.nextCursor}`)).body;
  const listed = [...first.data, ...rest.data];
  expect(listed.map(({ passportId }) => passportId)).toEqual(made.map(({ id }) => id).toReversed());
  expect(rest.nextCursor).toBeNull();
  for (const one of listed) expect((await admin.get(`/credentials/${one.id}`)).body).toMatchObject(one);
  expect(listed.map(({ revokedAt }) => revokedAt !== null)).toEqual([false, true, false]);
  const scopes = ["credential:write", "credential:verify"];
  const verifier = w.as((await admin.post("/api-keys", { name: "verifier", scopes })).body.data.secret);
  expect(refusal(await verifier.get("/credentials"))).toEqual([403, "API_SCOPE_DENIED"]);
});

test("credentials that an early version named by their passports are listed page by page as well", async () => {
  const { id: tenantId, admin } = await w.tenant("early");
  const ids = [1, 2, 3].map((version) => `01900000-0000-7000-8000-000000000001.${version}`);
  await w.store.write("as an early version", ({ db }) =>
    db.insert(issuedCredentials).values(
      ids.map((id, n) => ({ id, tenantId, passportId: "p", version: n + 1, statusIndex: 3_000_000 + n, issuedAt: 1, revokedAt: null })), // oxfmt-ignore
    ),
  );
  const pages = [(await admin.get("/credentials?limit=1")).body];
  while (pages.at(-1).nextCursor !== null) pages.push((await admin.get(`/credentials?limit=1&cursor=${pages.at(-1).nextCursor}`)).body);
  expect(pages.map(({ data }) => data[0].id)).toEqual(ids.toReversed());
});

test("the credential of the longest content that a passport takes can be judged, too", async () => {
  const { id } = await draftPassport(w.admin, kettle());
  const content = { note: "x".repeat(limits.BODY_MAX_BYTES - 50) };
  expect((await w.admin.patch(`/passports/${id}`, { content })).status).toBe(200);
  expect(await outcomesOf((await passportOf(id)).credential)).toEqual({ verdict: "valid", ...GOOD });
});

test("whoever changes, re-signs or dresses one up is found out", async () => {
  const { id } = await publishedPassport(w.admin, kettle());
  const { credential } = await passportOf(id);
  const { privateKey } = stranger();
  const did = (await w.nobody.get("//.well-known/did.json")).body;
  const jwk = did.verificationMethod[0].publicKeyJwk;
  const pem = createPublicKey({ key: jwk, format: "jwk" }).export({ type: "spki", format: "pem" }).toString();
  const own = partsOf(credential);
  const evil = `did:web:evil.example`;
  const forgeries: Record<string, string> = {
    changed: tampered(credential, (parts) => ({ ...parts, payload: { ...parts.payload, id: "x" } })),
    "another key under our name": signedBy(privateKey, own),
    "alg none": unsigned(credential),
    "alg HS256 with the key as PEM": confused(credential, pem),
    "alg HS256 with the key as JWK": confused(credential, jwk.x),
    "another type": tampered(credential, ({ header, payload }) => ({ header: { ...header, typ: "at+jwt" }, payload })),
    "a kid of ours that isn't": signedBy(privateKey, { ...own, header: { ...own.header, kid: `${did.id}#nothing` } }),
    "a kid that isn't text": signedBy(privateKey, { ...own, header: { ...own.header, kid: `${did.id}#\0` } }),
    "no kid": signedBy(privateKey, { ...own, header: { alg: "EdDSA", typ: "vc+jwt" } }),
    "a critical extension": signedBy(privateKey, { ...own, header: { ...own.header, crit: ["exp2"], exp2: 1 } }),
    "our name, their key": signedBy(privateKey, { ...own, header: { ...own.header, kid: `${evil}#k` } }),
    "their name, our key": tampered(credential, ({ header, payload }) => ({ header, payload: { ...payload, issuer: evil } })),
    "cut short": credential.slice(0, -40),
    "two parts": credential.split(".").slice(0, 2).join("."),
    "no JSON": "a.b.c",
    "five parts": `${credential}.x.y`,
    nothing: ".",
  };
  for (const [what, forged] of Object.entries(forgeries)) expect([what, (await outcomesOf(forged)).verdict]).toEqual([what, "invalid"]);
  expect(await outcomesOf(credential)).toMatchObject({ verdict: "valid" });
});

test("a stranger's credential is unknown, not valid: nobody is asked over the network who they are", async () => {
  const { id } = await publishedPassport(w.admin, kettle());
  const { header, payload } = partsOf((await passportOf(id)).credential);
  const issuer = "did:web:169.254.169.254";
  const theirs = {
    header: { ...header, kid: `${issuer}#k` },
    payload: {
      ...payload,
      issuer: { id: issuer, name: "Evil" },
      credentialStatus: {
        type: "BitstringStatusListEntry",
        statusPurpose: "revocation",
        statusListIndex: "1",
        statusListCredential: "http://127.0.0.1/1",
      },
    },
  };
  expect(await outcomesOf(signedBy(stranger().privateKey, theirs))).toEqual({
    verdict: "unknown",
    ...GOOD,
    signature: "unknown",
    issuer: "unknown",
    status: "unknown",
  });
});

test("a huge credential is refused by its size, an odd one by its checks, and neither breaks anything", async () => {
  expect(refusal(await verify("x".repeat(2_100_000)))).toEqual([413, "PAYLOAD_TOO_LARGE"]);
  expect((await outcomesOf("x".repeat(900_000))).verdict).toBe("invalid");
  const odd = { id: "\u0000\ud800", type: "VerifiableCredential", "@context": 5, issuer: [], credentialStatus: [], validFrom: "soon" };
  const answer = await outcomesOf(signedBy(stranger().privateKey, { header: { alg: "EdDSA", typ: "vc+jwt" }, payload: odd }));
  expect(answer).toMatchObject({ verdict: "invalid", issuer: "failed", validity: "failed", schema: "failed" });
  const textless = { valueOf: 1, toString: 1 };
  const credentialStatus = { statusListCredential: textless, statusListIndex: textless, type: textless, statusPurpose: textless };
  const kept = signedBy(stranger().privateKey, { header: { alg: textless, typ: textless }, payload: { ...odd, credentialStatus } });
  expect((await outcomesOf(kept)).verdict).toBe("invalid");
  const listed = signedBy(stranger().privateKey, { header: { alg: "EdDSA", typ: "vc+jwt" }, payload: { ...odd, credentialStatus } });
  expect(await outcomesOf(listed)).toMatchObject({ verdict: "invalid", status: "unknown" });
  const typed = signedBy(stranger().privateKey, {
    header: { alg: "EdDSA", typ: "vc+jwt" },
    payload: { ...odd, type: Array(300_000).fill(1) },
  });
  const { checks } = (await verify(typed)).body as { checks: { name: string; message: string }[] };
  expect(checks.find(({ name }) => name === "schema")?.message).toContain("300000 types");
  for (const body of [{}, { credential: 5 }, { credential: "" }, { credential: "a", more: 1 }])
    expect(refusal(await w.admin.post("/credentials/verify", body))).toEqual([400, "VALIDATION_ERROR"]);
});

test("a credential is found by its id, by the id written in it and by its passport's; never by another tenant", async () => {
  const { id } = await publishedPassport(w.admin, kettle());
  const { credential, credentialId } = await passportOf(id);
  const shown = (await w.admin.get(`/credentials/${credentialId}`)).body;
  expect(shown).toMatchObject({ id: credentialId, passportId: id, version: 1, current: true, revokedAt: null, credential });
  const written = encodeURIComponent(String(partsOf(credential).payload["id"]));
  for (const name of [id, written]) expect((await w.admin.get(`/credentials/${name}`)).body).toEqual(shown);
  const other = (await w.tenant("stranger")).admin;
  for (const name of [id, written, credentialId]) expect(refusal(await other.get(`/credentials/${name}`))).toEqual([404, "NOT_FOUND"]);
  expect(refusal(await other.post(`/credentials/${credentialId}/revoke`))).toEqual([404, "NOT_FOUND"]);
});

test("what was signed under another public URL is revoked by the id written in it, and where only TLS came it is judged as before", async () => {
  const dataDir = freshFolder("moved");
  const databaseUrl = await freshDatabase();
  async function at<T>(url: string, act: (there: World) => Promise<T>): Promise<T> {
    const there = await startWorld({ dataDir, databaseUrl, settings: { IMPRIMATUR_PUBLIC_URL: url } });
    try {
      return await act(there);
    } finally {
      await there.end();
    }
  }
  const [before, tls] = ["http://passports.example", "https://passports.example"] as const;
  const { credential, credentialId } = await at(before, async ({ admin }) => {
    const { id } = await publishedPassport(admin, kettle());
    return (await admin.get(`/passports/${id}`)).body;
  });
  const verdictAt = (url: string) =>
    at(url, async ({ admin }) => (await admin.post("/credentials/verify", { credential })).body.verdict as string);
  expect(await verdictAt(tls)).toBe("valid");
  const written = encodeURIComponent(String(partsOf(credential).payload["id"]));
  const revoked = await at("https://elsewhere.example", ({ admin }) => admin.post(`/credentials/${written}/revoke`));
  expect([revoked.status, revoked.body.id]).toEqual([200, credentialId]);
  expect(await verdictAt(tls)).toBe("invalid");
});

test("verifying isn't implied by reading or writing, and the plural names do as well", async () => {
  const as = async (scope: string) => w.as((await w.admin.post("/api-keys", { name: "v", scopes: [scope] })).body.data.secret);
  const { id } = await publishedPassport(w.admin, kettle());
  const { credential } = await passportOf(id);
  for (const scope of ["credential:read", "credential:write"])
    expect(refusal(await (await as(scope)).post("/credentials/verify", { credential }))).toEqual([403, "API_SCOPE_DENIED"]);
  expect((await (await as("credentials:verify")).post("/credentials/verify", { credential })).status).toBe(200);
  expect((await (await as("credentials:read")).get(`/credentials/${id}`)).status).toBe(200);
  expect((await (await as("credentials:write")).post(`/credentials/${id}/revoke`)).status).toBe(200);
});

test("revoking sets one version's bit for good: not ready to print, twice is ALREADY_REVOKED, and the next version is whole", async () => {
  const { id, productId } = await draftPassport(w.admin, kettle());
  await w.admin.post(`/passports/${id}/validations`);
  await publish(w.admin, productId);
  const ready = async () => (await w.admin.get(`/passports/${id}/validations`)).body.readyToPrint;
  const first = await passportOf(id);
  expect([await ready(), await bitOf(first.credential)]).toEqual([true, 0]);
  expect((await w.nobody.get(`//p/${productId}`)).text).not.toContain("was withdrawn");
  const revoked = await w.admin.post(`/credentials/${first.credentialId}/revoke`);
  expect([revoked.status, revoked.body.revokedAt, await bitOf(first.credential), await ready()]).toEqual([
    200,
    expect.any(String),
    1,
    false,
  ]);
  expect(await passportOf(id)).toMatchObject({ credentialId: first.credentialId, credentialRevokedAt: revoked.body.revokedAt });
  const listed = async () => (await w.admin.get(`/passports?productId=${productId}&status=published`)).body.data;
  expect(await listed()).toMatchObject([{ id, status: "published", revokedAt: null, credentialRevokedAt: revoked.body.revokedAt }]);
  expect(refusal(await w.admin.post(`/credentials/${first.credentialId}/revoke`))).toEqual([409, "ALREADY_REVOKED"]);
  expect(await outcomesOf(first.credential)).toEqual({ verdict: "invalid", ...GOOD, status: "failed" });
  expect((await w.nobody.get(`//p/${productId}`)).text).toContain("The signature of this passport was withdrawn");
  await w.admin.post(`/passports/${id}/validations`);
  expect(await ready()).toBe(false); // a new anchor doesn't undo it

  await w.admin.post(`/passports/${id}/revise`);
  await publish(w.admin, productId);
  await w.admin.post(`/passports/${id}/validations`);
  const second = await passportOf(id);
  expect([second.credentialRevokedAt, (await w.admin.get(`/passports/${id}?version=1`)).body.credentialRevokedAt]).toEqual([
    null,
    revoked.body.revokedAt,
  ]);
  expect([await ready(), await bitOf(first.credential), await bitOf(second.credential)]).toEqual([true, 1, 0]);
  expect(await listed()).toMatchObject([{ id, credentialRevokedAt: null }]);
  expect(await outcomesOf(second.credential)).toMatchObject({ verdict: "valid" });
  expect((await w.admin.get("/audit-logs?action=passport.credential_revoked&limit=1")).body.data[0]).toMatchObject({
    subject: id,
    details: { credentialId: first.credentialId, version: 1 },
  });
});

test("two who revoke at once: one does it, the other hears that it was done", async () => {
  const { id } = await publishedPassport(w.admin, kettle());
  const both = await Promise.all([w.admin.post(`/credentials/${id}/revoke`), w.admin.post(`/credentials/${id}/revoke`)]);
  expect(new Set(both.map(({ status }) => status))).toEqual(new Set([200, 409]));
});

test("an edited draft's earlier credential is revoked, a deleted draft's too, and what is signed after a void is revoked from the start", async () => {
  const edited = await draftPassport(w.admin, kettle());
  const before = await passportOf(edited.id);
  await w.admin.patch(`/passports/${edited.id}`, { content: { ...before.content, note: "changed" } });
  const after = await passportOf(edited.id);
  expect([await bitOf(before.credential), await bitOf(after.credential)]).toEqual([1, 0]);
  expect((await w.admin.get(`/credentials/${before.credentialId}`)).body).toMatchObject({ current: false, credential: null });

  await w.admin.delete(`/passports/${edited.id}`);
  expect(await bitOf(after.credential)).toBe(1);

  const voided = await publishedPassport(w.admin, kettle());
  const published = await passportOf(voided.id);
  await w.admin.post(`/products/${voided.productId}/void`, { reason: "recalled" });
  await w.admin.post(`/passports/${voided.id}/revise`);
  const second = encodeURIComponent(`${w.url}/p/${voided.productId}#v2`);
  const { credential: next } = (await w.admin.get(`/credentials/${second}`)).body;
  expect([await bitOf(published.credential), await bitOf(next)]).toEqual([1, 1]);
  expect(refusal(await w.admin.post(`/credentials/${voided.id}/revoke`))).toEqual([409, "ALREADY_REVOKED"]);
});

const placesTaken = (own: World, places: number) =>
  own.store.write("credentials issued", ({ db }) => db.run(sql`UPDATE counters SET value = ${places} WHERE name = 'credential_status'`));

test("nothing is signed of a status list that no credential is in yet, and each has one address", async () => {
  const own = await world();
  const at = async (list: string) => {
    const { status, body } = await own.nobody.get(`//status/${list}`);
    return [status, body?.error?.code];
  };
  const none = [404, "NOT_FOUND"];
  expect([await at("0"), await at("1"), await at("999999"), await at("00")]).toEqual([
    [200, undefined],
    none,
    none,
    [400, "VALIDATION_ERROR"],
  ]);
  await placesTaken(own, 131_072);
  expect(await at("1")).toEqual(none);
  await placesTaken(own, 131_073);
  expect([await at("1"), await at("2")]).toEqual([[200, undefined], none]);
});

test("a full status list is read anew when a bit was set, and not for everybody who asks", async () => {
  const [own, first, bits] = [await world(), 131_072, 131_072];
  await placesTaken(own, first + bits);
  const revoke = (from: number, to: number) =>
    own.store.write("revoked long ago", ({ db }) =>
      db.run(
        `WITH RECURSIVE n(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${to})
         INSERT INTO issued_credentials (id, tenant_id, passport_id, version, status_index, issued_at, revoked_at) SELECT 'c' || i, 't', 'p', 1, i, 1, 1 FROM n`,
      ),
    );
  const asked = async (list: number) => {
    const began = performance.now();
    const { text } = await own.nobody.get(`//status/${list}`);
    const ms = performance.now() - began;
    const { encodedList } = partsOf(text).payload["credentialSubject"] as { encodedList: string };
    const bytes = gunzipSync(Buffer.from(encodedList.slice(1), "base64url"));
    return { ms, set: bytes.reduce((sum, byte) => sum + byte.toString(2).replaceAll("0", "").length, 0) };
  };
  await revoke(first, first + bits - 7);
  const anew: number[] = [];
  const again: number[] = [];
  for (let left = 6; left > 0; left -= 1) {
    for (const all of [anew, again, again, again]) {
      const { ms, set } = await asked(1);
      expect(set).toBe(bits - left);
      all.push(ms);
    }
    await revoke(first + bits - left, first + bits - left);
  }
  expect([(await asked(1)).set, (await asked(0)).set]).toEqual([bits, 0]);
  expect(Math.min(...again)).toBeLessThan(Math.min(...anew) / 2);
});

test("a bit beyond the end of its list isn't another list's: what names one isn't said to be good, nor to be revoked", async () => {
  const own = await world();
  const folder = freshFolder("status");
  const keys = await openKeys(own.store, folder, await openSeal(own.store, folder, []));
  await own.store.write("revoked", ({ db }) =>
    db.run(
      sql`INSERT INTO issued_credentials (id, tenant_id, passport_id, version, status_index, issued_at, revoked_at) VALUES ('c', 't', 'p', 1, 131072, 1, 1)`,
    ),
  );
  const issuer = `did:web:${encodeURIComponent(new URL(own.url).host)}`;
  const statusOf = async (statusListIndex: string) => {
    const listed = { type: "BitstringStatusListEntry", statusPurpose: "revocation", statusListCredential: `${own.url}/status/0` };
    const credential = keys.sign("vc+jwt", { issuer, credentialStatus: { ...listed, statusListIndex } }, `${issuer}#${keys.kid}`);
    const { checks } = (await own.admin.post("/credentials/verify", { credential })).body;
    return (checks as { name: string; outcome: string; message: string }[]).find(({ name }) => name === "status");
  };
  expect(await statusOf("131071")).toMatchObject({ outcome: "passed" });
  for (const bit of ["131072", "131073"])
    expect(await statusOf(bit)).toMatchObject({ outcome: "failed", message: expect.stringContaining("no such bit") });
});

test("a bit that was read before a commit that then failed is in no status list", async () => {
  const own = await world();
  const folder = freshFolder("status");
  const signing = { keys: await openKeys(own.store, folder, await openSeal(own.store, folder, [])), origin: () => own.url };
  const LIST = 0;
  const revoke = (tx: Tx, bit: number) =>
    tx.db.run(sql`INSERT INTO issued_credentials (id, tenant_id, passport_id, version, status_index, issued_at, revoked_at)
      VALUES (${`d${bit}`}, 't', 'p', 1, ${LIST * 131_072 + bit}, 1, 1)`);
  const firstByte = async (tx: Tx) => {
    const { encodedList } = partsOf(await statusList(tx, LIST, signing)).payload["credentialSubject"] as { encodedList: string };
    return gunzipSync(Buffer.from(encodedList.slice(1), "base64url"))[0];
  };
  const failed = own.store.write("a void", async (tx) => {
    await revoke(tx, 3);
    expect(await firstByte(tx)).toBe(0b0001_0000);
    throw new Error("the disk is full");
  });
  await expect(failed).rejects.toThrow("the disk is full");
  await own.store.write("another", (tx) => revoke(tx, 6));
  expect(await own.store.read("its list", firstByte)).toBe(0b0000_0010);
});
