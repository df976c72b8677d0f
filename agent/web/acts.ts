// What a press of a button leads to: signed in first, confirmed where paper is destroyed, then said to the station, and its answer shown.
import { signal } from "#shared/web/dom.ts";
import { isKept, isScannedHere, isTold, notTold, QUIET, type Result, show } from "./results.ts";
import { isLink } from "./scanned.ts";
import { say } from "./speech.ts";
import { type Answer, api, here, isCut, type Job, type Label, type No, setHere, type State, state, type Verdict } from "./station.ts";
import { looksLikeLink } from "./wedge.ts";

/** Which button it was, and of what: of a label by its serial, of a printer by its name, of a refused word by its job. Whoever signs in sees it, who may be another than who pressed it. */
type Said = { title: string; serial: string };
/** What is meant by its serial, name or job. */
type About = Pick<Said, "serial">;
export type Sheet =
  | { kind: "sign-in"; act?: () => void; said?: Said | undefined }
  | ({ kind: "confirm"; words: string; which?: string | undefined; go(): void } & Said)
  | { kind: "explain"; label: Label };
export const sheet = signal<Sheet | undefined>(undefined);
export const pin = signal("");
/** In words, or as the station refused it. */
export const pinFault = signal<string | No | undefined>(undefined);
/** What the station hasn't answered to yet: of the same label, printer or job nothing more is said meanwhile. Of others it is: a test label or a reprint may take long. */
const busy = signal<readonly Said[]>([]);
/** Nothing can be said to the station now of this. */
export const isHeld = ({ serial }: About): boolean => isCut.value || busy.value.some((one) => one.serial === serial);
export const isWaiting = (): boolean => busy.value.length > 0;
/** On a slow line nobody would know which button it was, and whether it was pressed at all. */
export const isBeingSaid = (title: string, { serial }: About): boolean =>
  busy.value.some((one) => one.title === title && one.serial === serial);

/** So long a button that was pressed waits for a badge: whoever comes later hasn't looked at what it was about, and only signs in. */
const MEANT_MS = 60_000;
export function openSignIn(act?: () => void, said?: Said): void {
  pin.value = "";
  pinFault.value = undefined;
  const meant: Sheet = { kind: "sign-in", ...(act ? { act, said } : {}) };
  sheet.value = meant;
  setTimeout(() => {
    if (sheet.peek() === meant) sheet.value = { kind: "sign-in" };
  }, MEANT_MS);
}
export const closeSheet = (): void => void (sheet.value = undefined);
const signedIn = (act: () => void, said: Said): void => (here.peek() ? act() : openSignIn(act, said));
const confirmed = (question: Omit<Extract<Sheet, { kind: "confirm" }>, "kind">): void =>
  void (sheet.value = { kind: "confirm", ...question, go: () => (closeSheet(), question.go()) });

const name = () => here.peek()?.operator.name;
const noted = (colour: Result["colour"], serial?: string): Result => ({ colour, what: "noted", serial, by: name(), frame: true });
/** `serial`: of several things that were said this one. */
export const hindered = ({ status, message, code }: No, serial?: string): void =>
  show({ serial, ...(status === 0 ? { colour: "bad", what: "no_answer" } : { colour: "warn", what: "not_now", words: message, code }) });
const refused = (no: No, again: () => void, said: Said): void =>
  no.status === 401 ? openSignIn(again, said) : hindered(no, said.serial || undefined);
async function once(about: Said, act: () => Promise<Answer<unknown>>, done: Result | undefined, again: () => void): Promise<boolean> {
  if (busy.peek().some(({ serial }) => serial === about.serial)) return false;
  busy.value = [...busy.peek(), about];
  const said = await act();
  busy.value = busy.peek().filter((one) => one !== about);
  if (!said.ok) refused(said, again, about);
  else if (done) show(done);
  return said.ok;
}

// --- jobs

/** The same question as when the button was pressed: between then and the badge, things may have changed. */
const stillAsks = ({ attempt_id: id, ask }: Job): boolean =>
  state.peek()?.jobs.some((job) => job.attempt_id === id && job.ask?.kind === ask?.kind && job.ask?.since === ask?.since) ?? false;

/** `which`: of several labels of its serial. */
export function attest(job: Job, verdict: Verdict, title: string, which?: string): void {
  const about = { title, serial: job.serial };
  const go = () => {
    if (!stillAsks(job)) return show({ colour: "warn", what: "not_now", serial: job.serial });
    const isOver = verdict !== "good" && (job.ask === null || job.ask.kind === "attest" || job.ask.kind === "unknown_outcome");
    if (isOver) isTold(job.attempt_id);
    const done: Result = isOver ? { colour: "warn", what: "given_up", serial: job.serial, by: name() } : noted("good", job.serial);
    void once(about, () => api.attest(job, verdict), done, go).then((isDone) => isDone || notTold(job.attempt_id));
  };
  if (verdict === "good") return signedIn(go, about);
  const kind = job.ask?.kind === "destroy_void" ? "destroy_void" : verdict;
  signedIn(() => confirmed({ ...about, words: say().confirm[kind], which, go }), about);
}
export function skip(job: Job): void {
  const about = { title: say().skip, serial: job.serial };
  const go = () => {
    isTold(job.attempt_id);
    void once(about, () => api.skip(job.job_ref), noted("warn", job.serial), go).then((isDone) => isDone || notTold(job.attempt_id));
  };
  signedIn(() => confirmed({ ...about, words: say().confirm.skip, go }), about);
}
export function reprint(job: Pick<Job, "job_ref" | "serial">): void {
  const about = { title: say().reprint, serial: job.serial };
  const go = () => void once(about, () => api.reprint(job.job_ref), noted("warn", job.serial), go);
  signedIn(() => confirmed({ ...about, words: say().confirm.reprint, go }), about);
}
/** Of the station as a whole. */
export const PAUSE: Said = { title: "", serial: "" };
export const setPaused = (is: boolean): void =>
  void once(
    PAUSE,
    () => api.pause(is),
    undefined,
    () => setPaused(is),
  );

// --- labels and devices

export const ofLabel = ({ serial, printer }: Label): About => ({ serial: serial ?? printer });
export const openExplain = (label: Label): void =>
  signedIn(() => void (sheet.value = { kind: "explain", label }), { title: say().explain, ...ofLabel(label) });
/** The ledger is read by auditors of any language: it keeps the English words. */
export function explain(label: Label, words: string, title: string): void {
  closeSheet();
  void once(
    { title, ...ofLabel(label) },
    () => api.explain(label.n, words),
    noted("good"),
    () => explain(label, words, title),
  );
}
type RefusedWord = State["quarantine"][number];
export const ofRefused = ({ job_ref: ref, code }: RefusedWord): About => ({ serial: ref ?? code });
export function seenTo(row: RefusedWord): void {
  const about = { title: say().seenTo, ...ofRefused(row) };
  const go = () => void once(about, () => api.seenTo(row.n), noted("good"), go);
  signedIn(go, about);
}
export const tested = signal<Record<string, string | No | undefined>>({});
export function printTest(printer: string): void {
  const keep = (said: string | No | undefined) => void (tested.value = { ...tested.peek(), [printer]: said });
  const about = { title: say().testLabel, serial: printer };
  const go = () =>
    void once(
      about,
      async () => {
        keep(undefined); // what the one before came to isn't said of this one
        const said = await api.test(printer);
        keep(said.ok ? said.value.words : said);
        return said;
      },
      undefined,
      go,
    );
  signedIn(() => confirmed({ ...about, words: say().confirm.test, go }), about);
}

// --- who is here

function arrived(said: Extract<Awaited<ReturnType<typeof api.arrive>>, { ok: true }>): void {
  const isNew = said.value.operator.id !== here.peek()?.operator.id;
  setHere(said.value);
  const open = sheet.peek();
  if (isNew || open?.kind === "sign-in") closeSheet();
  if (open?.kind === "sign-in" && open.act) open.act();
  else show({ colour: "good", what: "signed_in", words: said.value.operator.name, frame: true });
}
export async function enterPin(): Promise<void> {
  const typed = pin.peek();
  pin.value = "";
  const said = await api.arrive({ pin: typed });
  if (said.ok) return arrived(said);
  const { result, pinsWait, wrongPin } = say();
  pinFault.value = { 0: result.no_answer, 400: wrongPin, 401: wrongPin, 429: pinsWait }[said.status] ?? said;
}

/** Whatever was scanned, wherever: a label's link goes to the job, anything else is a badge. An unknown badge stays unknown, and in no log. */
export async function scanned(text: string): Promise<void> {
  if (isLink(text)) return label(text);
  const said = await api.arrive({ badge: text });
  if (said.ok) return arrived(said);
  if (looksLikeLink(text)) return label(text);
  if (said.status !== 401) return hindered(said);
  show({ colour: "bad", what: "unknown_code", words: say().resultUnknown });
}
async function label(text: string): Promise<void> {
  const isNoScan = isScannedHere(text, name());
  let said = await api.scan(text);
  if (!said.ok && said.status === 401) {
    isScannedHere(text, undefined);
    said = await api.scan(text); // the session was over: the scan counts without a name
  }
  if (!said.ok) return hindered(said);
  const { moved, why, words } = said.value;
  if (moved) return; // what became of the label is told by the state itself
  const waits = isKept(why);
  if (!waits) isNoScan();
  const isCalm = waits || QUIET.has(why ?? "");
  show({
    colour: isCalm ? "warn" : "bad",
    what: waits ? "kept" : isCalm ? "not_now" : "wrong_label",
    why,
    words,
  });
}
