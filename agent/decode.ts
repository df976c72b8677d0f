// The agent's eye: zxing reads what was drawn, and later what a camera sees, by the same rules; from its own file, never from a network.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { ReadResult } from "zxing-wasm/reader";
import { saying } from "#shared/sayings.ts";

/** RGBA, or one byte a dot. */
export type Image =
  | { width: number; height: number; data: Uint8Array | Uint8ClampedArray }
  | { width: number; height: number; gray: Uint8Array };
export type Point = { x: number; y: number };
export type Corners = { topLeft: Point; topRight: Point; bottomRight: Point; bottomLeft: Point };
export type Decoded = {
  text: string;
  bytes: Uint8Array;
  /** AIM identifier: `]Q1` is a QR code. */
  symbology: string;
  isMirrored: boolean;
  isInverted: boolean;
  position: Corners;
  version: string;
  ecLevel: string;
  /** Margin of unused error correction, 0 to 1. It says nothing of print quality: a dead head element leaves it at 1. */
  uec: number | undefined;
  /** The modules as sampled, row by row, 1 is dark; it has `modules` x `modules` of them where it is a square. */
  modules: number;
  dark: Uint8Array;
};
/** A QR code that is there and can't be read. */
type Damaged = { why: string; position: Corners };

const SYMBOLS_MAX = 8;
/** Four times a label of 10 x 15 cm at 300 dpi, and any camera that is used for codes. */
export const PIXELS_MAX = 16_777_216;
/** Matrix symbols, so that another one beside or instead of ours is seen; bars on a carton are none of our business. */
const FORMATS = ["QRCode", "MicroQRCode", "DataMatrix", "Aztec"] as const;

type Zxing = typeof import("zxing-wasm/reader");
let ready: Promise<Zxing> | undefined;

/** With the first picture (some 50 ms, once): a station without work does without it. */
async function load(): Promise<Zxing> {
  const zxing = await import("zxing-wasm/reader");
  const file = readFileSync(createRequire(import.meta.url).resolve("zxing-wasm/reader/zxing_reader.wasm"));
  const wasmBinary = file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength);
  await zxing.prepareZXingModule({ overrides: { wasmBinary }, fireImmediately: true }); // without the binary it would fetch one from a CDN
  return zxing;
}

/** Every symbol that can be read, in the picture or in the bytes of a PNG or JPEG file. */
export const decode = async (image: Image | Uint8Array): Promise<Decoded[]> => (await look(image)).symbols;

/** Also those that can't: half a neighbour in view is a reason to refuse, and so is a symbol with VOID printed over it. */
export async function look(image: Image | Uint8Array): Promise<{ symbols: Decoded[]; damaged: Damaged[]; decoder: string }> {
  ready ??= load().catch((error: unknown) => {
    ready = undefined; // too many files were open, say: the next picture tries anew
    throw error;
  });
  const zxing = await ready;
  const results = await zxing.readBarcodes(inputOf(image), {
    formats: [...FORMATS],
    tryInvert: false,
    returnErrors: true,
    maxNumberOfSymbols: SYMBOLS_MAX,
  });
  if (results.some(({ error }) => error.includes("load image"))) throw new Error(saying("not_a_picture"));
  const symbols = results.filter(({ isValid }) => isValid).map(decodedOf);
  // Only of QR codes: lettering looks like a broken DataMatrix in one frame of twenty.
  const damaged = results
    .filter(({ isValid, symbology }) => !isValid && symbology === "QRCode")
    .map(({ error, position }) => ({ why: error, position: cornersOf(position) }))
    .filter(({ position }) => !symbols.some((symbol) => overlap(symbol.position, position)));
  return { symbols, damaged, decoder: `zxing-wasm/${zxing.ZXING_WASM_VERSION}` };
}

/** A browser's ImageData, which the decoder takes. */
type Pixels = { width: number; height: number; data: Uint8ClampedArray<ArrayBuffer>; colorSpace: "srgb" };
function inputOf(image: Image | Uint8Array): Uint8Array | Pixels {
  if (image instanceof Uint8Array) return image;
  const { width, height } = image;
  const pixels = width * height;
  if (!Number.isInteger(pixels) || pixels <= 0 || pixels > PIXELS_MAX) throw new Error(`a picture of ${width} x ${height} can't be read`);
  const [given, each] = "gray" in image ? [image.gray, 1] : [image.data, 4];
  if (given.length !== pixels * each) throw new Error(`a picture of ${width} x ${height} has ${pixels * each} bytes, not ${given.length}`);
  if (each === 4) return { width, height, data: new Uint8ClampedArray(given), colorSpace: "srgb" };
  const data = new Uint8ClampedArray(pixels * 4).fill(255);
  for (let i = 0; i < pixels; i += 1) data.fill(given[i] ?? 0, i * 4, i * 4 + 3);
  return { width, height, data, colorSpace: "srgb" };
}

function decodedOf(result: ReadResult): Decoded {
  const { text, bytes, symbologyIdentifier, isMirrored, isInverted, position, symbol } = result;
  const {
    UEC,
    Version = "",
    ECLevel = "",
  } = JSON.parse(result.extra || "{}") as { UEC?: number; Version?: string | number; ECLevel?: string };
  return {
    text,
    bytes,
    symbology: symbologyIdentifier,
    isMirrored,
    isInverted,
    position: cornersOf(position),
    version: String(Version),
    ecLevel: ECLevel,
    uec: UEC,
    modules: symbol.width,
    dark: Uint8Array.from(symbol.data, (value) => (value === 0 ? 1 : 0)),
  };
}

const cornersOf = ({ topLeft, topRight, bottomRight, bottomLeft }: Corners): Corners => ({ topLeft, topRight, bottomRight, bottomLeft });

/** One symbol may be met twice, read once and not the other time. */
function overlap(a: Corners, b: Corners): boolean {
  const [one, other] = [boxOf(a), boxOf(b)];
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}
function boxOf(corners: Corners): { left: number; right: number; top: number; bottom: number } {
  const points = Object.values(corners);
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  return { left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
}
