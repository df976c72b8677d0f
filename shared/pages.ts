// What both consoles' pages are held to.

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

/** The program that packs a page's modules into one script; nothing else of it is served. */
export const PACKER = new URL("../.runtime/pack.mjs", import.meta.url);
export const SCRIPT_MAX_BYTES = 4_000_000;
