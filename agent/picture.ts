// A camera's file as pixels: how large it claims to be is asked before a byte of it is unpacked.
import { Buffer } from "node:buffer";
import { inflateSync } from "node:zlib";
import { PNG } from "pngjs";
import { codeOf } from "#shared/fault.ts";
import { saying } from "#shared/sayings.ts";
import { type Image, PIXELS_MAX } from "./decode.ts";
import type { Gray } from "./symbol-check.ts";

const PNG_SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");

/** What the decoder takes, and the brightness where it can be had (a JPEG is unpacked by the decoder alone). Throws a sentence. */
export function pictureFrom(file: Uint8Array): { image: Image | Uint8Array; gray?: Gray } {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const { width, height, kind } = sizeOf(bytes);
  if (width * height > PIXELS_MAX || width * height === 0 || Math.max(width, height) > SIDE_MAX)
    throw new Error(saying("picture_too_large", { width, height }));
  if (kind === "jpeg") return { image: file };
  const chunks = [...chunksIn(bytes)];
  // The library goes by the last of its headers, and what is asked here by the first.
  if (chunks.filter(({ name }) => name === "IHDR").length > 1) throw new Error("a picture with more than one header");
  if (bytes[INTERLACE_AT] !== 0 && !isWithin(chunks, (width + PASSES) * (height + PASSES) * PIXEL_MAX_BYTES))
    throw new Error(`a picture of ${width} x ${height} unpacks to more than that`);
  const { data } = unpacked(bytes);
  const gray = new Uint8Array(width * height);
  // On white, as a sheet would be: a transparent background is no black one.
  for (let i = 0; i < gray.length; i += 1) {
    const alpha = (data[i * 4 + 3] ?? 0) / 255;
    const light = 0.299 * (data[i * 4] ?? 0) + 0.587 * (data[i * 4 + 1] ?? 0) + 0.114 * (data[i * 4 + 2] ?? 0);
    gray[i] = Math.round(light * alpha + 255 * (1 - alpha));
  }
  return { image: { width, height, gray }, gray: { width, height, gray } };
}

/** The library tells of a file that ends in the middle in words about its own streams. */
function unpacked(bytes: Buffer): PNG {
  try {
    return PNG.sync.read(bytes);
  } catch (cause) {
    throw new Error(saying("picture_broken"), { cause });
  }
}

/** Rows of a dot each are unpacked one by one: of sixteen million in a file of 33 kB come two gigabytes, and nothing else is done meanwhile. */
const SIDE_MAX = 16_384;
const INTERLACE_AT = 28; // in the header
const PASSES = 7;
const PIXEL_MAX_BYTES = 8; // four channels of 16 bits; the byte that each row of a pass has for its filter is less than the pixels that are added around

type Chunk = { name: string; data: Buffer };
function* chunksIn(bytes: Buffer): Generator<Chunk> {
  for (let at = PNG_SIGNATURE.length; at + 8 <= bytes.length;) {
    const length = bytes.readUInt32BE(at);
    yield { name: bytes.toString("latin1", at + 4, at + 8), data: bytes.subarray(at + 8, at + 8 + length) };
    at += 12 + length;
  }
}
/** What is laid out in passes the library unpacks to its end, however much that is. */
function isWithin(chunks: Chunk[], mostBytes: number): boolean {
  const parts = chunks.filter(({ name }) => name === "IDAT").map(({ data }) => data);
  try {
    inflateSync(Buffer.concat(parts), { maxOutputLength: mostBytes });
    return true;
  } catch (error) {
    if (codeOf(error) === "ERR_BUFFER_TOO_LARGE") return false;
    throw new Error(saying("picture_broken"), { cause: error });
  }
}

function sizeOf(bytes: Buffer): { kind: "png" | "jpeg"; width: number; height: number } {
  if (bytes.length >= 24 && bytes.subarray(0, 8).equals(PNG_SIGNATURE))
    return { kind: "png", width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  if (bytes[0] === 0xff && bytes[1] === 0xd8) {
    // Segment after segment until the frame header (SOF0 to SOF15 but for three that are something else).
    for (let at = 2; at + 9 < bytes.length && bytes[at] === 0xff; at += 2 + bytes.readUInt16BE(at + 2)) {
      while (bytes[at + 1] === 0xff && at + 10 < bytes.length) at += 1; // as many as one likes may stand before a marker
      const marker = bytes[at + 1] ?? 0;
      if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker))
        return { kind: "jpeg", height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) };
    }
  }
  throw new Error(saying("not_a_picture"));
}
