// The console's page: three files, made and compressed when first asked for, then served from memory under exact addresses.
import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { PACKER, PAGE_POLICY, SCRIPT_MAX_BYTES } from "#shared/pages.ts";

const CONSOLE = "/console";
const fileOf = createRequire(import.meta.url).resolve;
const read = (name: string) => readFile(fileOf(name), "utf8");

const TYPES = { html: "text/html; charset=utf-8", css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8" } as const;
type Kind = keyof typeof TYPES;
type File = { kind: Kind; make(): Promise<string> };

const STYLES = ["#shared/web/theme.css", "uplot/dist/uPlot.min.css", "./web/console/console.css"];
async function script(): Promise<string> {
  const args = [fileURLToPath(PACKER), fileOf("./web/console/main.ts")];
  return (await promisify(execFile)(process.execPath, args, { maxBuffer: SCRIPT_MAX_BYTES })).stdout;
}
const files: Record<string, File> = {
  [CONSOLE]: { kind: "html", make: () => read("./web/console/index.html") },
  [`${CONSOLE}/app.css`]: { kind: "css", make: async () => (await Promise.all(STYLES.map(read))).join("\n") },
  [`${CONSOLE}/app.js`]: { kind: "js", make: script },
};

type Served = { kind: Kind; plain: Buffer; packed: Buffer; etag: string };
async function served({ kind, make }: File): Promise<Served> {
  const plain = Buffer.from(await make());
  return { kind, plain, packed: gzipSync(plain), etag: hash("sha256", plain, "base64url").slice(0, 27) };
}

const ready = new Map<string, Promise<Served>>();
function readyOf(url: string, file: File): Promise<Served> {
  const known = ready.get(url) ?? served(file);
  ready.set(url, known);
  known.catch(() => ready.delete(url)); // whoever asks next has it tried again
  return known;
}

/** Not counted against anybody's budget: a refusal would cost as much, and a hall of tablets shares one address. */
export function serveConsole(app: FastifyInstance): string[] {
  for (const [url, file] of Object.entries(files))
    app.get(url, { schema: { hide: true }, config: { endpoint: `${CONSOLE}/(file)` } }, async (request, reply) =>
      answer(request, reply, await readyOf(url, file)),
    );
  return Object.keys(files);
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
