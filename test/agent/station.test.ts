// One station from claim to seal, against a real cloud and simulated printers on real sockets: what goes well, and what a person is asked.
import { describe, expect, test } from "vitest";
import { pngOf } from "../../agent/bitmap.ts";
import { explainLeft } from "../../fixtures/person.ts";
import type { FaultName } from "../../fixtures/printers/machine.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";
import {
  ask,
  asked,
  type Ends,
  floorOf,
  jobAt,
  lineBehindNet,
  lineOf,
  movesOf,
  type Running,
  running,
  say,
  sealed,
  sessionAt,
  stateInCloud,
  stationOn,
  until,
} from "./floor.ts";

const w = await world();
const isAsked = (station: Running, ref: string, kind: string) => until(() => asked(station, ref) === kind);

describe.concurrent("what goes well", () => {
  test("a job with RFID goes from claim to SEALED on a ZPL printer, with evidence that the cloud and the log take", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref } = await shop.issue({ needs: ["qr", "rfid"] });
    const station = await running(t, w.url, shop, { rfid: true });
    await sealed(shop, ref);
    const { items, sha256, proof } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items.map(({ status }: { status: string }) => status)).toEqual([
      "RENDERED",
      "SPOOL_SUBMITTED",
      "PRINTED_ATTESTED",
      "SCAN_VERIFIED",
    ]);
    expect(items[2].evidence.completion).toMatchObject({ grade: "A" });
    const marks = items.map(({ evidence }: { evidence: object }) => Object.values(evidence).map(({ simulated }) => simulated));
    expect(marks).toEqual([[true], [true], [true], [true]]); // what a simulator said is known by it, whichever of them
    expect(items[3].evidence.scan_result.rfid).toMatchObject({ reader: "printer", epc: expect.stringMatching(/^[0-9A-F]{24}$/) });
    expect(proof.entry.digest).toBe(sha256);
    await until(async () => (await shop.admin.get(`/aidc/evidence/${items[0].evidence.render_manifest.preview_sha256}`)).status === 200);
    expect(await station.floor.links()).toHaveLength(1);
    await until(() => station.state().ledger.counts["sealed"] === 1);
    expect(station.state()).toMatchObject({ online: true, buffer_depth: 0, jobs: [], ledger: { open: [] }, quarantine: [] });
  });

  test("many jobs follow one another, each printed once and scanned as its own", async (t) => {
    const shop = await printShop(w);
    const items = (await shop.allocate(8)).map((serial) => ({ gtin: shop.gtin, serial }));
    const { jobs } = (await shop.admin.post("/aidc/jobs/batch", { items })).body;
    const station = await running(t, w.url, shop);
    for (const { job_ref } of jobs) await sealed(shop, job_ref);
    const links = await station.floor.links();
    expect(links.toSorted()).toEqual(jobs.map(({ digital_link }: { digital_link: string }) => digital_link).toSorted());
  });

  test("an ESC/POS printer that answers behind the label attests by itself", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref } = await shop.issue();
    await running(t, w.url, shop, { language: "escpos" });
    await sealed(shop, ref);
    const { data } = (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body;
    expect(data.find(({ to }: { to: string }) => to === "PRINTED_ATTESTED").actor).toMatchObject({ kind: "device" });
  });

  test("a receipt printer that was open when the station began attests by itself once it is closed, however long its labels take", async (t) => {
    const shop = await printShop(w);
    const slow = { scale: 10 }; // a label takes longer than a printer is waited for that never tells its end
    const floor = await floorOf(t, w.url, shop, { language: "escpos", eyes: "hand", printer: slow });
    floor.machine?.fault("head-open");
    const station = await stationOn(t, floor);
    const printer = () => station.state().printers[0];
    await until(() => printer()?.status === "blocked");
    floor.machine?.clear();
    const { job_ref: ref } = await shop.issue();
    await until(() => (jobAt(station, ref)?.stage ?? "waiting") === "printed" || asked(station, ref) !== null);
    expect([jobAt(station, ref)?.stage, printer()?.ceiling, printer()?.warnings]).toEqual(["printed", "A", []]);
  });

  test("a printer that says it isn't as the settings have it is told of as long as it is so, and works", async (t) => {
    const { shop, station } = await lineOf(t, w, { config: { dpi: 300 } });
    await until(() => station.state().printers[0]?.status === "ready");
    const said = ["it says that it prints 203 dpi, and is set up for 300: labels have the wrong size"];
    expect(station.state().printers[0]?.warnings).toEqual(said);
    const { job_ref: ref } = await shop.issue();
    await until(async () => (await stateInCloud(shop, ref)) === "PRINTED_ATTESTED");
    expect(station.state().printers[0]?.warnings).toEqual(said);
  });

  test("a print queue never attests: an operator is asked, and the scan that came before the answer counts", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref, digital_link: link } = await shop.issue();
    const station = await running(t, w.url, shop, { language: "ipp", eyes: "hand" });
    await isAsked(station, ref, "attest");
    await until(async () => (await stateInCloud(shop, ref)) === "SPOOL_SUBMITTED");
    await until(() => station.floor.scanner?.listeners() === 1);
    await station.floor.scanner?.scan(link);
    await until(() => station.state().scanners[0]?.last?.words.startsWith("kept") ?? false);
    expect(await stateInCloud(shop, ref)).toBe("SPOOL_SUBMITTED");
    expect((await say(station, ref, "good")).status).toBe(200);
    await sealed(shop, ref);
    const { data } = (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body;
    expect(data.find(({ to }: { to: string }) => to === "PRINTED_ATTESTED").actor).toEqual({ kind: "operator", id: "op-7" });
    expect(await station.floor.links()).toHaveLength(1);
  });

  test("a print queue whose words end as C's do is evidence that the cloud takes, behind a person's word", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref, digital_link: link } = await shop.issue();
    const floor = await floorOf(t, w.url, shop, { language: "ipp", eyes: "hand" });
    floor.queue?.tell("Printed.\0");
    const station = await stationOn(t, floor);
    await isAsked(station, ref, "attest");
    expect((await say(station, ref, "good")).status).toBe(200);
    await until(() => floor.scanner?.listeners() === 1);
    await floor.scanner?.scan(link);
    await sealed(shop, ref);
    expect(station.state().quarantine).toEqual([]);
  });

  test("words of a print queue that are too long, and would be cut within a character, say all the same why a label failed", async (t) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop, { language: "ipp", eyes: "hand" });
    floor.queue?.tell("🏷".repeat(600));
    floor.queue?.set("aborted-before");
    const { job_ref: ref } = await shop.issue({ max_attempts: 1 });
    const station = await stationOn(t, floor);
    await until(async () => (await stateInCloud(shop, ref)) === "DEAD_LETTER");
    expect(station.state().quarantine).toEqual([]);
  });

  test("a camera sees the label through its lens; its picture is evidence", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref } = await shop.issue();
    await running(t, w.url, shop, { eyes: "camera" });
    await sealed(shop, ref);
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    const { image_sha256: sha256, source, symbol_check: check } = items[3].evidence.scan_result;
    expect([source, check.module_errors]).toEqual(["camera", 0]);
    await until(async () => (await shop.admin.get(`/aidc/evidence/${sha256}`)).status === 200);
  });

  test("a label that can't be drawn any more, as other labels are in the printer by now, is seen all the same", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref } = await shop.issue({ template: "qr-50x25" });
    const floor = await floorOf(t, w.url, shop, { eyes: "camera" });
    const { camera, machine, config } = floor;
    camera?.show(() => undefined);
    const before = await stationOn(t, floor);
    await until(() => jobAt(before, ref)?.state === "PRINTED_ATTESTED");
    await before.end();
    for (const printer of config.printers) printer.label = { widthMm: 25, heightMm: 25 };
    await stationOn(t, floor);
    camera?.show(() => machine?.labels[0] && pngOf(machine.labels[0].dots));
    await sealed(shop, ref);
    expect(machine?.labels).toHaveLength(1);
  });

  test("a camera that goes on seeing a label that waits for a person has one picture of it kept", async (t) => {
    const { shop, net, station } = await lineBehindNet(t, w, { eyes: "camera", config: { attest: "operator" } });
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    const frames = () => station.floor.camera?.frames() ?? 0;
    const before = frames();
    await until(() => frames() > before + 6);
    await say(station, ref, "good");
    await sealed(shop, ref);
    await until(() => station.state().buffer.pictures === 0);
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    const named = [items[0].evidence.render_manifest.preview_sha256, items[3].evidence.scan_result.image_sha256];
    const sent = net.passed.flatMap(({ method, path }) => (method === "PUT" ? path.split("/").at(-1) : []));
    expect(new Set(sent)).toEqual(new Set(named)); // one may have been sent again
  });

  test("with `attest: operator` a person is asked even where the device could know", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref } = await shop.issue();
    const station = await running(t, w.url, shop, { config: { attest: "operator" } });
    await isAsked(station, ref, "attest");
    expect((await say(station, ref, "good")).status).toBe(200);
    await sealed(shop, ref);
  });

  test("a typed text with a session is a scan with a name", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref, digital_link: text } = await shop.issue();
    const station = await running(t, w.url, shop, { eyes: "hand" });
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    expect((await ask(station, "POST", "/api/scan", { text, session: "nobody's" })).status).toBe(401);
    const said = await ask(station, "POST", "/api/scan", { text, session: await sessionAt(station) });
    expect(said.body).toMatchObject({ moved: true, job_ref: ref });
    await sealed(shop, ref);
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items[3]).toMatchObject({ actor: { kind: "operator", id: "op-7" }, evidence: { scan_result: { source: "keyboard" } } });
    expect(items[3].evidence.scan_result).not.toHaveProperty("simulated");
  });

  test("what is typed at a keyboard that the settings name comes from it, and carries its mark", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref, digital_link: text } = await shop.issue();
    const station = await running(t, w.url, shop, { settings: { scanners: [{ name: "wedge", driver: "keyboard", simulated: true }] } });
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true, job_ref: ref });
    expect(station.state().scanners).toMatchObject([{ name: "wedge", last: { moved: true, job_ref: ref } }]);
    await sealed(shop, ref);
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items[3].evidence.scan_result).toMatchObject({ source: "keyboard", simulated: true });
  });
});

describe.concurrent("what isn't this label moves nothing", () => {
  test("a wrong, a repeated and an unknown scan leave the job where it is, each with its reason", async (t) => {
    const shop = await printShop(w);
    const first = await shop.issue({ priority: 2 });
    const second = await shop.issue({ priority: 1 });
    const station = await running(t, w.url, shop, { eyes: "hand" });
    await until(() => jobAt(station, first.job_ref)?.state === "PRINTED_ATTESTED");
    const scan = async (text: string) => (await ask(station, "POST", "/api/scan", { text })).body;
    expect(await scan(second.digital_link)).toMatchObject({ moved: false, why: "other_serial" });
    expect(await scan("http://elsewhere.example/01/1")).toMatchObject({ moved: false, why: "not_a_link" });
    expect(await stateInCloud(shop, first.job_ref)).not.toBe("SCAN_VERIFIED");
    expect(await scan(first.digital_link)).toMatchObject({ moved: true });
    await until(() => jobAt(station, second.job_ref)?.state === "PRINTED_ATTESTED");
    expect(await scan(first.digital_link)).toMatchObject({ moved: false, why: "repeated" });
    expect(jobAt(station, second.job_ref)?.state).toBe("PRINTED_ATTESTED");
    expect(await station.floor.links()).toHaveLength(2);
  });

  test("a scanner that sends no line end is told of by that name, at each of its scans", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    const { job_ref: ref, digital_link: link } = await shop.issue();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED" && station.floor.scanner?.listeners() === 1);
    const last = () => station.state().scanners[0]?.last;
    for (const n of [1, 2]) {
      await station.floor.scanner?.scan(link, { fault: "no-suffix" });
      await until(() => last()?.n === n);
      expect(last()).toMatchObject({
        moved: false,
        why: "no_line_end",
        words: expect.stringContaining("set the scanner to send CR or LF"),
      });
    }
    expect((await ask(station, "POST", "/api/scan", { text: link + link })).body).toMatchObject({ moved: false, why: "no_line_end" });
  });

  test("a label that was given up, and one whose job ended, aren't said to be sealed when they are scanned again", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    const scan = async (text: string) => (await ask(station, "POST", "/api/scan", { text })).body;
    const { job_ref: bad, digital_link: badLink } = await shop.issue({ max_attempts: 1 });
    await until(() => jobAt(station, bad)?.state === "PRINTED_ATTESTED");
    expect((await say(station, bad, "misprint")).status).toBe(200);
    await until(() => station.state().jobs.length === 0);
    expect(await scan(badLink)).toMatchObject({ moved: false, why: "not_sealed", job_ref: bad });
    const { job_ref: voided, digital_link: link, serial } = await shop.issue();
    await until(() => jobAt(station, voided)?.state === "PRINTED_ATTESTED");
    await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial });
    await scan(link);
    await until(() => jobAt(station, voided)?.stage === "orphan");
    expect(await scan(link)).toMatchObject({ moved: false, why: "not_sealed", job_ref: voided });
  });

  test.for(["mirrored", "two-labels", "blur", "inverted", "void"] as const)(
    "a camera's view that is %s verifies nothing",
    async (fault, t) => {
      const shop = await printShop(w);
      const { job_ref: ref } = await shop.issue();
      const station = await running(t, w.url, shop, { eyes: "camera" });
      station.floor.camera?.set({ fault });
      await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
      const frames = station.floor.camera?.frames() ?? 0;
      await until(() => (station.floor.camera?.frames() ?? 0) > frames + 2);
      expect(jobAt(station, ref)?.state).toBe("PRINTED_ATTESTED");
      station.floor.camera?.set({ fault: "none" });
      await sealed(shop, ref);
    },
  );

  test("a label that can't be scanned is given up by a person, and the next attempt asks for it first", async (t) => {
    const shop = await printShop(w);
    const { job_ref: ref } = await shop.issue();
    const station = await running(t, w.url, shop, { eyes: "hand" });
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    const wrong = await say(station, ref, "good");
    expect([wrong.status, wrong.body.error.details.allowed]).toEqual([409, ["misprint", "destroyed"]]);
    expect((await ask(station, "POST", `/api/jobs/${ref}/attest`, { verdict: "misprint" })).status).toBe(401);
    await say(station, ref, "misprint");
    await isAsked(station, ref, "destroy_earlier");
    expect(jobAt(station, ref)).toMatchObject({ attempt: 2, duplicate_risk: true });
    expect(await station.floor.links()).toHaveLength(1);
    expect((await say(station, ref, "good")).body.error.details.allowed).toEqual(["destroyed", "not_printed"]);
    await say(station, ref, "destroyed");
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    expect(await station.floor.links()).toHaveLength(2);
    expect(station.state().ledger.counts).toMatchObject({ destroyed: 1, printed: 1 });
  });
});

describe.concurrent("when nobody knows what came out", () => {
  /** The connection dies inside the label: some of it is out. */
  async function unknown(t: Ends, at = 100): Promise<{ shop: Shop; ref: string; link: string; station: Running }> {
    const { shop, station } = await lineOf(t, w);
    station.floor.machine?.fault("reset-at", { at });
    const { job_ref: ref, digital_link: link } = await shop.issue();
    await isAsked(station, ref, "unknown_outcome");
    return { shop, ref, link, station };
  }

  test("it is asked, and never printed again by itself", async (t) => {
    const { shop, ref, station } = await unknown(t);
    const other = await shop.issue();
    await until(() => station.state().printers[0]?.words.startsWith("waits for an answer") ?? false);
    expect(await station.floor.links()).toEqual([]);
    expect(await movesOf(shop, ref)).not.toContain("PRINTED_ATTESTED");
    const wrong = await ask(station, "POST", `/api/jobs/${ref}/attest`, { verdict: "perhaps", session: await sessionAt(station) });
    expect(wrong.status).toBe(400);
    await say(station, ref, "not_printed");
    await sealed(shop, other.job_ref); // the lane goes on
    await sealed(shop, ref); // a fresh attempt, without a risk: nothing of the first is left
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ attempt: 2, duplicate_risk: false });
  });

  test.for([
    ["misprint", true],
    ["destroyed", false],
  ] as const)("%s ends the attempt; the next one warns: %s", async ([verdict, risk], t) => {
    const { shop, ref, station } = await unknown(t);
    await say(station, ref, verdict);
    await until(() => jobAt(station, ref)?.attempt === 2 || station.state().recent.some(({ attempt }) => attempt === 2));
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ attempt: 2, duplicate_risk: risk });
    if (!risk) return sealed(shop, ref);
    expect(asked(station, ref)).toBe("destroy_earlier");
    expect(await station.floor.links()).toEqual([]);
  });

  test("the question stays the same one, however often its lease is renewed before it is answered", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: 5 } } });
    station.floor.machine?.fault("reset-at", { at: 100 });
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "unknown_outcome");
    const { attempt_id: of = "", ask: question } = jobAt(station, ref) ?? {};
    const leased = () => station.store.attempt(of)?.leaseUntil ?? 0;
    const before = leased();
    await until(() => leased() > before);
    expect(jobAt(station, ref)?.ask).toEqual(question);
    const answer = () => say(station, ref, "good", { attempt_id: of, since: question?.since });
    expect((await answer()).status).toBe(200);
    const { status, body } = await answer(); // from the page of somebody who was slower
    expect([status, body.error.message, body.error.details.ask]).toEqual([409, expect.stringContaining("isn't asked any more"), null]);
  });

  test("good is a person's attestation, and the label is scanned like any other", async (t) => {
    const { shop, ref, link, station } = await unknown(t);
    await say(station, ref, "good");
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    await ask(station, "POST", "/api/scan", { text: link });
    await sealed(shop, ref);
    expect(await station.floor.links()).toEqual([]);
  });

  test("a label that came out although its answer was lost is decided by its scan", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    await until(() => station.state().printers[0]?.ceiling === "A" && station.floor.scanner?.listeners() === 1);
    station.floor.machine?.fault("fence-never");
    const { job_ref: ref, digital_link: link } = await shop.issue();
    await isAsked(station, ref, "unknown_outcome");
    await station.floor.scanner?.scan(link);
    await sealed(shop, ref);
    expect(await station.floor.links()).toEqual([link]);
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items[2].evidence.completion.basis).toBe("scan");
  });

  test("where no byte left, the same attempt is sent again", async (t) => {
    const { shop, station } = await lineOf(t, w);
    await until(() => station.state().printers[0]?.status === "ready");
    station.floor.machine?.fault("power-off");
    const { job_ref: ref } = await shop.issue();
    await until(() => station.state().printers[0]?.status === "offline");
    station.floor.machine?.clear();
    await sealed(shop, ref);
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body.attempt).toBe(1);
    expect(await station.floor.links()).toHaveLength(1);
  });
});

describe.concurrent("a printer that waits for a person", () => {
  test.for(["paper-out", "head-open", "ribbon-out", "paused", "over-temperature"] as const)(
    "%s before a label: it says why, and prints once when it is mended",
    async (fault, t) => {
      const { shop, station } = await lineOf(t, w);
      await until(() => station.state().printers[0]?.status === "ready");
      station.floor.machine?.fault(fault);
      const { job_ref: ref } = await shop.issue();
      await until(() => station.state().printers[0]?.status === "blocked");
      expect(station.state().printers[0]?.words).toMatch(/out of|open|paused|hot/);
      expect(station.state().status).toBe("degraded");
      station.floor.machine?.clear();
      await sealed(shop, ref);
      expect(await station.floor.links()).toHaveLength(1);
    },
  );

  test("out of paper in the middle of a label: its lease lives, and it comes out once", async (t) => {
    const { shop, station } = await lineOf(t, w, { settings: { claim: { ahead: 4, leaseSeconds: 5 } } });
    await until(() => station.state().printers[0]?.status === "ready");
    station.floor.machine?.fault("paper-out", { after: 1, mid: 1 });
    const { job_ref: ref } = await shop.issue();
    await until(() => station.state().printers[0]?.status === "blocked");
    w.later(3_000);
    const expiry = async () => Date.parse((await shop.admin.get(`/aidc/jobs/${ref}`)).body.lease.expires_at);
    const before = await expiry();
    await until(async () => (await expiry()) > before);
    station.floor.machine?.clear();
    await sealed(shop, ref);
    expect(await station.floor.links()).toHaveLength(1);
  });

  const IMPATIENT = { patience: { blockedMs: 200, idleMs: 200, retryMs: [50] } };
  test("what waits too long is taken out of the printer before the job is given back", async (t) => {
    const { shop, station } = await lineOf(t, w, { printer: { silentOnFault: false } }, IMPATIENT);
    await until(() => station.state().printers[0]?.status === "ready");
    station.floor.machine?.fault("paper-out", { after: 1, mid: 1 });
    const { job_ref: ref } = await shop.issue();
    await until(async () => (await movesOf(shop, ref)).includes("FAILED"));
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ duplicate_risk: false });
    expect(station.floor.machine?.waiting()).toBe(0);
    station.floor.machine?.clear();
    await sealed(shop, ref);
    expect(await station.floor.links()).toHaveLength(1);
  });

  test("nor is one that was scanned meanwhile told of as never printed: its scan says that it came out", async (t) => {
    const shop = await printShop(w);
    const patience = { ...IMPATIENT.patience, blockedMs: 5_000 };
    const station = await running(t, w.url, shop, { eyes: "hand", printer: { silentOnFault: false } }, { patience });
    await until(() => station.state().printers[0]?.status === "ready" && station.floor.scanner?.listeners() === 1);
    station.floor.machine?.fault("paper-out", { after: 1, mid: 1 });
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => jobAt(station, ref)?.stage === "sent");
    await station.floor.scanner?.scan(text, { aim: true });
    await sealed(shop, ref);
    expect(await movesOf(shop, ref)).not.toContain("FAILED");
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items[2].evidence.completion).toMatchObject({ basis: "scan", grade: "B" });
    expect(station.state().ledger.counts).toMatchObject({ sealed: 1 });
  });

  test("where the printer doesn't say that nothing waits in it, a person is asked before the job is given back", async (t) => {
    const { shop, station } = await lineOf(t, w, {}, IMPATIENT);
    await until(() => station.state().printers[0]?.status === "ready");
    station.floor.machine?.fault("paper-out", { after: 1, mid: 1 });
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "unknown_outcome");
    expect(await movesOf(shop, ref)).not.toContain("FAILED");
    station.floor.machine?.clear();
    await say(station, ref, "not_printed");
    await sealed(shop, ref);
    expect(await station.floor.links()).toHaveLength(1);
  });
});

describe.concurrent("tags", () => {
  const rfid = async (t: Ends, fault: FaultName, how = {}, also: FaultName[] = []) => {
    const { shop, station } = await lineOf(t, w, { rfid: true });
    await until(() => station.state().printers[0]?.status === "ready");
    station.floor.machine?.fault(fault, how);
    for (const name of also) station.floor.machine?.fault(name);
    const { job_ref: ref, digital_link: link } = await shop.issue({ needs: ["qr", "rfid"] });
    return { shop, station, ref, link };
  };

  test("a void label has to be destroyed before the good one counts", async (t) => {
    const { shop, station, ref } = await rfid(t, "rfid-void", { times: 1 });
    await isAsked(station, ref, "destroy_void");
    expect(station.state().ledger.counts).toMatchObject({ void: 1, printed: 1 });
    const text = jobAt(station, ref)?.digital_link;
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: false });
    expect((await say(station, ref, "good")).body.error.details.allowed).toEqual(["destroyed"]);
    await say(station, ref, "destroyed");
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
    await sealed(shop, ref);
    await until(() => station.state().ledger.counts["sealed"] === 1);
    expect(station.state().ledger).toMatchObject({ counts: { destroyed: 1 }, open: [] });
  });

  test("that the void one is destroyed, said twice, gives the good one not up: whoever says it second is told", async (t) => {
    const { shop, station, ref } = await rfid(t, "rfid-void", { times: 1 });
    await isAsked(station, ref, "destroy_void");
    const text = jobAt(station, ref)?.digital_link;
    const both = await Promise.all([say(station, ref, "destroyed"), say(station, ref, "destroyed")]);
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409]);
    expect(both.find(({ status }) => status === 409)?.body.error).toMatchObject({
      message: expect.stringContaining("that was said just now"),
      details: { ask: null, allowed: ["misprint", "destroyed"] },
    });
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
    await sealed(shop, ref);
  });

  test("a void label beside one of which nobody knows is no stranger's: it waits in the ledger, whatever becomes of the other", async (t) => {
    const { shop, station, ref } = await rfid(t, "rfid-void", { times: 1 }, ["fence-never"]);
    await isAsked(station, ref, "unknown_outcome");
    expect(station.state().ledger.counts).toEqual({ unknown: 1, void: 1 });
    station.floor.machine?.clear();
    await say(station, ref, "destroyed");
    await sealed(shop, ref);
    await until(() => station.state().ledger.counts["sealed"] === 1);
    expect(station.state().ledger.open).toMatchObject([{ state: "void", words: expect.stringContaining("came out void in place of") }]);
    await explainLeft({ station, floor: station.floor, destroyed: new Set(), asked: 0 });
    expect(station.state().ledger.counts).toEqual({ destroyed: 1, sealed: 1, explained: 1 });
  });

  test("nor is it forgotten where the job went on before the printer told of it", async (t) => {
    const { shop, station } = await lineOf(t, w, { rfid: true, eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: 5 } } });
    await until(() => station.state().printers[0]?.status === "ready");
    station.floor.machine?.fault("rfid-void", { times: 1 });
    station.floor.machine?.fault("fence-never");
    const { job_ref: ref, serial } = await shop.issue({ needs: ["qr", "rfid"] });
    await until(() => jobAt(station, ref)?.stage === "sent" && station.state().buffer_depth === 0);
    await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial });
    await isAsked(station, ref, "destroy_earlier");
    await until(() => station.store.orphans()[0]?.work.held === undefined); // the printer was heard out, and told to drop it
    expect(station.floor.machine?.labels.map(({ isVoid }) => isVoid)).toEqual([true, false]);
    expect(station.state().ledger.counts).toEqual({ orphan: 1, void: 1 });
  });

  test("when no tag takes it the attempt fails, once its void labels are destroyed", async (t) => {
    const { shop, station, ref } = await rfid(t, "rfid-void", { times: 3 });
    await isAsked(station, ref, "destroy_void");
    expect(station.state().ledger.counts["void"]).toBe(3);
    expect(await movesOf(shop, ref)).not.toContain("PRINTED_ATTESTED");
    await say(station, ref, "destroyed");
    await sealed(shop, ref);
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ attempt: 2, duplicate_risk: false });
    expect(await station.floor.links()).toHaveLength(1);
  });

  test("that nobody has read isn't verified by a person's word and a scan: the label is given up", async (t) => {
    const { shop, station, ref, link } = await rfid(t, "fence-never");
    await isAsked(station, ref, "unknown_outcome");
    expect((await say(station, ref, "good")).status).toBe(200);
    const scan = await ask(station, "POST", "/api/scan", { text: link });
    expect(scan.body).toMatchObject({ moved: false, why: "tag", words: expect.stringContaining("nobody has read this label's tag") });
    station.floor.machine?.clear();
    await say(station, ref, "destroyed");
    await sealed(shop, ref);
    expect(station.state().quarantine).toEqual([]);
  });

  test("a tag that reads back wrong is no good label", async (t) => {
    const { shop, station, ref } = await rfid(t, "epc-shift");
    await isAsked(station, ref, "destroy_void");
    expect(await movesOf(shop, ref)).not.toContain("PRINTED_ATTESTED");
    station.floor.machine?.clear();
    await say(station, ref, "destroyed");
    await sealed(shop, ref);
  });
});
