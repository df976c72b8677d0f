// Evidence: kept word for word, bundled under one digest that the log anchors and anybody can recompute.
import { digestOf } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import { digitalLink } from "#shared/gs1.ts";
import type { JobState } from "#shared/states.ts";
import { isSimulated } from "#shared/wire/evidence.ts";
import type { BundleItem, EvidenceBundle, EvidenceQuery } from "#shared/wire/jobs.ts";
import type { Signing } from "../keys.ts";
import type { Caller } from "./callers.ts";
import * as jobs from "./jobs.ts";
import type { Tx } from "../store/store.ts";
import { bundlePath } from "./evidence-rules.ts";
import * as log from "./log.ts";

const BUNDLED: ReadonlySet<JobState> = new Set(bundlePath);

const bundled = (words: readonly jobs.Said[]): BundleItem[] =>
  words.flatMap(({ item, toState }) => (item && BUNDLED.has(toState) ? [item] : []));

/** What is kept of an attempt, and the digest that was sealed, as the word of the seal has it. */
export function bundleOf(words: readonly jobs.Said[]) {
  const items = bundled(words);
  const seal = words.find(({ toState }) => toState === "SEALED")?.item?.evidence?.["evidence_bundle"] as { sha256?: string } | undefined;
  return { items, sha256: digestOf(items), sealed: seal?.sha256 };
}

type Sealed = ReturnType<typeof bundleOf>;
type Label = Pick<jobs.Row, "digitalLink" | "gtin" | "serial" | "simulated">;
/** Nobody changes sealed evidence, or gives it to another label, but past us, in the store. */
export function sealFault(
  { items, sha256, sealed }: Sealed,
  { digitalLink: link, gtin, serial, simulated }: Label,
  isLogged: boolean,
): string | undefined {
  if (sealed === undefined) return "what is kept of it doesn't say any more which digest was sealed";
  if (sha256 !== sealed)
    return `its evidence was changed after it was sealed: the items give the digest ${sha256}, and ${sealed} was sealed`;
  if (!isLogged) return `the digest that was sealed, ${sealed}, isn't in the log`;
  if (isSimulated(items) && !simulated) return "its evidence is of simulated devices, and the job says that it isn't";
  const { payload } = (items[0]?.evidence?.["render_manifest"] ?? {}) as { payload?: unknown };
  if (payload === link && link.endsWith(digitalLink("", gtin, { serial }))) return undefined;
  return `its evidence is of the label ${String(payload)}, and the job is of another: ${link}, GTIN ${gtin}, serial ${serial}`;
}

/** Recomputed here from what was reported: the station's own sum has to be the same. */
export async function refuseOtherBundle(tx: Tx, row: jobs.Row, evidence: Record<string, unknown>): Promise<string> {
  const { sha256 } = evidence["evidence_bundle"] as { sha256: string };
  const computed = digestOf(bundled(await jobs.wordsOf(tx, row)));
  if (sha256 !== computed)
    throw new Refusal("BUNDLE_MISMATCH", `the bundle's digest is ${computed}, not ${sha256}`, { expected: computed, sent: sha256 });
  return computed;
}

/** Of the latest attempt, or of an earlier one, whose label may lie somewhere. */
export async function get(
  tx: Tx,
  caller: Caller,
  ref: string,
  { attempt_id: asked }: EvidenceQuery,
  signing: Signing,
): Promise<EvidenceBundle> {
  const row = await jobs.find(tx, caller.tenantId, ref);
  const attemptId = asked ?? row.attemptId;
  if (attemptId === null) throw new Refusal("NOT_FOUND", "nobody has claimed the job yet: there is no evidence");
  const words = await jobs.wordsOf(tx, { ...row, attemptId });
  if (words.length === 0 && attemptId !== row.attemptId) throw new Refusal("NOT_FOUND", `the job has no attempt ${attemptId}`);
  const { sealed, ...bundle } = bundleOf(words);
  const shown = { attempt_id: attemptId, ...bundle };
  if (row.state !== "SEALED" || attemptId !== row.attemptId) return { ...shown, proof: null };
  const proof = sealed === undefined ? undefined : await log.proofOf(tx, sealed, signing);
  const fault = sealFault({ ...bundle, sealed }, row, proof !== undefined);
  return { ...shown, proof: proof ?? null, ...(fault === undefined ? {} : { fault }) };
}
