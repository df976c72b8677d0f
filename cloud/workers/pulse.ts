// The pulse of the floor: a glance at each tenant that somebody watches, several a second, and a whole look each second, told to all who watch it. What a slow line misses is told as one.
import { hash } from "node:crypto";
import { Readable } from "node:stream";
import type { Logger } from "pino";
import { BEAT_MS } from "#shared/beat.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { holds } from "#shared/scopes.ts";
import type { Summary } from "#shared/wire/console.ts";
import type { Device } from "#shared/wire/devices.ts";
import * as audit from "../domain/audit.ts";
import { changedSince } from "../domain/devices.ts";
import { movement } from "../domain/imports.ts";
import { isGenerating } from "../domain/passport-generation.ts";
import { summary } from "../domain/summary.ts";
import type { Caller } from "../domain/callers.ts";
import type { Store, Tx } from "../store/store.ts";
import { eachTried, startWorker, type Worker } from "./worker.ts";

const GLANCE_EVERY_MS = 100;
const LOOK_EVERY_MS = 1_000; // stations, imports and whether sessions are good: what a busy floor can't afford at each glance
const SUMMARY_EVERY_MS = 10_000; // also where nothing was audited: presence and the hour move by themselves
const OVERLAP_MS = 5_000; // a unit's instant is when it began; its commit may be a little later, or COMMIT_LATE_MAX_MS
const SLOW_MAX_MS = 30_000;
const QUEUE_MAX_BYTES = 262_144;
const DEVICES_MAX_LENGTH = 1_048_576; // each console that takes nothing keeps them, and a station may say much of itself

/** Classes of the audit log by whom they may be told to; `stations` is their list, where more of them changed, or more was said, than is told one by one. */
const TOPICS = {
  print: "aidc:read",
  device: "aidc:read",
  stations: "aidc:read",
  product: "products:read",
  import: "products:read",
  passport: "dpp:read",
  webhook: "webhooks:manage",
  audit: "*:*",
} as const;
type Topic = keyof typeof TOPICS;
const topics = Object.keys(TOPICS) as Topic[];

/** What is new up to that row of the audit log; `hasAuth`: perhaps that somebody's key is no more. */
type News = { summary?: Summary; devices: Device[]; removed: string[]; topics: Set<Topic>; seq: number; hasAuth: boolean };
type Follower = {
  caller: Caller;
  stream: Readable;
  good(): Promise<boolean>;
  ready: boolean;
  /** What it has to be told beside the news: the summary when it has just come, all topics when it may have missed some. */
  owed: "nothing" | "summary" | "all";
  readyAt: number;
  saidAt: number;
};
type Watched = {
  tenantId: string;
  followers: Set<Follower>;
  seq: number;
  glancedAt: number;
  lookedAt: number;
  summary: { value: Summary; text: string; at: number } | undefined;
  imports: string;
  /** Passports that were asked for are made a moment later, and nothing is audited then. */
  awaitsPassports: boolean;
  devices: Map<string, string>;
};

export type Pulse = Worker & {
  /** Server-sent events for one console, as long as its session is good. */
  follow(caller: Caller, good: () => Promise<boolean>): Readable;
};

export function startPulse(store: Store, log: Logger): Pulse {
  const watched = new Map<string, Watched>();
  let stopping = false;
  const worker = startWorker(log, {
    event: "pulse-failed",
    idleMs: GLANCE_EVERY_MS,
    step: async () => {
      await eachTried(watched.values(), (tenant) =>
        beat(store, tenant).catch((error: unknown) => {
          for (const follower of tenant.followers) follower.owed = "all"; // what it had seen before it failed nobody was told
          throw error;
        }),
      );
      return false;
    },
  });

  function leave(tenant: Watched, follower: Follower): void {
    tenant.followers.delete(follower);
    if (tenant.followers.size === 0 && watched.get(tenant.tenantId) === tenant) watched.delete(tenant.tenantId);
  }

  return {
    ...worker,
    follow: (caller, good) => {
      const tenant = watched.get(caller.tenantId) ?? unseen(caller.tenantId);
      if (stopping || tenant.followers.size >= limits.CONSOLE_STREAMS_MAX_ITEMS)
        throw new Refusal("OVERLOADED", "as many consoles are open as can be kept up to date", undefined, { "retry-after": "10" });
      watched.set(caller.tenantId, tenant);
      const stream = new Readable({ highWaterMark: QUEUE_MAX_BYTES, read: () => void (follower.ready = true) });
      const follower: Follower = { caller, stream, good, ready: true, owed: "summary", readyAt: tenant.glancedAt, saidAt: 0 };
      stream.on("close", () => leave(tenant, follower));
      tenant.followers.add(follower);
      stream.push("retry: 3000\n\n");
      return stream;
    },
    stop: async () => {
      stopping = true;
      for (const { followers } of watched.values()) for (const { stream } of followers) stream.push(null);
      await worker.stop();
    },
  };
}

const unseen = (tenantId: string): Watched => ({
  tenantId,
  followers: new Set(),
  seq: 0,
  glancedAt: 0,
  lookedAt: 0,
  summary: undefined,
  imports: "",
  awaitsPassports: true,
  devices: new Map(),
});

/** Also where the clock was set back since: else nobody would be told anything until it is there again. */
const isTime = (since: number, everyMs: number, now: number): boolean => now < since || now - since >= everyMs;

async function beat(store: Store, tenant: Watched): Promise<void> {
  const { news, now, isWhole } = await store.read("console pulse", async (tx) => {
    const news = await glance(tx, tenant);
    // Whoever has just lost a key is told nothing more: sessions are looked at before any news of a change of keys.
    const isWhole = news.hasAuth || isTime(tenant.lookedAt, LOOK_EVERY_MS, tx.now);
    if (isWhole) await look(tx, tenant, news);
    await addSummary(tx, tenant, news);
    Object.assign(tenant, { seq: news.seq, glancedAt: tx.now }); // last: a glance that failed has seen nothing
    return { news, now: tx.now, isWhole };
  });
  for (const follower of tenant.followers) {
    if (!isWhole || (await follower.good())) tell(follower, tenant, news, now);
    else {
      follower.stream.push(event("end", {}));
      follower.stream.push(null);
    }
  }
}

/** What was audited since the last one: one step along an index. */
async function glance(tx: Tx, tenant: Watched): Promise<News> {
  const { seq, classes } = await audit.since(tx, tenant.tenantId, tenant.seq);
  const isFirst = tenant.glancedAt === 0;
  const found = new Set(topics.filter((topic) => classes.has(topic)));
  if (seq !== tenant.seq) found.add("audit");
  tenant.awaitsPassports ||= found.has("passport");
  return { devices: [], removed: [], seq, hasAuth: classes.has("auth"), topics: isFirst ? new Set() : found };
}

/** What nobody audits, or what costs more. */
async function look(tx: Tx, tenant: Watched, news: News): Promise<void> {
  const { tenantId, lookedAt } = tenant;
  const imports = await movement(tx, tenantId);
  if (lookedAt > 0 && imports !== tenant.imports) news.topics.add("import");
  if (lookedAt > 0 && tenant.awaitsPassports) news.topics.add("passport");
  const awaitsPassports = tenant.awaitsPassports && (await isGenerating(tx, tenantId));
  const since = Math.min(lookedAt || tx.now, tx.now) - OVERLAP_MS;
  const { devices, removed, isCut } = await changedSince(tx, tenantId, { heard: since, changed: since - limits.COMMIT_LATE_MAX_MS });
  let room = DEVICES_MAX_LENGTH;
  news.devices = devices.filter((device) => {
    const length = newsIn(tenant.devices, device);
    room -= length;
    return length > 0 && room >= 0;
  });
  if (isCut || room < 0) news.topics.add("stations");
  news.removed = removed.filter((id) => tenant.devices.delete(id));
  Object.assign(tenant, { imports, awaitsPassports, lookedAt: tx.now });
}

async function addSummary(tx: Tx, tenant: Watched, news: News): Promise<void> {
  const { tenantId, summary: known } = tenant;
  if (news.seq === tenant.seq && news.devices.length === 0 && !isTime(known?.at ?? 0, SUMMARY_EVERY_MS, tx.now)) return;
  const value = await summary(tx, { tenantId });
  const text = JSON.stringify({ ...value, at: "" });
  if (text !== known?.text) news.summary = value;
  tenant.summary = { value, text, at: tx.now };
}

/** How much there is to tell: nothing where it was told. */
function newsIn(told: Map<string, string>, device: Device): number {
  const text = JSON.stringify(device);
  const digest = hash("sha256", text, "base64url");
  if (told.get(device.id) === digest) return 0;
  told.set(device.id, digest);
  return text.length;
}

const event = (name: string, data: object): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

/** What of the news is theirs to know. Who couldn't take the last ones gets the whole state and is told to look again. */
function tell(follower: Follower, { summary: known }: Watched, news: News, now: number): void {
  const { caller, stream, owed } = follower;
  if (!follower.ready) {
    follower.owed = "all";
    if (now - follower.readyAt > SLOW_MAX_MS) stream.destroy();
    return;
  }
  const { devices, removed } = news;
  const may = (topic: Topic) => holds(caller.scopes, TOPICS[topic]);
  const summaryNow = owed === "nothing" ? news.summary : known?.value;
  const changed = (owed === "all" ? topics : [...news.topics]).filter(may);
  const isDue = isTime(follower.saidAt, BEAT_MS, now);
  const text = [
    ...(isDue ? [event("alive", { tenant: caller.tenantId, at: new Date(now).toISOString() })] : []),
    ...(summaryNow && may("print") ? [event("summary", summaryNow)] : []),
    ...(devices.length + removed.length > 0 && may("device") ? [event("devices", { devices, removed })] : []),
    ...(changed.length > 0 ? [event("changed", { topics: changed })] : []),
  ].join("");
  Object.assign(follower, { owed: "nothing", readyAt: now, ...(isDue ? { saidAt: now } : {}) });
  if (text !== "") follower.ready = stream.push(text);
}
