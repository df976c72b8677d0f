// Rate budgets: a token bucket per credential, sized by its tier; the plugin speaks the headers and the 429.
import type { FastifyRateLimitStore, FastifyRateLimitStoreCtor } from "@fastify/rate-limit";
import { TokenBucket } from "limiter";
import { BURST_SHARE, tiers } from "#shared/limits.ts";

const BUCKETS_KEPT = 50_000;
const MINUTE_MS = 60_000;

const burstOf = (perMinute: number) => Math.max(1, Math.floor(perMinute * BURST_SHARE));

function fullBucket(perMinute: number): TokenBucket {
  const bucket = new TokenBucket({ bucketSize: burstOf(perMinute), tokensPerInterval: perMinute, interval: MINUTE_MS });
  bucket.content = bucket.bucketSize;
  return bucket;
}

export type Budgets = (key: string, perMinute: number) => { isAllowed: boolean; bucket: TokenBucket };
/** A bucket a key, made full when first asked for; takes one from it if there is one. */
export function budgets(): Budgets {
  const buckets = new Map<string, TokenBucket>();
  return (key, perMinute) => {
    let bucket = buckets.get(key);
    if (bucket?.tokensPerInterval !== perMinute) {
      if (buckets.size >= BUCKETS_KEPT) buckets.delete(buckets.keys().next().value as string);
      bucket = fullBucket(perMinute);
      buckets.set(key, bucket);
    }
    return { isAllowed: bucket.tryRemoveTokens(1), bucket };
  };
}

/** The plugin asks for "how many of max are used": max minus what is left in the bucket; one more than max when it is empty. */
export function bucketStore(): FastifyRateLimitStoreCtor {
  const take = budgets();
  const store: FastifyRateLimitStore = {
    incr(
      key: string,
      answer: (error: Error | null, result?: { current: number; ttl: number }) => void,
      _window?: number,
      perMinute: number = tiers.anonymous,
    ) {
      const { isAllowed, bucket } = take(key, perMinute);
      const used = isAllowed ? perMinute - Math.floor(bucket.content) : perMinute + 1;
      const ttl = isAllowed ? (bucket.bucketSize - bucket.content) * (MINUTE_MS / perMinute) : bucket.getWaitTime(1);
      answer(null, { current: used, ttl });
    },
    child: () => store,
  };
  return function Buckets() {
    return store;
  } as unknown as FastifyRateLimitStoreCtor;
}
