// Two labels of one serial: what a scan of the old one does to the new one, and whose word a scan is that came before its turn.
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import { describe, expect, test } from "vitest";
import { pngOf } from "../../agent/bitmap.ts";
import type { FloorOptions } from "../../fixtures/floor.ts";
import { closed, listening } from "../../fixtures/listening.ts";
import { type Shop, printShop } from "../../fixtures/print-shop.ts";
import { random } from "../../fixtures/random.ts";
import { type Gray, grayOfPng, pngOfGray } from "../../fixtures/scanners/optics.ts";
import { world } from "../world.ts";
import { ask, asked, begunInVain, jobAt, lineOf, type Running, say, sessionAt, stateInCloud, stationOn, until } from "./floor.ts";

const w = await world();
const isIn = (shop: Shop, ref: string, state: string) => until(async () => (await stateInCloud(shop, ref)) === state);
const scan = async (station: Running, text: string, session?: string) => (await ask(station, "POST", "/api/scan", { text, session })).body;
const issued = (shop: Shop) => shop.issue() as Promise<{ job_ref: string; serial: string; digital_link: string }>;

/** A label that was sealed here by hand, and how to ask for another of its serial. */
async function sealedOnce(t: Parameters<typeof stationOn>[0], settings: FloorOptions["settings"] = {}) {
  const { shop, station } = await lineOf(t, w, { eyes: "hand", settings });
  const { job_ref: ref, serial, digital_link: text } = await issued(shop);
  await isIn(shop, ref, "PRINTED_ATTESTED");
  await scan(station, text);
  await isIn(shop, ref, "SEALED");
  await until(() => station.state().ledger.counts["sealed"] === 1);
  const again = async () =>
    (await shop.admin.post("/aidc/jobs", { gtin: shop.gtin, serial, reprint: true, reason: "worn" })).body.job_ref as string;
  return { shop, station, text, again };
}

/** A label amid so much else that it takes long to read. */
function amidNoise(label: Gray): Buffer {
  const side = 1_500;
  const chance = random(1);
  const gray = Uint8Array.from({ length: side * side }, () => (chance() < 0.5 ? 0 : 255));
  for (let y = 0; y < label.height; y += 1) gray.set(label.gray.subarray(y * label.width, (y + 1) * label.width), y * side);
  return pngOfGray({ width: side, height: side, gray });
}

/** Sees nothing until it is shown something. */
async function camera({ onTestFinished }: Parameters<typeof stationOn>[0]) {
  let shown = pngOfGray({ width: 9, height: 9, gray: new Uint8Array(81) });
  let looks = 0;
  const server = createServer((_request, response) => void response.end(shown, () => (looks += 1)));
  const port = `http://127.0.0.1:${await listening(server)}/`;
  onTestFinished(() => closed(server));
  const look = async (picture: Buffer) => {
    shown = picture;
    const before = looks;
    await until(() => looks > before);
  };
  return { scanner: { name: "eye", driver: "camera", port, simulated: true } as const, look };
}
/** Of the first label that came out. */
const pictureIn = ({ floor }: Running): Buffer => {
  const [label] = floor.machine?.labels ?? [];
  return label ? pngOf(label.dots) : Buffer.alloc(0);
};

/** The paper ends inside the label: it is sent, and isn't out. */
async function stuck(station: Running, order: () => Promise<string>): Promise<string> {
  await until(() => station.state().printers[0]?.status === "ready");
  station.floor.machine?.fault("paper-out", { after: 1, mid: 1 });
  const ref = await order();
  await until(() => jobAt(station, ref)?.stage === "sent" && station.state().printers[0]?.status === "blocked");
  return ref;
}

test("a misprint whose job is over is closed by what is said of it at its serial's next job", async (t) => {
  const { shop, station } = await lineOf(t, w, { eyes: "hand", config: { attest: "operator" } });
  const { job_ref: first, serial } = await shop.issue({ max_attempts: 1 });
  await until(() => asked(station, first) === "attest");
  await say(station, first, "misprint");
  await isIn(shop, first, "DEAD_LETTER");
  const open = () => station.state().ledger.open.map(({ job_ref, state }) => [job_ref, state]);
  await until(() => station.state().buffer_depth === 0);
  expect(open()).toEqual([[first, "printed"]]);
  const ref = (await shop.admin.post("/aidc/jobs", { gtin: shop.gtin, serial })).body.job_ref as string;
  await until(() => asked(station, ref) === "destroy_earlier");
  expect((await say(station, ref, "destroyed")).status).toBe(200);
  expect(open()).toEqual([]);
  await until(() => asked(station, ref) === "attest");
  expect(station.state().ledger.counts).toMatchObject({ destroyed: 1 });
});

test("a reprint isn't sealed by a picture from before it can have been out, also where a person attests it before that is read", async (t) => {
  let held = Promise.resolve();
  process.once("worker", (thread: Worker) => {
    const read = thread.postMessage.bind(thread);
    thread.postMessage = (file: unknown) => void held.then(() => read(file));
  });
  const eye = await camera(t);
  const { shop, station } = await lineOf(t, w, { eyes: "hand", config: { attest: "operator" }, settings: { scanners: [eye.scanner] } });
  const { job_ref: first, serial, digital_link: text } = await issued(shop);
  await until(() => asked(station, first) === "attest");
  await say(station, first, "good");
  await scan(station, text);
  await isIn(shop, first, "SEALED");
  const again = { gtin: shop.gtin, serial, reprint: true, reason: "worn" };
  const ref = await stuck(station, async () => (await shop.admin.post("/aidc/jobs", again)).body.job_ref as string);
  const read = Promise.withResolvers<void>();
  held = read.promise;
  await eye.look(pictureIn(station));
  await sleep(2_100);
  station.floor.machine?.clear();
  await until(() => asked(station, ref) === "attest");
  expect((await say(station, ref, "good")).status).toBe(200);
  read.resolve();
  await until(() => station.state().scanners[0]?.last !== null);
  expect([station.state().scanners[0]?.last, asked(station, ref)]).toMatchObject([{ moved: false, why: "old_label" }, "destroy_earlier"]);
});

describe.concurrent("a reprint", () => {
  test("isn't sealed by the old label, scanned while the new one couldn't be out yet", async (t) => {
    const { shop, station, text, again } = await sealedOnce(t);
    const ref = await stuck(station, again);
    expect(await scan(station, text)).toMatchObject({ moved: false, why: "kept" });
    await sleep(1_500);
    expect(await scan(station, text)).toMatchObject({ moved: false, why: "kept" }); // once more is no better
    await sleep(700);
    station.floor.machine?.clear();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    await until(() => station.state().buffer_depth === 0);
    expect([await stateInCloud(shop, ref), await station.floor.links()]).toEqual(["PRINTED_ATTESTED", [text, text]]);
    expect(asked(station, ref)).toBe("destroy_earlier");
    expect(await scan(station, text)).toMatchObject({ moved: false, words: expect.stringContaining("destroy it and say so") });
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    expect(await scan(station, text)).toMatchObject({ moved: true });
    await isIn(shop, ref, "SEALED");
  });

  test("of a label that was looked at before asks for that one, and takes the new one once it is gone", async (t) => {
    const { shop, station, text, again } = await sealedOnce(t);
    const between = await issued(shop);
    await isIn(shop, between.job_ref, "PRINTED_ATTESTED");
    await scan(station, between.digital_link);
    await isIn(shop, between.job_ref, "SEALED");
    await scan(station, text); // which one is it? the worn one
    await scan(station, between.digital_link); // and that one?
    const ref = await again();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    expect(asked(station, ref)).toBe(null);
    expect(await scan(station, text)).toMatchObject({ moved: false, why: "old_label" });
    expect(asked(station, ref)).toBe("destroy_earlier");
    expect((await say(station, ref, "misprint")).status).toBe(409);
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    expect(asked(station, ref)).toBe(null);
    expect(await scan(station, text)).toMatchObject({ moved: true });
    await isIn(shop, ref, "SEALED");
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body.attempt).toBe(1);
  });

  test("isn't sealed by a picture that was taken before the old label was destroyed, and read after that", async (t) => {
    const eye = await camera(t);
    const { shop, station, text, again } = await sealedOnce(t, { scanners: [eye.scanner] });
    await scan(station, text);
    const ref = await again();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    expect(await scan(station, text)).toMatchObject({ moved: false, why: "old_label" });
    await eye.look(amidNoise(grayOfPng(pictureIn(station))));
    await sleep(50); // it is being read
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    await until(() => station.state().scanners[0]?.last !== null);
    expect(station.state().scanners[0]?.last).toMatchObject({ moved: false, why: "before_print" });
    expect(await scan(station, text)).toMatchObject({ moved: true });
    await isIn(shop, ref, "SEALED");
  });

  test("isn't sealed by the old label that lies under the camera", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "camera" });
    const { job_ref: first, serial, digital_link: text } = await issued(shop);
    await isIn(shop, first, "SEALED");
    await until(() => station.state().scanners[0]?.last?.why === "repeated"); // it goes on seeing it
    await sleep(500);
    const ref = (await shop.admin.post("/aidc/jobs", { gtin: shop.gtin, serial, reprint: true, reason: "worn" })).body.job_ref as string;
    await until(() => asked(station, ref) === "destroy_earlier" && station.state().buffer_depth === 0);
    await sleep(500);
    expect([await stateInCloud(shop, ref), await station.floor.links()]).toEqual(["PRINTED_ATTESTED", [text, text]]);
    await say(station, ref, "destroyed");
    await isIn(shop, ref, "SEALED");
  });

  test("is scanned anew after a restart: what was seen before it may have been the old label", async (t) => {
    const { shop, station, text, again } = await sealedOnce(t);
    const ref = await stuck(station, again);
    expect(await scan(station, text)).toMatchObject({ moved: false, why: "kept" });
    await station.end();
    const next = await stationOn(t, station.floor);
    next.floor.machine?.clear();
    await until(() => asked(next, ref) === "unknown_outcome");
    await say(next, ref, "good");
    expect(asked(next, ref)).toBe("destroy_earlier");
    expect(await stateInCloud(shop, ref)).not.toBe("SEALED");
    await say(next, ref, "destroyed");
    expect(await scan(next, text)).toMatchObject({ moved: true });
    await isIn(shop, ref, "SEALED");
  });

  test("whose outcome nobody knows isn't decided by a scan: it may be the old label's", async (t) => {
    const { shop, station, text, again } = await sealedOnce(t);
    station.floor.machine?.fault("fence-never");
    const ref = await again();
    await until(() => asked(station, ref) === "unknown_outcome");
    await station.floor.scanner?.scan(text, { aim: true });
    await until(() => station.state().scanners[0]?.last?.why === "kept");
    expect(asked(station, ref)).toBe("unknown_outcome");
    expect((await say(station, ref, "good")).status).toBe(200);
    await isIn(shop, ref, "SEALED"); // by a person's word and the scan after the printer fell silent
  });
});

test("an old label of which somebody said that it is gone decides nothing, however long it is looked at", async (t) => {
  const { shop, station } = await lineOf(t, w, { eyes: "hand" });
  const session = await sessionAt(station);
  const { job_ref: ref, digital_link: text } = await issued(shop);
  await isIn(shop, ref, "PRINTED_ATTESTED");
  await ask(station, "POST", "/api/pause");
  expect((await say(station, ref, "destroyed")).status).toBe(200);
  await isIn(shop, ref, "FAILED");
  await scan(station, text, session); // it lies there all the same
  station.floor.machine?.fault("fence-never");
  await ask(station, "POST", "/api/resume");
  await until(() => asked(station, ref) === "unknown_outcome");
  for (let n = 0; n < 205; n += 1) expect([n, await scan(station, text, session)]).toMatchObject([n, { moved: false }]);
  expect(asked(station, ref)).toBe("unknown_outcome");
  await say(station, ref, "good");
  expect(asked(station, ref)).toBe("destroy_earlier");
});

describe.concurrent("a scan before its turn", () => {
  test("of a label that was destroyed isn't that of the one that came out after it", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    await until(() => station.state().printers[0]?.ceiling === "A");
    station.floor.machine?.fault("fence-never");
    const { job_ref: ref, digital_link: text } = await issued(shop);
    await until(() => asked(station, ref) === "unknown_outcome");
    expect(await scan(station, text)).toMatchObject({ moved: false, why: "kept" });
    station.floor.machine?.fault("dont-answer"); // so that nobody knows what still comes
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    await until(() => jobAt(station, ref)?.ask?.words.includes("it may still come out") ?? false);
    expect((await say(station, ref, "good")).status).toBe(200);
    await until(() => station.state().buffer_depth === 0);
    expect([jobAt(station, ref)?.stage, await stateInCloud(shop, ref)]).toEqual(["printed", "PRINTED_ATTESTED"]);
    expect(await scan(station, text)).toMatchObject({ moved: true });
    await isIn(shop, ref, "SEALED");
  });

  test("says that a label came out, whatever a person says: the next attempt is told of it", async (t) => {
    const { shop, station } = await lineOf(t, w, { language: "escpos", config: { fence: "none" } });
    const { job_ref: ref } = await issued(shop);
    await until(() => asked(station, ref) === "attest" && station.state().scanners[0]?.last?.why === "kept");
    for (let said = 0; (await shop.admin.get(`/aidc/jobs/${ref}`)).body.attempt === 1 && said < 3; said += 1) {
      const since = jobAt(station, ref)?.ask?.since;
      expect((await say(station, ref, "not_printed")).status).toBe(200);
      await until(() => jobAt(station, ref)?.ask?.since !== since && (asked(station, ref) !== null || jobAt(station, ref)?.attempt === 2));
    }
    await until(() => jobAt(station, ref)?.attempt === 2);
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ attempt: 2, duplicate_risk: true });
    expect(asked(station, ref)).toBe("destroy_earlier");
  });

  test("is the word of who scanned", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    const session = await sessionAt(station);
    let text = "";
    const ref = await stuck(station, async () => {
      const job = await issued(shop);
      text = job.digital_link;
      return job.job_ref;
    });
    expect(await scan(station, text, session)).toMatchObject({ moved: false, why: "kept" });
    station.floor.machine?.clear();
    await isIn(shop, ref, "SEALED");
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items[3]).toMatchObject({ status: "SCAN_VERIFIED", actor: { kind: "operator", id: "op-7" } });
  });

  test("while nothing of it has left is of another label, however soon it is sent again", async (t) => {
    const shop = await printShop(w);
    const { station, net, before, job } = await begunInVain(t, w.url, shop, 3_000);
    const { job_ref: ref, digital_link: text } = job;
    net.rule(() => "pass");
    expect(await scan(station, text)).toMatchObject({ moved: false, why: "kept" });
    await until(() => jobAt(station, ref)?.stage === "rendered");
    station.floor.machine?.clear();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    await until(() => station.state().buffer_depth === 0 && jobAt(station, ref)?.stage === "printed");
    expect([await stateInCloud(shop, ref), await station.floor.links()]).toEqual(["PRINTED_ATTESTED", [before.digital_link, text]]);
    expect(await scan(station, text)).toMatchObject({ moved: false, why: "old_label" });
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    expect(await scan(station, text)).toMatchObject({ moved: true });
    await isIn(shop, ref, "SEALED");
  });

  test("that nobody put his name to gives way to one that may decide", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    await until(() => station.state().printers[0]?.ceiling === "A" && station.floor.scanner?.listeners() === 1);
    station.floor.machine?.fault("fence-never");
    const { job_ref: ref, digital_link: text } = await issued(shop);
    await until(() => jobAt(station, ref)?.stage === "sent");
    expect(await scan(station, text)).toMatchObject({ moved: false, why: "kept" });
    await station.floor.scanner?.scan(text, { aim: true });
    await isIn(shop, ref, "SEALED");
  });

  test("decides when the printer never answers: on a line the label is gone by then", async (t) => {
    const { shop, station } = await lineOf(t, w);
    await until(() => station.state().printers[0]?.ceiling === "A" && station.floor.scanner?.listeners() === 1);
    station.floor.machine?.fault("fence-never");
    const { job_ref: ref } = await issued(shop);
    await isIn(shop, ref, "SEALED");
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items[2]).toMatchObject({ actor: { kind: "device" }, evidence: { completion: { basis: "scan", grade: "B", simulated: true } } });
    expect(await station.floor.links()).toHaveLength(1);
  });
});
