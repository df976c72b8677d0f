// Figures of the benches: where nothing was measured there is none that could meet a target.
import { expect, test } from "vitest";
import { median, percentile } from "../bench/measure.ts";

test("a share of what was measured is one of the values, in whatever order they came; of nothing it meets no target", () => {
  expect([median([30, 10, 20]), percentile([30, 10, 20], 0.99)]).toEqual([20, 30]);
  for (const none of [median([]), percentile([], 0.99)]) expect([none <= 1, none >= 1]).toEqual([false, false]);
});
