// The console's page: files under exact addresses, all read at start, so that it needs no network and no address can lead anywhere else.
import { Buffer } from "node:buffer";
import { hash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { fileURLToPath } from "node:url";
import type { FastifyInstance, FastifyReply } from "fastify";
import { addressed, libraries, PAGE_POLICY, servedAs } from "#shared/pages.ts";

const TYPES = { html: "text/html; charset=utf-8", css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8" } as const;
const USED = ["preact", "preact/hooks", "@preact/signals", "@preact/signals-core"] as const satisfies (keyof typeof libraries)[];
const SHARED = ["web/{dom,language,live}.ts", "states.ts"];

type File = { type: string; bytes: Buffer; etag: string };
const pathOf = (url: string): string => fileURLToPath(new URL(url, import.meta.url));

function fileAt(path: string): File {
  const text = readFileSync(path, "utf8");
  const kind = path.slice(path.lastIndexOf(".") + 1);
  const module = kind === "ts" ? stripTypeScriptTypes(text) : text;
  const bytes = Buffer.from(kind === "ts" || kind === "mjs" || kind === "js" ? addressed(module, "") : text);
  return { bytes, type: TYPES[kind as keyof typeof TYPES] ?? TYPES.js, etag: `"${hash("sha256", bytes, "base64url")}"` };
}

/** Every address there is. */
function files(): [url: string, file: File][] {
  const found = (folder: string, patterns: string[], at: string) =>
    globSync(patterns, { cwd: pathOf(folder) }).map(
      (name) => [`/${at}/${name.replaceAll("\\", "/")}`, fileAt(pathOf(folder) + name)] as [string, File],
    );
  return [
    ["/", fileAt(pathOf("./web/index.html"))],
    ...found("./web/", ["**/*.{ts,css}"], "app"),
    ...found("../shared/", SHARED, "shared"),
    ...USED.map(
      (name) => [`/lib/${servedAs(name)}`, fileAt(fileURLToPath(import.meta.resolve(libraries[name] ?? name)))] as [string, File],
    ),
  ];
}

export function servePages(app: FastifyInstance): void {
  for (const [url, file] of files()) app.get(url, ({ headers }, reply) => send(reply, file, headers["if-none-match"]));
}

function send(reply: FastifyReply, { bytes, type, etag }: File, known = ""): FastifyReply {
  void reply.headers({ etag, "cache-control": "no-cache", "content-security-policy": PAGE_POLICY });
  const isKnown = known.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
  return isKnown ? reply.code(304).send() : reply.type(type).send(bytes);
}
