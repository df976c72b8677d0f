// The keys that secrets are sealed with: changed while everything runs, told at the start where one is missing, and never shown.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ConfigError } from "#shared/arguments.ts";
import { limits } from "#shared/limits.ts";
import { configFrom } from "../../cloud/config.ts";
import { countByKey } from "../../cloud/domain/sealed-secrets.ts";
import { signatureFault } from "../../fixtures/receiver.ts";
import type { World } from "../../fixtures/world.ts";
import { receiving } from "../hooks.ts";
import { sameStore } from "../same-store.ts";
import { engine } from "../world.ts";

const OLD = "the sealing key of last year, long enough";
const NEW = "the sealing key of this year, long enough";

const sealedIn = ({ store }: World) =>
  store.read("sealed", async ({ db }) => (await db.values("SELECT secret, previous_secret FROM webhooks")).flat() as string[]);
const keysIn = async (w: World) => new Set((await sealedIn(w)).map((text) => text?.split(".")[0]));
const complaints = (w: World) => w.logged().filter((line) => line.includes('"event":"sealing-key-missing"'));

/** A webhook in the midst of the rotation of its own secret: both sign. */
async function webhook({ admin }: World) {
  const receiver = await receiving();
  const { id, secret: before } = (await admin.post("/webhooks", { url: receiver.url, events: ["print.confirmed"] })).body;
  const { secret } = (await admin.post(`/webhooks/${id}/rotate-secret`)).body;
  const arrivesSigned = async (at: World) => {
    const n = receiver.received.length;
    await at.admin.post(`/webhooks/${id}/test`, {});
    await expect.poll(() => receiver.received.length).toBe(n + 1);
    const { headers, body = "" } = receiver.received[n] ?? {};
    return [before, secret].map((one) => signatureFault(headers ?? {}, Buffer.from(body), [one], Date.now()));
  };
  return { arrivesSigned, secrets: [before, secret] as string[] };
}

test("a new key takes over while the old one still opens, closes everything anew, and then is enough alone", async () => {
  const { start } = await sameStore();
  const first = await start({ IMPRIMATUR_SEALING_KEY: OLD });
  const hook = await webhook(first);
  for (let n = 0; n < 120; n += 1) await first.store.write("more", (tx) => copyWebhook(tx.db, n)); // more than a slice
  const [was] = await keysIn(first);
  await first.close();

  const both = await start({ IMPRIMATUR_SEALING_KEY: `${NEW}\n${OLD}` });
  expect(await hook.arrivesSigned(both)).toEqual([undefined, undefined]);
  await expect.poll(async () => (await keysIn(both)).has(was)).toBe(false);
  expect((await keysIn(both)).size).toBe(1);
  await expect.poll(() => both.logged().find((line) => line.includes("secrets-resealed"))).toContain('"webhooks":121');
  await both.close();

  const alone = await start({ IMPRIMATUR_SEALING_KEY: NEW });
  expect(complaints(alone)).toEqual([]);
  expect(await hook.arrivesSigned(alone)).toEqual([undefined, undefined]);
  const text = [first, both, alone].flatMap((w) => w.logged()).join("\n");
  for (const secret of [OLD, NEW, ...hook.secrets]) expect(text).not.toContain(secret);
  expect((await sealedIn(alone)).join()).not.toContain("whsec_");
  await alone.close();
});

type Db = { values(sql: string): Promise<unknown[][]> };
const copyWebhook = (db: Db, n: number) =>
  db.values(
    `INSERT INTO webhooks (tenant_id, id, url, description, events, enabled, secret, previous_secret, revision, created_at, updated_at)
     SELECT tenant_id, 'copy-${n}', url, description, events, enabled, secret, previous_secret, 1, created_at, updated_at FROM webhooks WHERE id NOT LIKE 'copy-%'
     RETURNING id`,
  );

test("a node without the key that was sealed with says so when it starts, with how much it can't open", async () => {
  const { start } = await sameStore();
  const first = await start({ IMPRIMATUR_SEALING_KEY: OLD });
  await webhook(first);
  const [was] = await keysIn(first);
  await first.close();
  const second = await start({ IMPRIMATUR_SEALING_KEY: NEW });
  expect(complaints(second)).toHaveLength(1);
  expect(JSON.parse(complaints(second)[0] ?? "")).toMatchObject({ level: "error", secrets: 2, keyIds: [was] });
  expect(complaints(second)[0]).toContain("IMPRIMATUR_SEALING_KEY");
  await second.close();
});

test("a webhook's secret that was replaced isn't missed any more once its time to sign beside the new one is over", async () => {
  const { start } = await sameStore();
  const first = await start({ IMPRIMATUR_SEALING_KEY: OLD });
  await webhook(first);
  await first.close();
  const second = await start({ IMPRIMATUR_SEALING_KEY: NEW });
  const lost = async () => (await second.store.read("lost", countByKey)).filter(({ kind, secrets }) => kind === "webhook" && secrets > 0);
  const [was] = (await lost()).map(({ keyId }) => keyId);
  const [hook] = (await second.admin.get("/webhooks")).body.data;
  await second.admin.post(`/webhooks/${hook.id}/rotate-secret`);
  expect((await lost()).map(({ keyId }) => keyId)).toContain(was);
  second.later(limits.WEBHOOK_SECRET_OVERLAP_MS + 1);
  expect((await lost()).map(({ keyId }) => keyId)).toEqual([expect.not.stringMatching(was ?? "")]);
  await second.close();
});

test("keys come from a file as well; a missing, empty or short one stops the start with the setting's name", async () => {
  const { dataDir, start } = await sameStore();
  const file = join(dataDir, "sealing.txt");
  writeFileSync(file, `${NEW}\n${OLD}\n`);
  const first = await start({ IMPRIMATUR_SEALING_KEY_FILE: file });
  const hook = await webhook(first);
  await first.close();
  const second = await start({ IMPRIMATUR_SEALING_KEY: NEW });
  expect(await hook.arrivesSigned(second)).toEqual([undefined, undefined]);
  await second.close();
  for (const text of ["", "short", `${NEW}\nshort`]) {
    writeFileSync(file, text);
    expect(() => configFrom({ IMPRIMATUR_SEALING_KEY_FILE: file })).toThrow(ConfigError);
    expect(() => configFrom({ IMPRIMATUR_SEALING_KEY_FILE: file })).toThrow(/^IMPRIMATUR_SEALING_KEY_FILE: /);
  }
  expect(() => configFrom({ IMPRIMATUR_SEALING_KEY_FILE: join(dataDir, "absent") })).toThrow(/^IMPRIMATUR_SEALING_KEY_FILE: .*absent/);
});

test.runIf(engine === "sqlite")("the data folder's own key is changed by a line on top of it", async () => {
  const { dataDir, start } = await sameStore();
  const first = await start({});
  const hook = await webhook(first);
  const [was] = await keysIn(first);
  await first.close();
  const file = join(dataDir, "sealing-key");
  writeFileSync(file, `${Buffer.alloc(32, 7).toString("base64")}\n${readFileSync(file, "utf8")}`);
  const second = await start({});
  await expect.poll(async () => (await keysIn(second)).has(was)).toBe(false);
  expect(await hook.arrivesSigned(second)).toEqual([undefined, undefined]);
  await second.close();
});
