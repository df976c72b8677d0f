// Anything at any time: a seed breaks lines, printers, clocks, stations, the cloud and its receivers by chance; then all is mended, and the invariants I1 to I16 hold.
// CHAOS_SEED=N repeats a run; npm run soak has the long forms.
import { randomInt } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startSite } from "../../fixtures/chaos/site.ts";
import { lying } from "../../fixtures/person.ts";
import { until } from "../agent/floor.ts";
import { drained, ready, runChaos } from "../chaos.ts";

const SEED = process.env["CHAOS_SEED"];
const SEEDS = SEED === undefined ? [1, randomInt(2 ** 31)] : [Number(SEED)];
const PACE = { everyMs: 500, lastsMs: 1_200, forMs: 8_000 };

test.each(SEEDS)("on SQLite, seed %i: whatever happens, no invariant breaks", { timeout: 480_000 }, async (seed) => {
  const { broken, told, history, seconds } = await runChaos({ seed, pace: PACE, load: { labelsPerSecond: 2 } });
  const retried = history.calls.filter(({ tries }) => tries.length > 1).length;
  process.stderr.write(
    `chaos: seed ${seed}: ${told.length} misfortunes, ${history.jobs.length} labels, ${history.calls.length} calls of which ${retried} were retried, ${Math.round(seconds)} s\n`,
  );
  expect(broken, `CHAOS_SEED=${seed}\n${told.join("\n")}`).toEqual([]);
  expect(history.jobs.length).toBeGreaterThan(0); // it worked at all, or nothing was proven
  expect(history.asked.length).toBeGreaterThan(0);
});

test("it isn't over as long as a station asks for the label of a job that is", { timeout: 480_000 }, async (t) => {
  const site = await startSite({ seed: 1, stations: [1] });
  t.onTestFinished(site.end);
  const [[tenant], [line]] = [site.tenants, site.lines];
  if (!tenant || !line) throw new Error("nobody works there");
  await ready(site);
  line.floor.machine?.fault("fence-never");
  const { serial } = await tenant.issue({ needs: ["qr", "rfid"] }); // its tag is read by nobody, so that no scan seals it
  const isAsked = async (kind: string) => (await line.state())?.jobs[0]?.ask?.kind === kind;
  await until(() => isAsked("unknown_outcome"));
  await tenant.admin.post(`/products/${tenant.product.id}/void`, { reason: "recalled", serial });
  await until(async () => (await isAsked("destroy_earlier")) && (await line.state())?.buffer_depth === 0);
  line.floor.machine?.clear();
  let isOver = false;
  const end = drained(site, new Set()).then(async (stuck) => {
    isOver = true;
    return { stuck, jobs: (await line.state())?.jobs, lying: await lying(line) };
  });
  await sleep(1_000); // until a person has the time
  while (!isOver) {
    await line.lookAfter();
    await sleep(100);
  }
  expect(await end).toEqual({ stuck: [], jobs: [], lying: [] });
  expect(line.destroyed.size).toBe(1);
});
