// A tag is the job's when its EPC names the job's item, alone in the field, after the print; else it is said why not.
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { epcFor, judgeTag, type Tag } from "../../agent/rfid.ts";
import { encodeSgtin96, withCheckDigit } from "#shared/gs1.ts";

const item = { gtin: "09506000134352", serial: "123456789012" };
const EPC = "30364433400D1EDCBE991A14"; // the published vector of a seven-digit company prefix
const TID = "E2801191A5030060";
const at = (seconds: number) => new Date(Date.UTC(2026, 10, 21, 12) + seconds * 1_000).toISOString();
const tag = (changes: Partial<Tag> = {}): Tag => ({ reader: "gate", epc: EPC, tid: TID, read_at: at(10), ...changes });
const judged = (read: Tag, recent: Tag[] = [read], usedTids = new Set<string>()) =>
  judgeTag(EPC, read, { submittedAt: at(0), recent, usedTids });
const whyOf = (...args: Parameters<typeof judged>) => {
  const verdict = judged(...args);
  return verdict.good ? "good" : verdict.why;
};

describe("before anything is printed", () => {
  test.each([7, 8, 9])("an EPC of the same item by a prefix of %d digits is taken", (companyPrefixLength) => {
    const epc = encodeSgtin96({ ...item, companyPrefixLength, filter: 1 });
    expect(epcFor({ ...item, sgtin96_epc: epc.toLowerCase() })).toBe(epc);
  });
  test.each([
    [null, "has no EPC"],
    ["", "has no EPC"],
    [encodeSgtin96({ gtin: item.gtin, serial: "123456789013", companyPrefixLength: 7, filter: 1 }), "serial 123456789013"],
    [encodeSgtin96({ gtin: "09506000134369", serial: item.serial, companyPrefixLength: 7, filter: 1 }), "names 09506000134369"],
    [EPC.slice(1), "isn't 24 hex digits"],
    [`31${EPC.slice(2)}`, "another header"],
  ])("%j is refused: %s", (sgtin96_epc, says) => {
    expect(() => epcFor({ ...item, sgtin96_epc })).toThrow(
      expect.objectContaining({ code: "EPC_UNAVAILABLE", message: expect.stringContaining(says) }),
    );
  });
  test("a serial with a leading zero has no EPC, though the number is the same", () => {
    expect(() => epcFor({ gtin: item.gtin, serial: "0123456789012", sgtin96_epc: EPC })).toThrow("the job is for");
  });
  test("only the EPC of the very item is ever taken", () => {
    const items = fc.record({ gtin: fc.stringMatching(/^\d{13}$/).map(withCheckDigit), serial: fc.bigInt(0n, 2n ** 38n - 1n).map(String) });
    fc.assert(
      fc.property(items, items, fc.integer({ min: 6, max: 12 }), (one, other, companyPrefixLength) => {
        const sgtin96_epc = encodeSgtin96({ ...one, companyPrefixLength, filter: 1 });
        expect(epcFor({ ...one, sgtin96_epc })).toBe(sgtin96_epc);
        if (one.gtin !== other.gtin || one.serial !== other.serial) expect(() => epcFor({ ...other, sgtin96_epc })).toThrow();
      }),
    );
  });
});

describe("an independent reading", () => {
  test("of the job's tag is evidence, with the chip's own number where it is read", () => {
    expect(judged(tag())).toEqual({ good: true, evidence: { epc: EPC, tid: TID, reader: "independent" } });
    const { tid: _, ...bare } = tag();
    expect(judged(bare)).toEqual({ good: true, evidence: { epc: EPC, reader: "independent" } });
  });
  test("of another EPC says whose it is: the neighbour's inlay was written", () => {
    const epc = encodeSgtin96({ ...item, serial: "7", companyPrefixLength: 7, filter: 1 });
    expect(judged(tag({ epc }))).toMatchObject({ why: "other_epc", words: expect.stringContaining("serial 7") });
    expect(whyOf(tag({ epc: "0".repeat(24) }))).toBe("other_epc");
  });
  test("from before the print is none", () => expect(whyOf(tag({ read_at: at(-1) }))).toBe("before_print"));
  test("with another tag in the field is none, whichever it is", () => {
    const neighbour = tag({ epc: "0".repeat(24), tid: "E280000000000001" });
    expect(whyOf(tag(), [tag(), { ...neighbour, read_at: at(9) }])).toBe("two_tags");
    expect(whyOf(tag(), [tag(), { ...neighbour, read_at: at(1) }])).toBe("good");
    expect(whyOf(tag(), [tag(), tag({ tid: "E280000000000002", read_at: at(9) })])).toBe("two_tags"); // two chips with one EPC
    expect(whyOf(tag(), [tag(), tag({ read_at: at(9) })])).toBe("good"); // the same again
  });
  test("of another chip than the printer wrote to is none, though the EPC is equal", () => {
    const verdictBy = (printerTid: string) => judgeTag(EPC, tag(), { submittedAt: at(0), recent: [tag()], printerTid });
    expect(verdictBy(TID.toLowerCase())).toMatchObject({ good: true });
    expect(verdictBy("E280000000000001")).toMatchObject({ good: false, why: "other_chip" });
  });
  test("of a chip that an earlier label ended with is that label", () => expect(whyOf(tag(), [tag()], new Set([TID]))).toBe("used_tag"));
});
