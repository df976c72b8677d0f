// What can be said of a credential by itself: its signature, its issuer, its dates and its shape, and its bit in a status list that was saved with it.
import { gunzipSync } from "node:zlib";
import { judgeIssuer, judgeSchema, judgeSignature, judgeValidity, type Opened, openCredential } from "#shared/credential.ts";
import type { CredentialCheck } from "#shared/wire/trust.ts";
import { readJson } from "./json.ts";
import type { Ring } from "./keys.ts";
import { fails, holds, type Line, noted, unclear } from "./said.ts";

const MARKS = { passed: holds, failed: fails, unknown: unclear } as const;
const lineOf = ({ name, outcome, message }: CredentialCheck): Line => MARKS[outcome](`${name}: ${message}`);

/** A key set doesn't say whose it is: who holds one of its keys may name anybody as the issuer, but not sign in another's name than that. */
function issuerLine(opened: Opened, { did }: Ring): Line {
  const check = judgeIssuer(opened, did ?? opened.issuer ?? "");
  if (did !== undefined || check.outcome === "failed") return lineOf(check);
  return noted(
    `that the keys are those of ${opened.issuer}, its issuer, wasn't checked: a key set doesn't say whose it is (did.json does)`,
  );
}

/** Why it may say one thing to us and another to somebody else, by the rules for the file around it. */
function twofoldIn(jws: string): string | undefined {
  try {
    for (const part of jws.split(".", 2)) readJson(Buffer.from(part, "base64url").toString("utf8"));
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Issuers renew their keys: of what was signed since a did.json was saved, it knows nothing. */
function keyless({ kid }: Opened, keys: Ring | undefined): Pick<CredentialCheck, "outcome" | "message"> {
  const name = kid?.slice(0, 200) ?? "without a name";
  if (!keys) return { outcome: "unknown", message: "no key was given: --keys takes the issuer's did.json" };
  const why = keys.isRetired(kid)
    ? `the key ${name} isn't one that its owner signs with, or not any more: its assertionMethod doesn't name it`
    : `the issuer has no key ${name} among those given: if they were saved before this was signed, save its did.json anew`;
  return { outcome: "failed", message: why };
}

/** Of which product: all of it may hold, and be another's than the one that lies on the table. */
function schemaLine({ payload }: Opened, check: CredentialCheck): Line {
  const { product } = (payload["credentialSubject"] ?? {}) as { product?: { id?: unknown } };
  const isKnown = check.outcome === "passed" && typeof product?.id === "string";
  return lineOf(isKnown ? { ...check, message: `${check.message}, of ${String(product.id).slice(0, 300)}` } : check);
}

/** By its own word. */
export const isStatusList = ({ payload }: Opened): boolean => [payload["type"]].flat().includes("BitstringStatusListCredential");

/** Where it says that its bit stands. */
const listAt = ({ status }: Opened): string => {
  const list = status?.["statusListCredential"];
  return typeof list === "string" ? ` (--status takes it: ${list.slice(0, 300)})` : "";
};

type Given = { now: number; keys: Ring | undefined };
export async function credentialLines(jws: string, given: Given, statusList: string | undefined): Promise<Line[]> {
  const { now, keys } = given;
  const opened = await openCredential(jws).catch((error: unknown) => error as Error);
  if (opened instanceof Error) return [fails(`signature: it isn't a signed credential: ${opened.message}`)];
  const twofold = twofoldIn(jws);
  if (twofold !== undefined) return [fails(`signature: what was signed isn't the same to everybody: ${twofold}`)];
  const signature = await judgeSignature(jws, opened, keys?.find(opened.kid), keyless(opened, keys));
  const unlisted = isStatusList(opened)
    ? "it is a status list: what it says of a credential is told when that one is verified, with this as its --status"
    : `whether it was revoked since only its issuer's status list can tell${listAt(opened)}`;
  const status = statusList === undefined ? noted(unlisted) : await statusLine(opened, statusList, given);
  return [
    lineOf(signature),
    ...(keys ? [issuerLine(opened, keys)] : []),
    lineOf(judgeValidity(opened, now)),
    schemaLine(opened, await judgeSchema(opened)),
    status,
  ];
}

const LIST_MAX_BYTES = 16_777_216;
const bitsOf = (encoded: string): Buffer | undefined => {
  try {
    return gunzipSync(Buffer.from(encoded, "base64url"), { maxOutputLength: LIST_MAX_BYTES });
  } catch {
    return undefined; // a list that can't be unpacked has no bit
  }
};

/** What the list said when it was saved. */
async function statusLine({ status, issuer }: Opened, jws: string, { now, keys }: Given): Promise<Line> {
  const list = await openCredential(jws).catch(() => undefined); // the next line says that it isn't one
  const { type, statusPurpose, encodedList } = (list?.payload["credentialSubject"] ?? {}) as Record<string, unknown>;
  const isList = list !== undefined && isStatusList(list) && type === "BitstringStatusList";
  if (!isList || twofoldIn(jws) !== undefined || typeof encodedList !== "string" || !encodedList.startsWith("u"))
    return fails("status: the status list in the file isn't one");
  if (!keys) return unclear("status: whose status list it is can't be told without a key");
  if (list.issuer !== issuer) return fails("status: the status list isn't signed by the credential's issuer");
  const signature = await judgeSignature(jws, list, keys.find(list.kid), keyless(list, keys));
  if (signature.outcome !== "passed") return fails(`status: the status list isn't signed by the credential's issuer: ${signature.message}`);
  if (status === undefined || status["statusListCredential"] !== list.payload["id"])
    return fails("status: the credential's bit stands in another list than the file's");
  if (status["type"] !== "BitstringStatusListEntry" || [status["statusPurpose"], statusPurpose].some((purpose) => purpose !== "revocation"))
    return unclear("status: the list or the credential's bit in it tells of something else than revocation");
  const validity = judgeValidity(list, now);
  if (validity.outcome !== "passed") return unclear(`status: the list doesn't count at this time: ${validity.message}`);
  const bits = bitsOf(encodedList.slice(1));
  const at = Number(status["statusListIndex"]);
  const byte = bits?.[Math.floor(at / 8)]; // not by shifting, which takes 2 ** 32 for 0
  if (!Number.isInteger(at) || at < 0 || byte === undefined) return fails("status: the list has no such bit");
  const when = String(list.payload["validFrom"]);
  return (byte >> (7 - (at & 7))) & 1
    ? fails(`status: it was revoked; bit ${at} of the list of ${when} is set`)
    : holds(`status: it wasn't revoked when the list was saved, ${when}`);
}
