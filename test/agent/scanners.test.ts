// Scanners over real sockets, serial lines and HTTP: what is seen is said once and whole; what is cut, mad or doubtful is said to be so.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer as createHttpServer, type ServerResponse } from "node:http";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { heard, saying } from "#shared/sayings.ts";
import { type Clock, systemClock } from "../../agent/clock.ts";
import type { Link } from "../../agent/reconnecting.ts";
import type { Tag } from "../../agent/rfid.ts";
import { judgeScan } from "../../agent/scan-rules.ts";
import { openScanner, type ScannerKind } from "../../agent/scanners/index.ts";
import { typedAs } from "../../agent/scanners/keyboard.ts";
import { lines, withoutAim } from "../../agent/scanners/lines.ts";
import type { Scanner, ScannerSettings, Sighting, Trouble } from "../../agent/scanners/scanner.ts";
import { startDevice } from "../../fixtures/device.ts";
import { closed, listening } from "../../fixtures/listening.ts";
import { hasSocat, plugIn } from "../../fixtures/pty.ts";
import { type CameraFault, startCamera } from "../../fixtures/scanners/camera.ts";
import { LINE_FAULTS, type LineFault, startLineScanner } from "../../fixtures/scanners/line.ts";
import { pngOfGray, seen as throughLens } from "../../fixtures/scanners/optics.ts";
import { symbolOf } from "../../fixtures/symbol.ts";
import { freshFolder } from "../endings.ts";

const GTIN = "09506000134352";
const linkOf = (serial: string) => `https://id.example.com/01/${GTIN}/21/${serial}`;
const LINK = linkOf("123456789012");
const EPC = "30364433400D1EDCBE991A14";

type Heard = { sightings: Sighting[]; tags: Tag[]; troubles: Trouble[]; links: Link[]; scanner: Scanner };
function opened(settings: ScannerSettings & { driver: ScannerKind }, clock: Clock = systemClock): Heard {
  const [sightings, tags, troubles, links]: [Sighting[], Tag[], Trouble[], Link[]] = [[], [], [], []];
  const scanner = openScanner(
    settings,
    {
      sighting: (sighting) => void sightings.push(sighting),
      tag: (tag) => void tags.push(tag),
      trouble: (trouble) => void troubles.push(trouble),
      link: (_, link) => void links.push(link),
    },
    clock,
  );
  onTestFinished(() => scanner.end());
  return { sightings, tags, troubles, links, scanner };
}
const [LINE_MS, FRAME_MS, READ_MS, EVERY_MS] = [50, 3_000, 20_000, 500]; // a tenth of what a line may pause: a pause is counted in slices
const clockOf = (spans: (ms: number) => number): Clock => ({
  now: () => Date.now(),
  after: (ms, act) => systemClock.after(spans(ms), act),
});
const shorter = (ms: number, most: number) => (ms <= most ? ms / 10 : ms);
/** Pauses, and what decides on a line, in a tenth of their time. */
const hurried = clockOf((ms) => shorter(ms, 2_000));
/** Pauses are; what is under way gets all the time that it needs, however slow or stopped this machine is. */
const patient = clockOf((ms) => (ms === LINE_MS ? 60_000 : shorter(ms, 2_000)));
const watchful = clockOf((ms) => (ms === FRAME_MS ? 60_000 : shorter(ms, 2_000)));

async function overTcp(clock: Clock) {
  const far = await startLineScanner();
  onTestFinished(() => far.end());
  const heard = opened({ name: "fixed", driver: "line", port: far.url ?? "", simulated: true }, clock);
  await expect.poll(() => far.listeners()).toBe(1);
  return { far, ...heard };
}

describe("a line scanner over TCP", () => {
  test("a scan is told with what is known of it, and no more", async () => {
    const { far, sightings } = await overTcp(patient);
    await far.scan(LINK, { aim: true });
    await expect
      .poll(() => sightings)
      .toEqual([
        {
          scanner: "fixed",
          source: "serial",
          text: LINK,
          symbology: "]Q1",
          decoder: "scanner fixed",
          scanned_at: expect.stringMatching(/^\d{4}-.*Z$/),
          in_view: 1,
          mirrored: false,
          inverted: false,
          simulated: true,
        },
      ]);
  });

  test.each(["cr", "lf", "crlf"] as const)("a line may end in %s", async (suffix) => {
    const { far, sightings } = await overTcp(patient);
    for (const serial of ["1", "2", "3"]) await far.scan(linkOf(serial), { suffix });
    await expect.poll(() => sightings.map(({ text }) => text)).toEqual(["1", "2", "3"].map(linkOf));
    expect(sightings[0]?.symbology).toBe("unknown");
  });

  const texts: Partial<Record<LineFault, string[]>> = {
    none: [LINK],
    wrong: [linkOf("123456789013")],
    duplicate: [LINK, LINK],
    replay: [LINK],
    "no-suffix": [],
    joined: [LINK + LINK],
    fragmented: [LINK],
    junk: [],
    nul: [],
    framed: [],
    "not-utf8": [],
    mangled: [`httpsÖ--id.example.com-01-${GTIN}-21-123456789012`],
    cut: [],
    "other-symbology": [LINK],
  };
  test.each(LINE_FAULTS)("%s: nothing is invented, and the next scan is whole", async (fault) => {
    const { far, sightings, troubles } = await overTcp(fault === "no-suffix" ? hurried : patient);
    await far.scan(LINK, { fault });
    if (fault === "no-suffix") await expect.poll(() => troubles.length).toBe(1);
    if (fault === "cut") await expect.poll(() => far.listeners()).toBe(1); // it comes back
    await far.scan(linkOf("7"));
    await expect.poll(() => sightings.at(-1)?.text).toBe(linkOf("7"));
    expect(sightings.slice(0, -1).map(({ text }) => text)).toEqual(texts[fault]);
    const silent = sightings.length === 1 && fault !== "cut"; // half a line of a pulled cable is dropped without a word
    expect(troubles.length).toBe(silent ? 1 : 0);
    if (["nul", "framed", "not-utf8"].includes(fault)) expect(troubles[0]?.words).toContain("set the scanner to send the code alone");
  });

  test("of all these faults none moves a job that it shouldn't", async () => {
    const { far, sightings } = await overTcp(patient);
    const job = { digital_link: LINK, gtin: GTIN, serial: "123456789012" };
    for (const fault of ["wrong", "joined", "mangled", "other-symbology", "nul"] as const) await far.scan(LINK, { fault });
    await far.scan(linkOf("7"));
    await expect.poll(() => sightings.at(-1)?.text).toBe(linkOf("7"));
    const verdicts = sightings.map((sighting) => judgeScan(job, sighting, { submittedAt: "2020-01-01T00:00:00.000Z", seen: [] }));
    expect(verdicts.map((verdict) => (verdict.advance ? "advance" : verdict.why))).toEqual([
      "other_serial",
      "no_line_end",
      "keyboard_layout",
      "other_symbology",
      "other_serial",
    ]);
  });

  test("its going and coming is told once each, and it connects again by itself", async () => {
    const { far, links, sightings } = await overTcp(patient);
    far.drop();
    await expect.poll(() => links.map(({ up }) => up)).toEqual([true, false, true]);
    expect(links[1]).toEqual({ up: false, why: expect.stringContaining("closed the connection") });
    await expect.poll(() => far.listeners()).toBe(1);
    await far.scan(LINK);
    await expect.poll(() => sightings.length).toBe(1);
  });

  test("it can be driven over HTTP, and says that it is simulated", async () => {
    const { far, sightings } = await overTcp(patient);
    const post = (order: object) => fetch(far.control.url, { method: "POST", body: JSON.stringify(order) });
    expect((await post({ text: LINK, suffix: "cr" })).status).toBe(200);
    await expect.poll(() => sightings.length).toBe(1);
    expect(await (await fetch(far.control.url)).json()).toMatchObject({ simulated: true, scans: 1, listeners: 1 });
    expect(await (await post({ text: LINK, fault: "nonsense" })).json()).toEqual({
      error: expect.stringContaining("isn't one of none, wrong"),
    });
    expect((await post({})).status).toBe(400);
  });

  test("a wrong port stops the start with a sentence", () => {
    expect(() => opened({ name: "x", driver: "line", port: "tcp://127.0.0.1" })).toThrow("names no TCP port");
    expect(() => opened({ name: "x", driver: "camera", port: "tcp://127.0.0.1:1" })).toThrow("of a camera is http");
  });
});

describe.skipIf(!hasSocat)("a line scanner on a serial line", () => {
  test("scans come over it, a half line is lost with the cable, and a replugged one goes on", async () => {
    const folder = freshFolder("scan");
    const cable = await plugIn(folder);
    onTestFinished(() => cable.unplug());
    const { sightings, links, troubles } = opened({ name: "hand", driver: "line", port: `serial:${cable.near}?baud=115200` }, patient);
    await expect.poll(() => links.length).toBe(1);
    const far = await startLineScanner({ serial: cable.far });
    await far.scan(LINK);
    await expect.poll(() => sightings.map(({ text }) => text)).toEqual([LINK]);
    await far.scan(linkOf("8"), { fault: "no-suffix" });
    await cable.unplug();
    await far.end();
    await expect.poll(() => links.length).toBe(2);
    expect(links[1]).toEqual({ up: false, why: expect.stringContaining("was it unplugged?") });
    const again = await plugIn(folder);
    onTestFinished(() => again.unplug());
    await expect.poll(() => links.length).toBe(3);
    const farAgain = await startLineScanner({ serial: again.far });
    onTestFinished(() => farAgain.end());
    await farAgain.scan(linkOf("9"), { fault: "fragmented" });
    await expect.poll(() => sightings.map(({ text }) => text)).toEqual([LINK, linkOf("9")]);
    expect(troubles).toEqual([]);
  });
});
if (!hasSocat) process.stderr.write("SKIPPED: scanners on serial lines aren't tested, socat is missing (apt-get install socat)\n");

describe("bytes into lines", () => {
  const still: Clock = { now: () => 0, after: () => () => {} };
  const linesOf = (pieces: Uint8Array[]) => {
    const [got, troubles]: [string[], string[]] = [[], []];
    const into = lines(still, { line: (text) => void got.push(text), trouble: (words) => void troubles.push(words) });
    for (const piece of pieces) into.push(piece);
    return { got, troubles };
  };

  test("however they are cut into pieces, the same lines come out", () => {
    const line = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }).filter((text) => !/\p{Cc}/u.test(text));
    fc.assert(
      fc.property(fc.array(line), fc.constantFrom("\r", "\n", "\r\n"), fc.array(fc.integer({ min: 1, max: 9 })), (texts, end, cuts) => {
        let rest: Buffer = Buffer.from(texts.map((text) => text + end).join(""));
        const pieces: Buffer[] = [];
        for (const cut of cuts) {
          pieces.push(rest.subarray(0, cut));
          rest = rest.subarray(cut);
        }
        expect(linesOf([...pieces, rest])).toEqual({ got: texts, troubles: [] });
      }),
      { numRuns: 500 },
    );
  });
  test("no bytes make it invent, hang or hold more than a line", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 50 })), (pieces) => {
        for (const text of linesOf(pieces).got) expect(text).toMatch(/^[^\p{Cc}]+$/u);
      }),
      { numRuns: 500 },
    );
  });
  test("a line in the middle of which the station itself stands still is whole all the same", async () => {
    const [got, troubles]: [string[], string[]] = [[], []];
    const into = lines(systemClock, { line: (text) => void got.push(text), trouble: (words) => void troubles.push(words) });
    into.push(Buffer.from(LINK.slice(0, 20)));
    const rest = new Promise<void>((resolve) => {
      // As what came meanwhile is heard: behind the timers whose time has come.
      const heard = () => (into.push(Buffer.from(`${LINK.slice(20)}\r`)), resolve());
      setImmediate(() => setImmediate(heard));
    });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600);
    await rest;
    expect([got, troubles]).toEqual([[LINK], []]);
  });
  test("a line that never ends is told once, and the one after its end is whole", () => {
    const { got, troubles } = linesOf([...Array.from({ length: 1_000 }, () => Buffer.alloc(1_000, "#")), Buffer.from("\rgood\r")]);
    expect([got, troubles.length]).toEqual([["good"], 1]);
  });
  test("lines that aren't text are told of in the same words, however long each is: the second is no news any more", () => {
    const { got, troubles } = linesOf([Buffer.from("\0\n\0\0\n")]);
    expect([got, troubles.length, new Set(troubles).size]).toEqual([[], 2, 1]);
  });
  test("what says more than anybody scans is told once, not heard out, and heard again in the next second", () => {
    const due: (() => void)[] = [];
    const clock: Clock = { now: () => 0, after: (ms, act) => (ms === 1_000 && due.push(act), () => {}) };
    const [got, troubles]: [string[], string[]] = [[], []];
    const into = lines(clock, { line: (text) => void got.push(text), trouble: (words) => void troubles.push(words) });
    for (let n = 0; n < 20; n += 1) into.push(Buffer.from(Array.from({ length: 500 }, (_, i) => `${n}.${i}\r\n`).join("")));
    expect([got.length, got.at(-1), troubles]).toEqual([50, "0.49", [expect.stringContaining("more than 50 lines within a second")]]);
    for (const act of due.splice(0)) act();
    into.push(Buffer.from("next\n"));
    expect([got.at(-1), troubles.length]).toEqual(["next", 1]);
  });
  test("an AIM identifier is taken off only where one stands", () => {
    expect(withoutAim(`]Q1${LINK}`)).toEqual({ symbology: "]Q1", text: LINK });
    expect(withoutAim("]Q")).toEqual({ symbology: "unknown", text: "]Q" });
    expect(withoutAim(LINK)).toEqual({ symbology: "unknown", text: LINK });
  });
});

describe("the keyboard", () => {
  const type = (text: string) => typedAs({ name: "keys", port: "" }, text, systemClock);
  test("what was typed is a sighting without the Enter of a wedge", () => {
    expect(type(`]Q1${LINK}\r\n`)).toMatchObject({ scanner: "keys", source: "keyboard", symbology: "]Q1", text: LINK });
    expect(type(`${LINK}\t`)).toMatchObject({ symbology: "unknown", text: LINK });
  });
  test.each(["", " \n", "a\0b", "a\nb", "x".repeat(5_000)])("%j is no scan", (text) => {
    expect(type(text)).toMatchObject({ scanner: "keys", words: expect.stringContaining("what was typed is empty") });
  });
});

describe("a tag reader", () => {
  test("EPC and TID come as lines, in either case; all else is told as trouble, each kind of it once in ten seconds", async () => {
    const said: [at: number, lines: string][] = [
      [0, `${EPC}\r\n${EPC.toLowerCase()},e2801191a5030060\n${EPC.slice(1)}\n${EPC},\n`],
      [9_999, `hello\n\0\n\0\0\n${EPC}00000000\n`],
      [10_000, "again\n3000\n"],
    ];
    const gate = await startDevice();
    onTestFinished(gate.end);
    let now = 0;
    const { tags, troubles } = opened({ name: "gate", driver: "rfid", port: gate.url }, { ...systemClock, now: () => now });
    await expect.poll(() => gate.sockets.size).toBe(1);
    for (const [i, [at, lines]] of said.entries()) {
      now = at;
      for (const socket of gate.sockets) socket.write(lines);
      await expect.poll(() => tags.length).toBe(3 + i);
    }
    const notEpc = (line: string) => `"${line}" isn't EPC or EPC,TID in hex`;
    expect(troubles.map(({ words }) => words)).toEqual([notEpc(EPC.slice(1)), saying("line_ignored"), notEpc("again")]);
    expect(tags).toEqual([
      { reader: "gate", epc: EPC, read_at: expect.any(String) },
      { reader: "gate", epc: EPC, tid: "E2801191A5030060", read_at: expect.any(String) },
      { reader: "gate", epc: EPC, read_at: expect.any(String) },
      { reader: "gate", epc: `${EPC}00000000`, read_at: expect.any(String) },
      { reader: "gate", epc: "3000", read_at: expect.any(String) },
    ]);
  });
});

describe("a camera", () => {
  const label = symbolOf(LINK);
  const watching = async (fault: CameraFault = "none", clock: Clock = watchful) => {
    const camera = await startCamera({ shows: () => label, beside: () => symbolOf(linkOf("9")), fault });
    onTestFinished(() => camera.end());
    return { camera, ...opened({ name: "eye", driver: "camera", port: camera.url, simulated: true }, clock) };
  };
  const job = { digital_link: LINK, gtin: GTIN, serial: "123456789012" };
  const whyNot = (sighting: Sighting | undefined) => {
    const verdict = sighting && judgeScan(job, sighting, { submittedAt: "2020-01-01T00:00:00.000Z", seen: [] });
    return verdict && (verdict.advance ? "advance" : verdict.why);
  };

  test("a label in view is told with its picture, the picture's digest and what can be said of the print", async () => {
    const { sightings } = await watching();
    await expect.poll(() => sightings.length).toBeGreaterThan(0);
    const [first] = sightings;
    expect(first).toMatchObject({
      scanner: "eye",
      source: "camera",
      text: LINK,
      symbology: "]Q1",
      decoder: expect.stringMatching(/^zxing-wasm\/\d/),
      in_view: 1,
      mirrored: false,
      inverted: false,
      image_sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      symbol_check: { version: "4", ec_level: "M", uec: expect.any(Number), contrast: expect.any(Number) },
      simulated: true,
    });
    expect(whyNot(first)).toBe("advance");
  });

  test.each([
    ["two-labels", "two_in_view"],
    ["mirrored", "mirrored"],
  ] as const)("%s is seen and refused", async (fault, why) => {
    const { sightings } = await watching(fault);
    await expect.poll(() => sightings.length).toBeGreaterThan(0);
    expect(new Set(sightings.map(whyNot))).toEqual(new Set([why]));
  });

  test.each(["blur", "glare", "void", "inverted", "empty"] as const)("%s: no sighting at all", async (fault) => {
    const { camera, sightings, links } = await watching(fault);
    await expect.poll(() => camera.frames()).toBeGreaterThan(2);
    expect([sightings, links]).toEqual([[], [{ up: true }]]);
  });

  test("a picture that repeats byte for byte is one sighting", async () => {
    let looks = 0;
    const counting: Clock = {
      ...watchful,
      after: (ms, act) => {
        looks += Number(ms === EVERY_MS); // the pause behind each
        return watchful.after(ms, act);
      },
    };
    const { camera, sightings } = await watching("none", counting);
    const more = async (count: number) => {
      const before = looks;
      await expect.poll(() => looks).toBeGreaterThanOrEqual(before + count);
      return sightings.length;
    };
    expect(await more(1)).toBeGreaterThan(0);
    camera.set({ fault: "frozen" });
    const soFar = await more(2);
    expect(await more(4)).toBe(soFar);
  });

  test("the old label that still lies there doesn't move the next attempt; once the view was empty the new one does", async () => {
    const { camera, sightings } = await watching();
    await expect.poll(() => sightings.length).toBeGreaterThan(0);
    const submittedAt = new Date(Date.parse(sightings.at(-1)?.scanned_at ?? "") + 1).toISOString();
    const isAfter = ({ scanned_at }: Sighting) => scanned_at > submittedAt;
    const verdictOn = (sighting: Sighting) =>
      judgeScan(job, sighting, { submittedAt, seen: sightings.filter((one) => one.scanned_at < sighting.scanned_at) });
    await expect.poll(() => sightings.filter(isAfter).length).toBeGreaterThan(0);
    const still = sightings.filter(isAfter);
    for (const sighting of still) expect(verdictOn(sighting)).toMatchObject({ why: "old_label" });
    camera.set({ fault: "empty" });
    const frames = camera.frames();
    await expect.poll(() => camera.frames()).toBeGreaterThan(frames + 2);
    const before = sightings.length;
    camera.set({ fault: "none" });
    await expect.poll(() => sightings.length).toBeGreaterThan(before);
    expect(verdictOn(sightings[before] as Sighting)).toEqual({ advance: true });
  });

  test.each([
    ["missing", "answers 404"],
    ["not-a-picture", "aren't a PNG or JPEG"],
    ["endless", "more than 8388608 bytes"],
    ["bomb", "is too large"],
    ["cut", "cut off or broken"],
    ["silent", "sent no whole frame within"],
  ] as const)("%s: the camera is down, it is said why, and it comes back", async (fault, says) => {
    const { camera, sightings, links } = await watching(fault, fault === "silent" ? clockOf((ms) => shorter(ms, FRAME_MS)) : watchful);
    await expect.poll(() => links).toEqual([{ up: false, why: expect.stringContaining(says) }]);
    camera.set({ fault: "none" });
    await expect.poll(() => sightings.length).toBeGreaterThan(0);
    expect(links.map(({ up }) => up)).toEqual([false, true]);
  });

  /** A camera of another's making, which shows these frames, and the last of them again and again. */
  const showing = async (answer: (response: ServerResponse, n: number) => void) => {
    let frames = 0;
    const server = createHttpServer((_, response) => answer(response, (frames += 1) - 1));
    const port = `http://127.0.0.1:${await listening(server)}/`;
    onTestFinished(() => closed(server));
    return { ...opened({ name: "eye", driver: "camera", port }, watchful), frames: () => frames };
  };
  test.each([
    [1, false],
    [2, true],
  ])("%i frames without a symbol between two looks at a label: that it was gone is %s", async (between, isGone) => {
    const nothing = { width: 400, height: 400, gray: new Uint8Array(160_000).fill(90) };
    const { sightings, frames } = await showing((response, n) => {
      const isBetween = n > 0 && n <= between;
      response.end(pngOfGray(throughLens(isBetween ? nothing : label, { seed: n + 1 })));
    });
    await expect.poll(() => frames()).toBeGreaterThan(between + 2);
    await expect.poll(() => sightings.length).toBeGreaterThan(1);
    expect(sightings.map(({ view_empty_at }) => view_empty_at !== undefined).slice(0, 2)).toEqual([false, isGone]);
  });

  test("one that sends a stream instead of a picture is told so", async () => {
    const { links } = await showing((response) => {
      response.writeHead(200, { "content-type": "multipart/x-mixed-replace; boundary=frame" }).write("--frame\r\n");
    });
    await expect.poll(() => links).toEqual([{ up: false, why: expect.stringContaining("is a stream (multipart/x-mixed-replace)") }]);
  });

  test("a picture that isn't read in time is given up, as nothing waits for it, and the next one is read", async () => {
    let reads = 0;
    const impatient: Clock = {
      ...watchful,
      after: (ms, act) => {
        reads += Number(ms === READ_MS);
        if (ms === READ_MS && reads === 1) setImmediate(act);
        return watchful.after(ms, act);
      },
    };
    const { links, sightings } = await watching("none", impatient);
    await expect.poll(() => sightings.length).toBeGreaterThan(0);
    const why = expect.stringMatching(/^the picture at .* could not be read within 20 s/);
    expect(links).toEqual([{ up: false, why }, { up: true }]);
  });

  test("a picture whose reading ends in the middle is told of in a sentence that pages translate, and the next one is read", async () => {
    process.once("worker", (thread) => void thread.terminate());
    const { links, sightings } = await watching();
    await expect.poll(() => sightings.length).toBeGreaterThan(0);
    expect(links).toEqual([{ up: false, why: expect.toSatisfy((why: string) => heard(why)?.name === "reading_ended") }, { up: true }]);
  });

  test("one that isn't there is told in words", async () => {
    const { links } = opened({ name: "eye", driver: "camera", port: "http://127.0.0.1:1/frame.png" });
    await expect.poll(() => links).toEqual([{ up: false, why: expect.stringContaining("can't be reached") }]);
  });

  test.each(["/dev/zero", "pipe"])("%s has no end, and is told in words instead of being read", async (what) => {
    const folder = freshFolder("eye");
    const path = what === "pipe" ? join(folder, what) : what;
    if (what === "pipe") execFileSync("mkfifo", [path]);
    const { links } = opened({ name: "eye", driver: "camera", port: `file:${path}` });
    await expect.poll(() => links).toEqual([{ up: false, why: expect.stringContaining("isn't a picture's file") }]);
  });

  test("a picture in a file is as good as one at a URL", async () => {
    const folder = freshFolder("eye");
    const file = join(folder, "frame.png");
    writeFileSync(file, pngOfGray(throughLens(label)));
    const { sightings } = opened({ name: "eye", driver: "camera", port: `file:${file}` });
    await expect.poll(() => sightings.map(({ text }) => text)).toEqual([LINK]);
  });
});
