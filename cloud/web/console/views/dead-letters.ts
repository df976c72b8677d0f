// Jobs that ended badly, with the reason, and whether a label may lie about all the same; each leads to its job, and its product's re-print file is one click away.
import { h } from "#shared/web/dom.ts";
import type { Job } from "#shared/wire/jobs.ts";
import { addressOf } from "../api.ts";
import { words } from "../language.ts";
import { type Page, useList } from "../loading.ts";
import { Ago, Badge, code, More, Shown, Table, theirs, told } from "../parts.ts";
import { may } from "../state.ts";

export const mayExport = () => may("production:view") || may("identifiers:read");
export const exportOf = (productId: string, printState: string) =>
  addressOf(`/carriers/export?productId=${productId}&printState=${printState}`);

/** One file for each product that stands in the list. */
function Files({ jobs }: { jobs: readonly Job[] }) {
  if (!mayExport() || jobs.length === 0) return null;
  const products = new Map(jobs.map(({ product_id: id, gtin }) => [id, gtin]));
  const { reprint, reprintOf } = words().attention;
  return h(
    "p",
    { class: "actions" },
    [...products].map(([id, gtin]) =>
      h("a", { class: "button", key: id, href: exportOf(id, "failed"), download: "" }, products.size === 1 ? reprint : reprintOf(gtin)),
    ),
  );
}

const reasonOf = ({ reason, duplicate_risk: risk }: Job) =>
  h(
    "div",
    null,
    reason === null ? words().common.unknown : told(reason),
    risk && h("p", null, h(Badge, { tone: "warn", text: words().attention.mayExist })),
  );

export function DeadLetters({ most = 50 }: { most?: number }) {
  const list = useList<Job>(`/aidc/jobs?state=DEAD_LETTER&limit=${most}`, ["print"]);
  const { jobs, common, overview } = words();
  const columns = [
    { title: jobs.serial, class: "whole", cell: (job: Job) => h("a", { href: `#/jobs/${job.job_ref}`, class: "code" }, job.serial) },
    { title: jobs.gtin, class: "whole", cell: (job: Job) => code(job.gtin) },
    { title: common.reason, class: "wide", cell: reasonOf },
    { title: jobs.station, cell: (job: Job) => theirs(job.station ?? common.any) },
    { title: jobs.changed, cell: (job: Job) => h(Ago, { at: job.updated_at }) },
  ];
  return h(Shown<Page<Job>>, {
    loaded: list,
    children: ({ data }) => [
      h(Files, { jobs: data }),
      h(Table<Job>, { label: overview.dead, columns, items: data, keyOf: ({ job_ref: ref }) => ref, empty: overview.noDead }),
      most < 50 ? null : h(More<Job>, { list }),
    ],
  });
}
