// Zebra's language: the label as dots, the tag's EPC written and read back, and an answer in order that only this label can have caused.
import { Buffer } from "node:buffer";
import { hash, randomBytes } from "node:crypto";
import { saying } from "#shared/sayings.ts";
import type { Grade } from "#shared/states.ts";
import { type Clock, inTime } from "../clock.ts";
import type { Port } from "../duplex.ts";
import { dialogue, oneAtATime } from "./dialogue.ts";
import {
  type Capabilities,
  type Completion,
  type Counters,
  type Encoded,
  faultWords,
  isCut,
  NO_COUNTERS,
  noEncoder,
  type Outcome,
  overBytes,
  type Printer,
  type Profile,
  waitingWords,
  type Status,
  type Submission,
  timingOf,
  type Waiting,
} from "./driver.ts";
import { lexer, tidIn } from "./zpl-answers.ts";
import { formatOf, RFID_TRIES, UNFILLED } from "./zpl-format.ts";
import { healthOf } from "./zpl-health.ts";
import { variablesOf } from "./zpl-variables.ts";
import { capabilitiesOf, verdictsOf } from "./zpl-words.ts";

const FIELDS_MAX = 64;
const SETTLE_STEP_MS = 15;

type Heard = { value: string; at: number };
/** What came out since a label was sent, by the counters, and which labels are behind it. */
type Counted = { after: Counters; voids: number; labels: number | null; behind: string[] };

function overPort(port: Port, profile: Profile, clock: Clock): Printer {
  const timing = timingOf(profile);
  const verdict = verdictsOf(profile);
  const fields = new Map<string, Heard>();
  const variables = variablesOf(() => talk, timing.answerMs);
  const talk = dialogue(port, clock, lexer(), (answer) => {
    if (answer.kind === "sgd") variables.heard(answer.value);
    if (answer.kind !== "field" || answer.value === UNFILLED || fields.has(`${answer.token}${answer.what}`)) return; // the first counts
    fields.set(`${answer.token}${answer.what}`, { value: answer.value, at: clock.now() });
    for (const oldest of [...fields.keys()].slice(0, -FIELDS_MAX)) fields.delete(oldest);
  });
  const health = healthOf({ talk: () => talk, variables, clock, answerMs: timing.answerMs }, profile);
  const alone = oneAtATime();
  let fenceSeen = false;
  const mayHold = profile.inFlight ?? 1;
  const inFlight: string[] = []; // in the order in which they come out
  let lastAgreed: { labels: number; read: boolean } | undefined; // the counter where it explained all labels before those in flight

  async function preflight(): Promise<Status> {
    const now = await health.look();
    const status = { ...now, counters: await health.counters() };
    if ((status.waiting ?? 0) > 0 && inFlight.length === 0 && !status.faults.some(({ name }) => name === "labels-waiting"))
      status.faults.push({ name: "labels-waiting", words: saying("earlier_wait", { count: status.waiting ?? 0 }) });
    return { ...status, ready: status.faults.length > 0 ? false : status.ready };
  }

  async function probe(): Promise<Capabilities> {
    const model = await talk.ask("~HI", (answer) => (answer.kind === "identity" ? answer.words : undefined), timing.answerMs);
    const { source, counters } = await preflight();
    const counter = counters.labels !== null;
    const twoWay = model !== undefined || source.length > 0 || counter;
    const unit = counter ? await variables.unit() : undefined; // who tells no counter may not know such questions at all
    return capabilitiesOf(profile, { model, unit, twoWay, counter, status: source.length > 0, fenceSeen });
  }

  async function submit({ bytes, token, epc }: Encoded, mayLeave = () => true): Promise<Submission> {
    const offered = { token, ...(epc === undefined ? {} : { epc }), bytesOffered: bytes.length };
    const refused = (fault: string): Submission => ({
      ...offered,
      bytesAccepted: 0,
      retryable: true,
      before: NO_COUNTERS,
      at: clock.now(),
      fault,
    });
    const isBehind = inFlight.length > 0;
    if (isBehind && (inFlight.length >= mayHold || !health.hasTold("labels") || epc !== undefined))
      return refused(saying("another_in_flight"));
    if (health.usesHostStatus() === undefined) await health.look();
    const before = isBehind ? NO_COUNTERS : await health.counters(); // behind another one it is where that one leaves it
    if (!isBehind) lastAgreed = undefined;
    const silent = isBehind ? undefined : health.untold(before);
    if (silent)
      return refused(
        saying(silent === "labels" ? "labels_untold" : "voids_untold", {
          why: saying(variables.areTalkative() ? "more_answers" : "is_it_on"),
        }),
      );
    if (!mayLeave()) return refused(saying("nothing_left_station"));
    const at = clock.now();
    inFlight.push(token);
    const { accepted, fault } = await talk.send(bytes, timing.stallMs);
    if (accepted === 0) landed(token);
    return { ...offered, bytesAccepted: accepted, retryable: accepted === 0, before, at, ...(fault === undefined ? {} : { fault }) };
  }

  function landed(token: string): void {
    if (inFlight.includes(token)) inFlight.splice(inFlight.indexOf(token), 1);
  }

  async function awaitCompletion(offered: Submission, { withinMs = timing.completionMs, signal }: Waiting = {}): Promise<Completion> {
    const before = lastAgreed ? { labels: lastAgreed.labels, voids: null } : offered.before;
    const submission = { ...offered, before };
    const { token, epc } = submission;
    const awaited = `${token}${epc === undefined ? "F" : "E"}`;
    const done = (completion: Completion): Completion => {
      if (completion.outcome !== "blocked" && !isCut(submission)) landed(token);
      return completion;
    };
    if (submission.retryable) return done(verdict(submission, "failed", saying("nothing_left_station")));
    /** Each label that comes out void while it tries the tags has the whole time for the next. */
    const wait = (tried: number): Promise<Completion> =>
      inTime(clock, withinMs, async (isUp) => {
        for (;;) {
          const fence = fields.get(awaited);
          if (fence) return done(await judged(submission, fence));
          const lost = talk.closed();
          if (lost) return done(verdict(submission, "unknown", saying("lost_before_answer", { why: lost.words })));
          await talk.hear(
            (answer) => (answer.kind === "field" && `${answer.token}${answer.what}` === awaited ? true : undefined),
            timing.pollMs,
          );
          if (fields.has(awaited) || talk.closed()) continue;
          const stuck = await alone(() => whyNot(submission));
          if (fields.has(awaited)) continue;
          if (stuck) return done(stuck);
          if (!signal?.aborted && !isUp()) continue;
          const over = await alone(() => unanswered(submission));
          const { voids = 0 } = over.evidence;
          return epc !== undefined && voids > tried && !signal?.aborted ? wait(voids) : done(over);
        }
      });
    return wait(0);
  }

  /** No answer yet: because it can't print, or because every tag refused. */
  async function whyNot(submission: Submission): Promise<Completion | undefined> {
    const { faults } = await health.look();
    if (submission.epc !== undefined) {
      const now = await health.counters();
      const voids = moved(submission.before.voids, now.voids);
      if (voids !== null && voids >= (profile.rfidTries ?? RFID_TRIES) && moved(submission.before.labels, now.labels) === voids)
        return verdict(submission, "failed", saying("no_tag_took", { count: voids }), { after: now, voids, toDestroy: voids });
    }
    if (faults.length === 0) return undefined;
    return verdict(submission, "blocked", saying("printer_waits", { faults: faultWords(faults) }), { faults });
  }

  async function unanswered(submission: Submission): Promise<Completion> {
    const after = await health.counters();
    const labels = moved(submission.before.labels, after.labels);
    const voids = Math.max(0, moved(submission.before.voids, after.voids) ?? 0);
    const reason =
      labels === null
        ? saying("no_answer_for_label")
        : voids > 0
          ? saying("no_answer_moved_void", { count: labels, voids })
          : saying("no_answer_moved", { count: labels });
    return {
      ...verdict(submission, "unknown", reason, { after, voids, toDestroy: labels }),
      ...(talk.closed() ? {} : { unanswered: true }),
    };
  }

  /** The answer may come while the label is still moving: only once nothing waits does the counter tell of this label and not of one before it. */
  async function judged(submission: Submission, fence: Heard): Promise<Completion> {
    fenceSeen = true;
    return inTime(clock, timing.settleMs, async (isUp) => {
      for (;;) {
        const isOver = isUp(); // before it looks: one look comes after the time is up, whatever held this process up meanwhile
        const { waiting, faults, after } = await alone(async () => ({ ...(await health.look()), after: await health.counters() }));
        const behind = inFlight.filter((token) => token !== submission.token);
        const toldVoids = moved(submission.before.voids, after.voids);
        const voids = Math.max(0, toldVoids ?? 0);
        const labels = moved(submission.before.labels, after.labels);
        const isCounted = submission.before.voids === null || (toldVoids !== null && toldVoids >= 0); // a void label would pass for a stranger's, or for ours
        const isUntold = labels === null && submission.before.labels !== null && !isOver; // a question may go unanswered: it is asked again
        // One behind it that has answered is out as well: had the counter moved by fewer than have answered, one of them isn't, and nobody knows which.
        const isOut =
          !isUntold &&
          (isCounted || (labels ?? 0) < 0) &&
          (labels === null || labels < 0 || labels > voids + answeredOf(behind)) &&
          ((waiting !== null && waiting <= behind.length) || (!health.usesHostStatus() && faults.length === 0));
        if (isOut && !talk.closed()) return agreed(submission, fence, { after, voids, labels, behind });
        const why = faultWords(faults);
        if (why) return verdict(submission, "blocked", saying("answered_not_done", { faults: why }), { faults, after, voids });
        if (talk.closed() || isOver) {
          const count = labels === null ? saying("counter_untold") : saying("counter_moved_by", { count: labels });
          const reason = saying(isCounted ? "answered_but" : "answered_but_voids_untold", { count, waiting: waiting ?? saying("unknown") });
          return verdict(submission, "unknown", reason, { after, voids, toDestroy: labels });
        }
        await talk.pause(Math.min(timing.pollMs, SETTLE_STEP_MS));
      }
    });
  }

  const answeredOf = (tokens: string[]) => tokens.filter((token) => fields.has(`${token}F`)).length;

  function agreed({ token, epc, before }: Submission, fence: Heard, { after, voids, labels, behind }: Counted): Completion {
    const tid = tidIn(fields.get(`${token}T`)?.value);
    const readBack = fence.value.trim().toUpperCase();
    const tag = epc === undefined ? {} : { epc: readBack, ...(tid ? { tid } : {}) };
    const answered = { ...tag, answered_at: new Date(fence.at).toISOString() };
    const say = (outcome: Outcome, reason: string, toDestroy: number | null, grade: Grade = "E") =>
      verdict({ token, before }, outcome, reason, { after, voids, toDestroy, grade, answered });
    if (epc !== undefined && readBack !== epc.toUpperCase())
      return say("failed", saying("reads_back", { read: readBack, epc }), labels ?? 1);
    const also = answeredOf(behind);
    if (before.labels !== null && labels === 1 + voids + also) {
      const isRead = labels === 1 + voids;
      const wasRead = lastAgreed?.read ?? true;
      lastAgreed = { labels: before.labels + 1 + voids, read: isRead };
      if (isRead && wasRead) return say("confirmed", saying("answered_and_counted"), voids, "A");
      // The look came when the next one was out as well: the sum agrees, and this label's own place of the counter was never read.
      const reason = saying("answered_and_counted_many");
      return verdict({ token, before: NO_COUNTERS }, "confirmed", reason, { grade: "B", voids, toDestroy: voids, answered });
    }
    if (!health.hasTold("labels")) return say("confirmed", saying("answered_no_counter"), voids, "B");
    if (labels === null) return say("unknown", saying("answered_uncounted"), null);
    return say("unknown", saying("answered_miscounted", { moved: labels, explained: 1 + voids }), null);
  }

  return {
    probe: () => alone(probe),
    preflight: () => alone(preflight),
    encode: async (bitmap, { epc, token = randomBytes(4).toString("hex") } = {}) => {
      if (epc !== undefined && !profile.rfid) throw noEncoder(profile);
      const own = token.toUpperCase();
      if (!/^[0-9A-F]{8}$/.test(own)) throw new TypeError(`the token ${token} isn't eight hex digits`);
      const bytes = Buffer.from(formatOf(bitmap, own, profile, epc), "latin1");
      return { bytes, sha256: hash("sha256", bytes, "hex"), token: own, ...(epc === undefined ? {} : { epc }) };
    },
    submit: (encoded, mayLeave) => alone(() => submit(encoded, mayLeave)),
    awaitCompletion,
    flush: () =>
      alone(async () => {
        await talk.send("~JA", timing.answerMs);
        const { waiting, faults } = await health.look();
        const clean = waiting === 0;
        if (clean && faults.length > 0 && faults.every(({ name }) => name === "paused")) await talk.send("~PS", timing.answerMs);
        if (clean) inFlight.length = 0;
        return { clean, waiting, words: waitingWords(waiting), counters: await health.counters() };
      }),
    close: () => port.end(),
  };
}

const moved = (before: number | null, after: number | null): number | null => (before === null || after === null ? null : after - before);

export const driver = overBytes("zpl", ["tags", "several"], overPort);
