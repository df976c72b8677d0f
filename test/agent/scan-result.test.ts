// From the printed dots through a lens to the evidence: the label that we drew is the one that the camera finds, and its faults are told.
import { describe, expect, onTestFinished, test } from "vitest";
import { type Bitmap, blank, isBlack, pngOf, setDot } from "../../agent/bitmap.ts";
import { renderLabel } from "../../agent/label.ts";
import { scanResultOf } from "../../agent/scan-result.ts";
import { judgeScan } from "../../agent/scan-rules.ts";
import { openScanner } from "../../agent/scanners/index.ts";
import type { Sighting } from "../../agent/scanners/scanner.ts";
import { loadTemplates, templateFor } from "../../agent/template.ts";
import { startCamera } from "../../fixtures/scanners/camera.ts";

const [gtin, serial] = ["09506000134352", "123456789012"];
const digital_link = `https://id.example.com/01/${gtin}/21/${serial}`;
const template = templateFor(loadTemplates(), { widthMm: 50, heightMm: 25 });
const drawn = () => renderLabel({ payload: digital_link, gtin, serial, product: "Wärmepumpe" }, { template, dpi: 203, simulated: true });

/** The first sighting of a camera that looks at these dots. */
async function seenBy(dots: Bitmap): Promise<Sighting> {
  const camera = await startCamera({ shows: () => pngOf(dots) });
  onTestFinished(() => camera.end());
  const sightings: Sighting[] = [];
  const scanner = openScanner(
    { name: "eye", driver: "camera", port: camera.url, simulated: true },
    { sighting: (sighting) => void sightings.push(sighting), tag: () => {}, trouble: () => {}, link: () => {} },
  );
  onTestFinished(() => scanner.end());
  await expect.poll(() => sightings.length).toBeGreaterThan(0);
  return sightings[0] as Sighting;
}

describe("a label of ours in front of a camera", () => {
  test("moves its job, and the evidence says what was seen and by whom", async () => {
    const { bitmap, symbol } = await drawn();
    const sighting = await seenBy(bitmap);
    expect(judgeScan({ digital_link, gtin, serial }, sighting, { submittedAt: "2020-01-01T00:00:00.000Z", seen: [] })).toEqual({
      advance: true,
    });
    const rfid = { epc: "30364433400D1EDCBE991A14", tid: "E2801191A5030060", reader: "independent" } as const;
    expect(scanResultOf(sighting, { intended: symbol, rfid })).toEqual({
      decoded: digital_link,
      symbology: "]Q1",
      decoder: expect.stringMatching(/^zxing-wasm\/\d/),
      scanned_at: sighting.scanned_at,
      source: "camera",
      image_sha256: sighting.image_sha256,
      symbol_check: {
        version: "4",
        ec_level: symbol.modules === 33 ? "M" : expect.any(String),
        uec: expect.any(Number),
        contrast: expect.any(Number),
        module_errors: 0,
        modules: 1_089,
        errors_by_column: [],
      },
      rfid,
      simulated: true,
    });
  });

  test("with a dead head element still moves its job, and the evidence names the column", async () => {
    const { bitmap, symbol } = await drawn();
    const column = 20;
    const paper = blank(bitmap.widthDots, bitmap.heightDots);
    const dead = (x: number) => x >= symbol.x + column * symbol.moduleDots && x < symbol.x + (column + 1) * symbol.moduleDots;
    for (let y = 0; y < bitmap.heightDots; y += 1)
      for (let x = 0; x < bitmap.widthDots; x += 1) if (isBlack(bitmap, x, y) && !dead(x)) setDot(paper, x, y);
    const { symbol_check: check } = scanResultOf(await seenBy(paper), { intended: symbol });
    expect(check?.module_errors).toBeGreaterThan(5);
    expect(check?.errors_by_column?.map((error) => error.column)).toEqual([column]);
    expect(check?.uec).toBeLessThan(1);
  });

  test("what a line scanner says stays as little as it is", () => {
    const sighting: Sighting = {
      scanner: "fixed",
      source: "serial",
      text: digital_link,
      symbology: "unknown",
      decoder: "scanner fixed",
      scanned_at: "2026-11-21T12:00:00.000Z",
      in_view: 1,
      mirrored: false,
      inverted: false,
    };
    expect(scanResultOf(sighting)).toEqual({
      decoded: digital_link,
      symbology: "unknown",
      decoder: "scanner fixed",
      scanned_at: "2026-11-21T12:00:00.000Z",
      source: "serial",
    });
    expect(scanResultOf(sighting, { rfid: { epc: "00", reader: "independent", simulated: true } })).toMatchObject({
      simulated: true,
      rfid: { epc: "00", reader: "independent" },
    });
  });
});
