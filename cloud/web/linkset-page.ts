// A linkset for people, in their language: the links as links, and the document itself embedded for whoever reads pages by program.
import type { LinkContext } from "../domain/linkset.ts";
import { html, jsonScript, theirs } from "./html.ts";
import { page } from "./layout.ts";
import type { Words } from "./words/en.ts";
import { type Language, words } from "./words/index.ts";

/** By their types, as a passport's page names them. */
const nameOf = (type: string, title: string, { passport, data, credential }: Words): string =>
  ({ "text/html": passport, "application/ld+json": data, "application/vc+jwt": credential })[type] ?? title;

export function linksetPage(contexts: readonly LinkContext[], document: object, language: Language): string {
  const say = words[language];
  const body = html`<main>
    <p class="kicker">GS1 Digital Link</p>
    <h1>${say.links}</h1>
    ${contexts.map(
      ({ anchor, itemDescription, dpp }) =>
        html`<section class="card">
          ${itemDescription !== "" && html`<h2>${theirs(itemDescription)}</h2>`}
          <p class="code">${anchor}</p>
          <ul class="plain">
            ${dpp.map(({ href, title, type }) => html`<li><a href="${href}">${nameOf(type, title, say)}</a> <span class="quiet">${type}</span></li>`)}
          </ul>
        </section>`,
    )}
  </main>`;
  return page({ language, title: say.links, head: jsonScript(document), body });
}
