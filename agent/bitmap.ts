// The label as dots: one bit each, 1 is black, rows from the top padded to whole bytes, the leftmost dot the highest bit.
import { Buffer } from "node:buffer";
import { hash } from "node:crypto";
import { PNG } from "pngjs";

export type Bitmap = { widthDots: number; heightDots: number; rowBytes: number; bytes: Uint8Array };
export type Picture = { width: number; height: number; data: Uint8ClampedArray<ArrayBuffer> };

export function blank(widthDots: number, heightDots: number): Bitmap {
  const rowBytes = Math.ceil(widthDots / 8);
  return { widthDots, heightDots, rowBytes, bytes: new Uint8Array(rowBytes * heightDots) };
}
export const copyOf = (bitmap: Bitmap): Bitmap => ({ ...bitmap, bytes: bitmap.bytes.slice() });

export const isBlack = ({ rowBytes, bytes }: Bitmap, x: number, y: number): boolean =>
  (((bytes[y * rowBytes + (x >> 3)] ?? 0) >> (7 - (x & 7))) & 1) === 1;

/** Outside is not a place: a dot that doesn't exist is a fault of whoever draws, and would be a cut label. */
export function setDot({ widthDots, heightDots, rowBytes, bytes }: Bitmap, x: number, y: number, black = true): void {
  if (x < 0 || y < 0 || x >= widthDots || y >= heightDots)
    throw new RangeError(`the dot ${x},${y} lies outside ${widthDots} x ${heightDots}`);
  const at = y * rowBytes + (x >> 3);
  const bit = 0x80 >> (x & 7);
  bytes[at] = black ? (bytes[at] ?? 0) | bit : (bytes[at] ?? 0) & ~bit;
}

export function fill(bitmap: Bitmap, x: number, y: number, width: number, height: number, black = true): void {
  for (let row = y; row < y + height; row += 1) for (let column = x; column < x + width; column += 1) setDot(bitmap, column, row, black);
}

/** A frame that lies inside the box, `thick` dots wide. */
export function frame(bitmap: Bitmap, x: number, y: number, width: number, height: number, thick: number): void {
  fill(bitmap, x, y, width, thick);
  fill(bitmap, x, y + height - thick, width, thick);
  fill(bitmap, x, y, thick, height);
  fill(bitmap, x + width - thick, y, thick, height);
}

/** SHA-256 of exactly `bytes`: no header, rows as described above. Width and height stand beside it in every manifest. */
export const digestOfDots = ({ bytes }: Bitmap): string => hash("sha256", bytes, "hex");

/** What a camera with perfect eyes would see, for decoders. */
export function pictureOf(bitmap: Bitmap): Picture {
  const { widthDots: width, heightDots: height, rowBytes, bytes } = bitmap;
  const pixels = new Uint32Array(width * height).fill(0xff_ff_ff_ff);
  for (let y = 0; y < height; y += 1)
    for (let i = 0; i < rowBytes; i += 1) {
      const byte = bytes[y * rowBytes + i] ?? 0;
      for (let bit = 0; byte << bit && bit < 8; bit += 1)
        if ((byte << bit) & 0x80 && i * 8 + bit < width) pixels[y * width + i * 8 + bit] = OPAQUE_BLACK;
    }
  return { width, height, data: new Uint8ClampedArray(pixels.buffer) };
}
const OPAQUE_BLACK = new Uint32Array(new Uint8Array([0, 0, 0, 255]).buffer)[0] ?? 0; // whichever way round this machine stores it

export function pngOf(bitmap: Bitmap): Buffer {
  const { width, height, data } = pictureOf(bitmap);
  const png = new PNG({ width, height });
  png.data = Buffer.alloc(width * height);
  for (let i = 0; i < png.data.length; i += 1) png.data[i] = data[i * 4] ?? 0;
  return PNG.sync.write(png, { colorType: 0, inputColorType: 0, inputHasAlpha: false, filterType: 0 }); // gray as it is: to turn colours into it took more than all the rest
}
