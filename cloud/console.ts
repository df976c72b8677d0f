// The console's page: three files, made and compressed when first asked for, then served from memory under exact addresses.
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import type { FastifyInstance } from "fastify";
import { answerWith, PACKER, PAGE_POLICY, pageOf, SCRIPT_MAX_BYTES } from "#shared/pages.ts";

const CONSOLE = "/console";
const fileOf = createRequire(import.meta.url).resolve;
const read = (name: string) => readFile(fileOf(name), "utf8");

const STYLES = ["#shared/web/theme.css", "uplot/dist/uPlot.min.css", "./web/console/console.css"];
async function script(): Promise<string> {
  const args = [fileURLToPath(PACKER), fileOf("./web/console/main.ts")];
  return (await promisify(execFile)(process.execPath, args, { maxBuffer: SCRIPT_MAX_BYTES })).stdout;
}
const packed = (make: () => Promise<string>) => pageOf(make, gzipSync);
const FILES = [
  { url: CONSOLE, type: "text/html; charset=utf-8", page: packed(() => read("./web/console/index.html")), policy: PAGE_POLICY },
  {
    url: `${CONSOLE}/app.css`,
    type: "text/css; charset=utf-8",
    page: packed(async () => (await Promise.all(STYLES.map(read))).join("\n")),
  },
  { url: `${CONSOLE}/app.js`, type: "text/javascript; charset=utf-8", page: packed(script) },
];

/** Not counted against anybody's budget: a refusal would cost as much, and a hall of tablets shares one address. */
export function serveConsole(app: FastifyInstance): string[] {
  for (const { url, type, page, policy } of FILES)
    app.get(url, { schema: { hide: true }, config: { endpoint: `${CONSOLE}/(file)` } }, async (request, reply) => {
      const { status, headers, body } = answerWith(await page(), request.headers);
      if (policy) void reply.header("content-security-policy", policy);
      return reply.code(status).type(type).headers(headers).send(body);
    });
  return FILES.map(({ url }) => url);
}
