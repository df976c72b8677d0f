// The frame of every view: which station, whether it is real, whether the cloud is there, who is signed in, in which language, and with or without sound.
import { classes, h, signal } from "#shared/web/dom.ts";
import { isOld, renew } from "#shared/web/upgrade.ts";
import { closeSheet, openSignIn, sheet } from "./acts.ts";
import { Labels, leftOver } from "./labels.ts";
import { Line } from "./line.ts";
import { Button, Name, shape, Theirs, useRead } from "./parts.ts";
import { Outcome, Sheets } from "./sheets.ts";
import { muted, setMuted } from "./sound.ts";
import { age, choose, count, language, languages, say } from "./speech.ts";
import { here, isCut, type State, state } from "./station.ts";
import { Upkeep } from "./upkeep.ts";

const views = { line: Line, labels: Labels, upkeep: Upkeep } as const;
type ViewName = keyof typeof views;
const named = (hash: string): ViewName => (Object.hasOwn(views, hash.slice(1)) ? (hash.slice(1) as ViewName) : "line");
const view = signal<ViewName>(named(location.hash));
addEventListener("hashchange", () => {
  view.value = named(location.hash);
  closeSheet();
  scrollTo(0, 0);
});

export function Shell() {
  const now = state.value;
  return h(
    "div",
    { class: classes("shell", now?.simulated && "is-simulated") },
    h(Head, { now }),
    h(
      "section",
      { class: "banners", "aria-label": say().condition },
      now?.simulated && h("p", { class: "banner sim" }, h("span", null, say().simulatedLong)),
      h(Banners, { now }),
    ),
    now ? h(views[view.value], { now }) : h("main", { class: "loading" }, h("h1", null, say().loading)),
    sheet.value ? h(Sheets, {}) : h(Outcome, {}),
  );
}

function Head({ now }: { now: State | undefined }) {
  const words = say();
  const asking = now?.jobs.filter(({ ask }) => ask !== null).length ?? 0;
  const waiting: Record<ViewName, number> = { line: asking, labels: now ? leftOver(now) : 0, upkeep: 0 };
  return h(
    "header",
    { class: "head" },
    h("p", { class: "name" }, h("small", null, words.station), h("strong", null, now?.station ?? now?.device_id?.slice(0, 8) ?? "–")),
    h(
      "nav",
      { "aria-label": words.views },
      (Object.keys(views) as ViewName[]).map((name) =>
        h(
          "a",
          { key: name, href: `#${name}`, class: "tab", "aria-current": view.value === name ? "page" : undefined },
          words[name],
          waiting[name] > 0 && view.value !== name ? h("b", { class: "count" }, count(waiting[name])) : undefined,
        ),
      ),
    ),
    now && h(Uplink, { isOnline: now.online }),
    h(
      "button",
      { type: "button", class: classes("operator", here.value && "is-in"), onClick: () => openSignIn() },
      h("small", null, here.value ? words.signedInAs : ""),
      h("strong", null, h(Name, { text: here.value?.operator.name ?? words.signIn })),
    ),
    h(Language, {}),
    h(Sound, {}),
  );
}

const Language = () =>
  h(
    "select",
    {
      class: "language",
      "aria-label": say().language,
      value: language(),
      onChange: (event: Event) => choose((event.currentTarget as HTMLSelectElement).value),
    },
    languages.map(({ code, name }) => h("option", { key: code, value: code, lang: code, selected: code === language() }, name)),
  );
const Sound = () =>
  h(
    "button",
    {
      type: "button",
      class: "sound",
      "aria-pressed": !muted.value,
      "aria-label": muted.value ? say().soundOff : say().soundOn,
      onClick: () => setMuted(!muted.peek()),
    },
    h(
      "svg",
      { viewBox: "0 0 24 24", "aria-hidden": "true" },
      h("path", { d: "M4 9v6h4l5 4V5L8 9Z" }),
      h("path", { class: "waves", d: muted.value ? "m16 9 6 6m0-6-6 6" : "M16 8.5a5 5 0 0 1 0 7M18.5 6a8.5 8.5 0 0 1 0 12" }),
    ),
  );

/** It stays in sight where the banners don't: while the station isn't heard of, nobody knows how it is with the cloud. */
function Uplink({ isOnline }: { isOnline: boolean }) {
  const words = say();
  const isOn = isOnline && !isCut.value;
  return h(
    "p",
    { class: classes("cloud", isOn ? "is-on" : "is-off"), role: "status" },
    shape(isCut.value ? "bad" : isOn ? "good" : "warn"),
    h("span", null, isCut.value ? words.cutShort : isOn ? words.online : words.offline),
  );
}

function Banners({ now }: { now: State | undefined }) {
  const words = say();
  if (isCut.value) return h("p", { class: "banner bad", role: "alert" }, shape("bad"), h("span", null, words.cut));
  if (!now) return undefined;
  return [
    !now.online &&
      h(
        "p",
        { class: "banner warn offline" },
        shape("warn"),
        h(
          "span",
          null,
          words.offlineLong,
          now.buffer.oldest_at === null ? "" : ` ${words.waitingReports(count(now.buffer_depth), age(now.buffer.oldest_at))}`,
        ),
      ),
    h(
      "div",
      // There before what it tells, each once: how far a clock is off by now isn't news. That the cloud is away is told at the head.
      { role: "status", "aria-atomic": "false", "aria-relevant": "additions" },
      now.stopped !== null &&
        h(
          "p",
          { class: "banner bad", key: now.stopped },
          shape("bad"),
          h("span", null, `${words.stopped} `, h(Theirs, { text: now.stopped })),
        ),
      now.notices
        .filter(({ words: theirs }) => theirs !== now.stopped)
        .map(({ code, words: theirs }) =>
          h("p", { class: "banner warn", key: code }, shape("warn"), h("span", null, h(Theirs, { text: theirs }))),
        ),
      now.paused && h("p", { class: "banner warn" }, shape("warn"), h("span", null, words.idlePaused)),
      isOld.value && h(Upgraded, {}),
    ),
  ];
}
function Upgraded() {
  const isRead = useRead("upgraded");
  return h(
    "div",
    { class: "banner warn upgraded" },
    shape("warn"),
    h("span", null, say().upgraded),
    h(Button, { title: say().renew, disabled: !isRead, onPress: renew }),
  );
}
