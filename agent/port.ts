// The only file that opens a device: whatever is behind a port's URL becomes a duplex of bytes, and its errors become words.
import { Buffer } from "node:buffer";
import { constants, existsSync, type Stats, statSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import type { SerialPort } from "serialport";
import { codeOf } from "#shared/fault.ts";
import { saying } from "#shared/sayings.ts";
import { type Clock, pause, systemClock } from "./clock.ts";
import { type Closed, duplex, type Port, type Sink, type Wire, type Written } from "./duplex.ts";
import { type Address, parsePort } from "./port-url.ts";

export type PortOptions = {
  clock?: Clock;
  /** Nobody waits for it to open any more. */
  leaving?: AbortSignal;
};
type At<K extends Address["kind"]> = Extract<Address, { kind: K }>;

export const CONNECT_MS = 3_000;
const KEEPALIVE_MS = 10_000; // a scanner only ever speaks: without a question nobody would notice that it is gone

/** Opens what the URL names; rejects with a sentence for the operator. Every call opens anew. */
export async function openPort(url: string, { clock = systemClock, leaving }: PortOptions = {}): Promise<Port> {
  const address = parsePort(url);
  switch (address.kind) {
    case "tcp":
      return openTcp(address, clock, leaving);
    case "serial":
      return openSerial(address, clock);
    case "file":
      return openFile(address, clock);
  }
}

const WORDS: Record<string, string> = {
  ECONNREFUSED: saying("nothing_listens"),
  ECONNRESET: saying("dropped"),
  EPIPE: saying("takes_nothing"),
  ETIMEDOUT: saying("no_answer_network"),
  EHOSTUNREACH: saying("no_way_cable"),
  ENETUNREACH: saying("no_way_machine"),
  EHOSTDOWN: saying("no_answer_network"),
  ENOTFOUND: saying("no_such_name"),
  EAI_AGAIN: saying("no_name_server"),
  ENOENT: saying("no_such_device"),
  ENXIO: saying("nothing_at_end"),
  ENODEV: saying("device_gone"),
  EIO: saying("device_gone"),
  EBADF: saying("device_gone"),
  EACCES: saying("may_not_open"),
  EPERM: saying("may_not_open"),
  EBUSY: saying("held_by_other"),
  EISDIR: saying("is_folder"),
};

/** serialport's native half gives sentences where Node gives codes. */
const SENTENCES: [RegExp, keyof typeof WORDS][] = [
  [/cannot lock port/i, "EBUSY"],
  [/no such file/i, "ENOENT"],
  [/is a directory/i, "EISDIR"],
  [/bad file descriptor/i, "EBADF"],
  [/permission denied/i, "EACCES"],
];

function wordsOf(shown: string, error: Error & { code?: unknown }): string {
  const code = typeof error.code === "string" ? error.code : SENTENCES.find(([sentence]) => sentence.test(error.message))?.[1];
  const words = code === undefined ? undefined : WORDS[code];
  return `${shown}: ${words ? `${words} (${code})` : error.message}`;
}
const inWords = (shown: string, error: Error): Error => new Error(wordsOf(shown, error), { cause: error });
const lost = (shown: string, error: Error): Closed => ({ by: "fault", words: wordsOf(shown, error) });
const endedByUs: Closed = { by: "us", words: saying("closed_by_agent") };

// --- TCP

function openTcp({ host, port, shown }: At<"tcp">, clock: Clock, leaving?: AbortSignal): Promise<Port> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_MS });
    const refuse = (error: Error) => {
      settled();
      socket.destroy();
      reject(inWords(shown, error));
    };
    const leave = () => refuse(new Error(endedByUs.words));
    const settled = () => {
      cancel();
      leaving?.removeEventListener("abort", leave);
    };
    leaving?.addEventListener("abort", leave);
    const cancel = clock.after(CONNECT_MS, () => refuse(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" })));
    socket.once("error", refuse);
    socket.once("connect", () => {
      settled();
      socket.off("error", refuse);
      resolve(duplex(clock, (sink) => tcpWire(socket, shown, sink)));
    });
    if (leaving?.aborted) leave(); // before we listened
  });
}

function tcpWire(socket: Socket, shown: string, sink: Sink): Wire {
  let why: Closed = { by: "peer", words: `${shown}: ${saying("closed_by_peer")}` };
  socket.on("data", (bytes: Buffer) => sink.data(bytes));
  socket.on("error", (error) => (why = lost(shown, error)));
  socket.on("close", () => sink.closed(why));
  /** The reason comes with the end, not with the write that was cut. */
  const whenGone = (act: () => void) => (socket.closed ? act() : socket.once("close", act));
  const put = (chunk: Uint8Array) =>
    new Promise<Written>((resolve) => {
      if (!socket.writable) return void whenGone(() => resolve({ accepted: 0, fault: why.words }));
      let untouched = false;
      socket.write(chunk, (error) => {
        if (!error) resolve({ accepted: chunk.length });
        else whenGone(() => resolve({ accepted: untouched ? 0 : chunk.length, fault: why.words }));
      });
      // An error that stands when write() returns is the kernel's answer to this very call: it took none of the chunk.
      untouched = socket.errored !== null;
    });
  return {
    put,
    finish: () => {
      why = endedByUs;
      socket.end();
    },
    abort: () => {
      why = endedByUs;
      socket.resetAndDestroy();
    },
    leave: () => socket.unref(),
  };
}

// --- serial

const PRESENCE_MS = 1_000;
const TTY_BYTES = 4_096; // that a kernel holds of what was written to it
const BITS_A_BYTE = 11; // at most, with start, parity and stop

/** A port object of the library is good for one opening: after an unplug only a new one works. */
async function openSerial(address: At<"serial">, clock: Clock): Promise<Port> {
  const { SerialPort: Serial } = await import("serialport"); // a native library: loaded where there is a serial device
  const { path, baud: baudRate, dataBits, parity, stopBits, flow, shown } = address;
  const flows = { rtscts: flow === "rtscts", xon: flow === "xonxoff", xoff: flow === "xonxoff" };
  const serial = new Serial({ path, baudRate, dataBits, parity, stopBits, ...flows, lock: true, autoOpen: false });
  serial.on("error", () => {}); // without a listener a cancelled write ends the process; every fault reaches us by close or by a timer
  await new Promise<void>((resolve, reject) => {
    let late = false;
    const cancel = clock.after(CONNECT_MS, () => {
      late = true;
      reject(new Error(`${shown}: ${saying("didnt_open", { seconds: CONNECT_MS / 1000 })}`));
    });
    serial.open((error) => {
      cancel();
      if (error) reject(inWords(shown, error));
      else if (late) serial.close(); // nobody waits for it any more, and it would hold the lock
      else resolve();
    });
  });
  await setModemLines(serial, address);
  return duplex(clock, (sink) => serialWire(serial, address, sink, clock));
}

/** Pseudo-terminals and some adapters have no modem lines: not having them is no fault. */
const setModemLines = (serial: SerialPort, { dtr, rts }: At<"serial">): Promise<void> =>
  new Promise((resolve) => {
    if (dtr === undefined && rts === undefined) resolve();
    else serial.set({ ...(dtr === undefined ? {} : { dtr }), ...(rts === undefined ? {} : { rts }) }, () => resolve());
  });

/** Which device a name stands for now; one that is plugged in again is another. Windows' names stand for no file. */
function identityOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  return found ? `${found.dev} ${found.ino} ${found.rdev}` : "";
}

function serialWire(serial: SerialPort, { path, shown, baud }: At<"serial">, sink: Sink, clock: Clock): Wire {
  const unplugged: Closed = { by: "fault", words: `${shown}: ${saying("device_gone")}` };
  let closing = false;
  serial.on("data", (bytes: Buffer) => sink.data(bytes));
  serial.on("close", (error: (Error & { disconnected?: boolean }) | null) => {
    cancel();
    sink.closed(closing && !error?.disconnected ? endedByUs : unplugged);
  });
  // Unplugged while it reads, the library reads nothing for ever and never says so; that its name is gone does.
  const device = identityOf(path);
  const watch = (): (() => void) =>
    clock.after(PRESENCE_MS, () => {
      if (identityOf(path) === device) return void (cancel = watch());
      sink.closed(unplugged);
      serial.close();
    });
  let cancel = watch();
  const close = () => {
    closing = true;
    cancel();
    serial.close(() => sink.closed(endedByUs));
  };
  return {
    // After an unplug this never calls back: duplex() races it with the close and with its own timer.
    put: (chunk) =>
      new Promise((resolve) => {
        if (!serial.isOpen) return resolve({ accepted: 0, fault: `${shown}: ${saying("port_closed")}` });
        serial.write(Buffer.from(chunk), (error) =>
          resolve({ accepted: chunk.length, ...(error ? { fault: wordsOf(shown, error) } : {}) }),
        );
      }),
    finish: () => serial.drain(close),
    abort: () => serial.flush(close), // what stands unsent in the driver would keep the close waiting
    drainMs: (TTY_BYTES * BITS_A_BYTE * 1_000) / baud,
  };
}

// --- device files

const NO_WAIT = constants.O_NONBLOCK | constants.O_NOCTTY;
const READ_PAUSE_MS = 10;
const READ_MAX_BYTES = 65_536;

/** A USB printer's device is read and written, a FIFO or a plain file only written; nothing is ever created. */
async function openFile({ path, shown }: At<"file">, clock: Clock): Promise<Port> {
  try {
    const what = await stat(path);
    if (what.isDirectory()) throw new Error(saying("is_folder"));
    const [handle, readable] = await openToWrite(path, what);
    return duplex(clock, (sink) => fileWire(handle, readable, path, sink, clock));
  } catch (error) {
    throw inWords(shown, error as Error);
  }
}

async function openToWrite(path: string, what: Stats): Promise<[handle: FileHandle, readable: boolean]> {
  if (!what.isCharacterDevice()) return [await open(path, constants.O_WRONLY | constants.O_APPEND | NO_WAIT), false];
  const both = await open(path, constants.O_RDWR | NO_WAIT).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "EACCES" || error.code === "EINVAL") return undefined; // a one-way device
    throw error;
  });
  return both ? [both, true] : [await open(path, constants.O_WRONLY | NO_WAIT), false];
}

const isBusy = (error: unknown) => codeOf(error) === "EAGAIN";
const ONE_WAY = "EINVAL"; // a USB printer without a way back: it can be opened to be read, and not read

function fileWire(handle: FileHandle, readable: boolean, path: string, sink: Sink, clock: Clock): Wire {
  let isOpen = true;
  const close = async (why: Closed) => {
    if (!isOpen) return;
    isOpen = false;
    await handle.close().catch(() => {}); // a device that is gone can't be closed either
    sink.closed(why);
  };
  const read = async () => {
    const buffer = Buffer.alloc(READ_MAX_BYTES);
    while (isOpen) {
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, null).catch((error: unknown) => {
        if (isBusy(error)) return { bytesRead: 0 };
        throw error;
      });
      if (bytesRead > 0) sink.data(Buffer.from(buffer.subarray(0, bytesRead)));
      else if (!existsSync(path)) throw Object.assign(new Error("gone"), { code: "ENODEV" }); // a terminal that hung up reads as empty for ever
      if (bytesRead === 0) await pause(clock, READ_PAUSE_MS);
    }
  };
  if (readable) void read().catch((error: Error) => (codeOf(error) === ONE_WAY ? undefined : close(lost(path, error))));
  return {
    // The kernel counts for us here: what it says it took is what it took.
    put: async (chunk) => {
      try {
        return { accepted: (await handle.write(chunk)).bytesWritten };
      } catch (error) {
        if (isBusy(error)) return { accepted: 0 };
        void close(lost(path, error as Error));
        return { accepted: 0, fault: wordsOf(path, error as Error) };
      }
    },
    finish: () => void close(endedByUs),
    abort: () => void close(endedByUs),
  };
}
