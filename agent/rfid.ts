// Tags: the EPC has to name the job's item before anything is printed, and the tag that is read back has to carry it.
import { Refusal } from "#shared/errors.ts";
import { decodeSgtin96 } from "#shared/gs1.ts";
import { saying } from "#shared/sayings.ts";
import type { Evidence } from "#shared/wire/evidence.ts";
import type { CompletionEvidence } from "./printers/driver.ts";

export type Tag = {
  reader: string;
  epc: string;
  /** The chip's own number: it ties a reading to one physical label. */
  tid?: string;
  read_at: string;
  simulated?: true;
};
/** As it is kept until its label is scanned. */
export type HeardTag = NonNullable<Evidence["scan_result"]["rfid"]>;

/** What the printer read back of the tag that it wrote. */
export const tagIn = ({ epc, tid, simulated }: CompletionEvidence): { rfid?: HeardTag } =>
  epc === undefined ? {} : { rfid: { epc, ...(tid === undefined ? {} : { tid }), reader: "printer", ...(simulated ? { simulated } : {}) } };

/** The EPC that goes onto the tag; refuses where the envelope has none or one that names another item. */
export function epcFor({ gtin, serial, sgtin96_epc: epc }: { gtin: string; serial: string; sgtin96_epc: string | null }): string {
  if (!epc) throw new Refusal("EPC_UNAVAILABLE", saying("no_epc", { gtin, serial }));
  const named = decodeSgtin96(epc);
  if (named.gtin === gtin && named.serial === serial) return epc.toUpperCase();
  throw new Refusal(
    "EPC_UNAVAILABLE",
    `the EPC ${epc} names ${named.gtin}, serial ${named.serial}; the job is for ${gtin}, serial ${serial}`,
  );
}

/** Readings this close together are of one field of view. */
export const FIELD_MS = 2_000;

type TagVerdict = { good: true; evidence: HeardTag } | { good: false; why: TagFault; words: string };
type TagFault = "other_epc" | "before_print" | "two_tags" | "used_tag" | "other_chip";

type TagContext = {
  /** When this attempt's label was handed to the printer. */
  submittedAt: string;
  /** What the independent readers read lately, this tag or not. */
  recent: readonly Tag[];
  /** The chip that the printer says it wrote. */
  printerTid?: string;
  /** Chips of labels that other attempts ended with, by TID. */
  usedTids?: ReadonlySet<string>;
};

/**
 * Judges a reading by an independent reader. Only such a one can show that the printer wrote to the neighbour's inlay:
 * the printer reads the wrong tag back as well and agrees with itself.
 */
export function judgeTag(epc: string, tag: Tag, { submittedAt, recent, printerTid, usedTids }: TagContext): TagVerdict {
  const bad = (why: TagFault, words: string): TagVerdict => ({ good: false, why, words });
  const at = Date.parse(tag.read_at);
  if (at < Date.parse(submittedAt)) return bad("before_print", saying("tag_too_early"));
  const others = recent.filter((other) => Math.abs(Date.parse(other.read_at) - at) <= FIELD_MS && !isSameTag(other, tag));
  if (others.length > 0) return bad("two_tags", saying("two_tags"));
  if (tag.epc !== epc.toUpperCase()) return bad("other_epc", saying("other_epc", { read: tag.epc, epc, item: itemOf(tag.epc) }));
  if (tag.tid !== undefined && usedTids?.has(tag.tid)) return bad("used_tag", saying("used_tag", { tid: tag.tid }));
  if (tag.tid !== undefined && printerTid !== undefined && tag.tid !== printerTid.toUpperCase())
    return bad("other_chip", saying("other_chip", { chip: printerTid, other: tag.tid }));
  return { good: true, evidence: { epc: tag.epc, ...(tag.tid === undefined ? {} : { tid: tag.tid }), reader: "independent" } };
}

/** Two chips with one EPC are two tags; a reading without its TID can't be told from another of the same EPC. */
const isSameTag = (a: Tag, b: Tag): boolean => a.epc === b.epc && (a.tid === undefined || b.tid === undefined || a.tid === b.tid);

function itemOf(epc: string): string {
  try {
    const { gtin, serial } = decodeSgtin96(epc);
    return `; it is that of ${gtin}, serial ${serial}`;
  } catch {
    return ""; // blank tags and other schemes name no item of ours
  }
}
