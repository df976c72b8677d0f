// Same key, same request: one effect and one answer. The record commits with the effect; who comes second sees it.
import { hash, hkdfSync, randomBytes } from "node:crypto";
import { and, eq, gt, sql } from "../store/drizzle.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import type { Caller } from "./callers.ts";
import { decrypted, encrypted } from "../seal.ts";
import { idempotency } from "../store/schema.ts";
import { bare, placesOf, prepared } from "../store/prepared.ts";
import { db, overtaken, type Store, together, type Tx } from "../store/store.ts";

/** An answer ready to leave. `keep`: the body that a replay shows, where it is another; `isIdle`: nothing happened, so this node alone remembers it. */
export type Answer = { status: number; headers: Record<string, string>; body: string | null; keep?: string; isIdle?: boolean };
export const REPLAYED = { "idempotency-replayed": "true" };
export type Once = {
  scope: Buffer;
  key: string;
  fingerprint: Buffer;
  keepMs?: number;
  lockWith?: string;
  /** Whether what was answered is still an answer; else it is done anew. */
  stands?: (body: string) => boolean;
};

/** Whose keys these are: a credential's, on one route. A caller is the same object as long as it is remembered. */
const scopes = new WeakMap<Caller, Map<string, Buffer>>();
export function scopeOf(caller: Caller, label: string): Buffer {
  const known = scopes.get(caller) ?? new Map<string, Buffer>();
  scopes.set(caller, known);
  const scope = known.get(label) ?? hash("sha256", `${caller.tenantId}\n${caller.credential.id}\n${label}`, "buffer").subarray(0, 16);
  known.set(label, scope);
  return scope;
}

const isLiving = and(
  eq(idempotency.scope, sql.placeholder("scope")),
  eq(idempotency.key, sql.placeholder("key")),
  gt(idempotency.expiresAt, sql.placeholder("now")),
);
const find = prepared(db.select().from(idempotency).where(isLiving));
// Takes the place of a record whose time is over; a living one, written meanwhile by another node, it leaves alone.
const record = prepared(
  db
    .insert(idempotency)
    .values(placesOf(idempotency))
    .onConflictDoUpdate({
      target: bare(idempotency.scope, idempotency.key),
      set: {
        fingerprint: sql`excluded.fingerprint`,
        status: sql`excluded.status`,
        headers: sql`excluded.headers`,
        body: sql`excluded.body`,
        expiresAt: sql`excluded.expires_at`,
      },
      setWhere: sql`${idempotency.expiresAt} <= ${sql.placeholder("now")}`,
    }),
);

/** The latest idle answers, kept by this node alone: in the store those to ten thousand stations at rest would be 400 million rows a day. */
const idle = new Map<string, { fingerprint: Buffer; answer: Answer; until: number }>();
const IDLE_KEPT = 10_000;
const nameOf = ({ scope, key }: Once): string => `${scope.toString("latin1")} ${key}`;

function noteIdle(request: Once, answer: Answer, until: number): void {
  if (idle.size >= IDLE_KEPT) idle.delete(idle.keys().next().value as string);
  idle.set(nameOf(request), { fingerprint: request.fingerprint, answer, until });
}

function idleBefore(request: Once, now: number) {
  const known = idle.get(nameOf(request));
  return known && known.until > now ? { ...known, ...known.answer } : undefined;
}

type Work = {
  /** What comes before the unit and outside of it; an answer that is kept already spares it. */
  prepare: (() => Promise<unknown>) | undefined;
  act(tx: Tx, ready: unknown): Promise<Answer>;
  refused(tx: Tx, refusal: Refusal): Promise<void>;
};

const doing = new Map<string, Promise<Answer>>();
/** Who says the same meanwhile waits: on a server it wouldn't see what isn't committed, and would be told that there is nothing to do. */
export async function once(store: Pick<Store, "read" | "write">, label: string, request: Once, work: Work): Promise<Answer> {
  const name = nameOf(request);
  const begin = () => doOnce(store, label, request, work);
  const mine = doing.get(name)?.then(begin, begin) ?? begin();
  doing.set(name, mine);
  try {
    return await mine;
  } finally {
    if (doing.get(name) === mine) doing.delete(name);
  }
}

/** One unit does the work and keeps its answer. A refusal undoes that unit whole, and is then kept as the answer in one of its own. */
async function doOnce(
  store: Pick<Store, "read" | "write">,
  label: string,
  request: Once,
  { prepare, act, refused: onRefusal }: Work,
): Promise<Answer> {
  try {
    const known = prepare && (await store.read(`${label} again`, (tx) => earlier(tx, request)));
    if (known) return known;
    const ready = await prepare?.();
    return await store.write(label, async (tx) => (await earlier(tx, request)) ?? keep(tx, request, await act(tx, ready)));
  } catch (error) {
    const refusal = recorded(error);
    const refused: Answer = { status: refusal.status, headers: refusal.headers, body: JSON.stringify(refusal.body) };
    return store.write(label, async (tx) => {
      const known = await earlier(tx, request);
      if (known) return known;
      await onRefusal(tx, refusal);
      return keep(tx, request, refused);
    });
  }
}

async function earlier(tx: Tx, request: Once): Promise<Answer | undefined> {
  const { scope, key, fingerprint, lockWith, stands } = request;
  const row = (await find.get({ scope, key, now: tx.now })) ?? idleBefore(request, tx.now); // another node may have had something for it since
  if (!row) return undefined;
  if (!row.fingerprint.equals(fingerprint)) throw new Refusal("IDEMPOTENCY_CONFLICT");
  const body = row.body !== null && lockWith ? unlock(row.body, lockWith) : row.body;
  if (body !== null && row.status < 400 && stands?.(body) === false) {
    await forgetOne.run({ scope, key });
    return undefined;
  }
  return { status: row.status, headers: { ...row.headers, ...REPLAYED }, body };
}

/** For a request that is refused anyway: where its key stands for another one, that is what it is refused for. */
export const refuseOther = async (tx: Tx, request: Once): Promise<void> => void (await earlier(tx, request));

async function keep(tx: Tx, request: Once, answer: Answer): Promise<Answer> {
  const { scope, key, fingerprint, keepMs = limits.IDEMPOTENCY_KEEP_MS, lockWith } = request;
  if (answer.isIdle) {
    const until = tx.now + keepMs;
    tx.after(() => noteIdle(request, answer, until)); // a unit that is run again isn't a second request
    return answer;
  }
  const { status, headers, keep: shown = answer.body } = answer;
  const body = shown !== null && lockWith ? lock(shown, lockWith) : shown;
  const kept = await record.run({ scope, key, fingerprint, status, headers, body, expiresAt: tx.now + keepMs, now: tx.now });
  if (kept === 0) throw overtaken("an idempotency key");
  return answer;
}

/** A refusal is an answer like another. Faults aren't, and a malformed request takes no key. */
function recorded(error: unknown): Refusal {
  if (!(error instanceof Refusal) || error.status >= 500 || error.status === 400) throw error;
  return error;
}

// An answer that is itself a secret is locked with the secret of the request that asked for it: the database alone can't open it.
const keyFrom = (secret: string, salt: Buffer) => Buffer.from(hkdfSync("sha256", secret, salt, "imprimatur replay", 32));

const SALT_BYTES = 16;

function lock(text: string, secret: string): string {
  const salt = randomBytes(SALT_BYTES);
  return Buffer.concat([salt, encrypted(text, keyFrom(secret, salt))]).toString("base64");
}

function unlock(locked: string, secret: string): string {
  const bytes = Buffer.from(locked, "base64");
  return decrypted(bytes.subarray(SALT_BYTES), keyFrom(secret, bytes.subarray(0, SALT_BYTES)));
}

// For a part of a request that has a key of its own, and for keys that are derived from what was sent.
type Part = Pick<Once, "scope" | "key" | "fingerprint">;

/** What was kept under the key; a refusal where it was for something else. */
export async function kept(tx: Tx, { scope, key, fingerprint }: Part): Promise<string | Refusal | undefined> {
  const row = await find.get({ scope, key, now: tx.now });
  if (!row) return undefined;
  return row.fingerprint.equals(fingerprint) ? (row.body ?? "") : new Refusal("IDEMPOTENCY_CONFLICT");
}

const forgetOne = prepared(
  db.delete(idempotency).where(and(eq(idempotency.scope, sql.placeholder("scope")), eq(idempotency.key, sql.placeholder("key")))),
);
/** Keeps it, in the place of what was kept before. */
export async function remember(tx: Tx, { body, ...once }: Part & { body: string }): Promise<void> {
  await together([forgetOne.run(once), keep(tx, once, { status: 200, headers: {}, body })]);
}

/** Forgets answers whose time is over, oldest first; says how many. */
export async function forget(tx: Tx, most: number): Promise<number> {
  const over = sql`SELECT scope, key FROM idempotency WHERE expires_at <= ${tx.now} ORDER BY expires_at LIMIT ${most}`;
  const gone = await tx.db
    .delete(idempotency)
    .where(sql`(scope, key) IN (${over}) AND expires_at <= ${tx.now}`) // still so where the key is used anew meanwhile
    .returning({ expiresAt: idempotency.expiresAt });
  return gone.length;
}
