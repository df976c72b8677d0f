// imprimatur verify: one saved file, no cloud and no network, and a sentence for everything that holds or doesn't.
import { execFile } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { digestOf } from "#shared/canonical.ts";
import { encodeSgtin96 } from "#shared/gs1.ts";
import * as log from "../../cloud/domain/log.ts";
import { linesOf } from "../../cloud/verify/evidence.ts";
import { ringFrom } from "../../cloud/verify/keys.ts";
import { verify as judge } from "../../cloud/verify.ts";
import { startAnchor } from "../../fixtures/anchor.ts";
import { confused, partsOf, signedBy, stranger, tampered, unsigned } from "../../fixtures/forge.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { draftPassport, publishedPassport } from "../../fixtures/passports.ts";
import { type Claim, goodItems, type Item, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { startWorld } from "../../fixtures/world.ts";
import { freshFolder } from "../endings.ts";
import { freshDatabase } from "../world.ts";

const folder = freshFolder("verify");
let files = 0;
const saved = (content: unknown): string => {
  const file = join(folder, `${(files += 1)}.json`);
  writeFileSync(file, typeof content === "string" || Buffer.isBuffer(content) ? content : JSON.stringify(content));
  return file;
};
async function run(...args: string[]) {
  const { code, said } = await judge(args);
  const marks = Object.fromEntries(
    ["holds", "fails", "unknown", "note"].map((mark) => [mark, said.filter((line) => line.startsWith(`${mark}: `)).length]),
  );
  return { code, marks, said: said.join("\n") };
}
const verify = (content: unknown, ...args: string[]) => run(saved(content), ...args);

const LINK = "https://cloud.example/01/09506000134352/21/4711";
const LABEL = { job_ref: "pj_1", digital_link: LINK, sgtin96_epc: null, needs: ["qr"] };

const EPC = encodeSgtin96({ gtin: "09506000134352", serial: "4711", companyPrefixLength: 7, filter: 1 });
/** What a cloud that lies could seal: each has its digest and stands in the log. */
function lies(): [RegExp, Item[]][] {
  const good = goodItems({ job: { ...LABEL, sgtin96_epc: EPC, needs: ["rfid"] } });
  const [rendered, sent, attested, scanned] = good as [Item, Item, Item, Item];
  const changed = (state: string, changes: object) =>
    good.map((item) => {
      const [[name, said]] = Object.entries(item.evidence ?? {}) as [[string, object]];
      return item.status === state ? { ...item, evidence: { [name]: { ...said, ...changes } } } : item;
    });
  const operator = { status: "PRINTED_ATTESTED", actor: { kind: "operator" } };
  const tagged = (epc: string) =>
    changed("RENDERED", { epc }).with(3, changed("SCAN_VERIFIED", { rfid: { epc, reader: "printer" } })[3] as Item);
  const strange = EPC.replace(/.$/, "0");
  return [
    [/have to be RENDERED, SPOOL_SUBMITTED, PRINTED_ATTESTED, SCAN_VERIFIED, and are none/, []],
    [/and are RENDERED, SPOOL_SUBMITTED, PRINTED_ATTESTED$/m, good.slice(0, 3)],
    [/and are RENDERED, SPOOL_SUBMITTED, SCAN_VERIFIED, PRINTED_ATTESTED$/m, [rendered, sent, scanned, attested]],
    [/SCAN_VERIFIED: the symbol says .*\/4712, the job .*\/4711/, changed("SCAN_VERIFIED", { decoded: LINK.replace("4711", "4712") })],
    [/SCAN_VERIFIED: the symbol says https:\/\/evil/, changed("SCAN_VERIFIED", { decoded: LINK.replace("cloud", "evil") })],
    [/PRINTED_ATTESTED: .*grade: D is a spooler/, changed("PRINTED_ATTESTED", { grade: "D" })],
    [/PRINTED_ATTESTED: .*the counter moved by 9, and one label/, changed("PRINTED_ATTESTED", { after: 109 })],
    [/PRINTED_ATTESTED: actor.id: says which operator attests/, good.with(2, operator)],
    [/SPOOL_SUBMITTED: .*spool_receipt: is what SPOOL_SUBMITTED needs/, good.with(1, { status: "SPOOL_SUBMITTED" })],
    [/SPOOL_SUBMITTED: actor.kind must/, good.with(1, { ...sent, actor: { kind: "system" } })],
    [/the EPC \w+ is of GTIN 09506000134352, serial \d+$/m, tagged(strange)],
    [/the EPC: 310/, tagged(`31${"0".repeat(22)}`)],
  ];
}

/** All that is verified below is saved here, from a cloud that is gone before the first check. */
async function collected() {
  const w = await startWorld({ databaseUrl: await freshDatabase() });
  const empty = (await w.nobody.get("/log/checkpoint")).text;
  const { id, productId } = await publishedPassport(w.admin, { gtin: gtinOf(560_001) });
  await w.admin.post(`/passports/${id}/validations`);
  const proofOf = async (digest: string) => (await w.nobody.get(`/log/proof?digest=${digest}`)).body;
  const checkpoint = async () => (await w.nobody.get("/log/checkpoint")).text;
  const bundle = (await w.admin.get(`/passports/${id}/proof`)).body;
  const first = await checkpoint();
  const sealed = async (items: Item[]) => ({ attempt_id: "a1", items, sha256: digestOf(items), proof: await proofOf(digestOf(items)) });
  const [rendered, ...others] = goodItems({ job: LABEL }) as [Item, ...Item[]];
  const manifest = rendered.evidence?.["render_manifest"] as object;
  const numbers = { counted: 12_345_678_901_234_567_000, speed: 1.5e-7, left: -0.25 };
  const items = [{ ...rendered, evidence: { render_manifest: { ...manifest, ...numbers } } }, ...others];
  const sha256 = digestOf(items);
  await w.store.write("print", (tx) => log.append(tx, { kind: "print_bundle", digest: sha256 }));
  for (let i = 0; i < 5; i += 1) await w.store.write("more", (tx) => log.append(tx, { kind: "passport", digest: digestOf(i) }));
  const print = await sealed(items);
  const later = (await w.admin.get(`/passports/${id}/proof`)).body;
  const last = await checkpoint();
  const consistency = (await w.nobody.get(`/log/consistency?from=1&to=${print.proof.size}`)).body;
  const did = (await w.nobody.get("//.well-known/did.json")).body;
  const jwks = (await w.nobody.get("//.well-known/jwks.json")).body;
  const forged = [];
  for (const [why, lie] of lies()) {
    await w.store.write("lie", (tx) => log.append(tx, { kind: "print_bundle", digest: digestOf(lie) }));
    forged.push({ why, file: await sealed(lie) });
  }
  await w.admin.post(`/products/${productId}/void`, { reason: "recalled" });
  const revoked = (await w.admin.get(`/passports/${id}/proof`)).body;
  await w.end();
  return { bundle, later, print, forged, empty, first, last, consistency, did, jwks, revoked };
}
const { bundle, later, print, forged, empty, first, last, consistency, did, jwks, revoked } = await collected();
const [didFile, jwksFile, firstFile, lastFile, consistencyFile] = [did, jwks, first, last, consistency].map(saved) as [
  string,
  string,
  string,
  string,
  string,
];

test("a passport saved by one curl holds, says its digest and its leaf, and whose keys it was judged by", async () => {
  const alone = await verify(bundle);
  expect([alone.code, alone.marks]).toEqual([0, { holds: 10, fails: 0, unknown: 0, note: 1 }]);
  expect(alone.said).toMatch(`the file's digest is ${bundle.proof.entry.digest}, and the log's leaf 0 of`);
  expect(alone.said).toMatch("keys came from the file itself");
  const { product } = partsOf(bundle.credential).payload["credentialSubject"] as { product: { id: string } };
  expect(alone.said).toMatch(`UNTP Digital Product Passport, of ${product.id}`); // whose holds as well isn't this one
  for (const keys of [didFile, jwksFile]) {
    const trusted = await verify(bundle, "--keys", keys);
    expect([trusted.code, trusted.marks["fails"], trusted.said.includes("came from the file itself")]).toEqual([0, 0, false]);
  }
});

test("a print's evidence holds by its items, its digest and its proof; one item moved, changed or dropped and it doesn't", async () => {
  const good = await verify(print, "--keys", didFile);
  expect([good.code, good.marks]).toEqual([0, { holds: 7, fails: 0, unknown: 0, note: 1 }]);
  expect(good.said).toMatch(
    /note: that it is of the attempt a1 wasn't checked[^]*: all that was checked holds; the notes say what wasn't$/,
  );
  expect((await verify(print)).said).toMatch("no key was given");
  for (const items of [print.items.toReversed(), print.items.slice(1), [{ ...print.items[0], status: "SEALED" }, print.items[1]]])
    expect((await verify({ ...print, items }, "--keys", didFile)).code).toBe(1);
  const rehashed = { ...print, items: print.items.slice(1), sha256: digestOf(print.items.slice(1)) };
  expect((await verify(rehashed, "--keys", didFile)).said).toMatch(/fails: the file's digest is/);
  expect((await verify({ ...print, proof: bundle.proof }, "--keys", didFile)).code).toBe(1); // a proof of something else
  expect((await verify({ ...print, proof: null, fault: "it was changed" })).said).toMatch(
    "fails: the cloud itself said, when this was saved: it was changed",
  );
});

test("a digest in the log says nothing for evidence that doesn't prove its label: that is judged again, by the cloud's own rules", async () => {
  for (const { why, file } of forged) {
    const { code, marks, said } = await verify(file, "--keys", didFile);
    expect([code, marks["fails"], said]).toEqual([1, 1, expect.stringMatching(/fails: what its items say doesn't prove that label: /)]);
    expect(said).toMatch(why);
  }
});

test("what a print's evidence is worth is said: on whose word paper came out, and what else has to be looked at", async () => {
  const { said } = await verify(print, "--keys", didFile);
  expect(said).toMatch(
    /holds: its items are what a sealed label takes: the device says that paper came out, grade A \(.*\): .*; its symbol was read as the label's, by camera$/m,
  );
  const good = goodItems({ job: { ...LABEL, sgtin96_epc: EPC, needs: ["rfid"] } });
  const scan = { ...(good[3]?.evidence?.["scan_result"] as object), image_sha256: "a".repeat(64) };
  const items = good
    .with(2, { status: "PRINTED_ATTESTED", actor: { kind: "operator", id: "op-7" } })
    .with(3, { status: "SCAN_VERIFIED", evidence: { scan_result: scan } });
  const attested = await verify({ ...print, items, sha256: digestOf(items) }, "--keys", didFile);
  expect(attested.said).toMatch(
    `the operator op-7 says that paper came out; its symbol was read as the label's, by camera, and the tag as ${EPC}`,
  );
  const strange = { ...scan, rfid: { epc: EPC.replace(/.$/, "0"), reader: "printer" } };
  const beside = items.with(3, { status: "SCAN_VERIFIED", evidence: { scan_result: strange } });
  const roll = await verify({ ...print, items: beside, sha256: digestOf(beside) }, "--keys", didFile);
  expect(roll.said).toMatch(/its symbol was read as the label's, by camera$/m);
  expect(roll.said).toMatch(/note: the tag that was read, [0-9A-F]{23}0, isn't this label's: that is good where the job asked for none$/m);
  expect(attested.said).toMatch(
    `note: its pictures weren't looked at: GET /aidc/evidence/{sha256} has them, and their SHA-256 has to be ${"a".repeat(64)}`,
  );
});

test("what the cloud itself says of a sealed label holds, and of one that isn't sealed yet that much can't be told", async () => {
  const w = await startWorld({ databaseUrl: await freshDatabase() });
  const shop = await printShop(w);
  const { job_ref } = await shop.issue();
  const claimed = await shop.device.claim();
  const items = goodItems(claimed);
  const evidence = async () => (await shop.admin.get(`/aidc/jobs/${job_ref}/evidence`)).body;
  for (const item of items) await shop.device.say(claimed, item);
  const open = await evidence();
  await shop.device.say(claimed, sealOf(items));
  const sealed = await evidence();
  const keys = saved((await w.nobody.get("//.well-known/did.json")).body);
  await w.end();
  const good = await verify(sealed, "--keys", keys);
  expect([good.code, good.marks]).toEqual([0, { holds: 7, fails: 0, unknown: 0, note: 1 }]);
  expect(good.said).toMatch(
    `holds: the 4 items of the bundle give the digest that it names, ${sealed.sha256}, of the label ${claimed.job.digital_link}`,
  );
  const early = await verify(open, "--keys", keys);
  expect([early.code, early.said]).toEqual([1, expect.stringMatching(/unknown: the attempt wasn't sealed/)]);
});

test("what the cloud takes and seals holds, in whatever way a station says it: links with more behind them, small letters, counters of all kinds, tags nobody asked for", async () => {
  const w = await startWorld({ databaseUrl: await freshDatabase() });
  const shop = await printShop(w);
  const keys = saved((await w.nobody.get("//.well-known/did.json")).body);
  const sealed = async (needs: string[], changesOf: (job: Claim["job"]) => object[]) => {
    const { job_ref } = await shop.issue({ needs });
    const claimed = await shop.device.claim();
    const changes = changesOf(claimed.job);
    const items = goodItems(claimed).map(({ evidence, ...item }, i) => {
      const [[name, said]] = Object.entries(evidence ?? {}) as [[string, object]];
      return { ...item, evidence: { [name]: { ...said, ...changes[i] } } };
    });
    for (const item of [...items, sealOf(items)]) expect(await shop.device.say(claimed, item)).toMatchObject({ status: 200 });
    return await verify((await shop.admin.get(`/aidc/jobs/${job_ref}/evidence`)).body, "--keys", keys);
  };
  const judged = [
    await sealed(["qr"], ({ digital_link }) => [
      { more: [1e21, -0, 5e-324] },
      { spool_id: 7 },
      { token: 7 },
      { decoded: `${digital_link}/?a=1#b` },
    ]),
    await sealed(["qr", "rfid"], ({ sgtin96_epc: epc }) => [
      { epc: epc?.toLowerCase() },
      {},
      { before: { total: null, labels: 7 }, after: { labels: 10 }, voids: 2 },
      { rfid: { epc: epc?.toLowerCase(), reader: "independent" } },
    ]),
    await sealed(["qr"], ({ sgtin96_epc: epc }) => [{ epc }, {}, {}, { rfid: { epc: EPC, reader: "printer" } }]),
  ];
  await w.end();
  for (const { code, said } of judged)
    expect([code, said]).toEqual([0, expect.stringMatching(/holds: its items are what a sealed label takes: /)]);
  expect(judged.at(-1)?.said).toMatch(`note: the tag that was read, ${EPC}, isn't this label's: that is good where the job asked for none`);
});

test("what was signed since the keys were saved doesn't hold by them, and it is said that newer ones may have it hold", async () => {
  const older = saved({ ...did, verificationMethod: [{ ...did.verificationMethod[0], id: `${did.id}#older` }] });
  const { code, said } = await verify(bundle, "--keys", older);
  expect(code).toBe(1);
  expect(said).toMatch(
    /fails: signature: the issuer has no key did:web:\S+ among those given: if they were saved before this was signed, save its did.json anew/,
  );
  expect(said).toMatch(
    /fails: status: the status list isn't signed by the credential's issuer: the issuer has no key did:web:\S+ among those given: if they/,
  );
  const { publicKey } = generateKeyPairSync("ed25519");
  const other = publicKey.export({ format: "jwk" });
  expect((await verify(print, "--keys", saved({ keys: [{ ...other, kid: "x" }] }))).said).toMatch(
    /fails: the checkpoint was signed by none of the keys given: if they were saved before it was signed, save did.json anew/,
  );
});

test("evidence of simulated devices holds, and is said to be that", async () => {
  const mark = { deeper: [{ simulated: true }] };
  const items = [{ ...print.items[0], evidence: { render_manifest: { payload: "x", ...mark } } }];
  const { said } = await verify({ ...print, items, sha256: digestOf(items), proof: null });
  expect([said, (await verify(print)).said]).toEqual([
    expect.stringContaining("note: it is evidence of simulated devices"),
    expect.not.stringContaining("simulated"),
  ]);
});

test("a proof by itself, and a credential by itself, as far as they go", async () => {
  expect((await verify(print.proof, "--keys", jwksFile)).code).toBe(0);
  const bare = await verify(bundle.credential);
  expect([bare.code, bare.said]).toEqual([1, expect.stringMatching(/unknown: signature: no key was given/)]);
  expect((await verify(bundle.credential, "--keys", didFile)).code).toBe(0);
  expect((await verify({ credential: bundle.credential }, "--keys", didFile)).code).toBe(0);
  const { proof: _proof, ...unproven } = bundle; // as if somebody had cut it out
  for (const file of [bundle.credential, unproven]) {
    const { code, said } = await verify(file, "--keys", didFile);
    expect([code, said]).toEqual([0, expect.stringMatching(/note: whether it stands in the log wasn't checked: .*--proof/)]);
    const held = await verify(file, "--keys", didFile, "--checkpoint", firstFile);
    expect([held.code, held.said]).toEqual([1, expect.stringMatching(/unknown: whether it stands in the log that you know can't be told/)]);
  }
  const both = await verify(bundle.credential, "--keys", didFile, "--proof", saved(bundle.proof));
  expect([both.code, both.said]).toEqual([0, expect.stringMatching("and the log's leaf 0 of")]);
  expect((await verify(bundle.credential, "--keys", didFile, "--proof", saved(print.proof))).code).toBe(1);
});

test("without a key a status list can't be judged, and isn't said to be somebody else's", async () => {
  const { credential, statusList } = bundle;
  const { code, said } = await verify({ credential, statusList });
  expect([code, said]).toEqual([1, expect.stringMatching(/unknown: status: /)]);
  expect(said).not.toMatch("fails: ");
});

test("a status list says something only where it is one, of revocations, and while it counts", async () => {
  const { privateKey, publicKey } = stranger();
  const { kid } = partsOf(bundle.credential).header;
  const keys = saved({ id: did.id, verificationMethod: [{ id: kid, publicKeyJwk: publicKey.export({ format: "jwk" }) }] });
  const status = async (list: object, subject: object, entry: object = {}) => {
    const [mine, lists] = [partsOf(bundle.credential), partsOf(bundle.statusList)];
    Object.assign(mine.payload["credentialStatus"] as object, entry);
    Object.assign(lists.payload, list);
    Object.assign(lists.payload["credentialSubject"] as object, subject);
    const { said } = await verify({ credential: signedBy(privateKey, mine), statusList: signedBy(privateKey, lists) }, "--keys", keys);
    return /(\w+): status: /.exec(said)?.[1];
  };
  expect(await status({}, {})).toBe("holds");
  for (const [list, subject] of [
    [{ type: ["VerifiableCredential"] }, {}],
    [{}, { type: "StatusList2021" }],
    [{}, { encodedList: "uAAAA" }],
  ] as const)
    expect([list, subject, await status(list, subject)]).toEqual([list, subject, "fails"]);
  for (const [list, subject, entry] of [
    [{}, { statusPurpose: "suspension" }, {}],
    [{}, { statusPurpose: "suspension" }, { statusPurpose: "suspension" }],
    [{}, {}, { type: "StatusList2021Entry" }],
    [{ validUntil: "2026-01-01T00:00:00Z" }, {}, {}],
    [{ validFrom: "9999-01-01T00:00:00Z" }, {}, {}],
  ] as const)
    expect([list, subject, entry, await status(list, subject, entry)]).toEqual([list, subject, entry, "unknown"]);
  for (const statusListIndex of [131_072, 2 ** 31, 2 ** 32, 2 ** 32 + 8].map(String))
    expect([statusListIndex, await status({}, {}, { statusListIndex })]).toEqual([statusListIndex, "fails"]); // a place that the list hasn't
});

test("a status list by itself is judged, and said to be one: not to be a credential that lacks its list and its proof", async () => {
  const { code, said } = await verify(bundle.statusList, "--keys", didFile);
  expect([code, said]).toEqual([0, expect.stringMatching(/^note: it is a status list: .* with this as its --status$/m)]);
  expect(said).not.toMatch(/whether it (was revoked|stands)/);
  const asked = await verify(bundle.statusList, "--keys", didFile, "--checkpoint", firstFile);
  expect([asked.code, asked.said]).toEqual([1, expect.stringMatching(/^unknown: whether it stands in the log/m)]);
});

test("a list that was signed a moment ago counts where the clock is slow by a minute", async () => {
  const signed = Date.parse(String(partsOf(bundle.statusList).payload["validFrom"]));
  const given = { keys: ringFrom(did), checkpoint: undefined, proof: undefined, statusList: undefined, consistency: undefined };
  const lines = await linesOf(JSON.stringify(bundle), { ...given, now: signed - 60_000 });
  expect(lines.filter(({ mark }) => mark === "fails" || mark === "unknown")).toEqual([]);
  expect(lines).toContainEqual({ mark: "holds", text: expect.stringMatching("^status: ") });
});

test("keys of other kinds, which an issuer may have beside those that sign, stand in nobody's way", async () => {
  const agreement = {
    id: `${did.id}#agreement`,
    publicKeyJwk: { kty: "OKP", crv: "X25519", x: "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo" },
  };
  const other = { id: `${did.id}#other`, type: "Multikey", publicKeyMultibase: "z6MkmM42vxfqZQsv4ehtTjFFxQ4sQKS2w6WR7emozFAn5cxu" };
  const more = { ...did, verificationMethod: [agreement, ...did.verificationMethod, other] };
  for (const file of [bundle, { ...bundle, didDocument: more }]) {
    const { code, said } = await verify(file, "--keys", saved(more));
    expect([code, said]).toEqual([0, expect.stringMatching(/: all of it holds$/)]);
  }
  for (const verificationMethod of [[agreement], [{ ...other, publicKeyMultibase: "z6Mkanother" }]].map((strange) => [
    ...did.verificationMethod,
    ...strange,
  ])) {
    const { code, said } = await verify(
      { ...bundle, didDocument: { ...did, verificationMethod } },
      "--keys",
      saved({ ...did, verificationMethod: [...did.verificationMethod, other] }),
    );
    expect([code, said]).toEqual([
      0,
      expect.stringMatching(/note: the didDocument in the file isn't what --keys says[^]*the notes say what wasn't$/),
    ]);
  }
  expect((await verify(bundle, "--keys", saved({ ...did, verificationMethod: [agreement, other] }))).code).toBe(2);
});

test("who has no key of the cloud's gathers what is open to all, as a credential by itself says where; a later status list counts before an older one", async () => {
  const vc = saved(bundle.credential);
  const alone = await run(vc, "--keys", didFile);
  const { statusListCredential } = partsOf(bundle.credential).payload["credentialStatus"] as { statusListCredential: string };
  expect(alone.said).toContain(
    `note: whether it was revoked since only its issuer's status list can tell (--status takes it: ${statusListCredential})`,
  );
  expect(alone.said).toContain(`--proof takes one: /api/v2/log/proof?digest=${bundle.proof.entry.digest}`);
  const whole = await run(vc, "--keys", didFile, "--proof", saved(bundle.proof), "--status", saved(bundle.statusList));
  expect([whole.code, whole.said]).toEqual([0, expect.stringMatching(/holds: status: [^]*: all of it holds$/)]);
  expect((await verify(bundle, "--keys", didFile)).said).toMatch(/holds: status: it wasn't revoked/); // as long ago as it was saved
  const now = await verify(bundle, "--keys", didFile, "--status", saved(revoked.statusList));
  expect([now.code, now.said]).toEqual([1, expect.stringMatching(/fails: status: it was revoked; bit/)]);
  expect(now.said).toMatch(/note: the file's own status list wasn't looked at, and may say anything: --status took its place/);
  const misplaced = await verify(print, "--status", saved(bundle.statusList));
  expect([misplaced.code, misplaced.said]).toEqual([2, "imprimatur: --status goes with a credential, and the file has none"]);
});

test("what another issuer's signature asks for or says of its own end is heeded: crit, nbf and exp", async () => {
  const { privateKey, publicKey } = stranger();
  const { header, payload } = partsOf(bundle.credential);
  const keys = saved({ id: did.id, verificationMethod: [{ id: header["kid"], publicKeyJwk: publicKey.export({ format: "jwk" }) }] });
  const said = async (more: object, claims: object) =>
    await verify(signedBy(privateKey, { header: { ...header, ...more }, payload: { ...payload, ...claims } }), "--keys", keys);
  const now = Math.floor(Date.now() / 1_000);
  expect((await said({}, { nbf: now - 9, exp: now + 999 })).code).toBe(0);
  for (const [more, claims, why] of [
    [{ crit: ["b64"], b64: false }, {}, /fails: signature: it isn't a signed credential: its header has a crit/],
    [{}, { exp: now - 9 }, /fails: validity: its signature ended at .* \(exp\)/],
    [{}, { nbf: now + 999 }, /fails: validity: its signature counts from .* on \(nbf\)/],
    [{}, { exp: "tomorrow" }, /fails: validity: nbf or exp isn't an instant in seconds/],
    [{}, { exp: 1e300 }, /fails: validity: nbf or exp isn't an instant in seconds/],
  ] as const) {
    const judged = await said(more, claims);
    expect([judged.code, judged.said]).toEqual([1, expect.stringMatching(why)]);
  }
});

test("a key that its owner doesn't sign with, or not any more, stands in the document and proves nothing: assertionMethod names those that do", async () => {
  const [method] = did.verificationMethod;
  const short = { ...method, id: method.id.replace(did.id, "") };
  for (const document of [
    { ...did, assertionMethod: [method.id.replace(did.id, "")] },
    { ...did, verificationMethod: [short] },
    { ...did, verificationMethod: [], assertionMethod: [method] },
    { ...did, verificationMethod: [], assertionMethod: method },
    { id: did.id, assertionMethod: [method] },
    { ...did, assertionMethod: method.id },
    { ...did, assertionMethod: [...did.assertionMethod, null, 5] },
  ])
    expect((await verify(bundle, "--keys", saved(document))).code).toBe(0);
  for (const document of [
    { ...did, assertionMethod: [] },
    { ...did, assertionMethod: [`${did.id}#newer`] },
    { ...did, assertionMethod: [`${did.id}#newer`], keys: [] },
    { ...did, assertionMethod: `${did.id}#newer` },
    { ...did, assertionMethod: [method.id.replace(did.id, "did:web:other.example")] },
  ]) {
    const { code, said } = await verify(bundle, "--keys", saved(document));
    expect([code, said]).toEqual([1, expect.stringMatching(/fails: signature: the key did:web:\S+ isn't one that its owner signs with/)]);
    expect(said).toMatch(/fails: the checkpoint was signed by none of the keys given/);
  }
});

test("what is signed is read as strictly as the file around it: nothing in it may say one thing to us and another to others", async () => {
  const { privateKey, publicKey } = stranger();
  const [mine, list] = [partsOf(bundle.credential), partsOf(bundle.statusList)];
  const keys = saved({ id: did.id, verificationMethod: [{ id: mine.header["kid"], publicKeyJwk: publicKey.export({ format: "jwk" }) }] });
  /** Signed as it is written. */
  const as = ({ header, payload }: typeof mine, text = JSON.stringify(payload)) => signedBy(privateKey, { header, payload: text as never });
  const statusList = as(list);
  expect((await verify({ ...bundle, credential: as(mine), statusList }, "--keys", keys)).said).toMatch(
    /holds: signature: [^]*holds: status: /,
  );
  const text = JSON.stringify(mine.payload);
  for (const [other, why] of [
    [
      text.replace('"credentialSubject":', '"credentialSubject":{"product":"another"},"credentialSubject":'),
      /the name "credentialSubject" stands twice/,
    ],
    [text.replace('"product":{', '"product":{"share":0.10000000000000000000001,'), /more digits than are kept/],
  ] as const) {
    const { code, said } = await verify({ credential: as(mine, other) }, "--keys", keys);
    expect([code, said]).toEqual([1, expect.stringMatching(/fails: signature: /)]);
    expect(said).toMatch(why);
  }
  const twofold = JSON.stringify(list.payload).replace('"encodedList":', '"encodedList":"u","encodedList":');
  expect((await verify({ ...bundle, credential: as(mine), statusList: as(list, twofold) }, "--keys", keys)).said).toMatch(
    /fails: status: /,
  );
});

test("what else stands in a file isn't covered by what holds: it is named, and what would be judged in another way is refused", async () => {
  const forged = tampered(bundle.credential, ({ header, payload }) => ({ header, payload: { ...payload, credentialSubject: { a: 1 } } }));
  for (const [file, names] of [
    [{ ...print, serial: "4711", gtin: "04006381333931" }, "serial, gtin"],
    [{ ...bundle, status: "published" }, "status"],
  ] as const) {
    const { code, said } = await verify(file, "--keys", didFile);
    expect([code, said]).toEqual([0, expect.stringMatching(`note: wasn't looked at, and may say anything: ${names}\n`)]);
    expect(said).toMatch(/the notes say what wasn't$/);
  }
  const own = { ...print, proof: { ...print.proof, index: 0 } }; // of which nothing holds
  const replaced = await verify(own, "--keys", didFile, "--proof", saved(print.proof));
  expect([replaced.code, replaced.said]).toEqual([
    0,
    expect.stringMatching(/note: the file's own proof wasn't looked at[^]*the notes say what wasn't$/),
  ]);
  expect((await verify({ ...print, proof: null }, "--keys", didFile, "--proof", saved(print.proof))).said).not.toMatch("own proof");
  for (const file of [
    { ...print, credential: forged },
    { ...print.proof, credential: forged },
    { ...print, ...print.proof, proof: print.proof },
  ]) {
    const { code, said } = await verify(file, "--keys", didFile);
    expect([code, said]).toEqual([2, expect.stringMatching(/several things at once/)]);
  }
});

test("what says one thing to us and another to whoever reads it is refused: a name that stands twice, half a surrogate pair, digits that we don't keep", async () => {
  const text = JSON.stringify(print);
  const payload = `"payload":"${LINK}"`;
  const lie = JSON.stringify([{ status: "RENDERED", evidence: { render_manifest: { payload: "another label" } } }]);
  for (const [file, why] of [
    [`{"items":${lie},${text.slice(1)}`, /the name "items" stands twice/],
    [`{"it\\u0065ms":${lie},${text.slice(1)}`, /the name "items" stands twice/],
    [text.replace(payload, `"payload":"y",${payload}`), /the name "payload" stands twice/],
    [text.replace(payload, '"payload":"\\ud800"'), /half a surrogate pair/],
    [text.replace("12345678901234567000", "12345678901234567890"), /the number 12345678901234567890 has more digits/],
    [text.replace("-0.25", "-0.25000000000000000001"), /the number -0.25000000000000000001 has more digits/],
    [text.replace("-0.25", `-0.25${"0".repeat(1_000_000)}1`), /the number -0.25000[0]+ has more digits/],
    [text.replace("-0.25", '-0.25,"much":1e-999'), /the number 1e-999 has more digits/],
  ] as const) {
    const { code, said } = await verify(file, "--keys", didFile);
    expect([code, said]).toEqual([2, expect.stringMatching(why)]);
  }
  const otherwise = text.replace("1.5e-7", "0.000000150").replace("-0.25", "-25.0E-2").replace("https:", "\\u0068ttps:");
  expect((await verify(otherwise, "--keys", didFile)).code).toBe(0);
  const keys = JSON.stringify(did).replace('"verificationMethod":', '"verificationMethod":[],"verificationMethod":');
  expect((await verify(bundle, "--keys", saved(keys))).said).toMatch(/can't be used: the name "verificationMethod" stands twice/);
});

test("a signature that was written in another way is another text than the one that was given out, though a lenient reader takes it", async () => {
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const spare = (text: string) => text.replace(/.$/, (last) => LETTERS[LETTERS.indexOf(last) ^ 1] ?? "");
  for (const other of [spare, (text: string) => `${text}=`, (text: string) => `${text.slice(0, -5)}\n${text.slice(-5)}`]) {
    const { code, said } = await verify({ ...bundle, credential: other(bundle.credential) }, "--keys", didFile);
    expect([code, said]).toEqual([1, expect.stringMatching(/fails: signature: .*isn't a signed credential.*base64url to the letter/)]);
    expect((await verify({ ...bundle, statusList: other(bundle.statusList) }, "--keys", didFile)).said).toMatch(/fails: status: /);
  }
  for (const other of [" more", "*", "===="]) {
    const checkpoint = bundle.proof.checkpoint.replace(/\n$/, `${other}\n`);
    const { code, said } = await verify({ ...bundle, proof: { ...bundle.proof, checkpoint } }, "--keys", didFile);
    expect([code, said]).toEqual([1, expect.stringMatching(/fails: the checkpoint isn't a signed note: it was changed/)]);
  }
});

test("what an editor does to a file, a mark at its beginning or other line ends, changes nothing", async () => {
  const asOnWindows = (text: string) => saved(`\ufeff${text.replaceAll("\n", "\r\n")}`);
  const keys = asOnWindows(JSON.stringify(did, undefined, 2));
  const { code, said } = await run(asOnWindows(JSON.stringify(bundle, undefined, 2)), "--keys", keys, "--checkpoint", asOnWindows(first));
  expect([code, said]).toEqual([0, expect.stringMatching(/the checkpoint that you know was signed[^]*: all of it holds$/)]);
});

test("what can't be written down by RFC 8785 was changed, and is said to be, not taken for a file of no use", async () => {
  const [header, payload = "", signature] = bundle.credential.split(".");
  const endless = Buffer.from(payload, "base64url").toString().replace('"product":{', '"product":{"weight":1e999,');
  const credential = [header, Buffer.from(endless).toString("base64url"), signature].join(".");
  const items = JSON.stringify(print).replace('"dpi":203', '"dpi":1e999');
  for (const [file, why] of [
    [{ ...bundle, credential }, /fails: signature: the key .* didn't sign this[^]*fails: the file's content has no digest/],
    [items, /fails: the items give another digest[^]*fails: the file's content has no digest/],
  ] as const) {
    const { code, said } = await verify(file, "--keys", didFile);
    expect([code, said]).toEqual([1, expect.stringMatching(why)]);
  }
});

test("judged by keys of one's own, a file that brings others isn't said to hold as a whole", async () => {
  const x = (stranger().publicKey.export({ format: "jwk" }) as { x: string }).x;
  const [method] = did.verificationMethod;
  const more = { ...did, verificationMethod: [method, { ...method, publicKeyJwk: { ...method.publicKeyJwk, x } }] };
  for (const didDocument of [more, { ...did, id: "did:web:elsewhere.example" }]) {
    const { code, said } = await verify({ ...bundle, didDocument }, "--keys", didFile);
    expect([code, said]).toEqual([
      0,
      expect.stringMatching(/note: the didDocument in the file isn't what --keys says[^]*the notes say what wasn't$/),
    ]);
  }
  expect((await verify(bundle, "--keys", didFile)).marks["note"]).toBe(0);
  expect((await verify(bundle, "--keys", jwksFile)).said).not.toMatch("the didDocument in the file");
});

test("a key set doesn't say whose it is: that is said, and who signs in another's name than the issuer's isn't believed by it either", async () => {
  const { privateKey, publicKey } = stranger();
  const jwk = { ...publicKey.export({ format: "jwk" }), kid: "k1" };
  const { payload } = partsOf(bundle.credential);
  const by = (kid: string) => {
    const issuer = { ...(payload["issuer"] as object), id: "did:web:famous.example" };
    const credential = signedBy(privateKey, { header: { alg: "EdDSA", typ: "vc+jwt", kid }, payload: { ...payload, issuer } });
    return verify(credential, "--keys", saved({ keys: [jwk] }));
  };
  const own = await by("did:web:famous.example#k1");
  expect([own.code, own.said]).toEqual([
    0,
    expect.stringMatching(/note: that the keys are those of did:web:famous\.example, its issuer, wasn't/),
  ]);
  const another = await by("did:web:elsewhere.example#k1");
  expect([another.code, another.said]).toEqual([1, expect.stringMatching(/fails: issuer: .*signed with a key of another's/)]);
  expect((await verify(bundle, "--keys", didFile)).said).toMatch(/holds: issuer: /);
});

test("forged, tampered, foreign or revoked, it says what doesn't hold and ends with 1", async () => {
  const { credential, proof } = bundle;
  const { privateKey, publicKey } = stranger();
  const theirs = { ...did, verificationMethod: [{ ...did.verificationMethod[0], publicKeyJwk: publicKey.export({ format: "jwk" }) }] };
  const changed = tampered(credential, ({ header, payload }) => ({ header, payload: { ...payload, credentialSubject: { a: 1 } } }));
  const altered = proof.root.replace(/^./, proof.root.startsWith("0") ? "1" : "0");
  const foreign = print.proof;
  const bad: [string, unknown, RegExp][] = [
    ["changed", { ...bundle, credential: changed }, /fails: signature: /],
    ["alg none", { ...bundle, credential: unsigned(credential) }, /fails: signature: its algorithm is none/],
    [
      "HS256",
      { ...bundle, credential: confused(credential, did.verificationMethod[0].publicKeyJwk.x) },
      /fails: signature: its algorithm is HS256/,
    ],
    [
      "unknown kid",
      {
        ...bundle,
        credential: signedBy(privateKey, { ...partsOf(credential), header: { alg: "EdDSA", typ: "vc+jwt", kid: `${did.id}#x` } }),
      },
      /fails: signature: the issuer has no key/,
    ],
    ["cut", { ...bundle, credential: credential.slice(0, 200) }, /fails: signature: /],
    ["another's proof", { ...bundle, proof: foreign }, /fails: leaf 1 of the log is of a print_bundle/],
    ["another root", { ...bundle, proof: { ...proof, root: altered } }, /fails: the proof doesn't lead/],
    [
      "another entry",
      { ...bundle, proof: { ...proof, entry: { ...proof.entry, at: "2020-01-01T00:00:00.000Z" } } },
      /fails: the leaf's hash/,
    ],
    [
      "another head",
      { ...bundle, proof: { ...proof, checkpoint: proof.checkpoint.replace("\n1\n", "\n9\n") } },
      /fails: the checkpoint names another tree/,
    ],
    ["no head", { ...bundle, proof: { ...proof, checkpoint: "x" } }, /fails: the checkpoint isn't a signed note/],
    [
      "another's receipt",
      { ...bundle, receipt: { digest: "0".repeat(64), anchor: "a", anchoredAt: "2026-11-21T00:00:00.000Z" } },
      /fails: the anchoring service's receipt/,
    ],
    [
      "another's list",
      { ...bundle, statusList: signedBy(privateKey, partsOf(bundle.statusList)) },
      /fails: status: the status list isn't signed/,
    ],
    ["revoked", revoked, /fails: status: it was revoked/],
  ];
  for (const [what, file, why] of bad) {
    const { code, said } = await verify(file, "--keys", didFile);
    expect([what, code, said]).toEqual([what, 1, expect.stringMatching(why)]);
  }
  expect((await verify(bundle, "--keys", saved(theirs))).said).toMatch(/fails: signature: the key .* didn't sign this/);
});

test("a checkpoint that you know shows whether the log was rolled back, rewritten or forked", async () => {
  expect((await verify(bundle, "--checkpoint", firstFile)).said).toMatch("holds: the file's head is the one that you know");
  const grown = await verify(later, "--keys", didFile, "--checkpoint", firstFile, "--consistency", consistencyFile);
  expect([grown.code, grown.said]).toEqual([0, expect.stringMatching("is the beginning of the log of 7")]);
  const untold = await verify(later, "--checkpoint", firstFile);
  expect([untold.code, untold.said]).toEqual([1, expect.stringMatching(/unknown: .*consistency\?from=1&to=7/)]);
  const misfit = saved({ ...consistency, to: 6 });
  expect((await verify(later, "--checkpoint", firstFile, "--consistency", misfit)).said).toMatch(
    /unknown: .*consistency\?from=1&to=7, given with --consistency, and the one given is from 1 to 6$/m,
  );
  const older = await verify(bundle, "--checkpoint", lastFile);
  expect([older.code, older.said]).toEqual([1, expect.stringMatching(/unknown: .*shorter than the one that you know/)]);
  expect((await verify(bundle, "--checkpoint", lastFile, "--consistency", consistencyFile)).code).toBe(0);

  const head = (size: number, root: string) => saved(first.replace(/\n\d+\n[^\n]+\n/, `\n${size}\n${root}\n`));
  const otherRoot = Buffer.alloc(32, 7).toString("base64");
  expect((await verify(bundle, "--checkpoint", head(1, otherRoot))).said).toMatch("fails: the log was forked");
  const rolledBack = await verify(bundle, "--checkpoint", head(7, otherRoot), "--consistency", consistencyFile);
  expect([rolledBack.code, rolledBack.said]).toEqual([1, expect.stringMatching("it was rolled back, rewritten or forked")]);
  for (const root of ["fromRoot", "toRoot"]) {
    const changed = saved(JSON.stringify({ ...JSON.parse(readFileSync(consistencyFile, "utf8")), [root]: "0".repeat(64) }));
    const { code, said } = await verify(later, "--checkpoint", firstFile, "--consistency", changed);
    expect([root, code, said]).toEqual([root, 1, expect.stringMatching("names other roots than the two heads have")]);
  }
  expect((await verify(bundle, "--keys", didFile, "--checkpoint", head(1, otherRoot))).said).toMatch("fails: the checkpoint that you know");
});

test("a head that was saved while the log was empty is the beginning of every log, and takes no proof", async () => {
  const { code, said } = await verify(later, "--keys", didFile, "--checkpoint", saved(empty));
  expect([code, said]).toEqual([
    0,
    expect.stringMatching(/holds: the checkpoint that you know was signed[^]*holds: the log that you know was/),
  ]);
  const other = saved(empty.replace(/\n0\n[^\n]+\n/, `\n0\n${Buffer.alloc(32, 7).toString("base64")}\n`));
  expect((await verify(later, "--checkpoint", other)).said).toMatch("fails: the head that you know is of no log");
});

test("an outside anchor's receipt is in the file, and is said to be the service's word", async () => {
  const anchor = await startAnchor();
  const w = await startWorld({ databaseUrl: await freshDatabase(), settings: { IMPRIMATUR_ANCHOR: anchor.url } });
  const { id } = await draftPassport(w.admin, { gtin: gtinOf(560_002) });
  await w.admin.post(`/passports/${id}/validations`);
  const file = (await w.admin.get(`/passports/${id}/proof`)).body;
  await w.end();
  await anchor.end();
  const { code, said } = await verify(file);
  expect([code, said]).toEqual([0, expect.stringMatching("receipt names the same digest: anchor:test:1")]);
  const { proof: _proof, ...unproven } = file; // as if somebody had cut it out
  expect((await verify(unproven)).said).toMatch("receipt names the same digest: anchor:test:1");
  const other = await verify({ ...unproven, receipt: { ...file.receipt, digest: "0".repeat(64) } });
  expect([other.code, other.said]).toEqual([1, expect.stringMatching("receipt is for another digest")]);
});

test("as a program it ends with 0, 1 or 2", async () => {
  const program = fileURLToPath(new URL("../../.runtime/run.mjs", import.meta.url));
  const codeOf = (...args: string[]) =>
    new Promise((resolve) => execFile(process.execPath, [program, "verify", ...args], (error) => resolve(error?.code ?? 0)));
  expect(await Promise.all([codeOf(saved(bundle)), codeOf(saved(revoked)), codeOf(saved("x"))])).toEqual([0, 1, 2]);
});

test("what can't be used at all ends with 2 and one line that says why", async () => {
  const text = JSON.stringify(bundle);
  const nested = `"evidence":${'{"x":'.repeat(20_000)}0${"}".repeat(20_000)}`;
  const deep = JSON.stringify({ ...print, items: [{ ...print.items[0], evidence: 0 }] }).replace(`"evidence":0`, nested);
  const unusable: [string[], RegExp][] = [
    [[], /usage: imprimatur verify/],
    [[join(folder, "nothing")], /ENOENT/],
    [[folder], /is a folder, where a file has to be/],
    [[saved("")], /neither a credential nor JSON/],
    [[saved(text.slice(0, text.length / 2))], /was it cut off/],
    [[saved("[1]")], /none that can be verified/],
    [[saved('{"error":{"code":"UNAUTHORIZED","message":"send a key"}}')], /is a refusal, .*: UNAUTHORIZED, send a key/],
    [[saved("5")], /no object/],
    [[saved({ ...bundle, proof: { ...bundle.proof, index: -1 } })], /looks like a passport's file, but \/proof\/index/],
    [[saved({ ...print, items: "x" })], /looks like print evidence/],
    [[saved(`{"items":${"[".repeat(200_000)}${"]".repeat(200_000)},"sha256":"x"}`)], /looks like print evidence/],
    [[saved(deep)], /nested too deeply/],
    [[saved(" ".repeat(16_777_217))], /more than 16777216 bytes/],
    [[saved(Buffer.from([0xff, 0xfe]).toString("latin1"))], /JSON/],
    [[saved(gzipSync(text))], /\d+\.json is packed with gzip: unpack it first \(gunzip\)$/],
    [[saved(bundle), "--keys", saved(gzipSync("{}"))], /is packed with gzip/],
    [[saved(Buffer.from(`\ufeff${text}`, "utf16le"))], /\d+\.json isn't UTF-8/],
    [[saved(bundle), "--keys", saved("{}")], /neither a DID document/],
    [[saved(bundle), "--keys", saved({ kty: "OKP", crv: "X25519", x: "AA" })], /isn't an Ed25519 key/],
    ...["null", '{"keys":[null]}', '{"keys":5}', '{"id":"did:web:x","verificationMethod":[null]}', '{"verificationMethod":"x"}', '"x"'].map(
      (keys): [string[], RegExp] => [[saved(bundle), "--keys", saved(keys)], /: the keys? .*(isn't an Ed25519 key|neither a DID document)/],
    ),
    [[saved({ ...bundle, didDocument: { id: "did:web:x", verificationMethod: [null] } })], /isn't an Ed25519 key/],
    [[saved(bundle), "--checkpoint", saved("x")], /isn't a log's checkpoint/],
    [[saved(bundle), "--consistency", consistencyFile], /--consistency goes with --checkpoint.*usage/],
    [[saved(bundle), "--color"], /--color/],
  ];
  for (const [args, why] of unusable) {
    const { code, said } = await run(...args);
    expect([args, code, said]).toEqual([args, 2, expect.stringMatching(why)]);
    expect(said.split("\n")).toHaveLength(1);
  }
});
