// A linkset for people: the links as links, and the document itself embedded for whoever reads pages by program.
import type { LinkContext } from "../domain/linkset.ts";
import { html, jsonScript, theirs } from "./html.ts";
import { page } from "./layout.ts";

export function linksetPage(contexts: readonly LinkContext[], document: object): string {
  const body = html`<main>
    <p class="kicker">GS1 Digital Link</p>
    <h1>Links</h1>
    ${contexts.map(
      ({ anchor, itemDescription, dpp }) =>
        html`<section class="card">
          ${itemDescription !== "" && html`<h2>${theirs(itemDescription)}</h2>`}
          <p class="code">${anchor}</p>
          <ul class="plain">
            ${dpp.map(({ href, title, type }) => html`<li><a href="${href}">${title}</a> <span class="quiet">${type}</span></li>`)}
          </ul>
        </section>`,
    )}
  </main>`;
  return page({ language: "en", title: "Links", head: jsonScript(document), body });
}
