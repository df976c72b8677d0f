// A backup as one file: a line that names the format, a manifest, the manifest's digest, then the files that it names, one after another.
import { createHash, hash } from "node:crypto";
import { createReadStream, type ReadStream, statSync } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Type } from "typebox";
import { Value } from "typebox/value";
import { closed, Sha256, type Static } from "#shared/wire/common.ts";

const FORMAT = "imprimatur backup 1";
const HEAD_MAX_BYTES = 4_194_304;
const Count = Type.Integer({ minimum: 0 });

const Entry = closed({
  name: Type.String({ pattern: "^(imprimatur\\.db|sealing-key|bootstrap-key|keys/\\d{1,16}\\.pem)$" }), // nothing else, and nothing elsewhere
  bytes: Count,
  sha256: Sha256,
});
export type Entry = Static<typeof Entry>;
export const Manifest = closed({
  takenAt: Type.String(),
  migration: Type.Integer({ minimum: 1 }),
  log: closed({ size: Count, root: Sha256, checkpoint: Type.String({ description: "A signed note of the log's head" }) }),
  audit: closed({ tenants: Count, rows: Count, heads: Sha256 }),
  needs: Type.Array(Type.String(), { description: "Settings that hold secrets which stand in no file" }),
  files: Type.Array(Entry, { minItems: 1 }),
});
export type Manifest = Static<typeof Manifest>;

export async function digestOfFile(file: string): Promise<Pick<Entry, "bytes" | "sha256">> {
  const sum = createHash("sha256");
  let bytes = 0;
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    sum.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: sum.digest("hex") };
}

/** Written, synced and readable by its owner alone. The files lie in `folder` under the names of the manifest. */
export async function pack(to: string, folder: string, manifest: Manifest): Promise<void> {
  const line = JSON.stringify(manifest);
  const file = await open(to, "wx", 0o600);
  try {
    await file.writeFile(`${FORMAT}\n${line}\n${hash("sha256", line)}\n`); // to its end, where a bare write may stop at what the disk still takes
    for (const { name } of manifest.files) await file.writeFile(createReadStream(join(folder, name)));
    await file.sync();
  } finally {
    await file.close();
  }
}

type Head = { manifest: Manifest; at: number };

async function headOf(file: FileHandle): Promise<Head> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_MAX_BYTES), 0, HEAD_MAX_BYTES, 0);
  const [format, line, digest, ...rest] = buffer.subarray(0, bytesRead).toString("latin1").split("\n", 4);
  if (format !== FORMAT) throw new Error("it isn't a backup of Imprimatur, or one of another format");
  if (line === undefined || digest === undefined || rest.length === 0) throw new Error("it was cut off in its manifest");
  const text = Buffer.from(line, "latin1").toString("utf8");
  if (hash("sha256", text) !== digest) throw new Error("its manifest was changed: it doesn't have its digest");
  const manifest: unknown = JSON.parse(text);
  const [fault] = Value.Errors(Manifest, manifest);
  if (fault) throw new Error(`its manifest isn't one: ${fault.instancePath || "it"} ${fault.message}`);
  return { manifest: manifest as Manifest, at: [FORMAT, line, digest, ""].join("\n").length };
}

/** Unpacks into `folder`, and refuses what isn't byte for byte what the manifest names. */
export async function unpack(from: string, folder: string): Promise<Manifest> {
  const what = statSync(from);
  if (what.isDirectory()) throw new Error("it is a folder, where a backup is a file");
  if (!what.isFile()) throw new Error("it is a pipe or a device, where a backup is a file: save it as one first"); // nobody may ever write to a pipe
  const file = await open(from, "r");
  try {
    const { manifest, at } = await headOf(file);
    const { size } = await file.stat();
    const whole = manifest.files.reduce((sum, { bytes }) => sum + bytes, at);
    if (size < whole) throw new Error(`it was cut off: it has ${size} bytes of ${whole}`);
    if (size > whole) throw new Error(`${size - whole} bytes follow its end`);
    let start = at;
    for (const entry of manifest.files) {
      const source = entry.bytes > 0 ? createReadStream(from, { start, end: start + entry.bytes - 1 }) : undefined; // which takes no end before its start
      await extract(source ?? [], join(folder, entry.name), entry);
      source?.destroy();
      start += entry.bytes;
    }
    return manifest;
  } finally {
    await file.close();
  }
}

async function extract(source: ReadStream | [], to: string, { name, sha256 }: Entry): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 });
  const file = await open(to, "wx", 0o600);
  const sum = createHash("sha256");
  try {
    await pipeline(source, async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        sum.update(chunk);
        await file.writeFile(chunk);
      }
    });
    await file.sync();
  } finally {
    await file.close();
  }
  if (sum.digest("hex") !== sha256) throw new Error(`${name} in it was changed: it doesn't have its digest`);
}
