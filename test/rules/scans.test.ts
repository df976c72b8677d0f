// Scans wait in memory: never more than the limit, the rest is counted, and what is taken is taken in order.
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import { createMetrics } from "../../cloud/metrics.ts";
import { scanQueue } from "../../cloud/workers/scan-recorder.ts";

const scan = (at: number) => ({ tenantId: "t", productId: "p", gtin: "g", serial: "s", at, agent: "program" as const, requestId: "r" });

test("the queue of scans holds its limit, drops and counts what comes beyond it, and has room again once some were taken", async () => {
  const metrics = createMetrics();
  const scans = scanQueue(metrics);
  for (let at = 0; at < limits.SCAN_QUEUE_MAX_ITEMS + 3; at += 1) scans.add(scan(at));
  expect(await metrics.text()).toMatch(new RegExp(`scans_waiting ${limits.SCAN_QUEUE_MAX_ITEMS}\n[^]*scans_dropped 3\n`));
  expect(scans.take(2).map(({ at }) => at)).toEqual([0, 1]);
  scans.add(scan(-1));
  const rest = scans.take(limits.SCAN_QUEUE_MAX_ITEMS);
  expect([rest.length, rest[0]?.at, rest.at(-1)?.at]).toEqual([limits.SCAN_QUEUE_MAX_ITEMS - 1, 2, -1]);
  expect(scans.take(1)).toEqual([]);
});

test("scans that couldn't be written wait again before the others, as far as there is room; those that can't ever be are counted", async () => {
  const metrics = createMetrics();
  const scans = scanQueue(metrics);
  for (let at = 0; at < limits.SCAN_QUEUE_MAX_ITEMS; at += 1) scans.add(scan(at));
  const taken = scans.take(3);
  scans.add(scan(-1));
  scans.giveBack(taken, false);
  expect(scans.take(3).map(({ at }) => at)).toEqual([0, 1, 3]);
  scans.giveBack(taken, true);
  expect(await metrics.text()).toContain("\nscans_dropped 4\n");
});
