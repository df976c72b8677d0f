// Text as dots, glyph by glyph. What can't be drawn truly is named, never dropped, replaced or drawn in the wrong order.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { type Bitmap, setDot } from "./bitmap.ts";
import { bwip } from "./bwip.ts";

type Glyph = { left: number; top: number; width: number; height: number; advance: number; dots: Uint8Array };
type Face = { id: number; glyphs: Map<string, Glyph> };

// Inconsolata (SIL Open Font License) comes with the symbol library: Latin with its diacritics, and one width for every glyph.
const BUILT_IN = join(dirname(createRequire(import.meta.url).resolve("bwip-js")), "../fonts/Inconsolata.otf");
const INK = 128; // of 255: how much of a dot the outline must cover for it to be burnt
const faces: Face[] = [];

/** A station adds a TrueType or OpenType file for scripts that the built-in face lacks; the first face that has a glyph draws it. */
export function addFace(file: string): void {
  if (file !== BUILT_IN && faces.length === 0) addFace(BUILT_IN);
  const name = `face-${faces.length}`;
  try {
    bwip().loadFont(name, readFileSync(file));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Error(`the font ${file} can't be read: ${code ? message : "it isn't a TrueType or OpenType file"}: see fonts`, {
      cause: error,
    });
  }
  faces.push({ id: bwip().FontLib.lookup(name), glyphs: new Map() });
}

function glyphOf(letter: string, sizeDots: number): Glyph | undefined {
  if (faces.length === 0) addFace(BUILT_IN);
  for (const face of faces) {
    const key = `${sizeDots} ${letter}`;
    const glyph = face.glyphs.get(key) ?? drawn(face.id, letter, sizeDots);
    if (!glyph) continue;
    face.glyphs.set(key, glyph);
    return glyph;
  }
  return undefined;
}

function drawn(face: number, letter: string, sizeDots: number): Glyph | undefined {
  const { glyph, left, top, width, height, advance, pixels } = bwip().FontLib.getglyph(
    face,
    letter.codePointAt(0) ?? 0,
    sizeDots,
    sizeDots,
  );
  if (glyph === 0) return undefined; // the font's own mark for "I don't have this one"
  return { left, top, width, height, advance, dots: Uint8Array.from(pixels ?? [], (ink) => (ink >= INK ? 1 : 0)) };
}

// Letters here stand side by side, left to right. Marks that combine and scripts that join or run the other way need a layout engine.
const NEEDS_LAYOUT =
  /[\p{M}\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}]|[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Mongolian}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}]/u;

/** The form that is drawn: composed, so that a letter and its accent are one glyph where the font has it. */
export const composed = (text: string): string => text.normalize("NFC");

/** The characters of a text that no face can draw truly, each once. */
export const undrawable = (text: string, sizeDots: number): string[] => [
  ...new Set(Array.from(text).filter((letter) => NEEDS_LAYOUT.test(letter) || glyphOf(letter, sizeDots) === undefined)),
];

type Placed = { glyph: Glyph; x: number };
function placed(text: string, sizeDots: number): Placed[] {
  let x = 0;
  return Array.from(text).map((letter) => {
    const glyph = glyphOf(letter, sizeDots);
    if (!glyph) throw new Error(`no face has a glyph for ${letter}`);
    const at = x + glyph.left;
    x += glyph.advance;
    return { glyph, x: at };
  });
}

/** The box that the ink of one line fills, around the left end of its baseline; letters may reach beyond what they advance. */
type Ink = { left: number; right: number; above: number; below: number };
export function inkOf(text: string, sizeDots: number): Ink {
  const ink = { left: 0, right: 0, above: 0, below: 0 };
  for (const { glyph, x } of placed(text, sizeDots)) {
    ink.left = Math.min(ink.left, x);
    ink.right = Math.max(ink.right, x + glyph.width);
    ink.above = Math.max(ink.above, glyph.top);
    ink.below = Math.max(ink.below, glyph.height - glyph.top);
  }
  return ink;
}

/** Draws from the left end of the baseline; white ink for what stands on black. */
export function drawText(bitmap: Bitmap, text: string, x: number, baseline: number, sizeDots: number, black = true): void {
  for (const { glyph, x: offset } of placed(text, sizeDots))
    for (let i = 0; i < glyph.dots.length; i += 1)
      if (glyph.dots[i]) setDot(bitmap, x + offset + (i % glyph.width), baseline - glyph.top + Math.floor(i / glyph.width), black);
}
