// The console's files: read, blanked of their types and compressed when first asked for, then served from memory under exact addresses.
import { hash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addressed, libraries, PAGE_POLICY, servedAs } from "#shared/pages.ts";

export const CONSOLE = "/console";
const page = fileURLToPath(new URL("./web/console/", import.meta.url));
const shared = fileURLToPath(new URL("../shared/", import.meta.url));
/** What of the shared folder browsers get: the parts of pages, and tables that need nothing else. */
const SHARED = ["web/**/*.{ts,css}", "states.ts", "scopes.ts", "audit.ts"];

const TYPES = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  ts: "text/javascript; charset=utf-8",
  js: "text/javascript; charset=utf-8",
} as const;
type Kind = keyof typeof TYPES;

type Source = { file: string; kind: Kind };
const kindOf = (file: string): Kind => file.slice(file.lastIndexOf(".") + 1).replace("mjs", "js") as Kind;
const source = (file: string): Source => ({ file, kind: kindOf(file) });
const urlPath = (path: string) => path.replaceAll("\\", "/");

/** Every address there is. */
export function consoleFiles(): Map<string, Source> {
  const found = (folder: string, patterns: string[], at: string) =>
    globSync(patterns, { cwd: folder }).map((path) => [`${CONSOLE}/${at}/${urlPath(path)}`, source(`${folder}${path}`)] as const);
  return new Map<string, Source>([
    [CONSOLE, source(`${page}index.html`)],
    ...found(page, ["**/*.{ts,css}"], "app"),
    ...found(shared, SHARED, "shared"),
    ...Object.entries(libraries).map(
      ([name, file]) => [`${CONSOLE}/lib/${servedAs(name)}`, source(fileURLToPath(import.meta.resolve(file)))] as const,
    ),
    [`${CONSOLE}/lib/uplot.css`, source(fileURLToPath(import.meta.resolve("uplot/dist/uPlot.min.css")))],
  ]);
}

/** The text as a browser takes it. */
export function textOf({ file, kind }: Source, all: Iterable<string>): string {
  const text = readFileSync(file, "utf8");
  if (kind === "ts") return addressed(stripTypeScriptTypes(text), CONSOLE);
  if (kind === "js") return addressed(text, CONSOLE);
  return kind === "html" ? text.replace("<!-- preload -->", preloads(all)) : text;
}

/** All modules at once, instead of one round trip for each step of the imports. */
const preloads = (all: Iterable<string>): string =>
  [...all]
    .filter((url) => url.endsWith(".ts") || url.endsWith(".js"))
    .map((url) => `<link rel="modulepreload" href="${url}" />`)
    .join("\n    ");

type Served = { kind: Kind; plain: Buffer; packed: Buffer; etag: string };
function served(from: Source, all: Iterable<string>): Served {
  const plain = Buffer.from(textOf(from, all));
  return { kind: from.kind, plain, packed: gzipSync(plain), etag: hash("sha256", plain, "base64url").slice(0, 27) };
}

/** Not counted against anybody's budget: a refusal would cost as much, and a hall of tablets shares one address. */
export function serveConsole(app: FastifyInstance): string[] {
  const files = consoleFiles();
  const ready = new Map<string, Served>();
  for (const [url, from] of files)
    app.get(url, { schema: { hide: true }, config: { endpoint: `${CONSOLE}/(file)` } }, async (request, reply) => {
      const file = ready.get(url) ?? served(from, files.keys());
      ready.set(url, file);
      return answer(request, reply, file);
    });
  return [...files.keys()];
}

function answer({ headers }: FastifyRequest, reply: FastifyReply, { kind, plain, packed, etag }: Served): FastifyReply {
  const gzip = /\bgzip\b/.test(headers["accept-encoding"] ?? "");
  const tag = `"${etag}${gzip ? "-gzip" : ""}"`;
  void reply.headers({ "content-type": TYPES[kind], "cache-control": "no-cache", vary: "accept-encoding", etag: tag });
  if (kind === "html") void reply.header("content-security-policy", PAGE_POLICY);
  if (headers["if-none-match"] === tag) return reply.code(304).send();
  if (gzip) void reply.header("content-encoding", "gzip");
  return reply.send(gzip ? packed : plain);
}
