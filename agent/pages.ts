// The console's page: three files, made when first asked for, so that it needs no network and no address can lead anywhere else.
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import type { FastifyInstance } from "fastify";
import { answerWith, PACKER, PAGE_POLICY, pageOf, SCRIPT_MAX_BYTES } from "#shared/pages.ts";

const pathOf = (url: string | URL): string => fileURLToPath(new URL(url, import.meta.url));
const PACKING = [pathOf(PACKER), pathOf("./web/main.ts")];
const text = (url: string) => () => readFile(pathOf(url), "utf8");

const packed = (make: () => Promise<string>) => pageOf(make, gzipSync);
const FILES = [
  { url: "/", type: "text/html; charset=utf-8", page: packed(text("./web/index.html")) },
  { url: "/console.css", type: "text/css; charset=utf-8", page: packed(text("./web/console.css")) },
  {
    url: "/console.js",
    type: "text/javascript; charset=utf-8",
    page: packed(() => promisify(execFile)(process.execPath, PACKING, { maxBuffer: SCRIPT_MAX_BYTES }).then(({ stdout }) => stdout)),
  },
];

export function servePages(app: FastifyInstance): void {
  for (const { url, type, page } of FILES)
    app.get(url, async (request, reply) => {
      const { status, headers, body } = answerWith(await page(), request.headers);
      return reply
        .code(status)
        .type(type)
        .headers({ ...headers, "content-security-policy": PAGE_POLICY })
        .send(body);
    });
}
