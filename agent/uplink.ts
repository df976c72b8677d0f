// Reports leave here, in order, until the cloud has said what became of each: offline is only a longer queue.
import { limits } from "#shared/limits.ts";
import { arrearsOf } from "./arrears.ts";
import { asides } from "./asides.ts";
import { batchesOf, type ResultRow } from "./batches.ts";
import type { Store } from "./buffer.ts";
import type { ReportRow } from "./buffer-reports.ts";
import type { CloudClient } from "./cloud.ts";
import { type Answer, connectionOf } from "./connection.ts";
import { fateOf, isAway, isPage, settles } from "./fates.ts";
import type { Floor } from "./floor.ts";
import { pulse } from "./pulse.ts";
import { settlingOf } from "./settling.ts";

type Picture = ReturnType<Store["nextPictures"]>[number];
export type Pauses = { firstMs: number; mostMs: number };
const PAUSES: Pauses = { firstMs: 1_000, mostMs: 30_000 };
const IDLE_MS = 1_000;
const PICTURES_ABREAST = 8; // at most: a slow line carries fewer within the time that a call may take
const WIDER_AFTER = 8; // rounds that went well: then one more goes at a time
const PICTURE_PAUSES = 10; // so long that those behind several that are too large have their turn, a whole call each
const ABREAST = 4; // calls on their way at once, of different attempts: some are judged while others travel
const BATCHES = 3 * ABREAST; // read at once

export type Uplink = ReturnType<typeof startUplink>;

export function startUplink(floor: Floor, cloud: CloudClient, pauses: Pauses = PAUSES) {
  const { store, clock, news, say } = floor;
  const connection = connectionOf(floor);
  let over = false;
  /** Until when the cloud asked us to wait (Retry-After), on any of the calls that are under way at once. */
  let notBefore = 0;
  const attemptsAside = asides(clock, pauses.mostMs);
  /** How often each report was sent. One that was sent before, perhaps by the run before this one, may get the answer of that time again: that renews no lease. */
  const departures = new Map<number, number>();
  const earlier = store.lastReport();
  const isFirst = ({ n }: ReportRow) => n > earlier && departures.get(n) === 1;
  const { settle, settleMany } = settlingOf(floor, attemptsAside, isFirst);
  const depart = (rows: readonly ReportRow[]) => rows.forEach(({ n }) => departures.set(n, 1 + (departures.get(n) ?? 0)));
  /** Reports in one call, which the cloud takes in one unit: a call that is too large for it would be so each time. */
  let chunk: number = limits.RESULTS_MAX_ITEMS;
  let isTooMuch = false;
  /** Reports that a page answered, and whether the cloud itself has answered anything since. */
  const disliked = new Map<number, boolean>();
  const stop = pulse(clock);
  const arrears = arrearsOf(store.depth().count > 0);

  function heard(said: Answer, askedAs: "us" | "anybody" = "us"): void {
    if (said.ok && askedAs === "us" && arrears.heard() && notBefore <= clock.now()) stop.beat();
    if (said.ok && askedAs === "us") for (const n of disliked.keys()) disliked.set(n, true);
    const wasAway = !connection.online();
    connection.heard(said, askedAs);
    if (wasAway && connection.online()) attemptsAside.forget(); // what took everything may have taken these as well
  }
  /** A firewall that dislikes one report lets others pass: none waits behind it, and it says nothing of the cloud. */
  function isDisliked({ n }: ReportRow, said: Answer): boolean {
    const isAgain = disliked.get(n) ?? false;
    disliked.delete(n);
    if (said.ok || !isPage(said)) return false;
    disliked.set(n, false);
    return isAgain;
  }
  function answered(said: Answer): void {
    heard(said);
    if (!said.ok) notBefore = Math.max(notBefore, clock.now() + (said.retryAfterMs ?? 0));
  }

  /** One round; says whether anything is left to say. */
  async function drain(): Promise<boolean> {
    for (;;) {
      const rows = store.waiting(chunk * BATCHES, attemptsAside.ids());
      const [first] = rows;
      if (!first) {
        if (arrears.allTold()) news.beat();
        for (const n of departures.keys()) if (!store.isWaiting(n) && departures.delete(n)) disliked.delete(n); // those aside are sent once more
        return false;
      }
      const results: ResultRow[] = [];
      for (const row of rows) {
        if (row.kind !== "result" || row.correlation !== null) break; // a click's goes under its own id
        results.push(row);
      }
      const before = chunk;
      const left = results.length > 1 ? await sendAll(batchesOf(results, chunk)) : await sendOne(first);
      news.beat();
      if (left) arrears.left({ isThere: connection.online(), isMoving: chunk < before || !store.isWaiting(first.n) });
      if (left) return true;
    }
  }

  /** Some calls at once, the next as soon as one is answered; says whether anything is left to say again. */
  async function sendAll(batches: ResultRow[][]): Promise<boolean> {
    let left = false;
    isTooMuch = false;
    const largest = Math.max(...batches.map(({ length }) => length));
    const caller = async () => {
      for (let batch = batches.shift(); batch && !left; batch = batches.shift()) if (await sendMany(batch)) left = true;
    };
    await Promise.all(Array.from({ length: ABREAST }, caller));
    chunk = isTooMuch ? Math.max(1, Math.floor(largest / 2)) : Math.min(limits.RESULTS_MAX_ITEMS, chunk * 2);
    return left;
  }

  async function sendOne(row: ReportRow): Promise<boolean> {
    const askedAt = clock.now();
    depart([row]);
    const said =
      row.kind === "result"
        ? await cloud.result(row.body, row.key, row.correlation)
        : await cloud.orphan(row.body, row.key, row.correlation);
    if (said.ok && row.correlation)
      say("info", { event: "told", job_ref: row.body.job_ref, requestId: row.correlation }, `${row.body.job_ref}: the cloud took it`);
    const isAlone = isDisliked(row, said);
    if (!isAlone) answered(said);
    return settle(row, said, askedAt, isAlone);
  }

  async function sendMany(fitting: ResultRow[]): Promise<boolean> {
    const askedAt = clock.now();
    depart(fitting);
    const said = await cloud.results(fitting.map(({ body, key }) => ({ ...body, idempotency_key: key })));
    const [first] = fitting as [ResultRow];
    if (fitting.length === 1 && isDisliked(first, said)) return settle(first, said, askedAt, true);
    answered(said);
    if (!said.ok) {
      isTooMuch ||= said.status === 0 || said.status === 413 || said.status >= 500 || isPage(said); // a proxy may take less than the cloud does
      // A batch that can't be taken as a whole is taken apart: one report tells what is wrong with it.
      return isAway(said) || sendOne(first);
    }
    return settleMany(fitting, said.value.results, askedAt);
  }

  /** Again and again; `send` says whether anything is left that has to wait. */
  async function rounds(send: () => Promise<boolean>): Promise<void> {
    for (let failures = 0; !over;) {
      const left = await send().catch((error: unknown) => {
        say("error", { event: "uplink" }, (error as Error).message);
        return true; // the buffer can't be written: what was answered is asked again later, under the same keys
      });
      if (over) return;
      failures = left ? failures + 1 : 0;
      const backOff = Math.min(pauses.mostMs, pauses.firstMs * 2 ** Math.min(failures - 1, 10)) * (0.5 + Math.random() / 2);
      if (left) await stop.next(Math.max(backOff, notBefore - clock.now()));
      else await Promise.race([news.next(IDLE_MS), stop.next(IDLE_MS)]);
    }
  }
  const sendPictures = picturesTo(cloud, floor, { asideMs: PICTURE_PAUSES * pauses.mostMs, answered, isOver: () => over });
  const running = Promise.all([rounds(drain), rounds(sendPictures)]);
  return {
    online: connection.online,
    stopped: connection.stopped,
    /** Every other call tells how it went, so that one truth is known of the connection. */
    heard,
    /** Whether what waits here is to be told before anything else is claimed. */
    goesFirst: arrears.goFirst,
    /** A claim found no cloud. */
    away: arrears.away,
    end: async () => {
      over = true;
      stop.beat();
      await running;
    },
  };
}

type PictureDeps = { asideMs: number; answered(said: Answer): void; isOver(): boolean };
/** Pictures are evidence too, but nothing waits for them. Says whether any is left that has to wait. */
function picturesTo(cloud: CloudClient, { store, clock }: Floor, { asideMs, answered, isOver }: PictureDeps): () => Promise<boolean> {
  const aside = asides(clock, asideMs);
  let abreast = PICTURES_ABREAST;
  let sentWell = 0; // times in a row
  async function send({ sha256, mediaType, bytes }: Picture): Promise<boolean> {
    const said = await cloud.picture(sha256, mediaType, bytes);
    answered(said);
    if (!said.ok) {
      const fate = fateOf(said);
      const isTooLarge = said.status === 0 && abreast === 1; // for the line, perhaps: it was alone on it
      if ((fate === "aside" || isTooLarge) && aside.put(sha256)) return false;
      const isOverflow = said.status === 413; // more than a few that are too large for a proxy would fill the disk
      if (!settles(fate) && !isOverflow) return true;
      store.quarantine({ jobRef: null, attemptId: null, code: said.code, message: said.message, what: `picture ${sha256}` });
    }
    store.pictureSent(sha256);
    return false;
  }
  return async () => {
    while (!isOver()) {
      const pictures = store.nextPictures(abreast, aside.ids());
      if (pictures.length === 0) return false;
      const left = (await Promise.all(pictures.map(send))).includes(true);
      sentWell = left ? 0 : sentWell + 1;
      if (left) abreast = Math.max(1, Math.floor(abreast / 2));
      else if (sentWell % WIDER_AFTER === 0) abreast = Math.min(PICTURES_ABREAST, abreast + 1);
      if (left) return true;
    }
    return false;
  };
}
