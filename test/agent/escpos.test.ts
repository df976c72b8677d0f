// What is ESC/POS's own: rasters of a limited width, answers without a frame, and a question behind the label that clones may not know.
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import * as fc from "fast-check";
import { expect, type onTestFinished, test } from "vitest";
import { type Bitmap, blank, isBlack, setDot } from "../../agent/bitmap.ts";
import type { Profile } from "../../agent/printers/driver.ts";
import { driver } from "../../agent/printers/escpos.ts";
import { lexer } from "../../agent/printers/escpos-answers.ts";
import { rasterOf } from "../../agent/printers/escpos-raster.ts";
import { answersInTurn, startDevice } from "../../fixtures/device.ts";
import { startEscposPrinter } from "../../fixtures/printers/escpos.ts";

const TIMING = { answerMs: 800, pollMs: 30, completionMs: 5_000, settleMs: 600, stallMs: 1_000 };
type T = { onTestFinished: typeof onTestFinished };
async function pairOf(t: T, profile: Partial<Profile> = {}, options: Parameters<typeof startEscposPrinter>[0] = {}) {
  const machine = await startEscposPrinter({ scale: 0, ...options });
  t.onTestFinished(machine.stop);
  const printer = await driver.open(machine.url, { name: "receipts", dpi: 203, simulated: true, timing: TIMING, ...profile });
  t.onTestFinished(() => printer.close());
  return { machine, printer };
}
function dotsOf(width = 20): Bitmap {
  const dots = blank(width, 8);
  setDot(dots, width - 1, 3);
  return dots;
}

test("a raster is sent with its own width, whatever the library makes of widths that aren't whole bytes", async () => {
  for (const width of [1, 7, 8, 9, 396, 400]) {
    const bytes = await rasterOf(dotsOf(width), {});
    const at = bytes.indexOf(Buffer.from([0x1d, 0x76, 0x30]));
    expect([bytes[at + 4], bytes[at + 5], bytes[at + 6]]).toEqual([Math.ceil(width / 8), 0, 8]);
  }
});

/** Three bytes that ask how it is, which a printer heeds wherever they stand. */
function asksInItself(n: number): Bitmap {
  const dots = blank(400, 200);
  for (let y = 20; y < 190; y += 40) dots.bytes.set([0x10, 0x04, n], y * dots.rowBytes + 20);
  setDot(dots, 3, 190);
  return dots;
}
test("dots that a printer would take for a question are moved to the side, all of them by as much, and none off the label", async () => {
  const printed = async (dots: Bitmap) => (await rasterOf(dots, { cut: false })).subarray(10);
  const dots = asksInItself(1);
  const moved = await printed(dots);
  expect(moved.indexOf(Buffer.of(0x10, 0x04))).toBe(-1);
  const paper: Bitmap = { ...blank(400, 200), bytes: moved };
  const by = [1, -1, 2, -2, 3, -3].find((shift) => isBlack(paper, 3 + shift, 190)) ?? 0;
  let wrong = 0;
  for (let y = 0; y < 200; y += 1) for (let x = 8; x < 392; x += 1) wrong += Number(isBlack(paper, x + by, y) !== isBlack(dots, x, y));
  expect([by === 0, wrong]).toEqual([false, 0]);
  for (const edge of [0, 399]) setDot(dots, edge, 190); // no room
  expect((await printed(dots)).equals(dots.bytes)).toBe(true);
});

test("a label that isn't whole bytes wide is moved no further than its own edge, where the next one may begin", async () => {
  const dots = asksInItself(1);
  const narrow = { ...blank(393, 200), bytes: dots.bytes };
  for (const edge of [0, 392]) setDot(narrow, edge, 190);
  expect((await rasterOf(narrow, { cut: false })).subarray(10).equals(narrow.bytes)).toBe(true);
});

test.each([
  [1_040, 1],
  [1_296, 0],
])("a label %d dots high asks nothing by its height and its first eight dots", async (heightDots, first) => {
  const dots = blank(400, heightDots);
  dots.bytes[0] = first;
  dots.bytes[49] = 1; // no room
  const raster = await rasterOf(dots, { cut: false });
  const height = raster.subarray(8, 10);
  const asked = [0x04, 0x05].map((second) => Buffer.of(0x10, second, first));
  expect(asked.map((question) => raster.includes(question))).toEqual([false, false]);
  expect([height.readUInt16LE() - heightDots, raster.subarray(10, -50).equals(dots.bytes)]).toEqual([1, true]); // one more row, blank, is on no label but these
});

test.concurrent("on a slow line what a label's dots ask isn't taken for an answer: no cover is called open", async (t) => {
  const { machine, printer } = await pairOf(t);
  await printer.probe();
  machine.fault("slow-reader", { bytes: 240, ms: 50 });
  const submission = await printer.submit(await printer.encode(asksInItself(1)));
  expect(await printer.awaitCompletion(submission)).toMatchObject({ outcome: "confirmed", faults: [] });
});

test.concurrent("a label wider than a raster can be is refused with how much is too much, not sent as garbage", async (t) => {
  await expect(rasterOf(dotsOf(2_048), {})).rejects.toMatchObject({
    code: "LABEL_REFUSED",
    message: expect.stringContaining("8 too many"),
  });
  await expect((await pairOf(t)).printer.encode(dotsOf(), { epc: "30364433400D1EDCBE991A14" })).rejects.toMatchObject({
    code: "LABEL_REFUSED",
  });
});

test.concurrent("two labels are two labels: nothing of the first is in the second's bytes", async (t) => {
  const { printer } = await pairOf(t, { fence: "none", cut: false });
  const [first, second] = [await printer.encode(dotsOf()), await printer.encode(dotsOf())];
  expect(second.bytes).toEqual(first.bytes);
});

test.concurrent("which answer stands behind a label is found by asking without printing", async (t) => {
  const found = async (firmware: { knowsGsH?: boolean; knowsGsR?: boolean }) => {
    const { machine, printer } = await pairOf(t, {}, firmware);
    const { fence, ceiling } = await printer.probe();
    expect(machine.labels).toEqual([]);
    return [fence, ceiling];
  };
  expect(await found({})).toEqual(["gs-h", "A"]);
  expect(await found({ knowsGsH: false })).toEqual(["gs-r", "B"]);
  expect(await found({ knowsGsH: false, knowsGsR: false })).toEqual(["none", "C"]);
});

test.concurrent("a printer that is blocked when it is asked how it answers is asked again, not taken for one that never answers", async (t) => {
  const { machine, printer } = await pairOf(t);
  machine.fault("paper-out");
  expect(await printer.probe()).toMatchObject({ fence: "none", warnings: [expect.stringContaining("ask again")] });
  await expect(printer.encode(dotsOf())).rejects.toThrow("is blocked");
  machine.clear();
  expect((await printer.awaitCompletion(await printer.submit(await printer.encode(dotsOf())))).evidence.grade).toBe("A");
});

test.concurrent("of a printer that answers nothing behind a label, its status around it is what is known: grade C, and E where it tells none", async (t) => {
  const { machine, printer } = await pairOf(t, {}, { knowsGsH: false, knowsGsR: false });
  await printer.probe();
  const printed = async () => printer.awaitCompletion(await printer.submit(await printer.encode(dotsOf())), { withinMs: 200 });
  expect(await printed()).toMatchObject({
    outcome: "unknown",
    toDestroy: null,
    evidence: { grade: "C", basis: expect.stringMatching(/^DLE EOT 1, DLE EOT 2/) },
  });
  const sent = await printer.submit(await printer.encode(dotsOf()));
  machine.fault("dont-answer");
  expect(await printer.awaitCompletion(sent, { withinMs: 200 })).toMatchObject({
    outcome: "unknown",
    evidence: { grade: "E", basis: "none" },
  });
});

test.concurrent("an answer to GS r that nobody asked for makes the next label wait until answers can be told apart again", async (t) => {
  const { machine, printer } = await pairOf(t, { fence: "gs-r" });
  await printer.awaitCompletion(await printer.submit(await printer.encode(dotsOf())));
  machine.fault("fence-twice");
  expect((await printer.awaitCompletion(await printer.submit(await printer.encode(dotsOf())))).outcome).toBe("confirmed");
  await new Promise((resolve) => setTimeout(resolve, 50));
  machine.clear();
  machine.fault("fence-never");
  expect(await printer.submit(await printer.encode(dotsOf()))).toMatchObject({ bytesAccepted: 0, retryable: true });
});

test.concurrent("what a line with echo sends back is no answer: a person is asked, and the page says why", async (t) => {
  const line = await startDevice((socket) => socket.pipe(socket));
  t.onTestFinished(line.end);
  const at = async (profile: Partial<Profile>) => {
    const printer = await driver.open(line.url, { name: "receipts", dpi: 203, timing: TIMING, ...profile });
    t.onTestFinished(() => printer.close());
    return printer;
  };
  const printer = await at({});
  expect(await printer.probe()).toMatchObject({ fence: "none", ceiling: "E", warnings: [expect.stringContaining("switch the echo off")] });
  const sent = await printer.submit(await printer.encode(dotsOf()));
  expect(await printer.awaitCompletion(sent, { withinMs: 200 })).toMatchObject({ outcome: "unknown" });
  const setUp = await at({ fence: "gs-r" });
  expect(await setUp.submit(await setUp.encode(dotsOf()))).toMatchObject({
    bytesAccepted: 0, retryable: true, fault: expect.stringContaining("echo"),
  }); // oxfmt-ignore
});

test.concurrent("an answer to GS r that says itself that the paper has ended confirms nothing: somebody has to look", async (t) => {
  const { printer } = await pairOf(t, {}, { knowsGsH: false, isLastOfRoll: true });
  expect(await printer.probe()).toMatchObject({ fence: "gs-r" });
  const completion = await printer.awaitCompletion(await printer.submit(await printer.encode(dotsOf())));
  expect(completion).toMatchObject({ outcome: "unknown", reason: expect.stringContaining("paper has ended"), evidence: { grade: "E" } });
  expect(completion.faults).toEqual([{ name: "media-out", words: "it is out of paper" }]);
});

test.concurrent("status bytes that were held up and then come one after another aren't taken for the answers to later questions", async (t) => {
  const COVER_OPEN = [0x1a, 0x16, 0x12, 0x12]; // to DLE EOT 1 to 4
  const answers = answersInTurn();
  const device = await startDevice((socket) =>
    socket.on("data", (asked) => {
      const byte = asked[0] === 0x10 && asked[1] === 0x04 ? COVER_OPEN[(asked[2] ?? 0) - 1] : undefined;
      if (byte !== undefined) answers.say(() => socket.write(Uint8Array.of(byte)));
    }),
  );
  const printer = await driver.open(device.url, { name: "receipts", dpi: 203, fence: "none", timing: { ...TIMING, answerMs: 300 } });
  t.onTestFinished(async () => {
    await printer.close();
    await device.end();
  });
  await printer.probe();
  const letGo = answers.holdUp();
  for (let looks = 0; looks < 3; looks += 1) expect((await printer.preflight()).ready).toBeNull();
  letGo();
  for (let isWhole = false; !isWhole;) {
    const { source, faults } = await printer.preflight();
    isWhole = source.length === 4;
    if (isWhole) expect(faults).toMatchObject([{ name: "head-open" }]);
  }
});

type Says = (question: "DLE EOT" | "GS r", n: number, socket: Socket) => void;
/** A printer of another's making, which takes rasters, and says what it is told to. */
async function receiptsThat(t: T, says: Says, profile: Partial<Profile> = {}) {
  const { url, sockets, end } = await startDevice((socket) => {
    let heard = Buffer.alloc(0);
    socket.on("data", (bytes: Buffer) => {
      heard = Buffer.concat([heard, bytes]);
      for (;;) {
        const at = [Buffer.of(0x10, 0x04), Buffer.of(0x1d, 0x72)].map((start) => heard.indexOf(start)).filter((one) => one >= 0);
        const first = Math.min(...at);
        const n = heard[first + 2];
        if (n === undefined) return;
        const isRealtime = heard[first] === 0x10;
        heard = heard.subarray(first + 3);
        says(isRealtime ? "DLE EOT" : "GS r", n, socket);
      }
    });
  });
  t.onTestFinished(end);
  const printer = await driver.open(url, { name: "receipts", dpi: 203, timing: { ...TIMING, answerMs: 300 }, ...profile });
  t.onTestFinished(() => printer.close());
  return { printer, sockets };
}
const WELL = [0x16, 0x12, 0x12, 0x12]; // to DLE EOT 1 to 4; the first with nothing in its drawer, which as the second would be an open cover

test.concurrent("two late answers to the first question, one a moment after the other, are no answers to the first and the second", async (t) => {
  const letGo = Promise.withResolvers<void>();
  let line = letGo.promise;
  const { printer } = await receiptsThat(
    t,
    (question, n, socket) => {
      if (question === "DLE EOT") line = line.then(() => sleep(20)).then(() => void socket.write(Uint8Array.of(WELL[n - 1] ?? 0)));
    },
    { fence: "none" },
  );
  line = Promise.resolve();
  expect(await printer.preflight()).toMatchObject({ ready: true });
  line = letGo.promise;
  expect((await printer.preflight()).ready).toBeNull();
  const look = printer.preflight();
  setTimeout(letGo.resolve, 400); // the second time it is asked for it by then
  expect(await look).toMatchObject({ ready: true, faults: [], source: { length: 4 } });
});

test.concurrent("a printer that is offline for an error says that there is one, not only that it is offline", async (t) => {
  const said = [0x1a, 0x52, 0x12, 0x12]; // to DLE EOT 1 to 4
  const { printer } = await receiptsThat(
    t,
    (question, n, socket) => void (question === "DLE EOT" && socket.write(Uint8Array.of(said[n - 1] ?? 0))),
    { fence: "none" },
  );
  expect((await printer.preflight()).faults).toEqual([{ name: "offline", words: "it reports an error" }]);
});

test.concurrent("a status that comes twice isn't taken for the answer to the next question, nor is one that another program asked for", async (t) => {
  let asked = 0;
  for (const other of [undefined, 0x32]) {
    const { printer } = await receiptsThat(
      t,
      (question, n, socket) => {
        if (question !== "DLE EOT") return;
        asked += 1;
        const own = WELL[n - 1] ?? 0;
        const isFirst = other === undefined || asked % 3 === 0;
        void sleep(30).then(async () => {
          if (isFirst) socket.write(Uint8Array.of(other ?? own));
          await sleep(10);
          socket.write(Uint8Array.of(own));
        });
      },
      { fence: "none" },
    );
    await printer.preflight();
    let whole = 0;
    for (let looks = 0; looks < 6; looks += 1) {
      const { faults, source } = await printer.preflight();
      expect([other, looks, asked, faults, source]).toEqual([other, looks, asked, [], source]);
      whole += Number(source.length === 4);
    }
    expect(whole).toBeGreaterThan(2);
  }
});

test.concurrent.for([
  ["a printer that is switched off and on while a label moves sends a byte that means nothing", [0x00], false],
  ["of a status that nobody asked for the line loses the first byte", [0x00, 0x00, 0x0f], true],
] as const)("%s: the label isn't called printed", async ([, noise, answersAgain], t) => {
  let isDown = false;
  const { printer, sockets } = await receiptsThat(
    t,
    (question, n, socket) => {
      if (isDown) return;
      if (question === "DLE EOT") return void socket.write(Uint8Array.of(WELL[n - 1] ?? 0));
      socket.write(Uint8Array.of(0x00));
    },
    { fence: "gs-r" },
  );
  await printer.probe();
  const encoded = await printer.encode(dotsOf());
  const whole = { ...encoded, bytes: encoded.bytes.subarray(0, -3) }; // what is asked behind the label is lost with it
  const submission = await printer.submit(whole);
  isDown = !answersAgain;
  for (const socket of sockets) socket.write(Uint8Array.of(...noise));
  expect(await printer.awaitCompletion(submission)).toMatchObject({ outcome: "unknown", toDestroy: null, evidence: { grade: "E" } });
});

test.concurrent("an answer for a label from before the connection was lost isn't taken for the next label", async (t) => {
  const timing = { ...TIMING, completionMs: 20, pollMs: 10 };
  const { machine, printer } = await pairOf(t, { fence: "gs-r", timing });
  const { consume } = machine;
  const held = Promise.withResolvers<void>();
  t.onTestFinished(() => held.resolve());
  machine.consume = async (...label) => {
    await held.promise;
    return consume(...label);
  };
  const first = await printer.submit(await printer.encode(dotsOf(9)));
  expect((await printer.awaitCompletion(first)).outcome).toBe("unknown"); // it is still printing
  await printer.close();
  const again = await driver.open(machine.url, { name: "receipts", dpi: 203, fence: "gs-r", timing: { ...TIMING, answerMs: 2_000 } });
  t.onTestFinished(() => again.close());
  const submitted = again.submit(await again.encode(dotsOf(10)));
  await t.expect.poll(() => machine.waiting()).toBe(3); // the label, what was asked behind it, and what is asked now
  held.resolve();
  const completion = await again.awaitCompletion(await submitted);
  expect([completion.outcome, machine.labels.length]).toEqual(["confirmed", 2]);
});

test.concurrent.for([
  ["paper-out", "media-out"],
  ["head-open", "head-open"],
  ["over-temperature", "over-temperature"],
] as const)("%s is told by its name before anything is sent", async ([fault, told], t) => {
  const { machine, printer } = await pairOf(t);
  machine.fault(fault);
  expect(await printer.preflight()).toMatchObject({ ready: false, faults: [{ name: told }] });
});

const ANSWERS: [kind: string, bytes: number[]][] = [
  ["realtime", [0x12]],
  ["realtime", [0x7e]],
  ["paper", [0x00]],
  ["paper", [0x6f]],
  ["unasked", [0x10, 0x00, 0x00, 0x0f]],
  ["unasked", [0x38, 0x20, 0x0c, 0x00]],
  ["done", [0x37, 0x22, 0x50, 0x30, 0x30, 0x31, 0x00]],
  ["cleared", [0x37, 0x25, 0x00]],
  ["", [0x11]], // XON
  ["", [0x13]], // XOFF
];

test("what it said unasked before it was switched off says nothing of it now", async (t) => {
  const device = await startDevice((socket) => socket.write(Buffer.from([0x10, 0, 0, 0])));
  t.onTestFinished(device.end);
  const printer = await driver.open(device.url, { name: "receipts", dpi: 203, timing: { ...TIMING, answerMs: 100 } });
  await expect.poll(printer.preflight).toMatchObject({ source: ["ASB"], ready: true });
  for (const socket of device.sockets) socket.destroy();
  await expect.poll(printer.preflight).toMatchObject({ source: [], ready: null });
});

test("answers are told apart by their fixed bits in any order and any pieces, real-time ones even inside an unasked status", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...ANSWERS), { maxLength: 20 }), fc.integer({ min: 1, max: 5 }), (sequence, size) => {
      const bytes = Buffer.from(sequence.flatMap(([, bytes]) => bytes));
      const lex = lexer();
      const heard = [];
      for (let at = 0; at < bytes.length; at += size) heard.push(...lex(bytes.subarray(at, at + size)));
      expect(heard.map(({ kind }) => kind)).toEqual(sequence.map(([kind]) => kind).filter((kind) => kind !== ""));
    }),
  );
  expect(lexer()(Buffer.from([0x37, 0x22, 0x50, 0x13, 0x30, 0x30, 0x11, 0x31, 0x00]))).toEqual([{ kind: "done", token: "P001" }]); // XOFF, XON
  const inside = lexer()(Buffer.from([0x10, 0x00, 0x16, 0x00, 0x00]));
  expect(inside).toEqual([
    { kind: "realtime", bits: 0x16 },
    { kind: "unasked", bytes: [0x10, 0, 0, 0] },
  ]);
});

test.concurrent.for([{}, { knowsGsH: false }])(
  "a label in which the paper ends goes on upon the next roll: the answer behind it doesn't say that it is whole: %o",
  async (firmware, t) => {
    const { machine, printer } = await pairOf(t, {}, firmware);
    await printer.probe();
    const dots = blank(24, 8);
    for (let y = 0; y < 8; y += 1) setDot(dots, y, y);
    machine.fault("paper-out", { after: 1, mid: 1 });
    const submission = await printer.submit(await printer.encode(dots));
    expect(await printer.awaitCompletion(submission)).toMatchObject({ outcome: "blocked", faults: [{ name: "media-out" }] });
    machine.clear();
    expect(await printer.awaitCompletion(submission)).toMatchObject({
      outcome: "unknown",
      reason: expect.stringContaining("went on where it had stopped"),
      evidence: { grade: "E" },
    });
    expect(isBlack(machine.labels[0]?.dots ?? blank(1, 1), 1, 1)).toBe(false);
    expect((await printer.awaitCompletion(await printer.submit(await printer.encode(dots)))).outcome).toBe("confirmed");
  },
);
