// A refusal as a person meets it who followed a label: a few plain words, and nothing of any passport.
import type { ErrorCode, Refusal } from "#shared/errors.ts";
import { languageWanted, mediaWanted } from "../accept.ts";
import type { Asked, Reply } from "../route.ts";
import { html } from "./html.ts";
import { page, PAGE_HEADERS } from "./layout.ts";
import type { en } from "./words/en.ts";
import { type Language, LANGUAGES, words } from "./words/index.ts";

/** Only for who says that a page is what they'd rather have: `*` and silence are a program's. */
const wantsPage = ({ headers: { accept = "" } }: Asked): boolean =>
  accept.includes("text/html") && mediaWanted(accept, ["text/html", "application/json"]) === "text/html";

export const languageOf = ({ headers }: Asked): Language => languageWanted(headers["accept-language"], LANGUAGES);

type Told = keyof typeof en.refusals;
const KIND: Partial<Record<ErrorCode, Told>> = {
  SERIAL_VOIDED: "voided",
  PASSPORT_WITHDRAWN: "withdrawn",
  NOT_FOUND: "unknown",
  PRODUCT_NOT_FOUND: "unknown",
  RATE_LIMITED: "later",
};
const kindOf = ({ code, status }: Refusal): Told => KIND[code] ?? (status >= 500 ? "later" : "malformed");

export function refusalPage(refusal: Refusal, asked: Asked): Omit<Reply, "status"> | undefined {
  if (!wantsPage(asked)) return undefined;
  const language = languageOf(asked);
  const kind = kindOf(refusal);
  const { title, text } = words[language].refusals[kind];
  const body = html`<main class="notice ${kind}">
    <p class="kicker">${words[language].passport}</p>
    <h1>${title}</h1>
    <p>${text}</p>
    <p class="code">${refusal.status} ${refusal.body.error.code}</p>
  </main>`;
  return { body: page({ language, title, body }), headers: { ...PAGE_HEADERS, "content-language": language } };
}
