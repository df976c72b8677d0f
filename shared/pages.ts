// What both consoles' pages are held to, and how their files are served: made when first asked for, then from memory, as small as the browser takes them.
import { hash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

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

type Page = { plain: Buffer; packed: Buffer; etag: string };
/** Made once, and packed by what the program has for it; where that fails, whoever asks next has it tried again. */
export function pageOf(make: () => Promise<string>, pack: (plain: Buffer) => Buffer): () => Promise<Page> {
  const made = async (): Promise<Page> => {
    const plain = Buffer.from(await make());
    return { plain, packed: pack(plain), etag: hash("sha256", plain, "base64url").slice(0, 27) };
  };
  let ready: Promise<Page> | undefined;
  return () => {
    const page = (ready ??= made());
    page.catch(() => (ready = undefined));
    return page;
  };
}

/** The page as this browser takes it, or that it has it already. */
export function answerWith({ plain, packed, etag }: Page, asked: IncomingHttpHeaders) {
  const isPacked = /\bgzip\b/.test(asked["accept-encoding"] ?? "");
  const tag = `"${etag}${isPacked ? "-gzip" : ""}"`;
  const headers = { etag: tag, "cache-control": "no-cache", vary: "accept-encoding" };
  const isKnown = (asked["if-none-match"] ?? "").split(",").some((known) => known.trim().replace(/^W\//, "") === tag);
  if (isKnown) return { status: 304, headers };
  return isPacked
    ? { status: 200, headers: { ...headers, "content-encoding": "gzip" }, body: packed }
    : { status: 200, headers, body: plain };
}
