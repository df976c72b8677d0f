// imprimatur verify FILE: what holds of a passport, a proof or a print's evidence, in words, with nothing but the file and what you trust; of a log's address, what holds of all of it.
import { isUtf8 } from "node:buffer";
import { limits } from "#shared/limits.ts";
import { bytesIn } from "./files.ts";
import { linesOf } from "./verify/evidence.ts";
import { readJson } from "./verify/json.ts";
import { ringFrom } from "./verify/keys.ts";
import type { Line } from "./verify/said.ts";
import { argumentsOf } from "#shared/arguments.ts";

const USAGE =
  "imprimatur verify FILE-OR-LOG-URL [--keys DID-OR-JWKS-FILE] [--proof FILE] [--status FILE] [--checkpoint FILE [--consistency FILE]]";
const OPTIONS = {
  keys: { type: "string" },
  proof: { type: "string" },
  status: { type: "string" },
  checkpoint: { type: "string" },
  consistency: { type: "string" },
} as const;
const OF_A_FILE = ["proof", "status", "consistency"] as const;
const [HOLDS, FAILS, UNUSABLE] = [0, 1, 2] as const;

const GZIP = Buffer.from([0x1f, 0x8b]);
function textIn(file: string): string {
  const content = bytesIn(file, limits.VERIFY_FILE_MAX_BYTES);
  if (content.subarray(0, GZIP.length).equals(GZIP)) throw new Error(`${file} is packed with gzip: unpack it first (gunzip)`);
  if (!isUtf8(content)) throw new Error(`${file} isn't UTF-8 (PowerShell's > writes UTF-16): save it as that`);
  return new TextDecoder().decode(content).trim();
}

function jsonIn(file: string): unknown {
  const text = textIn(file);
  try {
    return readJson(text);
  } catch (cause) {
    throw new Error(`${file} ${cause instanceof SyntaxError ? "isn't JSON" : "can't be used"}: ${(cause as Error).message}`, { cause });
  }
}

async function judge(argv: string[]): Promise<{ lines: Line[]; file: string }> {
  const { words, ...values } = argumentsOf(USAGE, OPTIONS, argv, 1);
  const [file] = words;
  if (file === undefined) throw new Error(`FILE is missing (usage: ${USAGE})`);
  if (values.consistency !== undefined && values.checkpoint === undefined)
    throw new Error(`--consistency goes with --checkpoint, the head that you know (usage: ${USAGE})`);
  const json = (name: string | undefined): unknown => (name === undefined ? undefined : jsonIn(name));
  const trusted = {
    keys: values.keys === undefined ? undefined : ringFrom(jsonIn(values.keys)),
    checkpoint: values.checkpoint === undefined ? undefined : `${textIn(values.checkpoint).replaceAll("\r\n", "\n")}\n`,
  };
  if (/^https?:/i.test(file)) {
    const extra = OF_A_FILE.find((name) => values[name] !== undefined);
    if (extra) throw new Error(`--${extra} goes with a file, and ${file} is a log's address (usage: ${USAGE})`);
    const { wholeLogLines } = await import("./verify/whole-log.ts"); // the rest asks nobody
    return { lines: await wholeLogLines(file, trusted), file };
  }
  const lines = await linesOf(textIn(file), {
    now: Date.now(),
    ...trusted,
    consistency: json(values.consistency),
    proof: json(values.proof),
    statusList: values.status === undefined ? undefined : textIn(values.status),
  });
  return { lines, file };
}

/** A file's words may not move the cursor. */
const plain = (text: string): string => text.replaceAll(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, "?");

/** What is said, and the code that the program ends with. */
export async function verify(argv: string[]): Promise<{ code: number; said: string[] }> {
  try {
    const { lines, file } = await judge(argv);
    const bad = lines.filter(({ mark }) => mark === "fails" || mark === "unknown");
    const all = lines.some(({ mark }) => mark === "note") ? "all that was checked holds; the notes say what wasn't" : "all of it holds";
    const verdict = bad.length === 0 ? `${file}: ${all}` : `${file}: ${bad.length} of ${lines.length} don't hold`;
    return { code: bad.length === 0 ? HOLDS : FAILS, said: [...lines.map(({ mark, text }) => `${mark}: ${text}`), verdict].map(plain) };
  } catch (error) {
    const why = error instanceof RangeError ? "what it says is nested too deeply to be looked at" : (error as Error).message; // the stack ended
    return { code: UNUSABLE, said: [plain(`imprimatur: ${why}`)] };
  }
}

if (import.meta.main) {
  const { code, said } = await verify(process.argv.slice(2));
  process[code === UNUSABLE ? "stderr" : "stdout"].write(`${said.join("\n")}\n`);
  process.exitCode = code;
}
