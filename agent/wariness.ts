// What comes to nothing again and again is tried less: jobs whose envelopes aren't to be trusted, labels of which the cloud won't hear.
import { isQuarantined } from "./attempt.ts";
import type { Floor } from "./floor.ts";

/** Jobs in a row: what is wrong isn't theirs, and each more that is claimed is an attempt less that it has. */
const DISTRUSTED_MAX = 3;
/** Labels in a row: each more is paper for nothing. */
const REFUSED_MAX = 3;
const AGAIN_MS = 300_000; // until one is tried all the same
const UNSEEN_MAX = 50; // as many as are shown

export function warinessOf({ store, clock }: Floor) {
  const begunAt = clock.now(); // with other settings, perhaps
  const distrusted = new Set<string>();
  let distrustedAt = -Infinity;
  let claimedAt = -Infinity; // in spite of refusals: of that one nothing may be heard yet
  const isDistrustful = () => distrusted.size >= DISTRUSTED_MAX;
  /** When the cloud refused what it was told of the last of so many labels, where it refused it of all of them and nobody has seen to that; else null. */
  function refusedAt(): number | null {
    const last = store.recent(REFUSED_MAX).filter((one) => isQuarantined(one) && one.updatedAt >= begunAt);
    if (last.length < REFUSED_MAX) return null;
    const unseen = new Set(store.quarantined(UNSEEN_MAX).map((row) => row.attempt_id));
    return last.some(({ attemptId }) => unseen.has(attemptId)) ? (last[0]?.updatedAt ?? null) : null;
  }
  /** Since when nothing is claimed for the one reason or the other. */
  function inVainSince(): number {
    const refusedLast = refusedAt();
    return Math.max(isDistrustful() ? distrustedAt : -Infinity, refusedLast === null ? -Infinity : Math.max(refusedLast, claimedAt));
  }

  return {
    distrusts: (jobRef: string): void => {
      distrusted.add(jobRef);
      distrustedAt = clock.now();
    },
    trusts: (): void => distrusted.clear(),
    claimed: (): void => {
      if (refusedAt() !== null) claimedAt = clock.now();
    },
    /** How many may be claimed now. */
    most: (): number => {
      const since = inVainSince();
      if (since === -Infinity) return Infinity;
      return clock.now() - since > AGAIN_MS ? 1 : 0;
    },
    /** How many jobs in a row weren't to be trusted, where that keeps it from claiming more. */
    distrusted: () => (isDistrustful() ? distrusted.size : null),
    /** Of how many labels in a row the cloud won't hear, where that keeps it from claiming more. */
    refused: () => (refusedAt() === null ? null : REFUSED_MAX),
  };
}
