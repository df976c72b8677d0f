// How a source module becomes one that a browser loads as it is: its types blanked out by the runtime, its bare names turned into addresses. No build.

/** What pages use of others: the name that modules import, and the file of it that runs in a browser. */
export const libraries: Readonly<Record<string, string>> = {
  preact: "preact",
  "preact/hooks": "preact/hooks",
  "@preact/signals": "@preact/signals",
  "@preact/signals-core": "@preact/signals-core",
  canonicalize: "canonicalize",
  uplot: "uplot/dist/uPlot.esm.js",
};
export const servedAs = (library: string): string => `${library.replace("@", "").replaceAll("/", "-")}.js`;

const SPECIFIER = /\b(from|import)(\s*)"([^"\n]+)"/g;

/** `base` is where the pages live: libraries are in its lib/, what cloud and agent share in its shared/. */
export const addressed = (module: string, base: string): string =>
  module.replaceAll(SPECIFIER, (whole, word: string, space: string, name: string) => {
    if (name in libraries) return `${word}${space}"${base}/lib/${servedAs(name)}"`;
    return name.startsWith("#shared/") ? `${word}${space}"${base}/shared/${name.slice("#shared/".length)}"` : whole;
  });

/** Everything from here, nothing inline, no frame around it; text can't become script, whatever a label, a tenant or a printer says. */
export const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");
