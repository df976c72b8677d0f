// The console's page: three files, made when first asked for, so that it needs no network and no address can lead anywhere else.
import { Buffer } from "node:buffer";
import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import type { FastifyInstance, FastifyReply } from "fastify";
import { PACKER, PAGE_POLICY, SCRIPT_MAX_BYTES } from "#shared/pages.ts";

const pathOf = (url: string | URL): string => fileURLToPath(new URL(url, import.meta.url));
const PACKING = [pathOf(PACKER), pathOf("./web/main.ts")];
const text = (url: string) => () => readFile(pathOf(url), "utf8");

const FILES = [
  { url: "/", type: "text/html; charset=utf-8", make: text("./web/index.html") },
  { url: "/console.css", type: "text/css; charset=utf-8", make: text("./web/console.css") },
  {
    url: "/console.js",
    type: "text/javascript; charset=utf-8",
    make: () => promisify(execFile)(process.execPath, PACKING, { maxBuffer: SCRIPT_MAX_BYTES }).then(({ stdout }) => stdout),
  },
];
type Made = { type: string; plain: Buffer; packed: Buffer; etag: string };

async function made({ type, make }: (typeof FILES)[number]): Promise<Made> {
  const plain = Buffer.from(await make());
  return { type, plain, packed: gzipSync(plain), etag: hash("sha256", plain, "base64url").slice(0, 27) };
}

const ready = new Map<string, Promise<Made>>();
function readyOf(file: (typeof FILES)[number]): Promise<Made> {
  const known = ready.get(file.url) ?? made(file);
  ready.set(file.url, known);
  known.catch(() => ready.delete(file.url)); // whoever asks next has it tried again
  return known;
}

export function servePages(app: FastifyInstance): void {
  for (const file of FILES) app.get(file.url, async ({ headers }, reply) => send(reply, await readyOf(file), headers));
}

function send(reply: FastifyReply, { plain, packed, type, etag }: Made, asked: IncomingHttpHeaders): FastifyReply {
  const isPacked = /\bgzip\b/.test(asked["accept-encoding"] ?? "");
  const tag = `"${etag}${isPacked ? "-gzip" : ""}"`;
  void reply.headers({ etag: tag, "cache-control": "no-cache", vary: "accept-encoding", "content-security-policy": PAGE_POLICY });
  const isKnown = (asked["if-none-match"] ?? "").split(",").some((known) => known.trim().replace(/^W\//, "") === tag);
  if (isKnown) return reply.code(304).send();
  if (isPacked) void reply.header("content-encoding", "gzip");
  return reply.type(type).send(isPacked ? packed : plain);
}
