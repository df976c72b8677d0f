// A thread that works off the WAL while the writer goes on: copying and syncing thousands of pages would keep everybody waiting for 10 to 50 ms.
// Begun when it is first needed, because an idle store never is.
import { fsyncSync, openSync } from "node:fs";
import { isMainThread, type MessagePort, parentPort, Worker, workerData } from "node:worker_threads";
import Database from "better-sqlite3";

/** Frames in the WAL, and of them those that the database has as well. */
export type Wal = { log: number; checkpointed: number };
type Checkpointer = { workOff(): Promise<void>; close(): Promise<void> };

const MARK = "imprimatur checkpointer";
const PASSES_MAX = 3;
const FEW_FRAMES = 256; // a writer is done with as many in two milliseconds
const MEMORY = { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 16 };
type Failed = { code: string; message: string };

export function checkpointer(file: string): Checkpointer {
  let thread: Worker | undefined;
  let answer: (failed: Failed | undefined) => void = () => {};

  function begun(): Worker {
    const made = new Worker(new URL(import.meta.url), { workerData: { mark: MARK, file }, name: "checkpointer", resourceLimits: MEMORY });
    let why = "it ended";
    made.on("message", (failed: Failed | undefined) => answer(failed));
    made.on("error", (error) => (why = (error as Error).message));
    made.once("exit", () => {
      thread = undefined;
      answer({ code: "", message: `the checkpointer failed: ${why}` });
    });
    made.unref();
    return made;
  }

  return {
    workOff: () =>
      new Promise((resolve, reject) => {
        const asked = (thread ??= begun());
        asked.ref(); // a program that has nothing else to do waits for it, and doesn't end in the middle of its close
        answer = (failed) => {
          asked.unref();
          if (failed) reject(Object.assign(new Error(failed.message), { code: failed.code }));
          else resolve();
        };
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
        asked.postMessage(null);
      }),
    close: async () => void (await thread?.terminate()),
  };
}

function serve(port: MessagePort, file: string): void {
  const database = new Database(file, { fileMustExist: true }); // as the writer's is, without all that its module loads
  database.pragma("synchronous = FULL");
  database.pragma("wal_autocheckpoint = 0");
  const [copy, look] = ["PASSIVE", "NOOP"].map((kind) => database.prepare(`PRAGMA wal_checkpoint(${kind})`)) as [
    Database.Statement<[], Wal>,
    Database.Statement<[], Wal>,
  ];
  // SQLite syncs the database only where no commit came meanwhile. Closing this drops the process's locks on the file, so it ends with the thread, after the writer.
  const pages = openSync(file, "r");

  function workOff(): void {
    for (let pass = 0, before = -1; pass < PASSES_MAX; pass += 1) {
      copy.get();
      fsyncSync(pages);
      const { log, checkpointed } = look.get() as Wal;
      if (log - checkpointed <= FEW_FRAMES || checkpointed <= before) return; // a reader may be in the way
      before = checkpointed;
    }
  }
  port.on("message", () => {
    let failed: Failed | undefined;
    try {
      workOff();
    } catch (error) {
      const { code = "", message } = error as NodeJS.ErrnoException;
      failed = { code, message };
    }
    port.postMessage(failed);
  });
}

const given = workerData as { mark?: string; file: string } | null;
if (!isMainThread && parentPort && given?.mark === MARK) serve(parentPort, given.file);
