// What a print's evidence is worth, by the rules that the cloud heard it by: whoever keeps a cloud can put any digest into its log.
import { Value } from "typebox/value";
import { Refusal } from "#shared/errors.ts";
import { decodeSgtin96, digitalLink } from "#shared/gs1.ts";
import { picturesIn } from "#shared/pictures.ts";
import { grades } from "#shared/states.ts";
import { type Evidence, isSimulated } from "#shared/wire/evidence.ts";
import { BundleItem } from "#shared/wire/jobs.ts";
import { bundlePath, judge, type Label } from "../domain/evidence-rules.ts";
import { fails, holds, type Line, noted } from "./said.ts";

/** What stands in a file is quoted, and may have any length. */
const shown = (text: unknown): string => String(text).slice(0, 300);
const saidIn = (items: readonly BundleItem[]): Partial<Evidence> => Object.assign({}, ...items.map(({ evidence }) => evidence));

export function worthLines(items: readonly object[], isSealed: boolean): Line[] {
  const fault = orderFault(items, isSealed) ?? shapeFault(items);
  const faults = fault === undefined ? wordFaults(items as BundleItem[]) : [fault];
  const simulated = isSimulated(items) ? [noted("it is evidence of simulated devices: it shows no real label")] : [];
  if (faults.length > 0) return [...faults.map((one) => fails(`what its items say doesn't prove that label: ${one}`)), ...simulated];
  const told = items as BundleItem[];
  return [
    ...(isSealed ? [holds(`its items are what a sealed label takes: ${proofOf(told)}`)] : []),
    ...simulated,
    ...tagLines(told),
    ...pictureLines(told),
  ];
}

function orderFault(items: readonly object[], isSealed: boolean): string | undefined {
  const states = items.map((item) => (item as { status?: unknown }).status);
  const due: readonly unknown[] = isSealed ? bundlePath : bundlePath.slice(0, states.length);
  const isAsDue = states.length === due.length && states.every((state, i) => state === due[i]);
  return isAsDue ? undefined : `they have to be ${due.join(", ")}, and are ${shown(states.join(", ")) || "none"}`;
}

function shapeFault(items: readonly object[]): string | undefined {
  for (const item of items) {
    const [fault] = Value.Errors(BundleItem, item);
    if (fault) return `${(item as BundleItem).status}: ${shown(fault.instancePath.slice(1).replaceAll("/", ".") || "it")} ${fault.message}`;
  }
  return undefined;
}

/** The label is the one that its picture was drawn for. Its tag is told below: a manifest may name an EPC also where the job asked for no tag. */
function wordFaults(items: readonly BundleItem[]): string[] {
  const { render_manifest: manifest } = saidIn(items);
  const [link, epc] = [manifest?.payload, manifest?.epc].map((text) => (typeof text === "string" ? text : undefined));
  const label = { digitalLink: link ?? "", sgtin96Epc: epc?.toUpperCase() ?? null, needsTag: false };
  const refused = items.flatMap((item) => refusalOf(label, item) ?? []);
  return refused.length > 0 || epc === undefined ? refused : [epcFault(epc, label.digitalLink) ?? []].flat();
}

function refusalOf(label: Label, item: BundleItem): string | undefined {
  try {
    judge(label, item, item.actor ?? { kind: "device" }); // who attests as an operator has to be named
    return undefined;
  } catch (error) {
    if (error instanceof Refusal) return `${item.status}: ${shown(error.message)}`;
    throw error;
  }
}

function epcFault(epc: string, link: string): string | undefined {
  try {
    const { gtin, serial } = decodeSgtin96(epc);
    return link.endsWith(digitalLink("", gtin, { serial })) ? undefined : `the EPC ${epc} is of GTIN ${gtin}, serial ${serial}`;
  } catch (error) {
    return `the EPC: ${(error as Error).message}`;
  }
}

function proofOf(items: readonly BundleItem[]): string {
  const { completion, scan_result: scan } = saidIn(items);
  const tagged = strangeTag(items) === undefined ? scan?.rfid : undefined;
  const { actor } = items.find(({ status }) => status === "PRINTED_ATTESTED") ?? {};
  const word =
    actor?.kind === "operator"
      ? `the operator ${shown(actor.id)} says that paper came out`
      : `the device says that paper came out, grade ${completion && `${completion.grade} (${shown(completion.basis)}): ${grades[completion.grade].says}`}`;
  const tag = tagged ? `, and the tag as ${tagged.epc}` : "";
  return `${word}; its symbol was read as the label's, by ${scan?.source}${tag}`;
}

/** Rolls may have tags that nobody asked for; whether the job asked for one isn't part of what was sealed. */
function strangeTag(items: readonly BundleItem[]): string | undefined {
  const { render_manifest: manifest, scan_result: scan } = saidIn(items);
  const read = scan?.rfid?.epc;
  return read === undefined || epcFault(read, String(manifest?.payload)) === undefined ? undefined : read;
}

function tagLines(items: readonly BundleItem[]): Line[] {
  const read = strangeTag(items);
  return read === undefined ? [] : [noted(`the tag that was read, ${read}, isn't this label's: that is good where the job asked for none`)];
}

function pictureLines(items: readonly BundleItem[]): Line[] {
  const pictures = picturesIn(items);
  return pictures.length === 0
    ? []
    : [noted(`its pictures weren't looked at: GET /aidc/evidence/{sha256} has them, and their SHA-256 has to be ${pictures.join(", ")}`)];
}
