// A station with two printers, one of which can't print: what it can't do doesn't keep the other waiting, and what the other may do it does.
import { describe, expect, test } from "vitest";
import { systemClock } from "../../agent/clock.ts";
import type { PrinterConfig } from "../../agent/config.ts";
import type { StationOptions } from "../../agent/station.ts";
import { startZplPrinter } from "../../fixtures/printers/zpl.ts";
import { startLineScanner } from "../../fixtures/scanners/line.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";
import { ask, floorOf, jobAt, netTo, stateInCloud, stationOn, statuses, until } from "./floor.ts";

const w = await world();
const isIn = (shop: Shop, ref: string, state: string) => until(async () => (await stateInCloud(shop, ref)) === state);

/** The second is as the first, but for what is said. */
async function twoPrinters(t: Parameters<typeof floorOf>[0], first: Partial<PrinterConfig> = {}, second: Partial<PrinterConfig> = {}) {
  const shop = await printShop(w);
  const other = await startZplPrinter({ scale: 0 });
  t.onTestFinished(other.stop);
  const floor = await floorOf(t, w.url, shop, { eyes: "hand", ...(first.rfid ? { rfid: true } : {}), config: first });
  const [one] = floor.config.printers;
  if (!one || !floor.machine) throw new Error("no printer");
  const { control: _control, ...plain } = one;
  floor.config.printers.push({ ...plain, name: "other", port: other.url, ...second });
  const start = async (more: Partial<StationOptions> = {}) => {
    const patience = { idleMs: 60_000, muteMs: 300, retryMs: [50, 100, 200], drainMs: 2_000 }; // no look but before a label
    const station = await stationOn(t, floor, { patience, ...more });
    return station;
  };
  return { shop, floor, machine: floor.machine, other, start };
}
const many = (shop: Shop, serials: string[], how: object) =>
  shop.admin.post("/aidc/jobs/batch", { items: serials.map((serial) => ({ gtin: shop.gtin, serial, ...how })) });

describe.concurrent("while one printer is off", () => {
  test("jobs with tags that only it could write stay in the cloud, and the other prints", async (t) => {
    const { shop, machine, start } = await twoPrinters(t, { rfid: true }, { rfid: false });
    machine.fault("power-off");
    await many(shop, await shop.allocate(10), { needs: ["qr", "rfid"], priority: 1 });
    const { job_ref: ref } = await shop.issue();
    const station = await start();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    expect(station.state().jobs.filter(({ needs }) => needs.includes("rfid"))).toEqual([]);
  });

  test("a job with a tag that was claimed before that is let go after minutes, though the other prints, so that another station may do it", async (t) => {
    const { shop, machine, start } = await twoPrinters(t, { rfid: true }, { rfid: false });
    let off = 0;
    const patience = { idleMs: 500, muteMs: 300, retryMs: [50, 100, 200], drainMs: 2_000 };
    const station = await start({ clock: { ...systemClock, now: () => Date.now() + off }, patience });
    await until(() => statuses(station) === "ready, ready");
    const needs = { needs: ["qr", "rfid"] };
    const { job_ref: first } = await shop.issue({ ...needs, priority: 1 });
    const { job_ref: ref } = await shop.issue(needs);
    await until(() => jobAt(station, first)?.stage === "printed" && jobAt(station, ref) !== undefined);
    machine.fault("power-off");
    await until(() => statuses(station).startsWith("offline"));
    const { job_ref: plain } = await shop.issue();
    await isIn(shop, plain, "PRINTED_ATTESTED");
    const ended = () => station.store.ofJob(ref)[0]?.ended;
    expect(ended()).toBe(null);
    off = 300_000;
    station.wake();
    await until(() => ended() !== null, 20_000);
    expect([ended(), jobAt(station, first)?.stage, machine.labels.length]).toEqual(["let go", "printed", 1]);
  });

  test("jobs that fit on its labels only don't fill the other's place", async (t) => {
    const { shop, machine, start } = await twoPrinters(
      t,
      { label: { widthMm: 100, heightMm: 50 } },
      { label: { widthMm: 50, heightMm: 25 } },
    );
    machine.fault("power-off");
    await many(shop, await shop.allocate(10), { template: "qr-100x50", priority: 1 });
    const { job_ref: ref } = await shop.issue();
    const station = await start();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    expect(jobAt(station, ref)?.printer).toBe("other");
  });

  test("a label that it has drawn and couldn't send is printed by the other, where that draws the same", async (t) => {
    const { shop, machine, other, start } = await twoPrinters(t);
    other.fault("head-open");
    const station = await start();
    await until(() => statuses(station) === "ready, blocked");
    machine.fault("dont-answer"); // its last look was good
    const { job_ref: ref } = await shop.issue();
    const isOff = () => station.state().printers[0]?.status === "offline"; // on a slow machine it looks once more
    await until(() => jobAt(station, ref)?.stage === "rendered" || isOff());
    machine.fault("power-off");
    other.clear();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    expect([machine.labels.length, other.labels.length, jobAt(station, ref)?.attempt]).toEqual([0, 1, 1]);
  });
});

test("jobs with tags that no printer of the settings writes any more are let go at the next start", async (t) => {
  const { shop, floor, machine, start } = await twoPrinters(t, { rfid: true }, { rfid: false });
  floor.config.claim.leaseSeconds = 5;
  const first = await start();
  await until(() => statuses(first) === "ready, ready");
  const needs = { needs: ["qr", "rfid"] } as const;
  const printed = await shop.issue({ ...needs, priority: 1 });
  await isIn(shop, printed.job_ref, "PRINTED_ATTESTED");
  const { job_ref: ref } = await shop.issue(needs);
  await until(() => jobAt(first, ref) !== undefined);
  await first.end();
  floor.config.printers.shift();
  const station = await start();
  const other = await shop.newDevice("line 2");
  await until(async () => (await other.api.post("/aidc/jobs/claim", { ...needs, station: "line-1" })).status === 200, 20_000);
  expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ attempt: 2, duplicate_risk: false });
  await until(() => jobAt(station, ref) === undefined);
  expect(machine.labels).toHaveLength(1);
});

test("a job of which both make sure at once is printed by one of them", async (t) => {
  const { shop, floor, machine, other, start } = await twoPrinters(t);
  const net = await netTo(t, w);
  floor.config.cloud = net.url;
  const inHand = [await shop.issue({ priority: 3 }), await shop.issue({ priority: 2 })];
  const { job_ref: ref, digital_link: text } = await shop.issue({ priority: 1 });
  const first = await start();
  for (const each of inHand) await isIn(shop, each.job_ref, "PRINTED_ATTESTED");
  await until(() => jobAt(first, ref) !== undefined && first.state().buffer_depth === 0);
  await first.end();
  const [asked, late] = [[] as string[], Promise.withResolvers<"pass">()];
  net.rule(({ path }) => (path.endsWith("/heartbeat") ? (asked.push(path), late.promise) : "pass"));
  const station = await start(); // which believes in no lease of the run before
  for (const each of inHand) await ask(station, "POST", "/api/scan", { text: each.digital_link });
  await until(() => asked.filter((path) => path.includes(ref)).length >= 2); // and once more for its lease to be kept
  late.resolve("pass");
  await isIn(shop, ref, "PRINTED_ATTESTED");
  await ask(station, "POST", "/api/scan", { text });
  await until(() => station.state().buffer_depth === 0);
  expect([machine.labels.length + other.labels.length, station.state().quarantine]).toEqual([3, []]);
  expect((await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body.items).toHaveLength(4); // drawn once, and sent once
  expect(await stateInCloud(shop, ref)).toBe("SEALED");
});

test("a label that waits for its tag to be read goes on waiting while the other printer's is scanned", async (t) => {
  const { shop, floor, start } = await twoPrinters(t, { rfid: true }, { rfid: false });
  const reader = await startLineScanner();
  t.onTestFinished(reader.end);
  Object.assign(floor.config.scanners[0] ?? {}, { simulated: false });
  floor.config.scanners.push({ name: "gate", driver: "rfid", port: reader.url ?? "", simulated: true });
  const tagged = await shop.issue({ needs: ["qr", "rfid"] });
  const station = await start();
  await isIn(shop, tagged.job_ref, "PRINTED_ATTESTED");
  const plain = await shop.issue();
  await isIn(shop, plain.job_ref, "PRINTED_ATTESTED");
  await until(() => station.state().scanners.every(({ up }) => up));
  await floor.scanner?.scan(tagged.digital_link);
  await until(() => station.state().scanners[0]?.last?.words.includes("tag has to be read") ?? false);
  await floor.scanner?.scan(plain.digital_link);
  await isIn(shop, plain.job_ref, "SEALED");
  await reader.scan(`${tagged.sgtin96_epc},${floor.machine?.labels.at(-1)?.tag?.tid}`);
  await isIn(shop, tagged.job_ref, "SEALED");
  const { items } = (await shop.admin.get(`/aidc/jobs/${tagged.job_ref}/evidence`)).body;
  expect(items[3].evidence.scan_result).toMatchObject({ rfid: { reader: "independent" }, simulated: true }); // by its reader
  await until(() => station.state().sealing === 0);
  expect(station.state().ledger.counts).toEqual({ sealed: 2 });
});
