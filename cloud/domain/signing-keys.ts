// Signing keys as the platform sees them: which there are, and which leaked, or might have, and so count for nothing any more.
import { and, desc, eq, isNull, sql } from "../store/drizzle.ts";
import { openCredential } from "#shared/credential.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import type { SigningKey } from "#shared/wire/signing-keys.ts";
import type { Keys } from "../keys.ts";
import { passportVersions, retiredKeys, signingKeys } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { instant } from "./instant.ts";
import { pageFrom, type PageQuery } from "./page.ts";

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

/** A node that hasn't heard of it yet still signs with it so long: until then it counts. */
export const isOver = ({ retiredAt }: Pick<typeof retiredKeys.$inferSelect, "retiredAt">, now: number): boolean =>
  now - retiredAt >= limits.SIGNING_KEY_GRACE_MS;

/** Those whose passports may still show what they signed. */
export async function toResign(tx: Tx): Promise<{ kids: ReadonlySet<string>; allOver: boolean }> {
  const rows = await tx.db.select().from(retiredKeys).where(isNull(resignedAt));
  return { kids: new Set(rows.map((row) => row.kid)), allOver: rows.every((row) => isOver(row, tx.now)) };
}
export const resigned = async (tx: Tx, kids: ReadonlySet<string>): Promise<void> => {
  for (const name of kids)
    await tx.db
      .update(retiredKeys)
      .set({ resignedAt: tx.now })
      .where(and(eq(retiredKeys.kid, name), isNull(resignedAt)));
};

export type Place = { passportId: string; version: number };
export const START: Place = { passportId: "", version: 0 };
const HEAD_CHARS = 1_000; // more than a JWS's header has
const SLICE_ROWS = 500;

const headOf = (jws: string): { kid?: string } =>
  JSON.parse(Buffer.from(jws.split(".", 1)[0] ?? "", "base64url").toString("utf8")) as object;

/** Signs anew what one of these keys had signed, word for word, with the key of now; where to go on, undefined at the end. */
export async function resign(tx: Tx, keys: Keys, kids: ReadonlySet<string>, { passportId, version }: Place) {
  const { credential } = passportVersions;
  const rows = await tx.db
    .select({
      passportId: passportVersions.passportId,
      version: passportVersions.version,
      head: sql<string>`substr(${credential}, 1, ${HEAD_CHARS})`,
    })
    .from(passportVersions)
    .where(sql`(${passportVersions.passportId}, ${passportVersions.version}) > (${passportId}, ${version})`)
    .orderBy(passportVersions.passportId, passportVersions.version)
    .limit(SLICE_ROWS);
  let count = 0;
  for (const row of rows) {
    const [did = "", signer = ""] = headOf(row.head).kid?.split("#") ?? [];
    if (!kids.has(signer)) continue;
    const isIt = and(eq(passportVersions.passportId, row.passportId), eq(passportVersions.version, row.version));
    const found = await tx.db.select({ jws: credential }).from(passportVersions).where(isIt).get();
    if (!found) continue;
    const { payload } = await openCredential(found.jws);
    const made = keys.sign("vc+jwt", payload, `${did}#${keys.kid}`);
    await tx.db
      .update(passportVersions)
      .set({ credential: made })
      .where(and(isIt, eq(credential, found.jws)));
    count += 1;
  }
  return { count, next: rows.length < SLICE_ROWS ? undefined : rows.at(-1) };
}
