// A log as files that never change (C2SP tlog-tiles): 256 hashes or entries in each, under names that any monitor of such logs knows.

export const TILE_WIDTH = 256;
/** Hashes of complete subtrees of 256 ** level leaves, or the entries themselves: number `n` of such, and how many of the 256 there are. */
export type Tile = { level: number | "entries"; n: number; width: number };

/** In groups of three digits, all but the last behind an x; what isn't full says how much there is of it. */
export function tileName({ n, width }: Omit<Tile, "level">): string {
  const digits = String(n);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, "0").match(/\d{3}/g) ?? [];
  return groups.map((group, i) => (i < groups.length - 1 ? `x${group}` : group)).join("/") + (width < TILE_WIDTH ? `.p/${width}` : "");
}

/** What a fitting name says; each tile has one name, so undefined for zeros that nobody would write. */
export function tileOf(level: string, name: string): Tile | undefined {
  const [number = "", width] = name.split(".p/");
  const tile = {
    level: level === "entries" ? level : Number(level),
    n: Number(number.replaceAll(/[x/]/g, "")),
    width: width === undefined ? TILE_WIDTH : Number(width),
  } as const;
  return tileName(tile) === name ? tile : undefined;
}

/** Each entry behind its length. */
export const bundled = (entries: readonly Buffer[]): Buffer =>
  Buffer.concat(
    entries.flatMap((entry) => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(entry.length);
      return [length, entry];
    }),
  );

/** Undefined for what was cut off. */
export function entriesIn(bundle: Buffer): Buffer[] | undefined {
  const entries: Buffer[] = [];
  for (let at = 0; at < bundle.length;) {
    const from = at + 2;
    if (from > bundle.length) return undefined;
    at = from + bundle.readUInt16BE(at);
    if (at > bundle.length) return undefined;
    entries.push(bundle.subarray(from, at));
  }
  return entries;
}
