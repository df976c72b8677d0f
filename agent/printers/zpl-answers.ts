// What a ZPL printer says back, byte by byte as it comes: host status, error flags, variables, and the fields that a label sent home.
import type { Buffer } from "node:buffer";
import { saying } from "#shared/sayings.ts";
import type { Fault, FaultName } from "./driver.ts";

/** What a label sends home: its tag's EPC as it was read back, the number of the tag's chip (TID), or, where it has no tag, a field with its own token. */
export type FieldKind = "E" | "T" | "F";
export type Answer =
  | { kind: "hs"; line: 1 | 2; fields: string[] }
  | { kind: "hqes"; errors: bigint; warnings: bigint; hasErrors: boolean }
  | { kind: "identity"; words: string }
  | { kind: "sgd"; value: string }
  | { kind: "field"; token: string; what: FieldKind; value: string };

const FORMS = /\x02([^\x02\x03]*)\x03|"([^"\r\n\x02]+)"|\[([0-9A-F]{8})([EFT]):([^[\]\x02]*)\]/g; // oxlint-disable-line no-control-regex -- STX and ETX frame its answers
const LEFT_MAX_CHARACTERS = 4_096;

/** Takes bytes as they come, one or many at a time; what belongs to no answer is passed over. */
export function lexer(): (bytes: Buffer) => Answer[] {
  let text = "";
  return (bytes) => {
    text += bytes.toString("latin1");
    const answers: Answer[] = [];
    let end = 0;
    for (const match of text.matchAll(FORMS)) {
      end = match.index + match[0].length;
      const answer = answerIn(match);
      if (answer) answers.push(answer);
    }
    text = text.slice(end).slice(-LEFT_MAX_CHARACTERS);
    return answers;
  };
}

function answerIn([, framed, quoted, token = "", what, value = ""]: RegExpMatchArray): Answer | undefined {
  if (framed !== undefined) return framedAnswer(framed);
  if (quoted !== undefined) return { kind: "sgd", value: quoted };
  if (what === "F" && value.replaceAll("\0", "").trim() !== token) return undefined; // the label's own field, and not only what stands around it
  return { kind: "field", token, what: what as FieldKind, value };
}

function framedAnswer(text: string): Answer | undefined {
  const groups = [...text.matchAll(/(ERRORS|WARNINGS):\s*(\d)\s+([0-9A-F]{8})\s+([0-9A-F]{8})/gi)];
  const [errors, warnings] = ["ERRORS", "WARNINGS"].map((name) => groups.find(([, given]) => given?.toUpperCase() === name));
  if (errors) {
    const bits = (group?: RegExpMatchArray) => BigInt(`0x${group?.[3] ?? "0"}${group?.[4] ?? "0"}`);
    return { kind: "hqes", errors: bits(errors), warnings: bits(warnings), hasErrors: errors[2] !== "0" };
  }
  const fields = text.split(",");
  if (fields.length === 12) return { kind: "hs", line: 1, fields };
  if (fields.length === 11) return { kind: "hs", line: 2, fields };
  return fields.length === 4 || fields.length === 5 ? { kind: "identity", words: text } : undefined; // the fifth: what it was fitted with
}

const ERROR_BITS: [bit: bigint, name: FaultName, words: string][] = [
  [0x1n, "media-out", saying("out_of_labels")],
  [0x2n, "ribbon-out", saying("out_of_ribbon")],
  [0x4n, "head-open", saying("head_open")],
  [0x8n, "cutter", saying("cutter")],
  [0x10n, "over-temperature", saying("head_hot")],
  [0x20n, "over-temperature", saying("motor_hot")],
  [0x40n, "head-element", saying("head_dead")],
  [0x80n, "head-element", saying("head_unknown")],
  [0x1000n, "jam", saying("jammed")],
  [0x4000n, "jam", saying("cant_feed")],
  [0x8000n, "jam", saying("path_blocked")],
  [0x1_0000n, "paused", saying("is_paused")],
];
const KNOWN_ERRORS = ERROR_BITS.reduce((all, [bit]) => all | bit, 0n);
const WARNING_BITS: [bit: bigint, words: string][] = [
  [0x2n, saying("clean_head")],
  [0x4n, saying("replace_head")],
  [0x8n, saying("labels_low")],
];

type ErrorFlags = Extract<Answer, { kind: "hqes" }>;
export function faultsOf({ errors, hasErrors }: ErrorFlags): Fault[] {
  const known = ERROR_BITS.filter(([bit]) => (errors & bit) !== 0n).map(([, name, words]) => ({ name, words }));
  // A bit that isn't in the table still says that something is wrong.
  const strange = (errors & ~KNOWN_ERRORS) !== 0n || (hasErrors && errors === 0n);
  return strange
    ? [...known, { name: "other", words: saying("reports_error_number", { number: errors.toString(16).toUpperCase() }) }]
    : known;
}

const HS_FLAGS: [line: 1 | 2, field: number, name: FaultName, words: string][] = [
  [1, 1, "media-out", saying("out_of_labels")],
  [1, 2, "paused", saying("is_paused")],
  [1, 5, "labels-waiting", saying("buffer_full")],
  [1, 10, "under-temperature", saying("head_cold")],
  [1, 11, "over-temperature", saying("head_hot")],
  [2, 2, "head-open", saying("head_open")],
  [2, 3, "ribbon-out", saying("out_of_ribbon")],
  [2, 7, "label-not-taken", saying("label_not_taken")],
];
const FORMATS_WAITING = 4; // field of line 1
const PARTIAL_FORMAT = 7;
const REMAINING = 8; // field of line 2

/** The lines of ~HS that came. */
export type HostStatus = Partial<Record<1 | 2, string[]>>;
export const flagsOf = (lines: HostStatus): Fault[] =>
  HS_FLAGS.filter(([line, field]) => lines[line]?.[field]?.trim() === "1").map(([, , name, words]) => ({ name, words }));
export const warningsOf = (flags: ErrorFlags | undefined): string[] =>
  WARNING_BITS.filter(([bit]) => flags && (flags.warnings & bit) !== 0n).map(([, words]) => words);

/** How many labels wait in it: formats that arrived whole, one that arrives, and the rest of a batch. */
export function waitingIn(lines: HostStatus): number | null {
  if (!lines[1]) return null;
  const waiting = Number(lines[1][FORMATS_WAITING]) + Number(lines[1][PARTIAL_FORMAT]) + Number(lines[2]?.[REMAINING] ?? 0);
  return Number.isNaN(waiting) ? null : waiting;
}

/** From ~HI: model, firmware, dots a millimetre, memory, and where it has any its options. */
const DPI: Record<string, number> = { "6": 152, "8": 203, "12": 300, "24": 600 };
export const resolutionIn = (identity = ""): number | undefined => DPI[identity.split(",")[2]?.trim() ?? ""];

/** Its class identifier is E0 to E2; a printer that only reads EPCs answers with one. */
export const tidIn = (value = ""): string | undefined => /^E[0-2][0-9A-F]{6,}$/i.exec(value.trim())?.[0].toUpperCase();
