// What a station doesn't believe, what it can't write down, and labels that nobody ordered.
import { generateKeyPairSync, sign } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { startDevice } from "../../fixtures/device.ts";
import { startZplPrinter } from "../../fixtures/printers/zpl.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startLineScanner } from "../../fixtures/scanners/line.ts";
import { world } from "../world.ts";
import {
  ask,
  asked,
  type Ends,
  floorOf,
  HASTY,
  jobAt,
  lineOf,
  movesOf,
  netTo,
  type Running,
  running,
  say,
  sealed,
  sealedHere,
  setBack,
  stateInCloud,
  stationOn,
  statuses,
  until,
} from "./floor.ts";

const w = await world();

/** The same words in another's hand. */
function signedAnew(envelope: string, kid?: string): string {
  const [head = "", words] = envelope.split(".");
  const said = JSON.parse(Buffer.from(head, "base64url").toString("utf8")) as object;
  const signed = `${Buffer.from(JSON.stringify(kid === undefined ? said : { ...said, kid })).toString("base64url")}.${words}`;
  return `${signed}.${sign(null, Buffer.from(signed), generateKeyPairSync("ed25519").privateKey).toString("base64url")}`;
}

describe.concurrent("an envelope that isn't the cloud's word to this device", () => {
  type Claim = { attempt_id: string; envelope: string; job: Record<string, unknown> };
  const tampering: [what: string, how: (claim: Claim) => Claim, why: RegExp][] = [
    ["a serial changed beside it", (claim) => ({ ...claim, job: { ...claim.job, serial: "1" } }), /another serial/],
    ["a link changed beside it", (claim) => ({ ...claim, job: { ...claim.job, digital_link: "http://evil.example/01/1/21/1" } }), /another digital_link/],
    ["another attempt", (claim) => ({ ...claim, attempt_id: "019a0000-0000-7000-8000-000000000000" }), /another attempt_id/],
    ["its risk hidden", (claim) => ({ ...claim, job: { ...claim.job, duplicate_risk: true } }), /another duplicate_risk/],
    ["a bit of its signature", (claim) => ({ ...claim, envelope: claim.envelope.slice(0, -6) + (claim.envelope.endsWith("AAAAAA") ? "BBBBBB" : "AAAAAA") }), /signature/],
    ["no signature", (claim) => ({ ...claim, envelope: `${Buffer.from('{"alg":"none","typ":"imprimatur-job+jwt"}').toString("base64url")}.${claim.envelope.split(".")[1]}.` }), /alg/],
    ["a key that the cloud hasn't published", (claim) => ({ ...claim, envelope: signedAnew(claim.envelope, "stranger") }), /no applicable key/],
    ["a stranger's key under the cloud's name", (claim) => ({ ...claim, envelope: signedAnew(claim.envelope) }), /signature/],
    ["half of it", (claim) => ({ ...claim, envelope: claim.envelope.slice(0, 40) }), /Invalid Compact JWS/],
    ["a text", (claim) => ({ ...claim, envelope: "please print this" }), /Invalid Compact JWS/],
  ]; // oxfmt-ignore
  test.for(tampering)("%s: nothing is printed, and people can see it", async ([, how, why], t) => {
    const shop = await printShop(w);
    const net = await netTo(t, w);
    net.alter(({ path }, answer) => {
      if (!path.endsWith("/claim/batch")) return answer;
      const { claims } = JSON.parse(answer) as { claims: Claim[] };
      return JSON.stringify({ claims: claims.map(how) });
    });
    const station = await running(t, net.url, shop);
    await shop.issue();
    await until(() => station.state().quarantine.length > 0);
    expect(station.state().quarantine[0]).toMatchObject({ code: "ENVELOPE_REFUSED", message: expect.stringMatching(why) });
    expect(station.state().jobs).toEqual([]);
    expect(await station.floor.links()).toEqual([]);
  });

  test("is none of these where the cloud signs with a new key: its keys are asked for anew, and the label is printed", async (t) => {
    const shop = await printShop(w);
    const net = await netTo(t, w);
    let told = 0;
    net.alter(({ path }, answer) =>
      path.endsWith("/jwks.json") && (told += 1) === 1 ? answer.replaceAll(/"kid":"[^"]+"/g, '"kid":"yesterday\'s"') : answer,
    );
    const station = await running(t, net.url, shop);
    await sealed(shop, (await shop.issue()).job_ref);
    expect([told, station.state().quarantine]).toEqual([2, []]);
  });

  test("nor where the cloud's new keys can't be had at once: the claim is asked for again", async (t) => {
    const shop = await printShop(w);
    const net = await netTo(t, w);
    let told = 0;
    net.rule(({ path }) => (path.endsWith("/jwks.json") && (told += 1) === 2 ? { status: 503, code: "OVERLOADED" } : "pass"));
    net.alter(({ path }, answer) =>
      path.endsWith("/jwks.json") && told === 1 ? answer.replaceAll(/"kid":"[^"]+"/g, '"kid":"yesterday\'s"') : answer,
    );
    const station = await running(t, net.url, shop);
    const { job_ref: ref } = await shop.issue();
    await sealed(shop, ref);
    expect([told, station.state().quarantine, (await shop.admin.get(`/aidc/jobs/${ref}`)).body.attempt]).toEqual([3, [], 1]);
  });

  test("one for another device", async (t) => {
    const shop = await printShop(w);
    const other = await shop.newDevice("line 2");
    const net = await netTo(t, w);
    const { job_ref: ref } = await shop.issue();
    const stolen = await other.claim();
    net.alter(({ path }, answer) =>
      path.endsWith("/claim/batch")
        ? JSON.stringify({ claims: [{ lease: { device_id: other.id, expires_at: new Date().toISOString() }, ...stolen }] })
        : answer,
    );
    const station = await running(t, net.url, shop);
    await until(() => station.state().quarantine.length > 0);
    expect(station.state().quarantine[0]).toMatchObject({ job_ref: ref, message: expect.stringContaining("aud") });
    expect(await station.floor.links()).toEqual([]);
  });
});

describe.concurrent("labels", () => {
  test("one that doesn't fit isn't printed: the attempt fails with the reason", async (t) => {
    const { shop, station } = await lineOf(t, w);
    const { job_ref: ref } = await shop.issue({ template: "poster", max_attempts: 1 });
    await until(async () => ["FAILED", "DEAD_LETTER"].includes(await stateInCloud(shop, ref)));
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body.reason).toContain("there is no template poster");
    expect(await station.floor.links()).toEqual([]);
  });

  test("one that fits on the labels of one printer only goes to that one, and the others' lanes leave it alone", async (t) => {
    const shop = await printShop(w);
    const big = await startZplPrinter({ scale: 0, widthMm: 100, heightMm: 50 });
    t.onTestFinished(big.stop);
    const floor = await floorOf(t, w.url, shop, { eyes: "hand", config: { label: { widthMm: 25, heightMm: 25 } } });
    const [small] = floor.config.printers;
    if (!small) throw new Error("no printer");
    const { control: _control, ...plain } = small;
    floor.config.printers.push({ ...plain, name: "big", port: big.url, label: { widthMm: 100, heightMm: 50 } });
    big.fault("head-open"); // the other is free long before it
    const station = await stationOn(t, floor);
    await until(() => statuses(station) === "ready, blocked");
    const { job_ref: ref } = await shop.issue({ template: "qr-100x50", max_attempts: 1 });
    const { job_ref: poster } = await shop.issue({ template: "poster", max_attempts: 1 });
    await until(async () => ["FAILED", "DEAD_LETTER"].includes(await stateInCloud(shop, poster))); // it fits nowhere
    expect(station.state().jobs).toMatchObject([{ job_ref: ref, stage: "waiting", printer: null }]);
    big.clear();
    await until(async () => (await stateInCloud(shop, ref)) === "PRINTED_ATTESTED");
    expect([floor.machine?.labels.length, big.labels.length]).toEqual([0, 1]);
  });

  test("one that the printer's language can't carry fails with the reason, and the lane goes on", async (t) => {
    const shop = await printShop(w);
    const config = { dpi: 600, label: { widthMm: 100, heightMm: 50 } } as const;
    const station = await running(t, w.url, shop, { language: "escpos", eyes: "hand", config });
    const wide = await shop.issue({ template: "qr-100x50", max_attempts: 1, priority: 2 });
    const narrow = await shop.issue({ template: "qr-50x25", priority: 1 });
    await until(async () => (await stateInCloud(shop, narrow.job_ref)) === "PRINTED_ATTESTED");
    await until(async () => ["FAILED", "DEAD_LETTER"].includes(await stateInCloud(shop, wide.job_ref)));
    const { reason, duplicate_risk: risk } = (await shop.admin.get(`/aidc/jobs/${wide.job_ref}`)).body;
    expect([reason, risk]).toEqual([expect.stringContaining("dots wide, and ESC/POS rasters end at 2040"), false]);
    expect(station.floor.machine?.labels).toHaveLength(1);
  });

  test("aren't claimed for a printer that answers and can't print, not even while it is first looked at", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref } = await shop.issue();
    const floor = await floorOf(t, w.url, shop, { eyes: "hand" });
    floor.machine?.fault("head-open");
    const station = await stationOn(t, floor);
    await until(() => statuses(station) === "blocked");
    expect(await movesOf(shop, ref)).toEqual(["QUEUED"]);
    floor.machine?.clear();
    await until(async () => (await stateInCloud(shop, ref)) === "PRINTED_ATTESTED");
  });

  test("that come out without a job of ours are counted, and explained by a person", async (t) => {
    const { shop, station } = await lineOf(t, w);
    const { job_ref: ref } = await shop.issue();
    await sealed(shop, ref);
    await until(() => station.store.meta("odometer:printer") !== "null" && station.state().printers[0]?.job_ref === null);
    const machine = station.floor.machine;
    if (machine) machine.counters.labels += 2; // somebody pressed feed, twice
    await until(() => station.state().ledger.counts["unexplained"] === 2);
    const [label] = station.state().ledger.open;
    const session = (await ask(station, "POST", "/api/operator", { badge: "B-0007" })).body.session as string;
    expect((await ask(station, "POST", `/api/labels/${label?.n}/explain`, { words: "test print", session })).status).toBe(200);
    expect(station.state().ledger.counts).toMatchObject({ unexplained: 1, explained: 1, sealed: 1 });
  });

  test("of a printer that told its counter and no longer does wait for it, also after a restart: its answer alone isn't believed", async (t) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop);
    const { machine } = floor;
    const first = await stationOn(t, floor);
    await until(() => statuses(first) === "ready");
    machine?.fault("no-counter");
    const { job_ref: ref } = await shop.issue();
    const isSilent = async (station: Running) => {
      await until(() => statuses(station) === "offline" && jobAt(station, ref) !== undefined);
      expect(station.state().printers[0]?.words).toContain("no longer tells its label counter");
    };
    await isSilent(first);
    await first.end();
    const station = await stationOn(t, floor);
    await isSilent(station);
    expect(machine?.labels).toEqual([]);
    machine?.clear();
    await sealed(shop, ref);
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body as { items: { evidence?: { completion?: object } }[] };
    expect(items.flatMap(({ evidence }) => evidence?.completion ?? [])).toMatchObject([{ grade: "A" }]);
  });

  test("of another printer in its place, which says that it is another, don't wait for a counter that it never had", async (t) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop);
    const first = await stationOn(t, floor);
    await until(() => statuses(first) === "ready");
    await first.end();
    const other = await startZplPrinter({ scale: 0, dpi: 300, counts: false });
    t.onTestFinished(other.stop);
    const printers = floor.config.printers.map((printer) => ({ ...printer, port: other.url, dpi: 300 as const }));
    const station = await stationOn(t, { ...floor, config: { ...floor.config, printers } });
    await until(() => statuses(station) === "ready");
    expect(station.state().printers[0]?.ceiling).toBe("B");
  });

  const others = [
    { dpi: 300, unit: "SIM0000001" },
    { dpi: 203, unit: "SIM0000002" },
  ] as const;
  test.for(others)("of another printer ($dpi dpi, $unit) in its place are counted from where it stands", async ({ dpi, unit }, t) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop);
    const first = await stationOn(t, floor);
    const isAt = (station: Running, labels: number) => until(() => station.store.meta("odometer:printer") === String(labels));
    await isAt(first, floor.machine?.counters.labels ?? NaN);
    await first.end();
    const other = await startZplPrinter({ scale: 0, dpi, unit });
    t.onTestFinished(other.stop);
    other.counters.labels = 90_000;
    const printers = floor.config.printers.map((printer) => ({ ...printer, port: other.url, dpi }));
    const station = await stationOn(t, { ...floor, config: { ...floor.config, printers } });
    await isAt(station, 90_000);
    expect(station.state().ledger.counts).toEqual({});
    other.counters.labels += 1; // what comes out of it is its own
    await until(() => station.state().ledger.counts["unexplained"] === 1);
  });

  test("that come out between two jobs, or beside one, are counted however soon the next job comes", async (t) => {
    const { shop, station } = await lineOf(t, w, { printer: { scale: 1 } });
    const { machine } = station.floor;
    if (!machine) throw new Error("this floor has no machine");
    const first = await shop.issue();
    await sealed(shop, first.job_ref);
    machine.counters.labels += 1;
    const second = await shop.issue();
    await sealed(shop, second.job_ref);
    const isTold = (count: number) => until(() => station.state().ledger.counts["sealed"] === count); // the cloud knows before its answer is here
    await isTold(2);
    expect(station.state().ledger.counts).toMatchObject({ unexplained: 1, sealed: 2 });
    const third = await shop.issue();
    await until(() => jobAt(station, third.job_ref)?.stage === "sent");
    machine.counters.labels += 1; // while ours is on its way: the printer's word can't tell them apart, the scanner's can
    await sealed(shop, third.job_ref);
    const { items } = (await shop.admin.get(`/aidc/jobs/${third.job_ref}/evidence`)).body;
    expect(items[2]).toMatchObject({ status: "PRINTED_ATTESTED", evidence: { completion: { basis: "scan", grade: "B" } } });
    await isTold(3);
    expect(station.state().ledger.counts).toMatchObject({ unexplained: 2, sealed: 3 });
    expect(machine.counters.labels - 1_000).toBe(5);
  });

  test("a second label of a sealed serial is asked for by a reprint, and is scanned as its own", async (t) => {
    const { shop, station } = await lineOf(t, w);
    const first = await shop.issue();
    await sealed(shop, first.job_ref);
    await until(() => station.state().ledger.counts["sealed"] === 1);
    const { body: again } = await shop.admin.post("/aidc/jobs", { gtin: shop.gtin, serial: first.serial, reprint: true, reason: "torn" });
    await sealed(shop, again.job_ref);
    expect(await station.floor.links()).toEqual([first.digital_link, first.digital_link]);
  });

  const withGate = async (t: Ends, eyes: "line" | "hand") => {
    const shop = await printShop(w);
    const reader = await startLineScanner();
    t.onTestFinished(reader.end);
    const floor = await floorOf(t, w.url, shop, { rfid: true, eyes });
    floor.config.scanners.push({ name: "gate", driver: "rfid", port: reader.url ?? "", simulated: true });
    const station = await stationOn(t, floor);
    await until(() => station.state().printers[0]?.status === "ready" && reader.listeners() === 1 && floor.scanner?.listeners() === 1);
    return { shop, reader, floor, station, says: () => station.state().scanners[0]?.last?.words ?? "" };
  };

  /** A label whose void one is asked about. */
  const withVoid = async (t: Parameters<typeof withGate>[0]) => {
    const gate = await withGate(t, "hand");
    gate.floor.machine?.fault("rfid-void", { times: 1 });
    const job = await gate.shop.issue({ needs: ["qr", "rfid"] });
    await until(() => asked(gate.station, job.job_ref) === "destroy_void");
    return { ...gate, job };
  };

  test("another chip than the printer wrote is refused, though it carries the EPC, and so is one that an earlier label has", async (t) => {
    const { shop, reader, floor, station, says } = await withGate(t, "line");
    const { job_ref: ref, sgtin96_epc: epc, serial } = await shop.issue({ needs: ["qr", "rfid"] });
    await until(() => jobAt(station, ref)?.stage === "printed" && says().includes("tag has to be read"));
    await reader.scan(`${epc},E28000000000DEADBEEF0001`);
    await until(() => says().includes("the printer wrote to the chip"));
    await sleep(2_100); // out of the field
    const tid = floor.machine?.labels.at(-1)?.tag?.tid ?? "";
    await reader.scan(`${epc},${tid}`);
    await sealed(shop, ref);
    const again = { gtin: shop.gtin, serial, needs: ["qr", "rfid"], reprint: true, reason: "torn" };
    const { job_ref: next } = (await shop.admin.post("/aidc/jobs", again)).body;
    await until(() => jobAt(station, next)?.stage === "printed" && says().includes("tag has to be read"));
    await reader.scan(`${epc},${tid}`);
    await until(() => says().includes("belongs to an earlier label") && station.state().buffer_depth === 0);
    expect([await stateInCloud(shop, ref), await stateInCloud(shop, next)]).toEqual(["SEALED", "PRINTED_ATTESTED"]);
  });

  test("tags that go on being read are told of once, and leave the log to the rest", async (t) => {
    const { reader, station } = await withGate(t, "hand");
    const tags = ["E28011600000000000000001", "E28011600000000000000002"];
    for (let n = 0; n < 300; n += 1) await reader.scan(tags[n % 2] ?? "");
    await reader.scan("E28011600000000000000003");
    await until(() => station.state().scanners[1]?.last?.words.includes("0003") ?? false);
    const { log, scanners } = station.state();
    expect(log.filter((line) => line.includes('"scanner":"gate"') && line.includes("E28011"))).toHaveLength(3);
    expect(log.some((line) => line.includes("the station works"))).toBe(true);
    expect(scanners[1]?.last?.n).toBe(3);
  });

  test("a tag that is read all the while is its label's two seconds after another one was there, before the next one comes by", async (t) => {
    const { shop, reader, floor, station } = await withGate(t, "hand");
    const { job_ref: ref, digital_link: text, sgtin96_epc: epc } = await shop.issue({ needs: ["qr", "rfid"] });
    await until(() => jobAt(station, ref)?.stage === "printed");
    await ask(station, "POST", "/api/scan", { text });
    const tid = floor.machine?.labels.at(-1)?.tag?.tid ?? "";
    const isHeld = () => jobAt(station, ref)?.stage === "printed";
    for (let n = 0; n < 120 && isHeld(); n += 1) {
      if (n % 30 === 0) await reader.scan(`E2801160000000000000${String(n).padStart(4, "0")}`); // one comes by every three seconds
      await reader.scan(`${epc},${tid}`);
      await sleep(100);
    }
    expect(isHeld()).toBe(false);
    await sealed(shop, ref);
  });

  test("another chip that was scanned before the printer said which one it wrote is refused once it does", async (t) => {
    const { shop, reader, floor, station } = await withGate(t, "hand");
    floor.machine?.fault("paper-out", { after: 1, mid: 1 }); // it stops in the middle of it
    const { job_ref: ref, sgtin96_epc: epc, digital_link: text } = await shop.issue({ needs: ["qr", "rfid"] });
    await until(() => jobAt(station, ref)?.stage === "sent" && station.state().printers[0]?.status === "blocked");
    await reader.scan(`${epc},E28000000000DEADBEEF0001`);
    await until(() => station.state().scanners[1]?.last !== null);
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: false, why: "kept" });
    floor.machine?.clear();
    await until(() => station.lines.some((line) => line.includes("the label that was scanned has")));
    await until(() => station.state().buffer_depth === 0);
    expect([jobAt(station, ref)?.stage, await stateInCloud(shop, ref)]).toEqual(["printed", "PRINTED_ATTESTED"]);
    await sleep(2_100); // out of the field
    const { n: heard = 0 } = station.state().scanners[1]?.last ?? {};
    await reader.scan(`${epc},${floor.machine?.labels.at(-1)?.tag?.tid}`);
    await until(() => (station.state().scanners[1]?.last?.n ?? 0) > heard);
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
    await sealed(shop, ref);
  });

  test("a void label that was scanned before its tag was read is destroyed by then: the tag of the good one seals that one's scan only", async (t) => {
    const { shop, reader, floor, station, job } = await withVoid(t);
    const { job_ref: ref, digital_link: text, sgtin96_epc: epc } = job;
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: false, why: "tag" });
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    await reader.scan(`${epc},${floor.machine?.labels.at(-1)?.tag?.tid}`);
    await until(() => station.state().scanners[1]?.last?.words === `read ${epc}` && station.state().buffer_depth === 0);
    expect([jobAt(station, ref)?.stage, await stateInCloud(shop, ref)]).toEqual(["printed", "PRINTED_ATTESTED"]);
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
    await sealed(shop, ref);
  });

  test("a tag without its chip's number that was read before a void label was destroyed may be that one's: it is read again", async (t) => {
    const { shop, reader, station, job } = await withVoid(t);
    const { job_ref: ref, digital_link: text, sgtin96_epc: epc } = job;
    await reader.scan(epc);
    await until(() => station.state().scanners[1]?.last?.words === `read ${epc}`);
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: false, why: "tag" });
    expect(jobAt(station, ref)?.stage).toBe("printed");
    await reader.scan(epc);
    await sealed(shop, ref);
  });

  test("the old label of a serial that was scanned before the new one was out isn't sealed by the new one's tag", async (t) => {
    const { shop, reader, floor, station } = await withGate(t, "hand");
    const { job_ref: first, serial, digital_link: text, sgtin96_epc: epc } = await shop.issue({ needs: ["qr", "rfid"] });
    const read = () => reader.scan(`${epc},${floor.machine?.labels.at(-1)?.tag?.tid}`);
    await until(() => jobAt(station, first)?.stage === "printed");
    await ask(station, "POST", "/api/scan", { text });
    await read();
    await sealed(shop, first);
    await until(() => station.state().ledger.counts["sealed"] === 1);
    floor.machine?.fault("paper-out", { after: 1, mid: 1 }); // it stops in the middle of the new one
    const again = { gtin: shop.gtin, serial, needs: ["qr", "rfid"], reprint: true, reason: "torn" };
    const { job_ref: ref } = (await shop.admin.post("/aidc/jobs", again)).body;
    await until(() => jobAt(station, ref)?.stage === "sent" && station.state().printers[0]?.status === "blocked");
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: false, why: "tag" });
    await sleep(3_000);
    floor.machine?.clear();
    await until(() => jobAt(station, ref)?.stage === "printed");
    const { n: heard = 0 } = station.state().scanners[1]?.last ?? {};
    await read();
    await until(() => (station.state().scanners[1]?.last?.n ?? 0) > heard && station.state().buffer_depth === 0);
    expect([asked(station, ref), await stateInCloud(shop, ref)]).toEqual(["destroy_earlier", "PRINTED_ATTESTED"]);
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
    await sealed(shop, ref);
  });

  test("a tag that is read once its label was given up verifies nothing", async (t) => {
    const { shop, reader, floor, station, says } = await withGate(t, "line");
    const { job_ref: ref, sgtin96_epc: epc } = await shop.issue({ needs: ["qr", "rfid"], max_attempts: 1 });
    await until(() => jobAt(station, ref)?.stage === "printed" && says().includes("tag has to be read"));
    expect((await say(station, ref, "misprint")).status).toBe(200);
    await reader.scan(`${epc},${floor.machine?.labels.at(-1)?.tag?.tid}`);
    await until(() => station.state().scanners[1]?.last?.words === `read ${epc}`);
    await until(async () => (await stateInCloud(shop, ref)) === "DEAD_LETTER");
    expect(station.store.ofJob(ref)).toMatchObject([{ stage: "printed", ended: "failed" }]);
    expect(says()).toContain("tag has to be read");
  });

  test("labels that follow each other at once are each sealed by their own tag, read once", async (t) => {
    const { shop, reader, floor, station } = await withGate(t, "hand");
    const items = (await shop.allocate(4)).map((serial) => ({ gtin: shop.gtin, serial, needs: ["qr", "rfid"] }));
    const { jobs } = (await shop.admin.post("/aidc/jobs/batch", { items })).body;
    for (let n = 0; n < items.length; n += 1) {
      await until(() => floor.machine?.labels[n] !== undefined);
      const { epc, tid } = floor.machine?.labels[n]?.tag ?? {};
      await reader.scan(`${epc},${tid}`);
      await sleep(30);
      await floor.scanner?.scan(jobs.find(({ sgtin96_epc }: { sgtin96_epc: string }) => sgtin96_epc === epc).digital_link);
    }
    await until(() => station.state().ledger.counts["sealed"] === 4);
    expect(station.state().ledger.open).toEqual([]);
  });

  test("a field with another tag in it verifies nothing, whatever that one's EPC and however often the right one is read", async (t) => {
    const { shop, reader, floor, station, says } = await withGate(t, "line");
    const { job_ref: ref, sgtin96_epc: epc } = await shop.issue({ needs: ["qr", "rfid"] });
    await until(() => jobAt(station, ref)?.stage === "printed" && says().includes("tag has to be read"));
    const own = `${epc},${floor.machine?.labels.at(-1)?.tag?.tid}`;
    for (const other of ["E28011910000000000000000000000AB,E280110000000001", "30364433400D1EDCBE991A14,E280110000000002"]) {
      await reader.scan([other, ...Array.from({ length: 500 }, () => own)].join("\r\n"));
      await until(() => says().includes("more than one tag") && station.state().scanners[1]?.last?.words === `read ${epc}`);
      expect(jobAt(station, ref)?.stage).toBe("printed");
      await sleep(2_100); // out of the field
    }
    await reader.scan(own);
    await sealed(shop, ref);
  });

  test("an independent reader finds the neighbour's inlay that the printer can't", async (t) => {
    const { shop, reader, floor, station } = await withGate(t, "line");
    const { job_ref: ref, sgtin96_epc: epc } = await shop.issue({ needs: ["qr", "rfid"] });
    await until(() => station.state().scanners[0]?.last?.words.includes("tag has to be read") ?? false);
    await until(async () => (await stateInCloud(shop, ref)) === "PRINTED_ATTESTED");
    await reader.scan("30364433400D1EDCBE991A14,E280110000000001");
    await until(() => station.state().scanners[0]?.last?.words.includes("the job's EPC is") ?? false);
    await new Promise((resolve) => setTimeout(resolve, 2_100)); // out of the field
    const tid = floor.machine?.labels.at(-1)?.tag?.tid ?? "";
    await reader.scan(`${epc},${tid}`);
    await sealed(shop, ref);
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items[3].evidence.scan_result.rfid).toMatchObject({ reader: "independent", tid });
  });
});

describe.concurrent("a buffer that can't be written", () => {
  test("stops the claiming and says so; what was claimed is neither lost nor printed twice, and it goes on when there is room", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    const first = await shop.issue({ priority: 2 });
    const second = await shop.issue({ priority: 1 });
    await until(
      () =>
        jobAt(station, first.job_ref)?.state === "PRINTED_ATTESTED" &&
        jobAt(station, second.job_ref) !== undefined &&
        station.state().buffer_depth === 0,
    );
    station.store.limit("full");
    const fill = () => {
      for (let i = 0; ; i += 1) station.store.setMeta(`fill ${i}`, "x".repeat(1_000));
    };
    expect(fill).toThrow("can't be written");
    expect(station.state().stopped).toContain("can't be written");
    const third = await shop.issue();
    station.wake();
    await until(() => station.lines.some((line) => line.includes("can't be written")));
    await ask(station, "POST", "/api/scan", { text: first.digital_link }); // kept or refused, as there is room; it moves on later either way
    expect(jobAt(station, third.job_ref)).toBeUndefined();
    expect(jobAt(station, second.job_ref)?.state).toBe("CLAIMED");
    expect(await station.floor.links()).toEqual([first.digital_link]);
    station.store.limit("none");
    if (jobAt(station, first.job_ref)) await ask(station, "POST", "/api/scan", { text: first.digital_link });
    await sealed(shop, first.job_ref);
    await until(() => jobAt(station, second.job_ref)?.state === "PRINTED_ATTESTED");
    expect(station.state().stopped).toBeNull();
    expect(await station.floor.links()).toEqual([first.digital_link, second.digital_link]);
  });
});

describe.concurrent("a printer that never says anything", () => {
  test.for(["zpl", "escpos"] as const)("%s: its labels are sent once, and a person is asked each time", async (language, t) => {
    const shop = await printShop(w);
    const heard: Buffer[] = [];
    const sink = await startDevice((socket) => socket.on("data", (bytes: Buffer) => heard.push(bytes)));
    t.onTestFinished(sink.end);
    const station = await running(t, w.url, shop, { language, eyes: "hand", port: () => sink.url });
    for (const { job_ref: ref, digital_link: text } of [await shop.issue({ priority: 2 }), await shop.issue({ priority: 1 })]) {
      await until(() => asked(station, ref) === "attest");
      await say(station, ref, "good");
      await ask(station, "POST", "/api/scan", { text });
      await sealed(shop, ref);
    }
    const all = Buffer.concat(heard).toString("latin1");
    expect(all.split(language === "zpl" ? "^XZ" : "\u001dv0")).toHaveLength(3);
    expect(station.state().printers[0]?.ceiling).toBe("E");
  });

  const status = "\x02030,0,0,0200,000,0,0,0,000,0,0,0\x03\r\n\x02000,0,0,0,0,2,4,0,00000000,1,000\x03\r\n\x021234,0\x03\r\n";
  test("of its labels, only how it is, keeps no more than two waiting for as long as a label may take", async (t) => {
    const shop = await printShop(w);
    const printer = await startDevice((socket) =>
      socket.on("data", (bytes: Buffer) => void (bytes.includes("~HS") && socket.write(status))),
    );
    t.onTestFinished(printer.end);
    const timing = { ...HASTY, answerMs: 100, completionMs: 8_000 };
    const patience = { idleMs: 500, inVainMs: 100, retryMs: [50] };
    const station = await running(t, w.url, shop, { eyes: "hand", port: () => printer.url }, { timing, patience });
    const tookMs: number[] = [];
    for (let n = 0; n < 3; n += 1) {
      const { job_ref: ref, digital_link: text } = await shop.issue();
      await until(() => jobAt(station, ref)?.stage === "sent");
      const began = Date.now();
      await until(() => asked(station, ref) === "unknown_outcome");
      tookMs.push(Date.now() - began);
      await say(station, ref, "good");
      await ask(station, "POST", "/api/scan", { text });
      await sealed(shop, ref);
    }
    expect(tookMs.map((ms) => ms > 7_000)).toEqual([true, true, false]);
    expect(station.lines.filter((line) => line.includes("answered for none of its labels"))).toHaveLength(1);
  });

  test("of two labels because its line dropped behind them has its time for the third", async (t) => {
    const shop = await printShop(w);
    let printed = 0;
    const printer = await startDevice((socket) => {
      let heard = "";
      socket.on("data", (bytes: Buffer) => {
        heard += bytes.toString("latin1");
        if (bytes.includes("~HS")) socket.write(status);
        const [format, token = ""] = /\[([0-9A-F]{8})F:,\][^]*\^XZ/.exec(heard) ?? [];
        if (format === undefined) return;
        heard = "";
        if ((printed += 1) <= 2) socket.resetAndDestroy();
        else setTimeout(() => socket.write(`[${token}F:${token}]`), 1_000);
      });
    });
    t.onTestFinished(printer.end);
    const timing = { ...HASTY, answerMs: 100, completionMs: 4_000 };
    const patience = { idleMs: 500, inVainMs: 100, retryMs: [50] };
    const station = await running(t, w.url, shop, { eyes: "hand", port: () => printer.url }, { timing, patience });
    const asks: unknown[] = [];
    for (let n = 0; n < 3; n += 1) {
      const { job_ref: ref, digital_link: text } = await shop.issue();
      await until(() => asked(station, ref) === "unknown_outcome" || jobAt(station, ref)?.state === "PRINTED_ATTESTED");
      asks.push(asked(station, ref));
      if (asked(station, ref) !== null) await say(station, ref, "good");
      await ask(station, "POST", "/api/scan", { text });
      await sealed(shop, ref);
    }
    expect(asks).toEqual(["unknown_outcome", "unknown_outcome", null]);
    expect(station.lines.join("\n")).not.toContain("answered for none of its labels");
  });

  test("but answered before is sent nothing: another program may hold it; it goes on by itself when it answers again", async (t) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop);
    const station = await stationOn(t, floor);
    const { job_ref: first } = await shop.issue();
    await sealed(shop, first);
    floor.machine?.fault("dont-answer");
    await until(() => station.state().printers[0]?.status === "offline");
    const { job_ref: ref } = await shop.issue();
    await until(() => station.state().printers[0]?.words.includes("does another program hold its port?") ?? false);
    for (let n = 0; n < 50; n += 1) {
      expect([asked(station, ref), floor.machine?.labels.length]).toEqual([null, 1]);
      await sleep(50);
    }
    floor.machine?.clear();
    await sealed(shop, ref);
    expect([floor.machine?.labels.length, station.state().printers[0]?.ceiling]).toEqual([2, "A"]);
  });

  test("but was only starting up when it was asked: it is asked again, and what it says counts from then on", async (t) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop);
    floor.machine?.fault("dont-answer");
    const patience = { muteMs: 300, retryMs: [50], drainMs: 2_000, probeAgainMs: 0 };
    const station = await stationOn(t, floor, { patience });
    const { job_ref: first } = await shop.issue();
    await until(() => asked(station, first) === "attest");
    floor.machine?.clear();
    await say(station, first, "good");
    await sealed(shop, first);
    const { job_ref: second } = await shop.issue();
    await sealed(shop, second);
    expect(station.state().printers[0]?.ceiling).toBe("A");
    const attested = (await shop.admin.get(`/aidc/jobs/${second}/history`)).body.data.find(
      ({ to }: { to: string }) => to === "PRINTED_ATTESTED",
    );
    expect(attested.actor.kind).toBe("device");
  });
});

describe.concurrent("people", () => {
  test("pausing lets the label in hand end and begins no other; it survives a restart", async (t) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop, { eyes: "hand" });
    const first = await stationOn(t, floor);
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => jobAt(first, ref)?.state === "PRINTED_ATTESTED");
    await ask(first, "POST", "/api/pause");
    await ask(first, "POST", "/api/scan", { text });
    await sealed(shop, ref);
    await first.end();
    const other = await shop.issue();
    const second = await stationOn(t, floor);
    await until(() => second.state().online);
    second.wake();
    expect(second.state().paused).toBe(true);
    expect(await floor.links()).toEqual([text]);
    await ask(second, "POST", "/api/resume");
    await until(() => jobAt(second, other.job_ref)?.state === "PRINTED_ATTESTED");
  });

  test("a label of an earlier attempt elsewhere is asked for before another is printed; others aren't kept waiting", async (t) => {
    const shop = await printShop(w);
    const risky = await shop.issue({ priority: 9 });
    const earlier = await shop.device.claim();
    await shop.device.upTo(earlier, "SPOOL_SUBMITTED");
    await shop.device.say(earlier, { status: "FAILED", reason: "printer on fire" });
    const station = await running(t, w.url, shop);
    const other = await shop.issue();
    await until(() => asked(station, risky.job_ref) === "destroy_earlier");
    await sealed(shop, other.job_ref);
    expect(await station.floor.links()).toEqual([other.digital_link]);
    expect((await say(station, risky.job_ref, "misprint")).body.error.details).toEqual({
      ask: "destroy_earlier",
      allowed: ["destroyed", "not_printed"],
    });
    await say(station, risky.job_ref, "destroyed");
    await sealed(shop, risky.job_ref);
  });

  test("a job whose label the cloud had sealed, and which it gives out again as it was set back, is asked about, also where it warns of nothing", async (t) => {
    const { shop, station } = await lineOf(t, w);
    const { job_ref: ref } = await shop.issue();
    await sealedHere(station, ref);
    await setBack(w, ref);
    await until(() => asked(station, ref) === "destroy_earlier");
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ state: "CLAIMED", duplicate_risk: false });
    expect(jobAt(station, ref)?.ask?.words).toMatch(/^the cloud had sealed a label of this serial and doesn't know it any more/);
    expect(station.lines.filter((line) => line.includes('"event":"sealed_before"'))).toEqual([expect.stringContaining(ref)]);
    expect(await station.floor.links()).toHaveLength(1);
  }); // oxfmt-ignore
});
