// Sealed evidence against its seal: what the kept items give is held against the digest that was sealed, and that against the log.
import { and, asc, count as counted, desc, eq, inArray, like, lt } from "../store/drizzle.ts";
import { logLeaves, printEvents, printJobs } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { bundleOf, sealFault } from "./evidence.ts";
import * as log from "./log.ts";

const SLICE_ROWS = 500;
export type Judged = { bundles: number; /** The first that doesn't hold. */ fault: string | undefined };

/** All that a tenant has sealed, the latest first, or so many of them. */
export async function judgeBundles(store: Store, tenantId: string, most = Infinity): Promise<Judged> {
  let bundles = 0;
  let near: number | undefined;
  for (let before: string | undefined; bundles < most;) {
    const count = Math.min(SLICE_ROWS, most - bundles);
    const slice = await store.read("sealed bundles", (tx) => judgeSlice(tx, tenantId, { before, count, near }));
    const { fault, refs } = slice;
    near = slice.near;
    bundles += refs.length;
    if (fault !== undefined || refs.length < count) return { bundles, fault };
    before = refs.at(-1);
  }
  return { bundles, fault: undefined };
}

/** A sealed job that was set back or is gone gives no bundle to judge: the log alone still has its digest. */
export async function lostBundles(store: Store): Promise<string | undefined> {
  // The leaves first: what is sealed meanwhile is one of the jobs.
  const logged = await store.read("sealed leaves", ({ db }) =>
    db.select({ n: counted() }).from(logLeaves).where(like(logLeaves.entry, '%"kind":"print_bundle"%')),
  );
  const kept = await store.read("sealed jobs", ({ db }) =>
    db.select({ n: counted() }).from(printJobs).where(eq(printJobs.state, "SEALED")),
  );
  const lost = (logged[0]?.n ?? 0) - (kept[0]?.n ?? 0);
  return lost > 0 ? `sealed evidence is missing: the log has ${lost} sealed bundles more than there are sealed jobs` : undefined;
}

/** Named one by one: a store, or a backup, that the version before left has no columns that came since. */
const { jobRef, attemptId, digitalLink, gtin, serial, simulated } = printJobs;
const JUDGED = { jobRef, attemptId, digitalLink, gtin, serial, simulated };

type Slice = { before: string | undefined; count: number; /** Where the log holds those of the slice before. */ near: number | undefined };
async function judgeSlice(tx: Tx, tenantId: string, { before, count, near }: Slice) {
  const isNext = and(
    eq(printJobs.tenantId, tenantId),
    eq(printJobs.state, "SEALED"),
    before === undefined ? undefined : lt(printJobs.jobRef, before),
  );
  const sealed = await tx.db.select(JUDGED).from(printJobs).where(isNext).orderBy(desc(printJobs.jobRef)).limit(count);
  const refs = sealed.map((job) => job.jobRef);
  const words = await tx.db
    .select({ ref: printEvents.jobRef, attemptId: printEvents.attemptId, toState: printEvents.toState, item: printEvents.item })
    .from(printEvents)
    .where(inArray(printEvents.jobRef, refs))
    .orderBy(asc(printEvents.jobRef), asc(printEvents.n));
  const byRef = Map.groupBy(words, ({ ref }) => ref);
  const bundles = sealed.map((job) => ({
    job,
    ...bundleOf((byRef.get(job.jobRef) ?? []).filter((word) => word.attemptId === job.attemptId)),
  }));
  const digests = bundles.flatMap(({ sealed: digest }) => digest ?? []);
  const logged = await log.absentOf(tx, digests, near);
  const isLogged = (digest: string | undefined) => digest !== undefined && !logged.absent.has(digest);
  const faults = bundles.map((bundle) => ({ ref: bundle.job.jobRef, fault: sealFault(bundle, bundle.job, isLogged(bundle.sealed)) }));
  const first = faults.find(({ fault }) => fault !== undefined);
  return { refs, near: logged.near, fault: first && `sealed evidence doesn't hold: the job ${first.ref}: ${first.fault}` };
}
