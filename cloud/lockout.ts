// Who guesses secrets is refused for a while before the next guess is looked at. Kept in memory: each node counts what it sees.
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";

export type Lockout = {
  /** Refuses whoever has been wrong too often, whether or not they would be right this time. `who` is the client that they say they are; a key names nobody. */
  admit(who: string | undefined, address: string): void;
  /** These two refuse likewise: whoever guesses many times at once was admitted before any of it was known to be wrong. */
  wrong(who: string | undefined, address: string): void;
  right(who: string | undefined, address: string): void;
};

const KEPT = 50_000;

/** The instants of what went wrong lately, by a name. */
function tallies(now: () => number) {
  const wrong = new Map<string, number[]>();
  const recent = (name: string) => (wrong.get(name) ?? []).filter((at) => at > now() - limits.WRONG_SECRETS_WINDOW_MS);
  return {
    /** How long until one more would be within `most`; 0 where it is. */
    waitMs: (name: string, most: number): number => {
      const oldest = recent(name).at(-most);
      return oldest === undefined ? 0 : oldest + limits.WRONG_SECRETS_WINDOW_MS - now();
    },
    add: (name: string, most: number): void => {
      const all = [...recent(name), now()].slice(-most);
      wrong.delete(name); // so that the oldest come first
      if (wrong.size >= KEPT) wrong.delete(wrong.keys().next().value as string);
      wrong.set(name, all);
    },
  };
}

export function lockout(now: () => number = () => performance.now()): Lockout {
  const { waitMs, add } = tallies(now);
  const proven = new Set<string>();
  const pairOf = (who = "", address: string) => `${address} as ${who}`;
  // One broken client must not shut out its neighbours behind the same address, and a stranger must shut out neither a client that has proved itself nor all who have keys.
  const rules = (who: string | undefined, address: string) => {
    const pair = { name: pairOf(who, address), most: limits.WRONG_SECRETS_PAIR_MAX };
    const wide = [address, ...(who === undefined ? [] : [`all as ${who}`])].map((name) => ({ name, most: limits.WRONG_SECRETS_WIDE_MAX }));
    return proven.has(pair.name) ? [pair] : [pair, ...wide];
  };
  const admit = (who: string | undefined, address: string) => {
    const waits = rules(who, address).map(({ name, most }) => ({ most, ms: waitMs(name, most) }));
    const [longest] = waits.toSorted((a, b) => b.ms - a.ms);
    if (!longest || longest.ms <= 0) return;
    const seconds = String(Math.ceil(longest.ms / 1_000));
    throw new Refusal("RATE_LIMITED", saying("too_many_secrets", { seconds }), undefined, {
      "x-ratelimit-limit": String(longest.most),
      "x-ratelimit-remaining": "0",
      "x-ratelimit-reset": seconds,
      "retry-after": seconds,
    });
  };
  return {
    admit,
    wrong: (who, address) => {
      admit(who, address);
      rules(who, address).forEach(({ name, most }) => add(name, most));
    },
    right: (who, address) => {
      admit(who, address);
      if (proven.size >= KEPT) proven.clear();
      proven.add(pairOf(who, address));
    },
  };
}
