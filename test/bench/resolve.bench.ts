// The resolver: a serial resolved against a bare fastify redirect, and what a million serials in the store change.
import autocannon from "autocannon";
import { gtinOf } from "../../fixtures/gtin.ts";
import { manySerials } from "../../fixtures/many-rows.ts";
import { productMaker } from "../../fixtures/publishing.ts";
import { duel, inFull, lasting, type Line, ratioLine } from "./measure.ts";
import { cloudOn, freshFolder, startServer } from "./servers.ts";

const CONNECTIONS = 64;
const [FEW, MANY] = [inFull(1_000, 200), inFull(1_000_000, 200)];
const GTIN = gtinOf(1);

/** A cloud with one published product and so many serials of it. */
async function cloudWith(count: number) {
  const folder = freshFolder();
  const cloud = await cloudOn(folder);
  const { id } = await productMaker(cloud.admin)({ gtin: GTIN });
  await cloud.restart(() => manySerials(folder, id, count));
  return cloud;
}

let turn = 0;
async function load(url: string, count: number, ms: number): Promise<number> {
  const setupRequest = (request: autocannon.Request) => ({ ...request, path: `/01/${GTIN}/21/${(turn = (turn + 7_919) % count)}` });
  const result = await autocannon({ url, connections: CONNECTIONS, ...lasting(ms), requests: [{ setupRequest }] });
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
