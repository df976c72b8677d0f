// The whole way on either engine: a serial becomes a job, a station prints, scans and seals it, and whoever asks finds the same truth everywhere.
import { expect, test } from "vitest";
import { printShop } from "../../fixtures/print-shop.ts";
import { broken, type Moment } from "../print-checker.ts";
import { world } from "../world.ts";
import { running, until } from "../agent/floor.ts";

const w = await world();

test("two stations share a pool: every label is printed once, sealed once, commissioned, and its evidence is in the log", async (t) => {
  const shop = await printShop(w);
  const items = (await shop.allocate(10)).map((serial) => ({ gtin: shop.gtin, serial }));
  const { jobs } = (await shop.admin.post("/aidc/jobs/batch", { items })).body;
  const stations = [await running(t, w.url, shop), await running(t, w.url, { ...shop, device: await shop.newDevice("line 2") })];
  const sealed = () => stations.reduce((sum, station) => sum + (station.state().ledger.counts["sealed"] ?? 0), 0);
  await until(() => sealed() === 10);

  const links = (await Promise.all(stations.map(({ floor }) => floor.links()))).flat();
  expect(links.toSorted()).toEqual(jobs.map(({ digital_link }: { digital_link: string }) => digital_link).toSorted());
  for (const { job_ref: ref, serial, digital_link: link } of jobs) {
    const history = (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body.data as Moment[];
    const { metadata } = (await shop.admin.get(`/carriers/${serial}`)).body;
    const answered = history
      .filter(({ attempt_id, to }) => attempt_id !== null && to !== "CLAIMED")
      .map(({ attempt_id, to }) => ({ attempt_id: attempt_id ?? "", status: to, moved: true }));
    expect(broken({ history, answered, print: metadata.print.status })).toEqual([]);
    const { sha256, proof } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(proof.entry).toMatchObject({ kind: "print_bundle", digest: sha256 });
    const events = (await shop.admin.get(`/epcis/events?MATCH_epc=${encodeURIComponent(link)}&EQ_bizStep=commissioning`)).body;
    expect(events.epcisBody.queryResults.resultsBody.eventList).toHaveLength(1);
  }
  const heard = async () => (await shop.admin.get(`/devices/${shop.device.id}`)).body;
  await expect
    .poll(heard, { timeout: 30_000 })
    .toMatchObject({ status: "online", version: "0.1.0", printers: [{ name: "printer", status: "ready" }] });
});
