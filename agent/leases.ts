// Leases: whoever holds a job says so before half of its time is over, and makes sure of it before the first byte of a label leaves.
import type { Adoption } from "./adoption.ts";
import { type Attempt, paperMayExist } from "./attempt.ts";
import { maySkip } from "./answers.ts";
import { type AgentConfig, letGoMs } from "./config.ts";
import type { Lease } from "./flight.ts";
import { lost } from "./ends.ts";
import type { Floor } from "./floor.ts";
import type { Talks } from "./standing.ts";
import { fateOf } from "./fates.ts";
import { startRounds } from "./rounds.ts";

const ROUND_MS = 500;
const RENEW_SHARE = 0.5; // of a lease, once less of it is left
const LEAST_SHARE = 0.15; // with which a label is begun
const UNHEARD_MAX = 8; // labels that are verified, where something halfway takes their reports and lets a heartbeat pass; after an outage thousands wait
const ABREAST = 8; // one after another, the last of many would be too late on a slow line

export type LeaseDeps = Talks & { config: AgentConfig; floor: Floor; adoption: Adoption };

export function leasesOf({ config, cloud, uplink, floor, adoption }: LeaseDeps) {
  const { store, clock } = floor;
  let unwritableSince: number | undefined;
  /** Stumbled: over this one, and perhaps over no other. */
  async function beat(attempt: Attempt): Promise<Lease | "stumbled"> {
    const askedAt = clock.now();
    const { leaseSeconds } = config.claim;
    if (attempt.leaseUntil === 0 && attempt.stage !== "closing") {
      const known = await adoption.catchUp(attempt); // of the run before; what a person gave up is told as he said it
      if (known !== "known") return known;
    }
    const said = await cloud.heartbeat(attempt.jobRef, attempt.attemptId, leaseSeconds);
    uplink.heard(said);
    if (said.ok) {
      const now = store.attempt(attempt.attemptId);
      if (now?.ended === null) store.change(attempt.attemptId, { leaseUntil: askedAt + leaseSeconds * 1_000, leaseSeconds });
      return "alive";
    }
    const fate = fateOf(said);
    if (fate !== "drop") return fate === "aside" ? "stumbled" : "unknown";
    // Sealed or given up while we asked, it has no lease any more; what became of it is the answer to that word, which may still be on its way.
    const now = store.must(attempt.attemptId);
    if (now.stage === "sealing") store.change(attempt.attemptId, { leaseUntil: clock.now() }); // else it would be asked for again in each round
    if (now.stage === "sealing" || now.ended !== null) return "lost";
    lost(floor, attempt.attemptId, `${said.code}: ${said.message}`);
    return "lost";
  }
  const remains = ({ leaseUntil, leaseSeconds }: Attempt) => (leaseUntil - clock.now()) / (leaseSeconds * 1_000);
  /** What isn't begun others may do, where the buffer takes nothing for long. */
  const isLetGo = (attempt: Attempt): boolean =>
    unwritableSince !== undefined && clock.now() - unwritableSince > letGoMs(config) && maySkip(attempt);

  let doubts = new Set<string | undefined>(); // until the cloud has said what is true of them
  const named = namedLately(floor, config.claim.leaseSeconds * 1_000);
  const isDoubted = (jobRef: string | undefined, one: Attempt) => (jobRef === undefined ? !paperMayExist(one) : one.jobRef === jobRef);
  const complain = (fault: unknown) => floor.say("error", { event: "leases" }, (fault as Error).message);

  /** Some at a time, until one finds that the cloud can't be asked: true where that is so. */
  async function beatEach(due: Attempt[], isInDoubt: (one: Attempt) => boolean, isOver: () => boolean): Promise<boolean> {
    let isUnknown = false;
    let fault: unknown;
    const caller = async () => {
      for (let next = due.shift(); next && !isUnknown && !isOver(); next = due.shift()) {
        const attempt = next;
        const lease = await beat(attempt).catch((error: unknown) => {
          fault ??= error; // what the cloud said can't be written down: it is asked again, and the others keep their leases meanwhile
          if (isInDoubt(attempt)) doubts.add(attempt.jobRef);
        });
        if (lease === "unknown") isUnknown = true;
      }
    };
    await Promise.all(Array.from({ length: ABREAST }, caller));
    if (fault !== undefined) complain(fault);
    return isUnknown;
  }
  async function round(isOver: () => boolean): Promise<void> {
    const doubted = [...doubts];
    doubts = new Set();
    unwritableSince = store.fault() === null ? undefined : (unwritableSince ?? clock.now());
    const isInDoubt = (attempt: Attempt) => doubted.some((jobRef) => isDoubted(jobRef, attempt));
    const due = store.inHand().filter((one) => isInDoubt(one) || (remains(one) <= RENEW_SHARE && !isLetGo(one)));
    due.push(...store.unheard(UNHEARD_MAX).filter((one) => remains(one) <= RENEW_SHARE && remains(one) > 0));
    if (await beatEach(due, isInDoubt, isOver)) doubts = new Set([...doubted, ...doubts]);
  }
  const { wake, end } = startRounds(clock, async (isOver) => {
    await round(isOver).catch(complain);
    return ROUND_MS;
  });
  return {
    /** Asks soon, whatever is left of its lease: of the job that is named, or of all that aren't begun. */
    doubt: (jobRef?: string): void => {
      doubts.add(jobRef);
      if (jobRef !== undefined) named.add(jobRef);
      wake();
    },
    holds: async (attempt: Attempt): Promise<Lease> => {
      const now = store.attempt(attempt.attemptId);
      if (!now || now.ended !== null) return "lost";
      // A cloud that won't have us may have given our jobs to others, as those of a device that was removed, whatever is left of their leases.
      const isHad = uplink.stopped() === null;
      // That an envelope is over the cloud says: a clock that was set right by days would end them all.
      if (isHad && remains(now) > LEAST_SHARE && now.envelopeUntil > clock.now() && !named.hasSince(now)) return "alive";
      const first = await beat(now);
      const beaten = store.attempt(now.attemptId);
      const said = first === "alive" && beaten && named.hasSince(beaten) ? await beat(beaten) : first; // named while it was asked
      return said === "stumbled" ? "unknown" : said;
    },
    end,
  };
}

/** Jobs that were named, as they may have been cancelled: what was asked of a lease before that says nothing any more, nor does a claim that is answered only then. */
function namedLately({ clock }: Floor, leaseMs: number) {
  const namedAt = new Map<string, number>();
  return {
    add: (jobRef: string): void => {
      const now = clock.now();
      namedAt.delete(jobRef); // kept in the order of their times, so that the first that is young enough ends the round below
      namedAt.set(jobRef, now);
      for (const [ref, at] of namedAt) {
        if (now - at <= leaseMs) break; // no lease is older
        namedAt.delete(ref);
      }
    },
    /** Whether its job was named after its lease was asked for last. */
    hasSince: ({ jobRef, leaseUntil, leaseSeconds }: Attempt): boolean =>
      (namedAt.get(jobRef) ?? -Infinity) >= leaseUntil - leaseSeconds * 1_000,
  };
}
