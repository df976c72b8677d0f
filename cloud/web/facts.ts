// Facts of a passport as people read them: a friendly name, a number with its unit, a date, a country; whatever is nested stays in order.
import { isObject } from "#shared/object.ts";
import { type Html, html, theirs } from "./html.ts";
import { en } from "./words/en.ts";
import { type Language, words } from "./words/index.ts";

type Facts = Record<string, unknown>;
const NESTED_MAX = 4;
/** As much as anybody reads: what is said of more stands in the passport's data. */
export const ITEMS_MAX = 200;
/** Shares of one, told as percentages. */
const SHARES = new Set([
  "recycledContent",
  "recyclableContent",
  "massFraction",
  "recycledMassFraction",
  "primarySourcedRatio",
  "verifiedRatio",
]);
/** What a document says of itself rather than of its product. */
const INNER = /^@|^(?:type|id|idScheme|registeredId|schemeID|schemeName)$/;

type Table = Readonly<Record<string, string>>;
const wordIn = (table: Table, name: string): string | undefined => (Object.hasOwn(table, name) ? table[name] : undefined);

/** Its name in this language, or its own: annualUse becomes "Annual use". */
export function labelOf(key: string, language: Language): Html {
  const known = wordIn(words[language].labels, key);
  if (known) return html`${known}`;
  const spaced = key.replaceAll(/([a-z\d])([A-Z])/g, "$1 $2").replaceAll(/[_-]+/g, " ");
  return theirs(spaced.slice(0, 1).toUpperCase() + spaced.slice(1).toLowerCase());
}

/** A format is made once a language: making one takes as long as writing a hundred numbers with it. */
function kept<Format>(make: (language: Language) => Format): (language: Language) => Format {
  const made: Partial<Record<Language, Format>> = {};
  return (language) => (made[language] ??= make(language));
}
/** What is too little for so many digits keeps two of its own: four thousandths of a percent of lead aren't none. */
const orLess = { maximumSignificantDigits: 2, roundingPriority: "morePrecision" } as const;
const percents = kept((language) => new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 2, ...orLess }));
const numbers = kept((language) => new Intl.NumberFormat(language, { maximumFractionDigits: 3, ...orLess }));
const plurals = kept((language) => new Intl.PluralRules(language));
const days = kept((language) => new Intl.DateTimeFormat(language, { dateStyle: "long", timeZone: "UTC" }));
const regions = kept((language) => new Intl.DisplayNames([language], { type: "region", fallback: "code" }));
/** So little is what a computer's arithmetic left over. */
const meant = (value: number): number => (Math.abs(value) < 1e-9 ? 0 : value);
export const percent = (share: number, language: Language): string => percents(language).format(meant(share));
export const number = (value: number, language: Language): string => numbers(language).format(meant(value));
export function day(at: number | string, language: Language): string {
  const text = days(language).format(new Date(at));
  return words[language].day?.(text) ?? text;
}

const ENDINGS = Object.keys(en.units) as (keyof typeof en.units)[];
export function numberOf(value: number, key: string, language: Language): string {
  if (SHARES.has(key)) return percent(value, language);
  if (key.endsWith("Percentage")) return percent(value / 100, language);
  const ending = ENDINGS.find((end) => key.endsWith(end));
  if (!ending) return number(value, language);
  const unit = words[language].units[ending];
  const word = typeof unit === "string" ? unit : (unit[plurals(language).select(meant(value))] ?? unit.other);
  return `${number(value, language)}\u00a0${word}`;
}

/** One that there is: JavaScript takes the 31st of February for the 3rd of March. */
const isDay = (text: string): boolean =>
  /^\d{4}-\d{2}-\d{2}(?:T[\d:.]+Z)?$/.test(text) &&
  !Number.isNaN(Date.parse(text)) &&
  new Date(text).toISOString().startsWith(text.slice(0, 10));

function textOf(text: string, key: string, language: Language): Html {
  const { unitCodes, values } = words[language];
  const known = /unit$/i.test(key) ? wordIn(unitCodes, text) : (wordIn(values, `${key} ${text}`) ?? wordIn(values, text)); // a name may be spelled as a unit's code is
  if (known) return html`${known}`;
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) return html`<a href="${text}" rel="nofollow noopener">${theirs(text)}</a>`;
  if (/country/i.test(key) && /^[A-Z]{2}$/.test(text)) return html`${countryOf(text, language)}`;
  if (isDay(text)) return html`<time datetime="${text}">${day(text, language)}</time>`;
  return theirs(text);
}

const countryOf = (code: string, language: Language) => regions(language).of(code) ?? code;

export function valueOf(value: unknown, key: string, language: Language, depth = 0): Html {
  const { yes, no, cut } = words[language];
  if (typeof value === "boolean") return html`${value ? yes : no}`;
  if (typeof value === "number") return html`${numberOf(value, key, language)}`;
  if (typeof value === "string") return textOf(value, key, language);
  if (depth >= NESTED_MAX) return html`${cut}`;
  if (Array.isArray(value)) return listOf(value, key, language, depth);
  if (!isObject(value)) return html`–`;
  const { value: amount, unit } = value;
  if (typeof amount === "number" && typeof unit === "string") return html`${number(amount, language)}&nbsp;${theirs(unit)}`;
  return factsOf(value, language, depth + 1);
}

function listOf(items: readonly unknown[], key: string, language: Language, depth: number): Html {
  const some = items.slice(0, ITEMS_MAX).map((item) => valueOf(item, key, language, depth + 1));
  if (some.length === 0) return html`${words[language].none}`;
  if (some.length === 1) return html`${some}`;
  return html`<ul>
    ${some.map((item) => html`<li>${item}</li>`)}${items.length > ITEMS_MAX && html`<li>${words[language].cut}</li>`}
  </ul>`;
}

/** The facts of an object, in its order; one that has a name and nothing else is its name. */
export function factsOf(facts: Facts, language: Language, depth = 0): Html {
  const shown = Object.entries(facts).filter(([key, value]) => !INNER.test(key) && value !== null && value !== "");
  const [first] = shown;
  if (shown.length === 0) return html`${typeof facts["id"] === "string" ? textOf(facts["id"], "id", language) : "–"}`;
  if (shown.length === 1 && first?.[0] === "name") return valueOf(first[1], "name", language, depth);
  return html`<dl class="facts">
      ${shown.slice(0, ITEMS_MAX).map(
        ([key, value]) =>
          html`<div>
            <dt>${labelOf(key, language)}</dt>
            <dd>${valueOf(value, key, language, depth)}</dd>
          </div>`,
      )}
    </dl>
    ${shown.length > ITEMS_MAX && html`<p>${words[language].cut}</p>`}`;
}
