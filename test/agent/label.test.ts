// A label is drawn to the dot, reads back as what it should be, and is refused where anything of it would be missing.
import { hash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as fc from "fast-check";
import { PNG } from "pngjs";
import { describe, expect, test } from "vitest";
import { digitalLink, encodeSgtin96 } from "#shared/gs1.ts";
import { templateDigest } from "#shared/templates.ts";
import { blank, digestOfDots, isBlack, pictureOf, pngOf, setDot } from "../../agent/bitmap.ts";
import { decode } from "../../agent/decode.ts";
import { addFace } from "../../agent/font.ts";
import { type Dpi, drawLabel, type LabelContent, productFault, renderLabel } from "../../agent/label.ts";
import { digestOf } from "#shared/canonical.ts";
import { drawingOf, optionsFor } from "../../agent/drawing.ts";
import { loadTemplates, type Template, templateFor } from "../../agent/template.ts";
import { freshFolder } from "../endings.ts";

const templates = loadTemplates();
const template = templateFor(templates, { widthMm: 50, heightMm: 25 });
const GTIN = "09506000134352";
const SERIAL = "123456789012";
const PAYLOAD = `https://id.example.com/01/${GTIN}/21/${SERIAL}`;
const EPC = encodeSgtin96({ gtin: GTIN, serial: SERIAL, companyPrefixLength: 7, filter: 1 });
const content: LabelContent = { payload: PAYLOAD, gtin: GTIN, serial: SERIAL, product: "Wärmepumpe 12 kW" };
const render = (more: Partial<LabelContent> = {}, options: { template?: Template; dpi?: Dpi; simulated?: boolean } = {}) =>
  renderLabel({ ...content, ...more }, { template, dpi: 203, ...options });
const refusal = (message: RegExp) => expect.objectContaining({ code: "LABEL_REFUSED", message: expect.stringMatching(message) });

describe("a label", () => {
  test.each(templates.flatMap((template) => ([203, 300, 600] as const).map((dpi) => ({ template, dpi, name: template.name }))))(
    "of $name at $dpi dpi reads back as its payload, with four clear modules around the symbol",
    async ({ template, dpi }) => {
      const { bitmap, manifest, symbol } = await render({ epc: EPC, marks: ["REPRINT"] }, { template, dpi, simulated: true });
      expect([bitmap.widthDots, bitmap.heightDots]).toEqual(
        [template.widthMm, template.heightMm].map((mm) => Math.round((mm * dpi) / 25.4)),
      );
      expect((await decode(pictureOf(bitmap))).map(({ text }) => text)).toEqual([PAYLOAD]);
      expect((symbol.moduleDots * 25.4) / dpi).toBeGreaterThan(0.37);
      const quiet = 4 * symbol.moduleDots;
      const across = symbol.modules * symbol.moduleDots;
      for (let y = symbol.y - quiet; y < symbol.y + across + quiet; y += 1)
        for (let x = symbol.x - quiet; x < symbol.x + across + quiet; x += 1) {
          const inside = x >= symbol.x && y >= symbol.y && x < symbol.x + across && y < symbol.y + across;
          const module = Math.floor((y - symbol.y) / symbol.moduleDots) * symbol.modules + Math.floor((x - symbol.x) / symbol.moduleDots);
          if (isBlack(bitmap, x, y) !== (inside && symbol.dark[module] === 1))
            throw new Error(`the dot ${x},${y} isn't as the symbol has it`);
        }
      expect(manifest).toMatchObject({ template: template.name, dpi, payload: PAYLOAD, epc: EPC, simulated: true });
    },
  );

  test("has a manifest that anybody can check against the dots, and the same dots every time", async () => {
    const [one, other] = [await render(), await render()];
    expect(one.manifest).toEqual({
      format: "dots-1bit",
      renderer: expect.stringMatching(/^imprimatur-label\/1 bwip-js\/4\./),
      template: "qr-50x25",
      width_dots: 400,
      height_dots: 200,
      dpi: 203,
      payload: PAYLOAD,
      sha256: digestOfDots(one.bitmap),
    });
    expect(other.manifest).toEqual(one.manifest);
    expect((await render({ product: "Wärmepumpe 13 kW" })).manifest.sha256).not.toBe(one.manifest.sha256);
    // Integers and IEEE arithmetic all the way: the same on every machine, for this version of the symbol library.
    expect(one.manifest.sha256).toBe("6dbd682a4d184b78217e2f8030fc03c60479e1644a76a46ef4ba49ed12ca4350");
  });

  test("has the digest that its picture's dots give, counted as the README says, where a row doesn't fill its last byte too", async () => {
    const { bitmap, manifest } = await render({}, { dpi: 300 });
    const { width, height, data } = PNG.sync.read(pngOf(bitmap));
    const dots = (y: number) =>
      Array.from({ length: Math.ceil(width / 8) * 8 }, (_, x) => (x < width && data[4 * (y * width + x)] === 0 ? 1 : 0));
    const rows = Array.from({ length: height }, (_, y) => dots(y).join(""));
    const bytes = Uint8Array.from(rows.join("").match(/.{8}/g) ?? [], (bits) => Number.parseInt(bits, 2));
    expect([width % 8 > 0, hash("sha256", bytes, "hex")]).toEqual([true, manifest.sha256]);
  });

  test("keeps the error correction that its template asks for", async () => {
    const symbols = await decode(pictureOf((await render()).bitmap));
    expect(symbols).toMatchObject([{ ecLevel: "M", version: "4" }]);
  });

  test("of a simulated printer says so in a place where a real one has nothing", async () => {
    const [real, simulated] = [await render(), await render({}, { simulated: true })];
    const box = template.elements.find(({ kind }) => kind === "simulated")?.box ?? [0, 0, 0, 0];
    const inkIn = ({ bitmap }: typeof real) => {
      let count = 0;
      const [x, y, width, height] = box.map((mm) => Math.round((mm * 203) / 25.4)) as [number, number, number, number];
      for (let row = y; row < y + height; row += 1)
        for (let column = x; column < x + width; column += 1) count += isBlack(bitmap, column, row) ? 1 : 0;
      return count / (width * height);
    };
    expect(inkIn(real)).toBe(0);
    expect(inkIn(simulated)).toBeGreaterThan(0.5);
    expect(real.manifest).not.toHaveProperty("simulated");
  });

  test("shows a tag, an EPC and marks only where there are any", async () => {
    const large = templateFor(templates, { widthMm: 100, heightMm: 50 });
    const digests = await Promise.all(
      [{}, { epc: EPC }, { marks: ["REPRINT"] }, { marks: [] }].map(
        async (more) => (await render(more, { template: large })).manifest.sha256,
      ),
    );
    expect(new Set(digests).size).toBe(3);
    expect(digests[3]).toBe(digests[0]);
  });

  test("draws Latin letters composed or not, and takes a font for what it lacks", async () => {
    expect((await render({ product: "Ångström".normalize("NFD") })).manifest.sha256).toBe(
      (await render({ product: "Ångström" })).manifest.sha256,
    );
    expect(() => addFace("/nowhere/font.ttf")).toThrow("the font /nowhere/font.ttf can't be read");
  });

  test.each([
    ["中文产品", /中 U\+4E2D, 文 U\+6587/],
    ["עברית", /no font of this station can draw/],
    ["emoji 🏭", /U\+1F3ED/],
    ["x̧̄ combined", /U\+0304/],
    ["zero\u200Bwidth", /U\+200B/],
    ["turned \u202Eround", /U\+202E/],
  ])("with %j is refused: what can't be drawn is named, not dropped", async (product, message) => {
    await expect(render({ product })).rejects.toEqual(refusal(message));
  });

  test.each([
    ["W".repeat(60), /doesn't fit into 24.0 x 7.4 mm even at 1.5 mm: \d+\.\d mm too wide/],
    ["word ".repeat(60), /doesn't fit .* mm too (wide|high)/],
  ])("with a product name that is too long is refused with how much is missing", async (product, message) => {
    await expect(render({ product })).rejects.toEqual(refusal(message));
  });

  test("with a link that makes the symbol too large is refused with how much is missing", async () => {
    const payload = `https://id.example.com/${"path/".repeat(40)}01/${GTIN}/21/${SERIAL}`;
    await expect(render({ payload })).rejects.toEqual(refusal(/needs \d+\.\d mm .* and has 23\.5 mm: \d+\.\d mm too large/));
    await expect(render({ payload: `https://${"a".repeat(5_000)}/01/${GTIN}/21/${SERIAL}` })).rejects.toEqual(refusal(/no QR code holds/));
  });

  test.each([
    [{ serial: "999" }, /doesn't name GTIN 09506000134352 and serial 999/],
    [{ payload: "" }, /doesn't name/],
    [{ epc: encodeSgtin96({ gtin: GTIN, serial: "7", companyPrefixLength: 7, filter: 1 }) }, /names GTIN 09506000134352 and serial 7, not/],
  ])("that contradicts itself is refused: %o", async (more, message) => {
    await expect(render(more)).rejects.toEqual(refusal(message));
  });

  test("carries every serial that a link can carry, whole", async () => {
    const serial = fc.stringMatching(/^[!"%&'()*+,\-./0-9:;<=>?A-Z_a-z]{1,20}$/).filter((text) => text !== "." && text !== "..");
    await fc.assert(
      fc.asyncProperty(serial, async (serial) => {
        const payload = digitalLink("https://id.example.com", GTIN, { serial });
        const { bitmap } = await renderLabel(
          { payload, gtin: GTIN, serial },
          { template: templateFor(templates, { widthMm: 100, heightMm: 50 }), dpi: 203 },
        );
        expect((await decode(pictureOf(bitmap)))[0]?.text).toBe(payload);
      }),
      { numRuns: 30 },
    );
  });
});

describe("a template", () => {
  const folderWith = (name: string, file: unknown) => {
    const folder = freshFolder("templates");
    writeFileSync(join(folder, name), JSON.stringify(file));
    return pathToFileURL(`${folder}/`);
  };
  const [qr, ...rest] = template.elements;

  test.each([
    ["x.json", template, /says that it is qr-50x25/],
    ["qr-50x25.json", { ...template, colour: "red" }, /additional properties/],
    ["qr-50x25.json", { ...template, elements: rest }, /one element of the kind qr/],
    ["qr-50x25.json", { ...template, elements: template.elements.filter(({ kind }) => kind !== "simulated") }, /of the kind simulated/],
    ["qr-50x25.json", { ...template, elements: [...template.elements, { kind: "rfid", box: [30, 5, 5, 5], sizesMm: [2] }] }, /overlap/],
    ["qr-50x25.json", { ...template, elements: [{ ...qr, box: [30, 0, 25, 25] }, ...rest] }, /beyond the label/],
  ])("that can't make a true label stops the start: %s %#", (name, file, message) => {
    expect(() => loadTemplates(folderWith(name, file))).toThrow(message);
  });

  test("is the largest that fits the label, unless it is named", () => {
    expect(templateFor(templates, { widthMm: 102, heightMm: 152 }).name).toBe("qr-100x50");
    expect(templateFor(templates, { widthMm: 50, heightMm: 30 }).name).toBe("qr-50x25");
    expect(templateFor(templates, { widthMm: 102, heightMm: 152 }, "qr-25x25").name).toBe("qr-25x25");
    expect(() => templateFor(templates, { widthMm: 20, heightMm: 10 })).toThrow(/no template fits a label of 20 x 10 mm/);
    expect(() => templateFor(templates, { widthMm: 50, heightMm: 25 }, "qr-100x50")).toThrow(/is 100 x 50 mm, the label 50 x 25 mm/);
    expect(() => templateFor(templates, { widthMm: 50, heightMm: 25 }, "none")).toThrow(/there is no template none; there are/);
    for (const each of templates) expect([each.name, templateDigest(each.name)]).toEqual([each.name, digestOf(each)]);
    const task = { template: "qr-50x25", template_sha256: "0".repeat(64) };
    const printer = { label: { widthMm: 50, heightMm: 25 }, dpi: 203, simulated: true };
    expect(() => optionsFor(templates, { task } as never, printer as never)).toThrow(/isn't the one that the envelope was signed for/);
  });
});

describe("a bitmap", () => {
  test("is the same as a PNG and as pixels, dot by dot, whatever its width", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 12 }),
        fc.infiniteStream(fc.boolean()),
        (width, height, coins) => {
          const dots = blank(width, height);
          const expected: boolean[] = [];
          for (let i = 0; i < width * height; i += 1) {
            const black = coins.next().value as boolean;
            expected.push(black);
            if (black) setDot(dots, i % width, Math.floor(i / width));
          }
          const png = PNG.sync.read(pngOf(dots));
          expect([png.width, png.height]).toEqual([width, height]);
          expect(expected.map((_, i) => png.data[i * 4] === 0)).toEqual(expected);
          expect(expected.map((_, i) => pictureOf(dots).data[i * 4] === 0)).toEqual(expected);
          expect(expected.map((_, i) => isBlack(dots, i % width, Math.floor(i / width)))).toEqual(expected);
        },
      ),
    );
  });

  test("has no dots outside itself", () => {
    for (const [x, y] of [
      [-1, 0],
      [0, -1],
      [8, 0],
      [0, 8],
    ] as const)
      expect(() => setDot(blank(8, 8), x, y)).toThrow(RangeError);
  });

  test("of a preview needs no decoder's word", () => {
    expect(drawLabel(content, { template, dpi: 203 }).symbol.modules).toBe(33);
  });
});

describe("what a label says beside its identity", () => {
  const printer = { label: { widthMm: 50, heightMm: 25 }, dpi: 203, simulated: true };
  const dotsOf = (more: object) => {
    const named = { gtin: GTIN, serial: SERIAL, digital_link: PAYLOAD, needs: ["qr"], template: "default", template_sha256: null };
    const task = { ...named, attempt: 1, product_name: "Kettle", reprint: false, ...more };
    return digestOfDots(drawingOf({ templates }, { task } as never, printer as never).bitmap);
  };

  test("is the product's name, REPRINT and the number of the try, each to be seen", () => {
    const variants = [
      {},
      { product_name: "Pot" },
      { product_name: null },
      { reprint: true },
      { attempt: 2 },
      { attempt: 2, reprint: true },
    ];
    expect(new Set(variants.map(dotsOf)).size).toBe(variants.length);
  });

  test.each(["x".repeat(200), "热水壶", "\u202Eelttek"])("is left off whole where it can't stand there: %s", (name) => {
    expect(dotsOf({ product_name: name })).toBe(dotsOf({ product_name: null }));
    const fault = productFault({ ...content, product: name }, { template, dpi: 203 });
    expect(fault).toMatch(/doesn't fit|no font of this station can draw/);
  });

  test.each(templates.map(({ name, widthMm, heightMm }) => [name, { widthMm, heightMm }] as const))(
    "fits on %s in every mark",
    (_name, label) => {
      for (const attempt of [1, 2, 10])
        for (const reprint of [true, false])
          expect(() =>
            drawingOf(
              { templates },
              {
                task: {
                  gtin: GTIN,
                  serial: SERIAL,
                  digital_link: PAYLOAD,
                  needs: ["qr"],
                  template: "default",
                  template_sha256: null,
                  attempt,
                  product_name: "Kettle",
                  reprint,
                },
              } as never,
              { ...printer, label } as never,
            ),
          ).not.toThrow();
    },
  );
});
