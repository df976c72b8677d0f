// Which scans move a job: this job's label, the one just printed, alone in view; every other is refused with its reason.
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { judgeScan, type ScanContext, type Seen } from "../../agent/scan-rules.ts";
import type { Sighting } from "../../agent/scanners/scanner.ts";

const ORIGIN = "https://id.example.com";
const GTIN = "09506000134352";
const expected = { digital_link: `${ORIGIN}/01/${GTIN}/21/123456789012`, gtin: GTIN, serial: "123456789012" };
const at = (seconds: number) => new Date(Date.UTC(2026, 10, 21, 12) + seconds * 1_000).toISOString();
const sighting = (changes: Partial<Sighting> = {}): Sighting => ({
  scanner: "fixed",
  source: "serial",
  text: expected.digital_link,
  symbology: "]Q1",
  decoder: "scanner fixed",
  scanned_at: at(10),
  in_view: 1,
  mirrored: false,
  inverted: false,
  ...changes,
});
const context = (changes: Partial<ScanContext> = {}): ScanContext => ({ submittedAt: at(0), seen: [], ...changes });
const before = (changes: Partial<Seen> = {}): Seen => ({ scanner: "fixed", text: expected.digital_link, scanned_at: at(-60), ...changes });
const judge = (changes: Partial<Sighting> = {}, around: Partial<ScanContext> = {}) =>
  judgeScan(expected, sighting(changes), context(around));
const whyNot = (...args: Parameters<typeof judge>) => {
  const verdict = judge(...args);
  return verdict.advance ? "advance" : verdict.why;
};

describe("the job's own label moves it", () => {
  test.each([
    expected.digital_link,
    `HTTPS://ID.EXAMPLE.COM/01/${GTIN}/21/123456789012`,
    `${ORIGIN}:443/01/${GTIN}/21/123456789012`,
    `${ORIGIN}/01/${GTIN}/21/%31234567890%312`,
    `${ORIGIN}/01/${GTIN}/21/123456789012/`,
  ])("%s", (text) => expect(judge({ text })).toEqual({ advance: true }));
  test("a scanner that doesn't send its symbology is believed as to that", () => expect(whyNot({ symbology: "unknown" })).toBe("advance"));
  test("as soon as it was handed to the printer", () => expect(whyNot({ scanned_at: at(0) })).toBe("advance"));
});

describe("no other text moves it", () => {
  test.each([
    [`${ORIGIN}/01/${GTIN}/21/123456789013`, "other_serial"],
    [`${ORIGIN}/01/${GTIN}/21/12345678901`, "other_serial"],
    [`${ORIGIN}/01/${GTIN}/21/0123456789012`, "other_serial"],
    [`${ORIGIN}/01/09506000134369/21/123456789012`, "other_gtin"],
    [`https://other.example.com/01/${GTIN}/21/123456789012`, "other_link"],
    [`http://id.example.com/01/${GTIN}/21/123456789012`, "other_link"],
    [`${ORIGIN}/01/9506000134352/21/123456789012`, "other_link"], // the cloud knows GTINs in 14 digits only
    [`${ORIGIN}/x/01/${GTIN}/21/123456789012`, "other_link"],
    [`${ORIGIN}/01/${GTIN}`, "not_a_link"],
    [`${ORIGIN}/01/${GTIN}/10/123456789012`, "not_a_link"],
    [`${ORIGIN}/01/${GTIN}/21/123456789012?x=1`, "not_a_link"],
    [`${ORIGIN}/01/${GTIN}/21/123456789012#`, "not_a_link"],
    [`${ORIGIN}/01/${GTIN}/21/123456789012?`, "not_a_link"],
    [`https://me@id.example.com/01/${GTIN}/21/123456789012`, "not_a_link"],
    [`${expected.digital_link}${expected.digital_link}`, "no_line_end"], // two scans run together
    [`${ORIGIN}/01/${GTIN}/21/%zz`, "not_a_link"],
    [`ps://id.example.com/01/${GTIN}/21/123456789012`, "not_a_link"], // what a template without its mode prefix prints
    [`${ORIGIN}/01\\${GTIN}/21/123456789012`, "not_a_link"],
    [`${ORIGIN}/01/${GTIN}/21/123456789012 `, "not_a_link"],
    [`${ORIGIN}/01/${GTIN}/21/1234\t56789012`, "not_a_link"],
    ["9506000134352", "not_a_link"],
    ["", "not_a_link"],
    [`httpsÖ--id.example.com-01-${GTIN}-21-123456789012`, "keyboard_layout"],
    ["httpsM!!id:exq;ple:co;!à&!àç(àèàààé&!", "keyboard_layout"],
    ["реезыЖ..шв.учфьздуюсщь.01.", "keyboard_layout"],
  ])("%s: %s", (text, why) => {
    expect(whyNot({ text })).toBe(why);
    const verdict = judge({ text });
    if (!verdict.advance) expect(verdict.words.length).toBeGreaterThan(20);
  });
  test("a label that was here before is recognised", () => {
    const text = `${ORIGIN}/01/${GTIN}/21/5`;
    expect(judge({ text }, { seen: [before({ text })] })).toMatchObject({ words: expect.stringContaining("has been here before") });
    expect(judge({ text }, { seen: [before()] })).not.toMatchObject({ words: expect.stringContaining("has been here before") });
  });
  test("no slip in the serial is taken for it", () => {
    const base = expected.digital_link.slice(0, -expected.serial.length);
    const ascii = fc.string({ unit: "grapheme-ascii", maxLength: 3 }).filter((put) => !/[%/]/.test(put)); // "%3" before a "1" writes "1" another way
    fc.assert(
      fc.property(fc.nat(expected.serial.length), fc.nat(3), ascii, (place, gone, put) => {
        const serial = expected.serial.slice(0, place) + put + expected.serial.slice(place + gone);
        expect(judge({ text: base + serial }).advance).toBe(serial === expected.serial);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("what the picture says comes first", () => {
  test.each([
    [{ in_view: 2 }, "two_in_view"],
    [{ mirrored: true }, "mirrored"],
    [{ inverted: true }, "inverted"],
    [{ symbology: "]d2" }, "other_symbology"],
    [{ symbology: "]Q3" }, "other_symbology"],
    [{ symbology: "]C1" }, "other_symbology"],
  ] as const)("%j: %s", (changes, why) => expect(whyNot(changes)).toBe(why));
});

describe("a label is this attempt's only when it came after the print", () => {
  test("scanned before the label was handed over", () => expect(whyNot({ scanned_at: at(-0.001) })).toBe("before_print"));
  test("an instant that is none", () => expect(whyNot({ scanned_at: "yesterday" })).toBe("before_print"));
  test("the very same picture again", () => {
    const image_sha256 = "ab".repeat(32);
    expect(whyNot({ source: "camera", image_sha256 }, { seen: [before({ text: "", image_sha256 })] })).toBe("replay");
  });
  test("delivered late, after something newer from the same scanner", () => {
    expect(whyNot({}, { seen: [before({ text: "x", scanned_at: at(20) })] })).toBe("replay");
    expect(whyNot({}, { seen: [before({ text: "x", scanned_at: at(10) })] })).toBe("advance"); // at once
    expect(whyNot({}, { seen: [before({ text: "x", scanned_at: at(20), scanner: "hand" })] })).toBe("advance");
  });
  test("the label of an earlier attempt, still there", () => {
    expect(whyNot({}, { seen: [before()] })).toBe("old_label");
    expect(whyNot({}, { seen: [before({ text: expected.digital_link.replace("https", "HTTPS") })] })).toBe("old_label");
    expect(whyNot({}, { seen: [before({ text: `${ORIGIN}/01/${GTIN}/21/5` })] })).toBe("advance");
    expect(whyNot({}, { seen: [before({ text: `${ORIGIN}/01/09506000134369/21/123456789012` })] })).toBe("advance"); // another GTIN's serial
    expect(whyNot({}, { seen: [before({ scanned_at: at(0) })] })).toBe("advance"); // not before it was handed over
  });
  test("once the earlier label is confirmed as destroyed, the new one counts", () => {
    expect(whyNot({}, { seen: [before()], destroyedAt: at(-30) })).toBe("advance");
    expect(whyNot({}, { seen: [before()], destroyedAt: at(-60) })).toBe("advance");
    expect(whyNot({}, { seen: [before({ scanned_at: at(-10) })], destroyedAt: at(-30) })).toBe("old_label");
  });
  test("where another one may be about, a picture from before the label can have been out shows that one, however late it is read", () => {
    expect(["eye", "hand"].map((scanner) => whyNot({ scanner }, { outFrom: at(10) }))).toEqual(["old_label", "old_label"]);
    expect(whyNot({}, { outFrom: at(9) })).toBe("advance");
  });
  test("a camera that saw its view empty in between knows that the old label went", () => {
    const seen = [before({ scanner: "eye" })];
    const eye = { scanner: "eye", source: "camera" } as const;
    expect(whyNot({ ...eye }, { seen })).toBe("old_label");
    expect(whyNot({ ...eye, view_empty_at: at(-70) }, { seen })).toBe("old_label");
    expect(whyNot({ ...eye, view_empty_at: at(-60) }, { seen })).toBe("old_label"); // of that very moment
    expect(whyNot({ ...eye, view_empty_at: at(-50) }, { seen })).toBe("advance");
    expect(whyNot({ ...eye, view_empty_at: at(-50) }, { seen: [before({ scanner: "hand" })] })).toBe("old_label"); // another's eyes
  });
});

test("whatever was seen and in whatever order, only the job's own text ever moves it", () => {
  const text = fc.constantFrom(expected.digital_link, `${ORIGIN}/01/${GTIN}/21/1`, "junk", "");
  const seen = fc.array(fc.record({ scanner: fc.constantFrom("a", "b"), text, scanned_at: fc.integer({ min: -100, max: 100 }).map(at) }));
  const scan = fc.record({
    scanner: fc.constantFrom("a", "b"),
    text,
    scanned_at: fc.integer({ min: -100, max: 100 }).map(at),
    in_view: fc.integer({ min: 1, max: 3 }),
    mirrored: fc.boolean(),
  });
  fc.assert(
    fc.property(scan, seen, (changes, earlier) => {
      if (!judge(changes, { seen: earlier }).advance) return;
      expect(changes).toMatchObject({ text: expected.digital_link, in_view: 1, mirrored: false });
      expect(Date.parse(changes.scanned_at)).toBeGreaterThanOrEqual(Date.parse(at(0)));
      expect(earlier.filter((one) => one.text === expected.digital_link && one.scanned_at < at(0))).toEqual([]);
    }),
    { numRuns: 2_000 },
  );
});
