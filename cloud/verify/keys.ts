// The keys that one is willing to believe: read from a DID document, a key set or a single key, found by the names that signatures give.
import { createPublicKey, type KeyObject } from "node:crypto";

type Key = { kid: string; key: KeyObject; publicBytes: Buffer };
export type Ring = {
  /** Whose keys they are, where the file says so. */
  did: string | undefined;
  keys: readonly Key[];
  /** Word for word those that sign nothing here. */
  others: readonly string[];
  /** By the name in a JWS header: `did#kid`. */
  find(kid: string | undefined): KeyObject | undefined;
};

type Method = { id?: unknown; publicKeyJwk?: Record<string, unknown> };
type File = { id?: unknown; verificationMethod?: unknown; keys?: unknown; kty?: unknown };
const jwkOf = (method: unknown) => {
  const { id, publicKeyJwk } = (method ?? {}) as Method;
  return { ...publicKeyJwk, kid: id };
};

export function ringFrom(file: unknown): Ring {
  const { id, verificationMethod, keys, kty } = (file ?? {}) as File;
  const did = typeof id === "string" && verificationMethod ? id : undefined;
  const isDid = Array.isArray(verificationMethod);
  const methods = isDid ? verificationMethod : (keys ?? (kty ? [file] : []));
  if (!Array.isArray(methods) || methods.length === 0)
    throw new Error("the keys are neither a DID document nor a key set (JWKS) nor a key (JWK)");
  const jwks: unknown[] = isDid ? methods.map(jwkOf) : methods;
  const ours = jwks.filter(isEd25519); // an issuer may have others beside them, to be written to for instance
  const ring = (ours.length > 0 ? ours : jwks).map(keyFrom);
  return {
    did,
    keys: ring,
    others: methods.filter((_, i) => !isEd25519(jwks[i])).map((method) => JSON.stringify(method)),
    find: (kid) => {
      const [owner, name] = kid?.split("#") ?? [];
      if (name === undefined || (did !== undefined && owner !== did)) return undefined;
      return ring.find((one) => one.kid === name)?.key;
    },
  };
}

const isEd25519 = (jwk: unknown): boolean => {
  const { kty, crv } = (jwk ?? {}) as Record<string, unknown>;
  return kty === "OKP" && crv === "Ed25519";
};

function keyFrom(jwk: unknown): Key {
  const { x, kid } = (jwk ?? {}) as Record<string, string>;
  if (!isEd25519(jwk) || !x) throw new Error(`the key ${kid ?? "without a name"} isn't an Ed25519 key`);
  try {
    const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
    return { kid: String(kid).split("#").at(-1) ?? "", key, publicBytes: Buffer.from(x, "base64url") };
  } catch (cause) {
    throw new Error(`the key ${kid} can't be read: ${(cause as Error).message}`, { cause });
  }
}
