// What somebody has to do something about: what waits where, what wasn't printed, and labels that must not exist.
import { h } from "#shared/web/dom.ts";
import type { Summary } from "#shared/wire/console.ts";
import type { Job, Orphan } from "#shared/wire/jobs.ts";
import { words } from "../language.ts";
import { type Page, useList } from "../loading.ts";
import { Ago, Card, code, More, Shown, Table, Title, told } from "../parts.ts";
import { DeadLetters } from "./dead-letters.ts";
import { useSummary, Waiting } from "./overview.ts";

// The API can't be asked for these alone: newer ones that failed before paper must not hide them.
const FAILED_ITEMS = 200;
const FAILED_PAGES = 5;

function Orphans() {
  const list = useList<Orphan>("/aidc/orphans", ["print"]);
  const { attention, jobs } = words();
  const columns = [
    { title: jobs.serial, cell: (orphan: Orphan) => h("a", { href: `#/jobs/${orphan.job_ref}`, class: "code" }, orphan.serial) },
    { title: jobs.gtin, cell: (orphan: Orphan) => code(orphan.gtin) },
    { title: jobs.changed, cell: (orphan: Orphan) => h(Ago, { at: orphan.created_at }) },
  ];
  return h(Shown<Page<Orphan>>, {
    loaded: list,
    children: ({ data }) => [
      data.length > 0 && h("p", null, attention.orphansText),
      h(Table<Orphan>, { label: attention.orphans, columns, items: data, keyOf: ({ id }) => id, empty: attention.noOrphans }),
      h(More<Orphan>, { list }),
    ],
  });
}

/** Failed attempts after which a label may lie about: the next try will ask for it. */
function Risky() {
  const list = useList<Job>(`/aidc/jobs?state=FAILED&limit=${FAILED_ITEMS}`, ["print"], FAILED_PAGES);
  const { attention, jobs, common } = words();
  const risky = list.data.value?.data.filter(({ duplicate_risk: risk }) => risk) ?? [];
  const columns = [
    { title: jobs.serial, cell: (job: Job) => h("a", { href: `#/jobs/${job.job_ref}`, class: "code" }, job.serial) },
    { title: common.reason, class: "wide", cell: (job: Job) => (job.reason === null ? common.unknown : told(job.reason)) },
    { title: jobs.changed, cell: (job: Job) => h(Ago, { at: job.updated_at }) },
  ];
  if (risky.length === 0) return null;
  return h(
    Card,
    { title: attention.risky },
    h(Table<Job>, { label: attention.risky, columns, items: risky, keyOf: ({ job_ref: ref }) => ref, empty: "" }),
    h(More<Job>, { list }),
  );
}

export function Attention() {
  const { attention } = words();
  const loaded = useSummary();
  return [
    h(Title, { text: attention.title }),
    h(Card, { title: attention.dead }, h("p", { class: "quiet" }, attention.deadText), h(DeadLetters, null)),
    h(Card, { title: attention.orphans }, h(Orphans, null)),
    h(Risky, null),
    h(Shown<Summary>, { loaded, children: (of) => h(Waiting, { of, most: 50 }) }),
  ];
}
