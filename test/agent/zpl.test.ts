// What is Zebra's own: dots as every firmware reads them, tags written and read back, void labels, the counter, and silences that mean something.
import { createRequire } from "node:module";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import * as fc from "fast-check";
import { expect, type onTestFinished, test } from "vitest";
import { encodeSgtin96 } from "#shared/gs1.ts";
import { type Bitmap, blank, setDot } from "../../agent/bitmap.ts";
import { systemClock } from "../../agent/clock.ts";
import { decode } from "../../agent/decode.ts";
import { renderLabel } from "../../agent/label.ts";
import { isOther, type Printer, type Profile } from "../../agent/printers/driver.ts";
import { openPrinter } from "../../agent/printers/index.ts";
import { driver } from "../../agent/printers/zpl.ts";
import { lexer } from "../../agent/printers/zpl-answers.ts";
import { graphicField } from "../../agent/printers/zpl-format.ts";
import { loadTemplates, templateFor } from "../../agent/template.ts";
import { answersInTurn, startDevice } from "../../fixtures/device.ts";
import { decodeGraphic, startZplPrinter } from "../../fixtures/printers/zpl.ts";

const GTIN = "09506000134352";
const SERIAL = "123456789012";
const EPC = encodeSgtin96({ gtin: GTIN, serial: SERIAL, companyPrefixLength: 7, filter: 1 });
const PAYLOAD = `https://id.example.com/01/${GTIN}/21/${SERIAL}`;
const TIMING = { answerMs: 1_000, pollMs: 30, completionMs: 8_000, settleMs: 600, stallMs: 1_000 };

type T = { onTestFinished: typeof onTestFinished };
async function pairOf(t: T, profile: Partial<Profile> = {}, options: Parameters<typeof startZplPrinter>[0] = {}) {
  const machine = await startZplPrinter({ scale: 0, rfid: profile.rfid ?? false, ...options });
  t.onTestFinished(machine.stop);
  const printer = await driver.open(machine.url, { name: "zebra", dpi: 203, simulated: true, timing: TIMING, ...profile });
  t.onTestFinished(() => printer.close());
  const print = async (dots: Bitmap, epc?: string) =>
    printer.awaitCompletion(await printer.submit(await printer.encode(dots, epc === undefined ? {} : { epc })));
  return { machine, printer, print };
}
function dotsOf(n = 1): Bitmap {
  const dots = blank(24, 8);
  setDot(dots, n, 3);
  return dots;
}
const labelOf = () =>
  renderLabel(
    { payload: PAYLOAD, gtin: GTIN, serial: SERIAL },
    { template: templateFor(loadTemplates(), { widthMm: 50, heightMm: 25 }), dpi: 203 },
  );

// --- dots

test("any dots at all come back from their compressed form", () => {
  const rows = fc.array(fc.oneof(fc.constantFrom(0, 255), fc.nat(255)), { minLength: 1, maxLength: 60 });
  fc.assert(
    fc.property(fc.array(rows, { minLength: 1, maxLength: 6 }), fc.integer({ min: 1, max: 4 }), (rows, repeats) => {
      const width = Math.max(...rows.map((row) => row.length));
      const dots = blank(width * 8, rows.length * repeats);
      for (const [y, row] of rows.entries()) for (let i = 0; i < repeats; i += 1) dots.bytes.set(row, (y * repeats + i) * width);
      expect(decodeGraphic(graphicField(dots).slice("^GF".length))).toEqual(dots);
    }),
    { numRuns: 300 },
  );
});

test.concurrent("a renderer that isn't ours draws the label from our bytes, and it reads as the payload", async (t) => {
  // 27 MB for one test, so only here; by its CommonJS door, because the test runner looks for a source map behind the other.
  const { ready } = createRequire(import.meta.url)("zpl-renderer-js") as typeof import("zpl-renderer-js");
  const { api } = await ready;
  const { bitmap } = await labelOf();
  const { printer } = await pairOf(t);
  const { bytes } = await printer.encode(bitmap);
  const png = Buffer.from(await api.zplToBase64Async(Buffer.from(bytes).toString("latin1"), 50, 25, 8), "base64");
  expect((await decode(png)).map(({ text }) => text)).toEqual([PAYLOAD]);
});

test.concurrent("a label of more dots than one graphic holds comes out whole", async (t) => {
  const { machine, print } = await pairOf(t, { dpi: 600 }, { dpi: 600, widthMm: 100, heightMm: 50 });
  const template = templateFor(loadTemplates(), { widthMm: 100, heightMm: 50 });
  const { bitmap } = await renderLabel({ payload: PAYLOAD, gtin: GTIN, serial: SERIAL }, { template, dpi: 600 });
  expect(bitmap.bytes.length).toBeGreaterThan(99_999);
  expect((await print(bitmap)).outcome).toBe("confirmed");
  expect(Buffer.compare(machine.labels[0]?.dots.bytes ?? Buffer.alloc(0), bitmap.bytes)).toBe(0);
});

test.concurrent("a label leaves the printer's own settings alone unless the operator wrote some down", async (t) => {
  const sent = async (profile: Partial<Profile>) =>
    Buffer.from((await (await pairOf(t, profile)).printer.encode(dotsOf())).bytes).toString("latin1");
  const SETTINGS = /\^(MN|MT|MM|MD|PW|LL|LT|LH|LS|PR|PO|JU)|~SD/;
  expect(await sent({})).not.toMatch(SETTINGS);
  expect(await sent({ setup: "^MNW^PR2" })).toContain("^XA\n^MNW^PR2\n");
});

test.concurrent("a label that needs a tag is refused by a printer that has no encoder", async (t) => {
  const { printer } = await pairOf(t);
  await expect(printer.encode(dotsOf(), { epc: EPC })).rejects.toMatchObject({
    code: "LABEL_REFUSED",
    message: expect.stringContaining("no RFID encoder"),
  });
  await expect(printer.encode(dotsOf(), { token: "^XZ" })).rejects.toThrow("isn't eight hex digits");
});

// --- tags

test.concurrent("a tag is written and read back, with the identity of the very tag", async (t) => {
  const { machine, print } = await pairOf(t, { rfid: true });
  const completion = await print(dotsOf(), EPC);
  const [label] = machine.labels;
  expect(label?.tag?.epc).toBe(EPC);
  expect(completion).toMatchObject({
    outcome: "confirmed",
    evidence: { basis: "zpl-hv+odometer", epc: EPC, tid: label?.tag?.tid, before: 1_000, after: 1_001 },
  });
  expect(completion.evidence).not.toHaveProperty("voids");
});

test.concurrent("a tag that refuses costs a void label, which is counted and has to be destroyed", async (t) => {
  const { machine, print } = await pairOf(t, { rfid: true });
  machine.fault("rfid-void", { times: 2 });
  expect(await print(dotsOf(), EPC)).toMatchObject({
    outcome: "confirmed",
    toDestroy: 2,
    evidence: { voids: 2, before: 1_000, after: 1_003, grade: "A" },
  });
  expect(machine.labels.map(({ isVoid }) => isVoid)).toEqual([true, true, false]);
});

test.concurrent("a printer that tries one tag after another has its time for each: void labels that come out meanwhile show that it is at it", async (t) => {
  const profile = { rfid: true, rfidTries: 5, timing: { ...TIMING, completionMs: 900 } };
  const { machine, print } = await pairOf(t, profile, { scale: 1, encodeMs: 500 });
  machine.fault("rfid-void", { times: 4 });
  expect(await print(dotsOf(), EPC)).toMatchObject({
    outcome: "confirmed",
    toDestroy: 4,
    evidence: { voids: 4, before: 1_000, after: 1_005, grade: "A" },
  });
});

test.concurrent("void labels are known as such though a question for their counter isn't answered, and nothing is guessed where none is", async (t) => {
  const { machine, printer, print } = await pairOf(t, { rfid: true });
  await printer.probe();
  machine.fault("rfid-void", { times: 2 });
  void machine.printed(1).then(() => machine.fault("voids-untold"));
  expect(await print(dotsOf(1), EPC)).toMatchObject({
    outcome: "confirmed",
    toDestroy: 2,
    evidence: { voids: 2, before: 1_000, after: 1_003 },
  });
  machine.fault("voids-untold");
  expect(await print(dotsOf(2), EPC)).toMatchObject({ outcome: "failed", reason: expect.stringContaining("nothing of the label left") });
  expect(await print(dotsOf(2), EPC)).toMatchObject({ outcome: "confirmed", toDestroy: 0 });
  void machine.printed(5).then(() => machine.fault("voids-untold", { times: 9 }));
  expect(await print(dotsOf(3), EPC)).toMatchObject({
    outcome: "unknown",
    reason: expect.stringContaining("doesn't tell how many of them are void"),
  });
});

test.concurrent("when no tag takes the EPC the label has failed, nothing of it comes later, and the next one prints", async (t) => {
  const { machine, printer, print } = await pairOf(t, { rfid: true });
  await printer.probe();
  machine.fault("rfid-void", { times: 3 });
  expect(await print(dotsOf(1), EPC)).toMatchObject({
    outcome: "failed",
    toDestroy: 3,
    reason: "no tag took the EPC: 3 labels came out void",
  });
  expect((await printer.preflight()).faults).toMatchObject([{ name: "paused" }, { name: "labels-waiting" }]);
  expect(await printer.flush()).toEqual({ clean: true, waiting: 0, words: "nothing waits in it", counters: { labels: 1_003, voids: 3 } });
  expect((await printer.preflight()).ready).toBe(true);
  expect((await print(dotsOf(2), EPC)).outcome).toBe("confirmed");
  expect(machine.labels.map(({ isVoid }) => isVoid)).toEqual([true, true, true, false]);
});

test.concurrent("a tag that reads back as another EPC has failed, and its label has to be destroyed", async (t) => {
  const { machine, print } = await pairOf(t, { rfid: true });
  machine.fault("epc-shift");
  const completion = await print(dotsOf(), EPC);
  expect(completion).toMatchObject({ outcome: "failed", toDestroy: 1, evidence: { grade: "E", epc: machine.labels[0]?.tag?.epc } });
  expect(completion.reason).toContain(`not as ${EPC}`);
});

test.concurrent("an EPC in the neighbour's tag looks right to the printer, and the station says that it can't see this", async (t) => {
  const { machine, printer, print } = await pairOf(t, { rfid: true });
  machine.fault("neighbour-inlay");
  expect((await print(dotsOf(), EPC)).outcome).toBe("confirmed");
  expect(machine.labels[0]?.tag?.epc).toBeNull();
  expect(machine.tagAt(1).epc).toBe(EPC);
  expect((await printer.probe()).cannotDetect).toContainEqual(expect.stringContaining("neighbouring label"));
});

// --- the counter

// At this pace the answer comes when the other's label is out and ours isn't: for a moment the counter has moved by exactly one.
test.concurrent("a label of somebody else between makes the counter disagree: unknown, however good the answer", async (t) => {
  const { machine, print } = await pairOf(t, {}, { scale: 1 });
  machine.fault("foreign-writer");
  expect(await print(dotsOf())).toMatchObject({
    outcome: "unknown",
    toDestroy: null,
    evidence: { before: 1_000, after: 1_002, grade: "E" },
  });
});

test.concurrent("an answer before anything was printed isn't believed, because the counter stands still", async (t) => {
  const { machine, print } = await pairOf(t);
  machine.fault("fence-early");
  expect(await print(dotsOf())).toMatchObject({ outcome: "unknown", evidence: { before: 1_000, after: 1_000 } });
  expect(machine.labels).toEqual([]);
});

test.concurrent("nor because the label behind it moved the counter: which of the two came out, the counter doesn't say", async (t) => {
  const { machine, printer } = await pairOf(t, { inFlight: 2, timing: { ...TIMING, settleMs: 3_000 } });
  await printer.probe();
  machine.fault("fence-early");
  const first = await printer.submit(await printer.encode(dotsOf()));
  const followed = printer.awaitCompletion(first);
  await new Promise((resolve) => setTimeout(resolve, 300)); // it has answered, and nothing has come out
  expect(machine.labels).toEqual([]);
  machine.clear();
  const second = await printer.submit(await printer.encode(dotsOf(2)));
  expect(await followed).toMatchObject({ outcome: "unknown" });
  expect(second.bytesAccepted).toBeGreaterThan(0);
  expect(machine.labels).toHaveLength(1);
});

test.concurrent("a counter that service set back makes the outcome unknown, not a negative number of labels", async (t) => {
  const { machine, print } = await pairOf(t);
  machine.fault("odometer-reset");
  expect(await print(dotsOf())).toMatchObject({ outcome: "unknown", toDestroy: null, evidence: { after: 0 } });
});

test.concurrent("nor does a void counter that somebody resets meanwhile make up for a label that didn't come out", async (t) => {
  const { machine, printer } = await pairOf(t, { rfid: true });
  await printer.probe();
  machine.counters.voids = 1;
  machine.fault("fence-early");
  const submission = await printer.submit(await printer.encode(dotsOf(), { epc: EPC }));
  machine.counters.voids = 0;
  expect(await printer.awaitCompletion(submission)).toMatchObject({ outcome: "unknown", evidence: { before: 1_000, after: 1_000 } });
  expect(machine.labels).toEqual([]);
});

test.concurrent("a counter that was there and falls silent stops the next label before its first byte", async (t) => {
  const { machine, printer } = await pairOf(t);
  await printer.probe();
  machine.fault("no-counter");
  expect(await printer.submit(await printer.encode(dotsOf()))).toMatchObject({
    bytesAccepted: 0,
    retryable: true,
    fault: expect.stringContaining("label counter"),
  });
});

test.concurrent("an answer that came too late for its question isn't taken for the next one's", async (t) => {
  const { machine, printer, print } = await pairOf(t, { timing: { ...TIMING, answerMs: 500 } });
  await printer.probe();
  machine.fault("slow-reader", { bytes: 8, ms: 250 });
  await printer.preflight(); // it times out all over, and the answers trickle in later
  machine.clear();
  await t.expect.poll(async () => (await printer.preflight()).ready).toBe(true);
  expect(await print(dotsOf())).toMatchObject({ outcome: "confirmed", evidence: { before: 1_000, after: 1_001 } });
});

test.concurrent("answers that were held up and then come one after another, one to the question that shows it as well, aren't taken for later ones", async (t) => {
  const answers: [question: RegExp, answer: string][] = [
    [/total_label_count/, '"5000"'],
    [/void_resettable/, '"7"'],
    [/languages/, '"zpl"'],
    [/unique_id/, '"12345"'],
  ];
  const inTurn = answersInTurn();
  const device = await startDevice((socket) =>
    socket.on("data", (asked) => {
      const question = String(asked);
      if (question === "~HQES")
        socket.write("\x02\r\n PRINTER STATUS\r\n ERRORS: 0 00000000 00000000\r\n WARNINGS: 0 00000000 00000000\r\n\x03");
      if (question === "~HS")
        socket.write("\x02030,0,0,0200,000,0,0,0,000,0,0,0\x03\r\n\x02000,0,0,0,0,2,4,0,00000000,1,000\x03\r\n\x021234,0\x03\r\n");
      const said = answers.find(([pattern]) => pattern.test(question))?.[1];
      if (said !== undefined) inTurn.say(() => socket.write(said));
    }),
  );
  const printer = await driver.open(device.url, { name: "zebra", dpi: 203, rfid: true, timing: { ...TIMING, answerMs: 400 } });
  t.onTestFinished(async () => {
    await printer.close();
    await device.end();
  });
  await printer.probe();
  const letGo = inTurn.holdUp();
  for (let looks = 0; looks < 2; looks += 1) expect((await printer.preflight()).counters).toEqual({ labels: null, voids: null });
  letGo();
  for (let isWhole = false; !isWhole;) {
    const { labels, voids } = (await printer.preflight()).counters;
    expect([labels ?? 5_000, voids ?? 7]).toEqual([5_000, 7]);
    isWhole = labels !== null && voids !== null;
  }
});

// --- answers that aren't to what was asked

/** A printer of another's making: it counts and prints, and says what `passes` makes of its answers, one write each. */
async function zebraThat(t: T, passes: (answers: string[], socket: Socket) => void, { unit = "D4J-221500123", movesMs = 0 } = {}) {
  const counts = { labels: 5_000, voids: 7 };
  const printed: string[] = [];
  let halted = false;
  const answersOf = (question: string): string[] => {
    if (question.includes("~HI")) return ["\x02ZD621R,V93.21.26Z,8,8192KB\x03\r\n"];
    if (question.includes("~HS"))
      return ["\x02030,0,0,0200,000,0,0,0,000,0,0,0\x03\r\n\x02000,0,0,0,0,2,4,0,00000000,1,000\x03\r\n\x021234,0\x03\r\n"];
    if (question.includes("~HQES"))
      return ["\x02\r\n PRINTER STATUS\r\n ERRORS: 0 00000000 00000000\r\n WARNINGS: 0 00000000 00000000\r\n\x03"];
    if (question.includes("total_label_count")) return [`"${counts.labels}"`];
    if (question.includes("void_resettable")) return [`"${counts.voids}"`];
    if (question.includes("languages")) return ['"zpl"'];
    return question.includes("unique_id") ? [`"${unit}"`] : [];
  };
  const { url, end } = await startDevice((socket) => {
    let heard = "";
    socket.write('"hello"'); // the rest of what whoever was here before had asked
    socket.on("data", (bytes) => {
      heard += bytes.toString("latin1");
      for (let end = heard.indexOf("^XZ"); end >= 0; end = heard.indexOf("^XZ")) {
        const [, token = ""] = /\[([0-9A-F]{8})F:/.exec(heard.slice(0, end)) ?? [];
        heard = heard.slice(end + 3);
        if (!halted) {
          printed.push(token);
          if (movesMs > 0) void sleep(movesMs).then(() => (counts.labels += 1));
          else counts.labels += 1;
        }
        socket.write(`[${token}F:${halted ? "" : token}]`);
      }
      if (heard.includes("^XA")) return;
      const answers = answersOf(heard);
      if (answers.length > 0) heard = "";
      passes(answers, socket);
    });
  });
  t.onTestFinished(end);
  const printerWith = async (profile: Partial<Profile> = {}) => {
    const printer = await driver.open(url, { name: "zebra", dpi: 203, timing: { ...TIMING, answerMs: 400 }, ...profile });
    t.onTestFinished(() => printer.close());
    return printer;
  };
  return { counts, url, printed, printerWith, halt: () => void (halted = true) };
}
const printOn = async (printer: Printer, n = 1) => printer.awaitCompletion(await printer.submit(await printer.encode(dotsOf(n))));

test.concurrent.for([
  ["in one piece", 0],
  ["one after the other", 10],
] as const)("a line that brings every answer twice, %s, is read as if it came once", async ([, ms], t) => {
  const { printerWith, printed } = await zebraThat(t, (answers, socket) => {
    for (const answer of answers)
      void sleep(40).then(async () => {
        socket.write(answer + (ms === 0 ? answer : ""));
        if (ms > 0) await sleep(ms).then(() => socket.write(answer));
      });
  });
  const printer = await printerWith({ rfid: true });
  const { identity, ceiling } = await printer.probe();
  expect([identity, ceiling]).toEqual(["ZD621R,V93.21.26Z,8,8192KB (D4J-221500123)", "A"]);
  for (let labels = 1; labels <= 3; labels += 1) {
    expect(await printOn(printer, labels)).toMatchObject({ outcome: "confirmed", evidence: { before: 4_999 + labels, grade: "A" } });
    expect((await printer.preflight()).counters).toEqual({ labels: 5_000 + labels, voids: 7 });
  }
  expect(printed).toHaveLength(3);
});

test.concurrent("what another station asks on the same line is no answer to what this one asks", async (t) => {
  let n = 0;
  const { printerWith } = await zebraThat(t, (answers, socket) => {
    // It had asked a moment before, and for something else: that comes first.
    const isOfWords = answers.some((answer) => answer.startsWith('"'));
    const other = isOfWords && (n += 1) % 3 === 0 ? ['"203"', '"7"', '"off"'][n % 9 === 0 ? 0 : n % 2] : undefined;
    if (other !== undefined) socket.write(other);
    for (const answer of answers) void sleep(other === undefined ? 0 : 20).then(() => socket.write(answer));
  });
  const printer = await printerWith({ rfid: true });
  expect((await printer.probe()).identity).toMatch(/^ZD621R,V93.21.26Z,8,8192KB( \(D4J-221500123\))?$/);
  let whole = 0;
  for (let looks = 0; looks < 12; looks += 1) {
    const { labels, voids } = (await printer.preflight()).counters;
    expect([labels ?? 5_000, voids ?? 7]).toEqual([5_000, 7]);
    whole += Number(labels !== null && voids !== null);
  }
  expect(whole).toBeGreaterThan(3);
});

test.concurrent("a line that keeps each answer until the next question, so that it comes as that one's, tells no counter", async (t) => {
  let kept: string[] = [];
  const { printerWith } = await zebraThat(t, (answers, socket) => {
    const isOfWords = answers.some((answer) => answer.startsWith('"'));
    for (const answer of isOfWords ? kept : answers) socket.write(answer);
    if (isOfWords) kept = answers;
  });
  const printer = await printerWith({ rfid: true, timing: { ...TIMING, answerMs: 100 } });
  await printer.probe();
  for (let looks = 0; looks < 8; looks += 1) expect((await printer.preflight()).counters).toEqual({ labels: null, voids: null });
});

test.concurrent("a counter beyond all numbers isn't one, and nothing is added up with it", async (t) => {
  const { printerWith, counts } = await zebraThat(t, (answers, socket) => void answers.map((answer) => socket.write(answer)));
  Object.assign(counts, { labels: 10n ** 30n, voids: 0 });
  const printer = await printerWith();
  expect(await printer.probe()).toMatchObject({ counter: false, ceiling: "B" });
});

test.concurrent("a question for the label counter that isn't answered once is asked again: a label that is out and counted needs nobody's word", async (t) => {
  let unheard = 0;
  const { printerWith } = await zebraThat(t, (answers, socket) => {
    for (const answer of answers) if (!(answer.startsWith('"500') && unheard-- > 0)) socket.write(answer);
  });
  const timing = { ...TIMING, answerMs: 100, settleMs: 2_000 };
  const printer = await printerWith({ timing });
  await printer.probe();
  const submission = await printer.submit(await printer.encode(dotsOf()));
  unheard = 1;
  expect(await printer.awaitCompletion(submission)).toMatchObject({
    outcome: "confirmed",
    evidence: { before: 5_000, after: 5_001, grade: "A" },
  });
  const next = await printer.submit(await printer.encode(dotsOf(2)));
  unheard = Infinity;
  expect(await printer.awaitCompletion(next)).toMatchObject({
    outcome: "unknown",
    reason: expect.stringContaining("doesn't tell its counter"),
  });
});

test.concurrent("an answer without this label's own field in it is none", async (t) => {
  const { printerWith, halt } = await zebraThat(t, (answers, socket) => {
    for (const answer of answers) if (!answer.includes('"5')) socket.write(answer); // it has no counter
  });
  halt();
  const printer = await printerWith({ timing: { ...TIMING, answerMs: 100, completionMs: 500 } });
  await printer.probe();
  expect(await printOn(printer)).toMatchObject({ outcome: "unknown", evidence: { grade: "E" } });
});

test.concurrent("it is known by the number that its maker gave it, and by its model alone where it tells none", async (t) => {
  const identityOf = async (unit: string) => (await (await pairOf(t, {}, { unit })).printer.probe()).identity;
  const model = "IMPRIMATUR SIMULATED PRINTER-203dpi,V0.1,8,8192KB";
  expect(await identityOf("D4J-221500123")).toBe(`${model} (D4J-221500123)`);
  expect(await identityOf("?")).toBe(model);
  expect([
    isOther(model, `${model} (1)`),
    isOther(`${model} (1)`, model),
    isOther(`${model} (1)`, `${model} (12)`),
    isOther(model, `${model},CUTTER`),
  ]).toEqual([false, false, true, true]);
});

test.concurrent("a clock that is set forward while a label moves takes no time from its answer", async (t) => {
  const machine = await startZplPrinter({ scale: 5 });
  t.onTestFinished(machine.stop);
  let off = 0;
  const clock = { ...systemClock, now: () => Date.now() + off };
  const printer = await driver.open(machine.url, { name: "zebra", dpi: 203, timing: TIMING }, { clock });
  t.onTestFinished(() => printer.close());
  const completed = printer.awaitCompletion(await printer.submit(await printer.encode(dotsOf())));
  await new Promise((resolve) => setTimeout(resolve, 100));
  off = 3_600_000;
  expect((await completed).outcome).toBe("confirmed");
});

test.concurrent("a long label has the time that it takes from its answer until it is out", async (t) => {
  const { counts, url } = await zebraThat(t, (answers, socket) => void answers.map((answer) => socket.write(answer)), { movesMs: 5_500 });
  const config = { name: "zebra", driver: "zpl", port: url, dpi: 203, rfid: false, attest: "device", simulated: false } as const;
  const printer = await openPrinter({ ...config, label: { widthMm: 50, heightMm: 150 } });
  t.onTestFinished(() => printer.close());
  expect(await printOn(printer)).toMatchObject({ outcome: "confirmed", evidence: { grade: "A", after: 5_001 } });
  expect(counts.labels).toBe(5_001);
});

// --- health

test.concurrent.for([
  ["paper-out", "media-out"],
  ["ribbon-out", "ribbon-out"],
  ["head-open", "head-open"],
  ["over-temperature", "over-temperature"],
  ["paused", "paused"],
] as const)(
  "%s is told by its name before anything is sent, by firmware that falls silent and by firmware that doesn't",
  async ([fault, told], t) => {
    for (const silentOnFault of [true, false]) {
      const { machine, printer } = await pairOf(t, {}, { silentOnFault });
      machine.fault(fault);
      const status = await printer.preflight();
      expect(status).toMatchObject({ ready: false, faults: [{ name: told }] });
      expect(status.source.includes("~HS")).toBe(!silentOnFault || fault === "paused");
    }
  },
);

test.concurrent("the last label of a roll is confirmed when the next roll is in: until then the printer doesn't say that it is done", async (t) => {
  const { machine, printer } = await pairOf(t);
  machine.fault("paper-out", { after: 1 });
  const submission = await printer.submit(await printer.encode(dotsOf()));
  expect(await printer.awaitCompletion(submission)).toMatchObject({ outcome: "blocked", faults: [{ name: "media-out" }] });
  machine.clear();
  expect((await printer.awaitCompletion(submission)).outcome).toBe("confirmed");
  expect(machine.labels).toHaveLength(1);
});

test.concurrent("a label that somebody left in the printer stands in the way of ours", async (t) => {
  const { machine, printer } = await pairOf(t);
  machine.fault("paper-out");
  machine.queue(async () => void (await machine.consume(dotsOf())));
  machine.clear("paper-out");
  machine.fault("paused");
  expect((await printer.preflight()).faults).toMatchObject([{ name: "paused" }, { name: "labels-waiting" }]);
});

test.concurrent("a printer of another resolution than it was set up for is told of, and one that fits isn't", async (t) => {
  expect((await (await pairOf(t, {}, { dpi: 300 })).printer.probe()).warnings).toEqual([
    expect.stringContaining("it prints 300 dpi, and is set up for 203"),
  ]);
  expect(await (await pairOf(t)).printer.probe()).not.toHaveProperty("warnings");
});

test.concurrent("a printer of tags that answers nothing is told of: what it writes nobody has read", async (t) => {
  const warningsOf = async (rfid: boolean) => {
    const { machine, printer } = await pairOf(t, { rfid, timing: { ...TIMING, answerMs: 100 } });
    machine.fault("dont-answer");
    return (await printer.probe()).warnings;
  };
  expect(await warningsOf(true)).toEqual([expect.stringContaining("only what an RFID reader reads can be sealed")]);
  expect(await warningsOf(false)).toBeUndefined();
});

test.concurrent("a printer that names its options behind its memory, as Zebra's manual has it, is known by its name and its resolution", async (t) => {
  const device = await startDevice((socket) =>
    socket.on("data", (asked) => asked.includes("~HI") && socket.write("\x02ZD621R,V93.21.26Z,12,8192KB,CUTTER\x03\r\n")),
  );
  const printer = await driver.open(device.url, { name: "zebra", dpi: 203, timing: { ...TIMING, answerMs: 100 } });
  t.onTestFinished(async () => {
    await printer.close();
    await device.end();
  });
  expect(await printer.probe()).toMatchObject({
    identity: "ZD621R,V93.21.26Z,12,8192KB,CUTTER",
    ceiling: "B",
    warnings: [expect.stringContaining("it prints 300 dpi, and is set up for 203")],
  });
});

test("error bits that no table knows still say that something is wrong", () => {
  const answers = lexer()(Buffer.from("\x02\r\n PRINTER STATUS\r\n ERRORS: 1 00000000 00200000\r\n WARNINGS: 1 00000000 00000002\r\n\x03"));
  expect(answers).toEqual([{ kind: "hqes", errors: 0x20_0000n, warnings: 2n, hasErrors: true }]);
});

test("noise between answers, of any kind and in any pieces, loses none of them", () => {
  const answer = '\x02030,0,0,0200,003,0,0,0,000,0,0,0\x03\r\n[0A0B0C0DF:0A0B0C0D]"1234"';
  const noise = fc.string({ unit: fc.constantFrom("a", "Z", "0", " ", "\r", "\n", ",", "]", "\x03"), maxLength: 12 });
  fc.assert(
    fc.property(noise, noise, fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 80 }), (before, after, cuts) => {
      const bytes = Buffer.from(before + answer + after, "latin1");
      const lex = lexer();
      const heard = [];
      for (let at = 0, i = 0; at < bytes.length; at += cuts[i % cuts.length] ?? 1, i += 1)
        heard.push(...lex(bytes.subarray(at, at + (cuts[i % cuts.length] ?? 1))));
      expect(heard.map(({ kind }) => kind)).toEqual(["hs", "field", "sgd"]);
    }),
  );
});

test("a quotation mark that belongs to nothing costs the next answer at most, and puts none out of step", () => {
  for (const noise of ['"', 'a"', '"a', '""']) {
    const lex = lexer();
    const heard = [noise, '"1234"', '"5678"'].map((text) => lex(Buffer.from(text, "latin1")).at(-1));
    expect([noise, heard[2]]).toEqual([noise, { kind: "sgd", value: "5678" }]);
  }
});
