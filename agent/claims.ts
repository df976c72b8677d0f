// Claims: as many jobs ahead as the line needs not to wait for the network, each believed only on its envelope.
import { randomUUID } from "node:crypto";
import type { ClaimBatch, Claimed } from "#shared/wire/jobs.ts";
import { maySkip } from "./answers.ts";
import { askOf, type Attempt, paperMayExist } from "./attempt.ts";
import { letGoMs, type PrinterConfig } from "./config.ts";
import { verifyEnvelope } from "./envelope.ts";
import { isOfAnother, isRefusal } from "./fates.ts";
import type { Floor } from "./floor.ts";
import type { LeaseDeps } from "./leases.ts";
import { startRounds } from "./rounds.ts";
import type { CloudTime } from "./cloud-time.ts";
import type { Standing } from "./standing.ts";
import { printersFor, takersOf } from "./template.ts";
import { warinessOf } from "./wariness.ts";

const POLL_MS = 2_000; // until the cloud has said otherwise
const INFO_MS = 300_000;
const ALONE_AGAIN_MS = 300_000; // until another job is claimed where the answer for one alone never came
const WIDER_AFTER = 8; // answers that brought as many: then twice as many jobs are asked for at a time
const ASIDE_MAX = 50; // jobs that wait for a person, or for a printer that doesn't work now, before they can even begin

/** `forMs`: until another is asked in its place, where that isn't after half a lease. */
export type Asked = { key: string; body: ClaimBatch; at: number; forMs?: number };
type ClaimDeps = LeaseDeps & {
  standing: Standing;
  time: CloudTime;
  /** The printers that could print now. */
  working(): PrinterConfig[];
  paused(): boolean;
};

export function claimsOf(deps: ClaimDeps) {
  const { config, cloud, uplink, standing, floor, time, adoption, working, paused } = deps;
  const { store, clock, news, say } = floor;
  let wasEmpty = false;
  /** The same request until it is answered, over a restart as well: a lost answer's jobs come again instead of waiting for their leases to end. */
  let asked = store.kept("unanswered_claim");
  let keptKey = asked?.key;
  function keep(unanswered: Asked | null): void {
    asked = unanswered;
    if (asked?.key !== keptKey) store.keep("unanswered_claim", asked);
    keptKey = asked?.key;
  }
  /** As many jobs as one answer is known to bring over this line: what is claimed and doesn't come is an attempt less that each has. */
  let carried = Infinity;
  let answered = 0; // claims, with as many
  let infoAt = -Infinity;
  const wariness = warinessOf(floor);

  const ahead = () => store.inHand().filter((one) => !paperMayExist(one));
  const blocked = () => working().length === 0;
  /** How many more the printers that work need, so that each has labels ready; what none of them may take keeps none of them waiting. */
  function room(): number {
    const names = new Set(working().map(({ name }) => name));
    const waiting = ahead();
    const isNext = (one: Attempt) => askOf(one) === null && printersFor(floor, one).some((name) => names.has(name));
    const next = waiting.filter(isNext).length;
    const most = standing.info()?.limits.claims ?? config.claim.ahead;
    return waiting.length - next >= ASIDE_MAX ? 0 : Math.min(config.claim.ahead * names.size - next, most);
  }
  const hasRoom = roomIn(floor);
  const mayClaim = () => hasRoom() && !paused() && uplink.stopped() === null && !blocked();

  async function claim(most: number): Promise<number> {
    const needs: ClaimBatch["needs"] = working().some(({ rfid }) => rfid) ? ["qr", "rfid"] : ["qr"];
    const { leaseSeconds } = config.claim;
    const halfMs = leaseSeconds * 500;
    const ageMs = clock.now() - (asked?.at ?? -Infinity); // below zero where the clock was ahead when it was asked: how old it is nobody knows
    const isAnew = !asked || ageMs < 0 || ageMs > (asked.forMs ?? halfMs);
    if (asked && isAnew) [carried, answered] = [1, 0];
    if (!asked || isAnew)
      asked = {
        key: randomUUID(),
        at: clock.now(),
        body: { needs, max: Math.min(most, carried), lease_seconds: leaseSeconds, ...(config.station ? { station: config.station } : {}) },
        ...(asked ? { forMs: Math.max(halfMs, ALONE_AGAIN_MS) } : {}),
      };
    const { key, body, at } = asked;
    const said = await cloud.claim(body, key);
    uplink.heard(said);
    if (!said.ok) {
      if (said.status === 0 || isOfAnother(said)) uplink.away();
      keep(isRefusal(said) ? null : asked);
      return 0;
    }
    // Said again, the answer may be of then: a job may have been cancelled since, and how long ago a run before this one asked nobody knows.
    const leaseUntil = isAnew ? at + leaseSeconds * 1_000 : 0;
    for (const claimed of said.value.claims) await take(claimed, leaseUntil);
    keep(null);
    const came = said.value.claims.length;
    if (came >= carried) answered += 1; // one with fewer proves nothing
    if (answered === WIDER_AFTER) [carried, answered] = [carried * 2, 0];
    return came;
  }

  async function verified(claimed: Claimed) {
    const judge = () =>
      verifyEnvelope(claimed, { keys: standing.keys() ?? { keys: [] }, deviceId: standing.info()?.device.id ?? "", now: time.now() });
    const first = await judge();
    if (first.good || !first.unknownKey) return first;
    // It is claimed again under the same key, and not called false for want of them.
    if (!(await standing.refreshKeys()))
      throw new Error("what is claimed can't be judged yet: the cloud signs with a key that can't be had");
    return judge();
  }
  async function take(claimed: Claimed, leaseUntil: number): Promise<void> {
    const { job, attempt_id: attemptId, envelope } = claimed;
    const verdict = await verified(claimed);
    if (!verdict.good) {
      const message = `the envelope of ${job.job_ref} isn't to be trusted: ${verdict.why}`;
      store.quarantine({ jobRef: job.job_ref, attemptId, code: "ENVELOPE_REFUSED", message, what: envelope });
      wariness.distrusts(job.job_ref);
      say("error", { event: "envelope", job_ref: job.job_ref }, message);
      return; // its lease ends by itself; a stranger's claim deserves no answer
    }
    wariness.trusts();
    const { leaseSeconds } = config.claim;
    const taken = store.take({
      attemptId,
      task: verdict.task,
      envelope,
      leaseSeconds,
      leaseUntil,
      envelopeUntil: verdict.until - (time.skew() ?? 0),
    });
    if (taken) say("info", { event: "claimed", job_ref: job.job_ref, attempt: verdict.task.attempt }, `claimed ${job.job_ref}`);
    if (taken && store.must(attemptId).work.sealedBefore)
      say(
        "warn",
        { event: "sealed_before", job_ref: job.job_ref },
        `${job.job_ref}: a label of ${job.serial} was sealed here, and the cloud doesn't know it any more`,
      );
    news.beat();
  }

  const letGo = lettingGo(floor, letGoMs(config));
  let isHeld = false;
  async function round(): Promise<void> {
    if (clock.now() - infoAt > INFO_MS || !standing.info() || !standing.keys()) {
      await standing.refresh();
      await standing.refreshKeys();
      if (uplink.online()) infoAt = clock.now();
    }
    const deviceId = standing.info()?.device.id;
    if (deviceId === undefined || !standing.keys()) return;
    if (adoption.isDue() && (!hasRoom() || !(await adoption.run(deviceId)))) return;
    letGo(ahead(), { all: blocked() || paused(), tags: !working().some(({ rfid }) => rfid) });
    isHeld = uplink.goesFirst();
    if (isHeld) return uplink.stopped() === null ? standing.refresh() : undefined; // asks no more than whether the cloud is there again
    const most = mayClaim() ? Math.min(room(), wariness.most(), carried) : 0;
    const came = most > 0 ? await claim(most) : 0;
    if (came > 0) wariness.claimed();
    wasEmpty = came < most;
    if (came === carried) wake(); // printers that begin none of these may wait for the next ones
  }
  const { wake, end } = startRounds(clock, async () => {
    try {
      await round();
    } catch (error) {
      say("error", { event: "claims" }, (error as Error).message);
    }
    return standing.info()?.poll_interval_ms ?? POLL_MS;
  });
  news.onBeat(() => {
    if (isHeld && !uplink.goesFirst()) wake();
  });
  return {
    /** Work waits: claim now rather than at the next poll. */
    wake,
    wary: wariness.distrusted,
    refused: wariness.refused,
    hungry: () => {
      if (!wasEmpty) wake();
    },
    end,
  };
}

/** Whether what a claim brings could be written down; said once. */
function roomIn({ store, say }: Floor): () => boolean {
  let told = false;
  return () => {
    const is = store.probe();
    if (!is && !told) say("error", { event: "disk" }, `no more jobs are claimed: ${store.fault()}`);
    if (is && told) say("info", { event: "disk" }, "the buffer can be written again");
    told = !is;
    return is;
  };
}

/** `all`: no printer can print, or the station is paused. `tags`: none that works writes tags. */
type Standstill = { all: boolean; tags: boolean };
/** What waits behind a printer that can't print for so long, or at a station that was paused, others could do: labels with tags also where other printers work. */
function lettingGo(floor: Floor, afterMs: number): (ahead: Attempt[], stands: Standstill) => void {
  const { store, clock } = floor;
  const since = { all: Infinity, tags: Infinity };
  return (ahead, stands) => {
    for (const what of ["all", "tags"] as const) since[what] = stands[what] ? Math.min(since[what], clock.now()) : Infinity;
    for (const attempt of ahead.filter(maySkip)) {
      const from = Math.min(since.all, attempt.task.needs.includes("rfid") ? since.tags : Infinity);
      const isOfOthers = takersOf(floor, attempt).length === 0; // the settings are others now
      if (isOfOthers || clock.now() - Math.max(attempt.createdAt, from) > afterMs) store.change(attempt.attemptId, { ended: "let go" });
    }
  };
}
