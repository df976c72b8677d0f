// A camera that shows its picture at a URL: pulled, read, and a sighting where something new is in view.
import { hash } from "node:crypto";
import { constants } from "node:fs";
import { open as openFile } from "node:fs/promises";
import { reasonOf } from "#shared/fault.ts";
import { saying } from "#shared/sayings.ts";
import { bodyWithin } from "#shared/bounded-body.ts";
import { type Clock, instant, within } from "../clock.ts";
import { type PictureReader, pictureReader } from "../picture-reader.ts";
import { linkTold, pauseAfter } from "../reconnecting.ts";
import { type News, type Scanner, type ScannerDriver, type ScannerSettings, simulatedOf } from "./scanner.ts";

const EVERY_MS = 500;
const FRAME_MAX_MS = 3_000;
const READ_MAX_MS = 20_000; // of the largest size nothing but noise takes 5 s, and what shows a label one
const EMPTY_FRAMES = 2; // one may be blurred or dark, and the label lies there all the same
const FRAME_MAX_BYTES = 8_388_608;

export const camera: ScannerDriver = { sees: "symbols", port: "picture", checkPort, open };

function open(settings: ScannerSettings, news: News, clock: Clock): Scanner {
  const pull = pullerOf(settings.port);
  let failures = 0;
  let over = false;
  let cancel = () => {};
  let abort = new AbortController();
  const reader = pictureReader(clock);
  const tooSlow = () => {
    void reader.end();
    throw new Error(saying("picture_unread", { port: settings.port, seconds: READ_MAX_MS / 1000 }));
  };
  const looker = lookerOf(settings, news, clock, (picture) => within(clock, READ_MAX_MS, reader.read(picture), tooSlow));

  const { link, tell } = linkTold(saying("no_frame_yet"), (now) => {
    if (!over) news.link(settings.name, now);
  });
  const frame = async () => {
    abort = new AbortController();
    const late = () => {
      abort.abort();
      throw new Error(saying("camera_no_frame", { port: settings.port, seconds: FRAME_MAX_MS / 1000 }));
    };
    try {
      const bytes = await within(clock, FRAME_MAX_MS, pull(abort.signal), late);
      if (over) return;
      await looker(bytes);
      failures = 0;
      tell({ up: true });
    } catch (error) {
      failures += 1;
      tell({ up: false, why: (error as Error).message });
    }
  };
  const round = async (): Promise<void> => {
    await frame();
    if (over) return;
    const pauseMs = failures === 0 ? EVERY_MS : pauseAfter(failures - 1);
    cancel = clock.after(pauseMs, () => {
      rounds = round();
    });
  };
  let rounds = round();
  return {
    name: settings.name,
    link,
    end: async () => {
      over = true;
      cancel();
      abort.abort();
      await reader.end();
      await rounds;
    },
  };
}

/** Reads a frame and says what is new in it: a picture that repeats, byte for byte, is no new sighting. */
function lookerOf(settings: ScannerSettings, news: News, clock: Clock, read: PictureReader["read"]): (bytes: Uint8Array) => Promise<void> {
  let lastHash = "";
  let emptyAt: string | undefined;
  let empty = 0; // frames in a row
  let lastTrouble = "";
  return async (bytes) => {
    const image_sha256 = hash("sha256", bytes, "hex");
    if (image_sha256 === lastHash) return;
    const scanned_at = instant(clock);
    const { symbols, damaged, decoder, check } = await read(bytes);
    lastHash = image_sha256;
    const words = symbols.length === 0 && damaged[0] ? saying("symbol_unreadable", { why: damaged[0].why.split(" @")[0] ?? "" }) : "";
    if (words !== "" && words !== lastTrouble) news.trouble({ scanner: settings.name, at: scanned_at, words });
    lastTrouble = words;
    empty = symbols.length + damaged.length === 0 ? empty + 1 : 0;
    if (empty >= EMPTY_FRAMES) emptyAt = scanned_at;
    const [symbol] = symbols;
    if (!symbol) return;
    news.sighting({
      scanner: settings.name,
      source: "camera",
      text: symbol.text,
      symbology: symbol.symbology,
      decoder,
      scanned_at,
      in_view: symbols.length + Math.min(1, damaged.length), // one torn symbol may be met as several
      mirrored: symbol.isMirrored,
      inverted: symbol.isInverted,
      image: bytes,
      image_sha256,
      ...(emptyAt === undefined ? {} : { view_empty_at: emptyAt }),
      symbol,
      ...(check ? { symbol_check: check } : {}),
      ...simulatedOf(settings),
    });
  };
}

type Pull = (signal: AbortSignal) => Promise<Uint8Array>;

function checkPort(port: string): void {
  if (/^https?:\/\/[^/?#]*@/i.test(port)) throw new Error("can't hold a user name or password: no camera is asked with them");
  pullerOf(port);
}

/** Throws a sentence where the port isn't one of a camera's. */
function pullerOf(port: string): Pull {
  if (/^https?:\/\//i.test(port) && URL.canParse(port)) return (signal) => fetched(port, signal);
  const path = /^file:(?:\/\/(?=\/))?(\/.*)$/s.exec(port)?.[1];
  if (path !== undefined) return () => fileAt(path);
  throw new Error(`the port ${JSON.stringify(port)} of a camera is http(s)://… of a picture, or file:/path/of/a/picture`);
}

const tooLarge = (from: string) => new Error(saying("camera_too_large", { port: from, bytes: FRAME_MAX_BYTES }));

async function fetched(url: string, signal: AbortSignal): Promise<Uint8Array> {
  const answer = await fetch(url, { signal, redirect: "error", headers: { accept: "image/png, image/jpeg" } }).catch((error: Error) => {
    throw new Error(saying("camera_unreached", { url, why: reasonOf(error) }), { cause: error });
  });
  if (!answer.ok) {
    await answer.body?.cancel();
    throw new Error(saying("camera_answers", { url, status: answer.status }));
  }
  const kind = answer.headers.get("content-type") ?? "";
  if (/^(multipart|video)\//i.test(kind)) {
    await answer.body?.cancel();
    throw new Error(saying("camera_stream", { url, kind: kind.split(";")[0] ?? "" }));
  }
  return bodyWithin(answer, FRAME_MAX_BYTES, () => tooLarge(url));
}

async function fileAt(path: string): Promise<Uint8Array> {
  const handle = await openFile(path, constants.O_RDONLY | constants.O_NONBLOCK); // a pipe would wait for its writer, and a thread with it
  try {
    const what = await handle.stat();
    if (!what.isFile())
      throw new Error(`${path} isn't a picture's file: a device has no end, and is looked at by a program that serves its picture`);
    if (what.size > FRAME_MAX_BYTES) throw tooLarge(path);
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}
