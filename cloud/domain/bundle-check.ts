// Sealed evidence against its seal: what the kept items give is held against the digest that was sealed, and that against the log.
import { and, asc, desc, eq, inArray, lt } from "../store/drizzle.ts";
import { logLeaves, printEvents, printJobs } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { bundleOf, sealFault } from "./evidence.ts";

const SLICE_ROWS = 500;
export type Judged = { bundles: number; /** The first that doesn't hold. */ fault: string | undefined };

/** All that a tenant has sealed, the latest first, or so many of them. */
export async function judgeBundles(store: Store, tenantId: string, most = Infinity): Promise<Judged> {
  let bundles = 0;
  for (let before: string | undefined; bundles < most;) {
    const count = Math.min(SLICE_ROWS, most - bundles);
    const { fault, refs } = await store.read("sealed bundles", (tx) => judgeSlice(tx, tenantId, before, count));
    bundles += refs.length;
    if (fault !== undefined || refs.length < count) return { bundles, fault };
    before = refs.at(-1);
  }
  return { bundles, fault: undefined };
}

async function judgeSlice(tx: Tx, tenantId: string, before: string | undefined, count: number) {
  const sealed = await tx.db
    .select({ ref: printJobs.jobRef, attemptId: printJobs.attemptId })
    .from(printJobs)
    .where(
      and(eq(printJobs.tenantId, tenantId), eq(printJobs.state, "SEALED"), before === undefined ? undefined : lt(printJobs.jobRef, before)),
    )
    .orderBy(desc(printJobs.jobRef))
    .limit(count);
  const refs = sealed.map(({ ref }) => ref);
  const words = await tx.db
    .select({ ref: printEvents.jobRef, attemptId: printEvents.attemptId, toState: printEvents.toState, item: printEvents.item })
    .from(printEvents)
    .where(inArray(printEvents.jobRef, refs))
    .orderBy(asc(printEvents.jobRef), asc(printEvents.n));
  const byRef = Map.groupBy(words, ({ ref }) => ref);
  const bundles = sealed.map(({ ref, attemptId }) => ({
    ref,
    ...bundleOf((byRef.get(ref) ?? []).filter((word) => word.attemptId === attemptId)),
  }));
  const digests = bundles.flatMap(({ sealed: digest }) => digest ?? []);
  const leaves = await tx.db.select({ digest: logLeaves.digest }).from(logLeaves).where(inArray(logLeaves.digest, digests));
  const logged = new Set(leaves.map(({ digest }) => digest));
  const faults = bundles.map((bundle) => ({ ref: bundle.ref, fault: sealFault(bundle, logged.has(bundle.sealed ?? "")) }));
  const first = faults.find(({ fault }) => fault !== undefined);
  return { refs, fault: first && `the job ${first.ref}: ${first.fault}` };
}
