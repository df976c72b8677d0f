// Secrets that we have to know again, to sign with or to make serials of: sealed where they lie, with a key that isn't beside them where that is possible.
import { createCipheriv, createDecipheriv, createSecretKey, hash, hkdfSync, type KeyObject, randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { keptText, writeDurably } from "./files.ts";
import { asc } from "./store/drizzle.ts";
import { sealingKeys } from "./store/schema.ts";
import type { Store } from "./store/store.ts";

export type Opener = {
  /** Undefined where it was sealed with a key that isn't here, or was changed since. */
  open(sealed: string): string | undefined;
  /** Names the keys that open, the newest first. */
  ids: string[];
};
export type Seal = Opener & {
  close(text: string): string;
  /** Names the key that closes; what is sealed begins with the name of its key. */
  id: string;
  /** Names the other keys that open. */
  former: string[];
  /** Where the key comes from: a setting, a file of the data folder, or the store itself. */
  from: "setting" | "file" | "store";
};

/** Those that are set, the newest first. */
export const keysSetIn = ({ SEALING_KEY, SEALING_KEY_FILE }: { SEALING_KEY: string[]; SEALING_KEY_FILE: string[] }): string[] => [
  ...SEALING_KEY,
  ...SEALING_KEY_FILE,
];

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
export const ID_LENGTH = 8;
const idOf = (key: Buffer): string => hash("sha256", key, "hex").slice(0, ID_LENGTH);
/** Names the key that closed it. */
export const keyIdOf = (sealed: string): string => sealed.slice(0, ID_LENGTH);

/** A store with one node keeps its keys beside it, so that a copy of the database opens nothing; one a line, the newest first. */
function keysOfFile(file: string): Buffer[] {
  if (!existsSync(file)) writeDurably(file, `${randomBytes(KEY_BYTES).toString("base64")}\n`);
  const keys = keptText(file)
    .trim()
    .split(/\s+/)
    .map((line) => Buffer.from(line, "base64"));
  if (keys.some(({ length }) => length !== KEY_BYTES))
    throw new Error(`${file} doesn't hold keys of ${KEY_BYTES} bytes in base64, one a line: restore it, or what it closed can't be opened`);
  return keys;
}

/** A store with many nodes keeps it for all of them; whoever comes first makes it. */
const keyOfStore = (store: Store): Promise<Buffer> =>
  store.write("sealing key", async ({ db, now }) => {
    const oldest = () => db.select().from(sealingKeys).orderBy(asc(sealingKeys.id)).limit(1).get();
    const fresh = randomBytes(KEY_BYTES);
    if (!(await oldest())) await db.insert(sealingKeys).values({ id: "shared", key: fresh, createdAt: now }).onConflictDoNothing();
    return (await oldest())?.key ?? fresh;
  });

const derived = (text: string): Buffer => Buffer.from(hkdfSync("sha256", text, "", "imprimatur sealing", KEY_BYTES));

function openerOf(keys: readonly Buffer[]): Opener {
  const byId = new Map(keys.map((key) => [idOf(key), createSecretKey(key)])); // a third of the time that bytes take
  return {
    ids: [...byId.keys()],
    open: (sealed) => {
      const [id = "", text = ""] = sealed.split(".");
      const key = byId.get(id);
      return key && opened(Buffer.from(text, "base64"), key);
    },
  };
}

/** The first of those that are set closes; the others open, as does what was there before any was set. */
export async function openSeal(store: Store, dataDir: string, configured: readonly string[]): Promise<Seal> {
  const own = store.sole ? keysOfFile(join(dataDir, "sealing-key")) : [await keyOfStore(store)];
  const all = [...configured.map(derived), ...own];
  const current = all[0] as Buffer;
  const id = idOf(current);
  const opener = openerOf(all);
  return {
    ...opener,
    id,
    former: opener.ids.slice(1),
    from: configured.length > 0 ? "setting" : store.sole ? "file" : "store",
    close: (text) => `${id}.${encrypted(text, current).toString("base64")}`,
  };
}

/** For who only looks: it makes no key. `shared` is the store's own, where it has one. */
export function openerFor(dataDir: string, configured: readonly string[], shared?: Buffer): Opener {
  const file = join(dataDir, "sealing-key");
  const own = shared ? [shared] : existsSync(file) ? keysOfFile(file) : [];
  return openerOf([...configured.map(derived), ...own]);
}

function opened(bytes: Buffer, key: KeyObject): string | undefined {
  try {
    return decrypted(bytes, key);
  } catch {
    return undefined; // who asked says what can't be done without it
  }
}

/** By AES-256-GCM: the nonce, the tag, and what was closed. */
export function encrypted(text: string, key: KeyObject | Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
}

/** Throws where another key closed it, or a bit of it was changed. */
export function decrypted(bytes: Buffer, key: KeyObject | Buffer): string {
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]).toString("utf8");
}
