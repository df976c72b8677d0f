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
  /** That it stands in the document, but not among those that its owner signs statements with: one that was retired, for instance. */
  isRetired(kid: string | undefined): boolean;
};

type Method = { id?: unknown; publicKeyJwk?: Record<string, unknown> };
type File = { id?: unknown; verificationMethod?: unknown; assertionMethod?: unknown; keys?: unknown; kty?: unknown };
const jwkOf = (method: unknown) => {
  const { id, publicKeyJwk } = (method ?? {}) as Method;
  return { ...publicKeyJwk, kid: id };
};

/** Undefined where the document doesn't say; JSON-LD writes a list of one without its brackets. */
const assertingIn = ({ assertionMethod }: File): unknown[] | undefined =>
  assertionMethod === undefined ? undefined : [assertionMethod].flat();

/** DID Core 5.3: what asserts something is signed with a method that is named there, or stands there itself; a name may be short of its DID. */
function isNamedBy({ id }: File, asserting: readonly unknown[]): (method: unknown) => boolean {
  const whole = (name: unknown) => (typeof name === "string" && name.startsWith("#") ? `${String(id)}${name}` : name);
  const named = new Set(asserting.map((one) => whole(typeof one === "string" ? one : (one as Method | null)?.id)));
  return (method) => named.has(whole((method as Method | null)?.id));
}

export function ringFrom(file: unknown): Ring {
  const document = (file ?? {}) as File;
  const { id, verificationMethod, keys, kty } = document;
  const asserting = assertingIn(document);
  const embedded = (asserting ?? []).filter((one) => typeof one === "object");
  const isDid = Array.isArray(verificationMethod) || embedded.length > 0; // a document may name all its methods where it uses them
  const did = typeof id === "string" && isDid ? id : undefined;
  const methods = isDid ? [...listOf(verificationMethod), ...embedded] : (keys ?? (kty ? [file] : []));
  if (!Array.isArray(methods) || methods.length === 0)
    throw new Error("the keys are neither a DID document nor a key set (JWKS) nor a key (JWK)");
  const jwks: unknown[] = isDid ? methods.map(jwkOf) : methods;
  const asserts = isDid && asserting ? isNamedBy(document, asserting) : undefined;
  const isOurs = (method: unknown, i: number) => isEd25519(jwks[i]) && (asserts?.(method) ?? true);
  if (!jwks.some(isEd25519)) jwks.map(keyFrom); // says why not; an issuer may have others beside them, to be written to for instance
  const ring = jwks.filter((_, i) => isOurs(methods[i], i)).map(keyFrom);
  return {
    did,
    keys: ring,
    others: methods.filter((method, i) => !isOurs(method, i)).map((method) => JSON.stringify(method)),
    find: (kid) => {
      const [owner, name] = kid?.split("#") ?? [];
      if (name === undefined || (did !== undefined && owner !== did)) return undefined;
      return ring.find((one) => one.kid === name)?.key;
    },
    isRetired: (kid) =>
      kid !== undefined && jwks.some((jwk, i) => isEd25519(jwk) && !isOurs(methods[i], i) && nameOf(jwk) === nameOf({ kid })),
  };
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const nameOf = (jwk: unknown): string =>
  String((jwk as { kid?: unknown }).kid)
    .split("#")
    .at(-1) ?? "";

const isEd25519 = (jwk: unknown): boolean => {
  const { kty, crv } = (jwk ?? {}) as Record<string, unknown>;
  return kty === "OKP" && crv === "Ed25519";
};

function keyFrom(jwk: unknown): Key {
  const { x, kid } = (jwk ?? {}) as Record<string, string>;
  if (!isEd25519(jwk) || !x) throw new Error(`the key ${kid ?? "without a name"} isn't an Ed25519 key`);
  try {
    const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
    return { kid: nameOf(jwk), key, publicBytes: Buffer.from(x, "base64url") };
  } catch (cause) {
    throw new Error(`the key ${kid} can't be read: ${(cause as Error).message}`, { cause });
  }
}
