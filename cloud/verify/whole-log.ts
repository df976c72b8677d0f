// A whole log, asked for at its own address (C2SP tlog-tiles): every entry is hashed here, and what the head says is held against what that gives.
import ky, { HTTPError, type KyInstance, type RetryOptions } from "ky";
import { Type } from "typebox";
import { Value } from "typebox/value";
import { API } from "#shared/api.ts";
import { bodyWithin } from "#shared/bounded-body.ts";
import { reasonOf } from "#shared/fault.ts";
import { grow, type Hash, leafHash, rootAt, type Subtree } from "#shared/merkle.ts";
import { type Head, parseNote } from "#shared/note.ts";
import { entriesIn, TILE_WIDTH, tileName } from "#shared/tiles.ts";
import type { Ring } from "./keys.ts";
import { checkpointLine, headLine, knownNote } from "./log.ts";
import { fails, holds, type Line, noted } from "./said.ts";

const TRY_MAX_MS = 30_000;
const WAIT_MAX_MS = 60_000;
const [TRIES, TRIES_OF_THE_LINE] = [10, 3]; // whoever asks for many tiles is told to wait, by budgets of a minute
const TILE_MAX_BYTES = 16_777_472; // 256 entries, each as long as two bytes can say
const Entry = Type.Object({ kind: Type.String({ maxLength: 100 }), digest: Type.String(), at: Type.String({ maxLength: 100 }) });

const retry: RetryOptions = {
  limit: TRIES - 1,
  maxRetryAfter: WAIT_MAX_MS,
  shouldRetry: ({ error, retryCount }) => (error instanceof HTTPError || retryCount < TRIES_OF_THE_LINE ? undefined : false),
};

/** A cloud's own address stands for that of its log. */
function prefixOf(address: string): string {
  const url = URL.parse(address);
  if (!url) throw new Error(`${address} isn't an address`);
  return `${url.origin}${url.pathname === "/" ? `${API}/log` : url.pathname.replace(/\/(checkpoint)?$/, "")}/`;
}

async function answer(log: KyInstance, path: string): Promise<Buffer> {
  try {
    const response = await log(path);
    return await bodyWithin(response, TILE_MAX_BYTES, () => new Error(`it answers more than ${TILE_MAX_BYTES} bytes`));
  } catch (cause) {
    const why = cause instanceof HTTPError ? `it answered ${cause.response.status}` : reasonOf(cause as Error);
    throw new Error(`the log's ${path} can't be had: ${why}`, { cause });
  }
}

const isGone = ({ cause }: Error): boolean => cause instanceof HTTPError && cause.response.status === 404;
/** A log may drop the part of a tile once all of it is there: its beginning is what the part was. */
async function entriesAt(log: KyInstance, tile: { n: number; width: number }): Promise<Buffer[]> {
  const path = `tile/entries/${tileName(tile)}`;
  const whole = async (fault: Error) => {
    if (tile.width === TILE_WIDTH || !isGone(fault)) throw fault;
    return answer(log, `tile/entries/${tileName({ ...tile, width: TILE_WIDTH })}`).catch((other: Error) => {
      throw isGone(other) ? fault : other;
    });
  };
  const bytes = await answer(log, path).catch(whole);
  const entries = entriesIn(bytes)?.slice(0, tile.width);
  if (entries?.length !== tile.width) throw new Error(`the log's ${path} hasn't the ${tile.width} entries that it should have`);
  return entries;
}

const [KINDS_MAX, OTHERS] = [20, "of other kinds"];
type Walked = { root: Hash; /** After as many as were asked for. */ knownRoot: Hash | undefined; kinds: Map<string, number>; last: string };
async function walk(log: KyInstance, size: number, knownSize: number | undefined): Promise<Walked> {
  const open: Subtree[] = [];
  const kinds = new Map<string, number>();
  let knownRoot = knownSize === 0 ? rootAt(open) : undefined;
  let last = "";
  for (let n = 0; n * TILE_WIDTH < size; n += 1) {
    const width = Math.min(TILE_WIDTH, size - n * TILE_WIDTH);
    for (const [i, entry] of (await entriesAt(log, { n, width })).entries()) {
      const leaf = n * TILE_WIDTH + i;
      grow(open, { level: 0, n: leaf, hash: leafHash(entry) });
      if (leaf + 1 === knownSize) knownRoot = rootAt(open);
      const { kind, at } = said(entry);
      const counted = kinds.has(kind) || kinds.size < KINDS_MAX ? kind : OTHERS;
      kinds.set(counted, (kinds.get(counted) ?? 0) + 1);
      last = at;
    }
  }
  return { root: rootAt(open), knownRoot, kinds, last };
}

/** Another log's entries are counted all the same. */
function said(entry: Buffer): { kind: string; at: string } {
  try {
    const value: unknown = JSON.parse(entry.toString("utf8"));
    return Value.Check(Entry, value) ? value : UNKNOWN;
  } catch {
    return UNKNOWN;
  }
}
const UNKNOWN = { kind: "of no kind that we know", at: "a time that it doesn't say" };

function knownLine(known: Head, { origin, size }: Head, given: Hash | undefined): Line {
  if (known.origin !== origin) return fails(`the checkpoint that you know is of ${known.origin}, and this log is ${origin}`);
  if (!given) return fails(`the log has ${size} entries, and you know ${known.size}: it was rolled back`);
  return given.equals(known.root)
    ? holds(`the first ${known.size} entries give the root that you know: nothing was taken back or rewritten`)
    : fails(`the first ${known.size} entries give another root than you know: the log was rewritten or forked`);
}

export async function wholeLogLines(address: string, given: { keys: Ring | undefined; checkpoint: string | undefined }): Promise<Line[]> {
  const prefix = prefixOf(address);
  const known = given.checkpoint === undefined ? undefined : knownNote(given.checkpoint);
  const log = ky.create({ prefix, redirect: "error", timeout: TRY_MAX_MS, retry });
  const note = parseNote((await answer(log, "checkpoint")).toString("utf8"));
  if (!note) throw new Error(`${prefix}checkpoint isn't a log's checkpoint (a signed note: origin, size, root, signature)`);
  const { head } = note;
  const { root, knownRoot, kinds, last } = await walk(log, head.size, known?.head.size);
  const counts = [...kinds].map(([kind, count]) => `${count} ${kind}`);
  const lines = [
    root.equals(head.root)
      ? holds(`the log's ${head.size} entries give the root that the checkpoint of ${head.origin} names: ${root.toString("hex")}`)
      : fails(`the log's ${head.size} entries give another root than its checkpoint names: ${root.toString("hex")}`),
    checkpointLine(note, given.keys),
    ...(head.size === 0 ? [] : [noted(`that is all that was ever logged: ${counts.join(", ")}, the last one of ${last}`)]),
  ];
  if (!known) return lines;
  if (given.keys) lines.push(headLine(known, given.keys, "the checkpoint that you know"));
  lines.push(knownLine(known.head, head, knownRoot));
  return lines;
}
