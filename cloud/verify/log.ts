// What a proof says of the log: the leaf is this one, it stands in that tree, somebody signed the tree's head, and it is the log you know.
import { verify } from "node:crypto";
import { API } from "#shared/api.ts";
import { canonical } from "#shared/canonical.ts";
import { EMPTY_ROOT, isConsistent, isIncluded, leafHash } from "#shared/merkle.ts";
import { type Head, keyHash, type Note, parseNote } from "#shared/note.ts";
import type { LogConsistency, LogProof } from "#shared/wire/log.ts";
import type { Ring } from "./keys.ts";
import { fails, holds, type Line, noted, unclear } from "./said.ts";

const bytes = (hex: string) => Buffer.from(hex, "hex");

export function knownNote(text: string): Note {
  const note = parseNote(text);
  if (!note) throw new Error("the checkpoint given isn't a log's checkpoint (a signed note: origin, size, root, signature)");
  return note;
}

/** From the leaf to the head. */
export function inclusionLines({ entry, index, size, leafHash: told, proof, root }: LogProof, note: Note | undefined): Line[] {
  const leaf = leafHash(Buffer.from(canonical(entry)));
  const head = note?.head;
  return [
    leaf.equals(bytes(told))
      ? holds(`the leaf's hash is what its entry gives`)
      : fails(`the leaf's hash isn't what its entry gives: the entry was changed`),
    isIncluded(leaf, index, size, proof.map(bytes), bytes(root))
      ? holds(`leaf ${index} stands in the tree of ${size} leaves that has the root ${root.slice(0, 16)}…`)
      : fails(`the proof doesn't lead from leaf ${index} to the root ${root.slice(0, 16)}…`),
    head?.size === size && head.root.equals(bytes(root))
      ? holds(`that is the tree whose head the checkpoint of ${head.origin} names`)
      : fails(head ? `the checkpoint names another tree, of ${head.size} leaves` : "the checkpoint isn't a signed note: it was changed"),
  ];
}

export const checkpointLine = (note: Note, keys: Ring | undefined): Line =>
  keys
    ? headLine(note, keys, "the checkpoint")
    : noted("the checkpoint's signature wasn't checked: no key was given (--keys takes the log's did.json or jwks.json)");

/** Whether one of these keys signed the head. */
export function headLine({ text, head, signatures }: Note, { keys }: Ring, what: string): Line {
  for (const { name, keyHash: hint, signature } of signatures)
    for (const { publicBytes, key, kid } of keys)
      if (name === head.origin && hint.equals(keyHash({ name, publicBytes })))
        return verify(null, Buffer.from(text), key, signature)
          ? holds(`${what} was signed by the key ${kid}`)
          : fails(`${what} wasn't signed by the key ${kid}, though it says so: it was changed`);
  return fails(`${what} was signed by none of the keys given: if they were saved before it was signed, save did.json anew`);
}

/** Two heads of one log: the shorter has to be the beginning of the longer. */
export function sameLogLine(known: Head, head: Head, consistency: LogConsistency | undefined): Line {
  if (known.origin !== head.origin) return fails(`the checkpoint that you know is of ${known.origin}, and the file's is of ${head.origin}`);
  if (known.size === head.size)
    return known.root.equals(head.root)
      ? holds(`the file's head is the one that you know`)
      : fails(`the log was forked: you know another root of its first ${head.size} leaves`);
  if (known.size === 0)
    return known.root.equals(EMPTY_ROOT)
      ? holds("the log that you know was still empty: every log goes on from there")
      : fails("the head that you know is of no log: it has no leaves, and another root than that gives");
  const [older, newer] = known.size < head.size ? [known, head] : [head, known];
  const shorter =
    known.size > head.size ? "the file's log is shorter than the one that you know: the file is older, or the log was rolled back; " : "";
  if (!consistency || consistency.from !== older.size || consistency.to !== newer.size) {
    const given = consistency ? `, and the one given is from ${consistency.from} to ${consistency.to}` : "";
    return unclear(
      `${shorter}whether both heads are of one log takes the answer of ${API}/log/consistency?from=${older.size}&to=${newer.size}, given with --consistency${given}`,
    );
  }
  if (!isConsistent(older.size, newer.size, older.root, newer.root, consistency.proof.map(bytes)))
    return fails(
      `${shorter}the log of ${older.size} leaves isn't the beginning of the log of ${newer.size}: it was rolled back, rewritten or forked`,
    );
  return older.root.equals(bytes(consistency.fromRoot)) && newer.root.equals(bytes(consistency.toRoot))
    ? holds(`the log of ${older.size} leaves is the beginning of the log of ${newer.size}: nothing was taken back or rewritten`)
    : fails(`${shorter}what --consistency gives proves it, but names other roots than the two heads have: it was changed`);
}
