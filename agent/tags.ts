// The tags that readers of their own have read lately, and which of them is a label's.
import { saying } from "#shared/sayings.ts";
import { type Attempt, isAwaited } from "./attempt.ts";
import type { Floor } from "./floor.ts";
import { FIELD_MS, type HeardTag, judgeTag, type Tag } from "./rfid.ts";

const TAGS_KEPT = 200;
const NEAR = 200; // labels whose chips may still lie about

/** A label's tag; none where none is wanted, or what its printer says of it is still to come. Else why there is none, and whether to wait for it. */
type Told = { rfid?: HeardTag } | { words: string; wait: boolean };

export function tagsOf({ store }: Floor, hasReader: boolean) {
  const read: Tag[] = [];

  /** The last reading of each is kept: a reader that reads one tag hundreds of times a second forgets no other for it. False where it is no news. */
  function add(tag: Tag): boolean {
    const before = read.findIndex(({ reader, epc, tid }) => reader === tag.reader && epc === tag.epc && tid === tag.tid);
    const [earlier] = before >= 0 ? read.splice(before, 1) : [];
    read.push(tag);
    read.splice(0, read.length - TAGS_KEPT);
    // One that goes on being read is no news: what waits for its tag looks again by itself.
    return earlier === undefined || Date.parse(tag.read_at) - Date.parse(earlier.read_at) >= FIELD_MS;
  }

  /** Tags of labels that are sealed may lie next to this one; a chip that another label has isn't this one's, whatever is written on it now. */
  function chipsAbout({ attemptId, task }: Attempt): { usedTids: Set<string>; isOfSealed(tag: Tag): boolean } {
    const about = [...store.unheard(NEAR), ...store.recent(NEAR), ...store.allOfLink(task.digital_link)];
    const others = about.filter((one) => one.attemptId !== attemptId && one.work.rfid !== undefined);
    const exists = (one: Attempt) => store.labelsOf(one.attemptId).some(({ state }) => state !== "not_printed");
    const sealed = others.filter(({ ended, stage }) => ended === "sealed" || stage === "sealing").map(({ work }) => work.rfid);
    return {
      usedTids: new Set(others.filter(exists).flatMap(({ work }) => work.rfid?.tid ?? [])),
      isOfSealed: ({ epc, tid }) => sealed.some((one) => one?.epc === epc && (!one.tid || !tid || one.tid === tid)),
    };
  }

  /** A reader that isn't the printer's is the best witness there is. */
  function byReader(attempt: Attempt): Told {
    const { submittedAt = "", destroyedAt = "", rfid: written } = attempt.work;
    const epc = attempt.task.sgtin96_epc?.toUpperCase() ?? "";
    const { usedTids, isOfSealed } = chipsAbout(attempt);
    // What was read before a label of it was destroyed may have been that one's, which can carry the same EPC, unless the chip is the one that the printer wrote.
    const isSince = ({ read_at: at, tid }: Tag) => at >= submittedAt && (at > destroyedAt || (tid !== undefined && tid === written?.tid));
    const recent = read.filter((tag) => isSince(tag) && (tag.epc === epc || !isOfSealed(tag)));
    const latest = recent.at(-1);
    if (!latest) return { words: saying("tag_next"), wait: true };
    const verdict = judgeTag(epc, latest, { submittedAt, recent, usedTids, ...(written?.tid ? { printerTid: written.tid } : {}) });
    if (!verdict.good) return { words: verdict.words, wait: true };
    return { rfid: { ...verdict.evidence, ...(latest.simulated ? { simulated: true } : {}) } };
  }

  function tagOf(attempt: Attempt): Told {
    const { task, work } = attempt;
    if (!task.needs.includes("rfid")) return {};
    if (hasReader) return byReader(attempt);
    if (work.rfid) return { rfid: work.rfid };
    if (isAwaited(attempt)) return {}; // its word is added when it comes
    return { words: saying("tag_unread"), wait: false };
  }

  return { add, tagOf };
}
