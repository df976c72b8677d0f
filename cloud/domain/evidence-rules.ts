// What evidence has to say to be believed: by these rules the cloud hears it, and whoever verifies it later judges it again.
import { isDeepStrictEqual } from "node:util";
import { keyOf, linkTypeOf } from "#shared/digital-link.ts";
import { type FieldFault, invalid, Refusal } from "#shared/errors.ts";
import { digitalLink } from "#shared/gs1.ts";
import { limits } from "#shared/limits.ts";
import { grades, type JobState, jobPath, jobStates } from "#shared/states.ts";
import { type Evidence, evidenceShapes, isSimulated } from "#shared/wire/evidence.ts";
import type { JobActor, Result } from "#shared/wire/jobs.ts";
import { judgesOf } from "../validate.ts";
import { misreadIn } from "./misread.ts";

type Sent = Record<string, unknown>;
/** What its evidence has to be of. */
export type Label = { digitalLink: string; sgtin96Epc: string | null; needsTag: boolean };
type Word = Pick<Result, "status" | "evidence">;
const judges = judgesOf(evidenceShapes);

const unfit = (fields: FieldFault[]): Refusal => new Refusal("EVIDENCE_INVALID", invalid(fields).message, { fields });
const wrong = (field: string, rule: string, message: string): FieldFault => ({ field: `evidence.${field}`, rule, message });
const missing = (field: string, message: string): Refusal =>
  new Refusal("EVIDENCE_REQUIRED", `${field}: ${message}`, { fields: [{ field, rule: "required", message }] });

/** What has to come with this word, and what came: whole, of its kind, and of no other stage. */
function shapeFaults(status: JobState, evidence: Sent | undefined, actor: JobActor): FieldFault[] {
  const name = jobStates[status].evidence;
  const isDue = name !== null && !(name === "completion" && actor.kind === "operator");
  if (isDue && evidence?.[name] === undefined) throw missing(`evidence.${name}`, `is what ${status} needs`);
  const strangers = Object.keys(evidence ?? {}).filter((given) => given !== name);
  const strange = name === null ? `${status} takes no evidence of a stage` : `isn't evidence of ${status}: ${name} is`;
  return [
    ...(name === null || evidence?.[name] === undefined ? [] : judges[name](evidence[name], `evidence.${name}`)),
    ...strangers.map((given) => wrong(given, "stage", strange)),
  ];
}

/** True of a field that has its shape, around it and in it, so that it can be judged by what it says. */
type IsSound = (field: string) => boolean;
const soundIn =
  (faults: readonly FieldFault[]): IsSound =>
  (name) => {
    const at = `evidence.${name}`;
    return faults.every(({ field }) => field !== at && !at.startsWith(`${field}.`) && !field.startsWith(`${at}.`));
  };

function manifestFaults({ payload, epc }: Evidence["render_manifest"], label: Label, isSound: IsSound): FieldFault[] {
  const faults: FieldFault[] = [];
  if (isSound("render_manifest.payload") && payload !== label.digitalLink)
    faults.push(wrong("render_manifest.payload", "payload", `must be ${label.digitalLink}`));
  if (isSound("render_manifest.epc") && epc !== undefined && epc.toUpperCase() !== label.sgtin96Epc)
    faults.push(wrong("render_manifest.epc", "epc", `must be ${label.sgtin96Epc ?? "absent: the job has no EPC"}`));
  return faults;
}

/** A word that no machine should be believed on, whatever grade it gives itself. */
const HEARSAY = /spool|queue(?!d? response)|transport|timeout|elapsed|bytes|completed|\b(cups|ipp|lpd?|lpr)\b/i;
/** How a printer is, or that nothing is known: beside a fence they may stand, alone they are no sign of a label. */
const NO_SIGN = /^(none|tcp.?close\w*|~?hs( no error| ok)?|((dle.?eot|asb)[\s\d,+]*)+)$/i;
/** Printers that have several counters send them together; undefined where none of them is that of the labels. */
const labelsIn = (counters: Evidence["completion"]["before"]): unknown =>
  typeof counters === "object" ? (counters["total"] ?? counters["labels"] ?? undefined) : counters;

function completionFaults(completion: Evidence["completion"], { kind }: JobActor, isSound: IsSound): FieldFault[] {
  if (kind === "operator") return [];
  const { basis, grade } = completion;
  const faults: FieldFault[] = [];
  if (isSound("completion.grade") && !grades[grade].attests)
    faults.push(
      wrong("completion.grade", "grade", `${grade} is ${grades[grade].says}: a device attests from grade B on, else an operator does`),
    );
  if (isSound("completion.basis") && HEARSAY.test(basis))
    faults.push(wrong("completion.basis", "basis", `${basis} says that bytes were handed over, not that paper came out`));
  if (isSound("completion.basis") && NO_SIGN.test(basis))
    faults.push(wrong("completion.basis", "basis", `${basis} doesn't say that paper came out`));
  const readings = ["completion.before", "completion.after", "completion.voids"];
  return readings.every(isSound) ? [...faults, ...counterFaults(completion)] : faults;
}

function counterFaults({ before, after, voids = 0 }: Evidence["completion"]): FieldFault[] {
  const fault = (field: "before" | "after", message: string) => wrong(`completion.${field}`, "counter", message);
  if ((before === undefined) !== (after === undefined))
    return [fault(before === undefined ? "before" : "after", "is missing: a counter is read before and after")];
  const [from, to] = [labelsIn(before), labelsIn(after)];
  if (from === undefined && to === undefined) {
    const stoodStill = before !== undefined && isDeepStrictEqual(before, after);
    return stoodStill ? [fault("after", "stood still: what a printer counts moves with a label")] : [];
  }
  if (typeof from === "number" && typeof to === "number") {
    if (to - from === 1 + voids) return [];
    return [fault("after", `the counter moved by ${to - from}, and one label with ${voids} void ones explains ${1 + voids}`)];
  }
  // What can't be counted with can't be believed either: text, or labels that only one of the readings tells.
  const untold = (field: "before" | "after", labels: unknown) =>
    typeof labels === "number" ? [] : [fault(field, "must tell the labels as a number")];
  return [...untold("before", from), ...untold("after", to)];
}

/** The label's link to the GTIN and serial that a decoded text leads to, read as the resolver reads it. */
function namedBy(decoded: string, link: string): string | undefined {
  if (decoded === link) return link;
  if (!URL.canParse(decoded)) return undefined;
  const { origin, pathname, search } = new URL(decoded);
  if (!pathname.startsWith("/01/")) return undefined;
  try {
    linkTypeOf(search.slice(1)); // a query that names another serial, say, is refused
    const { gtin, serial } = keyOf(pathname);
    return serial === undefined ? undefined : digitalLink(origin, gtin, { serial });
  } catch {
    return undefined; // what the resolver can't read is no link of ours
  }
}

const mismatch = (message: string, details: Record<string, unknown>) => new Refusal("SCAN_MISMATCH", message, details);

function judgeScan({ decoded, rfid }: Evidence["scan_result"], { digitalLink: link, sgtin96Epc: due, needsTag }: Label): void {
  if (namedBy(decoded, link) !== link) throw mismatch(`the symbol says ${decoded}, the job ${link}`, { decoded, expected: link });
  if (!needsTag) return; // a roll may have tags that the job doesn't ask for, and a tenant no EPCs
  if (rfid?.epc.toUpperCase() !== due)
    throw mismatch(`the tag says ${rfid?.epc ?? "nothing"}, the job ${due}`, { epc: rfid?.epc ?? null, expected: due });
}

/** A list of orphans shows hundreds at once. */
export function refuseLarge(evidence: Sent | undefined): void {
  if (evidence && Buffer.byteLength(JSON.stringify(evidence)) > limits.EVIDENCE_MAX_BYTES)
    throw unfit([
      {
        field: "evidence",
        rule: "size",
        message: `is larger than ${limits.EVIDENCE_MAX_BYTES} bytes: pictures go to PUT /aidc/evidence/{sha256}`,
      },
    ]);
}

/** What is said of a stray label is shown as it was said, or refused. */
export function refuseMisread(evidence: Sent): void {
  const faults = misreadIn(evidence, "evidence");
  if (faults.length > 0) throw unfit(faults);
}

/** Refuses what doesn't prove the state; says whether any of it comes from a simulated device. `found`: what is wrong beside, told with the rest. */
export function judge(
  label: Label,
  { status, evidence }: Word,
  actor: JobActor,
  found: readonly FieldFault[] = [],
): { simulated: boolean } {
  refuseLarge(evidence);
  if (status === "FAILED") return { simulated: false };
  const shape = shapeFaults(status, evidence, actor);
  const isSound = soundIn(shape);
  const { render_manifest: render, completion, scan_result: scan } = (evidence ?? {}) as Partial<Evidence>;
  const faults = [
    ...shape,
    ...found.filter(({ field }) => !shape.some((fault) => fault.field === field)),
    ...(render ? manifestFaults(render, label, isSound) : []),
    ...(completion ? completionFaults(completion, actor, isSound) : []),
  ];
  if (faults.length > 0) throw unfit(faults.slice(0, limits.FAULTS_MAX_ITEMS));
  if (status === "PRINTED_ATTESTED" && actor.kind === "operator" && actor.id === undefined)
    throw missing("actor.id", "says which operator attests");
  if (scan) judgeScan(scan, label);
  return { simulated: isSimulated(evidence) };
}

/** The states whose words make up the bundle, in their order. */
export const bundlePath = jobPath.slice(jobPath.indexOf("RENDERED"), jobPath.indexOf("SEALED"));
