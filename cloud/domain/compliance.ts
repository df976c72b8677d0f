// Compliance: facts read in one unit, judged outside of any, stored in another. A result is stored once for each product version and pack.
import { setImmediate as nextTurn } from "node:timers/promises";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { Outcome, Sector } from "#shared/compliance.ts";
import { Refusal, refusalOr } from "#shared/errors.ts";
import type { Evaluation, EvaluationBatch, EvaluationBatchResult, EvaluationSummary, Finding } from "#shared/wire/compliance.ts";
import type { Log } from "../log.ts";
import type { Pack, Packs } from "../packs.ts";
import { and, eq, sql } from "../store/drizzle.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { evaluations } from "../store/schema.ts";
import { db, inTurn, overtaken, type Store, type Tx } from "../store/store.ts";
import type { By } from "./events.ts";
import { newId } from "./ids.ts";
import { instant } from "./instant.ts";
import { type Facts, judge } from "./judgement.ts";
import { emit } from "./outbox.ts";
import { wasRevoked } from "./issued-credentials.ts";
import * as passports from "./passports.ts";
import * as products from "./products.ts";
import { judgedSectors, packFor, sectorOf } from "./regulations.ts";

type Row = typeof evaluations.$inferSelect;
type Judging = { store: Store; packs: Packs; log: Log };

const place = (name: keyof Row) => eq(evaluations[name], sql.placeholder(name));
const isSame = and(place("tenantId"), place("productId"), place("productVersion"), place("passport"), place("sector"), place("packDigest"));
const stored = prepared(db.select().from(evaluations).where(isSame));
const insertNew = prepared(db.insert(evaluations).values(placesOf(evaluations)).onConflictDoNothing().returning({ id: evaluations.id }));

type Task = { productId: string; sector: Sector };
/** What an evaluation rests on, and its row where it has been stored. */
type Gathered = { task: Task; at: number; pack: Pack; product: products.Row; passport: Passport | undefined; known: Row | undefined };
type Passport = { row: passports.Row; version: number | null; isRevoked: boolean; content: Record<string, unknown> | null };

const looksAtPassport = ({ rules }: Pack) => rules.some(({ looksAt }) => looksAt.all.some((pointer) => pointer.startsWith("/passport/")));

async function passportOf(tx: Tx, tenantId: string, productId: string): Promise<Passport | undefined> {
  const row = await passports.ofProduct(tx, tenantId, productId);
  if (!row) return undefined;
  const version = passports.currentOf(row);
  const whole = version === null ? undefined : await passports.versionOf(tx, row, version);
  const isRevoked = row.revokedAt !== null || (whole !== undefined && (await wasRevoked(tx, whole.credentialId)));
  return { row, version, isRevoked, content: whole?.content ?? null };
}

const keyOf = ({ pack, product, passport, task }: Omit<Gathered, "known">) => ({
  tenantId: product.tenantId,
  productId: product.id,
  productVersion: product.version,
  passport: passport ? `${passport.row.id}/${passport.row.revision}` : "",
  sector: task.sector,
  packDigest: pack.digest,
});

async function gather(tx: Tx, packs: Packs, product: products.Row, task: Task): Promise<Gathered> {
  const pack = packFor(packs, task.sector, product.category, tx.now);
  const passport = looksAtPassport(pack) && product.passports > 0 ? await passportOf(tx, product.tenantId, product.id) : undefined;
  const found = { task, at: tx.now, pack, product, passport };
  return { ...found, known: await stored.get(keyOf(found)) };
}

function factsOf({ product, passport }: Gathered): Facts {
  const { extensions, ...shown } = products.toWire(product);
  if (!passport) return { product: shown, extensions };
  const { row, version, isRevoked, content } = passport;
  return { product: shown, extensions, passport: { status: row.state, version, revoked: isRevoked, content } };
}

type Fresh = { row: Row; findings: Finding[] };
function evaluated(gathered: Gathered, log: Log): Fresh {
  const { at, pack, product, passport, task } = gathered;
  const { celexId, version, digest } = pack;
  const judgement = judge(pack, factsOf(gathered), (obligationId, err) =>
    log.error({ event: "rule-failed", pack: `${celexId} ${version}`, obligationId, err }, "a rule couldn't be run; it counts as unknown"),
  );
  const result: Evaluation = {
    productId: product.id,
    productName: product.name,
    gtin: product.gtin,
    productVersion: product.version,
    passport: passport ? { id: passport.row.id, version: passport.version, revision: passport.row.revision } : null,
    sector: task.sector,
    pack: { celexId, version, digest },
    ...judgement,
    evaluatedAt: instant(at),
  };
  const { status, score, findings } = judgement;
  const row: Row = {
    ...keyOf(gathered),
    id: newId(),
    celexId,
    packVersion: version,
    status,
    score,
    result: deflateRawSync(JSON.stringify(result)),
    at,
  };
  return { row, findings };
}

/** The one place where an evaluation is told of. `verified` says that it was judged; how it came out stands in the data. */
async function tell(tx: Tx, by: By, { row, findings }: Fresh): Promise<void> {
  const { productId, sector, celexId, packVersion, status, score } = row;
  const data = { productId, sector, pack: { celexId, version: packVersion }, status, score };
  const idsOf = (outcome: Outcome) => findings.filter((finding) => finding.outcome === outcome).map(({ obligationId }) => obligationId);
  await emit(tx, by, "compliance.verified", { ...data, obligationIds: idsOf("met") });
  const violated = idsOf("violated");
  if (violated.length > 0) await emit(tx, by, "compliance.violation_created", { ...data, obligationIds: violated });
}

/** Stores it and tells of it, unless another was faster: then that one's bytes are the answer. */
async function settle(tx: Tx, by: By, fresh: Fresh): Promise<Row> {
  if (await insertNew.get(fresh.row)) {
    await tell(tx, by, fresh);
    return fresh.row;
  }
  const kept = await stored.get(fresh.row);
  if (!kept) throw overtaken(`the evaluation of ${fresh.row.productId}`);
  return kept;
}

const keptAs = ({ row: { productId, sector } }: Fresh): string => `${productId} ${sector}`;

/** Compiles the rules of a pack one at a time, so that the first to ask holds nobody up. */
async function compile({ rules }: Pack): Promise<void> {
  for (const { tests } of rules) {
    tests();
    await nextTurn();
  }
}
const compiled = new WeakMap<Pack, Promise<void>>();
function warm(pack: Pack): Promise<void> {
  const done = compiled.get(pack) ?? compile(pack);
  compiled.set(pack, done);
  return done;
}

/** Judges each task or says why not; in between, others get their turn. */
async function evaluateAll({ store, packs, log }: Judging, by: By, tasks: readonly Task[]): Promise<(Row | Refusal)[]> {
  const gathered = await store.read("compliance facts", async (tx) => {
    const found: (Gathered | Refusal)[] = [];
    let product: products.Row | Refusal | undefined;
    for (const [i, task] of tasks.entries()) {
      if (task.productId !== tasks[i - 1]?.productId) product = await refusalOr(() => products.find(tx, by.tenantId, task.productId));
      found.push(product instanceof Refusal ? product : await refusalOr(() => gather(tx, packs, product as products.Row, task)));
    }
    return found;
  });
  const fresh = new Map<Gathered, Fresh>();
  for (const one of gathered) {
    if (one instanceof Refusal || one.known) continue;
    await warm(one.pack);
    fresh.set(one, evaluated(one, log));
    if (tasks.length > 1) await nextTurn();
  }
  const settled = new Map<Gathered, Row>();
  if (fresh.size > 0)
    await store.write("compliance results", async (tx) => {
      for (const [one, made] of inTurn(fresh, ([, made]) => keptAs(made))) settled.set(one, await settle(tx, by, made));
    });
  return gathered.map((one) => (one instanceof Refusal ? one : (one.known ?? (settled.get(one) as Row))));
}

const orThrow = (row: Row | Refusal): Row => {
  if (row instanceof Refusal) throw row;
  return row;
};

/** The result as it was first answered, to the byte. */
export async function evaluate(judging: Judging, by: By, productId: string, sector: string): Promise<string> {
  const [row] = await evaluateAll(judging, by, [{ productId, sector: sectorOf(sector) }]);
  return inflateRawSync(orThrow(row as Row | Refusal).result).toString("utf8");
}

const summary = ({ productId, sector, celexId, packVersion, packDigest, score, status, at }: Row): EvaluationSummary => ({
  productId,
  sector,
  pack: { celexId, version: packVersion, digest: packDigest },
  score,
  status,
  evaluatedAt: instant(at),
});

const sectorsNow = ({ store, packs }: Judging): Promise<Sector[]> =>
  store.read("compliance sectors", async ({ now }) => judgedSectors(packs, now));

export async function overview(judging: Judging, by: By, productId: string): Promise<EvaluationSummary[]> {
  const tasks = (await sectorsNow(judging)).map((sector) => ({ productId, sector }));
  const rows = await evaluateAll(judging, by, tasks);
  return rows.map((row) => summary(orThrow(row)));
}

/** As many evaluations as are gathered, judged and stored at once: a few ms of the event loop. */
const SLICE_EVALUATIONS = 48;

/** Each product by itself: what can't be judged is told with its place, the others stand. */
export async function evaluateBatch(judging: Judging, by: By, { productIds, sectors }: EvaluationBatch): Promise<EvaluationBatchResult> {
  const asked = sectors ?? (await sectorsNow(judging));
  const most = Math.max(1, Math.floor(SLICE_EVALUATIONS / asked.length));
  const answer: EvaluationBatchResult = { data: [], errors: [] };
  const placeOf = (from: number, n: number) => {
    const index = from + Math.floor(n / asked.length);
    return { index, productId: productIds[index] as string, sector: asked[n % asked.length] as Sector };
  };
  for (let from = 0; from < productIds.length; from += most) {
    const ids = productIds.slice(from, from + most);
    const tasks = ids.flatMap((productId) => asked.map((sector) => ({ productId, sector })));
    const rows = await evaluateAll(judging, by, tasks);
    for (const [n, row] of rows.entries())
      if (row instanceof Refusal) answer.errors.push({ ...placeOf(from, n), error: row.line });
      else answer.data.push(summary(row));
  }
  return answer;
}
