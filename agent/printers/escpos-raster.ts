// A label as a receipt printer's raster, with nothing in it that the printer would take for a command: it heeds real-time ones wherever they stand.
import { Buffer } from "node:buffer";
import thermal from "node-thermal-printer";
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import { type Bitmap, blank, isBlack, pngOf, setDot } from "../bitmap.ts";
import type { Profile } from "./driver.ts";

const WIDTH_MAX_DOTS = 2_040; // the encoder writes the width into one byte
const SHIFT_MAX_DOTS = 7;
const REALTIME = /\x10(?:\x04[\x01-\x08]|\x05[\x00-\x02]|\x14[\x01-\x08])/; // oxlint-disable-line no-control-regex -- DLE EOT, DLE ENQ, DLE DC4

/** The library only writes bytes down: it takes a resolved write for a printed label, so its own way out leads nowhere. */
const nowhere = {
  isPrinterConnected: async () => false,
  execute: async () => {
    throw new Error("labels leave through the agent's own port");
  },
};

/** The label and the cut; what asks for its end comes behind it. */
export async function rasterOf(bitmap: Bitmap, { setup = "", cut = true }: Pick<Profile, "setup" | "cut">): Promise<Buffer> {
  if (bitmap.widthDots > WIDTH_MAX_DOTS)
    throw new Refusal(
      "LABEL_REFUSED",
      saying("raster_too_wide", { dots: bitmap.widthDots, most: WIDTH_MAX_DOTS, over: bitmap.widthDots - WIDTH_MAX_DOTS }),
    );
  const encoder = new thermal.printer({ type: thermal.types.EPSON, interface: nowhere as unknown as string });
  encoder.add(Buffer.concat([Buffer.from([0x1b, 0x40]), Buffer.from(setup, "latin1")])); // ESC @
  await encoder.printImageBuffer(pngOf(withoutCommands(bitmap)));
  if (cut) encoder.partialCut();
  return Buffer.from(encoder.getBuffer());
}

/** Some dots to the side where that is what it takes (an eighth of a millimetre each), as far as its margins are blank. */
function withoutCommands(bitmap: Bitmap): Bitmap {
  for (let by = 0; by <= SHIFT_MAX_DOTS; by += 1)
    for (const shift of [by, -by]) {
      const moved = wholeBytes(bitmap, shift);
      if (moved && !REALTIME.test(Buffer.from(moved.bytes).toString("latin1"))) return moved;
    }
  return wholeBytes(bitmap, 0) ?? bitmap;
}
/** Its width is counted wrongly unless it is a multiple of eight. Undefined where a dot would fall off its edge. */
function wholeBytes(bitmap: Bitmap, shift: number): Bitmap | undefined {
  const { widthDots, heightDots } = bitmap;
  const whole = blank(bitmap.rowBytes * 8, heightDots % 256 === 0x10 ? heightDots + 1 : heightDots); // it is sent in two bytes, before the dots
  if (shift === 0) whole.bytes.set(bitmap.bytes);
  else
    for (let y = 0; y < heightDots; y += 1)
      for (let x = 0; x < widthDots; x += 1) {
        if (!isBlack(bitmap, x, y)) continue;
        if (x + shift < 0 || x + shift >= widthDots) return undefined;
        setDot(whole, x + shift, y);
      }
  return whole;
}
