// The station: claims ahead, keeps its leases, prints lane by lane, listens to its scanners, and tells the cloud all of it when it can.
import { randomUUID } from "node:crypto";
import type { JSONWebKeySet } from "jose";
import type { Station as StationInfo } from "#shared/wire/devices.ts";
import type { ClaimBatch, Claimed } from "#shared/wire/jobs.ts";
import { askOf, type Attempt } from "./attempt.ts";
import { openBuffer, type Store } from "./buffer.ts";
import { type Clock, systemClock } from "./clock.ts";
import { type CloudClient, cloudClient } from "./cloud.ts";
import type { AgentConfig } from "./config.ts";
import { type Console, openConsole } from "./console.ts";
import { warmUp } from "./decode.ts";
import { verifyEnvelope } from "./envelope.ts";
import { type Lane, type LanePatience, type Lease, startLane } from "./lane.ts";
import type { AgentLog } from "./log.ts";
import { operatorsOf } from "./operator.ts";
import type { Timing } from "./printers/driver.ts";
import { type ProductNames, productNames } from "./product-names.ts";
import { pulse } from "./pulse.ts";
import { openScanner } from "./scanners/index.ts";
import type { Scanner } from "./scanners/scanner.ts";
import { type Scans, scansOf } from "./scans.ts";
import { stateOf } from "./state.ts";
import * as steps from "./steps.ts";
import { loadTemplates } from "./template.ts";
import { fateOf, type Pauses, startUplink } from "./uplink.ts";

export type StationOptions = {
  log: AgentLog;
  clock?: Clock;
  timing?: Partial<Timing>;
  patience?: Partial<LanePatience>;
  pauses?: Pauses;
  /** Until a call to the cloud is given up. */
  callMs?: number;
  /** How large the buffer may grow, in pages. */
  bufferPages?: number;
};
export type Station = {
  url: string;
  /** Work waits: claim now rather than at the next poll. */
  wake(): void;
  /** As GET /api/state tells it. */
  state(): ReturnType<typeof stateOf>;
  store: Store;
  end(): Promise<void>;
};
export const VERSION = "0.1.0";

const POLL_MS = 2_000; // until the cloud has said otherwise
const ROUND_MS = 500;
const TELL_MS = 20_000;
const INFO_MS = 300_000;
const LET_GO_MS = 120_000;
const ASKS_MAX = 50; // jobs that wait for a person before they can even begin
const LEASE_MARGIN = 0.15;
const KEYBOARD = "console";

export async function startStation(config: AgentConfig, options: StationOptions): Promise<Station> {
  const { log, clock = systemClock } = options;
  const store = openBuffer(config.dataDir, clock, options.bufferPages === undefined ? {} : { maxPages: options.bufferPages });
  const say: steps.Say = (level, line, words) => log.logger[level](line, words);
  const news = pulse(clock);
  const floor: steps.Floor = { store, clock, news, say, templates: loadTemplates(), printers: config.printers };
  const cloud = cloudClient(config.cloud, config.key, options.callMs === undefined ? {} : { timeoutMs: options.callMs });
  try {
    await warmUp();
    steps.recover(floor);
  } catch (error) {
    store.close();
    throw error;
  }
  let over = false;
  let paused = store.meta("paused") === "true";
  const uplink = startUplink({
    store, cloud, clock, news, say, lost: (id, why) => steps.lost(floor, id, why), ...(options.pauses ? { pauses: options.pauses } : {}),
  }); // oxfmt-ignore
  const standing = standingOf({ cloud, store, say, uplink });
  const products = productNames(store, cloud);
  const leases = leasesOf({ config, store, clock, cloud, uplink, floor });
  const claims = claimsOf({
    config, store, clock, cloud, uplink, standing, floor, products, blocked: () => lanes.every((lane) => !["ready", "printing"].includes(lane.state().status)), paused: () => paused,
  }); // oxfmt-ignore
  const laneFloor = { ...floor, paused: () => paused || over, holds: leases.holds, hungry: claims.hungry };
  const lanes: Lane[] = config.printers.map((printer) =>
    startLane(laneFloor, printer, {
      ...(options.timing ? { timing: options.timing } : {}),
      ...(options.patience ? { patience: options.patience } : {}),
    }),
  );
  const scans = scansOf(floor, { independentReader: config.scanners.some(({ driver }) => driver === "rfid") });
  const scanners = openScanners(config, scans, news.beat, clock, say);
  const operators = operatorsOf(config.operators, clock);
  const setPaused = (is: boolean) => {
    store.setMeta("paused", String(is));
    paused = is;
    say("info", { event: is ? "paused" : "resumed" }, is ? "paused: no new label is begun" : "resumed");
    news.beat();
    claims.wake();
  };
  const state = () =>
    stateOf({ config, store, clock, lanes, scanners, scans, uplink, standing, paused: () => paused, lines: log.last, products });
  const end = async (web?: Console) => {
    over = true;
    say("info", { event: "draining" }, "ends once the label in hand is written down");
    await web?.close();
    await Promise.all([
      claims.end(),
      telling.end(),
      leases.end(),
      ...lanes.map((lane) => lane.end()),
      ...scanners.map((scanner) => scanner.end()),
    ]);
    await uplink.end();
    store.close();
  };
  const telling = tellingOf({ cloud, clock, news, uplink, standing, report: () => state() });
  try {
    const web = await openConsole(config.console, {
      floor, state, operators, scans, lanes, cloud, station: config.station, setPaused, news, clock,
    }); // oxfmt-ignore
    say(
      "info",
      { event: "station", station: config.station ?? null, printers: config.printers.map(({ name }) => name) },
      "the station works",
    );
    return { url: web.url, wake: claims.wake, state, store, end: () => end(web) };
  } catch (error) {
    await end();
    throw error;
  }
}

/** The settings' scanners, and the console as a keyboard, which every station has. */
function openScanners(config: AgentConfig, scans: Scans, changed: () => void, clock: Clock, say: steps.Say): Scanner[] {
  const told = {
    sighting: (sighting: Parameters<Scans["sighting"]>[0]) => void scans.sighting(sighting),
    tag: scans.tag,
    trouble: scans.trouble,
    link: (name: string, link: { up: boolean; why?: string }) => {
      say(
        link.up ? "info" : "warn",
        { event: "scanner", scanner: name, up: link.up },
        link.up ? `${name} is there` : `${name}: ${link.why}`,
      );
      changed();
    },
  };
  return config.scanners.map(({ name, driver, port = "", simulated = false }) =>
    openScanner({ name, driver, port, simulated }, told, clock),
  );
}
export { KEYBOARD };

// --- who we are for the cloud, and what it says of itself

export type Standing = {
  info(): StationInfo | undefined;
  keys(): JSONWebKeySet | undefined;
  refresh(): Promise<void>;
  refreshKeys(): Promise<void>;
};
type Talks = { cloud: CloudClient; store: Store; uplink: ReturnType<typeof startUplink>; say: steps.Say };

/** Kept in the buffer, so that a start without a network knows who it is. */
function standingOf({ cloud, store, uplink, say }: Talks): Standing {
  const kept = <T>(name: string): T | undefined => {
    const text = store.meta(name);
    return text === undefined ? undefined : (JSON.parse(text) as T);
  };
  let info = kept<StationInfo>("station");
  let keys = kept<JSONWebKeySet>("jwks");
  return {
    info: () => info,
    keys: () => keys,
    refresh: async () => {
      const said = await cloud.station();
      uplink.heard(said);
      if (!said.ok) return;
      info = said.value;
      store.setMeta("station", JSON.stringify(info));
    },
    refreshKeys: async () => {
      const said = await cloud.jwks();
      uplink.heard(said);
      if (!said.ok || !Array.isArray(said.value.keys)) return say("warn", { event: "keys" }, "the cloud's keys can't be had");
      keys = said.value as unknown as JSONWebKeySet;
      store.setMeta("jwks", JSON.stringify(keys));
    },
  };
}

// --- leases

type LeaseDeps = Pick<Talks, "cloud" | "store" | "uplink"> & { config: AgentConfig; clock: Clock; floor: steps.Floor };

/** Whoever holds a job says so before its lease is half over; what can't be worked on for long is let go. */
function leasesOf({ config, store, clock, cloud, uplink, floor }: LeaseDeps) {
  let over = false;
  const stop = pulse(clock);
  async function beat(attempt: Attempt): Promise<Lease> {
    const askedAt = clock.now();
    const { leaseSeconds } = config.claim;
    const said = await cloud.heartbeat(attempt.jobRef, attempt.attemptId, leaseSeconds);
    uplink.heard(said);
    if (said.ok) {
      const now = store.attempt(attempt.attemptId);
      if (now?.ended === null) store.change(attempt.attemptId, { leaseUntil: askedAt + leaseSeconds * 1_000, leaseSeconds });
      return "alive";
    }
    if (fateOf(said) !== "drop") return "unknown";
    steps.lost(floor, attempt.attemptId, `${said.code}: ${said.message}`);
    return "lost";
  }
  const remains = ({ leaseUntil, leaseSeconds }: Attempt) => (leaseUntil - clock.now()) / (leaseSeconds * 1_000);
  const isHeld = (attempt: Attempt) => !["sealing", "orphan"].includes(attempt.stage) && attempt.envelopeUntil > clock.now();
  const isIdle = ({ stage, updatedAt }: Attempt) =>
    stage === "waiting" && clock.now() - updatedAt > Math.max(LET_GO_MS, config.claim.leaseSeconds * 4_000);

  async function rounds(): Promise<void> {
    while (!over) {
      try {
        for (const attempt of store.open().filter(isHeld)) {
          if (over) break;
          if (remains(attempt) > 0.5) continue;
          if ((await beat(attempt)) === "unknown") break;
        }
      } catch (error) {
        floor.say("error", { event: "leases" }, (error as Error).message);
      }
      await stop.next(ROUND_MS);
    }
  }
  const running = rounds();
  return {
    holds: async (attempt: Attempt): Promise<Lease> => {
      if (attempt.envelopeUntil <= clock.now()) {
        steps.lost(floor, attempt.attemptId, "ENVELOPE_EXPIRED: it waited here for a day");
        return "lost";
      }
      const now = store.attempt(attempt.attemptId);
      if (!now || now.ended !== null) return "lost";
      return remains(now) > LEASE_MARGIN ? "alive" : beat(now);
    },
    isIdle,
    end: async () => {
      over = true;
      stop.beat();
      await running;
    },
  };
}

// --- claims

type ClaimDeps = LeaseDeps & { standing: Standing; products: ProductNames; blocked(): boolean; paused(): boolean };

function claimsOf({ config, store, clock, cloud, uplink, standing, floor, products, blocked, paused }: ClaimDeps) {
  const { news, say } = floor;
  const hunger = pulse(clock);
  let over = false;
  let wasEmpty = false;
  let asked: { key: string; body: ClaimBatch; at: number } | undefined;
  let infoAt = -Infinity;

  const ahead = () => store.open().filter(({ stage }) => stage === "waiting" || stage === "rendered");
  function room(): number {
    const waiting = ahead();
    const asking = waiting.filter((attempt) => askOf(attempt) !== null).length;
    const most = standing.info()?.limits.claims ?? config.claim.ahead;
    return asking >= ASKS_MAX ? 0 : Math.min(config.claim.ahead * config.printers.length - (waiting.length - asking), most);
  }
  const mayClaim = () => !paused() && uplink.stopped() === null && !blocked() && (store.fault() === null || store.probe());

  async function claim(most: number): Promise<number> {
    const needs: ClaimBatch["needs"] = config.printers.some(({ rfid }) => rfid) ? ["qr", "rfid"] : ["qr"];
    const { leaseSeconds } = config.claim;
    // The same request until it is answered: a lost answer's jobs come again instead of waiting for their leases to end.
    if (!asked || clock.now() - asked.at > leaseSeconds * 500)
      asked = {
        key: randomUUID(),
        at: clock.now(),
        body: { needs, max: most, lease_seconds: leaseSeconds, ...(config.station ? { station: config.station } : {}) },
      };
    const { key, body, at } = asked;
    const said = await cloud.claim(body, key);
    uplink.heard(said);
    if (!said.ok) {
      if (said.status > 0) asked = undefined;
      return 0;
    }
    for (const claimed of said.value.claims) await take(claimed, at);
    asked = undefined;
    return said.value.claims.length;
  }

  async function verified(claimed: Claimed) {
    const judge = () =>
      verifyEnvelope(claimed, { keys: standing.keys() ?? { keys: [] }, deviceId: standing.info()?.device.id ?? "", now: clock.now() });
    const first = await judge();
    if (first.good || !first.unknownKey) return first;
    await standing.refreshKeys();
    return judge();
  }
  async function take(claimed: Claimed, at: number): Promise<void> {
    const { job, attempt_id: attemptId, envelope } = claimed;
    const verdict = await verified(claimed);
    if (!verdict.good) {
      const message = `the envelope of ${job.job_ref} isn't to be trusted: ${verdict.why}`;
      store.quarantine({ jobRef: job.job_ref, attemptId, code: "ENVELOPE_REFUSED", message, what: envelope });
      say("error", { event: "envelope", job_ref: job.job_ref }, message);
      return; // its lease ends by itself; a stranger's claim deserves no answer
    }
    const { leaseSeconds } = config.claim;
    const taken = store.take({
      attemptId,
      task: verdict.task,
      envelope,
      leaseSeconds,
      leaseUntil: at + leaseSeconds * 1_000,
      envelopeUntil: verdict.until,
    });
    if (taken) say("info", { event: "claimed", job_ref: job.job_ref, attempt: verdict.task.attempt }, `claimed ${job.job_ref}`);
    news.beat();
    products
      .learn(verdict.task.gtin, job.product_id)
      .then(news.beat, (error: unknown) => say("debug", { event: "product" }, String(error)));
  }

  /** Behind a printer that can't print, others could. */
  function letGo(): void {
    if (!blocked()) return;
    for (const attempt of ahead())
      if (clock.now() - attempt.createdAt > Math.max(LET_GO_MS, config.claim.leaseSeconds * 4_000))
        store.change(attempt.attemptId, { ended: "let go" });
  }

  async function round(): Promise<void> {
    if (clock.now() - infoAt > INFO_MS || !standing.info()) {
      await standing.refresh();
      if (standing.info() && uplink.online()) infoAt = clock.now();
    }
    if (!standing.keys()) await standing.refreshKeys();
    if (!standing.info() || !standing.keys()) return;
    letGo();
    const most = mayClaim() ? room() : 0;
    wasEmpty = most > 0 ? (await claim(most)) < most : false;
  }
  async function rounds(): Promise<void> {
    while (!over) {
      try {
        await round();
      } catch (error) {
        say("error", { event: "claims" }, (error as Error).message);
      }
      if (!over) await hunger.next(standing.info()?.poll_interval_ms ?? POLL_MS);
    }
  }
  const running = rounds();
  return {
    wake: () => hunger.beat(),
    hungry: () => {
      if (!wasEmpty) hunger.beat();
    },
    end: async () => {
      over = true;
      hunger.beat();
      await running;
    },
  };
}

// --- what the cloud is told of us

type TellDeps = Pick<Talks, "cloud" | "uplink"> & {
  clock: Clock;
  news: ReturnType<typeof pulse>;
  standing: Standing;
  report(): ReturnType<typeof stateOf>;
};

function tellingOf({ cloud, clock, uplink, report }: TellDeps) {
  let over = false;
  const stop = pulse(clock);
  let told = "";
  let toldAt = -Infinity;
  async function rounds(): Promise<void> {
    while (!over) {
      try {
        const { status, version, buffer_depth, printers } = report();
        const said = {
          status,
          version,
          buffer_depth,
          printers: printers.map(({ name, status, words, ceiling, simulated }) => ({
            name,
            status: `${status}: ${words}`.slice(0, 200),
            ceiling,
            simulated,
          })),
        };
        const text = JSON.stringify({ ...said, buffer_depth: 0 });
        if (text !== told || clock.now() - toldAt > TELL_MS) {
          const answer = await cloud.tell(said);
          uplink.heard(answer);
          if (answer.ok) [told, toldAt] = [text, clock.now()];
        }
      } catch {
        // the next round tells it
      }
      if (!over) await stop.next(TELL_MS / 10);
    }
  }
  const running = rounds();
  return {
    end: async () => {
      over = true;
      stop.beat();
      await running;
    },
  };
}
