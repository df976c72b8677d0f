// The ledger: every label that this station's printers made, and those of which nobody has yet said what became of them.
import { h } from "#shared/web/dom.ts";
import { isBeingSaid, isHeld, ofLabel, ofRefused, openExplain, reprint, seenTo } from "./acts.ts";
import { pick } from "./line.ts";
import { Button, Name, Panel, Refused, Time, useRead, Which } from "./parts.ts";
import { count, say, wordFor } from "./speech.ts";
import { type Done, endOf, type Label, type State } from "./station.ts";

const COUNTED = ["sealed", "printed", "unknown", "void", "orphan", "unexplained", "destroyed", "not_printed", "explained"] as const;

export function Labels({ now }: { now: State }) {
  const words = say();
  const { counts, open } = now.ledger;
  const openStates = now.ledger.open_states as readonly string[];
  return h(
    "main",
    { class: "labels" },
    h("h1", null, words.ledger),
    h("p", { class: "lead" }, words.ledgerLong),
    h(
      "dl",
      { class: "figures" },
      COUNTED.map((name) =>
        h(
          "div",
          { key: name, class: `figure ${openStates.includes(name) && name !== "printed" && (counts[name] ?? 0) > 0 ? "warn" : ""}` },
          h("dt", null, words.count[name]),
          h("dd", null, h("b", null, count(counts[name] ?? 0))),
        ),
      ),
    ),
    now.quarantine.length > 0 && h(Quarantine, { all: now.quarantine }), // above what grows and shrinks with each label
    h(
      Panel,
      { title: words.openLabels },
      open.length === 0
        ? h("p", null, words.noOpenLabels)
        : h(
            "ul",
            { class: "rows" },
            open.map((row) => h(OpenLabel, { key: row.n, row, now })),
          ),
    ),
    h(
      Panel,
      { title: words.recent },
      now.recent.length === 0
        ? h("p", null, words.noRecent)
        : h(
            "ul",
            { class: "rows" },
            now.recent.map((job) => h(Recent, { key: job.attempt_id, job })),
          ),
    ),
  );
}

const isAtLine = ({ jobs }: State, row: Label): boolean => jobs.some(({ attempt_id }) => attempt_id === row.attempt_id);
/** Labels that no job at the line asks about any more: they are looked for because this page says so. */
export const leftOver = (now: State): number => now.ledger.open.filter((row) => !isAtLine(now, row)).length;

/** One whose job still asks is answered at the line; for the others a person says what they are. */
function OpenLabel({ row, now }: { row: Label; now: State }) {
  const words = say();
  return h(
    "li",
    null,
    h("div", null, h(Which, { label: row })),
    isAtLine(now, row)
      ? h("a", { class: "button plain", href: "#line", onClick: () => pick(row.attempt_id ?? "") }, h("strong", null, words.line))
      : h(Button, { title: words.explain, of: ofLabel(row).serial, disabled: isHeld(ofLabel(row)), onPress: () => openExplain(row) }),
  );
}

function Quarantine({ all }: { all: State["quarantine"] }) {
  const words = say();
  const isRead = useRead(all.map(({ n }) => n).join());
  return h(
    Panel,
    { title: words.quarantine },
    h("p", null, words.quarantineLong),
    h(
      "ul",
      { class: "rows" },
      all.map((row) => {
        const { n, job_ref: ref, code, message, at } = row;
        return h(
          "li",
          { key: n },
          h("div", null, h("strong", { class: "code" }, code), h("span", { class: "code" }, ref ?? ""), h(Refused, { code, message })),
          at !== null && h(Time, { at }),
          h(Button, {
            title: words.seenTo,
            of: ofRefused(row).serial,
            disabled: isHeld(ofRefused(row)) || !isRead,
            onPress: () => seenTo(row),
          }),
        );
      }),
    ),
  );
}

function Recent({ job }: { job: Done }) {
  const words = say();
  const end = endOf(job) ?? "";
  return h(
    "li",
    null,
    h(
      "div",
      null,
      h("strong", { class: "code" }, job.serial),
      h("span", null, wordFor(words.ended, end), job.ended_at !== null && [" · ", h(Time, { at: job.ended_at })]),
      job.product !== null && h("span", { class: "quiet" }, h(Name, { text: job.product })),
    ),
    end === "sealed" &&
      h(Button, {
        title: words.reprint,
        of: job.serial,
        disabled: isHeld(job),
        pressed: isBeingSaid(words.reprint, job),
        onPress: () => reprint(job),
      }),
  );
}
