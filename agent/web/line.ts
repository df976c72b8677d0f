// The line: the label in hand, how far it is, and what comes next.
import { h, signal, useLayoutEffect, useRef } from "#shared/web/dom.ts";
import { jobPath, rankOf } from "#shared/states.ts";
import { Button, Fact, Name, shape, useRead } from "./parts.ts";
import { Question } from "./question.ts";
import { Side } from "./side.ts";
import { count, say, wordFor } from "./speech.ts";
import { type Done, endOf, isUrgent, type Job, type PrinterState, type State } from "./station.ts";

const picked = signal<string | undefined>(undefined);
export const pick = (attemptId: string): void => void (picked.value = attemptId);
const RANK = ["orphan", "printed", "closing", "sending", "sent", "rendered", "waiting"];
const rank = (job: Job) => (isUrgent(job) ? -1 : RANK.indexOf(job.stage));
/** What was asked first stays in hand: a question that comes up elsewhere doesn't take the place of the one that somebody looks into. */
const byNeed = (a: Job, b: Job) => rank(a) - rank(b) || (isUrgent(a) ? (a.ask?.since ?? "").localeCompare(b.ask?.since ?? "") : 0);
let held: string | undefined;
/** The one that a person picked, the one that they are asked about already, also where another question follows, or the one that needs a person most. */
function inHand(now: State): Job | undefined {
  const jobs = now.jobs.filter(({ stage }) => stage !== "sealing");
  const of = (id: string | undefined) => jobs.find(({ attempt_id }) => attempt_id === id);
  const before = of(held);
  const job = of(picked.value) ?? (before && isUrgent(before) ? before : jobs.toSorted(byNeed)[0]);
  held = job?.attempt_id;
  return job;
}

/** Scrolled, the page gets no shorter than to where one sees: what stands above would come down, and an answer under the finger that was meant for what is gone. */
function useLength() {
  const main = useRef<HTMLElement>(null);
  const was = useRef(0);
  useLayoutEffect(() => {
    const { current } = main;
    if (!current) return;
    current.style.minHeight = `${was.current}px`; // before anything asks where the page is scrolled to: by then it has come down
    const seen = innerHeight - current.getBoundingClientRect().top;
    current.style.minHeight = scrollY === 0 ? "" : `${Math.min(was.current, seen)}px`;
    was.current = current.offsetHeight;
  });
  return main;
}

export function Line({ now }: { now: State }) {
  const job = inHand(now);
  return h(
    "main",
    { class: "line", ref: useLength() },
    h("h1", { class: "hidden" }, say().line),
    h("div", { class: "work" }, job ? h(Work, { now, job }) : h(Idle, { now })),
    h(Side, { now }),
  );
}

function Work({ now, job }: { now: State; job: Job }) {
  const others = now.jobs.filter((one) => one !== job && (one.ask !== null || !["waiting", "rendered", "sealing"].includes(one.stage)));
  return [
    h(Hero, { now, job, key: job.attempt_id }),
    h(Strip, { job }),
    h(Question, { now, job }),
    others.length > 0 && h(Others, { others }),
    h(Next, { now, job }),
  ];
}

function Idle({ now }: { now: State }) {
  const last = now.jobs.find(({ stage }) => stage === "sealing") ?? now.recent[0];
  return [
    h(
      "div",
      { class: "nothing" },
      shape(now.paused || now.stopped !== null ? "warn" : "idle"),
      h(
        "div",
        null,
        h("p", { class: "headline" }, say().idle),
        (now.paused || now.stopped === null) && h("p", null, now.paused ? say().idlePaused : say().idleLong),
      ),
    ),
    last &&
      h("div", { class: "last" }, h("h2", null, say().lastOne), h(Hero, { now, job: last, key: last.attempt_id }), h(Strip, { job: last })),
  ];
}

// --- the label

function Hero({ now, job }: { now: State; job: Job }) {
  const words = say();
  const printer = now.printers.find(({ name }) => name === job.printer) ?? now.printers[0];
  return h(
    "div",
    { class: "hero" },
    printer && h(Picture, { job, printer }),
    h(
      "div",
      { class: "facts" },
      h(
        "dl",
        null,
        h(Fact, { name: words.serial, value: job.serial, code: true }),
        job.product !== null && h(Fact, { name: words.product, value: h(Name, { text: job.product }) }),
      ),
      h(
        "dl",
        { class: "small-facts" },
        h(Fact, { name: words.gtin, value: job.gtin, code: true }),
        job.printer !== null && h(Fact, { name: words.printer, value: job.printer }),
        h(Fact, { name: words.attempt, value: count(job.attempt) }),
      ),
      job.duplicate_risk && h("p", { class: "flag" }, shape("warn"), words.duplicate),
    ),
  );
}

const pictureOf = ({ job_ref: ref, attempt_id: id }: Job) =>
  `/api/jobs/${encodeURIComponent(ref)}/label.png?attempt_id=${encodeURIComponent(id)}`;

/** The label's own proportions, and what is drawn on it at its true size within them. */
function Picture({ job, printer }: { job: Job; printer: PrinterState }) {
  const { width_mm: wide, height_mm: high, dpi } = printer.label;
  const fit = ({ currentTarget }: Event) => {
    const img = currentTarget as HTMLImageElement;
    img.style.width = `${Math.min(100, (((img.naturalWidth / dpi) * 25.4) / wide) * 100)}%`;
  };
  return h(
    "figure",
    { class: "picture" },
    h(
      "div",
      { class: "paper", style: { "--proportion": wide / high } },
      h("img", { src: pictureOf(job), alt: say().labelOf(job.serial), onLoad: fit }),
    ),
    h("figcaption", null, say().size(count(wide), count(high)), printer.simulated && h("b", { class: "sim-tag" }, say().simulated)),
  );
}

/** How far it is; of one that ended otherwise than well, how it ended. */
function Strip({ job }: { job: Job | Done }) {
  const words = say();
  const end = "ended" in job ? endOf(job) : undefined;
  if (end !== undefined && end !== "sealed") return h("p", { class: "flag" }, shape("bad"), h("strong", null, wordFor(words.ended, end)));
  const at = rankOf(job.state);
  const isEnd = at === jobPath.length - 1;
  return h(
    "ol",
    { class: "strip", "aria-label": words.progress },
    jobPath.map((name, i) => {
      const how = i < at || isEnd ? "done" : i === at ? "now" : "open";
      const told = { done: words.stepDone, now: words.stepNow, open: words.stepOpen }[how];
      return h(
        "li",
        { key: name, class: how, "aria-current": i === at ? "step" : undefined, "data-state": name },
        h(
          "span",
          { class: "dot", "aria-hidden": "true" },
          how === "done" ? h("svg", { viewBox: "0 0 24 24" }, h("path", { d: "m5 12.5 4.6 4.6L19 7" })) : undefined,
        ),
        h("span", { class: "step" }, words.step[name]),
        h("span", { class: "hidden" }, ` (${told})`),
      );
    }),
  );
}

const Others = ({ others }: { others: Job[] }) =>
  h(
    "section",
    { class: "others", "aria-label": say().otherJobs },
    h("h2", null, say().otherJobs),
    others.map((job, i) => h(Other, { key: job.attempt_id, job, before: others.slice(0, i) })),
  );
/** As one goes, the next comes under the finger; those behind it move nothing. */
function Other({ job, before }: { job: Job; before: Job[] }) {
  const isRead = useRead(before.map(({ attempt_id: id }) => id).join());
  return h(Button, {
    title: job.serial,
    sub: job.ask ? say().needsYou : say().says[job.stage],
    tone: job.ask ? "warn" : "idle",
    disabled: !isRead,
    onPress: () => pick(job.attempt_id),
  });
}

const NEXT_SHOWN = 4;
function Next({ now, job }: { now: State; job: Job }) {
  const next = now.jobs.filter((one) => one !== job && one.ask === null && (one.stage === "waiting" || one.stage === "rendered"));
  if (next.length === 0) return undefined;
  const more = next.length - NEXT_SHOWN;
  return h(
    "p",
    { class: "next" },
    h("span", { class: "quiet" }, say().queueAhead),
    next.slice(0, NEXT_SHOWN).map(({ attempt_id, serial }) => h("span", { key: attempt_id, class: "code" }, serial)),
    more > 0 && h("span", null, `+${count(more)}`),
  );
}
