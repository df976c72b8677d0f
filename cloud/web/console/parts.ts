// The small parts that every view is put together from.
import type { JobState } from "#shared/states.ts";
import { type Children, classes, h, icon, useSignal } from "#shared/web/dom.ts";
import { inWords, quoted, refusalInWords, sayingInWords } from "#shared/web/telling.ts";
import type { Answer, Refused } from "./api.ts";
import { language, moment, words } from "./language.ts";
import type { List, Page } from "./loading.ts";
import { now } from "./state.ts";

export type Tone = "calm" | "work" | "good" | "warn" | "bad";
/** Never by colour alone: each tone has a shape as well. */
const SHAPES: Record<Tone, string> = {
  calm: "M12 5a7 7 0 1 0 0 14a7 7 0 1 0 0-14",
  work: "M5 12h11M11 6l6 6-6 6",
  good: "M5 13l5 5L19 7",
  warn: "M12 4L21 19H3ZM12 10v4M12 16.5v.5",
  bad: "M6 6l12 12M18 6L6 18",
};
export const toneIcon = (tone: Tone) => icon(SHAPES[tone]);
export const Badge = ({ tone, text, title }: { tone: Tone; text: string; title?: string }) =>
  h("span", { class: `badge ${tone}`, title }, toneIcon(tone), text);

const STATE_TONES: Record<JobState, Tone> = {
  QUEUED: "calm",
  CLAIMED: "work",
  RENDERED: "work",
  SPOOL_SUBMITTED: "work",
  PRINTED_ATTESTED: "work",
  SCAN_VERIFIED: "work",
  SEALED: "good",
  FAILED: "warn",
  DEAD_LETTER: "bad",
  CANCELLED: "calm",
};
export const toneOf = (state: JobState): Tone => STATE_TONES[state];
export const StateBadge = ({ state }: { state: JobState }) =>
  h(Badge, { tone: toneOf(state), text: words().states[state], title: words().stateSays[state] });

export const Ago = ({ at }: { at: string | null }) =>
  at === null
    ? h("span", null, words().common.never)
    : h("time", { dateTime: at, title: moment(at) }, language.formats().ago(at, now.value));
export const Moment = ({ at }: { at: string }) => h("time", { dateTime: at }, moment(at));

type CardProps = { title?: string; aside?: Children; class?: string; children?: Children };
export const Card = ({ title, aside, class: more, children }: CardProps) =>
  h(
    "section",
    { class: classes("card", more) },
    title === undefined ? null : h("header", { class: "card-head" }, h("h2", null, title), aside),
    children,
  );

export const Empty = ({ text }: { text: string }) => h("p", { class: "empty" }, text);

/** Why the cloud didn't do it, in the reader's language; what isn't the cloud's own is quoted. */
export function Why({ refused }: { refused: Pick<Refused, "code" | "message"> }) {
  const { told, refusals } = words();
  const own = (refusals as Record<string, string>)[refused.code];
  const said = sayingInWords(told, refused.message) ?? own ?? refusalInWords(told, refused);
  if (said !== undefined) return h("span", null, said);
  return language.code() === "en" ? refused.message : h("span", null, refusals.OTHER, " ", quoted(refused.message));
}
/** A sentence of a station's, of the cloud's or of somebody else's. */
export const told = (text: string) => h("span", null, inWords(words().told, text));

/** What can't be shown, and why, instead of what would have been. */
export function Refusal({ refused, reload }: { refused: Refused; reload(): void }) {
  const { denied, deniedText, absent, absentText, failed, busy, retry } = words().common;
  if (refused.fault === "denied") return h("div", { class: "notice" }, h("strong", null, denied), h("p", null, deniedText));
  if (refused.fault === "absent") return h("div", { class: "notice" }, h("strong", null, absent), h("p", null, absentText));
  if (refused.fault === "busy") return h("div", { class: "notice", role: "status" }, h("p", null, busy));
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("strong", null, failed),
    h("p", null, h(Why, { refused })),
    h("button", { type: "button", onClick: reload }, retry),
  );
}

type Loaded<Data> = {
  data: { readonly value: Data | undefined };
  refused: { readonly value: Refused | undefined };
  reload(atOnce?: boolean): void;
};
/** What was loaded; what hinders it beside that, or instead of it. */
export function Shown<Data>({ loaded, children }: { loaded: Loaded<Data>; children: (data: Data) => Children }) {
  const { data, refused, reload } = loaded;
  const hindrance = refused.value && h(Refusal, { refused: refused.value, reload: () => reload(true) });
  if (data.value === undefined) return hindrance ?? h("p", { class: "empty", role: "status" }, words().common.loading);
  return [hindrance, children(data.value)];
}

type Column<Item> = { title: string; class?: string; cell(item: Item): Children };
type TableProps<Item> = {
  label: string;
  columns: readonly Column<Item>[];
  items: readonly Item[];
  keyOf(item: Item): string;
  empty: string;
};
/** A table that becomes a pile of cards where there is no room for columns. */
export function Table<Item>({ label, columns, items, keyOf, empty }: TableProps<Item>) {
  if (items.length === 0) return h(Empty, { text: empty });
  return h(
    "table",
    { "aria-label": label },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        columns.map(({ title, class: kind }) => h("th", { scope: "col", class: kind }, title)),
      ),
    ),
    h(
      "tbody",
      null,
      items.map((item) =>
        h(
          "tr",
          { key: keyOf(item) },
          columns.map(({ title, class: kind, cell }) => h("td", { class: kind, "data-title": title }, cell(item))),
        ),
      ),
    ),
  );
}

export function More<Item>({ list: { data, isGoing, more } }: { list: List<Item> }) {
  if (!data.value?.nextCursor) return null;
  const { common } = words();
  return h("button", { type: "button", class: "more", onClick: more }, isGoing.value ? common.loading : common.more);
}

/** A list as a table, a page at a time. */
export const Listed = <Item>({ list, ...table }: Omit<TableProps<Item>, "items"> & { list: List<Item> }) =>
  h(Shown<Page<Item>>, { loaded: list, children: ({ data }) => [h(Table<Item>, { ...table, items: data }), h(More<Item>, { list })] });

type FilterProps<Name extends string> = {
  at: string;
  by: string;
  label: string;
  chosen: string | undefined;
  names: readonly Name[];
  texts: Readonly<Record<Name, string>>;
};
/** A filter as links, to all and to each of these names: what is chosen is in the address. */
export function Filter<Name extends string>({ at, by, label, chosen = "", names, texts }: FilterProps<Name>) {
  const link = (href: string, name: string, text: string) =>
    h("a", { href, key: name, "aria-current": name === chosen ? "true" : undefined }, text);
  const links = names.map((name) => link(`${at}?${by}=${name}`, name, texts[name]));
  return h("nav", { class: "chips", "aria-label": label }, [link(at, "", words().common.all), ...links]);
}

type Fact = readonly [name: string, value: Children];
/** Names and values; what has no value isn't there. */
export const Facts = ({ facts }: { facts: readonly Fact[] }) =>
  h(
    "dl",
    { class: "facts" },
    facts
      .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
      .map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))),
  );

export const code = (text: string) => h("span", { class: "code" }, text);
/** What was typed into a form's one field. */
export function textIn({ currentTarget }: SubmitEvent): string {
  const text = new FormData(currentTarget as HTMLFormElement).get("text");
  return typeof text === "string" ? text.trim() : "";
}
/** A button that asks, once at a time; and what was answered. */
export function useAsking<Data>(ask: () => Promise<Answer<Data>>, text: string, goingText: string) {
  const answer = useSignal<Answer<Data> | undefined>(undefined);
  const going = useSignal(false);
  async function go(): Promise<void> {
    if (going.value) return;
    going.value = true;
    answer.value = await ask();
    going.value = false;
  }
  const attributes = { type: "button", class: "primary", "aria-disabled": going.value || undefined, onClick: () => void go() } as const;
  return { data: answer.value?.data, refused: answer.value?.refused, go, button: h("button", attributes, going.value ? goingText : text) };
}
/** Text of somebody else's: it runs its own way and turns nothing else around. */
export const theirs = (text: string) => h("bdi", null, text);
export const Title = ({ text, aside }: { text: string; aside?: Children }) =>
  h("div", { class: "title" }, h("h1", { tabIndex: -1 }, theirs(text)), aside);
