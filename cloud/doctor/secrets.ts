// What a node signs with and what its secrets are sealed with: whether it can be opened here, and which keys are still needed for it.
import { statSync } from "node:fs";
import { join } from "node:path";
import { keptFault, keptIn, keptKey } from "../bootstrap-key.ts";
import { isMissing } from "../domain/bootstrap.ts";
import { byKey } from "../domain/callers.ts";
import { type Closed, countByKey } from "../domain/sealed-secrets.ts";
import { keyFilesIn, keyFolder, sealedWith } from "../key-files.ts";
import { signerFrom } from "../keys.ts";
import { keysSetIn, type Opener, openerFor } from "../seal.ts";
import { eq } from "../store/drizzle.ts";
import { SINCE, versionOf } from "../store/migrate.ts";
import { retiredKeys, sealingKeys, signingKeys } from "../store/schema.ts";
import type { Store } from "../store/store.ts";
import { bad, type Check, odd, type Patient, well } from "./finding.ts";
import { OTHERS } from "./machine.ts";

/** On PostgreSQL the key that needs no setting is in the store. */
async function openerOf({ config, store }: Patient): Promise<Opener> {
  const shared = await store?.read("sealing key", ({ db }) => db.select().from(sealingKeys).get());
  return openerFor(config.DATA_DIR, keysSetIn(config), shared?.key);
}

export const signingKey: Check = async (patient) => {
  const folder = keyFolder(patient.config.DATA_DIR);
  const newest = keyFilesIn(folder).at(-1);
  if (!newest) return odd(`${folder} holds no signing key`, "nothing, if this node never ran; else restore the folder from a backup");
  const file = join(folder, newest);
  if (process.platform !== "win32" && (statSync(file).mode & OTHERS) !== 0) return bad(`others may read ${file}`, `chmod 600 ${file}`);
  if (!patient.store) return odd("can't be looked at without the database", "mend that first");
  const signer = signerFrom(file, await openerOf(patient));
  if (!signer)
    return odd(
      `${file} can't be opened here`,
      "bring back the sealing key that it was closed with, or another one signs from the next start on",
    );
  const { kid } = signer;
  const known = await patient.store.read("signing key", ({ db }) => db.select().from(signingKeys).where(eq(signingKeys.kid, kid)).get());
  if (await isRetired(patient.store, kid))
    return odd(`the key ${kid} was retired`, "nothing, if the cloud runs: it has another within seconds; else start it");
  if (!known) return odd(`the database doesn't know the key ${kid} yet`, "start the cloud: it makes its key known before it signs");
  return well(`${kid} signs, and everybody can verify it`);
};

/** In a store of the version before there is nothing of that yet. */
const isRetired = async (store: Store, kid: string): Promise<boolean> =>
  (await versionOf(store)) >= SINCE.retiredKeys &&
  (await store.read("retired keys", ({ db }) => db.select().from(retiredKeys).where(eq(retiredKeys.kid, kid)).get())) !== undefined;

export const firstKey: Check = async ({ config, store }) => {
  const file = keptIn(config.DATA_DIR);
  const key = keptKey(file);
  if (key === undefined || !store) return [];
  const [isNew, opens] = await store.read("bootstrap key", async (tx) => [await isMissing(tx), (await byKey(tx, key)) !== undefined]);
  const fault = keptFault(key, file, isNew);
  if (fault) return bad(fault.says, fault.todo);
  return isNew || opens
    ? well(`${file} is whole`)
    : odd(`the key in ${file} opens nothing: it was rotated, revoked or replaced`, "remove the file");
};

const SEAL = "start the cloud: it seals them, a day later where several nodes share a database";
const NAMES: Record<Closed["kind"], string> = { webhook: "webhook secrets", serial: "serial secrets", signing: "signing keys" };
const kinds = Object.keys(NAMES) as Closed["kind"][];
const WITHOUT: typeof NAMES = {
  webhook: "or rotate the secrets",
  serial: "their tenants get no serials until then, and nothing else helps",
  signing: "or remove the files: another key signs, and what these signed goes on verifying",
};

export const sealingKey: Check = async (patient) => {
  const { store, config } = patient;
  if (!store) return [];
  if ((await versionOf(store)) < SINCE.sealedSerials)
    return odd("what serials are made with lies in clear, as the version before left it", SEAL);
  const { ids } = await openerOf(patient);
  const folder = keyFolder(config.DATA_DIR);
  const files = keyFilesIn(folder).map((name): Closed => ({ kind: "signing", keyId: sealedWith(join(folder, name)), secrets: 1 }));
  const all = [...(await store.read("sealed secrets", countByKey)), ...files];
  const many = (wanted: (one: Closed) => boolean) => all.filter(wanted).reduce((sum, one) => sum + one.secrets, 0);
  const found = kinds.flatMap((kind) => {
    const lost = many((one) => one.kind === kind && one.keyId !== null && !ids.includes(one.keyId));
    const todo = `set IMPRIMATUR_SEALING_KEY or restore sealing-key to what it was, ${WITHOUT[kind]}`;
    return lost === 0 ? [] : [(kind === "signing" ? odd : bad)(`${lost} ${NAMES[kind]} can't be opened here`, todo)];
  });
  const clear = many(({ keyId }) => keyId === null);
  if (clear > 0) found.push(odd(`${clear} secrets lie in clear`, SEAL));
  if (found.length > 0) return found;
  const counts = kinds.map((kind) => `${many((one) => one.kind === kind)} ${NAMES[kind]}`).join(", ");
  const former = ids
    .slice(1)
    .map((id, i) => ({ line: i + 2, secrets: many(({ keyId }) => keyId === id) }))
    .filter((one) => one.secrets > 0);
  const waits = former.map((one) => `; ${one.secrets} still need key ${one.line}, counted from the newest`).join("");
  return well(`${counts} can be opened${waits || ", all with the newest key"}`);
};
