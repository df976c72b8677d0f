// A clock that somebody puts by an hour: what was measured by it goes on as it was, and it finds its way to the new time.
import { expect, test } from "vitest";
import { steady } from "../../agent/clock.ts";

const HOUR_MS = 3_600_000;
const AT = 1_795_000_000_000;

function put() {
  let [skew, passed] = [0, 0];
  const clock = steady(
    () => AT + passed + skew,
    () => passed,
  );
  return { clock, later: (ms: number) => void (passed += ms), put: (ms: number) => void (skew = ms), wall: () => AT + passed + skew };
}

test("while nobody puts it, it is the system's", () => {
  const { clock, later, wall } = put();
  for (const ms of [0, 1, 10, 10_000]) {
    later(ms);
    expect(clock.now()).toBe(wall());
  }
});

test.each([HOUR_MS, -HOUR_MS])("put by %i ms, a minute stays a minute, give or take a tenth, and it never runs backwards", (ms) => {
  const { clock, later, put: putBy } = put();
  const before = clock.now();
  putBy(ms);
  let last = clock.now();
  expect(last).toBe(before);
  for (let i = 0; i < 60; i += 1) {
    later(1_000);
    expect(clock.now()).toBeGreaterThan(last);
    last = clock.now();
  }
  expect(Math.abs(last - before - 60_000)).toBeLessThanOrEqual(6_000);
});

test("it gets there", () => {
  const { clock, later, put: putBy, wall } = put();
  putBy(-20_000);
  for (let i = 0; i < 250; i += 1) {
    later(1_000);
    clock.now();
  }
  expect(clock.now()).toBe(wall());
});
