// One contract for every printer language: what a driver says of a label has to be what happened to it, whatever goes wrong on the way.
import { connect } from "node:net";
import { once } from "node:events";
import * as fc from "fast-check";
import { SerialPort } from "serialport";
import { describe, expect, test, type TestContext } from "vitest";
import { encodeSgtin96 } from "#shared/gs1.ts";
import { type Bitmap, blank, isBlack, pictureOf, setDot } from "../../agent/bitmap.ts";
import { decode } from "../../agent/decode.ts";
import { renderLabel } from "../../agent/label.ts";
import { grades } from "../../shared/states.ts";
import { attests, type Completion, type Printer, type Profile, type Submission } from "../../agent/printers/driver.ts";
import { drivers } from "../../agent/printers/index.ts";
import { loadTemplates, templateFor } from "../../agent/template.ts";
import type { SimulatedPrinter, StartOptions } from "../../fixtures/printers/control.ts";
import { type Proof, type Simulation, simulations } from "../../fixtures/printers/index.ts";
import type { Fault } from "../../fixtures/printers/machine.ts";
import { hasSocat, plugIn } from "../../fixtures/pty.ts";

const PATIENT = { answerMs: 1_000, pollMs: 30, completionMs: 8_000, settleMs: 4_000, stallMs: 1_000 };
const HASTY = { answerMs: 60, pollMs: 15, completionMs: 150, settleMs: 150, stallMs: 100 };
const GTIN = "09506000134352";
const [EPC, OTHER_EPC] = ["123456789012", "123456789013"].map((serial) =>
  encodeSgtin96({ gtin: GTIN, serial, companyPrefixLength: 7, filter: 1 }),
);

type Pair = { printer: Printer; machine: Proof; profile: Profile; grade: Simulation["grade"] };
type Ends = Pick<TestContext, "onTestFinished">;
async function pairOf(ends: Ends, simulation: Simulation, options: StartOptions = {}, profile: Partial<Profile> = {}): Promise<Pair> {
  const machine = await simulation.start({ scale: 0, ...options });
  ends.onTestFinished(machine.stop);
  const whole: Profile = { name: simulation.name, dpi: 203, simulated: true, timing: PATIENT, ...simulation.profile, ...profile };
  return { machine, profile: whole, grade: simulation.grade, printer: await opened(ends, simulation, machine.url, whole) };
}
async function opened({ onTestFinished }: Ends, { driver }: Simulation, url: string, profile: Profile): Promise<Printer> {
  const printer = await drivers[driver]?.open(url, profile);
  if (!printer) throw new Error(`there is no driver ${driver}`);
  onTestFinished(() => printer.close());
  return printer;
}

const template = templateFor(loadTemplates(), { widthMm: 50, heightMm: 25 });
async function realLabel({ rfid = false }: Profile) {
  const serial = "123456789012";
  const content = {
    payload: `https://id.example.com/01/${GTIN}/21/${serial}`,
    gtin: GTIN,
    serial,
    product: "Wärmepumpe",
    ...(rfid && EPC ? { epc: EPC } : {}),
  };
  return renderLabel(content, { template, dpi: 203, simulated: true });
}
/** A few dots that no other label has. */
function smallLabel(n: number): Bitmap {
  const dots = blank(24, 16);
  for (let bit = 0; bit < 16; bit += 1) if ((n >> bit) & 1) setDot(dots, bit, 3);
  setDot(dots, 20, 12);
  return dots;
}
const epcOf = ({ rfid }: Profile, epc = EPC) => (rfid && epc ? { epc } : {});

const IN_VAIN = { withinMs: 150 }; // for what can't be confirmed
async function printed(
  { printer, profile, grade }: Pair,
  dots: Bitmap,
  epc = EPC,
): Promise<{ submission: Submission; completion: Completion }> {
  const submission = await printer.submit(await printer.encode(dots, epcOf(profile, epc)));
  return { submission, completion: await printer.awaitCompletion(submission, grade === null ? IN_VAIN : {}) };
}
/** Real labels of paper with these dots on them, void and foreign ones aside. */
const countOf = ({ machine }: Pair, dots: Bitmap): number =>
  machine.labels.filter(({ dots: paper, isVoid, isForeign }) => !isVoid && !isForeign && same(dots, paper)).length;
function same(drawn: Bitmap, paper: Bitmap): boolean {
  for (let y = 0; y < drawn.heightDots; y += 1)
    for (let x = 0; x < drawn.widthDots; x += 1) if (isBlack(drawn, x, y) !== isBlack(paper, x, y)) return false;
  return true;
}

test("every driver has a simulated printer to prove itself on", () => {
  expect(Object.keys(drivers).filter((name) => !simulations.some(({ driver }) => driver === name))).toEqual([]);
});

describe.concurrent.for(simulations)("$name", (simulation) => {
  const { grade, faults } = simulation;
  const suffers = (...names: string[]) => names.every((name) => faults.includes(name));

  test("what it prints is what was asked for, and it says so exactly as well as it can know", async (t) => {
    const pair = await pairOf(t, simulation);
    const capabilities = await pair.printer.probe();
    const label = await realLabel(pair.profile);
    expect(await pair.printer.preflight()).toMatchObject({ faults: [] });
    const { submission, completion } = await printed(pair, label.bitmap);
    await pair.machine.printed(1);

    expect(submission).toMatchObject({ bytesAccepted: submission.bytesOffered, retryable: false });
    const [read, ...more] = await decode(pictureOf(pair.machine.labels[0]?.dots ?? blank(1, 1)));
    expect(read?.text).toBe(label.manifest.payload);
    expect(more).toEqual([]);
    expect(completion).toMatchObject(
      grade === null ? { outcome: "unknown" } : { outcome: "confirmed", evidence: { grade, simulated: true }, toDestroy: 0 },
    );
    expect(Object.keys(grades)).toContain(capabilities.ceiling);
    expect(attests(capabilities.ceiling)).toBe(grade !== null);
    expect(attests(completion.evidence.grade)).toBe(grade !== null);
    if (grade !== null) expect(capabilities.ceiling).toBe(grade);
    expect(capabilities.cannotDetect.length).toBeGreaterThan(0);
    expect(capabilities.simulated).toBe(true);
  });

  test.runIf(simulation.stream)("bytes one at a time or all at once make the same label", async (t) => {
    const pair = await pairOf(t, simulation, { dribble: true });
    const label = await realLabel(pair.profile);
    const { bytes } = await pair.printer.encode(label.bitmap, epcOf(pair.profile));
    await pair.printer.close();
    for (const size of [1, 7, bytes.length]) {
      const socket = connect(Number(new URL(pair.machine.url).port), "127.0.0.1").setNoDelay(true);
      await once(socket, "connect");
      const count = pair.machine.labels.length + 1;
      for (let at = 0; at < bytes.length; at += size) if (!socket.write(bytes.subarray(at, at + size))) await once(socket, "drain");
      await pair.machine.printed(count);
      socket.destroy();
    }
    expect(countOf(pair, label.bitmap)).toBe(3);
  });

  test("answers that come byte by byte are understood", async (t) => {
    const pair = await pairOf(t, simulation, { dribble: true });
    const { completion } = await printed(pair, smallLabel(1));
    expect(completion.outcome).toBe(grade === null ? "unknown" : "confirmed");
  });

  test("nothing leaves of a label that is called off while it is asked how it stands, and the next one is as good as ever", async (t) => {
    const pair = await pairOf(t, simulation);
    const [calledOff, next] = [smallLabel(1), smallLabel(2)];
    const encoded = await pair.printer.encode(calledOff, epcOf(pair.profile));
    expect(await pair.printer.submit(encoded, () => false)).toMatchObject({ bytesAccepted: 0, retryable: true });
    const { completion } = await printed(pair, next);
    expect(completion.outcome).toBe(grade === null ? "unknown" : "confirmed");
    await pair.machine.printed(1);
    expect([countOf(pair, calledOff), countOf(pair, next)]).toEqual([0, 1]);
  });

  test("several labels after one another are each confirmed by their own answer", async (t) => {
    const pair = await pairOf(t, simulation);
    for (const n of [1, 2, 3]) {
      const { completion } = await printed(pair, smallLabel(n), n % 2 ? EPC : OTHER_EPC);
      expect(completion.outcome).toBe(grade === null ? "unknown" : "confirmed");
    }
    await pair.machine.printed(3);
    expect([1, 2, 3].map((n) => countOf(pair, smallLabel(n)))).toEqual([1, 1, 1]);
  });

  test.runIf(simulation.stream)("one label is in flight at a time: a second isn't sent, and may be later", async (t) => {
    const pair = await pairOf(t, simulation);
    const [first, second] = [
      await pair.printer.encode(smallLabel(1), epcOf(pair.profile)),
      await pair.printer.encode(smallLabel(2), epcOf(pair.profile)),
    ];
    const submission = await pair.printer.submit(first);
    expect(await pair.printer.submit(second)).toMatchObject({ bytesAccepted: 0, retryable: true, fault: "another label is in flight" });
    await pair.printer.awaitCompletion(submission, grade === null ? IN_VAIN : {});
    expect(await pair.printer.submit(second)).toMatchObject({ retryable: false });
  });

  test.runIf(suffers("half-open"))("a printer that stopped talking gets no byte of a label where it used to talk", async (t) => {
    const pair = await pairOf(t, simulation);
    await pair.printer.probe();
    const encoded = await pair.printer.encode(smallLabel(1), epcOf(pair.profile));
    pair.machine.fault("half-open");
    const submission = await pair.printer.submit(encoded);
    if (simulation.name.includes("without a label counter")) return expect(submission.retryable).toBe(false); // it has nothing to be asked for
    expect(submission).toMatchObject({ bytesAccepted: 0, retryable: true });
    pair.machine.clear();
    const again = await pair.printer.submit(encoded);
    expect((await pair.printer.awaitCompletion(again, grade === null ? IN_VAIN : {})).outcome).toBe(
      grade === null ? "unknown" : "confirmed",
    );
    expect(countOf(pair, smallLabel(1))).toBe(1);
  });

  test.runIf(suffers("power-off"))("a connection that is gone before the first byte leaves the label retryable", async (t) => {
    const pair = await pairOf(t, simulation);
    const encoded = await pair.printer.encode(smallLabel(1), epcOf(pair.profile));
    pair.machine.fault("power-off");
    await t.expect.poll(async () => (await pair.printer.submit(encoded)).bytesAccepted).toBe(0);
    pair.machine.clear();
    const again = { ...pair, printer: await opened(t, simulation, pair.machine.url, pair.profile) };
    expect((await printed(again, smallLabel(1))).completion.outcome).toBe(grade === null ? "unknown" : "confirmed");
    expect(countOf(pair, smallLabel(1))).toBe(1);
  });

  test.runIf(suffers("reset-at", "end-at")).for([
    ["reset-at", 1],
    ["reset-at", 100],
    ["end-at", 1],
    ["end-at", 100],
  ] as const)("after %s byte %i the outcome is unknown, and nothing came out", async ([name, at], t) => {
    const pair = await pairOf(t, simulation);
    const encoded = await pair.printer.encode((await realLabel(pair.profile)).bitmap, epcOf(pair.profile));
    pair.machine.fault(name, { at });
    const submission = await pair.printer.submit(encoded);
    const completion = await pair.printer.awaitCompletion(submission);
    expect(submission.bytesAccepted).toBeGreaterThan(0);
    expect(submission.retryable).toBe(false);
    expect(completion).toMatchObject({ outcome: "unknown", evidence: { grade: "E" } });
    expect(pair.machine.labels).toEqual([]);
  });

  test.runIf(suffers("stop-reading-at"))("a printer that stops reading in the middle leaves the outcome unknown", async (t) => {
    const pair = await pairOf(t, simulation, {}, { timing: HASTY });
    const encoded = await pair.printer.encode((await realLabel(pair.profile)).bitmap, epcOf(pair.profile));
    pair.machine.fault("stop-reading-at", { at: 200 });
    const submission = await pair.printer.submit(encoded);
    expect(submission.bytesAccepted).toBeGreaterThan(0);
    expect(await pair.printer.awaitCompletion(submission)).toMatchObject({ outcome: "unknown" });
    if (submission.bytesAccepted < submission.bytesOffered)
      expect(await pair.printer.submit(encoded)).toMatchObject({ bytesAccepted: 0, retryable: true }); // it would be taken for the rest of this one
    pair.machine.clear(); // what still stands in the line goes out before the connection closes
  });

  test.runIf(suffers("slow-reader") && grade !== null)(
    "a slow reader that talks unasked gets the whole label, and its answer is heard among the talk",
    async (t) => {
      const pair = await pairOf(t, simulation);
      const label = await realLabel(pair.profile);
      pair.machine.fault("slow-reader", { bytes: 256, ms: 2 });
      const { completion } = await printed(pair, label.bitmap);
      expect(completion.outcome).toBe("confirmed");
      expect(countOf(pair, label.bitmap)).toBe(1);
    },
  );

  const BLOCKING: [name: string, how: Fault, told: string][] = [
    ["paper-out", {}, "media-out"],
    ["paper-out", { after: 1, mid: 1 }, "media-out"],
    ["head-open", {}, "head-open"],
    ["ribbon-out", {}, "ribbon-out"],
    ["paused", {}, "paused"],
    ["jam", {}, "jam"],
    ["not-taken", {}, "label-not-taken"],
    ["over-temperature", {}, "over-temperature"],
  ];
  test.runIf(grade !== null).for(BLOCKING.filter(([name]) => faults.includes(name)))(
    "%s %o blocks with its reason, and once mended the label comes out once",
    async ([name, how, told], t) => {
      const pair = await pairOf(t, simulation);
      await pair.printer.probe();
      const dots = smallLabel(7);
      const encoded = await pair.printer.encode(dots, epcOf(pair.profile));
      pair.machine.fault(name, how);
      const submission = await pair.printer.submit(encoded);
      const blocked = await pair.printer.awaitCompletion(submission);
      expect(blocked).toMatchObject({ outcome: "blocked", faults: [{ name: told }] });
      expect(pair.machine.labels).toEqual([]);
      expect((await pair.printer.preflight()).ready).toBe(false);
      pair.machine.clear(name);
      const { outcome } = await pair.printer.awaitCompletion(submission);
      const isCut = simulation.goesOn === true && ["media-out", "head-open"].includes(told);
      expect(outcome).toBe(isCut ? "unknown" : "confirmed"); // which row it had come to, nobody knows
      expect(countOf(pair, dots)).toBe(isCut && how.mid ? 0 : 1);
    },
  );

  test.runIf(suffers("paper-out", "dont-answer") && grade !== null)(
    "what is flushed doesn't come out when the paper is back",
    async (t) => {
      const pair = await pairOf(t, simulation);
      await pair.printer.probe();
      const encoded = await pair.printer.encode(smallLabel(1), epcOf(pair.profile));
      pair.machine.fault("paused");
      const submission = await pair.printer.submit(encoded);
      await pair.printer.awaitCompletion(submission, { withinMs: 50 });
      expect(await pair.printer.flush()).toMatchObject({ clean: true });
      pair.machine.clear();
      expect((await printed(pair, smallLabel(2))).completion.outcome).toBe("confirmed");
      expect([countOf(pair, smallLabel(1)), countOf(pair, smallLabel(2))]).toEqual([0, 1]);
      pair.machine.fault("dont-answer");
      expect(await pair.printer.flush()).toMatchObject({ clean: false });
    },
  );

  test.runIf(suffers("fence-never"))("without its answer a label is unknown, even if it lies there", async (t) => {
    const pair = await pairOf(t, simulation, {}, { timing: { ...HASTY, answerMs: 400 } });
    await pair.printer.probe();
    pair.machine.fault("fence-never");
    expect((await printed(pair, smallLabel(1))).completion).toMatchObject({
      outcome: "unknown",
      evidence: { grade: grade === null ? "C" : "E" },
    });
    await pair.machine.printed(1);
  });

  test.runIf(suffers("fence-twice") && grade !== null)(
    "an answer that comes twice counts once and stands for no other label",
    async (t) => {
      const pair = await pairOf(t, simulation);
      await pair.printer.probe();
      pair.machine.fault("fence-twice");
      expect((await printed(pair, smallLabel(1))).completion.outcome).toBe("confirmed");
      pair.machine.clear("fence-twice");
      pair.machine.fault("fence-never");
      const submission = await pair.printer.submit(await pair.printer.encode(smallLabel(2), epcOf(pair.profile)));
      expect((await pair.printer.awaitCompletion(submission, IN_VAIN)).outcome).not.toBe("confirmed");
    },
  );

  test.runIf(suffers("fence-older") && grade === "A")("an answer for an older label is none for this one", async (t) => {
    const pair = await pairOf(t, simulation);
    await pair.printer.probe();
    expect((await printed(pair, smallLabel(1))).completion.outcome).toBe("confirmed");
    pair.machine.fault("fence-older");
    const submission = await pair.printer.submit(await pair.printer.encode(smallLabel(2), epcOf(pair.profile)));
    expect((await pair.printer.awaitCompletion(submission, IN_VAIN)).outcome).toBe("unknown");
  });

  const fault = fc.record({
    name: fc.constantFrom(...faults),
    at: fc.nat(300),
    after: fc.nat(1),
    mid: fc.nat(1),
    times: fc.integer({ min: 1, max: 4 }),
  });
  const step = fc.record({
    before: fc.array(fault, { maxLength: 2 }),
    during: fc.array(fault, { maxLength: 1 }),
    mends: fc.boolean(),
    waitMs: fc.nat(30),
    reconnects: fc.boolean(),
  });
  /** As fast as it can, true to time, and so slow that a label comes out while the next one is on its way. */
  const scales = fc.constantFrom(0, 1, 5);
  type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

  /** One label through whatever happens. */
  async function suffer({ printer, machine, profile }: Pair, dots: Bitmap, { before, during, mends, waitMs }: Step) {
    const encoded = await printer.encode(dots, epcOf(profile));
    for (const { name, ...how } of before) machine.fault(name, how);
    const submission = await printer.submit(encoded);
    const later = [setTimeout(() => during.forEach(({ name, ...how }) => machine.fault(name, how)), waitMs)];
    const byHand = [...before, ...during].some(({ name }) => name === "paper-out"); // nobody changes a roll between two looks
    if (mends && !byHand) later.push(setTimeout(() => machine.clear(), 3 * waitMs));
    let completion = await printer.awaitCompletion(submission);
    if (mends && byHand) machine.clear();
    if (completion.outcome === "blocked") completion = await printer.awaitCompletion(submission);
    for (const timer of later) clearTimeout(timer);
    return { submission, completion };
  }

  test("no schedule of faults makes a label look printed that isn't there, and no label is sent twice", { timeout: 180_000 }, async () => {
    const schedules = fc.array(step, { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(schedules, scales, async (steps, scale) => {
        const ends: (() => unknown)[] = [];
        const atEnd: Ends = { onTestFinished: (end) => ends.push(end as () => unknown) };
        const pair = await pairOf(atEnd, simulation, { widthMm: 8, heightMm: 4, scale }, { timing: HASTY });
        for (const [n, one] of steps.entries()) {
          const printer = one.reconnects
            ? await opened(atEnd, simulation, pair.machine.url, pair.profile).catch(() => pair.printer)
            : pair.printer;
          if (printer !== pair.printer) await pair.printer.close();
          pair.printer = printer;
          const { submission, completion } = await suffer(pair, smallLabel(n + 1), one);
          const there = countOf(pair, smallLabel(n + 1));
          pair.machine.clear();
          const { outcome } = completion;
          if (outcome === "confirmed")
            expect({ attested: attests(completion.evidence.grade), there, grade }).toEqual({
              attested: true,
              there: 1,
              grade: grade ?? "no",
            });
          if (submission.bytesAccepted === 0) expect({ there, outcome }).toEqual({ there: 0, outcome: "failed" });
          if (submission.retryable) expect(submission.bytesAccepted).toBe(0);
          if (simulation.stream) expect(submission.retryable).toBe(submission.bytesAccepted === 0);
          expect(there).toBeLessThanOrEqual(1);
        }
        for (const end of ends.toReversed()) await end();
      }),
      { numRuns: 20, interruptAfterTimeLimit: 120_000, timeout: 50_000, endOnFailure: true }, // a busy machine tries fewer; what hangs is named
    );
  });
});

test.skipIf(!hasSocat).each(["zpl", "escpos with GS ( H"])("%s is the same printer at the end of a serial line", async (name) => {
  const simulation = simulations.find((one) => one.name === name);
  if (!simulation) throw new Error(`there is no simulation ${name}`);
  const cable = await plugIn();
  const machine = (await simulation.start({ scale: 0 })) as SimulatedPrinter;
  const far = new SerialPort({ path: cable.far, baudRate: 115_200 });
  machine.attach(far);
  const profile: Profile = { name, dpi: 203, simulated: true, timing: PATIENT };
  const printer = await drivers[simulation.driver]?.open(`serial:${cable.near}?baud=115200`, profile);
  const label = await realLabel(profile);
  const submission = await printer?.submit(await printer.encode(label.bitmap));
  expect(submission && (await printer?.awaitCompletion(submission))).toMatchObject({ outcome: "confirmed", evidence: { grade: "A" } });
  expect((await decode(pictureOf(machine.labels[0]?.dots ?? blank(1, 1))))[0]?.text).toBe(label.manifest.payload);
  await printer?.close();
  await new Promise((resolve) => far.close(resolve));
  await cable.unplug();
  await machine.stop();
});
