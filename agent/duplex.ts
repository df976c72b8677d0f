// What every port has in common, whatever the wire: one writer at a time, an honest count of what left, news for those who listen.
import { Buffer } from "node:buffer";
import { saying } from "#shared/sayings.ts";
import { afterHearing, type Clock, pause, within } from "./clock.ts";

/** `accepted` is never too low: 0 says that surely nothing left us. It can be too high by less than a chunk where a fault cut one. */
export type Written = { accepted: number; fault?: string };
export type Closed = { by: "us" | "peer" | "fault"; words: string };
export type Port = {
  /** Never rejects; every byte is with the kernel where there is no `fault`. */
  write(bytes: Uint8Array, options?: { stallMs?: number }): Promise<Written>;
  /** What came before the first listener waits for it (as much as fits BACKLOG_MAX_BYTES). */
  onData(fn: (bytes: Buffer) => void): () => void;
  /** Called once, at once where it is closed already. */
  onClose(fn: (why: Closed) => void): () => void;
  /** Lets what is written go out, says goodbye, waits a little for the other's; resolves when it is over. What hasn't arrived by then may arrive yet. */
  end(): Promise<void>;
  /** Drops it now, and once it was ended what of it hasn't arrived. */
  destroy(): void;
  readonly closed: Closed | undefined;
};

/** A wire as its opener knows it. */
export type Wire = {
  /** Bytes that the kernel took of these; 0: none now, ask again. On a fault as many as it may have taken. */
  put(chunk: Uint8Array): Promise<Written>;
  /** Begins an orderly end; the wire says `closed` when it is over. */
  finish(): void;
  /** Nothing of what was put and hasn't arrived arrives any more. */
  abort(): void;
  /** Where the end of it can be left to the kernel, which goes on sending what it holds, for minutes. */
  leave?(): void;
  /** How long it may take what the kernel holds to go out, on a slow line. */
  drainMs?: number;
};
export type Sink = { data(bytes: Buffer): void; closed(why: Closed): void };

const WRITE_CHUNK_BYTES = 1_024; // the grain of `accepted`
const WRITE_STALL_MS = 10_000; // a printer that is out of paper stops reading
const RETRY_MS = 10;
const END_MS = 5_000;
const BACKLOG_MAX_BYTES = 65_536;

const tookNothing = (stallMs: number) => `the device took nothing for ${stallMs / 1000} s`;

export function duplex(clock: Clock, attach: (sink: Sink) => Wire): Port {
  const readers = new Set<(bytes: Buffer) => void>();
  const mourners = new Set<(why: Closed) => void>();
  let backlog: Buffer[] | undefined = [];
  let closed: Closed | undefined;
  let isLeft = false; // to the kernel
  let owing = false;
  let cut: ((why: Closed) => void) | undefined;
  const ended = Promise.withResolvers<void>();

  const wire = attach({
    data: (bytes) => {
      if (backlog) backlog = [Buffer.concat([...backlog, bytes]).subarray(-BACKLOG_MAX_BYTES)];
      else for (const fn of readers) fn(bytes);
    },
    closed: (why) => over(why),
  });
  function over(why: Closed): void {
    if (closed) return;
    closed = why;
    setImmediate(() => cut?.(why));
    ended.resolve();
    for (const fn of mourners) fn(why);
    mourners.clear();
  }

  /** One chunk, or what became of it: the wire's answer, its end (a serial line that dies may never answer, so its answer gets a turn), or the clock's. */
  function put(chunk: Uint8Array, stallMs: number): Promise<Written> {
    if (closed) return Promise.resolve({ accepted: 0, fault: closed.words });
    return new Promise((resolve) => {
      const settle = (written: Written) => {
        cancel();
        cut = undefined;
        resolve(written);
      };
      const cancel = afterHearing(clock, stallMs, () => {
        owing = true; // what still waits must not be overtaken by the next write
        settle({ accepted: chunk.length, fault: tookNothing(stallMs) });
      });
      cut = ({ words }) => settle({ accepted: chunk.length, fault: words });
      void wire.put(chunk).then((written) => {
        owing = false;
        settle(written);
      });
    });
  }

  async function send(bytes: Uint8Array, stallMs: number): Promise<Written> {
    if (owing) return { accepted: 0, fault: saying("earlier_write_waits") };
    let accepted = 0;
    let waitedMs = 0; // since it took something, by the pauses: a clock that is set brings no end nearer
    while (accepted < bytes.length) {
      const part = await put(bytes.subarray(accepted, accepted + WRITE_CHUNK_BYTES), stallMs);
      accepted += part.accepted;
      if (part.fault !== undefined) return { accepted, fault: part.fault };
      if (part.accepted > 0) waitedMs = 0;
      else if (waitedMs >= stallMs) return { accepted, fault: tookNothing(stallMs) };
      else {
        await pause(clock, RETRY_MS);
        waitedMs += RETRY_MS;
      }
    }
    return { accepted };
  }
  let last: Promise<unknown> = Promise.resolve();

  return {
    write: (bytes, { stallMs = WRITE_STALL_MS } = {}) => {
      const mine = last.then(() => send(bytes, stallMs));
      last = mine;
      return mine;
    },
    onData: (fn) => {
      readers.add(fn);
      const waiting = backlog ?? [];
      backlog = undefined;
      for (const bytes of waiting) fn(bytes);
      return () => void readers.delete(fn);
    },
    onClose: (fn) => {
      if (closed) fn(closed);
      else mourners.add(fn);
      return () => void mourners.delete(fn);
    },
    end: async () => {
      if (closed) return;
      await Promise.race([last, ended.promise]);
      if (!closed) wire.finish();
      await within(clock, END_MS + (wire.drainMs ?? 0), ended.promise, () => {
        if (!wire.leave) return wire.abort();
        wire.leave();
        isLeft = true;
        over({ by: "us", words: saying("closed_by_agent") });
      });
      await ended.promise;
    },
    destroy: () => {
      if (!closed || isLeft) wire.abort();
    },
    get closed() {
      return closed;
    },
  };
}
