// A log's head as a C2SP signed note: text that a person can read, and signatures that name their key.
import { hash } from "node:crypto";

export type Head = { origin: string; size: number; root: Buffer };
type Signer = { name: string; publicBytes: Buffer };

const ED25519 = 1;
/** Four bytes that say which key it may be; the key itself says the rest. */
export const keyHash = ({ name, publicBytes }: Signer): Buffer =>
  hash("sha256", Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(ED25519), publicBytes]), "buffer").subarray(0, 4);

const headText = ({ origin, size, root }: Head): string => `${origin}\n${size}\n${root.toString("base64")}\n`;

export function signedNote(head: Head, signer: Signer, sign: (bytes: Buffer) => Buffer): string {
  const text = headText(head);
  const signature = Buffer.concat([keyHash(signer), sign(Buffer.from(text))]).toString("base64");
  return `${text}\n\u2014 ${signer.name} ${signature}\n`;
}

export type Note = { text: string; head: Head; signatures: { name: string; keyHash: Buffer; signature: Buffer }[] };

/** Undefined for what isn't a note of a log's head. */
export function parseNote(note: string): Note | undefined {
  const [, text = "", signatures = ""] = /^([^]*?\n)\n((?:\u2014 [^\n]+\n)+)$/.exec(note) ?? [];
  const [, origin = "", size = "", root = ""] = /^([^\n]+)\n(0|[1-9]\d{0,15})\n([A-Za-z0-9+/]{43}=)\n/.exec(text) ?? [];
  if (!origin) return undefined;
  const lines = signatures
    .trimEnd()
    .split("\n")
    .map((line) => line.split(" "));
  if (lines.some(([, , encoded = "", ...more]) => more.length > 0 || Buffer.from(encoded, "base64").toString("base64") !== encoded))
    return undefined;
  return {
    text,
    head: { origin, size: Number(size), root: Buffer.from(root, "base64") },
    signatures: lines.map(([, name = "", encoded = ""]) => {
      const bytes = Buffer.from(encoded, "base64");
      return { name, keyHash: bytes.subarray(0, 4), signature: bytes.subarray(4) };
    }),
  };
}
