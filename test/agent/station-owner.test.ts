// One buffer, another device's key: what waits is said by whom it belongs to, or by nobody.
import { expect, onTestFinished, test } from "vitest";
import { printShop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";
import { floorOf, jobAt, netTo, sealed, stateInCloud, stationOn, until } from "./floor.ts";

const w = await world();

test.each(["of the same tenant", "of another tenant"])(
  "another device's key, %s, tells nothing of what waits, drops nothing, and says what to do; the right one tells it",
  async (whose) => {
    const shop = await printShop(w);
    const other = whose.includes("another") ? (await printShop(w)).device : await shop.newDevice("line 2");
    const net = await netTo({ onTestFinished }, w);
    const floor = await floorOf({ onTestFinished }, net.url, shop);
    const first = await stationOn({ onTestFinished }, floor);
    const { job_ref: ref } = await shop.issue();
    const heard: string[] = [];
    net.rule(({ path }) => (/result|heartbeat/.test(path) ? "cut" : "pass"));
    await until(() => jobAt(first, ref)?.state === "SCAN_VERIFIED");
    await first.end();
    net.rule(({ path }) => {
      heard.push(path);
      return "pass";
    });

    const foreign = await stationOn({ onTestFinished }, { ...floor, config: { ...floor.config, key: other.secret } });
    await until(() => foreign.state().stopped !== null);
    expect(foreign.state().stopped).toMatch(/the device "line 1" .* hasn't told yet.* start with a key of that device/);
    expect(foreign.state().jobs.map(({ state }) => state)).toEqual(["SCAN_VERIFIED"]);
    await foreign.end();
    expect(heard.filter((path) => /jobs|results|orphans|evidence/.test(path))).toEqual([]);
    expect(await stateInCloud(shop, ref)).toBe("CLAIMED");

    const again = await stationOn({ onTestFinished }, floor);
    await sealed(shop, ref);
    expect(again.state().stopped).toBe(null);
  },
);

test("where all is told the buffer goes on with the next device", async () => {
  const shop = await printShop(w);
  const floor = await floorOf({ onTestFinished }, w.url, shop);
  const first = await stationOn({ onTestFinished }, floor);
  const { job_ref: ref } = await shop.issue();
  await until(async () => (await stateInCloud(shop, ref)) === "SEALED" && first.state().recent.length === 1);
  await until(() => first.store.depth().pictures === 0);
  await first.end();
  const { secret } = await shop.newDevice("line 2");
  const next = await stationOn({ onTestFinished }, { ...floor, config: { ...floor.config, key: secret } });
  const { job_ref: more } = await shop.issue();
  await sealed(shop, more);
  expect(next.state().stopped).toBe(null);
});

test("and refuses none of its jobs for being signed for it, though the cloud can't say at first whose the key is", async () => {
  const shop = await printShop(w);
  const net = await netTo({ onTestFinished }, w);
  const floor = await floorOf({ onTestFinished }, net.url, shop);
  const first = await stationOn({ onTestFinished }, floor);
  await sealed(shop, (await shop.issue()).job_ref);
  await until(() => first.state().sealing === 0 && first.store.depth().pictures === 0);
  await first.end();
  const { secret } = await shop.newDevice("line 2");
  let asked = 0;
  net.rule(({ method, path }) => (method === "GET" && path.endsWith("/aidc/station") ? ((asked += 1), "cut") : "pass"));
  const next = await stationOn({ onTestFinished }, { ...floor, config: { ...floor.config, key: secret } });
  await until(() => asked > 3 && next.state().printers[0]?.status === "ready");
  net.rule(() => "pass");
  const { job_ref: ref } = await shop.issue();
  await until(async () => next.state().quarantine.length > 0 || (await stateInCloud(shop, ref)) === "SEALED");
  expect([next.state().quarantine, (await shop.admin.get(`/aidc/jobs/${ref}`)).body.attempt]).toEqual([[], 1]);
});
