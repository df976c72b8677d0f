// Leases: whoever holds a job says so before half of its time is over, and makes sure of it before the first byte of a label leaves.
import type { Adoption } from "./adoption.ts";
import { type Attempt, isLying, paperMayExist } from "./attempt.ts";
import type { AgentConfig } from "./config.ts";
import type { Lease } from "./flight.ts";
import { lost } from "./ends.ts";
import type { Floor } from "./floor.ts";
import type { Talks } from "./standing.ts";
import { fateOf } from "./fates.ts";
import { startRounds } from "./rounds.ts";

const ROUND_MS = 500;
const LEASE_MARGIN = 0.15;

export type LeaseDeps = Talks & { config: AgentConfig; floor: Floor; adoption: Adoption };

export function leasesOf({ config, cloud, uplink, floor, adoption }: LeaseDeps) {
  const { store, clock } = floor;
  const unwritten = new Map<string, number>(); // leases that the cloud renewed and the buffer couldn't take
  /** Stumbled: over this one, and perhaps over no other. */
  async function beat(attempt: Attempt): Promise<Lease | "stumbled"> {
    const askedAt = clock.now();
    const { leaseSeconds } = config.claim;
    if (attempt.leaseUntil === 0 && (!paperMayExist(attempt) || isLying(attempt))) {
      const known = await adoption.catchUp(attempt); // of the run before
      if (known !== "known") return known;
    }
    const said = await cloud.heartbeat(attempt.jobRef, attempt.attemptId, leaseSeconds);
    uplink.heard(said);
    if (said.ok) {
      const { attemptId } = attempt;
      const leaseUntil = askedAt + leaseSeconds * 1_000;
      unwritten.set(attemptId, leaseUntil);
      if (store.attempt(attemptId)?.ended === null) store.change(attemptId, { leaseUntil, leaseSeconds });
      unwritten.delete(attemptId);
      return "alive";
    }
    const fate = fateOf(said);
    if (fate !== "drop") return fate === "aside" ? "stumbled" : "unknown";
    // Sealed or given up while we asked, it has no lease any more; what became of it is the answer to that word, which may still be on its way.
    const now = store.must(attempt.attemptId);
    if (now.stage === "sealing" || now.ended !== null) return "lost";
    lost(floor, attempt.attemptId, `${said.code}: ${said.message}`);
    return "lost";
  }
  const remains = ({ leaseUntil, leaseSeconds }: Pick<Attempt, "leaseUntil" | "leaseSeconds">) =>
    (leaseUntil - clock.now()) / (leaseSeconds * 1_000);
  /** So a full disk costs no job its lease, and no job is asked about all the time. */
  const isKept = ({ attemptId, leaseUntil, leaseSeconds }: Attempt): boolean =>
    remains({ leaseUntil: Math.max(leaseUntil, unwritten.get(attemptId) ?? 0), leaseSeconds }) > 0.5;
  async function keep(attempt: Attempt): Promise<Lease | "stumbled"> {
    try {
      return await beat(attempt);
    } catch (error) {
      floor.say("error", { event: "leases", job_ref: attempt.jobRef }, (error as Error).message);
      return "stumbled";
    }
  }

  let doubts = new Set<string | undefined>(); // until the cloud has said what is true of them
  const isDoubted = (jobRef: string | undefined, one: Attempt) => (jobRef === undefined ? !paperMayExist(one) : one.jobRef === jobRef);
  const { wake, end } = startRounds(clock, async (isOver) => {
    const doubted = [...doubts];
    doubts = new Set();
    try {
      for (const attempt of store.inHand()) {
        if (isOver()) break;
        if (isKept(attempt) && !doubted.some((jobRef) => isDoubted(jobRef, attempt))) continue;
        if ((await keep(attempt)) === "unknown") {
          doubts = new Set([...doubted, ...doubts]);
          break;
        }
      }
    } catch (error) {
      floor.say("error", { event: "leases" }, (error as Error).message);
    }
    return ROUND_MS;
  });
  return {
    /** Asks soon, whatever is left of its lease: of the job that is named, or of all that aren't begun. */
    doubt: (jobRef?: string): void => {
      doubts.add(jobRef);
      wake();
    },
    holds: async (attempt: Attempt): Promise<Lease> => {
      const now = store.attempt(attempt.attemptId);
      if (!now || now.ended !== null) return "lost";
      // That an envelope is over the cloud says: a clock that was set right by days would end them all.
      if (remains(now) > LEASE_MARGIN && now.envelopeUntil > clock.now()) return "alive";
      const said = await beat(now);
      return said === "stumbled" ? "unknown" : said;
    },
    end,
  };
}
