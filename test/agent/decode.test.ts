// The decoder reads what is there, says how it lies, and what a camera would make of it; the symbol check tells what a decode hides.
import { spawnSync } from "node:child_process";
import { crc32, deflateSync } from "node:zlib";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decode, look } from "../../agent/decode.ts";
import { pictureFrom } from "../../agent/picture.ts";
import { symbolCheck } from "../../agent/symbol-check.ts";
import { grayOfPng, pngOfGray, seen, type ViewFault } from "../../fixtures/scanners/optics.ts";
import { symbolOf } from "../../fixtures/symbol.ts";

const LINK = "https://id.example.com/01/09506000134352/21/123456789012";
const OTHER = "https://id.example.com/01/09506000134352/21/210987654321";
const label = symbolOf(LINK);

test("a symbol is read with all that is needed to judge it", async () => {
  const [symbol, ...more] = await decode(label);
  expect(more).toEqual([]);
  expect(symbol).toMatchObject({
    text: LINK,
    symbology: "]Q1",
    isMirrored: false,
    isInverted: false,
    version: "4",
    ecLevel: "M",
    uec: 1,
    modules: 33,
  });
  expect(Buffer.from(symbol?.bytes ?? []).toString()).toBe(LINK);
  expect(symbol?.dark).toEqual(label.dark);
});

test("brightness, RGBA and a PNG file are read alike", async () => {
  const { width, height, gray } = label;
  const data = new Uint8ClampedArray(gray.length * 4).map((_, i) => (i % 4 === 3 ? 255 : (gray[i >> 2] ?? 0)));
  for (const image of [label, { width, height, data }, pngOfGray(label)])
    expect((await decode(image)).map(({ text }) => text)).toEqual([LINK]);
  expect(grayOfPng(pngOfGray(label)).gray).toEqual(gray);
});

test("no name server and no network is needed: the decoder is read from the package", () => {
  const code = `globalThis.fetch = () => { throw new Error("fetched") };
    const { decode } = await import("./agent/decode.ts");
    const { symbolOf } = await import("./fixtures/symbol.ts");
    process.stdout.write((await decode(symbolOf("offline")))[0].text);`;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", code], { encoding: "utf8" });
  expect([stdout, stderr]).toEqual(["offline", ""]);
});

test("what isn't a picture is refused with a sentence, not read as an empty one", async () => {
  await expect(look(Buffer.from("<html>"))).rejects.toThrow("aren't a PNG or JPEG");
  await expect(look({ width: 3, height: 3, gray: new Uint8Array(8) })).rejects.toThrow("has 9 bytes, not 8");
  await expect(look({ width: 0, height: 3, gray: new Uint8Array(0) })).rejects.toThrow("can't be read");
  await expect(look({ width: 100_000, height: 100_000, gray: new Uint8Array(0) })).rejects.toThrow("can't be read");
  expect(await look({ width: 9, height: 9, gray: new Uint8Array(81) })).toMatchObject({ symbols: [], damaged: [] });
});

test("every text that fits comes back as it was", async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 120 }), async (text) => {
      expect((await decode(symbolOf(text, { moduleDots: 3 }))).map((symbol) => symbol.text)).toEqual([text]);
    }),
    { numRuns: 60 },
  );
});

test("another kind of symbol is read as what it is", async () => {
  const [symbol] = await decode(symbolOf(LINK, { kind: "datamatrix" }));
  expect([symbol?.text, symbol?.symbology]).toEqual([LINK, "]d1"]);
});

describe("through a lens", () => {
  const through = (fault: ViewFault, seed = 1) => look(seen(label, { fault, seed, beside: symbolOf(OTHER) }));

  test.each(["none", "noise", "tilt", "low-contrast"] as const)("%s: read", async (fault) => {
    for (const seed of [1, 2, 3]) {
      const { symbols, damaged } = await through(fault, seed);
      expect([symbols.map(({ text }) => text), damaged]).toEqual([[LINK], []]);
    }
  });
  test.each(["blur", "glare", "void"] as const)("%s: nothing is read, rather than something else", async (fault) => {
    for (const seed of [1, 2, 3]) expect((await through(fault, seed)).symbols).toEqual([]);
  });
  test("a mirrored symbol is read and said to be mirrored", async () => {
    expect((await through("mirrored")).symbols).toMatchObject([{ text: LINK, isMirrored: true }]);
  });
  test("a light symbol on dark isn't read at all", async () => {
    expect((await through("inverted")).symbols).toEqual([]);
  });
  test("two labels are two symbols", async () => {
    expect((await through("two-labels")).symbols.map(({ text }) => text).toSorted()).toEqual([LINK, OTHER].toSorted());
  });
  test("an empty table is empty", async () => {
    expect(await through("empty")).toMatchObject({ symbols: [], damaged: [] });
  });
  test("a readable label beside one that can't be read: both are noticed", async () => {
    const torn = {
      ...label,
      gray: label.gray.slice().fill(255, Math.floor(label.gray.length * 0.42), Math.floor(label.gray.length * 0.6)),
    };
    const { symbols, damaged } = await look(seen(label, { fault: "two-labels", beside: torn }));
    expect([symbols.map(({ text }) => text), damaged.length > 0]).toEqual([[LINK], true]);
  });
  test("the same seed gives the same picture, another another", () => {
    expect(seen(label, { seed: 5 })).toEqual(seen(label, { seed: 5 }));
    expect(seen(label, { seed: 5 })).not.toEqual(seen(label, { seed: 6 }));
  });
});

describe("the symbol check", () => {
  const check = async (picture: ReturnType<typeof seen>) => {
    const [symbol] = await decode(picture);
    if (!symbol) throw new Error("not read");
    return symbolCheck(symbol, { picture, intended: label });
  };
  test("a good label has no errors and its contrast is what the light gave", async () => {
    expect(await check(label)).toEqual({
      version: "4",
      ec_level: "M",
      uec: 1,
      contrast: 1,
      module_errors: 0,
      modules: 1_089,
      errors_by_column: [],
    });
    const [good, pale] = [await check(seen(label)), await check(seen(label, { fault: "low-contrast" }))];
    expect(good.module_errors).toBe(0);
    expect(good.contrast).toBeGreaterThan(3 * (pale.contrast ?? 1));
  });
  test("a dead head element three dots wide is found in its column, though the text is read", async () => {
    const column = 20;
    const gray = label.gray.slice();
    for (let y = 0; y < label.height; y += 1)
      gray.fill(255, y * label.width + (column + 4) * 6 + 1, y * label.width + (column + 4) * 6 + 5);
    const found = await check({ ...label, gray });
    expect(found.module_errors).toBeGreaterThan(5);
    expect(found.errors_by_column?.map((error) => error.column)).toEqual([column]);
  });
  test("nothing is said of modules where the symbol isn't the one that we drew", async () => {
    const [symbol] = await decode(symbolOf(LINK, { level: "H" }));
    expect(symbol && symbolCheck(symbol, { intended: label })).toEqual({ version: "6", ec_level: "H", uec: 1 });
  });
  test("nowhere is it called a grade", async () => {
    expect(JSON.stringify(await check(label))).not.toMatch(/grade|15415|iso/i);
  });
});

describe("a camera's file", () => {
  test("a PNG is read on white, transparent or not", () => {
    const { gray } = pictureFrom(pngOfGray(label));
    expect(gray?.gray).toEqual(label.gray);
  });
  test("one that claims to be huge is refused before it is unpacked", () => {
    const claim = Buffer.from(pngOfGray({ width: 1, height: 1, gray: new Uint8Array(1) }));
    claim.writeUInt32BE(60_000, 16);
    claim.writeUInt32BE(60_000, 20);
    expect(() => pictureFrom(claim)).toThrow("60000 x 60000 is too large");
    for (const side of [16, 20]) {
      claim.writeUInt32BE(1, 16);
      claim.writeUInt32BE(1, 20);
      claim.writeUInt32BE(16_777_216, side); // as many dots as a picture may have, in rows or columns of one
      expect(() => pictureFrom(claim)).toThrow("is too large");
    }
  });
  /** Each module is a block of its own, so that nothing but its brightness has to be written. */
  function jpegOf({ modules, dark }: Pick<typeof label, "modules" | "dark">, fill: number[] = []): Buffer {
    const across = modules + 8;
    const segment = (marker: number, ...body: number[]) => [0xff, marker, 0, body.length + 2, ...body];
    const sizes = (length: number, count: number) => Array.from({ length: 16 }, (_, i) => (i + 1 === length ? count : 0));
    let bits = "";
    let before = 0;
    for (let y = -4; y < modules + 4; y += 1)
      for (let x = -4; x < modules + 4; x += 1) {
        const isDark = x >= 0 && x < modules && y >= 0 && y < modules && dark[y * modules + x] === 1;
        const now = isDark ? -128 : 127;
        const step = now - before;
        const size = step === 0 ? 0 : Math.floor(Math.log2(Math.abs(step))) + 1;
        const value = step < 0 ? step + 2 ** size - 1 : step;
        bits += `${size.toString(2).padStart(4, "0")}${size === 0 ? "" : value.toString(2).padStart(size, "0")}0`;
        before = now;
      }
    const pixels = (bits.match(/.{1,8}/g) ?? []).map((byte) => Number.parseInt(byte.padEnd(8, "1"), 2));
    const side = [(across * 8) >> 8, (across * 8) & 0xff];
    return Buffer.from([
      0xff, 0xd8,
      ...segment(0xdb, 0, ...Array.from({ length: 64 }, () => 8)),
      ...fill,
      ...segment(0xc0, 8, ...side, ...side, 1, 1, 0x11, 0),
      ...fill,
      ...segment(0xc4, 0x00, ...sizes(4, 12), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
      ...fill,
      ...segment(0xc4, 0x10, ...sizes(1, 1), 0),
      ...fill,
      ...segment(0xda, 1, 1, 0, 0, 63, 0),
      ...pixels.flatMap((byte) => (byte === 0xff ? [0xff, 0] : [byte])),
      ...fill,
      0xff, 0xd9,
    ]); // oxfmt-ignore
  }
  test("a JPEG is read, with the fill bytes that may stand before any of its markers", async () => {
    for (const fill of [[], [0xff], [0xff, 0xff, 0xff]]) {
      const { image } = pictureFrom(jpegOf(label, fill));
      expect((await decode(image)).map(({ text }) => text)).toEqual([LINK]);
    }
  });
  test("one laid out in passes is read like any other, and no more of it is unpacked than it says that it has", () => {
    const chunk = (name: string, data: Uint8Array) => {
      const body = Buffer.concat([Buffer.from(name, "latin1"), data]);
      const around = Buffer.alloc(8);
      around.writeUInt32BE(data.length, 0);
      around.writeUInt32BE(crc32(body), 4);
      return Buffer.concat([around.subarray(0, 4), body, around.subarray(4)]);
    };
    const IN_PASSES = [0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 1]; // one by one, gray
    const fileOf = (pixels: Uint8Array, headers = [IN_PASSES]) => {
      const chunks = [
        ...headers.map((header) => chunk("IHDR", Buffer.from(header))),
        chunk("IDAT", deflateSync(pixels)),
        chunk("IEND", Buffer.alloc(0)),
      ];
      return Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), ...chunks]);
    };
    expect(pictureFrom(fileOf(Buffer.from([0, 77]))).gray?.gray).toEqual(Uint8Array.of(77));
    expect(() => pictureFrom(fileOf(Buffer.alloc(5_000_000)))).toThrow("1 x 1 unpacks to more");
    expect(() => pictureFrom(fileOf(Buffer.alloc(5_000_000), [[...IN_PASSES.slice(0, -1), 0], IN_PASSES]))).toThrow("more than one header");
  });
  test("no bytes make it do anything but answer or refuse", () => {
    const whole = pngOfGray({ width: 4, height: 4, gray: new Uint8Array(16) });
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 200 }),
        fc.nat(whole.length),
        fc.constantFrom([], [...whole], [0xff, 0xd8, 0xff]),
        (noise, cut, head) => {
          const bytes = Uint8Array.from([...head.slice(0, cut), ...noise]);
          try {
            pictureFrom(bytes);
          } catch (error) {
            expect(error).toBeInstanceOf(Error);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});
