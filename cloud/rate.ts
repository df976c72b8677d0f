// Rate budgets: a token bucket per credential, sized by its tier; the plugin speaks the headers and the 429.
import type { FastifyRateLimitStore, FastifyRateLimitStoreCtor } from "@fastify/rate-limit";
import type { FastifyReply, FastifyRequest } from "fastify";
import { TokenBucket } from "limiter";
import { burstOf, tiers } from "#shared/limits.ts";
import { MINUTE_MS, type Spending } from "./domain/rate-budgets.ts";

const BUCKETS_KEPT = 50_000;

function fullBucket(perMinute: number): TokenBucket {
  const bucket = new TokenBucket({ bucketSize: burstOf(perMinute), tokensPerInterval: perMinute, interval: MINUTE_MS });
  bucket.content = bucket.bucketSize;
  return bucket;
}

export type Budgets = {
  /** Takes one of the key's bucket, made full when first asked for, if there is one. */
  take(key: string, perMinute: number): { isAllowed: boolean; bucket: TokenBucket };
  /** What was let through and not told yet, of so many keys at most; only where it is shared. */
  spent(mostKeys: number): Spending[];
  /** Couldn't be told: it is told later. */
  keep(spendings: readonly Spending[]): void;
  /** What all nodes together left in the buckets. */
  level(left: ReadonlyMap<string, number>): void;
};
export function budgets({ areShared = false } = {}): Budgets {
  const buckets = new Map<string, TokenBucket>();
  const untold = new Map<string, Spending>();
  const note = ({ key, perMinute, tokens }: Spending) => {
    if (areShared) untold.set(key, { key, perMinute, tokens: tokens + (untold.get(key)?.tokens ?? 0) });
  };
  return {
    take: (key, perMinute) => {
      let bucket = buckets.get(key);
      if (!bucket) {
        if (buckets.size >= BUCKETS_KEPT) buckets.delete(buckets.keys().next().value as string);
        bucket = fullBucket(perMinute);
        buckets.set(key, bucket);
      }
      const isAllowed = bucket.tryRemoveTokens(1);
      if (isAllowed) note({ key, perMinute, tokens: 1 });
      return { isAllowed, bucket };
    },
    spent: (mostKeys) => {
      const told = untold.values().take(mostKeys).toArray();
      for (const { key } of told) untold.delete(key);
      return told;
    },
    keep: (spendings) => {
      for (const spending of spendings) {
        note(spending);
        const [bucket, late] = [buckets.get(spending.key), untold.get(spending.key)];
        if (!bucket || !late) continue;
        bucket.drip(); // what has been filled again meanwhile is paid back
        late.tokens = Math.min(late.tokens, bucket.bucketSize - bucket.content);
      }
    },
    level: (left) => {
      for (const [key, tokens] of left) {
        const bucket = buckets.get(key);
        if (!bucket) continue;
        bucket.drip(); // up to now: what comes next is counted from here
        bucket.content = Math.min(bucket.bucketSize, tokens - (untold.get(key)?.tokens ?? 0));
      }
    },
  };
}

/** Counts a request against its budget, and throws where there is none left. */
export type Limit = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** The plugin asks for "how many of max are used": max minus what is left in the bucket; one more than max when it is empty. */
export function bucketStore({ take }: Budgets): FastifyRateLimitStoreCtor {
  const store: FastifyRateLimitStore = {
    incr(
      key: string,
      answer: (error: Error | null, result?: { current: number; ttl: number }) => void,
      _window?: number,
      perMinute: number = tiers.anonymous,
    ) {
      const { isAllowed, bucket } = take(key, perMinute);
      const used = isAllowed ? perMinute - Math.floor(bucket.content) : perMinute + 1;
      const waitMs = () => Math.max(1, bucket.getWaitTime(1)); // what was refused a moment ago may be there by now: "come back in 0 s" helps nobody
      const ttl = isAllowed ? (bucket.bucketSize - bucket.content) * (MINUTE_MS / perMinute) : waitMs();
      answer(null, { current: used, ttl });
    },
    child: () => store,
  };
  return function Buckets() {
    return store;
  } as unknown as FastifyRateLimitStoreCtor;
}
