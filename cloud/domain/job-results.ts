// Results: a station's word on an attempt, judged against the table of states; the last one seals the job and all that follows from it, or nothing.
import { hash } from "node:crypto";
import { canonical } from "#shared/canonical.ts";
import { type FieldFault, invalid, Refusal, refusalOr } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { type JobState, jobStates, PAPER_MAY_EXIST, rankOf } from "#shared/states.ts";
import { type BundleItem, type JobActor, type Result, ResultItem, type ResultOutcome } from "#shared/wire/jobs.ts";
import { eachBeside, together, type Tx } from "../store/store.ts";
import { judgeOf } from "../validate.ts";
import type { Caller } from "./callers.ts";
import * as carriers from "./carriers.ts";
import { seen } from "./devices.ts";
import * as epcis from "./epcis.ts";
import * as evidence from "./evidence.ts";
import { judge } from "./evidence-rules.ts";
import type { By } from "./events.ts";
import * as idempotency from "./idempotency.ts";
import { instant } from "./instant.ts";
import { deviceOf, refuseExpired, refuseForeign, renewed, stale } from "./job-claims.ts";
import { ended } from "./job-ends.ts";
import * as jobs from "./jobs.ts";
import * as log from "./log.ts";
import { misreadIn } from "./misread.ts";
import { emit, listenersOf } from "./outbox.ts";
import * as products from "./products.ts";
import { isAccountedFor, warnBeside } from "./stray-labels.ts";

/** Who says it: a device where its key does, else whoever the request names. Nobody speaks as a device without its key. */
function actorOf({ actor }: Result, caller: Caller): JobActor {
  if (actor?.kind === "device") deviceOf(caller);
  return actor ?? (caller.deviceId === null ? { kind: "operator" } : { kind: "device" });
}

/** Asked where a label begins and where it counts: a void that hasn't reached all of many jobs yet stops them there. */
async function refuseVoided(tx: Tx, row: jobs.Row): Promise<void> {
  if (await products.isVoided(tx, row.tenantId, row.productId)) throw stale(row, "the product was voided: this attempt is over");
}

/** An attempt's own states begin with its claim: QUEUED is the issuer's word. */
const CLAIMED = rankOf("CLAIMED");
const isRepeat = async (tx: Tx, row: jobs.Row, status: JobState): Promise<boolean> =>
  status === "FAILED" ? hasFailed(tx, row) : status === row.state || (rankOf(status) >= CLAIMED && rankOf(status) <= row.reached);
const isOver = ({ state }: jobs.Row): boolean => rankOf(state) < 0;
/** By the station's own word, which is kept as it was sent, whether or not the job was buried or cancelled since. */
const hasFailed = async (tx: Tx, row: jobs.Row): Promise<boolean> =>
  isOver(row) && (await jobs.wordsOf(tx, row)).some(({ toState, item }) => toState === "FAILED" && item !== null);

function refuseIllegal(row: jobs.Row, status: JobState, { kind }: JobActor): void {
  if (isOver(row)) throw stale(row, `the job is ${row.state}${row.reason === null ? "" : ` (${row.reason})`}: this attempt is over`);
  const next: readonly JobState[] = jobStates[row.state].next;
  const allowed = next.filter((to) => (jobStates[to].by as readonly string[]).includes(kind) && to !== "CLAIMED");
  if (!allowed.includes(status))
    throw jobs.illegal(row, status, allowed, `${status} doesn't follow ${row.state}; ${allowed.join(" or ")} does`);
}

/** The word as it was sent, for the bundle: members that were absent stay so. */
const itemOf = ({ status, evidence, actor, occurred_at }: Result): BundleItem => ({
  status,
  ...(evidence === undefined ? {} : { evidence }),
  ...(actor === undefined ? {} : { actor }),
  ...(occurred_at === undefined ? {} : { occurred_at }),
});

export type Told = { row: jobs.Row; moved: boolean };

export async function report(tx: Tx, by: By, caller: Caller, ref: string, result: Result): Promise<Told> {
  return reportOf(tx, by, caller, await jobs.find(tx, caller.tenantId, ref), result, jobs.move);
}

async function reportOf(tx: Tx, by: By, caller: Caller, row: jobs.Row, result: Result, move: typeof jobs.move): Promise<Told> {
  refuseForeign(row, caller, result.attempt_id);
  if (await isRepeat(tx, row, result.status)) return { row, moved: false };
  refuseExpired(row, tx.now);
  const actor = actorOf(result, caller);
  refuseIllegal(row, result.status, actor);
  const label = { digitalLink: row.digitalLink, sgtin96Epc: row.sgtin96Epc, needsTag: jobs.needsRfid(row) };
  const { simulated } = judge(label, result, actor, misreadIn(result.evidence ?? {}, "evidence"));
  if (result.status === "SPOOL_SUBMITTED") await refuseVoided(tx, row);
  if (caller.deviceId !== null) seen(tx, caller.tenantId, caller.deviceId);
  const word: jobs.Word = {
    actor: { kind: actor.kind, id: (actor.kind === "device" ? caller.deviceId : actor.id) ?? caller.deviceId ?? caller.credential.id },
    reason: result.reason ?? null,
    item: itemOf(result),
  };
  const judged = { ...row, simulated: row.simulated || simulated };
  if (result.status === "FAILED") return { row: await fail(tx, row, word, result), moved: true };
  if (result.status === "SEALED") return { row: await seal(tx, by, judged, word, result), moved: true };
  return { row: await advance(tx, judged, result.status, word, move), moved: true };
}

/** One state on, with the lease at its full length again. */
const advance = (tx: Tx, row: jobs.Row, to: JobState, word: jobs.Word, move: typeof jobs.move): Promise<jobs.Row> =>
  move(tx, row, to, word, {
    ...renewed(row, row.leaseSeconds ?? limits.LEASE_DEFAULT_S, tx.now),
    reached: rankOf(to),
    simulated: row.simulated,
  });

/** What follows from the end of an attempt: the pool again, or the reaper, who alone ends a job badly. */
export function afterFailure(row: jobs.Row, now: number): jobs.Change {
  const again = row.attempt < row.maxAttempts;
  return { pool: again, lookAt: again ? null : now };
}

/** A label that may exist makes the next attempt ask first, unless it is said what became of it. */
async function fail(tx: Tx, row: jobs.Row, word: jobs.Word, { reason }: Result): Promise<jobs.Row> {
  if (reason === undefined) throw invalid([{ field: "reason", rule: "required", message: "is required: say why it failed" }]);
  const duplicateRisk = row.duplicateRisk || (row.reached >= PAPER_MAY_EXIST && !isAccountedFor(word));
  const failed = await jobs.move(tx, row, "FAILED", word, { ...afterFailure(row, tx.now), duplicateRisk, reason });
  return row.reached >= PAPER_MAY_EXIST ? warnBeside(tx, failed) : failed;
}

async function seal(tx: Tx, by: By, row: jobs.Row, word: jobs.Word, { evidence: sent = {} }: Result): Promise<jobs.Row> {
  const [, sha256, listeners] = await together([
    refuseVoided(tx, row),
    evidence.refuseOtherBundle(tx, row, sent),
    listenersOf(tx, row.tenantId, "print.confirmed"),
  ]);
  if (row.simulated && !(await jobs.tenantOf(tx, row.tenantId)).sandbox) throw new Refusal("SIMULATED_EVIDENCE");
  const { serial, deviceId, gtin, productId, jobRef, attemptId } = row;
  const told = { serials: [serial], gtin, productId, job_ref: jobRef, attempt_id: attemptId as string, deviceId };
  const label = { digitalLink: row.digitalLink, at: tx.now, ...(deviceId === null ? {} : { deviceId }) };
  const changes = { reached: rankOf("SEALED"), simulated: row.simulated };
  const [sealed] = await together([
    ended(tx, row, "SEALED", word, changes, { status: "printed", reason: null, deviceId }),
    epcis.commissioned(tx, row.tenantId, label),
  ]);
  // Once the serial is held: who had a word on its print until then has told of it before.
  await emit(tx, by, "print.confirmed", { ...told, reportedAt: instant(tx.now) }, { listeners });
  log.appendLast(tx, { kind: "print_bundle", digest: sha256 });
  return sealed;
}

const judgeItem = judgeOf(ResultItem);

/** What a station sends after an outage: in order, each judged by itself, so that one wrong report doesn't hold up the others. */
export async function reportMany(tx: Tx, by: By, caller: Caller, items: readonly unknown[]): Promise<ResultOutcome[]> {
  const judged = items.map((item, index) => ({ index, item: item as ResultItem, faults: judgeItem(item) }));
  const whole = judged.flatMap(({ item, faults }) => (faults.length > 0 ? [] : item));
  // As this unit leaves them: nobody else can change what is held.
  const held = await jobs.hold(
    tx,
    by.tenantId,
    whole.map(({ job_ref: ref }) => ref),
  );
  const sealing = new Set(whole.flatMap(({ status, job_ref: ref }) => (status === "SEALED" ? (held.get(ref)?.serial ?? []) : [])));
  await carriers.holdAll(tx, by.tenantId, sealing);
  const outcomes = await eachBeside(linesOf(judged), async (line) => {
    const said: ResultOutcome[] = [];
    for (const { index, item, faults } of line)
      said.push({ index, ...(faults.length > 0 ? refusedBy(invalid(faults)) : await reportItem(tx, by, caller, item, held)) });
    return said;
  });
  await together([...held.values()].map((row) => jobs.catchUp(tx, row)));
  return outcomes.flat().toSorted((a, b) => a.index - b.index);
}

type Judged = { index: number; item: ResultItem; faults: FieldFault[] };
/** What is of one job stays in order, and other jobs go on beside it; unless two of them use one key, which has to be seen. */
function linesOf(judged: Judged[]): Judged[][] {
  const lines = [...Map.groupBy(judged, ({ item, faults }) => (faults.length > 0 ? "" : item.job_ref)).values()];
  const keysOf = (line: Judged[]) => new Set(line.flatMap(({ item, faults }) => (faults.length > 0 ? [] : (item.idempotency_key ?? []))));
  const keys = lines.flatMap((line) => [...keysOf(line)]);
  return new Set(keys).size === keys.length ? lines : [judged];
}

type Outcome = Omit<ResultOutcome, "index">;
async function reportItem(tx: Tx, by: By, caller: Caller, item: ResultItem, held: Map<string, jobs.Row>): Promise<Outcome> {
  const { idempotency_key: key, job_ref: ref, ...result } = item;
  const say = async (): Promise<Outcome> => {
    const told = await refusalOr(() => reportOf(tx, by, caller, jobs.found(held.get(ref)), result, jobs.moveAhead));
    if (told instanceof Refusal) return refusedBy(told);
    held.set(ref, told.row);
    return { status: 200, job: jobs.toWire(told.row) };
  };
  if (key === undefined) return say();
  const scope = idempotency.scopeOf(caller, "aidc result");
  const asked = { scope, key, fingerprint: hash("sha256", canonical({ ref, result }), "buffer") };
  const before = await idempotency.kept(tx, asked);
  if (before !== undefined) return before instanceof Refusal ? refusedBy(before) : (JSON.parse(before) as Outcome);
  const outcome = await say();
  if (outcome.status !== 400) await idempotency.remember(tx, { ...asked, body: JSON.stringify(outcome) }); // what is malformed takes no key
  return outcome;
}

const refusedBy = ({ status, body }: Refusal): Outcome => ({ status, error: body.error });
