// SGTIN-96 by the published vectors, at its edges, and as its own inverse.
import { assert, bigInt, integer, property, stringMatching } from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeSgtin96, encodeSgtin96, withCheckDigit } from "#shared/gs1.ts";

// gtin, company prefix length, filter, serial, hex: GS1 TDS annex E.3 and the test suites of published encoders.
const published = `
09506000134352,11,3,123456789,3066C4409047E140075BCD15
09528765123457,7,0,123456789123,30164596F40C0E5CBE991A83
80614141123458,7,3,6789,3074257BF7194E4000001A85
03483387813215,6,1,1,3039542C82FB024000000001
03281347077710,7,1,1,3034C8470C0796C000000001
03191647601235,8,1,1,3030F380DE001EC000000001
03111123479875,9,1,1,302D28B329B0F6C000000001
03014129465562,10,1,1,3028B3A7F7390E0000000001
03004123774333,11,1,1,3024DFD31D1DE0C000000001
03000123456781,12,1,1,302117688465380000000001
00000010000014,6,0,1,301800004000004000000001
00020000000015,7,0,1,301401388000004000000001
13200000000008,12,0,1,30012A05F200004000000001
13200000000008,12,0,0,30012A05F200004000000000
23200000050000,8,0,51681623,3010F42400186A0003149957
20614141123456,7,3,67899999999,3074257BF4CF5E4FCF27C6FF
20614141123456,7,0,6789999999,3014257BF4CF5E4194B72D7F
00008000011378,7,1,11,3034007D00011C400000000B
09506000134352,7,1,123456789012,30364433400D1EDCBE991A14
09506000134352,8,1,123456789012,3032D54010835ADCBE991A14
09506000134352,9,1,123456789012,302F8A9014D06CDCBE991A14`
  .trim()
  .split("\n")
  .map((line) => line.split(","));

test.each(published)("%s with a prefix of %s digits, filter %s, serial %s is %s", (gtin = "", length, filter, serial = "", hex = "") => {
  const sgtin = { gtin, serial, companyPrefixLength: Number(length), filter: Number(filter) };
  expect(encodeSgtin96(sgtin)).toBe(hex);
  expect(decodeSgtin96(hex)).toEqual(sgtin);
});

const item = { gtin: "09506000134352", serial: "1", companyPrefixLength: 7, filter: 1 };

describe("what isn't one EPC and no other is refused", () => {
  test.each([
    ["2^38", { serial: "274877906944" }],
    ["beyond 2^38", { serial: "274877906945" }],
    ["20 digits", { serial: "12345678901234567890" }],
    ["leading zeros", { serial: "007" }],
    ["a letter", { serial: "A12" }],
    ["a path", { serial: "32a/b" }],
    ["a fraction", { serial: "12.5" }],
    ["a sign", { serial: "-1" }],
    ["nothing", { serial: "" }],
    ["other digits", { serial: "١٢٣" }],
    ["a wrong check digit", { gtin: "09506000134353" }],
    ["a GTIN of 11 digits", { gtin: "12345678903" }],
    ["a prefix of 5 digits", { companyPrefixLength: 5 }],
    ["a prefix of 13 digits", { companyPrefixLength: 13 }],
    ["half a prefix", { companyPrefixLength: 7.5 }],
    ["a prefix length that is text", { companyPrefixLength: "7" }],
    ["no prefix length", { companyPrefixLength: undefined }],
    ["no GTIN", { gtin: undefined }],
    ["a GTIN that is a number", { gtin: 9506000134352 }],
    ["no serial", { serial: undefined }],
    ["no filter", { filter: undefined }],
    ["filter 8", { filter: 8 }],
  ])("%s", (_what, wrong) => {
    expect(() => encodeSgtin96({ ...item, ...(wrong as object) })).toThrow(expect.objectContaining({ code: "EPC_UNAVAILABLE" }));
  });

  test.each([
    ["23 digits", "3066C4409047E140075BCD1"],
    ["25 digits", "3066C4409047E140075BCD150"],
    ["a letter", "3066C4409047E140075BCD1G"],
    ["partition 7", "307EC4409047E140075BCD15"],
    ["header 00", "0066C4409047E140075BCD15"],
    ["header E2", "E266C4409047E140075BCD15"],
    ["an item too large for its digits", "3077FFFFFFFFFFC000000001"],
  ])("decoding %s", (_what, hex) => {
    expect(() => decodeSgtin96(hex)).toThrow(expect.objectContaining({ code: "EPC_UNAVAILABLE" }));
  });
});

test.each(["9506000134352", "012345678905", "96385074"])("the GTIN %s is encoded as the 14 digits that it stands for", (gtin) => {
  const padded = { ...item, gtin: gtin.padStart(14, "0") };
  expect(encodeSgtin96({ ...item, gtin })).toBe(encodeSgtin96(padded));
  expect(decodeSgtin96(encodeSgtin96({ ...item, gtin }))).toEqual(padded);
});

test("the largest serial and zero are encoded", () => {
  for (const serial of ["274877906943", "0"]) expect(decodeSgtin96(encodeSgtin96({ ...item, serial })).serial).toBe(serial);
});

test("decoding undoes encoding", () => {
  const digits = stringMatching(/^[0-9]{13}$/).map(withCheckDigit);
  const serials = bigInt({ min: 0n, max: 2n ** 38n - 1n }).map(String);
  assert(
    property(digits, serials, integer({ min: 6, max: 12 }), integer({ min: 0, max: 7 }), (gtin, serial, companyPrefixLength, filter) => {
      const sgtin = { gtin, serial, companyPrefixLength, filter };
      expect(decodeSgtin96(encodeSgtin96(sgtin))).toEqual(sgtin);
    }),
    { numRuns: 2_000 },
  );
});
