// What became of a label, told once, unmistakably: the whole screen in a colour with its shape, its word and its sound.
import { signal } from "#shared/web/dom.ts";
import { sound } from "./sound.ts";
import { here, onState, type State } from "./station.ts";

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
  by?: string | undefined;
  /** Only its edge: labels are coming out faster than anybody could look through a full screen. */
  frame?: boolean;
};

export const result = signal<Result | undefined>(undefined);
const STAYS_MS: Record<Colour, number> = { good: 1_400, warn: 5_000, bad: Number.POSITIVE_INFINITY };
const FAST_MS = 4_000;
let goodAt = -Infinity;
let ends: ReturnType<typeof setTimeout> | undefined;

export function show(next: Result): void {
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

/** Attempts whose end was told, or was this page's own doing. */
const told = new Set<string>();
export const isTold = (attemptId: string): void => void told.add(attemptId);
/** What another scan of the same label, or a camera that still sees it, says. */
const QUIET = new Set(["repeated", "unexpected", "not_text"]);

function ended(next: State, before: State): void {
  const open = new Set(next.jobs.map(({ attempt_id }) => attempt_id));
  const gone = before.jobs.filter(({ attempt_id }) => !open.has(attempt_id));
  const known = new Set([...before.jobs, ...before.recent].map(({ attempt_id }) => attempt_id));
  const swift = next.recent.filter(({ attempt_id, ended }) => !known.has(attempt_id) && ended === "sealed");
  for (const { attempt_id: id, serial } of [...gone, ...swift]) {
    if (told.has(id)) continue;
    told.add(id);
    const end = next.recent.find(({ attempt_id }) => attempt_id === id);
    if (!end || end.ended === "sealed")
      show({ colour: "good", what: next.online ? "sealed" : "verified", serial, by: here.peek()?.operator.name });
    else if (end.ended === "failed" || end.ended === "let go") show({ colour: "warn", what: "given_up", serial });
    else if (end.ended === "stale") show({ colour: "warn", what: "went_on", serial });
    else if (end.ended?.startsWith("quarantined")) show({ colour: "bad", what: "refused", serial, words: end.ended });
  }
}
function scanned(next: State, before: State): void {
  for (const [i, { last }] of next.scanners.entries()) {
    const earlier = before.scanners[i]?.last;
    if (!last || last.moved || last.n === earlier?.n || last.why === null || QUIET.has(last.why)) continue;
    const waits = last.why === "kept" || last.why === "tag";
    show({ colour: waits ? "warn" : "bad", what: waits ? "kept" : "wrong_label", why: last.why, words: last.words });
  }
}
/** A question that has just come up is heard, too: nobody looks at a screen all day. */
function asked(next: State, before: State): void {
  const questions = (of: State) =>
    new Set(of.jobs.flatMap(({ attempt_id, ask }) => (ask && ask.kind !== "destroy_earlier" ? `${attempt_id} ${ask.kind}` : [])));
  const known = questions(before);
  const stuck = (of: State) =>
    new Set(of.printers.filter(({ status }) => status === "blocked" || status === "offline").map(({ name }) => name));
  const knownStuck = stuck(before);
  if ([...questions(next)].some((one) => !known.has(one)) || [...stuck(next)].some((one) => !knownStuck.has(one))) sound("warn");
}

onState((next, before) => {
  if (!before) return;
  asked(next, before);
  scanned(next, before);
  ended(next, before);
});
