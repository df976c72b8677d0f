// Reports that the cloud hasn't taken go before more is claimed, and not for ever.
import { expect, test } from "vitest";
import { arrearsOf } from "../../agent/arrears.ts";

const AWAY = { isThere: false, isMoving: false };
const REFUSED = { isThere: true, isMoving: false };

/** As many times as are needed until they don't go first any more. */
function triesOf(arrears: ReturnType<typeof arrearsOf>, how: { isThere: boolean; isMoving: boolean }): number {
  for (let n = 0; n < 100; n += 1) {
    if (!arrears.goFirst()) return n;
    arrears.heard();
    arrears.left(how);
  }
  return Infinity;
}

test("what waits from the run before goes first, until it is told", () => {
  const arrears = arrearsOf(true);
  expect([arrears.goFirst(), arrears.allTold(), arrears.goFirst(), arrears.allTold()]).toEqual([true, true, false, false]);
  expect(arrearsOf(false).goFirst()).toBe(false);
});

test("the cloud's first answer since they were sent is news where it was away, and none where it refused them itself", () => {
  const arrears = arrearsOf(false);
  arrears.left(AWAY);
  expect([arrears.heard(), arrears.heard()]).toEqual([true, false]);
  arrears.left(REFUSED);
  expect(arrears.heard()).toBe(false);
});

test("a cloud that answers all else, and never takes them, stops no claims for ever; one that takes some, or fewer at a time, is given the time", () => {
  for (const how of [AWAY, REFUSED]) expect(triesOf(arrearsOf(true), how)).toBe(5);
  expect(triesOf(arrearsOf(true), { isThere: true, isMoving: true })).toBe(Infinity);
});

test("a cloud that took none, was away and is back is told first again, and not where only what carries reports is cut off each time", () => {
  const arrears = arrearsOf(true);
  triesOf(arrears, REFUSED);
  for (let n = 0; n < 3; n += 1) arrears.left(AWAY);
  expect(arrears.goFirst()).toBe(false);
  arrears.away();
  expect(arrears.goFirst()).toBe(true);
});
