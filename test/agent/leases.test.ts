// What a broker names to a station as perhaps cancelled costs no more the more of it there is.
import { expect, test } from "vitest";
import { leasesOf } from "../../agent/leases.ts";

const LEASE_SECONDS = 60;
const ref = (n: number) => `pj_${String(n).padStart(26, "0")}`;

test("a flood of named jobs is taken in passing, also once what was named first is over", async () => {
  let [time, looks] = [0, 0];
  const clock = { now: () => ((looks += 1), time), after: () => () => {} };
  const store = { inHand: () => [], unheard: () => [], fault: () => null };
  const leases = leasesOf({ config: { claim: { leaseSeconds: LEASE_SECONDS } }, floor: { clock, store } } as never);
  const flood = (from: number, count: number) => {
    looks = 0;
    for (let n = from; n < from + count; n += 1) leases.doubt(ref(n));
    return looks / count;
  };
  const few = flood(0, 10);
  expect(flood(0, 5_000)).toBeLessThanOrEqual(few);
  time += LEASE_SECONDS * 1_000 + 1;
  expect(flood(5_000, 5_000)).toBeLessThanOrEqual(few);
  await leases.end();
});
