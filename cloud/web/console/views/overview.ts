// The floor at one glance: where the jobs are, how many labels an hour, who is silent, what went wrong.
import { type JobState, jobPath, jobStateNames, rankOf } from "#shared/states.ts";
import { h } from "#shared/web/dom.ts";
import type { Summary } from "#shared/wire/console.ts";
import { HoursChart } from "../chart.ts";
import { count, language, words } from "../language.ts";
import { useLoaded } from "../loading.ts";
import { Card, Empty, Shown, Title, toneIcon, toneOf } from "../parts.ts";
import { summary } from "../state.ts";
import { DeadLetters } from "./dead-letters.ts";

const beside = jobStateNames.filter((state) => rankOf(state) < 0);
const BARS = 6;

const figure = (value: number, isCapped: boolean) => (isCapped ? words().common.atLeast(count(value)) : count(value));
/** Room for five digits and no more. */
const brief = (value: number, isCapped: boolean) => `${language.formats().brief(value)}${isCapped ? "+" : ""}`;

const State = ({ state, of }: { state: JobState; of: Summary }) =>
  h(
    "li",
    { class: of.states[state] ? toneOf(state) : "calm" }, // nothing is nothing to worry about
    h(
      "a",
      { href: `#/jobs?state=${state}`, title: `${figure(of.states[state] ?? 0, of.capped.includes(state))}: ${words().stateSays[state]}` },
      h("span", { class: "figure" }, brief(of.states[state] ?? 0, of.capped.includes(state))),
      h("span", { class: "what" }, toneIcon(toneOf(state)), words().states[state]),
    ),
  );

const Flow = ({ of }: { of: Summary }) =>
  h(
    Card,
    { title: words().overview.flow, class: "flow" },
    h(
      "ol",
      { class: "path" },
      jobPath.map((state) => h(State, { key: state, state, of })),
    ),
    h(
      "ul",
      { class: "beside" },
      beside.map((state) => h(State, { key: state, state, of })),
    ),
  );

const Bar = ({ name, value, most, text }: { name: string; value: number; most: number; text: string }) =>
  h(
    "li",
    null,
    h("span", { class: "bar-name" }, h("bdi", null, name)),
    h("span", { class: "bar-value" }, text),
    h("span", { class: "bar", "aria-hidden": "true" }, h("span", { style: { width: `${(100 * value) / Math.max(1, most)}%` } })),
  );

export function Waiting({ of, most = BARS }: { of: Summary; most?: number }) {
  const { waiting, nothingWaits, anyStation } = words().overview;
  const largest = Math.max(0, ...of.waiting.map(({ jobs }) => jobs));
  return h(
    Card,
    { title: waiting },
    of.waiting.length === 0
      ? h(Empty, { text: nothingWaits })
      : h(
          "ul",
          { class: "bars" },
          of.waiting
            .slice(0, most)
            .map(({ station, jobs }) =>
              h(Bar, { key: station, name: station ?? anyStation, value: jobs, most: largest, text: figure(jobs, of.waiting_capped) }),
            ),
        ),
  );
}

const Presence = ({ of: { devices } }: { of: Summary }) => {
  const { stations, heardOf, silent, noneSilent, seeAll } = words().overview;
  const missing = devices.all - devices.heard_of;
  return h(
    Card,
    { title: stations, aside: h("a", { href: "#/stations" }, seeAll) },
    h("p", { class: "big" }, heardOf(count(devices.heard_of), count(devices.all))),
    h("progress", { max: Math.max(1, devices.all), value: devices.heard_of, "aria-label": stations }),
    h("p", { class: missing > 0 ? "tone-warn" : "quiet" }, missing > 0 ? silent(count(missing)) : noneSilent),
  );
};

const Hours = ({ of }: { of: Summary }) => {
  const { labels, today } = words().overview;
  const all = of.sealed_by_hour.reduce((sum, { labels }) => sum + labels, 0);
  return h(Card, { title: labels, aside: h("span", { class: "quiet" }, today(count(all))) }, h(HoursChart, { hours: of.sealed_by_hour }));
};

/** The stream brings the figures; until it does, and where it can't, they are asked for. */
export function useSummary() {
  const asked = useLoaded<Summary>("/aidc/summary", []);
  return { data: { value: summary.value ?? asked.data.value }, refused: asked.refused, reload: asked.reload };
}

export function Overview() {
  const loaded = useSummary();
  const { overview } = words();
  return [
    h(Title, { text: overview.title }),
    h(Shown<Summary>, {
      loaded,
      children: (of) => [
        h(Flow, { of }),
        h("div", { class: "grid overview" }, h(Hours, { of }), h("div", { class: "pile" }, h(Presence, { of }), h(Waiting, { of }))),
        h(Card, { title: overview.dead, aside: h("a", { href: "#/attention" }, overview.seeAll) }, h(DeadLetters, { most: 5 })),
      ],
    }),
  ];
}
