// Imports with their progress, and what was wrong with which line.
import { h } from "#shared/web/dom.ts";
import { limits } from "#shared/limits.ts";
import type { Import } from "#shared/wire/imports.ts";
import { count, words } from "../language.ts";
import { useList, useLoaded } from "../loading.ts";
import { Ago, Badge, Card, code, Facts, Listed, Moment, Shown, Table, Title, told, type Tone, Why } from "../parts.ts";

const TONES: Record<Import["status"], Tone> = { pending: "calm", running: "work", completed: "good", failed: "bad" };
const State = ({ of: { status } }: { of: Import }) => h(Badge, { tone: TONES[status], text: words().imports.status[status] });

const Progress = ({ of: { total, processed } }: { of: Import }) =>
  total === null
    ? h("span", null, words().imports.uncounted)
    : h(
        "span",
        { class: "progress" },
        h("progress", { max: Math.max(1, total), value: processed, "aria-label": words().imports.progress }),
        h("span", null, words().common.shown(count(processed), count(total))),
      );

function All() {
  const list = useList<Import>("/imports", ["import"]);
  const { imports, common } = words();
  const columns = [
    { title: common.state, cell: (item: Import) => h(State, { of: item }) },
    { title: common.name, class: "wide", cell: (item: Import) => h("a", { href: `#/imports/${item.id}` }, imports.file(item.category)) },
    { title: imports.progress, class: "wide", cell: (item: Import) => h(Progress, { of: item }) },
    { title: imports.created, cell: (item: Import) => count(item.created) },
    { title: imports.refused, cell: (item: Import) => count(item.failed) },
    { title: common.at, cell: (item: Import) => h(Ago, { at: item.createdAt }) },
  ];
  return h(Listed<Import>, { list, label: imports.title, columns, keyOf: ({ id }) => id, empty: imports.none });
}

type Fault = Import["errors"][number];
function One({ id }: { id: string }) {
  const loaded = useLoaded<Import>(`/imports/${encodeURIComponent(id)}`, ["import"]);
  const { imports, common } = words();
  const columns = [
    { title: imports.line, cell: ({ line }: Fault) => count(line) },
    { title: imports.column, cell: ({ column }: Fault) => column && code(column) },
    { title: imports.message, class: "wide", cell: (fault: Fault) => h(Why, { refused: fault }) },
  ];
  return h(Shown<Import>, {
    loaded,
    children: (item) => [
      h(
        Card,
        null,
        h(Facts, {
          facts: [
            [common.state, h(State, { of: item })],
            [imports.progress, h(Progress, { of: item })],
            [imports.created, count(item.created)],
            [imports.refused, count(item.failed)],
            [common.reason, item.fault && told(item.fault)],
            [common.at, h(Moment, { at: item.createdAt })],
          ],
        }),
      ),
      h(
        Card,
        { title: imports.errors },
        item.errors.length >= limits.IMPORT_ERRORS_MAX_ITEMS && h("p", { class: "quiet" }, common.onlyFirst),
        h(Table<Fault>, {
          label: imports.errors,
          columns,
          items: item.errors,
          keyOf: ({ line, column }) => `${line} ${column}`,
          empty: imports.noErrors,
        }),
      ),
    ],
  });
}

export const Imports = ({ id }: { id?: string }) => [
  h(Title, { text: words().imports.title, aside: id !== undefined && h("a", { href: "#/imports" }, words().common.all) }),
  id === undefined ? h(All, null) : h(One, { id }),
];
