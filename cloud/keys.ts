// This node's signing key: the private half never leaves the data folder, and lies sealed there; the public half is in the store for every node to verify with.
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign as signBytes } from "node:crypto";
import { join } from "node:path";
import { eq } from "./store/drizzle.ts";
import { digestOf } from "#shared/canonical.ts";
import { limits } from "#shared/limits.ts";
import { keepPem, keyFilesIn, keyFolder, pemIn } from "./key-files.ts";
import type { Opener, Seal } from "./seal.ts";
import { isOver, resignAgain } from "./domain/signing-keys.ts";
import { retiredKeys, signingKeys } from "./store/schema.ts";
import type { Store } from "./store/store.ts";
import { makeFolder } from "./files.ts";

type Jwk = { kty: string; crv: string; x: string };
export type Keys = {
  /** Changes when the key is renewed. */
  readonly kid: string;
  /** A compact JWS by Ed25519, made in 50 µs without leaving the event loop, so that it can be part of a unit of work. */
  sign(typ: string, claims: object, kid?: string): string;
  /** The bare 64 bytes, for forms that aren't JWS. */
  signBytes(bytes: Buffer): Buffer;
  /** The public half, 32 bytes. */
  readonly publicBytes: Buffer;
  /** Hears which keys were retired, and takes a new one where the present one was, or is old; says whether it did. What an old one signed goes on verifying. */
  renew(): Promise<boolean>;
  /** It was retired, as far as this node has heard: what it signed doesn't count. */
  isOver(kid: string): boolean;
  find(kid: string): Promise<KeyObject | undefined>;
  all(): Promise<(Jwk & { kid: string })[]>;
};

/** What signs, and in whose name. */
export type Signing = { keys: Keys; origin: () => string };

type Heard = { now: number; retired: ReadonlySet<string> };
type Own = { kid: string; key: KeyObject; jwk: Jwk; createdAt: number };
/** `fault`: why it can't be kept, and ends with this process. */
type Taken = { own: Own; fault?: Error };

const jwkOf = (key: KeyObject): Jwk => {
  const { kty = "", crv = "", x = "" } = createPublicKey(key).export({ format: "jwk" });
  return { kty, crv, x };
};
/** RFC 7638: the key's own thumbprint names it. */
const kidOf = (jwk: Jwk): string => Buffer.from(digestOf(jwk), "hex").toString("base64url");
const isKid = (text: string): boolean => /^[\w-]{43}$/.test(text);

const ownFrom = (pem: string, createdAt: number): Own => {
  const key = createPrivateKey(pem);
  const jwk = jwkOf(key);
  return { kid: kidOf(jwk), key, jwk, createdAt };
};

/** The key in a file, by itself: what signs where no store is open to write. Undefined where the file can't be opened here. */
export function signerFrom(file: string, opener: Opener): Pick<Keys, "kid" | "publicBytes" | "signBytes"> | undefined {
  const pem = pemIn(file, opener);
  if (pem === undefined) return undefined;
  const { kid, key, jwk } = ownFrom(pem, 0);
  return { kid, publicBytes: Buffer.from(jwk.x, "base64url"), signBytes: (bytes) => signBytes(null, bytes, key) };
}

/** The newest key of the folder that can be opened, while it is young enough and wasn't retired, else a new one. File names begin with the instant they were made. */
function loadOrMake(folder: string, { now, retired }: Heard, seal: Seal): Taken {
  const pem = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  try {
    makeFolder(folder, 0o700);
    for (const name of keyFilesIn(folder).toReversed()) {
      const madeAt = Number.parseInt(name, 10);
      if (now - madeAt >= limits.SIGNING_KEY_LIFE_MS) break;
      const kept = pemIn(join(folder, name), seal);
      if (kept === undefined) continue;
      const own = ownFrom(kept, madeAt);
      if (retired.has(own.kid)) break; // whoever had the folder had the older ones as well
      return { own };
    }
    keepPem(join(folder, `${now}.pem`), pem, seal);
    return { own: ownFrom(pem, now) };
  } catch (error) {
    return { own: ownFrom(pem, now), fault: error as Error };
  }
}

export async function openKeys(store: Store, dataDir: string, seal: Seal): Promise<Keys> {
  let over: ReadonlySet<string> = new Set();
  async function hear(): Promise<Heard> {
    const { now, rows } = await store.read("retired keys", async (tx) => ({ now: tx.now, rows: await tx.db.select().from(retiredKeys) }));
    over = new Set(rows.filter((row) => isOver(row, now)).map(({ kid }) => kid));
    return { now, retired: new Set(rows.map(({ kid }) => kid)) };
  }
  /** Everybody can verify with it before anything is signed with it. */
  const register = ({ kid, jwk, createdAt }: Own): Promise<void> =>
    store.write("register signing key", async (tx) => {
      const row = { kid, publicJwk: jwk, createdAt };
      const made = await tx.db.insert(signingKeys).values(row).onConflictDoNothing().returning({ kid: signingKeys.kid });
      if (made.length > 0) await resignAgain(tx); // until now this node may have signed with one that was retired long ago
    });
  const folder = keyFolder(dataDir);
  const first = loadOrMake(folder, await hear(), seal);
  if (first.fault) throw first.fault;
  let { own } = first;
  await register(own);
  const known = new Map<string, KeyObject>();
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return {
    get kid() {
      return own.kid;
    },
    get publicBytes() {
      return Buffer.from(own.jwk.x, "base64url");
    },
    renew: async () => {
      const heard = await hear();
      if (heard.now - own.createdAt < limits.SIGNING_KEY_LIFE_MS && !heard.retired.has(own.kid)) return false;
      const next = loadOrMake(folder, heard, seal);
      await register(next.own);
      own = next.own; // also where it can't be kept: what a retired one signs would be called false
      if (next.fault) throw next.fault;
      return true;
    },
    isOver: (kid) => over.has(kid),
    signBytes: (bytes) => signBytes(null, bytes, own.key),
    sign: (typ, claims, kid = own.kid) => {
      const signed = `${encode({ alg: "EdDSA", typ, kid })}.${encode(claims)}`;
      return `${signed}.${signBytes(null, Buffer.from(signed), own.key).toString("base64url")}`;
    },
    find: async (kid) => {
      if (!isKid(kid) || over.has(kid)) return undefined; // a stranger's may hold what no database takes for text
      const cached = known.get(kid);
      if (cached) return cached;
      const row = await store.read("signing key", async (tx) => tx.db.select().from(signingKeys).where(eq(signingKeys.kid, kid)).get());
      if (!row) return undefined;
      const key = createPublicKey({ key: row.publicJwk, format: "jwk" });
      known.set(kid, key);
      return key;
    },
    all: async () => {
      const rows = await store.read("signing keys", async (tx) => {
        const all = await tx.db.select().from(signingKeys).orderBy(signingKeys.createdAt);
        const gone = new Set((await tx.db.select().from(retiredKeys)).filter((row) => isOver(row, tx.now)).map(({ kid }) => kid));
        return all.filter(({ kid }) => !gone.has(kid));
      });
      return rows.map(({ kid, publicJwk }) => ({ ...publicJwk, kid, alg: "EdDSA", use: "sig" }));
    },
  };
}
