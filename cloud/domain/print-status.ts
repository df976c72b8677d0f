// What a printer's own system says of many labels at once: each outcome replaces the one before it, and saying the same again tells nobody anew.
import { hash } from "node:crypto";
import { sql } from "../store/drizzle.ts";
import { canonical } from "#shared/canonical.ts";
import { digitalLink } from "#shared/gs1.ts";
import type { Outcome, PrintStatusTaken } from "#shared/wire/carriers.ts";
import { prepared } from "../store/prepared.ts";
import { serials } from "../store/schema.ts";
import { db, inTurn, overtaken, together, type Tx } from "../store/store.ts";
import { find, hold, isIt } from "./carriers.ts";
import * as epcis from "./epcis.ts";
import type { By } from "./events.ts";
import * as idempotency from "./idempotency.ts";
import { instant } from "./instant.ts";
import { type PrintOutcome, printOutcome } from "./job-ends.ts";
import * as jobs from "./jobs.ts";
import { emit } from "./outbox.ts";
import * as products from "./products.ts";
import { warnOfOther } from "./stray-labels.ts";

const take = prepared(
  db
    .update(serials)
    .set({ ...printOutcome, printBatch: sql`${sql.placeholder("batch")}` })
    .where(isIt)
    .returning({
      gtin: serials.gtin,
      openJob: serials.openJob,
      sealedJob: serials.sealedJob,
      voidedAt: serials.voidedAt,
    }),
);

type Printed = PrintOutcome & { serial: string };
type Taken = NonNullable<Awaited<ReturnType<typeof take.get>>>;

/** The key that a batch is known by when it brings none: its own digest, within the tenant. */
const keyOf = (results: readonly Outcome[]): Buffer => hash("sha256", canonical(results), "buffer");
const scopeOf = (tenantId: string): Buffer => hash("sha256", `${tenantId}\nprint-status`, "buffer").subarray(0, 16);

/** What a batch says last of each of its serials. */
const lastWords = (results: readonly Outcome[]): Map<string, Printed> =>
  new Map(
    results.map(({ serial, status, reason, deviceId }) => [serial, { serial, status, reason: reason || null, deviceId: deviceId || null }]),
  );

/** Only while all of its serials stand as this batch said, be it in other batches too, is saying it again a repeat. */
async function isLatest(tx: Tx, tenantId: string, { unknown }: PrintStatusTaken, results: readonly Outcome[]): Promise<boolean> {
  const notThen = new Set(unknown);
  const words = [...lastWords(results).values()];
  const all = await together(words.map(async (said) => ({ said, row: await find(tx, tenantId, said.serial) })));
  return all.every(({ said, row }) => {
    if (notThen.has(said.serial)) return row === undefined; // else it was allocated since
    if (!row?.printBatch) return false; // a job's word
    return row.printStatus === said.status && row.printReason === said.reason && row.printDeviceId === said.deviceId;
  });
}

type Standing = NonNullable<Awaited<ReturnType<typeof find>>>;
/** Those serials of a batch that there are, in everybody's order. */
async function standing(tx: Tx, tenantId: string, results: readonly Outcome[]): Promise<Standing[]> {
  const found = await together(inTurn(results, ({ serial }) => serial).map(({ serial }) => find(tx, tenantId, serial)));
  return found.filter((row) => row !== undefined);
}

type Before = { jobs: Map<string, jobs.Row>; printed: Set<string> };
/** Locks the open jobs of serials that were printed elsewhere (jobs come before serials, for everybody), and notes which serials were printed before. */
async function holdJobs(tx: Tx, tenantId: string, rows: readonly Standing[], results: readonly Outcome[]): Promise<Before> {
  const told = new Set(results.flatMap(({ serial, status }) => (status === "printed" ? [serial] : [])));
  const printed = rows.filter(({ serial }) => told.has(serial));
  const held = await jobs.hold(
    tx,
    tenantId,
    printed.flatMap(({ openJob }) => openJob ?? []),
  );
  const before = printed.filter(({ printStatus, sealedJob }) => printStatus === "printed" || sealedJob !== null);
  return { jobs: held, printed: new Set(before.map(({ serial }) => serial)) };
}

type Asked = { keyless: boolean; origin: string };
type Answer = { taken: PrintStatusTaken; replayed: boolean };
/** The answer to a batch; `replayed` when it brought no key of its own and is the same as an earlier one. */
export async function report(tx: Tx, by: By, results: readonly Outcome[], { keyless, origin }: Asked): Promise<Answer> {
  const key = keyOf(results);
  const known = { scope: scopeOf(by.tenantId), key: key.toString("hex"), fingerprint: key };
  const rows = await standing(tx, by.tenantId, results);
  // Before their jobs and serials, as who voids some of them: the first that is said of a product's labels is written into its row.
  for (const id of new Set(rows.map(({ productId }) => productId).toSorted())) await products.nowPrinted(tx, by.tenantId, id);
  const stood = await holdJobs(tx, by.tenantId, rows, results);
  const [first] = rows;
  if (first) await hold(tx, by.tenantId, first.serial); // who says the same at the same time waits here, and finds it said
  const before = keyless ? await idempotency.kept(tx, known) : undefined;
  if (typeof before === "string") {
    const taken = JSON.parse(before) as PrintStatusTaken;
    if (await isLatest(tx, by.tenantId, taken, results)) return { taken, replayed: true };
  }
  const taken = await takeAll(tx, by, results, { batch: key, stood, origin });
  await idempotency.remember(tx, { ...known, body: JSON.stringify(taken) });
  return { taken, replayed: false };
}

type Given = { batch: Buffer; stood: Before; origin: string };
async function takeAll(tx: Tx, by: By, results: readonly Outcome[], { batch, stood, origin }: Given): Promise<PrintStatusTaken> {
  const last = lastWords(results);
  const changed = new Map([...stood.jobs.values()].map(({ serial, updatedAt }) => [serial, updatedAt]));
  const inOrder = inTurn(last.values(), ({ serial }) => serial);
  const all = await together(
    inOrder.map(async (outcome) => {
      const now = Math.max(tx.now, changed.get(outcome.serial) ?? 0); // not before a claim that this unit waited for
      return { ...outcome, taken: await take.get({ tenantId: by.tenantId, ...outcome, now, batch }) };
    }),
  );
  for (const { serial, status, taken } of all)
    if (taken && status === "printed") await followPrinted(tx, by.tenantId, { serial, ...taken }, stood, origin);
  const known = new Set(all.flatMap(({ serial, taken }) => (taken ? serial : [])));
  const { updated = [], unknown = [] } = Object.groupBy(last.values(), ({ serial }) => (known.has(serial) ? "updated" : "unknown"));
  const printed = updated.filter(({ status }) => status === "printed");
  const failed = updated.filter(({ status }) => status === "failed");
  const reportedAt = instant(tx.now);
  return {
    updated: serialsOf(updated),
    unknown: serialsOf(unknown),
    printed: serialsOf(printed),
    failed: serialsOf(failed),
    reportedAt,
    events: await tell(tx, by, printed, failed, reportedAt),
  };
}
const serialsOf = (some: readonly Printed[]): string[] => some.map(({ serial }) => serial);

/** What a label from elsewhere means for its voided serial, and for the job that is open for it here. */
async function followPrinted(tx: Tx, tenantId: string, label: { serial: string } & Taken, stood: Before, origin: string): Promise<void> {
  const { serial, gtin, voidedAt, openJob, sealedJob } = label;
  // Voiding told of the labels that there were by then; of this one nobody has.
  if (voidedAt !== null && !stood.printed.has(serial))
    await epcis.decommissioned(tx, tenantId, { digitalLink: digitalLink(origin, gtin, { serial }), at: tx.now });
  if (!openJob || sealedJob !== null) return;
  const job = stood.jobs.get(openJob);
  if (!job) throw overtaken(`the serial ${serial}`);
  await warnOfOther(tx, job);
}

async function tell(
  tx: Tx,
  by: By,
  printed: readonly Printed[],
  failed: readonly Printed[],
  reportedAt: string,
): Promise<PrintStatusTaken["events"]> {
  const events: PrintStatusTaken["events"] = [];
  if (printed.length > 0) {
    const webhooksNotified = await emit(tx, by, "print.confirmed", { serials: serialsOf(printed), reportedAt });
    events.push({ type: "print.confirmed", webhooksNotified });
  }
  if (failed.length > 0) {
    const failures = failed.map(({ serial, reason }) => ({ serial, reason }));
    const webhooksNotified = await emit(tx, by, "print.failed", { serials: serialsOf(failed), failures, reportedAt });
    events.push({ type: "print.failed", webhooksNotified });
  }
  return events;
}
