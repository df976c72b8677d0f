// What has to be true of any print job, told from what was answered and what is on record. Pure, so that it can itself be tested with lies.
import { hasEnded, type JobState, jobPath, mayFollow } from "#shared/states.ts";

export type Moment = { from: JobState | null; to: JobState; attempt_id: string | null; attempt: number; actor: { kind: string } };
/** A report that was answered: which attempt said what, and whether it moved the job. */
export type Answered = { attempt_id: string; status: JobState; moved: boolean };
/** `print` is undefined where another job of the serial has the last word on it. */
export type Record = { history: Moment[]; answered: Answered[]; print: "printed" | "failed" | null | undefined };

const BEFORE_SEAL: readonly JobState[] = jobPath.slice(jobPath.indexOf("RENDERED"), jobPath.indexOf("SEALED"));

/** Every invariant that the record breaks, as a sentence. */
export function broken({ history, answered, print }: Record): string[] {
  const faults: string[] = [];
  const seen = new Set<string>();
  let latest: string | null = null;
  let attempt = 0;
  for (const [i, event] of history.entries()) {
    const before = history[i - 1];
    if ((before?.to ?? null) !== event.from) faults.push(`event ${i} begins in ${event.from}, and the one before ended in ${before?.to}`);
    if (event.from !== null && !mayFollow(event.from, event.to)) faults.push(`${event.to} can't follow ${event.from}`);
    if (before && hasEnded(before.to)) faults.push(`${event.to} comes after the end`);
    if (event.to === "CLAIMED") {
      if (event.attempt !== attempt + 1) faults.push(`attempt ${event.attempt} follows attempt ${attempt}`);
      if (event.attempt_id === null || seen.has(event.attempt_id)) faults.push("an attempt id is used twice");
      latest = event.attempt_id;
      attempt = event.attempt;
      seen.add(latest ?? "");
    } else if (event.attempt_id !== latest) faults.push(`${event.to} on the word of another attempt than the latest`);
    if (event.to === "PRINTED_ATTESTED" && !["device", "operator"].includes(event.actor.kind)) faults.push(`${event.actor.kind} attested`);
    if (event.to === "SEALED") {
      const stages = history.slice(0, i).filter((earlier) => earlier.attempt_id === event.attempt_id && BEFORE_SEAL.includes(earlier.to));
      if (stages.map(({ to }) => to).join() !== BEFORE_SEAL.join()) faults.push("sealed without every stage of one attempt");
    }
  }
  const said = (attemptId: string | null, status: JobState) => (moment: { attempt_id: string | null }) =>
    moment.attempt_id === attemptId && ("to" in moment ? moment.to : (moment as Answered).status) === status;
  for (const { attempt_id, status, moved } of answered)
    if (moved && history.filter(said(attempt_id, status)).length !== 1) faults.push(`${status} was answered and isn't on record once`);
  const reports = history.filter(({ to, actor }) => ["device", "operator"].includes(actor.kind) && to !== "CLAIMED");
  for (const { attempt_id, to } of reports)
    if (!answered.some((answer) => answer.moved && said(attempt_id, to)(answer)))
      faults.push(`${to} is on record and nobody was answered so`);
  const end = history.at(-1)?.to;
  const outcome = { SEALED: "printed", DEAD_LETTER: "failed" }[end as "SEALED"] ?? null;
  if (print !== undefined && print !== outcome) faults.push(`the job is ${end} and the serial ${print ?? "pending"}`);
  return faults;
}
