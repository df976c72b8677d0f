// Where a program's log goes: stdout, without ever waiting for whoever reads it. What waits for a reader who stands still, or for room on the disk, is bounded,
// and lines that were lost are told.
import pino, { type DestinationStream } from "pino";

export type LogOut = {
  stream: DestinationStream;
  /** Ends the process once all is written; where the reader stands still, without. */
  exit(code: number): void;
  /** Ends it now: nothing else runs any more. */
  die(code: number): never;
};
const BEHIND_MAX_BYTES = 8 * 1_048_576;
const LAST_WORDS_MS = 1_000;
const nothing = () => {};

/** So much is gathered before it is written, or as much as came in a fifth of a second. */
export function logToStdout(atOnceBytes = 1): LogOut {
  let until = Infinity;
  const stream = pino.destination({
    fd: 1,
    sync: false,
    minLength: atOnceBytes,
    maxLength: BEHIND_MAX_BYTES,
    periodicFlush: atOnceBytes > 1 ? 200 : 0,
    retryEAGAIN: () => performance.now() < until,
  });
  /** Its last flush would try for ever whatever fails, but for a fault of this code, before which it asks retryEAGAIN. */
  const fd = () => {
    if (performance.now() < until) return 1;
    throw Object.assign(new Error("this log can't be written"), { code: "EAGAIN" });
  };
  Object.defineProperty(stream, "fd", { get: fd });
  const flush = stream.flushSync.bind(stream);
  function flushSync(): void {
    until = performance.now() + LAST_WORDS_MS;
    try {
      flush();
    } catch {
      // the reader stands still, or the disk is full
    } finally {
      until = Infinity;
    }
  }
  Object.assign(stream, { flushSync });
  stream.on("error", nothing); // a disk without room: its next write tries again what this one couldn't
  for (const out of [process.stdout, process.stderr]) if (!out.listeners("error").includes(nothing)) out.on("error", nothing); // a word of ours beside the log
  let lost = 0;
  stream.on("drop", () => void (lost += 1));
  stream.on("drain", () => {
    if (lost === 0) return;
    const said = { level: "warn", time: new Date().toISOString(), event: "log-lost", lines: lost };
    lost = 0;
    stream.write(`${JSON.stringify({ ...said, msg: "this log couldn't be written for a while: so many lines were lost" })}\n`);
  });
  /** At the exit what is left would be written, and wait. */
  const leave = (code: number): never => {
    Object.assign(stream, { write: nothing, end: nothing, flushSync: nothing });
    process.exit(code);
  };
  return {
    stream,
    exit: (code) => {
      setTimeout(() => leave(code), LAST_WORDS_MS);
      stream.flush(() => process.exit(code));
    },
    die: (code) => {
      stream.flushSync();
      return leave(code);
    },
  };
}

export const logTo = (stream: DestinationStream): LogOut => ({
  stream,
  exit: (code) => process.exit(code),
  die: (code) => process.exit(code),
});
/** For eyes. */
export const logToTerminal = (): LogOut =>
  logTo(pino.transport({ target: "pino-pretty", options: { ignore: "event", translateTime: "HH:MM:ss.l" } }));
