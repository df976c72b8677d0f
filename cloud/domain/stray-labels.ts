// Labels that may lie about: of which attempts they are, and whom they warn. Told by what is on record, attempt by attempt, since one that is accounted for says nothing of another.
import { and, eq, sql } from "../store/drizzle.ts";
import { type JobState, PAPER_MAY_EXIST, rankOf } from "#shared/states.ts";
import { prepared } from "../store/prepared.ts";
import { orphans, serials } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";
import * as carriers from "./carriers.ts";
import * as jobs from "./jobs.ts";

type Event = Awaited<ReturnType<typeof jobs.eventsOf>>[number];
const GONE: ReadonlySet<unknown> = new Set(["destroyed", "not_printed"]);
/** What a station said of the label of the attempt that it gave up. */
export const isAccountedFor = ({ item }: Pick<jobs.Word, "item">): boolean =>
  GONE.has((item?.evidence?.["label_disposition"] as { outcome?: string } | undefined)?.outcome);

const { placeholder } = sql;
const isOfJob = and(eq(orphans.tenantId, placeholder("tenantId")), eq(orphans.jobRef, placeholder("jobRef")));
const ofJob = prepared(db.select({ attemptId: orphans.attemptId, disposition: orphans.disposition }).from(orphans).where(isOfJob));

const isFound = and(
  eq(orphans.tenantId, placeholder("tenantId")),
  eq(orphans.serial, placeholder("serial")),
  sql`${orphans.disposition} = 'found'`, // spelled out, so that the index of these is found
);
const foundOfSerial = prepared(db.select({ jobRef: orphans.jobRef }).from(orphans).where(isFound));
/** The job of a label that is on record as found, whichever of the serial's jobs that is. */
const stillFound = async (_tx: Tx, { tenantId, serial }: jobs.Row): Promise<string | null> =>
  (await foundOfSerial.get({ tenantId, serial }))?.jobRef ?? null;

/** The words on the latest attempt that may have put a label on paper: whoever made it had been asked to destroy those before it. */
async function onPaper(tx: Tx, { jobRef }: jobs.Row): Promise<Event[]> {
  const attempts = Map.groupBy(await jobs.eventsOf(tx, jobRef), (event) => event.attemptId);
  return [...attempts.values()].findLast((events) => events.some(({ toState }) => rankOf(toState) >= PAPER_MAY_EXIST)) ?? [];
}

/** Whether an attempt of the job that is over may have left a label of which nobody has said that it is gone. */
async function mayLie(tx: Tx, job: jobs.Row): Promise<boolean> {
  const listed = new Map((await ofJob.all({ tenantId: job.tenantId, jobRef: job.jobRef })).map((one) => [one.attemptId, one.disposition]));
  if ([...listed.values()].includes("found")) return true;
  const events = await onPaper(tx, job);
  const [first] = events;
  if (!first?.attemptId || listed.has(first.attemptId) || events.some(isAccountedFor)) return false;
  return first.attemptId !== job.attemptId || rankOf(job.state) < 0; // else it is under way, or sealed
}

const itsSerial = ({ tenantId, serial }: jobs.Row) => and(eq(serials.tenantId, tenantId), eq(serials.serial, serial));
async function openJobOf(tx: Tx, { tenantId, serial }: jobs.Row): Promise<{ open: jobs.Row | undefined; risky: boolean }> {
  const carrier = await carriers.find(tx, tenantId, serial);
  const open = carrier?.openJob ? await jobs.find(tx, tenantId, carrier.openJob) : undefined;
  return { open, risky: carrier !== undefined && isRisky(carrier) };
}

/**
 * Before a word on a label of the job, which comes back as it is then. Who has a word on another label of the serial waits; who just ends the serial's
 * open job decides by what is listed, and was overtaken.
 */
export async function hold(tx: Tx, job: jobs.Row): Promise<jobs.Row> {
  const { open } = await openJobOf(tx, job);
  if (open) await jobs.change(tx, open, {});
  await carriers.hold(tx, job.tenantId, job.serial);
  return jobs.find(tx, job.tenantId, job.jobRef);
}

/** A label of the job was found that its serial doesn't need: whoever prints that serial next has to have it destroyed first. */
export async function warn(tx: Tx, job: jobs.Row): Promise<void> {
  await tx.db
    .update(serials)
    .set({ strayJob: sql`COALESCE(${serials.strayJob}, ${job.jobRef})` })
    .where(itsSerial(job));
  const { open } = await openJobOf(tx, job);
  if (open && !open.duplicateRisk) await jobs.change(tx, open, { duplicateRisk: true });
}

/** Another system says that it printed the job's label: unless the job's own attempt may just have put it on paper, that makes two. */
export async function warnOfOther(tx: Tx, job: jobs.Row): Promise<void> {
  if (rankOf(job.state) < PAPER_MAY_EXIST && !job.duplicateRisk) await jobs.change(tx, job, { duplicateRisk: true });
}

/** An attempt of the job failed and its label is gone: what another system said of the serial meanwhile is of another label. */
export async function warnBeside(tx: Tx, job: jobs.Row): Promise<jobs.Row> {
  if (job.duplicateRisk) return job;
  const carrier = await carriers.find(tx, job.tenantId, job.serial); // once the job is held: who says it now waits, and warns it
  return carrier && isRisky(carrier) ? jobs.change(tx, job, { duplicateRisk: true }) : job;
}

/** One label of the job is gone: if it was the last that might lie about, nobody is warned of it any more. */
export async function accountedFor(tx: Tx, job: jobs.Row): Promise<void> {
  if (await mayLie(tx, job)) return;
  await tx.db
    .update(serials)
    .set({ strayJob: await stillFound(tx, job) }) // of another job
    .where(and(itsSerial(job), eq(serials.strayJob, job.jobRef)));
  const { open, risky } = await openJobOf(tx, job);
  const isWaiting = open?.state === "QUEUED" || open?.state === "FAILED";
  if (open?.duplicateRisk && isWaiting && !risky && !(await mayLie(tx, open))) await jobs.change(tx, open, { duplicateRisk: false });
}

const isSaidPrinted = ({ printStatus, sealedJob }: carriers.Row): boolean => printStatus === "printed" && sealedJob === null;
/** Whether another label of the serial may exist: a job may have left one, or another system says that it printed it. */
export const isRisky = (carrier: carriers.Row): boolean => carrier.strayJob !== null || isSaidPrinted(carrier);

/** Stands where a job does: of this label no job's word can say that it is gone, but whoever prints under the warning has destroyed it. */
const OF_ANOTHER_SYSTEM = "another system";
/** Another system has said that it printed the serial since the job's latest label was claimed, or no label of the job may exist. */
async function isTold(tx: Tx, { tenantId, serial }: jobs.Row, [claimed]: readonly Event[]): Promise<boolean> {
  const carrier = await carriers.find(tx, tenantId, serial);
  return carrier !== undefined && isSaidPrinted(carrier) && (claimed === undefined || (carrier.printReportedAt ?? 0) >= claimed.at);
}

type Left = { keeps: 0 | 1; strayJob: string | null };
/** What a job that ends leaves on record about stray labels of its serial: its own name, or that of the job before it, which it may keep. */
export async function leftBy(tx: Tx, job: jobs.Row, to: JobState): Promise<Left> {
  if (!job.duplicateRisk) return { keeps: 1, strayJob: null };
  if (to === "SEALED") return { keeps: 0, strayJob: await stillFound(tx, job) }; // who sealed it was asked to destroy all others
  const events = await onPaper(tx, job);
  // What another system said is replaced by this end: from here on it stands nowhere else.
  if (to === "DEAD_LETTER" && (await isTold(tx, job, events))) return { keeps: 0, strayJob: OF_ANOTHER_SYSTEM };
  return { keeps: events.length > 0 ? 0 : 1, strayJob: job.jobRef };
}
