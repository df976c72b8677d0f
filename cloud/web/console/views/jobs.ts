// Print jobs, newest first: by state, or the one whose serial or reference somebody holds in their hand.
import { jobStateNames } from "#shared/states.ts";
import { h, useSignal } from "#shared/web/dom.ts";
import type { Job } from "#shared/wire/jobs.ts";
import { get, type Refused } from "../api.ts";
import { count, words } from "../language.ts";
import { type Page, useList } from "../loading.ts";
import { Ago, code, Filter, Listed, StateBadge, textIn, theirs, Title, told, Why } from "../parts.ts";
import { goTo, place } from "../state.ts";

/** A scanned link counts as well, with whatever the scanner says before it: its last part is the serial. */
const typed = (text: string): string => text.replace(/^(?:\][A-Za-z]\d)?https?:\/\/.*\/21\/([^/?#]*).*$/i, "$1");

function Find() {
  const said = useSignal<Refused | "none" | undefined>(undefined);
  const { jobs, common } = words();
  async function find(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const text = typed(textIn(event));
    if (text === "") return;
    if (text.startsWith("pj_")) return goTo(`/jobs/${encodeURIComponent(text)}`);
    const from = place.value;
    said.value = undefined; // of what was looked for before
    const { data, refused } = await get<Page<Job>>(`/aidc/jobs?limit=1&serial=${encodeURIComponent(text)}`);
    const ref = data?.data[0]?.job_ref;
    said.value = refused ?? (ref === undefined ? "none" : undefined);
    if (ref !== undefined && place.value === from) goTo(`/jobs/${encodeURIComponent(ref)}`);
  }
  return h(
    "form",
    { class: "find", role: "search", onSubmit: (event: SubmitEvent) => void find(event) },
    h("input", { name: "text", type: "search", "aria-label": jobs.find, placeholder: jobs.find, maxLength: 300 }),
    h("button", { type: "submit" }, common.search),
    h("span", { role: "status" }, said.value === "none" ? jobs.notFound : said.value && h(Why, { refused: said.value })),
  );
}

export function Jobs() {
  const { jobs, common, states } = words();
  const state = jobStateNames.find((name) => name === place.value.query.get("state"));
  const list = useList<Job>(`/aidc/jobs${state === undefined ? "" : `?state=${state}`}`, ["print"]);
  const columns = [
    { title: common.state, cell: (job: Job) => h(StateBadge, { state: job.state }) },
    { title: jobs.serial, class: "whole", cell: (job: Job) => h("a", { href: `#/jobs/${job.job_ref}`, class: "code" }, job.serial) },
    { title: jobs.gtin, class: "whole", cell: (job: Job) => code(job.gtin) },
    { title: jobs.station, cell: (job: Job) => theirs(job.station ?? common.any) },
    { title: jobs.attempt, cell: (job: Job) => jobs.of(count(job.attempt), count(job.max_attempts)) },
    { title: common.reason, class: "wide", cell: (job: Job) => job.reason && told(job.reason) },
    { title: jobs.changed, cell: (job: Job) => h(Ago, { at: job.updated_at }) },
  ];
  return [
    h(Title, { text: jobs.title, aside: h(Find, null) }),
    h(Filter, { at: "#/jobs", by: "state", label: jobs.filter, chosen: state, names: jobStateNames, texts: states }),
    h(Listed<Job>, {
      list,
      label: jobs.title,
      columns,
      keyOf: ({ job_ref: ref }) => ref,
      empty: state === undefined ? jobs.none : jobs.noneSuch,
    }),
  ];
}
