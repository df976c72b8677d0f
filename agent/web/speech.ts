// The page's languages, and figures as each of them writes them.
import { computed } from "#shared/web/dom.ts";
import { speak } from "#shared/web/language.ts";
import { stationNow } from "./station.ts";
import { de } from "./words/de.ts";
import { en, type Words } from "./words/en.ts";
import { es } from "./words/es.ts";
import { zh } from "./words/zh.ts";

const speech = speak<Words>([
  { code: "en", name: "English", words: en },
  { code: "de", name: "Deutsch", words: de },
  { code: "es", name: "Español", words: es },
  { code: "zh-Hans", name: "简体中文", words: zh },
]);
export const languages = speech.tables;
export const language = speech.code;
export const choose = speech.choose;
export const say = speech.words;
export const count = (value: number): string => speech.formats().count(value);

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
] as const;

/** How long something has been so: 12 sec, 3 min. */
export const age = (since: string | null): string => (since === null ? "" : span(stationNow() - Date.parse(since)));
function span(ms: number): string {
  const [unit, each] = UNITS.find(([, each]) => ms >= each) ?? ["second", 1_000];
  return new Intl.NumberFormat(language(), { style: "unit", unit, unitDisplay: "short" }).format(Math.max(0, Math.floor(ms / each)));
}
const times = computed(() => {
  const written = (day: object) => new Intl.DateTimeFormat(language(), { ...day, timeStyle: "medium", hourCycle: "h23" });
  return { today: written({}), before: written({ dateStyle: "medium" }) };
});
const today = computed(() => new Date(stationNow()).toDateString());
/** The time of day; of another day than this its date as well, once midnight has passed. */
export const clockTime = (at: string): string => {
  const then = new Date(at);
  return times.value[then.toDateString() === today.value ? "today" : "before"].format(then);
};

/** A word of a table by a name that comes from the station; the name itself, where a newer station says something new. */
export const wordFor = (table: Readonly<Record<string, string>>, name: string): string => table[name] ?? name;
