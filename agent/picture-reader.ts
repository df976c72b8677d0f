// A camera's pictures, read on a thread of their own: the largest takes seconds, and the station would neither hear its printers nor keep its leases.
import { isMainThread, type MessagePort, parentPort, Worker, workerData } from "node:worker_threads";
import { saying } from "#shared/sayings.ts";
import type { Clock } from "./clock.ts";
import { look } from "./decode.ts";
import { pictureFrom } from "./picture.ts";
import { type SymbolCheck, symbolCheck } from "./symbol-check.ts";

type Seen = Awaited<ReturnType<typeof look>> & { /** Of the first symbol. */ check?: SymbolCheck };
type Answer = { seen: Seen } | { failed: string };
export type PictureReader = {
  /** One at a time. Throws a sentence. */
  read(file: Uint8Array): Promise<Seen>;
  /** What is being read isn't any more; with the next picture it begins anew. */
  end(): Promise<void>;
};

const MARK = "imprimatur pictures";
const REST_MS = 60_000;
const MEMORY = { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 64 };

export function pictureReader(clock: Clock): PictureReader {
  let thread: Worker | undefined;
  let answer = Promise.withResolvers<Seen>();
  let cancel = () => {};

  function begun(): Worker {
    const made = new Worker(new URL(import.meta.url), { workerData: MARK, name: "pictures", resourceLimits: MEMORY });
    let why: string | undefined;
    made.on(
      "message",
      (said: Answer) => thread === made && ("seen" in said ? answer.resolve(said.seen) : answer.reject(new Error(said.failed))),
    );
    made.on("error", (error) => (why = (error as Error).message));
    made.once("exit", (code) => thread === made && void end(saying("reading_ended", { why: why ?? code })));
    return made;
  }
  async function end(why?: string): Promise<void> {
    cancel();
    const made = thread;
    if (!made) return;
    thread = undefined;
    answer.reject(new Error(why));
    await made.terminate();
  }
  async function read(file: Uint8Array): Promise<Seen> {
    cancel();
    answer = Promise.withResolvers();
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    (thread ??= begun()).postMessage(file);
    try {
      return await answer.promise;
    } finally {
      if (thread) cancel = clock.after(REST_MS, () => void end());
    }
  }
  return { read, end: () => end() };
}

function serve(port: MessagePort): void {
  async function seenIn(file: Uint8Array): Promise<Answer> {
    try {
      const { image, gray } = pictureFrom(file);
      const seen = await look(image);
      const [symbol] = seen.symbols;
      return { seen: { ...seen, ...(symbol ? { check: symbolCheck(symbol, gray ? { picture: gray } : {}) } : {}) } };
    } catch (error) {
      return { failed: (error as Error).message };
    }
  }
  port.on("message", (file: Uint8Array) => void seenIn(file).then((said) => port.postMessage(said)));
}

if (!isMainThread && parentPort && workerData === MARK) serve(parentPort);
