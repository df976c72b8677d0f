// A label from its template: drawn once as dots, read back by a decoder, and only then allowed to become a manifest. Nothing is ever cut to fit.
import { Refusal } from "#shared/errors.ts";
import { decodeSgtin96, digitalLink } from "#shared/gs1.ts";
import type { Evidence } from "#shared/wire/evidence.ts";
import { saying } from "#shared/sayings.ts";
import { type Bitmap, blank, copyOf, digestOfDots, fill, frame, pictureOf } from "./bitmap.ts";
import { bwip } from "./bwip.ts";
import { decode } from "./decode.ts";
import { composed, drawText, inkOf, undrawable } from "./font.ts";
import type { Element, Template } from "./template.ts";

export type Dpi = 203 | 300 | 600;
export type LabelContent = {
  /** The Digital Link, byte for byte as the service gave it. */
  payload: string;
  gtin: string;
  serial: string;
  epc?: string;
  product?: string;
  /** Words the operator has to see: REPRINT, TRY 2. */
  marks?: string[];
};
export type LabelOptions = { template: Template; dpi: Dpi; simulated?: boolean };
/** `sha256` is of the bitmap's bytes alone, see bitmap.ts; `without`: what the label goes without, and why. */
type RenderManifest = Evidence["render_manifest"] & { without?: { product: string } };
/** Where the symbol lies and which modules are dark: what a scan can later be compared with, column by column. */
type PlacedSymbol = { x: number; y: number; moduleDots: number; modules: number; dark: Uint8Array };
export type Label = { bitmap: Bitmap; manifest: RenderManifest; symbol: PlacedSymbol };

const QUIET_MODULES = 4; // ISO/IEC 18004
const LINE_PITCH = 1.3; // of the ascender: room for what hangs below
const refuse = (why: string) => new Refusal("LABEL_REFUSED", why);

/** Deterministic: the same content, template and resolution give the same dots on every machine. */
export async function renderLabel(content: LabelContent, options: LabelOptions): Promise<Label> {
  checkIdentity(content);
  const { template, dpi, simulated = false } = options;
  const { bitmap, symbol } = drawLabel(content, options);
  await checkReadsBack(bitmap, content.payload);
  const manifest: RenderManifest = {
    format: "dots-1bit",
    renderer: `imprimatur-label/1 bwip-js/${bwip().BWIPJS_VERSION}`,
    template: template.name,
    width_dots: bitmap.widthDots,
    height_dots: bitmap.heightDots,
    dpi,
    payload: content.payload,
    sha256: digestOfDots(bitmap),
    ...(content.epc === undefined ? {} : { epc: content.epc }),
    ...(simulated ? { simulated: true } : {}),
  };
  return { bitmap, manifest, symbol };
}

/** Symbol, text and tag of one label have to name one item: a label that contradicts itself is the worst kind. */
function checkIdentity({ payload, gtin, serial, epc }: LabelContent): void {
  const path = digitalLink("", gtin, { serial });
  if (!payload.endsWith(path))
    throw refuse(`the link ${payload} doesn't name GTIN ${gtin} and serial ${serial}: it would end with ${path}`);
  if (epc === undefined) return;
  const named = decodeSgtin96(epc);
  if (named.gtin !== gtin || named.serial !== serial)
    throw refuse(`the EPC ${epc} names GTIN ${named.gtin} and serial ${named.serial}, not ${gtin} and ${serial}`);
}

/** The decoder has to find this one symbol and nothing else, the right way round. */
async function checkReadsBack(bitmap: Bitmap, payload: string): Promise<void> {
  const found = await decode(pictureOf(bitmap));
  const [symbol] = found;
  if (!symbol || found.length > 1) throw refuse(saying("no_single_symbol", { count: found.length }));
  if (symbol.text !== payload) throw refuse(`the label would read ${JSON.stringify(symbol.text)}, not ${JSON.stringify(payload)}`);
}

// --- drawing

type Area = { x: number; y: number; width: number; height: number };
type Canvas = { bitmap: Bitmap; dots(mm: number): number; mm(dots: number): string };

const canvasOf = (bitmap: Bitmap, dpi: Dpi): Canvas => ({
  bitmap,
  dots: (mm) => Math.round((mm * dpi) / 25.4),
  mm: (count) => ((count * 25.4) / dpi).toFixed(1),
});

/** Without the decoder's word: for previews only. */
export function drawLabel(content: LabelContent, options: LabelOptions): { bitmap: Bitmap; symbol: PlacedSymbol } {
  const { template, dpi } = options;
  const canvas = canvasOf(backgroundOf(options), dpi);
  let symbol: PlacedSymbol | undefined;
  for (const element of template.elements) {
    if (element.kind === "qr") symbol = drawSymbol(canvas, element, content.payload);
    if (element.kind === "text") drawField(canvas, element, textOf(element.text, content));
    if (element.kind === "marks" && content.marks?.length) drawBadge(canvas, element, content.marks.join(" "), true);
    if (element.kind === "rfid" && content.epc !== undefined) drawBadge(canvas, element, "RFID", true);
  }
  if (!symbol) throw new Error(`the template ${template.name} has no symbol`);
  return { bitmap: canvas.bitmap, symbol };
}

/** Why the label has to go without the product's name, which is for people and not its identity; nothing where the name can be drawn. */
export function productFault(content: LabelContent, { template, dpi }: LabelOptions): string | undefined {
  const canvas = canvasOf(blank(0, 0), dpi);
  try {
    for (const element of template.elements)
      if (element.kind === "text" && element.text.includes("{product}")) {
        const text = textOf(element.text, content);
        if (text !== undefined) firstFit(canvas, element.sizesMm, text, areaOf(canvas, element.box), element.lines ?? 1);
      }
    return undefined;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return error.message;
  }
}

const backgrounds = new WeakMap<Template, Map<string, Bitmap>>();

/** What is the same on every label of a template is drawn once. */
function backgroundOf({ template, dpi, simulated = false }: LabelOptions): Bitmap {
  const known = backgrounds.get(template) ?? new Map<string, Bitmap>();
  backgrounds.set(template, known);
  const key = `${dpi} ${simulated}`;
  const drawn = known.get(key) ?? drawBackground(template, dpi, simulated);
  known.set(key, drawn);
  return copyOf(drawn);
}
function drawBackground({ widthMm, heightMm, elements }: Template, dpi: Dpi, simulated: boolean): Bitmap {
  const { dots } = canvasOf(blank(0, 0), dpi);
  const canvas = canvasOf(blank(dots(widthMm), dots(heightMm)), dpi);
  if (simulated) for (const element of elements) if (element.kind === "simulated") drawBadge(canvas, element, "SIMULATED", false);
  return canvas.bitmap;
}

/** The text with its fields filled in; undefined where a field has nothing to say, and the line then stays away. */
function textOf(text: string, content: LabelContent): string | undefined {
  const values: Record<string, string | undefined> = { ...content, marks: undefined };
  const names = [...text.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name);
  if (names.some((name) => values[name] === undefined)) return undefined;
  return composed(text.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? ""));
}

function areaOf({ dots }: Canvas, [x, y, width, height]: Element["box"]): Area {
  return { x: dots(x), y: dots(y), width: dots(x + width) - dots(x), height: dots(y + height) - dots(y) };
}

function drawSymbol(canvas: Canvas, { box, level, moduleMinMm }: Extract<Element, { kind: "qr" }>, payload: string): PlacedSymbol {
  const area = areaOf(canvas, box);
  const { modules, dark } = modulesOf(payload, level);
  const across = modules + 2 * QUIET_MODULES;
  const moduleDots = Math.floor(Math.min(area.width, area.height) / across);
  const leastDots = Math.ceil(canvas.dots(moduleMinMm * 100) / 100 - 0.01); // 0.375 mm is 2.997 dots at 203 dpi: three
  if (moduleDots < leastDots) {
    const [needs, has] = [across * leastDots, Math.min(area.width, area.height)];
    const [over, module] = [canvas.mm(needs - has), moduleMinMm];
    throw refuse(saying("qr_too_large", { characters: payload.length, needs: canvas.mm(needs), module, has: canvas.mm(has), over }));
  }
  const x = area.x + Math.floor((area.width - modules * moduleDots) / 2);
  const y = area.y + Math.floor((area.height - modules * moduleDots) / 2);
  for (let i = 0; i < dark.length; i += 1)
    if (dark[i]) fill(canvas.bitmap, x + (i % modules) * moduleDots, y + Math.floor(i / modules) * moduleDots, moduleDots, moduleDots);
  return { x, y, moduleDots, modules, dark };
}

/** Without fixedeclevel it raises the level as room allows. Options as text, because an object would be changed by the call. */
function modulesOf(text: string, eclevel: string): { modules: number; dark: Uint8Array } {
  try {
    const [symbol] = bwip().raw("qrcode", text, `eclevel=${eclevel} fixedeclevel`);
    if (!symbol || !("pixs" in symbol)) throw new Error("it drew nothing");
    return { modules: symbol.pixx, dark: Uint8Array.from(symbol.pixs) };
  } catch (error) {
    throw refuse(`no QR code holds this link of ${text.length} characters: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function checkDrawable(text: string, sizeDots: number): void {
  const strange = undrawable(text, sizeDots);
  if (strange.length === 0) return;
  const named = strange
    .slice(0, 5)
    .map(
      (letter) =>
        `${/\p{M}|\p{C}/u.test(letter) ? "" : `${letter} `}U+${letter.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`,
    );
  throw refuse(saying("no_font", { text: JSON.stringify(text), named: `${named.join(", ")}${strange.length > 5 ? " …" : ""}` }));
}

type Fit = { sizeDots: number; lines: string[] };
type Misfit = { shortDots: number; of: "wide" | "high" };

/** At the largest of the template's sizes at which all of it stands in its box. */
function drawField(canvas: Canvas, { box, sizesMm, lines = 1 }: Extract<Element, { kind: "text" }>, text: string | undefined): void {
  if (text === undefined || text.trim() === "") return;
  const area = areaOf(canvas, box);
  const fit = firstFit(canvas, sizesMm, text, area, lines);
  const pitch = Math.ceil(fit.sizeDots * LINE_PITCH);
  for (const [i, line] of fit.lines.entries())
    drawText(canvas.bitmap, line, area.x - inkOf(line, fit.sizeDots).left, area.y + fit.sizeDots + i * pitch, fit.sizeDots);
}

function firstFit(canvas: Canvas, sizesMm: number[], text: string, area: Area, maxLines: number): Fit {
  checkDrawable(text, canvas.dots(sizesMm[0] ?? 0));
  let last: Misfit = { shortDots: 0, of: "wide" };
  for (const sizeMm of sizesMm) {
    const fit = fitAt(canvas.dots(sizeMm), text, area, maxLines);
    if ("lines" in fit) return fit;
    last = fit;
  }
  const room = `${canvas.mm(area.width)} x ${canvas.mm(area.height)} mm`;
  const said = { text: JSON.stringify(text), room, size: sizesMm.at(-1) ?? 0, over: canvas.mm(last.shortDots), of: saying(last.of) };
  throw refuse(saying("no_room", said));
}

function fitAt(sizeDots: number, text: string, area: Area, maxLines: number): Fit | Misfit {
  const widthOf = (line: string) => inkOf(line, sizeDots).right - inkOf(line, sizeDots).left;
  const lines: string[] = [];
  for (const word of text.split(/\s+/).filter((word) => word !== "")) {
    const longer = lines.length === 0 ? word : `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && (widthOf(longer) <= area.width || lines.length === maxLines)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const widest = Math.max(...lines.map(widthOf));
  if (widest > area.width) return { shortDots: widest - area.width, of: "wide" };
  const pitch = Math.ceil(sizeDots * LINE_PITCH);
  const inks = lines.map((line) => inkOf(line, sizeDots));
  // An accent on a capital may rise above the ascender, into the line before or out of the box.
  const above = Math.max(0, ...inks.map(({ above }) => above - sizeDots));
  const below = Math.max(0, ...inks.map(({ below }, i) => sizeDots + i * pitch + below - area.height));
  return above + below > 0 ? { shortDots: above + below, of: "high" } : { sizeDots, lines };
}

/** A word in a frame, in the middle of its box. */
function drawBadge(canvas: Canvas, { box, sizesMm }: Badge, given: string, black: boolean): void {
  const words = composed(given);
  const { x, y, width, height } = areaOf(canvas, box);
  const edge = Math.max(1, canvas.dots(0.25));
  const room = { width: width - 4 * edge, height: height - 4 * edge };
  checkDrawable(words, canvas.dots(sizesMm[0] ?? 0));
  const sizes = sizesMm.map(canvas.dots).map((sizeDots) => ({ sizeDots, ...inkOf(words, sizeDots) }));
  const fit = sizes.find((ink) => ink.right - ink.left <= room.width && ink.above + ink.below <= room.height);
  if (!fit) {
    const { left, right, above, below } = sizes.at(-1) ?? { left: 0, right: 0, above: 0, below: 0 };
    const wide = canvas.mm(Math.max(0, right - left - room.width));
    const high = canvas.mm(Math.max(0, above + below - room.height));
    throw refuse(saying("no_frame_room", { text: JSON.stringify(words), size: sizesMm.at(-1) ?? 0, wide, high }));
  }
  if (black) frame(canvas.bitmap, x, y, width, height, edge);
  else fill(canvas.bitmap, x, y, width, height);
  const from = x + Math.floor((width - fit.right + fit.left) / 2) - fit.left;
  const baseline = y + Math.floor((height + fit.above - fit.below) / 2);
  drawText(canvas.bitmap, words, from, baseline, fit.sizeDots, black);
}
type Badge = { box: Element["box"]; sizesMm: number[] };
