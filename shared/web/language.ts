// Languages: one table of texts each, fetched when it is wanted, the reader's own chosen by the browser or by hand, numbers and times as they are written there.
import { computed, effect, signal } from "./dom.ts";

const NAMES = { en: "English", de: "Deutsch", es: "Español", "zh-Hans": "简体中文" } as const;
type Code = keyof typeof NAMES;
const codes = Object.keys(NAMES) as Code[];
const KEPT = "language";
const BESIDE_MS = 3_000;
const wanted = (): readonly string[] => {
  const kept = localStorage.getItem(KEPT);
  return kept === null ? navigator.languages : [kept, ...navigator.languages];
};
const known = (tag: string) => codes.find((code) => code === tag) ?? codes.find((code) => code.split("-")[0] === tag.split("-")[0]);

/** English came with the page; `ready` once the reader's own language is there, and the others soon after, lest the server be away by then. */
export function speak<Words>(en: Words, abroad: Record<Exclude<Code, "en">, () => Promise<Words>>) {
  const tables: Record<Code, () => Promise<Words>> = { en: () => Promise.resolve(en), ...abroad };
  const chosen = signal<{ code: Code; words: Words }>({ code: "en", words: en });
  let latest: Code | undefined;
  async function turnTo(code: Code): Promise<void> {
    latest = code;
    const words = await tables[code]();
    if (latest === code) chosen.value = { code, words };
  }
  const beside = () => Promise.allSettled(codes.map((code) => tables[code]())); // one that doesn't come is fetched when it is chosen
  effect(() => {
    document.documentElement.lang = chosen.value.code;
  });
  const formats = computed(() => formatsOf(chosen.value.code));
  return {
    names: Object.entries(NAMES).map(([code, name]) => ({ code, name })),
    ready: turnTo(wanted().map(known).find(Boolean) ?? "en").finally(() => setTimeout(beside, BESIDE_MS)),
    code: () => chosen.value.code,
    words: () => chosen.value.words,
    formats: () => formats.value,
    choose: (tag: string) => {
      const code = known(tag) ?? "en";
      localStorage.setItem(KEPT, code);
      void turnTo(code);
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
  const relative = new Intl.RelativeTimeFormat(code, { numeric: "auto", style: "short" });
  return {
    count: (value: number) => count.format(value),
    brief: (value: number) => (value < BRIEF_FROM ? count : brief).format(value),
    moment: (at: string) => moment.format(new Date(at)),
    clock: (at: number) => clock.format(at),
    /** How long ago, to the minute; under one it is now. */
    ago: (at: string, now: number) => {
      const past = Math.max(0, now - Date.parse(at));
      const [unit, ms] = STEPS.find(([, ms]) => past >= ms) ?? (["second", Number.POSITIVE_INFINITY] as const);
      return relative.format(-Math.floor(past / ms), unit);
    },
  };
}
