// What became of a label, told once, unmistakably: the whole screen in a colour with its shape, its word and its sound.
import { signal } from "#shared/web/dom.ts";
import { sound } from "./sound.ts";
import { endOf, isStuck, isUrgent, type Job, onState, type State, state } from "./station.ts";

export type Colour = "good" | "bad" | "warn";
export type Result = {
  colour: Colour;
  /** A name in the table of words. */
  what:
    | "sealed"
    | "verified"
    | "wrong_label"
    | "unknown_code"
    | "kept"
    | "given_up"
    | "went_on"
    | "refused"
    | "signed_in"
    | "no_answer"
    | "noted"
    | "not_now";
  serial?: string | undefined;
  /** A reason that the table of words may know, and the station's own sentence. */
  why?: string | null;
  words?: string | undefined;
  /** Of a refusal. */
  code?: string;
  by?: string | undefined;
  /** Only its edge: labels are coming out faster than anybody could look through a full screen. */
  frame?: boolean;
};

export const result = signal<Result | undefined>(undefined);
const STAYS_MS: Record<Colour, number> = { good: 1_400, warn: 5_000, bad: Number.POSITIVE_INFINITY };
const FAST_MS = 4_000;
let goodAt = -Infinity;
let ends: ReturnType<typeof setTimeout> | undefined;

/**
 * A red result stays until somebody has seen it: no sign-in and nothing that was noted takes its place, and where it is about a label nothing else does that is
 * about another, but for a red of that one. One about a badge, or about a station that didn't answer, gives way to whatever comes.
 */
function isToBeSeen(red: Result | undefined, next: Result): boolean {
  const isOfNone = ({ what }: Result) => what === "unknown_code" || what === "no_answer";
  if (red?.colour !== "bad" || isOfNone(red)) return false;
  const isOfOther = red.serial !== undefined && red.serial !== next.serial;
  return next.what === "signed_in" || next.what === "noted" || (isOfOther && (next.colour !== "bad" || isOfNone(next)));
}

export function show(next: Result): void {
  if (isToBeSeen(result.peek(), next)) return sound(next.colour);
  const isLabel = next.colour === "good" && !next.frame;
  const isFast = isLabel && performance.now() - goodAt < FAST_MS;
  if (isLabel) goodAt = performance.now();
  clearTimeout(ends);
  result.value = isFast ? { ...next, frame: true } : next;
  sound(next.colour);
  const stays = STAYS_MS[next.colour];
  if (Number.isFinite(stays)) ends = setTimeout(hide, stays);
}
export function hide(): void {
  clearTimeout(ends);
  result.value = undefined;
}

// --- what the station's news mean

/** Attempts that somebody gave up at this page, and was told so. */
const given = new Set<string>();
export const isTold = (attemptId: string): void => void given.add(attemptId);
/** The station didn't do it. */
export const notTold = (attemptId: string): void => void given.delete(attemptId);

/** What was scanned at this page, and by whom, until it is told: other labels somebody else scanned, or a scanner of the line's. */
const scannedHere = new Map<string, string | undefined>();
const SCANNED_KEPT = 50;
/** What it returns takes that back, where it moved nothing: a label that was scanned twice keeps the name of the first time. */
export function isScannedHere(text: string, by: string | undefined): () => void {
  const [isAgain, before] = [scannedHere.has(text), scannedHere.get(text)];
  scannedHere.set(text, by);
  for (const oldest of [...scannedHere.keys()].slice(0, -SCANNED_KEPT)) scannedHere.delete(oldest);
  return () => {
    if (isAgain && scannedHere.has(text)) scannedHere.set(text, before);
    else scannedHere.delete(text);
  };
}
/** Once: a reprint of it may be scanned by somebody else. */
function scannerOf({ digital_link: link }: Job): string | undefined {
  const [text, by] = [...scannedHere].find(([said]) => said.trimEnd().endsWith(link)) ?? [];
  if (text !== undefined) scannedHere.delete(text);
  return by;
}
/** What another scan of the same label, or a camera that still sees it, says. */
export const QUIET = new Set(["repeated", "not_sealed", "unexpected", "not_text"]);
/** It would count, but for one thing. */
export const isKept = (why: string | null): boolean => why === "kept" || why === "tag" || why === "no_line_end";

function ended(next: State, before: State): void {
  const known = new Set(before.recent.map(({ attempt_id, ended }) => `${attempt_id} ${ended}`));
  const fresh = next.recent.filter((one) => !known.has(`${one.attempt_id} ${one.ended}`) && isSince(one.ended_at, before));
  for (const one of fresh.toReversed()) {
    const { attempt_id: id, serial, ended } = one;
    const isGivenUp = ended === "failed" || ended === "let go";
    const isSealed = ended === "sealed" && !verified.delete(id) && isJustNow(one.ended_at, next);
    if (isSealed) show({ colour: "good", what: "sealed", serial, by: scannerOf(one) });
    else if (isGivenUp && !given.has(id)) show({ colour: "warn", what: "given_up", serial });
    else if (ended === "stale") show({ colour: "warn", what: "went_on", serial });
    else if (endOf(one) === "quarantined") show({ colour: "bad", what: "refused", serial, words: ended ?? "" });
  }
  const orphans = new Set(before.jobs.flatMap(({ attempt_id, stage }) => (stage === "orphan" ? attempt_id : [])));
  for (const { attempt_id: id, serial, stage } of next.jobs)
    if (stage === "orphan" && !orphans.has(id)) show({ colour: "bad", what: "went_on", serial });
}
const isSince = (at: string | null, { at: then }: State): boolean => (at ?? "") >= (then ?? "");
const NOW_MS = 10_000;
/** A page that was asleep, or had lost its station: green for a label of an hour ago would be taken for the one in hand. */
const isJustNow = (at: string | null, { at: now }: State): boolean => Date.parse(now ?? "") - Date.parse(at ?? "") < NOW_MS;

/** Scanned before this page's eyes: only the cloud's word makes it sealed, and nobody waits for that long. */
const unheard = new Map<string, number>();
/** Attempts of which was told that they are well as far as the station knows. */
const verified = new Set<string>();
const HEARD_MS = 2_000;
const TICK_MS = 50; // timers and clocks aren't of one mind

function waits(next: State, before: State): void {
  const sealing = next.jobs.filter(({ stage }) => stage === "sealing");
  const known = new Set(before.jobs.flatMap(({ attempt_id, stage }) => (stage === "sealing" ? attempt_id : [])));
  for (const { attempt_id: id, updated_at } of sealing)
    if (!known.has(id) && isSince(updated_at, before)) {
      if (!isJustNow(updated_at, next)) {
        verified.add(id);
        continue;
      }
      unheard.set(id, performance.now());
      setTimeout(() => waits(state.peek() ?? next, state.peek() ?? next), HEARD_MS + TICK_MS);
    }
  for (const [id, at] of unheard) {
    const job = sealing.find(({ attempt_id }) => attempt_id === id);
    if (job && next.online && performance.now() - at < HEARD_MS) continue;
    unheard.delete(id);
    if (!job) continue;
    verified.add(id);
    show({ colour: "good", what: "verified", serial: job.serial, by: scannerOf(job) });
  }
}
function scanned(next: State, before: State): void {
  for (const [i, { last }] of next.scanners.entries()) {
    const earlier = before.scanners[i]?.last;
    if (!last || last.moved || last.n === earlier?.n || last.why === null || QUIET.has(last.why)) continue;
    const waits = isKept(last.why);
    show({ colour: waits ? "warn" : "bad", what: waits ? "kept" : "wrong_label", why: last.why, words: last.words });
  }
}
/** A question that has just come up is heard, too: nobody looks at a screen all day. */
function asked(next: State, before: State): void {
  const questions = (of: State) =>
    new Set(of.jobs.flatMap((job) => (isUrgent(job) && job.stage !== "orphan" ? `${job.attempt_id} ${job.ask?.kind}` : []))); // orphans are shown
  const known = questions(before);
  const stuck = (of: State) => new Set(of.printers.filter(isStuck).map(({ name }) => name));
  const knownStuck = stuck(before);
  if ([...questions(next)].some((one) => !known.has(one)) || [...stuck(next)].some((one) => !knownStuck.has(one))) sound("warn");
}

onState((next, before) => {
  if (!before) return;
  asked(next, before);
  scanned(next, before);
  waits(next, before);
  ended(next, before);
});
