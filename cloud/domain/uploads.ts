// Files on their way in: kept in slices beside everything else that is durable, so that any node can read what another one took.
import { createHash } from "node:crypto";
import { and, asc, desc, eq, inArray, lt, sql } from "../store/drizzle.ts";
import { newIdIn } from "./ids.ts";
import { invalid, Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { imports, uploads } from "../store/schema.ts";
import { db, type Store, type Tx } from "../store/store.ts";

export type Upload = { id: string; bytes: number; digest: Buffer };

const SLICE_BYTES = 262_144;
const insertSlice = prepared(db.insert(uploads).values(placesOf(uploads)));
const isSlice = and(eq(uploads.id, sql.placeholder("id")), eq(uploads.n, sql.placeholder("n")));
const readSlice = prepared(db.select({ bytes: uploads.bytes }).from(uploads).where(isSlice));

export async function receive(store: Store, stream: AsyncIterable<Buffer>): Promise<Upload> {
  let id = "";
  const hash = createHash("sha256");
  let bytes = 0;
  let n = 0;
  for await (const slice of slices(stream)) {
    bytes += slice.length;
    if (bytes > limits.IMPORT_MAX_BYTES) throw new Refusal("PAYLOAD_TOO_LARGE", `the file is larger than ${limits.IMPORT_MAX_BYTES} bytes`);
    hash.update(slice);
    const row = { n, bytes: slice };
    await store.write("upload", (tx) => insertSlice.run({ ...row, id: (id ||= newIdIn(tx)), at: tx.now }));
    n += 1;
  }
  if (bytes === 0) throw invalid([{ field: "body", rule: "minLength", message: "is empty: send the file" }]);
  return { id, bytes, digest: hash.digest() };
}

async function* slices(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream) {
    held.push(chunk);
    size += chunk.length;
    if (size < SLICE_BYTES) continue;
    yield Buffer.concat(held);
    held = [];
    size = 0;
  }
  if (size > 0) yield Buffer.concat(held);
}

export async function* read(store: Store, id: string): AsyncGenerator<Buffer> {
  for (let n = 0; ; n += 1) {
    const slice = await store.read("upload", () => readSlice.get({ id, n }));
    if (!slice) return;
    yield slice.bytes;
  }
}

/** The last slices first, so that the first one leads to them. A quarter of a second for a whole file, in which nobody would be answered. */
async function dropLast(tx: Tx, id: string, most: number): Promise<{ gone: number; isWhole: boolean }> {
  const last = tx.db.select({ n: uploads.n }).from(uploads).where(eq(uploads.id, id)).orderBy(desc(uploads.n)).limit(most);
  const areLast = and(eq(uploads.id, id), inArray(uploads.n, last));
  const gone = await tx.db.delete(uploads).where(areLast).returning({ n: uploads.n });
  return { gone: gone.length, isWhole: gone.length < most || gone.some(({ n }) => n === 0) };
}

const DROPPED_SLICES = 32;
/** Some of a file that was worked off; says whether there is more of it. */
export const drop = async (tx: Tx, id: string): Promise<boolean> => !(await dropLast(tx, id, DROPPED_SLICES)).isWhole;

/** What was taken in and came to nothing, because its sender went away or sent it twice; and what is left of one that was worked off. */
export async function forgetAbandoned(tx: Tx, most: number): Promise<number> {
  const isAbandoned = and(
    lt(uploads.at, tx.now - limits.UPLOAD_ABANDONED_MS),
    eq(uploads.n, 0),
    sql`NOT EXISTS (SELECT 1 FROM ${imports} WHERE ${imports.id} = ${uploads.id} AND ${imports.status} IN ('pending', 'running'))`,
  );
  const abandoned = await tx.db.select({ id: uploads.id }).from(uploads).where(isAbandoned).orderBy(asc(uploads.id)).limit(1).get();
  if (!abandoned) return 0;
  const { gone, isWhole } = await dropLast(tx, abandoned.id, most);
  return isWhole ? most : gone; // there may be another file
}
