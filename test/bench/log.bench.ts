// The transparency log: appends a second, and what a proof costs in a log of a thousand leaves and in one of a million.
import { rmSync } from "node:fs";
import * as log from "../../cloud/domain/log.ts";
import { openKeys } from "../../cloud/keys.ts";
import { openSeal } from "../../cloud/seal.ts";
import { storeAt } from "../../fixtures/many-rows.ts";
import { callers, duel, inFull, type Line, ratioLine } from "./measure.ts";
import { freshFolder } from "./servers.ts";

const SIZES = { big: inFull(1_000_000, 2_000), small: 1_000 };
const APPENDING_MS = inFull(3_000, 100);
const SLICE = 2_000;
const CALLERS = 64;
const digestOf = (n: number) => n.toString(16).padStart(64, "0");

async function logOf(leaves: number) {
  const folder = freshFolder();
  const store = await storeAt({ dataDir: folder });
  const signing = { keys: await openKeys(store, folder, await openSeal(store, folder, [])), origin: () => "http://bench.example" };
  let size = 0;
  const append = () => store.write("append", (tx) => log.append(tx, { kind: "passport", digest: digestOf(size++) }));
  while (size < leaves)
    await store.write("fill", async (tx) => {
      for (const end = Math.min(size + SLICE, leaves); size < end; size += 1)
        await log.append(tx, { kind: "passport", digest: digestOf(size) });
    });
  let asked = 0;
  const prove = async (ms: number) =>
    callers(1, ms, () => {
      asked = (asked + 7_919) % leaves;
      return store.read("prove", (tx) => log.prove(tx, digestOf(asked), signing));
    });
  const end = async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  };
  return { append, prove, end };
}

export async function logBench(): Promise<Line[]> {
  const [big, small] = [await logOf(SIZES.big), await logOf(SIZES.small)];
  const proofs = await duel({ name: "a million leaves", run: big.prove }, { name: "a thousand", run: small.prove });
  const began = performance.now();
  const appended = await callers(CALLERS, APPENDING_MS, big.append);
  const rate = appended / ((performance.now() - began) / 1000);
  await big.end();
  await small.end();
  return [
    ratioLine("log: proofs in a log of 1,000,000 leaves against one of 1,000", proofs, 1 / 3, "proofs"),
    {
      name: `log: appends, a durable unit each, ${CALLERS} callers`,
      figure: `${Math.round(rate).toLocaleString("en-US")} a second`,
      target: "at least 5,000",
      met: rate >= 5_000,
    },
  ];
}
