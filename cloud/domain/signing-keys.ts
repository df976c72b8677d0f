// Signing keys as the platform sees them: which there are, and which leaked, or might have, and so count for nothing any more.
import { createPublicKey, type KeyObject } from "node:crypto";
import type { SQL } from "drizzle-orm";
import { and, between, desc, eq, inArray, isNull, sql } from "../store/drizzle.ts";
import { judgeSignature, openCredential } from "#shared/credential.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import type { SigningKey } from "#shared/wire/signing-keys.ts";
import type { Keys } from "../keys.ts";
import { passportVersions, retiredKeys, signingKeys } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { instant } from "./instant.ts";
import { fitting, pageFrom, type PageQuery } from "./page.ts";

const { kid, createdAt } = signingKeys;
const { retiredAt, resignedAt } = retiredKeys;
const keysIn = (tx: Tx) =>
  tx.db.select({ kid, createdAt, retiredAt, resignedAt }).from(signingKeys).leftJoin(retiredKeys, eq(retiredKeys.kid, kid));
type Row = Awaited<ReturnType<typeof keysIn>>[number];
const toWire = ({ kid, createdAt, retiredAt, resignedAt }: Row): SigningKey => ({
  kid,
  createdAt: instant(createdAt),
  retiredAt: instant(retiredAt),
  resignedAt: instant(resignedAt),
});

export async function list(tx: Tx, query: PageQuery) {
  const { data, nextCursor } = pageFrom(await keysIn(tx).orderBy(desc(createdAt), desc(kid)), query, (row) => row.kid);
  return { data: data.map(toWire), nextCursor };
}

/** For good; what was retired before stays as it was. */
export async function retire(tx: Tx, name: string): Promise<{ key: SigningKey; isNew: boolean }> {
  const one = () => keysIn(tx).where(eq(kid, name)).get();
  if (!(await one())) throw new Refusal("NOT_FOUND", "no node ever signed with this key");
  const made = await tx.db.insert(retiredKeys).values({ kid: name, retiredAt: tx.now, resignedAt: null }).onConflictDoNothing().returning();
  return { key: toWire((await one()) as Row), isNew: made.length > 0 };
}

/** A node that hasn't heard of it yet still signs with it so long: until then it counts. Not for as long as a clock was set back since: who has it goes on forging. */
export const isOver = ({ retiredAt }: Pick<typeof retiredKeys.$inferSelect, "retiredAt">, now: number): boolean =>
  Math.abs(now - retiredAt) >= limits.SIGNING_KEY_GRACE_MS;

/** Those whose passports may still show what they signed. */
export async function toResign(tx: Tx): Promise<{ retired: Retired; allOver: boolean; at: number }> {
  const isOne = and(eq(retiredKeys.kid, kid), isNull(resignedAt));
  const rows = await tx.db.select({ kid, jwk: signingKeys.publicJwk, retiredAt }).from(signingKeys).innerJoin(retiredKeys, isOne);
  const retired = new Map(rows.map((row) => [row.kid, createPublicKey({ key: row.jwk, format: "jwk" })]));
  return { retired, allOver: rows.every((row) => isOver(row, tx.now)), at: tx.now };
}
type Retired = ReadonlyMap<string, KeyObject>;
/** Begun at `since`. Who took a new key after that may have signed with these behind it. */
export async function resigned(tx: Tx, retired: Retired, since: number): Promise<void> {
  const late = await tx.db
    .select({ kid })
    .from(signingKeys)
    .where(between(createdAt, since + 1, tx.now))
    .limit(1);
  const areThese = and(inArray(retiredKeys.kid, [...retired.keys()]), isNull(resignedAt));
  if (late.length === 0) await tx.db.update(retiredKeys).set({ resignedAt: tx.now }).where(areThese);
}
export const resignAgain = (tx: Tx) => tx.db.update(retiredKeys).set({ resignedAt: null });

export type Place = { passportId: string; version: number };
export const START: Place = { passportId: "", version: 0 };
const HEAD_CHARS = 1_000; // more than a JWS's header has
const SLICE_ROWS = 500;
const SLICE_SIGNED = 50; // whoever writes meanwhile waits
const SLICE_BYTES = 1_048_576; // one alone may have more

/** Which key signed it, behind whose it is where that is said; none where it is no JWS any more: that keeps no other from being signed anew. */
export function signerOf(head: string): string[] {
  try {
    const said = JSON.parse(Buffer.from(head.split(".", 1)[0] ?? "", "base64url").toString("utf8")) as { kid?: unknown } | null;
    return String(said?.kid).split("#");
  } catch {
    return [];
  }
}

/** Signs anew what one of these keys had truly signed, word for word, with the key of now; where to go on, undefined at the end. */
export async function resign(tx: Tx, keys: Keys, retired: Retired, { passportId, version }: Place) {
  const { credential } = passportVersions;
  const read = <Said extends { [name: string]: SQL }>(said: Said, most: number) =>
    tx.db
      .select({ passportId: passportVersions.passportId, version: passportVersions.version, ...said })
      .from(passportVersions)
      .where(sql`(${passportVersions.passportId}, ${passportVersions.version}) > (${passportId}, ${version})`)
      .orderBy(passportVersions.passportId, passportVersions.version)
      .limit(most);
  const size = fitting(await read({ bytes: sql<number>`octet_length(${credential})` }, SLICE_ROWS), SLICE_ROWS, SLICE_BYTES);
  const rows = await read({ head: sql<string>`substr(${credential}, 1, ${HEAD_CHARS})` }, size);
  let count = 0;
  for (const row of rows) {
    const [did = "", signer = ""] = signerOf(row.head);
    const key = retired.get(signer);
    if (!key) continue;
    const isIt = and(eq(passportVersions.passportId, row.passportId), eq(passportVersions.version, row.version));
    const found = await tx.db.select({ jws: credential }).from(passportVersions).where(isIt).get();
    const opened = found && (await openCredential(found.jws).catch(() => undefined));
    if (!opened || (await judgeSignature(found.jws, opened, key)).outcome !== "passed") continue; // what was changed since stays what it is, for whoever checks
    const made = keys.sign("vc+jwt", opened.payload, `${did}#${keys.kid}`);
    await tx.db
      .update(passportVersions)
      .set({ credential: made })
      .where(and(isIt, eq(credential, found.jws)));
    count += 1;
    if (count === SLICE_SIGNED) return { count, next: row };
  }
  return { count, next: rows.length < size ? undefined : rows.at(-1) };
}
