// What a print queue says of itself and of its jobs, in the words of this agent.
import { saying } from "#shared/sayings.ts";
import { readable } from "../words.ts";
import type { Fault, FaultName } from "./driver.ts";
import { type Attributes, firstOf, stringsOf, type Value } from "./ipp-codec.ts";

const JOB_STATES: Record<number, string> = {
  3: "pending",
  4: "pending-held",
  5: "processing",
  6: "processing-stopped",
  7: "canceled",
  8: "aborted",
  9: "completed",
};
const BEGUN = new Set(["processing", "processing-stopped", "completed"]);
const STOPPED = 5;
/** A queue that tries again by itself sends the whole label once more: two labels with one serial. One that stops does so when it is enabled. */
export const OWN_RETRIES = new Set(["retry-job", "retry-current-job"]);
export const FORMAT = "image/png";

const WORDS_MAX_LENGTH = 1_000; // they stand in the evidence, and that has an end

/** `wasProcessed`: false says that surely nothing of it went to the printer; undefined that it can't be told. */
export type Job = { id: number; name: string; state: string; words: string; wasProcessed: boolean | undefined };
/** What it says of having begun may be of no kind that means anything, and there is its state as well. */
export const hasBegun = ({ state, wasProcessed }: Job): boolean => wasProcessed === true || BEGUN.has(state);

export const retriesItself = (policy: string): string => saying("queue_retries", { policy });

export function jobOf(found: Attributes): Job {
  const reasons = stringsOf(found, "job-state-reasons").filter((reason) => reason !== "none");
  const messages = ["job-state-message", "job-printer-state-message"]
    .flatMap((name) => stringsOf(found, name))
    .filter((text) => text !== "");
  const said = readable([...reasons, ...new Set(messages)].join(", "), WORDS_MAX_LENGTH);
  return {
    id: firstOf(found, "job-id", "number") ?? 0,
    name: firstOf(found, "job-name", "string") ?? "",
    state: JOB_STATES[firstOf(found, "job-state", "number") ?? 0] ?? "of an unknown state",
    words: said === "" ? "" : ` (${said})`,
    wasProcessed: processedIn(found["time-at-processing"]?.[0], reasons),
  };
}

/** Only "no value" says that it hasn't begun; "unknown", another type than the standard's and a job that was stopped on its way don't. */
function processedIn(at: Value | undefined, reasons: string[]): boolean | undefined {
  if (at !== null) return typeof at === "number" ? true : undefined;
  return reasons.some((reason) => /^(processing-to-stop-point|job-printing|job-canceled-at-device)$/.test(reason)) ? undefined : false;
}

/** IPP's words for what stands in a printer's way, without their -error, -warning, -report. */
const REASONS: [RegExp, FaultName, string][] = [
  [/^media-(empty|needed)/, "media-out", saying("no_labels")],
  [/^media-jam/, "jam", saying("jammed_labels")],
  [/^(cover|door|interlock)-open/, "head-open", saying("is_open")],
  [/^(marker-supply|toner|ribbon)-(empty|missing)/, "ribbon-out", saying("no_ribbon")],
  [/^(paused|moving-to-paused|stopped|stopped-partly)/, "paused", saying("queue_paused")],
  [/^(offline|connecting-to-device|shutdown|timed-out)/, "offline", saying("queue_no_printer")],
];

/** CUPS' own: it is at work, as its printer or the queue behind it is, and takes that back at the job's end; and what it misses in a printer's IPP, which it never takes back. */
const AT_WORK = /^cups-(?:waiting-for-job-completed|remote-(?:pending|processing|canceled|aborted|completed))$/;
const MISSED = /^cups-ipp-/;

export function conditionOf(found: Attributes): { faults: Fault[]; warnings: string[] } {
  const said = stringsOf(found, "printer-state-reasons").filter((reason) => reason !== "none" && !AT_WORK.test(reason));
  const message = firstOf(found, "printer-state-message", "string");
  const faults: Fault[] = [];
  const warnings: string[] = [];
  for (const reason of said) {
    const [, name, words] = REASONS.find(([known]) => known.test(reason)) ?? [];
    if ((/-(warning|report)$/.test(reason) || MISSED.test(reason)) && name !== "paused" && name !== "media-out") warnings.push(reason);
    else faults.push(name && words ? { name, words } : { name: "other", words: reason });
  }
  if (firstOf(found, "printer-state", "number") === STOPPED && faults.length === 0)
    faults.push({ name: "paused", words: message ? saying("queue_stopped_why", { why: message }) : saying("queue_stopped") });
  if (firstOf(found, "printer-is-accepting-jobs", "boolean") === false) faults.push({ name: "paused", words: saying("queue_no_jobs") });
  const formats = stringsOf(found, "document-format-supported");
  if (formats.length > 0 && !formats.includes(FORMAT))
    faults.push({ name: "other", words: saying("queue_not_format", { format: FORMAT }) });
  const policy = firstOf(found, "printer-error-policy", "string");
  if (policy !== undefined && OWN_RETRIES.has(policy)) faults.push({ name: "other", words: retriesItself(policy) });
  if (policy === "stop-printer") warnings.push(saying("queue_stops"));
  return { faults, warnings };
}
