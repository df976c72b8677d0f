// Signing keys grow old and are renewed, at a start and in between; whatever the old ones signed goes on verifying.
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import { isConsistent } from "#shared/merkle.ts";
import { parseNote } from "#shared/note.ts";
import { ringFrom } from "../../cloud/verify/keys.ts";
import { headLine } from "../../cloud/verify/log.ts";
import { partsOf } from "../../fixtures/forge.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { publishedPassport } from "../../fixtures/passports.ts";
import { world } from "../world.ts";

const w = await world({ settings: { IMPRIMATUR_PUBLIC_URL: "https://dpp.example" } }); // the issuer stays who it is from start to start
let n = 580_000;
const kids = async () => (await w.nobody.get("//.well-known/jwks.json")).body.keys.map(({ kid }: { kid: string }) => kid) as string[];
async function signed() {
  const { id } = await publishedPassport(w.admin, { gtin: gtinOf((n += 1)) });
  await w.admin.post(`/passports/${id}/validations`);
  const { credential } = (await w.admin.get(`/passports/${id}`)).body;
  const checkpoint = (await w.nobody.get("/log/checkpoint")).text;
  return { credential, checkpoint, kid: String(partsOf(credential).header["kid"]).split("#")[1] };
}
const verdictOf = async (credential: string) => (await w.admin.post("/credentials/verify", { credential })).body.verdict;
const markOf = async (checkpoint: string) => {
  const note = parseNote(checkpoint);
  return note && headLine(note, ringFrom((await w.nobody.get("//.well-known/did.json")).body), "it").mark;
};

test("an old key is renewed at a start and while running; old credentials and checkpoints verify, and the log is one", async () => {
  const first = await signed();
  expect(await kids()).toEqual([first.kid]);
  w.later(limits.SIGNING_KEY_LIFE_MS - 60_000);
  await w.restart();
  expect(await kids()).toEqual([first.kid]); // old, and not yet too old

  w.later(120_000);
  await w.restart();
  const second = await signed();
  expect(await kids()).toEqual([first.kid, second.kid]);
  expect([await markOf(second.checkpoint), second.kid === first.kid]).toEqual(["holds", false]);

  w.later(limits.SIGNING_KEY_LIFE_MS);
  await expect.poll(async () => (await kids()).length).toBe(3);
  await expect.poll(async () => (await signed()).kid === (await kids()).at(-1)).toBe(true);
  const third = await signed();
  for (const { credential, checkpoint } of [first, second, third])
    expect([await verdictOf(credential), await markOf(checkpoint)]).toEqual(["valid", "holds"]);

  const [old, now] = [parseNote(first.checkpoint)?.head, parseNote(third.checkpoint)?.head];
  const { proof } = (await w.nobody.get(`/log/consistency?from=${old?.size}&to=${now?.size}`)).body;
  const path = proof.map((hex: string) => Buffer.from(hex, "hex"));
  expect(old && now && isConsistent(old.size, now.size, old.root, now.root, path)).toBe(true);
});

test("no cache may answer with the keys of a minute ago: what a new one signs would be called forged", async () => {
  for (const path of ["jwks.json", "did.json"]) {
    const { headers } = await w.nobody.get(`//.well-known/${path}`);
    expect([path, headers.get("cache-control")]).toEqual([path, "no-cache"]);
  }
});
