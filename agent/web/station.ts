// The station as the page knows it: its whole state as it comes, what is asked of it, and who is signed in here.
import { computed, signal } from "#shared/web/dom.ts";
import { inTab } from "#shared/web/kept.ts";
import { listenTo } from "#shared/web/live.ts";
import type { Operator } from "../operator.ts";
import type { ScanAnswer } from "../scans.ts";
import type { Faults } from "../simulator.ts";
import type { State } from "../state.ts";

export type { Faults } from "../simulator.ts";
export type { State } from "../state.ts";
export type Job = State["jobs"][number];
export type Done = State["recent"][number];
/** How a job ended, without the code of a refusal: a name in the table of words. */
export const endOf = ({ ended }: Pick<Done, "ended">): string | undefined => ended?.split(":")[0];
export type Label = State["ledger"]["open"][number];
export type PrinterState = State["printers"][number];
export type ScannerState = State["scanners"][number];
export type Verdict = Job["allowed"][number];

/** What the station answered that is no yes. `status` 0: it didn't answer. */
export type No = { ok: false; status: number; code: string; message: string };
export type Answer<T> = { ok: true; value: T } | No;

export const state = signal<State | undefined>(undefined);
/** The moment of the station's clock at which the state was made, by this page's clock. */
let skewMs = 0;
const tick = signal(Date.now());
setInterval(() => (tick.value = Date.now()), 1_000);
/** The station's time, whatever this screen's clock says. */
export const stationNow = (): number => tick.value + skewMs;

/** Nothing goes on, or paper lies about, until a person has answered. */
export const isUrgent = ({ ask, stage }: Job): boolean =>
  ask !== null && (ask.kind !== "destroy_earlier" || stage === "orphan" || stage === "printed");

/** Somebody has to see to it. */
export const isStuck = ({ status }: PrinterState): boolean => status === "blocked" || status === "offline";

type Listener = (next: State, before: State | undefined) => void;
const listeners: Listener[] = [];
export const onState = (listener: Listener): void => void listeners.push(listener);

function take(data: unknown): void {
  const next = data as State;
  const before = state.peek();
  skewMs = Date.parse(next.at ?? "") - Date.now();
  state.value = next;
  for (const listener of listeners) listener(next, before);
}
const live = listenTo("/api/events", { opened: () => {}, refused: () => {}, ended: () => {}, events: { state: take } });
export const begin = (): void => live.start();
/** The page and the station have lost each other; before the first word nothing is lost yet. */
export const isCut = computed(() => state.value !== undefined && live.state.value === "waiting");

// --- who is here

const KEPT = "operator";
type Here = { operator: Operator; session: string };
const kept = inTab.getItem(KEPT);
export const here = signal<Here | undefined>(kept === null ? undefined : (JSON.parse(kept) as Here));
export function setHere(who: Here | undefined): void {
  here.value = who;
  if (who) inTab.setItem(KEPT, JSON.stringify(who));
  else inTab.removeItem(KEPT);
}

// --- calls

const ANSWER_MAX_MS = 15_000;
async function call<T>(method: "GET" | "POST", path: string, body?: object): Promise<Answer<T>> {
  try {
    const response = await fetch(path, {
      method,
      signal: AbortSignal.timeout(ANSWER_MAX_MS),
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    const said = (await response.json()) as T & { error?: { code: string; message: string } };
    if (response.ok) return { ok: true, value: said };
    return { ok: false, status: response.status, code: said.error?.code ?? "", message: said.error?.message ?? "" };
  } catch (error) {
    return { ok: false, status: 0, code: "NO_ANSWER", message: (error as Error).message };
  }
}
/** In the name of whoever is signed in; a session that is over ends here too. */
async function signed<T>(path: string, body: object = {}): Promise<Answer<T>> {
  const session = here.peek()?.session;
  const said = await call<T>("POST", path, { ...body, ...(session === undefined ? {} : { session }) });
  if (!said.ok && said.status === 401) setHere(undefined);
  return said;
}
const part = encodeURIComponent;
export const api = {
  arrive: (shown: { badge: string } | { pin: string }) => call<Here>("POST", "/api/operator", shown),
  attest: ({ job_ref: ref, attempt_id, ask }: Job, verdict: Verdict) =>
    signed<object>(`/api/jobs/${part(ref)}/attest`, { verdict, attempt_id, since: ask?.since ?? null }),
  scan: (text: string) => signed<ScanAnswer>("/api/scan", { text }),
  skip: (ref: string) => signed<object>(`/api/jobs/${part(ref)}/skip`),
  reprint: (ref: string) => signed<{ job_ref: string }>(`/api/jobs/${part(ref)}/reprint`),
  seenTo: (n: number) => signed<object>(`/api/quarantine/${n}/seen`),
  explain: (n: number, words: string) => signed<object>(`/api/labels/${n}/explain`, { words }),
  pause: (is: boolean) => call<object>("POST", is ? "/api/pause" : "/api/resume"),
  test: (printer: string) => signed<{ words: string }>(`/api/printers/${part(printer)}/test`),
  faults: (printer: string) => call<Faults>("GET", `/api/printers/${part(printer)}/simulator`),
  setFault: (printer: string, fault: string, on: boolean) =>
    call<Faults>("POST", `/api/printers/${part(printer)}/simulator`, { fault, on }),
};
