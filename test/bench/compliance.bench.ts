// Compliance: one product judged by all packs and stored, and what others feel while a thousand are.
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../../fixtures/client.ts";
import { exemplary } from "../../fixtures/compliance.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { inFull, type Line, median } from "./measure.ts";
import { cloudOn } from "./servers.ts";

const MANY = inFull(1_000, 20);
const SINGLES = inFull(100, 5);
const ROUNDS = inFull(8, 1);
const SINGLE_MAX_MS = 5;
const BLOCK_MAX_MS = 20;

/** Milliseconds in the quietest round: what else runs on the machine can only add to them. */
const line = (name: string, rounds: number[], most: number): Line => ({
  name: `compliance: ${name}`,
  figure: `${Math.min(...rounds).toFixed(1)} ms in the quietest of ${rounds.length} rounds (${rounds.map((ms) => ms.toFixed(0)).join(", ")})`,
  target: `at most ${most} ms`,
  met: Math.min(...rounds) <= most,
});

let n = 0;
/** Ids of new products, which nobody has judged yet. */
async function products(admin: Client): Promise<string[]> {
  const from = n;
  const items = Array.from({ length: MANY }, () => ({ ...exemplary.electronics, gtin: gtinOf((n += 1)), serialNumber: `B-${n}` }));
  const { body } = await admin.post("/products/batch", { items });
  if (body.created !== MANY) throw new Error(`${body.created} of ${MANY} products were created`);
  const ids: string[] = [];
  for (let cursor = ""; ids.length < n - from;) {
    const page = (await admin.get(`/products?limit=200${cursor}`)).body;
    ids.push(...page.data.map(({ id }: { id: string }) => id));
    cursor = `&cursor=${page.nextCursor}`;
  }
  return ids;
}

async function single(admin: Client, ids: string[]): Promise<number> {
  const times: number[] = [];
  for (const id of ids) {
    const began = performance.now();
    const { body } = await admin.get(`/products/${id}/compliance`);
    times.push(performance.now() - began);
    if (body.data.length < 6) throw new Error(`judged in ${body.data.length} sectors only`);
  }
  return median(times);
}

/** The slowest answer to somebody who asks for something small again and again while the batch is worked off. */
async function slowestPing(admin: Client, work: Promise<unknown>): Promise<number> {
  let done = false;
  const ended = work.finally(() => (done = true));
  let worst = 0;
  while (!done) {
    const began = performance.now();
    await admin.get("/tenant");
    if (!done) worst = Math.max(worst, performance.now() - began);
    await sleep(1);
  }
  await ended;
  return worst;
}

export async function complianceBench(): Promise<Line[]> {
  const { admin, end } = await cloudOn();
  try {
    const [medians, blocks, seconds]: [number[], number[], number[]] = [[], [], []];
    for (let round = 0; round < ROUNDS; round += 1) {
      medians.push(await single(admin, (await products(admin)).slice(0, SINGLES)));
      const productIds = await products(admin);
      const began = performance.now();
      const batch = admin.post("/compliance/evaluations", { productIds }).then(({ status, text }) => {
        seconds.push((performance.now() - began) / 1000);
        if (status !== 200) throw new Error(text);
      });
      blocks.push(await slowestPing(admin, batch));
    }
    return [
      line("one product judged by all packs, over HTTP, stored durably: the median of a round", medians, SINGLE_MAX_MS),
      line(
        `the slowest answer to others while ${MANY} products are judged by all packs in ${Math.min(...seconds).toFixed(1)} s`,
        blocks,
        BLOCK_MAX_MS,
      ),
    ];
  } finally {
    await end();
  }
}
