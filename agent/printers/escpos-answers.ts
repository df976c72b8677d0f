// What an ESC/POS printer says back. Nothing is framed: a byte's fixed bits tell whose answer it is, and real-time ones may overtake the rest.
import type { Buffer } from "node:buffer";
import { saying } from "#shared/sayings.ts";
import type { Fault, FaultName } from "./driver.ts";

export type Answer =
  | { kind: "realtime"; bits: number } // DLE EOT n: doesn't say which n
  | { kind: "paper"; bits: number } // GS r
  | { kind: "unasked"; bytes: number[] } // automatic status back, four bytes
  | { kind: "done"; token: string } // GS ( H
  | { kind: "cleared" } // DLE DC4 8
  | { kind: "echo" }; // what was sent to it: no answer has this byte

const BLOCK = 0x37; // head of answers that end with NUL
const GS = 0x1d; // head of what is asked, and of rasters
const [XON, XOFF] = [0x11, 0x13];
const BLOCK_MAX_BYTES = 64;
const isRealtime = (byte: number) => (byte & 0b1001_0011) === 0b0001_0010;
const isUnasked = (byte: number) => (byte & 0b1001_0011) === 0b0001_0000;
const isPlain = (byte: number) => (byte & 0b1001_0000) === 0;

export function lexer(): (bytes: Buffer) => Answer[] {
  let block: number[] | undefined;
  let unasked: number[] = [];

  function take(byte: number): Answer | undefined {
    if (byte === XON || byte === XOFF) return undefined; // wherever they come
    if (block) {
      if (byte === 0) return blockEnd();
      block.push(byte);
      if (block.length > BLOCK_MAX_BYTES) block = undefined;
      return undefined;
    }
    if (byte === GS) return { kind: "echo" };
    if (byte === BLOCK) block = [];
    else if (isRealtime(byte)) return { kind: "realtime", bits: byte }; // also between the four bytes of an unasked status
    else if (isUnasked(byte)) unasked = [byte];
    else if (isPlain(byte) && unasked.length > 0) {
      unasked.push(byte);
      if (unasked.length < 4) return undefined;
      const bytes = unasked;
      unasked = [];
      return { kind: "unasked", bytes };
    } else if (isPlain(byte)) return { kind: "paper", bits: byte };
    return undefined; // whatever else
  }
  function blockEnd(): Answer | undefined {
    const [id, ...rest] = block ?? [];
    block = undefined;
    if (id === 0x22) return { kind: "done", token: String.fromCharCode(...rest) };
    return id === 0x25 ? { kind: "cleared" } : undefined;
  }
  return (bytes) => [...bytes].map(take).filter((answer) => answer !== undefined);
}

type Bit = [mask: number, name: FaultName, words: string];
/** By n of DLE EOT n. That it is offline is said beside the cause. */
const REALTIME: Record<1 | 2 | 3 | 4, Bit[]> = {
  1: [[0x08, "offline", saying("is_offline")]],
  2: [
    [0x04, "head-open", saying("cover_open")],
    [0x20, "media-out", saying("out_of_paper")],
    [0x40, "offline", saying("reports_error")],
  ],
  3: [
    [0x08, "cutter", saying("cutter")],
    [0x20, "other", saying("switch_off_and_on")],
    [0x40, "over-temperature", saying("hot_or_voltage")],
  ],
  4: [[0x60, "media-out", saying("out_of_paper")]],
};
const UNASKED: [byte: number, ...Bit][] = [
  [0, 0x20, "head-open", saying("cover_open")],
  [1, 0x08, "cutter", saying("cutter")],
  [1, 0x20, "other", saying("switch_off_and_on")],
  [2, 0x0c, "media-out", saying("out_of_paper")],
];
export const PAPER_LOW = 0x0c; // of DLE EOT 4
export const PAPER_END = 0x0c; // of GS r 1

export const realtimeFaults = (n: 1 | 2 | 3 | 4, bits: number): Fault[] =>
  REALTIME[n].filter(([mask]) => (bits & mask) !== 0).map(([, name, words]) => ({ name, words }));
export const unaskedFaults = (bytes: number[]): Fault[] =>
  UNASKED.filter(([at, mask]) => ((bytes[at] ?? 0) & mask) !== 0).map(([, , name, words]) => ({ name, words }));
