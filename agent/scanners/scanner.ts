// What every scanner promises: it says what it saw, when and how; whether that moves a job is for scan-rules.ts to judge.
import type { Clock } from "../clock.ts";
import type { Decoded } from "../decode.ts";
import type { Link } from "../reconnecting.ts";
import type { Tag } from "../rfid.ts";
import type { SymbolCheck } from "../symbol-check.ts";

type Source = "serial" | "keyboard" | "camera";
export type Sighting = {
  scanner: string;
  source: Source;
  text: string;
  /** AIM identifier such as `]Q1`; `unknown` where the scanner doesn't send it. */
  symbology: string;
  decoder: string;
  scanned_at: string;
  /** Symbols in view, the unreadable ones included; 1 where only one can be told. */
  in_view: number;
  mirrored: boolean;
  inverted: boolean;
  /** Cameras: the frame, and when this scanner last saw no symbol at all. */
  image?: Uint8Array;
  image_sha256?: string;
  view_empty_at?: string;
  symbol?: Decoded;
  symbol_check?: SymbolCheck;
  simulated?: true;
};
/** Something came in that is no sighting: for the operator's eyes, it never moves a job. */
export type Trouble = { scanner: string; at: string; words: string; why?: "no_line_end" };

export type News = {
  sighting(sighting: Sighting): void;
  tag(tag: Tag): void;
  trouble(trouble: Trouble): void;
  /** Told once a change. */
  link(scanner: string, link: Link): void;
};
export type ScannerSettings = { name: string; port: string; simulated?: boolean };
export type Scanner = {
  name: string;
  link(): Link;
  end(): Promise<void>;
};
/** A kind of scanner: one is one file. */
export type ScannerDriver = {
  /** What it looks for. */
  sees: "symbols" | "tags";
  /** `wire`: bytes, which whoever else opens it takes away; `picture`: one is pulled from there; `none`: what it says comes in at the console. */
  port: "wire" | "picture" | "none";
  /** Throws a sentence where nothing of this kind can be at such a port. */
  checkPort(port: string): void;
  /** Throws a sentence where the settings are wrong; a device that is away is news, not an error. */
  open(settings: ScannerSettings, news: News, clock: Clock): Scanner;
};

export const simulatedOf = ({ simulated }: ScannerSettings): { simulated?: true } => (simulated ? { simulated: true } : {});
