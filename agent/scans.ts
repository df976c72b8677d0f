// From what a scanner saw to what it means for the label that was just printed; every scan gets an answer in words.
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { maySkip } from "./answers.ts";
import { askOf, type Attempt, isAwaited } from "./attempt.ts";
import { FIELD_MS, type Tag } from "./rfid.ts";
import { judgeScan } from "./scan-rules.ts";
import { scanResultOf } from "./scan-result.ts";
import type { Sighting, Trouble } from "./scanners/scanner.ts";
import { drawingOf } from "./drawing.ts";
import { instant } from "./clock.ts";
import { actorOf, type Floor } from "./floor.ts";
import { scanned } from "./steps.ts";
import type { Intended } from "./symbol-check.ts";
import { tagsOf } from "./tags.ts";
import { forgetTwin, outFrom, SEEN_AHEAD_MS } from "./twins.ts";

export type ScanAnswer = { moved: boolean; words: string; job_ref: string | null; why: string | null };
/** `n` moves with every piece of news; a camera that goes on seeing the same is none. */
type ScanNews = { n: number; at: string } & ScanAnswer;
export type Scans = ReturnType<typeof scansOf>;

/** `aheadSince`: when it was first scanned, where the printer hadn't answered for its label by then. */
type Awaiting = { seen: Sighting; operator: string | undefined; aheadSince: string | undefined; cancel(): void };
const NOTHING = { moved: false, job_ref: null, why: null };
/** What waits for its tag looks again so soon: where another has left the field it is seen before the next one comes by. */
const AGAIN_MS = FIELD_MS / 4;
const UNDER_WAY = new Set(["sending", "sent", "printed"]);
/** A camera goes on seeing the label that it has verified, for as long as it lies there. */
const STILL = new Set(["repeated", "not_sealed"]);
/** As far as is known here: the cloud may not have heard of it, but it hasn't refused it. */
const isSealed = ({ ended, stage }: Attempt): boolean => ended === "sealed" || (ended === null && stage === "sealing");
const BLOB_TYPES: [start: string, type: string][] = [
  ["89504e47", "image/png"],
  ["ffd8", "image/jpeg"],
];

export function scansOf(floor: Floor, { independentReader }: { independentReader: boolean }) {
  const { store, clock, say, news } = floor;
  const tags = tagsOf(floor, independentReader);
  const lastWords = new Map<string, ScanNews>();
  const lastText = new Map<string, string>();
  /** The last look of each scanner, where it told nothing new and so wasn't written down: it is as soon as a label is under way. */
  const unwritten = new Map<string, Sighting>();
  /** Labels whose symbol was right and whose tag has to be read, by their attempt: each printer may have one. */
  const awaiting = new Map<string, Awaiting>();
  const forget = (attemptId: string) => {
    awaiting.get(attemptId)?.cancel();
    awaiting.delete(attemptId);
  };

  function note(scanner: string, at: string, said: ScanAnswer, level: "debug" | "info" | "warn", isStill = false): void {
    const before = lastWords.get(scanner);
    const isNews = before?.words !== said.words || !isStill;
    lastWords.set(scanner, { n: (before?.n ?? 0) + Number(isNews), at, ...said });
    if (!isNews) return;
    say(level, { event: "scan", scanner }, `${scanner}: ${said.words}`);
    news.beat();
  }

  function sighting(seen: Sighting, operator?: string): ScanAnswer {
    const target = targetOf(seen);
    const before = unwritten.get(seen.scanner);
    if (target && before) store.sighting(before);
    const said = target ? judged(seen, target, operator) : unexpected(seen);
    writeDown(seen, target !== undefined);
    const isStill = seen.source === "camera";
    const isOld = isStill && STILL.has(said.why ?? "");
    note(seen.scanner, seen.scanned_at, said, said.moved ? "info" : isOld ? "debug" : "warn", isStill);
    return said;
  }
  function writeDown(seen: Sighting, isUnderWay: boolean): void {
    const { scanner, text } = seen;
    if (isUnderWay || lastText.get(scanner) !== text) {
      store.sighting(seen);
      unwritten.delete(scanner);
    } else unwritten.set(scanner, seen);
    lastText.set(scanner, text);
  }
  /** The label that was scanned, where it is under way; else the one that lies there; else the one that was sent last. */
  function targetOf({ text }: Sighting): Attempt | undefined {
    const open = store.inHand().filter(({ stage }) => UNDER_WAY.has(stage));
    return open.find(({ task }) => task.digital_link === text) ?? open.findLast(({ stage }) => stage === "printed") ?? open.at(-1);
  }

  function unexpected({ text }: Sighting): ScanAnswer {
    const known = store.allOfLink(text)[0];
    if (!known) return { moved: false, words: saying("none_waits"), job_ref: null, why: "unexpected" };
    const { jobRef, ended, stage } = known;
    const words = saying("moves_nothing", { job: jobRef, state: ended ?? stage });
    return { moved: false, words, job_ref: jobRef, why: isSealed(known) ? "repeated" : maySkip(known) ? "before_print" : "not_sealed" };
  }

  function judged(seen: Sighting, attempt: Attempt, operator: string | undefined): ScanAnswer {
    const { task, work, jobRef } = attempt;
    const refused = (why: string, words: string): ScanAnswer => ({ moved: false, words, job_ref: jobRef, why });
    const earlier = store.allOfLink(seen.text)[0];
    if (earlier && earlier.jobRef !== jobRef && isSealed(earlier))
      return refused("repeated", `this is the label of ${earlier.jobRef}, which is sealed; awaited is ${jobRef}`);
    const verdict = judgeScan(task, seen, {
      submittedAt: work.submittedAt ?? "9999-12-31T00:00:00.000Z",
      seen: store.seen(seen.scanner, [seen.text, task.digital_link], seen.image_sha256),
      ...accountedFor(attempt),
      ...outFrom(floor, attempt),
    });
    if (verdict.advance) return passed(seen, attempt, operator);
    if (verdict.why === "old_label" && askOf(attempt) !== "destroy_earlier")
      store.change(attempt.attemptId, { work: { otherSeenAt: seen.scanned_at } });
    return refused(verdict.why, verdict.words);
  }

  /** Until when labels of this serial that were seen are known to be gone, or to be another job's that is over. */
  function accountedFor({ jobRef, task }: Attempt): { destroyedAt?: string } {
    const instants = store.allOfLink(task.digital_link).flatMap((one) => {
      if (one.jobRef === jobRef) return one.work.destroyedAt ?? [];
      return one.ended === null ? [] : new Date(one.updatedAt).toISOString();
    });
    const last = instants.toSorted().at(-1);
    return last === undefined ? {} : { destroyedAt: last };
  }

  /** The symbol is this label's; what is left is its tag. */
  function passed(seen: Sighting, attempt: Attempt, operator: string | undefined): ScanAnswer {
    if (isOfEarlier(seen, attempt)) return scannedAnew(attempt);
    const { attemptId, jobRef } = attempt;
    const { aheadSince } = awaiting.get(attemptId) ?? {};
    forget(attemptId);
    const isAhead = isAwaited(attempt);
    if (!isAhead && aheadSince !== undefined && forgetTwin(floor, attempt, SEEN_AHEAD_MS + AGAIN_MS, aheadSince))
      return { moved: false, words: saying("earlier_first"), job_ref: jobRef, why: "old_label" };
    const tag = tags.tagOf(attempt);
    if ("words" in tag) {
      if (tag.wait) wait(attemptId, { seen, operator, aheadSince: isAhead ? (aheadSince ?? seen.scanned_at) : undefined });
      return { moved: false, words: tag.words, job_ref: jobRef, why: "tag" };
    }
    const result = scanResultOf(seen, { ...intendedOf(attempt, seen), ...(tag.rfid ? { rfid: tag.rfid } : {}) });
    const source = seen.source === "keyboard" ? "person" : "scanner";
    return store.write(() => {
      const said = scanned(floor, attemptId, { result, actor: actorOf(operator), source });
      const { early } = store.must(attemptId).work;
      // A camera has two pictures a second of a label that lies there: only that of the scan that counts is evidence.
      if (said.moved || early?.result.image_sha256 === seen.image_sha256) keepPicture(seen);
      return { ...said, job_ref: jobRef };
    });
  }

  const wait = (attemptId: string, waiting: Omit<Awaiting, "cancel">): void =>
    void awaiting.set(attemptId, { ...waiting, cancel: clock.after(AGAIN_MS, () => later(attemptId)) });

  /** The tag was read, or what else lay in the field may have been sealed meanwhile. */
  function again(attemptId: string, isStill = false): void {
    const waiting = awaiting.get(attemptId);
    const attempt = waiting && store.attempt(attemptId);
    if (!waiting || !attempt || attempt.ended !== null || !UNDER_WAY.has(attempt.stage)) return forget(attemptId);
    const { seen, operator } = waiting;
    const said = passed(seen, attempt, operator);
    note(seen.scanner, instant(clock), said, said.moved ? "info" : "warn", isStill);
  }
  /** The label that was scanned was destroyed since, or this one was sent anew: a tag was waited for, or a picture took long to read. */
  const isOfEarlier = ({ scanned_at: at }: Sighting, { work }: Attempt): boolean =>
    at < (work.submittedAt ?? "") || at <= (work.destroyedAt ?? "");
  function scannedAnew({ attemptId, jobRef }: Attempt): ScanAnswer {
    forget(attemptId);
    return { moved: false, words: saying("scan_anew"), job_ref: jobRef, why: "before_print" };
  }

  /** What can't be written down hasn't been seen: it has to be scanned again, and nothing else may end by it. */
  const safely =
    <T>(take: (what: T) => unknown) =>
    (what: T): void => {
      try {
        take(what);
      } catch (error) {
        say("error", { event: "scan" }, `a scan was lost: ${(error as Error).message}`);
      }
    };
  const later = safely((attemptId: string) => again(attemptId, true)); // the same word again is no news

  function read(tag: Tag): void {
    if (!tags.add(tag)) return;
    note(tag.reader, tag.read_at, { words: saying("tag_read", { epc: tag.epc }), ...NOTHING }, "debug");
    for (const attemptId of Array.from(awaiting.keys())) again(attemptId);
  }

  function intendedOf(attempt: Attempt, { symbol }: Sighting): { intended?: Intended } {
    const printer = floor.printers.find(({ name }) => name === attempt.printer);
    try {
      return symbol && printer ? { intended: drawingOf(floor, attempt, printer).symbol } : {};
    } catch (error) {
      if (error instanceof Refusal) return {}; // it was printed on other labels than are in the printer now, or by another version's template
      throw error;
    }
  }
  function keepPicture({ image, image_sha256: sha256 }: Sighting): void {
    if (!image || sha256 === undefined || image.byteLength > limits.BLOB_MAX_BYTES) return;
    const start = Buffer.from(image.subarray(0, 4)).toString("hex");
    store.picture(sha256, BLOB_TYPES.find(([head]) => start.startsWith(head))?.[1] ?? "application/octet-stream", image);
  }

  return {
    sighting,
    /** What the scanners say. */
    heard: {
      sighting: safely(sighting),
      tag: safely(read),
      trouble: ({ scanner, at, words, why }: Trouble): void =>
        note(scanner, at, { words, ...NOTHING, why: why ?? "not_text" }, "warn", why === undefined),
    },
    /** The last word about what each scanner saw. */
    last: (scanner: string): ScanNews | null => lastWords.get(scanner) ?? null,
    end: (): void => Array.from(awaiting.keys()).forEach(forget),
  };
}
