// A credential as a stranger judges it, check by check and without a network: is it whole, whose is it, does it count, has it the shape.
import type { KeyObject } from "node:crypto";
import { Type } from "typebox";
import { isObject } from "./object.ts";
import { granularities } from "./states.ts";
import type { CredentialCheck, CredentialVerdict } from "./wire/trust.ts";

const VC = "https://www.w3.org/ns/credentials/v2";
const ALGORITHM = "EdDSA";

export type Opened = {
  /** `did#key`, as the header names it. */
  kid: string | undefined;
  alg: string;
  typ: string | undefined;
  /** The DID that stands behind it, as the payload says. */
  issuer: string | undefined;
  status: Record<string, unknown> | undefined;
  payload: Record<string, unknown>;
};
type Said = Pick<CredentialCheck, "outcome" | "message">;
const said = (name: CredentialCheck["name"], outcome: CredentialCheck["outcome"], message: string): CredentialCheck => ({
  name,
  outcome,
  message: message.toWellFormed(), // it quotes strangers
});
const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const objectOf = (value: unknown) => (isObject(value) ? value : undefined);

const PARTS = 3; // of more it is said below that it is none, and a body may be all dots
/** Base64url may be spelled in several ways (line breaks, padding, spare bits); only the one that we gave out counts. */
const isExact = (part: string): boolean => Buffer.from(part, "base64url").toString("base64url") === part;

/** Reads without believing; throws for what isn't a compact JWS with JSON in it. */
export async function openCredential(jws: string): Promise<Opened> {
  if (!jws.split(".", PARTS + 1).every(isExact))
    throw new Error("its parts aren't base64url to the letter: a character was changed or added");
  const { decodeJwt, decodeProtectedHeader } = await import("jose"); // 15 MB for those who verify, and for nobody else
  const { alg, typ, kid, crit } = decodeProtectedHeader(jws);
  if (crit !== undefined) throw new Error("its header has a crit, and nothing that one may ask for is known here"); // RFC 7515, 4.1.11
  const payload: Record<string, unknown> = decodeJwt(jws);
  const { issuer, credentialStatus } = payload;
  return {
    alg: String(alg),
    typ: textOf(typ),
    kid: textOf(kid),
    issuer: textOf(issuer) ?? textOf(objectOf(issuer)?.["id"]),
    status: credentialStatus === undefined ? undefined : (objectOf(credentialStatus) ?? {}),
    payload,
  };
}

/** Only one algorithm and one type are accepted, whatever the header says. `otherwise`: the result where the key isn't at hand. */
export async function judgeSignature(
  jws: string,
  { alg, typ, kid }: Opened,
  key: KeyObject | undefined,
  otherwise?: Said,
): Promise<CredentialCheck> {
  if (alg !== ALGORITHM) return said("signature", "failed", `its algorithm is ${alg.slice(0, 20)}, and only ${ALGORITHM} is taken`);
  if (typ !== "vc+jwt") return said("signature", "failed", `its type is ${typ?.slice(0, 40) ?? "missing"}, not vc+jwt`);
  if (!key && otherwise) return { name: "signature", ...otherwise };
  if (!key) return said("signature", "failed", `the issuer has no key ${kid?.slice(0, 200) ?? "without a name"}`);
  const { compactVerify } = await import("jose");
  try {
    await compactVerify(jws, key, { algorithms: [ALGORITHM] });
    return said("signature", "passed", `the key ${kid} signed exactly this`);
  } catch {
    return said("signature", "failed", `the key ${kid} didn't sign this: it was changed, or is another's`);
  }
}

/** The key must be the issuer's own: a good signature of somebody else's says nothing. */
export function judgeIssuer({ issuer, kid }: Opened, known: string): CredentialCheck {
  if (issuer === undefined) return said("issuer", "failed", "it names no issuer");
  if (!kid?.startsWith(`${issuer}#`))
    return said("issuer", "failed", `it names ${issuer.slice(0, 200)} as its issuer and is signed with a key of another's`);
  return issuer === known
    ? said("issuer", "passed", `${issuer} is who signs here`)
    : said("issuer", "unknown", `${issuer.slice(0, 200)} isn't ${known}, and its DID document isn't fetched`);
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(Z|[+-]\d\d:\d\d)?$/;
/** An xsd:dateTimeStamp; without an offset it is one of UTC (VCDM 2.0), and not of the zone that this machine stands in. */
function instantIn(value: unknown): number {
  const text = textOf(value) ?? "";
  const offset = INSTANT.exec(text);
  return offset ? Date.parse(offset[1] === undefined ? `${text}Z` : text) : Number.NaN;
}

/** A list that was signed a moment ago counts by a clock that is slow, too; a station's envelopes are borne with as far. */
const SKEW_MS = 300_000;

/** RFC 7519, 4.1: others' signatures may have an end of their own, in seconds. */
const secondsIn = (value: unknown): number => (typeof value === "number" && Math.abs(value) < 1e11 ? value * 1_000 : Number.NaN);

export function judgeValidity({ payload: { validFrom, validUntil, nbf, exp } }: Opened, now: number): CredentialCheck {
  const [from, until] = [validFrom, validUntil].map((value) => (value === undefined ? undefined : instantIn(value)));
  if (Number.isNaN(from) || Number.isNaN(until)) return said("validity", "failed", "validFrom or validUntil isn't an instant");
  const [signedFrom, signedUntil] = [nbf, exp].map((value) => (value === undefined ? undefined : secondsIn(value)));
  if (Number.isNaN(signedFrom) || Number.isNaN(signedUntil)) return said("validity", "failed", "nbf or exp isn't an instant in seconds");
  const instant = (at: number) => new Date(at).toISOString();
  if (from !== undefined && now < from - SKEW_MS) return said("validity", "failed", `it counts from ${instant(from)} on`);
  if (until !== undefined && now >= until) return said("validity", "failed", `it ended at ${instant(until)}`);
  if (signedFrom !== undefined && now < signedFrom - SKEW_MS)
    return said("validity", "failed", `its signature counts from ${instant(signedFrom)} on (nbf)`);
  if (signedUntil !== undefined && now >= signedUntil)
    return said("validity", "failed", `its signature ended at ${instant(signedUntil)} (exp)`);
  const since = from === undefined ? "ever" : instant(from);
  return said("validity", "passed", `it counts from ${since} on${until === undefined ? "" : `, to ${instant(until)}`}`);
}

const Named = Type.Object({ id: Type.String({ minLength: 1 }), name: Type.String() });
/** The Verifiable Credentials data model 2.0, and what UNTP's Digital Product Passport 0.6.0 asks for. */
const Shape = Type.Object({
  "@context": Type.Array(Type.Unknown(), { minItems: 1 }),
  type: Type.Array(Type.String(), { contains: Type.Literal("VerifiableCredential") }),
  issuer: Type.Union([Type.String(), Type.Object({ id: Type.String() })]),
  credentialSubject: Type.Object({}),
});
const PassportShape = Type.Object({
  id: Type.String(),
  issuer: Named,
  credentialSubject: Type.Object({ granularityLevel: Type.Enum([...granularities]), product: Named }),
});

const NAMES_MAX_ITEMS = 100; // each is looked at for a microsecond, or a fault of its own, and a megabyte holds 300,000

export async function judgeSchema({ payload }: Opened): Promise<CredentialCheck> {
  for (const [field, names] of Object.entries({ "@context": "contexts", type: "types" })) {
    const list = payload[field];
    if (Array.isArray(list) && list.length > NAMES_MAX_ITEMS)
      return said("schema", "failed", `it has ${list.length} ${names}, and ${NAMES_MAX_ITEMS} are more than any credential needs`);
  }
  const types = Array.isArray(payload["type"]) ? payload["type"] : [];
  const { Value } = await import("typebox/value");
  const isPassport = types.includes("DigitalProductPassport");
  const shapes = isPassport ? [Shape, PassportShape] : [Shape];
  const [fault] = shapes.flatMap((shape) => Value.Errors(shape, payload));
  if (fault) return said("schema", "failed", `${fault.instancePath.slice(1).replaceAll("/", ".") || "it"} ${fault.message}`);
  if ((payload["@context"] as unknown[])[0] !== VC) return said("schema", "failed", `its @context doesn't begin with ${VC}`);
  return said("schema", "passed", isPassport ? "it has the shape of a UNTP Digital Product Passport" : "it has the shape of a credential");
}

/** One failure makes it invalid; what couldn't be checked never makes it valid. */
export const verdictOf = (checks: readonly CredentialCheck[]): CredentialVerdict["verdict"] => {
  if (checks.some(({ outcome }) => outcome === "failed")) return "invalid";
  return checks.some(({ outcome }) => outcome === "unknown") ? "unknown" : "valid";
};
