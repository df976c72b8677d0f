// Passports: a thousand asked for at once, and what those who read meanwhile notice of it.
import type { Client } from "../../fixtures/client.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { readyProduct } from "../../fixtures/passports.ts";
import { inFull, type Line, percentile } from "./measure.ts";
import { cloudOn } from "./servers.ts";

const PASSPORTS = inFull(1_000, 20);
const ASKERS = 32;
const READERS = 4;
const TARGET = { seconds: 20, p99Ms: 50 };

/** So many at once until all are through. */
async function each<Item, Result>(items: Item[], atOnce: number, act: (item: Item) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  const waiting = items.entries();
  const one = async () => {
    for (const [i, item] of waiting) results[i] = await act(item);
  };
  await Promise.all(Array.from({ length: atOnce }, one));
  return results;
}

/** Reads one after another until told to stop; how long each took. */
async function reading(admin: Client, ids: string[], over: () => boolean): Promise<number[]> {
  const took: number[] = [];
  for (let i = 0; !over(); i = (i + 1) % ids.length) {
    const began = performance.now();
    const { status } = await admin.get(`/products/${ids[i]}`);
    if (status !== 200) throw new Error(`a read answered ${status}`);
    took.push(performance.now() - began);
  }
  return took;
}

export async function passportsBench(): Promise<Line[]> {
  const { admin, end } = await cloudOn();
  const extensions = { energyEfficiencyClass: "A", repairabilityScore: 7.5, hazardousSubstances: ["lead"], recycledContentPercentage: 30 };
  const numbers = Array.from({ length: PASSPORTS }, (_, i) => i);
  const productIds = await each(numbers, ASKERS, (i) => readyProduct(admin, { gtin: gtinOf(i), extensions }));

  let over = false;
  const began = performance.now();
  const readers = Promise.all(Array.from({ length: READERS }, () => reading(admin, productIds, () => over)));
  await each(productIds, ASKERS, (productId) => admin.post("/passports/generate", { productId }));
  while ((await admin.get("/passports?status=generating&limit=1")).body.data.length > 0);
  const seconds = (performance.now() - began) / 1000;
  over = true;
  const took = (await readers).flat();
  const p99 = percentile(took, 0.99);
  await end();
  return [
    {
      name: `passports: ${PASSPORTS.toLocaleString("en-US")} asked for, signed and there`,
      figure: `${seconds.toFixed(1)} s`,
      target: `under ${TARGET.seconds} s`,
      met: seconds < TARGET.seconds,
    },
    {
      name: `passports: reads meanwhile, ${READERS} at once, 99 of 100`,
      figure: `${p99.toFixed(1)} ms of ${took.length.toLocaleString("en-US")}`,
      target: `at most ${TARGET.p99Ms} ms`,
      met: p99 <= TARGET.p99Ms,
    },
  ];
}
