// What a picture of a symbol says beyond its text: a look for the maintenance team. It is never an ISO grade, and must not be called one.
import type { Corners, Decoded, Point } from "./decode.ts";

export type Gray = { width: number; height: number; gray: Uint8Array };
/** The modules as they were meant, 1 is dark. */
export type Intended = { modules: number; dark: Uint8Array };
export type SymbolCheck = {
  version: string;
  ec_level: string;
  /** Unused error correction, 0 to 1. A dead head element, or a print as pale as a tenth, can leave it at 1. */
  uec?: number;
  /** Mean reflectance of the light modules less that of the dark ones, 0 to 1, as this camera sees it. */
  contrast?: number;
  /** Modules that came out other than they were meant, and in which columns: all in one column is a dead head element near it. */
  module_errors?: number;
  modules?: number;
  errors_by_column?: { column: number; errors: number }[];
};

export function symbolCheck(symbol: Decoded, { picture, intended }: { picture?: Gray; intended?: Intended }): SymbolCheck {
  const contrast = picture && contrastOf(picture, symbol);
  return {
    version: symbol.version,
    ec_level: symbol.ecLevel,
    ...(symbol.uec === undefined ? {} : { uec: round(symbol.uec) }),
    ...(contrast === undefined ? {} : { contrast: round(contrast) }),
    ...(intended ? againstIntended(symbol, intended) : {}),
  };
}

/** Only where we drew the symbol ourselves: a printer's own QR code may have another mask. */
function againstIntended(symbol: Decoded, { modules, dark }: Intended): Partial<SymbolCheck> {
  if (symbol.isMirrored || symbol.modules !== modules || symbol.dark.length !== dark.length) return {};
  const byColumn = Array.from({ length: modules }, () => 0);
  for (let i = 0; i < dark.length; i += 1) if (symbol.dark[i] !== dark[i]) byColumn[i % modules] = (byColumn[i % modules] ?? 0) + 1;
  const errors_by_column = byColumn.map((errors, column) => ({ column, errors })).filter(({ errors }) => errors > 0);
  return { modules: modules * modules, module_errors: byColumn.reduce((sum, errors) => sum + errors, 0), errors_by_column };
}

/** Samples each module's middle; the quadrilateral is laid out bilinearly, which is near enough at a camera's slight tilt. */
function contrastOf({ width, height, gray }: Gray, { position, modules, dark }: Decoded): number | undefined {
  const sums = { dark: 0, light: 0 };
  const counts = { dark: 0, light: 0 };
  for (let i = 0; i < dark.length; i += 1) {
    const { x, y } = within(position, ((i % modules) + 0.5) / modules, (Math.floor(i / modules) + 0.5) / modules);
    const value = x >= 0 && y >= 0 && x < width && y < height ? gray[Math.floor(y) * width + Math.floor(x)] : undefined;
    if (value === undefined) continue;
    const kind = dark[i] ? "dark" : "light";
    sums[kind] += value;
    counts[kind] += 1;
  }
  if (counts.dark === 0 || counts.light === 0) return undefined;
  return Math.max(0, (sums.light / counts.light - sums.dark / counts.dark) / 255);
}

function within({ topLeft, topRight, bottomLeft, bottomRight }: Corners, u: number, v: number): Point {
  const along = (a: number, b: number, c: number, d: number) => (1 - v) * ((1 - u) * a + u * b) + v * ((1 - u) * c + u * d);
  return { x: along(topLeft.x, topRight.x, bottomLeft.x, bottomRight.x), y: along(topLeft.y, topRight.y, bottomLeft.y, bottomRight.y) };
}

const round = (value: number): number => Math.round(value * 1_000) / 1_000;
