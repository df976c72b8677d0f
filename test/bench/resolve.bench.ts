// The resolver: a serial resolved against a bare fastify redirect, and what a million serials in the store change.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import autocannon from "autocannon";
import { client } from "../../fixtures/client.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { manySerials } from "../../fixtures/many-rows.ts";
import { productMaker } from "../../fixtures/publishing.ts";
import { startServer } from "./http.bench.ts";
import { duel, inFull, type Line, ratioLine } from "./measure.ts";

const KEY = "a-bench-key-of-24-characters";
const CONNECTIONS = 64;
const [FEW, MANY] = [1_000, inFull(1_000_000, 2_000)];
const GTIN = gtinOf(1);

const start = (folder: string) =>
  startServer("../../cloud/main.ts", {
    IMPRIMATUR_PORT: "0",
    IMPRIMATUR_DATA_DIR: folder,
    IMPRIMATUR_BOOTSTRAP_KEY: KEY,
    IMPRIMATUR_RATE_LIMIT: "off",
  });

/** A cloud with one published product and so many serials of it. */
async function cloudWith(count: number) {
  const folder = mkdtempSync(join(tmpdir(), "imprimatur-bench-"));
  const first = await start(folder);
  const { id } = await productMaker(client(() => first.url, { authorization: `Bearer ${KEY}` }))({ gtin: GTIN });
  await first.end();
  await manySerials(folder, id, count);
  const { url, end } = await start(folder);
  return { url, end: () => end().finally(() => rmSync(folder, { recursive: true })) };
}

let turn = 0;
async function load(url: string, count: number, ms: number): Promise<number> {
  const setupRequest = (request: autocannon.Request) => ({ ...request, path: `/01/${GTIN}/21/${(turn = (turn + 7_919) % count)}` });
  const result = await autocannon({ url, connections: CONNECTIONS, duration: ms / 1000, requests: [{ setupRequest }] });
  const { "3xx": redirects, "2xx": others, non2xx, errors } = result;
  if (errors > 0 || others > 0 || non2xx > redirects)
    throw new Error(`${others + non2xx - redirects} answers weren't redirects, ${errors} failed`);
  return redirects;
}

export async function resolveBench(): Promise<Line[]> {
  const [big, small, bare] = [await cloudWith(MANY), await cloudWith(FEW), await startServer("./bare-redirect.ts", {})];
  const run = (url: string, count: number) => (ms: number) => load(url, count, ms);
  try {
    const redirects = await duel({ name: "resolve", run: run(small.url, FEW) }, { name: "bare redirect", run: run(bare.url, FEW) });
    const sizes = await duel({ name: "a million", run: run(big.url, MANY) }, { name: "a thousand", run: run(small.url, FEW) });
    return [
      ratioLine("resolve: a serial, against a bare fastify redirect", redirects, 0.5, "redirects"),
      ratioLine("resolve: with 1,000,000 serials in the store against 1,000", sizes, 1 / 1.3, "redirects"),
    ];
  } finally {
    await Promise.all([big.end(), small.end(), bare.end()]);
  }
}
