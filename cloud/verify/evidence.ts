// From a file to sentences: which of the kinds it is, and all that can be said of it without asking anybody.
import { type TSchema, Type } from "typebox";
import { Value } from "typebox/value";
import { API } from "#shared/api.ts";
import { digestOf } from "#shared/canonical.ts";
import { openCredential } from "#shared/credential.ts";
import { parseNote } from "#shared/note.ts";
import { ErrorReply } from "#shared/wire/common.ts";
import { LogConsistency, LogProof } from "#shared/wire/log.ts";
import { Receipt } from "#shared/wire/trust.ts";
import { credentialLines, isStatusList } from "./credential.ts";
import { readJson } from "./json.ts";
import { type Ring, ringFrom } from "./keys.ts";
import { worthLines } from "./worth.ts";
import { checkpointLine, headLine, inclusionLines, knownNote, sameLogLine } from "./log.ts";
import { fails, holds, type Line, noted, unclear } from "./said.ts";

export type Given = {
  now: number;
  keys: Ring | undefined;
  checkpoint: string | undefined;
  consistency: unknown;
  /** For a credential that comes without one. */
  proof: unknown;
  /** Later than the file's own, where that has one. */
  statusList: string | undefined;
};

const PassportFile = Type.Object({
  credential: Type.String(),
  proof: Type.Optional(LogProof),
  receipt: Type.Optional(Type.Union([Receipt, Type.Null()])),
  statusList: Type.Optional(Type.String()),
  didDocument: Type.Optional(Type.Object({ id: Type.String() })),
});
const PrintFile = Type.Object({
  attempt_id: Type.String(),
  items: Type.Array(Type.Object({ status: Type.String() })),
  sha256: Type.String(),
  proof: Type.Union([LogProof, Type.Null()]),
  fault: Type.Optional(Type.String()),
});

export async function linesOf(text: string, given: Given): Promise<Line[]> {
  const isCredential = /^[\w-]+\.[\w-]*\.[\w-]*$/.test(text);
  const more = {
    ...(given.proof === undefined ? {} : { proof: given.proof }),
    ...(given.statusList === undefined ? {} : { statusList: given.statusList }),
  };
  const sent: { proof?: unknown; statusList?: unknown } = isCredential ? { credential: text } : parsed(text);
  const file = { ...sent, ...more };
  const has = (...names: string[]) => names.every((name) => Object.hasOwn(file, name));
  const isPrint = has("items", "sha256");
  const isProof = has("entry", "checkpoint");
  if ([isPrint, isProof, has("credential")].filter(Boolean).length > 1)
    throw new Error("the file is several things at once, each judged in its own way: verify them one by one");
  if (given.statusList !== undefined && !has("credential")) throw new Error("--status goes with a credential, and the file has none");
  const replaced = (["proof", "statusList"] as const).flatMap((name) =>
    given[name] === undefined || (sent[name] ?? null) === null ? [] : [noted(REPLACED[name])],
  );
  if (isPrint) return [...printLines(fitted(PrintFile, file, "print evidence"), given), ...replaced, ...unseenLines(file, PrintFile)];
  if (isProof) return proofLines(fitted(LogProof, file, "a proof"), given, undefined);
  if (has("credential"))
    return [
      ...(await passportLines(fitted(PassportFile, file, "a passport's file"), given)),
      ...replaced,
      ...unseenLines(file, PassportFile),
    ];
  if (Value.Check(ErrorReply, file))
    throw new Error(`the file is a refusal, as whoever saved it was answered: ${file.error.code}, ${file.error.message}`);
  throw new Error("the file is none that can be verified: a credential, a passport's or a log's proof, or a print's evidence");
}

const REPLACED = {
  proof: "the file's own proof wasn't looked at, and may say anything: --proof took its place",
  statusList: "the file's own status list wasn't looked at, and may say anything: --status took its place",
};
const UNSEEN_SHOWN = 20;
/** Members of the file that nothing here checks are named, so that nobody trusts them. */
function unseenLines(file: object, { properties }: { properties: object }): Line[] {
  const names = Object.keys(file).filter((name) => !Object.hasOwn(properties, name));
  const shown = names.slice(0, UNSEEN_SHOWN).map((name) => name.slice(0, 100));
  return names.length === 0
    ? []
    : [noted(`wasn't looked at, and may say anything: ${shown.join(", ")}${names.length > UNSEEN_SHOWN ? " and others" : ""}`)];
}

function parsed(text: string): object {
  try {
    const value = readJson(text);
    if (typeof value === "object" && value !== null) return value;
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw new Error(`the file can't be judged: ${(cause as Error).message}`, { cause });
    throw new Error(`the file is neither a credential nor JSON (was it cut off?): ${cause.message}`, { cause });
  }
  throw new Error("the file is JSON, but no object");
}

function fitted<Schema extends TSchema>(schema: Schema, value: unknown, what: string): Type.Static<Schema> {
  const [fault] = Value.Errors(schema, value);
  if (fault) throw new Error(`the file looks like ${what}, but ${fault.instancePath || "it"} ${fault.message}`);
  return value as Type.Static<Schema>;
}

async function passportLines(file: Type.Static<typeof PassportFile>, given: Given): Promise<Line[]> {
  const { credential, proof, receipt, statusList, didDocument } = file;
  const own = didDocument && ringFrom(didDocument);
  const ring = given.keys ?? own;
  const lines = await credentialLines(credential, { ...given, keys: ring }, statusList);
  if (!given.keys && own)
    lines.push(
      noted(`the signer's keys came from the file itself: that shows that it is whole, not who made it; --keys takes ${own.did}'s own`),
    );
  if (given.keys && own && !isPartOf(own, given.keys))
    lines.push(noted("the didDocument in the file isn't what --keys says: it wasn't looked at, and may say anything"));
  const opened = await openCredential(credential).catch(() => undefined); // where it can't be, a line above says so
  const subject = opened?.payload["credentialSubject"];
  const isUnlogged = opened !== undefined && isStatusList(opened) && given.checkpoint === undefined; // nobody looks for it there
  if (!proof) return [...lines, ...receiptLines(receipt, subject), ...(isUnlogged ? [] : [unprovenLine(given, digestIn(subject))])];
  return [...lines, digestLine(subject, proof, "passport"), ...receiptLines(receipt, subject), ...proofLines(proof, given, ring)];
}

const isPartOf = (own: Ring, { did, keys, others }: Ring): boolean =>
  (did === undefined || own.did === did) &&
  own.keys.every((one) => keys.some(({ publicBytes }) => publicBytes.equals(one.publicBytes))) &&
  own.others.every((one) => others.includes(one));

function unprovenLine({ checkpoint }: Given, digest: string | undefined): Line {
  const taken = `the file has no proof of that (--proof takes one: ${API}/log/proof?digest=${digest ?? "…"})`;
  return checkpoint === undefined
    ? noted(`whether it stands in the log wasn't checked: ${taken}`)
    : unclear(`whether it stands in the log that you know can't be told: ${taken}`);
}

function receiptLines(receipt: Receipt | null | undefined, subject: unknown): Line[] {
  if (!receipt) return [];
  return receipt.digest === digestIn(subject)
    ? [
        holds(
          `the anchoring service's receipt names the same digest: ${receipt.anchor}, ${receipt.anchoredAt}; only the service itself can confirm it`,
        ),
      ]
    : [fails(`the anchoring service's receipt is for another digest, ${receipt.digest}`)];
}

function printLines({ attempt_id: attemptId, items, sha256, proof, fault }: Type.Static<typeof PrintFile>, given: Given): Line[] {
  const told = digestIn(items) === sha256;
  return [
    told
      ? holds(`the ${items.length} items of the bundle give the digest that it names, ${sha256}${ofLabel(items)}`)
      : fails(`the items give another digest than the bundle names: one was changed, added, dropped or moved`),
    ...(fault === undefined ? [] : [fails(`the cloud itself said, when this was saved: ${fault}`)]),
    ...worthLines(items, proof !== null),
    noted(`that it is of the attempt ${attemptId} wasn't checked: the attempt's id isn't part of what was sealed`),
    ...(proof
      ? [digestLine(items, proof, "print_bundle"), ...proofLines(proof, given, given.keys)]
      : [unclear("the attempt wasn't sealed when this was saved: nothing of it is in the log yet")]),
  ];
}

/** Which label they are of: another one's may hold as well. */
function ofLabel([first]: readonly object[]): string {
  const { evidence } = (first ?? {}) as { evidence?: { render_manifest?: { payload?: unknown } } | null };
  const payload = evidence?.render_manifest?.payload;
  return typeof payload === "string" ? `, of the label ${payload.slice(0, 300)}` : "";
}

/** Undefined for what nobody can have sealed: JSON says numbers without end, and RFC 8785 doesn't. */
function digestIn(value: unknown): string | undefined {
  try {
    return digestOf(value ?? null);
  } catch {
    return undefined;
  }
}

function digestLine(value: unknown, { entry, index }: LogProof, kind: LogProof["entry"]["kind"]): Line {
  const digest = digestIn(value);
  if (entry.kind !== kind) return fails(`leaf ${index} of the log is of a ${entry.kind}, not of a ${kind}`);
  if (digest === undefined) return fails("the file's content has no digest: it can't be written down by RFC 8785");
  return digest === entry.digest
    ? holds(`the file's digest is ${digest}, and the log's leaf ${index} of ${entry.at} says the same`)
    : fails(`the file's digest is ${digest}, and the log's leaf ${index} says ${entry.digest}`);
}

/** `ring` may be the file's own: then its signature tells that the head is whole, and the note tells the rest. */
function proofLines(proof: LogProof, { keys, checkpoint, consistency }: Given, ring: Ring | undefined): Line[] {
  const note = parseNote(proof.checkpoint);
  const lines = inclusionLines(proof, note);
  if (!note) return lines;
  lines.push(checkpointLine(note, keys ?? ring));
  if (checkpoint === undefined) return lines;
  const known = knownNote(checkpoint);
  if (keys) lines.push(headLine(known, keys, "the checkpoint that you know"));
  lines.push(
    sameLogLine(known.head, note.head, consistency === undefined ? undefined : fitted(LogConsistency, consistency, "a consistency proof")),
  );
  return lines;
}
