// The soak in its shortest form: two minutes at 60 % of what the floor can do. SOAK_MINUTES=30 makes a long one of it, CHAOS_SEED repeats one.
import { randomInt } from "node:crypto";
import { describe, expect, test } from "vitest";
import { gainsOf, MIB, soak, tooMuch } from "../soak.ts";

const SEED = Number(process.env["CHAOS_SEED"] ?? randomInt(2 ** 31));
const MINUTES = Number(process.env["SOAK_MINUTES"] ?? 2);

test(
  `for ${MINUTES} minutes, seed ${SEED}: no invariant breaks, and neither memory, WAL nor files grow`,
  { timeout: 300_000 + MINUTES * 120_000 },
  async () => {
    const { broken, told, history, gains, seconds } = await soak({ seed: SEED, minutes: MINUTES });
    process.stderr.write(
      `soak: seed ${SEED}: ${told.length} misfortunes, ${history.jobs.length} labels, heap and RSS gained ${Object.values(gains[0] ?? {})
        .map((bytes) => Math.round(bytes / MIB))
        .join(" and ")} MiB, ${Math.round(seconds)} s\n`,
    );
    expect(broken, `CHAOS_SEED=${SEED}\n${told.join("\n")}`).toEqual([]);
  },
);

describe("memory", () => {
  const looks = 300;
  const at = (heap: number, rss: number) => ({ heapBytes: heap * MIB, rssBytes: rss * MIB });
  /** Garbage for a minute, then collected. */
  const sawtooth = (i: number) => 50 + (i % 30);
  const judged = (heap: (i: number) => number, rss: (i: number) => number) =>
    tooMuch(gainsOf(Array.from({ length: looks }, (_, i) => at(heap(i), rss(i)))));

  test("that comes and goes, or falls and comes back, isn't a leak", () => {
    expect(judged(sawtooth, (i) => 200 + (i % 30))).toEqual([]);
    expect(judged(sawtooth, (i) => 195 + (45 * Math.abs(i - 150)) / 150)).toEqual([]);
  });
  test("that is never given back is one, within the heap and outside of it", () => {
    const [inHeap, outside] = [(i: number) => sawtooth(i) + (40 * i) / looks, (i: number) => 200 + (80 * i) / looks];
    expect(judged(inHeap, () => 240)).toEqual([expect.stringMatching(/heap memory still grew by 20 MiB/)]);
    expect(judged(sawtooth, outside)).toEqual([expect.stringMatching(/resident memory still grew by 40 MiB/)]);
  });
});
