// Whether a scan moves a job: the text has to be this job's, and the label that carries it the one that was just printed.
import { digitalLink, gtin14 } from "#shared/gs1.ts";
import type { Sighting } from "./scanners/scanner.ts";

type Expected = { digital_link: string; gtin: string; serial: string };
/** What was seen earlier, whatever became of it; kept for the attempt and for earlier attempts of the same job. */
export type Seen = Pick<Sighting, "scanner" | "text" | "scanned_at" | "image_sha256">;
export type ScanContext = {
  /** When this attempt's label was handed to the printer. */
  submittedAt: string;
  seen: readonly Seen[];
  /** When an operator last confirmed that earlier labels of this serial are destroyed. */
  destroyedAt?: string;
  /** What was scanned by then, or before, is of another label of the serial: this one wasn't out. */
  outFrom?: string;
};
type WhyNot =
  | "two_in_view"
  | "mirrored"
  | "inverted"
  | "other_symbology"
  | "keyboard_layout"
  | "no_line_end"
  | "not_a_link"
  | "other_gtin"
  | "other_serial"
  | "other_link"
  | "before_print"
  | "replay"
  | "old_label";
type ScanVerdict = { advance: true } | { advance: false; why: WhyNot; words: string };

const OURS = "]Q1"; // a QR code without FNC1 or ECI, which is what we print

/** First what the picture says, then what the text says, then when. */
export function judgeScan(expected: Expected, sighting: Sighting, context: ScanContext): ScanVerdict {
  const fault = viewFault(sighting) ?? textFault(expected, sighting.text, context) ?? timeFault(sighting, context);
  return fault ? { advance: false, ...fault } : { advance: true };
}
type Fault = { why: WhyNot; words: string };

function viewFault({ in_view, mirrored, inverted, symbology }: Sighting): Fault | undefined {
  if (in_view > 1) return { why: "two_in_view", words: "two labels in view: leave only the one that was just printed" };
  if (mirrored) return { why: "mirrored", words: "the symbol is mirrored: is it read through glass or from the back of the web?" };
  if (inverted) return { why: "inverted", words: "the symbol is light on dark; ours are dark on light" };
  if (symbology !== OURS && symbology !== "unknown")
    return { why: "other_symbology", words: `the scanner read another kind of symbol (${symbology}); the label's is a QR code (${OURS})` };
  return undefined;
}

function textFault({ digital_link, gtin, serial }: Expected, text: string, { seen }: ScanContext): Fault | undefined {
  if (text === digital_link) return undefined;
  if (/https?:.+https?:/i.test(text))
    return { why: "no_line_end", words: "two scans ran together: set the scanner to send CR or LF after each code" };
  const [item, meant] = [itemOf(text), itemOf(digital_link)];
  if (!item) {
    if (looksMistyped(text))
      return {
        why: "keyboard_layout",
        words: "this looks like a Digital Link typed with another keyboard layout: set the scanner to the layout of this computer",
      };
    return { why: "not_a_link", words: `${isAddress(text) ? shown(text) : "what was read"} is no Digital Link of an item` };
  }
  const again = seen.some((earlier) => earlier.text === text) ? "; this label has been here before" : "";
  if (item.gtin !== gtin14(gtin)) return { why: "other_gtin", words: `the label is of GTIN ${item.gtin}; the job's is ${gtin}${again}` };
  if (item.serial !== serial)
    return { why: "other_serial", words: `the label is of serial ${shown(item.serial)}; the job's is ${serial}${again}` };
  if (item.link !== meant?.link)
    return { why: "other_link", words: `${shown(text)} names the item, and isn't the link that the job has: ${digital_link}` };
  return undefined;
}

function timeFault({ scanner, source, text, scanned_at, image_sha256, view_empty_at }: Sighting, context: ScanContext): Fault | undefined {
  const { submittedAt, seen, destroyedAt, outFrom = "" } = context;
  const at = Date.parse(scanned_at);
  if (!(at >= Date.parse(submittedAt))) return { why: "before_print", words: "this was scanned before the label was printed" };
  if (image_sha256 !== undefined && seen.some((earlier) => earlier.image_sha256 === image_sha256))
    return { why: "replay", words: "the camera sent the very same picture before: is it frozen?" };
  if (seen.some((earlier) => earlier.scanner === scanner && Date.parse(earlier.scanned_at) > at))
    return { why: "replay", words: "the scanner sent this late: something newer came from it before" };
  const stillThere = seen.some((earlier) => {
    const then = Date.parse(earlier.scanned_at);
    if (!sameItem(earlier.text, text) || then >= Date.parse(submittedAt)) return false;
    if (destroyedAt !== undefined && then <= Date.parse(destroyedAt)) return false;
    const wentAway = source === "camera" && earlier.scanner === scanner && view_empty_at !== undefined && Date.parse(view_empty_at) > then;
    return !wentAway;
  });
  return stillThere || at <= Date.parse(outFrom)
    ? {
        why: "old_label",
        words: "a label with this serial was here before this one was printed: destroy it and confirm that, then scan the new one",
      }
    : undefined;
}

/** The item that a link names, and the link in its one spelling; undefined where it names none. The path is split before it is decoded. */
function itemOf(text: string): { link: string; gtin: string; serial: string } | undefined {
  // A URL's parser overlooks blanks and turns backslashes round; a label with such a thing on it isn't ours.
  if (!/^https?:\/\/[\x21-\x5b\x5d-\x7e]+$/i.test(text) || /[?#@]/.test(text) || !URL.canParse(text)) return undefined;
  const { origin, pathname } = new URL(text);
  const [, prefix = "", gtin = "", serial = ""] = /^(.*)\/01\/(\d{8}|\d{12,14})\/21\/([^/]+)\/?$/.exec(pathname) ?? [];
  if (!gtin) return undefined;
  try {
    const plain = decodeURIComponent(serial);
    return { link: digitalLink(origin + prefix, gtin, { serial: plain }), gtin: gtin14(gtin), serial: plain };
  } catch {
    return undefined; // a lone percent sign
  }
}
function sameItem(one: string, other: string): boolean {
  if (one === other) return true;
  const [a, b] = [itemOf(one), itemOf(other)];
  return a !== undefined && b !== undefined && a.gtin === b.gtin && a.serial === b.serial;
}

/** "http" as a scanner set to a US keyboard types it elsewhere: Latin layouts keep the letters and change the signs; Cyrillic, Greek, Hebrew, Dvorak. */
const MISTYPED_START = /^(?:https?(?!s|:\/\/)|реез|ηττπ|יאאפ|dyyl)/i;
const looksMistyped = (text: string): boolean => MISTYPED_START.test(text) && text.length > 20;

/** Anything else may be somebody's badge, which opens this station and perhaps the next: it stands on no screen and in no log. */
const isAddress = (text: string): boolean => /^https?:/i.test(text);
const shown = (text: string): string => JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text);
