// What routes and the pipeline are lent by whoever starts them: an object literal of start.ts, or of a test.
import type { Anchor } from "./adapters/anchor.ts";
import type { Broker } from "./adapters/broker.ts";
import type { Registry } from "./adapters/registry.ts";
import type { Authenticate } from "./auth.ts";
import type { Keys } from "./keys.ts";
import type { Lockout } from "./lockout.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { Packs } from "./packs.ts";
import type { Budgets } from "./rate.ts";
import type { Seal } from "./seal.ts";
import type { Store } from "./store/store.ts";
import type { Tracing } from "./tracing.ts";
import type { Pulse } from "./workers/pulse.ts";
import type { Scans } from "./workers/scan-recorder.ts";

export type Deps = {
  store: Store;
  keys: Keys;
  authenticate: Authenticate;
  metrics: Metrics;
  log: Log;
  packs: Packs;
  /** The origin in links and tokens; known once the port is. */
  origin: () => string;
  /** What isn't ready yet, or no longer, by name; empty when all is well. */
  notReady: () => Promise<string[]>;
  rateLimited: boolean;
  budgets: Budgets;
  /** Proxies that are believed about who is behind them. */
  trustProxy: string[];
  /** Keeps out those who guessed secrets too often. */
  lockout: Lockout;
  /** Where validations are anchored: in our log, nowhere, or by a service outside. */
  anchor: "log" | "off" | Anchor;
  /** The external registry, where one is configured. */
  registry: Registry | undefined;
  scans: Scans;
  /** Tells consoles what is new. */
  pulse: Pulse;
  /** Seals and opens secrets that we have to read again. */
  seal: Seal;
  /** Whether webhooks may go to private addresses. */
  allowPrivate: boolean;
  /** Tells stations by MQTT that work waits; without it they find it later, by asking. */
  broker: () => Broker;
  tracing?: Tracing | undefined;
  /** The OpenAPI document of the app that these serve. */
  document: () => object;
  /** For tests: an answer that its route doesn't document is a 500. */
  checkReplies?: boolean;
};
