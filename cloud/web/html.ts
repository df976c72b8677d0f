// HTML by template: whatever is put into one is escaped, unless it is HTML that a template made.

export type Html = { readonly html: string };
type Part = Html | string | number | undefined | false | readonly Part[];

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
export const escaped = (text: string) => text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");

function shown(part: Part): string {
  if (part === undefined || part === false) return "";
  if (typeof part === "object") return "html" in part ? part.html : part.map(shown).join("");
  return escaped(String(part));
}

export const html = (strings: TemplateStringsArray, ...parts: Part[]): Html => ({
  html: strings.map((text, i) => text + shown(parts[i])).join(""),
});

/** Data in a page: nothing in it can end the script element that it stands in. */
export const jsonScript = (data: object): Html => ({
  html: `<script type="application/ld+json">${JSON.stringify(data).replaceAll("<", String.raw`\u003c`)}</script>`,
});

/** Text of somebody else's in a page of ours: it runs its own way and turns nothing else around. */
export const theirs = (text: string): Html => html`<bdi>${text}</bdi>`;
