// Print jobs begin here: for an allocated serial whose passport may be printed, one at a time or by the thousand.
import { and, isNull, sql } from "../store/drizzle.ts";
import { type FieldFault, invalid, Refusal, refusalOr } from "#shared/errors.ts";
import { digitalLink, gtin14 } from "#shared/gs1.ts";
import { ANY_TEMPLATE } from "#shared/templates.ts";
import { type Job, JobCreate, type JobsMade } from "#shared/wire/jobs.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { printJobs, serials } from "../store/schema.ts";
import { db, eachBeside, inTurn, overtaken, together, type Tx } from "../store/store.ts";
import { judgeOf } from "../validate.ts";
import * as carriers from "./carriers.ts";
import { wasRevoked } from "./issued-credentials.ts";
import type { By } from "./events.ts";
import { jobRef } from "./ids.ts";
import { instant } from "./instant.ts";
import * as jobs from "./jobs.ts";
import * as passports from "./passports.ts";
import { gtinFaults } from "./product-rules.ts";
import * as products from "./products.ts";
import { isRisky } from "./stray-labels.ts";
import { isPrintable } from "./validations.ts";
import { waits } from "./wakes.ts";

const open = prepared(
  db
    .update(serials)
    .set({ openJob: sql`${sql.placeholder("jobRef")}` })
    .where(
      and(
        carriers.isIt,
        isNull(serials.openJob),
        isNull(serials.voidedAt),
        sql`COALESCE(${serials.strayJob}, '') = ${sql.placeholder("seenStray")}`,
        sql`COALESCE(${serials.printStatus}, '') = ${sql.placeholder("seenStatus")}`,
      ),
    ),
);
const insertJob = prepared(db.insert(printJobs).values(placesOf(printJobs)));

/** What many jobs of one call have in common, looked up once. */
type Issue = { origin: string; obstacles: Map<string, Promise<string | undefined>> };

/** What stands between a product and its labels, and what to do about it. */
async function obstacleOf(tx: Tx, tenantId: string, productId: string): Promise<string | undefined> {
  if (await isPrintable(tx, tenantId, productId)) return undefined;
  if (await products.isVoided(tx, tenantId, productId)) return products.NO_MORE_LABELS;
  const passport = await passports.ofProduct(tx, tenantId, productId);
  if (!passport) return "the product has no passport: generate one, publish it and anchor a validation of it";
  if (passport.state !== "published") return `the product's passport is ${passport.state}, and only a published one is readyToPrint`;
  const version = await passports.currentVersion(tx, passport);
  if (await wasRevoked(tx, version?.credentialId ?? null))
    return "the credential of the passport's published version was revoked: revise the passport and publish the next one";
  return "the passport's published version isn't readyToPrint: anchor a validation of it";
}

async function whyNotReady(tx: Tx, { tenantId, gtin, serial, productId }: carriers.Row, obstacle: string): Promise<Refusal> {
  if (!(await products.exists(tx, tenantId, productId)))
    return new Refusal("SERIAL_NOT_ALLOCATED", `serial: ${serial} was allocated for a product with ${gtin} that was deleted since`);
  return new Refusal("PASSPORT_NOT_READY", obstacle, { productId });
}

/** The serial, if a label of it may be printed now. */
async function printable(tx: Tx, by: By, input: JobCreate, { obstacles }: Issue): Promise<carriers.Row> {
  const gtin = gtin14(input.gtin);
  const row = await carriers.find(tx, by.tenantId, input.serial);
  if (row?.gtin !== gtin) throw new Refusal("SERIAL_NOT_ALLOCATED", `serial: ${input.serial} isn't allocated under ${gtin}`);
  if (row.voidedAt !== null) throw new Refusal("SERIAL_VOIDED", `serial: ${input.serial} was voided at ${instant(row.voidedAt)}`);
  const looked = obstacles.get(row.productId) ?? obstacleOf(tx, by.tenantId, row.productId);
  obstacles.set(row.productId, looked);
  const obstacle = await looked;
  if (obstacle !== undefined) throw await whyNotReady(tx, row, obstacle);
  if (row.openJob !== null)
    throw new Refusal("JOB_EXISTS", `the serial has the open job ${row.openJob}: cancel it first`, { job_ref: row.openJob });
  if (row.sealedJob !== null && !(input.reprint && input.reason))
    throw new Refusal("JOB_EXISTS", `the serial was sealed by ${row.sealedJob}: another label needs reprint: true and a reason`, {
      job_ref: row.sealedJob,
    });
  return row;
}

type About = { ref: string; origin: string; carrier: carriers.Row; tenant: Awaited<ReturnType<typeof jobs.tenantOf>> };
/** A job as it begins. */
function fresh(tx: Tx, by: By, input: JobCreate, { ref, origin, carrier, tenant }: About): jobs.Row {
  const { needs = ["qr"], template, priority = 0, station, max_attempts: most, reprint = false, reason = null } = input;
  const { gtin, serial, productId } = carrier;
  const named = carriers.epcOf(tenant.prefixes, gtin, serial);
  if (needs.includes("rfid") && "fault" in named) throw new Refusal("EPC_UNAVAILABLE", named.fault);
  return {
    tenantId: by.tenantId,
    jobRef: ref,
    state: "QUEUED",
    fromState: null,
    reached: 0,
    revision: 1,
    productId,
    gtin,
    serial,
    digitalLink: digitalLink(origin, gtin, { serial }),
    sgtin96Epc: "epc" in named ? named.epc : null,
    needs: jobs.maskOf(needs),
    template: template ?? tenant.template ?? ANY_TEMPLATE,
    priority,
    station: station ?? jobs.ANY_STATION,
    reprint,
    pool: true,
    dueAt: null,
    lookAt: null,
    attemptId: null,
    attempt: 0,
    maxAttempts: most ?? tenant.maxAttempts,
    deviceId: null,
    leaseSeconds: null,
    leaseExpiresAt: null,
    envelopeExpiresAt: null,
    simulated: false,
    duplicateRisk: isRisky(carrier),
    reason, // until it is claimed: from then on it is the attempt's
    createdAt: tx.now,
    updatedAt: tx.now,
  };
}

async function issueOne(tx: Tx, by: By, input: JobCreate, common: Issue, ref: string): Promise<jobs.Row> {
  const [carrier, tenant] = await together([printable(tx, by, input, common), jobs.tenantOf(tx, by.tenantId)]);
  const row = fresh(tx, by, input, { ref, origin: common.origin, carrier, tenant });
  const seen = { seenStray: carrier.strayJob ?? "", seenStatus: carrier.printStatus ?? "" };
  const [, opened] = await together([
    products.nowPrinted(tx, by.tenantId, row.productId), // before the serial, as everybody does
    open.run({ ...row, ...seen }),
    insertJob.run(row),
    jobs.record(tx, row, { actor: { kind: "issuer", id: by.actor.id }, reason: row.reason }),
  ]);
  if (opened === 0) throw overtaken(`serial ${row.serial}`);
  waits(tx, row);
  return row;
}

export const issue = async (tx: Tx, by: By, input: JobCreate, origin: string): Promise<Job> =>
  jobs.toWire(await issueOne(tx, by, input, { origin, obstacles: new Map() }, jobRef(tx)));

const shape = judgeOf(JobCreate);
/** As a job that is asked for by itself is judged: all its faults, by the names of its own fields. */
function faultsOf(item: unknown): FieldFault[] {
  const found = shape(item);
  const more = gtinFaults((item as Partial<JobCreate> | null)?.gtin);
  return [...found, ...more.filter(({ field }) => !found.some((fault) => fault.field === field))];
}

type Outcome = { index: number; job: Job } | { index: number; error: string };
/** Each item by itself: what is refused is told with its place, the others stand. Items of one serial stay in order. */
export async function issueBatch(tx: Tx, by: By, items: readonly unknown[], origin: string): Promise<JobsMade> {
  const common: Issue = { origin, obstacles: new Map() };
  // Named in their order, in which they are claimed: beside one another they are made in any.
  const judged = items.map((item, index) => ({ index, ref: jobRef(tx), item: item as JobCreate, faults: faultsOf(item) }));
  const bySerial = Map.groupBy(judged, ({ item, faults }) => (faults.length > 0 ? "" : item.serial));
  // In the order that everybody takes serials in: crosswise, two who issue the same ones, or say what became of them, would wait for each other.
  const lines = inTurn(bySerial, ([serial]) => serial).map(([, line]) => line);
  const done = await eachBeside(lines, async (line) => {
    const outcomes: Outcome[] = [];
    for (const { index, ref, item, faults } of line) {
      const issued = faults.length > 0 ? invalid(faults) : await refusalOr(() => issueOne(tx, by, item, common, ref));
      outcomes.push(issued instanceof Refusal ? { index, error: issued.line } : { index, job: jobs.toWire(issued) });
    }
    return outcomes;
  });
  const inOrder = done.flat().toSorted((a, b) => a.index - b.index);
  const made = inOrder.flatMap((outcome) => ("job" in outcome ? outcome.job : []));
  const errors = inOrder.flatMap((outcome) => ("error" in outcome ? outcome : []));
  return { created: made.length, failed: errors.length, errors, jobs: made };
}
