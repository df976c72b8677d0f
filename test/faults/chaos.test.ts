// Anything at any time: a seed breaks lines, printers, clocks, stations, the cloud and its receivers by chance; then all is mended, and the invariants I1 to I16 hold.
// CHAOS_SEED=N repeats a run; npm run soak has the long forms.
import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { runChaos } from "../chaos.ts";

const SEED = process.env["CHAOS_SEED"];
const SEEDS = SEED === undefined ? [1, randomInt(2 ** 31)] : [Number(SEED)];
const PACE = { everyMs: 500, lastsMs: 1_200, forMs: 8_000 };

test.each(SEEDS)("on SQLite, seed %i: whatever happens, no invariant breaks", { timeout: 240_000 }, async (seed) => {
  const { broken, told, history, seconds } = await runChaos({ seed, pace: PACE, load: { labelsPerSecond: 2 } });
  const retried = history.calls.filter(({ tries }) => tries.length > 1).length;
  process.stderr.write(
    `chaos: seed ${seed}: ${told.length} misfortunes, ${history.jobs.length} labels, ${history.calls.length} calls of which ${retried} were retried, ${Math.round(seconds)} s\n`,
  );
  expect(broken, `CHAOS_SEED=${seed}\n${told.join("\n")}`).toEqual([]);
  expect(history.jobs.length).toBeGreaterThan(0); // it worked at all, or nothing was proven
  expect(history.asked.length).toBeGreaterThan(0);
});
