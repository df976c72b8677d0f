// The WAL kept short: worked off by its size, most of it by a thread, the rest by the writer between two commits.
import type Database from "better-sqlite3";
import { checkpointer, type Wal } from "./checkpointer.ts";

const FRAMES_MORE = 1_024; // where a reader was in the way of the last one
const FRAMES_MOST = 12_288; // 48 MiB: beyond it the writer waits for the thread

type Options = {
  writer: Database.Database;
  /** So many frames call for a checkpoint. */
  dueAt: number;
  /** Ends the process where the disk can't be trusted any more. */
  dieOfIo: (error: unknown, what: string) => void;
  onWarn: (line: string, cause: unknown) => void;
};

export function walKeeper({ writer, dueAt, dieOfIo, onWarn }: Options) {
  const statements = {
    NOOP: writer.prepare("PRAGMA wal_checkpoint(NOOP)"), // looks, and does nothing
    PASSIVE: writer.prepare("PRAGMA wal_checkpoint(PASSIVE)"),
    TRUNCATE: writer.prepare("PRAGMA wal_checkpoint(TRUNCATE)"),
  };
  const beside = checkpointer(writer.name);
  let nextAt = dueAt;
  let frames = 0;
  let workingOff: Promise<void> | undefined;
  let isWorkedOff = false;

  function checkpoint(kind: keyof typeof statements): Wal {
    try {
      return statements[kind].get() as Wal;
    } catch (error) {
      dieOfIo(error, "a checkpoint couldn't be made durable");
      return { log: 0, checkpointed: 0 }; // the next commit looks again
    }
  }

  async function workOff(): Promise<void> {
    try {
      await beside.workOff();
    } catch (error) {
      dieOfIo(error, "a checkpoint couldn't be made durable");
      onWarn("a checkpoint beside the writer failed: the writer makes it, and others wait meanwhile", error);
    }
    isWorkedOff = true;
    workingOff = undefined;
  }

  /** What came while the thread worked is so little that nobody notices; the next commit begins the WAL anew. */
  function finish(): void {
    isWorkedOff = false;
    checkpoint("PASSIVE");
    const left = checkpoint("NOOP");
    nextAt = left.checkpointed === left.log ? dueAt : left.log + FRAMES_MORE;
  }

  return {
    /** To be told after each commit. */
    committed: () => {
      frames = checkpoint("NOOP").log;
      if (isWorkedOff) finish();
      else if (frames >= nextAt) workingOff ??= workOff();
    },
    /** To be waited for before a commit. */
    room: async () => (frames > FRAMES_MOST ? workingOff : undefined),
    /** The last checkpoint, and the writer's end; the thread's file is closed when nobody holds a lock any more (see there). */
    close: async () => {
      await workingOff;
      checkpoint("TRUNCATE");
      writer.close();
      await beside.close();
    },
  };
}
