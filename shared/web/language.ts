// Languages: one table of texts each, the reader's own chosen by the browser or by hand, numbers and times as they are written there.
import { computed, effect, signal } from "./dom.ts";
import { inBrowser } from "./kept.ts";

type Spoken<Words> = { code: string; name: string; words: Words };

const KEPT = "language";
const wanted = (): readonly string[] => {
  const kept = inBrowser.getItem(KEPT);
  return kept === null ? navigator.languages : [kept, ...navigator.languages];
};

/** The tables of a page, best first for whoever reads it. */
export function speak<Words>(tables: readonly [Spoken<Words>, ...Spoken<Words>[]]) {
  const of = (tag: string) =>
    tables.find(({ code }) => code === tag) ?? tables.find(({ code }) => code.split("-")[0] === tag.split("-")[0]);
  const chosen = signal(wanted().map(of).find(Boolean) ?? tables[0]);
  effect(() => {
    document.documentElement.lang = chosen.value.code;
  });
  const formats = computed(() => formatsOf(chosen.value.code));
  return {
    tables,
    code: () => chosen.value.code,
    words: () => chosen.value.words,
    formats: () => formats.value,
    choose: (code: string) => {
      chosen.value = of(code) ?? tables[0];
      inBrowser.setItem(KEPT, chosen.value.code);
    },
  };
}

const BRIEF_FROM = 100_000;
const SECOND_MS = 1_000;
const STEPS = [
  ["day", 86_400 * SECOND_MS],
  ["hour", 3_600 * SECOND_MS],
  ["minute", 60 * SECOND_MS],
] as const;

function formatsOf(code: string) {
  const count = new Intl.NumberFormat(code);
  const brief = new Intl.NumberFormat(code, { notation: "compact", maximumFractionDigits: 1 });
  const moment = new Intl.DateTimeFormat(code, { dateStyle: "medium", timeStyle: "medium" });
  const clock = new Intl.DateTimeFormat(code, { hour: "2-digit", minute: "2-digit" });
  const relative = new Intl.RelativeTimeFormat(code, { numeric: "always", style: "short" });
  const justNow = new Intl.RelativeTimeFormat(code, { numeric: "auto", style: "short" }).format(0, "second");
  return {
    count: (value: number) => count.format(value),
    brief: (value: number) => (value < BRIEF_FROM ? count : brief).format(value),
    moment: (at: string) => moment.format(new Date(at)),
    clock: (at: number) => clock.format(at),
    /** How long ago, to the minute; under one it is now. In hours and days of the clock: yesterday may have been the day before. */
    ago: (at: string, now: number) => {
      const past = Math.max(0, now - Date.parse(at));
      const [unit, ms] = STEPS.find(([, ms]) => past >= ms) ?? [];
      return unit === undefined ? justNow : relative.format(-Math.floor(past / ms), unit);
    },
  };
}
