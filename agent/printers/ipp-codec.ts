// IPP's messages (RFC 8010) as bytes and back. The installed codec isn't sound: a length above 0x7fff in 20 bytes of answer
// makes it run for ever, and a value with an out-of-band tag puts it out of step. Here every length is held against what there is.
import { Buffer } from "node:buffer";

export const OPERATIONS = {
  "Print-Job": 0x02,
  "Cancel-Job": 0x08,
  "Get-Job-Attributes": 0x09,
  "Get-Jobs": 0x0a,
  "Get-Printer-Attributes": 0x0b,
} as const;
export const GROUPS = { operation: 0x01, job: 0x02, printer: 0x04, unsupported: 0x05 } as const;
const END = 0x03;
export const TAGS = {
  noValue: 0x13,
  integer: 0x21,
  boolean: 0x22,
  enum: 0x23,
  textWithLanguage: 0x35,
  nameWithLanguage: 0x36,
  text: 0x41,
  name: 0x42,
  keyword: 0x44,
  uri: 0x45,
  charset: 0x47,
  language: 0x48,
  mime: 0x49,
} as const;
const FIRST_VALUE_TAG = 0x10; // below it begin groups

export type Value = string | number | boolean | null | Buffer;
export type Attributes = Record<string, Value[]>;
type Group = { tag: number; attributes: Attributes };
export type Message = { code: number; requestId: number; groups: Group[]; data: Buffer };
/** What is written: each attribute with its tag. */
export type Written = { tag: number; attributes: Record<string, [tag: number, ...values: (string | number | boolean)[]]> };

type Sent = Pick<Message, "code" | "requestId"> & { groups: Written[]; data?: Uint8Array };

export function encodeIpp({ code, requestId, groups, data }: Sent): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt16BE(0x0101, 0); // IPP 1.1: whoever speaks 2.0 takes it too
  head.writeUInt16BE(code, 2);
  head.writeUInt32BE(requestId, 4);
  const parts: Buffer[] = [head];
  for (const { tag, attributes } of groups) {
    parts.push(Buffer.from([tag]));
    for (const [name, [valueTag, ...values]] of Object.entries(attributes))
      values.forEach((value, i) =>
        parts.push(Buffer.from([valueTag]), sized(Buffer.from(i === 0 ? name : "")), sized(bytesOf(valueTag, value))),
      );
  }
  return Buffer.concat([...parts, Buffer.from([END]), data ?? Buffer.alloc(0)]);
}
function sized(bytes: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(bytes.length); // throws beyond 65,535, which no attribute of ours comes near
  return Buffer.concat([length, bytes]);
}
function bytesOf(tag: number, value: string | number | boolean): Buffer {
  if (tag === TAGS.noValue) return Buffer.alloc(0);
  if (typeof value === "boolean") return Buffer.from([value ? 1 : 0]);
  if (typeof value === "string") return Buffer.from(value, "utf8");
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** Throws a sentence where the bytes aren't IPP. Of a collection the members stand flat behind their attribute: nothing here needs them. */
export function decodeIpp(bytes: Uint8Array): Message {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (count: number): Buffer => {
    if (at + count > buffer.length) throw new Error(`an IPP message of ${buffer.length} bytes ends in the middle`);
    return buffer.subarray(at, (at += count));
  };
  const string = () => take(take(2).readUInt16BE());
  const head = take(8);
  if (head[0] !== 1 && head[0] !== 2) throw new Error(`this isn't IPP: version ${head[0]}.${head[1]}`);
  const groups: Group[] = [];
  let values: Value[] | undefined;
  for (let tag = take(1)[0] ?? END; tag !== END; tag = take(1)[0] ?? END) {
    if (tag < FIRST_VALUE_TAG) {
      groups.push({ tag, attributes: Object.create(null) as Attributes });
      values = undefined;
      continue;
    }
    const name = string().toString("utf8");
    const value = valueOf(tag, string());
    const group = groups.at(-1);
    if (!group || (name === "" && !values)) throw new Error("an IPP message has a value that belongs to nothing");
    if (name === "") values?.push(value);
    else group.attributes[name] = values = [value];
  }
  return { code: head.readUInt16BE(2), requestId: head.readUInt32BE(4), groups, data: buffer.subarray(at) };
}
function valueOf(tag: number, bytes: Buffer): Value {
  if (tag === TAGS.noValue) return null; // whatever bytes it brings; "unknown" and "unsupported" say less, and aren't it
  if ((tag === TAGS.integer || tag === TAGS.enum) && bytes.length === 4) return bytes.readInt32BE();
  if (tag === TAGS.boolean && bytes.length === 1) return bytes[0] !== 0;
  const inLanguage = tag === TAGS.textWithLanguage || tag === TAGS.nameWithLanguage;
  const text = inLanguage && bytes.length >= 4 ? bytes.subarray(bytes.readUInt16BE() + 4) : bytes; // behind the language and two lengths
  if (inLanguage || (tag >= 0x40 && tag <= 0x49)) return text.toString("utf8").replaceAll("\0", ""); // a program in C may send its string's end along
  return bytes;
}

export const groupsOf = ({ groups }: Message, tag: number): Attributes[] =>
  groups.filter((group) => group.tag === tag).map(({ attributes }) => attributes);
export const firstOf = <T extends "string" | "number" | "boolean">(attributes: Attributes | undefined, name: string, type: T) => {
  const value = attributes?.[name]?.[0];
  return (typeof value === type ? value : undefined) as (T extends "string" ? string : T extends "number" ? number : boolean) | undefined;
};
export const stringsOf = (attributes: Attributes | undefined, name: string): string[] =>
  (attributes?.[name] ?? []).filter((value) => typeof value === "string");
