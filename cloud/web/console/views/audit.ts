// The audit log, newest first, and the check of its chain by the cloud that keeps it.
import { type AuditAction, auditClasses } from "#shared/audit.ts";
import { h } from "#shared/web/dom.ts";
import type { AuditRow, AuditVerdict } from "#shared/wire/audit.ts";
import { get } from "../api.ts";
import { count, words } from "../language.ts";
import { useList } from "../loading.ts";
import { code, Filter, Listed, Moment, Refusal, theirs, Title, told, toneIcon, useAsking } from "../parts.ts";
import { place } from "../state.ts";

function Chain() {
  const { audit } = words();
  const { data, refused, go, button } = useAsking(() => get<AuditVerdict>("/audit-logs/verify"), audit.check, audit.checking);
  const tone = data?.valid ? "good" : "bad";
  return h(
    "div",
    { class: "chain" },
    button,
    h(
      "div",
      { role: "status" },
      refused && h(Refusal, { refused, reload: () => void go() }),
      data &&
        h(
          "p",
          { class: `verdict ${tone}` },
          toneIcon(tone),
          h("strong", null, data.valid ? audit.holds(count(data.rows)) : audit.broken(count(data.firstBroken?.seq ?? 0))),
          data.firstBroken && [" ", told(data.firstBroken.fault)],
        ),
    ),
  );
}

export function Audit() {
  const chosen = auditClasses.find((name) => name === place.value.query.get("class"));
  const list = useList<AuditRow>(`/audit-logs${chosen === undefined ? "" : `?class=${chosen}`}`, ["audit"]);
  const { audit, common } = words();
  const columns = [
    { title: audit.row, cell: (row: AuditRow) => count(row.seq) },
    { title: common.at, cell: (row: AuditRow) => h(Moment, { at: row.at }) },
    {
      title: audit.action,
      class: "wide",
      cell: ({ action }: AuditRow) =>
        h("div", null, audit.actions[action as AuditAction] ?? code(action), h("p", null, h("small", null, code(action)))),
    },
    { title: audit.who, cell: (row: AuditRow) => theirs(row.actor.name) },
    { title: audit.subject, class: "wide", cell: (row: AuditRow) => row.subject && code(row.subject) },
    {
      title: common.details,
      class: "wide",
      cell: (row: AuditRow) =>
        Object.keys(row.details).length > 0 &&
        h("details", null, h("summary", null, common.open), h("pre", { tabIndex: 0 }, JSON.stringify(row.details, null, 2))),
    },
  ];
  return [
    h(Title, { text: audit.title, aside: h(Chain, null) }),
    h(Filter, { at: "#/audit", by: "class", label: audit.filter, chosen, names: auditClasses, texts: audit.classes }),
    h(Listed<AuditRow>, { list, label: audit.title, columns, keyOf: ({ seq }) => String(seq), empty: audit.none }),
  ];
}
