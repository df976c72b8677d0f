// The cloud from settings to listening, and back: what main runs, and what tests run with their own clock and log.
import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import { wordsOf } from "#shared/fault.ts";
import { limits } from "#shared/limits.ts";
import { isLoopback, urlAt } from "#shared/url-at.ts";
import { anchorAt } from "./adapters/anchor.ts";
import { type Broker, noBroker, openBroker } from "./adapters/broker.ts";
import { startCourier } from "./adapters/courier-thread.ts";
import { registryAt } from "./adapters/registry.ts";
import { buildApp } from "./app.ts";
import { authenticator } from "./auth.ts";
import { ensureBootstrapKey, keptIn } from "./bootstrap-key.ts";
import type { Config } from "./config.ts";
import { type Connections, connectionsOf } from "./connections.ts";
import type { Deps } from "./deps.ts";
import * as regulations from "./domain/regulations.ts";
import { keyFolder } from "./key-files.ts";
import { openKeys } from "./keys.ts";
import { lockout } from "./lockout.ts";
import type { Log } from "./log.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { loadPacks, type Packs } from "./packs.ts";
import { budgets as rateBudgets } from "./rate.ts";
import { keysSetIn, openSeal } from "./seal.ts";
import { keepSeen, refuseSetBack } from "./seen-store.ts";
import { openStore } from "./store/open.ts";
import type { Store } from "./store/store.ts";
import type { Tracing } from "./tracing.ts";
import { startDispatcher } from "./workers/dispatcher.ts";
import { startGenerator } from "./workers/generator.ts";
import { startImporter } from "./workers/importer.ts";
import { startKeyKeeper } from "./workers/key-keeper.ts";
import { startMeasurer } from "./workers/measurer.ts";
import { startPulse } from "./workers/pulse.ts";
import { startRateSharer } from "./workers/rate-sharer.ts";
import { startReaper } from "./workers/reaper.ts";
import { sealAtStart, startResealer, tellUnopenable } from "./workers/resealer.ts";
import { startRollCall } from "./workers/roll-call.ts";
import { scanQueue, startScanRecorder } from "./workers/scan-recorder.ts";
import { reportQueue, startStationListener } from "./workers/station-listener.ts";
import { startStoreWatcher } from "./workers/store-watcher.ts";
import { startSweeper } from "./workers/sweeper.ts";
import { startWaker } from "./workers/waker.ts";
import type { Worker } from "./workers/worker.ts";

export type Cloud = {
  app: FastifyInstance;
  store: Store;
  url: string;
  bootstrapFile: string;
  close(): Promise<void>;
};
export type Extras = {
  /** Told at once when this start makes the first key: what follows may fail, and it is shown once. */
  onNewKey?: (secret: string, file: string) => void;
  clock?: () => number;
  checkReplies?: boolean;
  /** How long one try of a delivery may take, where the real time is too long to wait for. */
  tryMaxMs?: number;
  onFatal?: (line: string, cause: unknown) => void;
  /** Another folder of regulation packs. */
  packsFrom?: URL;
};

export async function startCloud(config: Config, log: Log, extras: Extras = {}): Promise<Cloud> {
  const metrics = createMetrics();
  const packs = loadPacks(extras.packsFrom);
  const tracing = await tracingTo(config.OTEL_EXPORTER_OTLP_ENDPOINT, log);
  const store = await openStore({
    dataDir: config.DATA_DIR,
    databaseUrl: config.DATABASE_URL,
    log,
    meter: meterOf(metrics, tracing),
    onFatal: fatal(log, extras),
    ...(extras.clock ? { clock: extras.clock } : {}),
  });
  try {
    return await startOn(store, { config, log, extras, metrics, packs, tracing });
  } catch (error) {
    await store.close();
    throw error;
  }
}

type Means = { config: Config; log: Log; extras: Extras; metrics: Metrics; packs: Packs; tracing: Tracing | undefined };
/** What is known only once the cloud listens, or changes while it runs. */
type Running = { url: string; broker: Broker; workers: Worker[]; isDraining: boolean };

async function startOn(store: Store, means: Means): Promise<Cloud> {
  const { config, log, extras, metrics, packs } = means;
  await refuseSetBack(store, config.DATA_DIR);
  await store.write("regulation packs", (tx) => regulations.keep(tx, packs));
  const bootstrapFile = keptIn(config.DATA_DIR);
  const made = await ensureBootstrapKey(store, config.BOOTSTRAP_KEY, bootstrapFile, log);
  if (made) extras.onNewKey?.(made, bootstrapFile);
  const secrets = await openSecrets(store, log, config);
  const running: Running = { url: "", broker: noBroker, workers: [], isDraining: false };
  metrics.watch("store_queue_units", "Units of work that wait for the store", () => store.pending());
  const deps = depsFor(store, means, secrets, running);
  const app = await buildApp(deps);
  const connections = connectionsOf(app.server);
  // A kept-alive connection isn't to be used again: the next request would meet a shut door.
  app.server.prependListener("request", (_, response) => void (running.isDraining && response.setHeader("connection", "close")));
  await app.listen({ host: config.HOST, port: config.PORT });
  running.url = urlOf(app, config.HOST);
  askForOrigin(store, log, config, running.url);
  await startWork(deps, means, running);
  const close = () => closeAll(deps, config, { app, connections, running });
  return { app, store, url: running.url, bootstrapFile, close };
}

type Lent = Omit<Deps, "document">;
type Secrets = Awaited<ReturnType<typeof openSecrets>>;
/** What routes and the pipeline are lent; workers take theirs out of it too. */
function depsFor(store: Store, { config, log, extras, metrics, packs, tracing }: Means, { seal, keys }: Secrets, running: Running): Lent {
  const origin = () => config.PUBLIC_URL ?? running.url;
  const rateLimited = config.RATE_LIMIT === "on";
  const areAtWork = () => running.workers.length > 0 && running.workers.every((worker) => worker.runs());
  return {
    store,
    scans: scanQueue(metrics),
    pulse: startPulse(store, log),
    keys,
    metrics,
    log,
    packs,
    origin,
    authenticate: authenticator({ store, keys, origin }),
    broker: () => running.broker,
    notReady: async () => [
      ...(running.isDraining ? ["draining"] : []),
      ...(await storeFault(store)),
      ...(running.isDraining || areAtWork() ? [] : ["workers"]), // a drain ends them itself
    ],
    anchor: config.ANCHOR === "log" || config.ANCHOR === "off" ? config.ANCHOR : anchorAt(config.ANCHOR),
    registry: config.REGISTRY_URL === undefined ? undefined : registryAt(config.REGISTRY_URL),
    seal,
    allowPrivate: config.WEBHOOK_PRIVATE === "on",
    rateLimited,
    budgets: rateBudgets({ areShared: rateLimited && !store.sole }),
    trustProxy: config.TRUST_PROXY,
    lockout: lockout(extras.clock),
    tracing,
    ...(extras.checkReplies ? { checkReplies: true } : {}),
  };
}

/** What goes on beside the requests. It signs in the name of the origin, which is known from here on. */
async function startWork(
  { store, log, metrics, tracing, seal, keys, origin, authenticate, rateLimited, budgets, allowPrivate, scans, pulse }: Lent,
  { config, extras }: Means,
  running: Running,
): Promise<void> {
  const reports = reportQueue(metrics);
  const courier = startCourier({ allowPrivate, tryMaxMs: extras.tryMaxMs });
  const dispatcher = startDispatcher(store, log, { seal, courier, tried: ({ status }) => metrics.tried(status), tracing });
  metrics.watch("webhook_tries_in_flight", "Tries of webhook deliveries that wait for an answer", () => dispatcher.inFlight());
  running.workers.push(dispatcher);
  running.broker = await openBroker(config, { authenticate, hear: reports.add, origin, log, metrics, rateLimited });
  running.workers.push(
    startSweeper(store, log, metrics),
    startMeasurer(store, log, metrics, config.DATA_DIR),
    ...(store.sole ? [] : [startRateSharer(store, log, budgets), startRollCall(store, log, origin())]),
    startReaper(store, log),
    startImporter(store, log),
    startGenerator(store, log, { keys, origin }),
    startScanRecorder(store, log, scans),
    startKeyKeeper(store, log, keys),
    startStoreWatcher(store, log, config.DATA_DIR, fatal(log, extras)),
    startResealer(store, log, seal, keyFolder(config.DATA_DIR)),
    pulse,
    startStationListener(store, log, reports),
    startWaker(store, log, { broker: running.broker, metrics }),
  );
}

type Open = { app: FastifyInstance; connections: Connections; running: Running };
async function closeAll({ store, log, pulse, tracing }: Lent, config: Config, { app, connections, running }: Open): Promise<void> {
  running.isDraining = true;
  await sleep(config.DRAIN_NOTICE_S * 1000); // who balances has to see it before the door is shut
  await pulse.stop(); // its answers end only when somebody ends them
  await shutDoor(app, connections, log);
  await Promise.all(running.workers.map((worker) => worker.stop()));
  await keepSeen(store, config.DATA_DIR).catch((error: unknown) =>
    log.warn({ event: "store-watching-failed", err: error }, "how far the store has gone isn't kept"),
  );
  await running.broker.end(); // nobody listens any more: that we go doesn't make a station offline
  await store.close();
  await tracing?.close().catch((error: Error) => log.warn({ event: "traces-lost" }, `the last traces weren't taken (${wordsOf(error)})`));
}

/** Units of work are counted, and are part of the request's trace where somebody collects traces. */
const meterOf = (metrics: Metrics, tracing: Tracing | undefined) =>
  tracing
    ? { ...metrics, begin: (mode: string, label: string) => tracing.begin(`${mode} ${label}`, "within", tracing.current()) }
    : metrics;

/** Where other machines may come by, they know this cloud by a name that only its operator can tell. */
function askForOrigin(store: Store, log: Log, config: Config, url: string): void {
  if (config.PUBLIC_URL !== undefined || (store.sole && isLoopback(config.HOST))) return;
  log.warn(
    { event: "no-public-url" },
    `labels, links and tokens name ${url}: set IMPRIMATUR_PUBLIC_URL to the origin that others know, the same on all nodes`,
  );
}

/** What is sealed, what it is sealed with, and what we sign with. */
async function openSecrets(store: Store, log: Log, config: Config) {
  const seal = await openSeal(store, config.DATA_DIR, keysSetIn(config));
  await tellUnopenable(store, log, seal, keyFolder(config.DATA_DIR));
  if (seal.from === "store")
    log.warn({ event: "sealing-key-in-store" }, "what is sealed is as safe as the database: set IMPRIMATUR_SEALING_KEY");
  const keys = await openKeys(store, config.DATA_DIR, seal);
  await sealAtStart(store, log, seal);
  return { seal, keys };
}

/** What was begun is answered, to whoever reads in time. */
async function shutDoor(app: FastifyInstance, connections: Connections, log: Log): Promise<void> {
  // A kept-alive connection that falls idle after the close has begun would hold it up for as long as it may idle.
  const closing = setInterval(() => connections.closeIdle(), 50);
  const cutting = setTimeout(() => {
    const cut = connections.cutSlow();
    if (cut > 0) log.warn({ event: "slow-clients-cut", connections: cut }, "clients that were slow to send or to read were cut off");
  }, limits.DRAIN_CLIENTS_MS);
  await app.close().finally(() => {
    clearInterval(closing);
    clearTimeout(cutting);
  });
}

function urlOf(app: FastifyInstance, host: string): string {
  const address = app.server.address();
  const at = urlAt(host, typeof address === "object" && address ? address.port : 0);
  return URL.canParse(at) ? new URL(at).origin : at; // as everybody writes it, whose links are compared with ours, where there is a URL of it
}

/** Its packages are loaded where somebody collects traces, and nowhere else. */
async function tracingTo(endpoint: string | undefined, log: Log): Promise<Tracing | undefined> {
  return endpoint === undefined ? undefined : (await import("./tracing.ts")).startTracing(endpoint, log);
}

async function storeFault(store: Store): Promise<string[]> {
  try {
    await store.read("ready", async ({ db }) => db.values("SELECT 1"));
    return [];
  } catch {
    return ["store"]; // the answer says which part isn't ready; why stands in the log of the requests that failed
  }
}

const fatal = (log: Log, { onFatal }: Extras) => onFatal ?? ((line: string) => dieNow(log, line));
function dieNow(log: Log, line: string): never {
  log.fatal({ event: "fatal" }, line);
  process.stderr.write(`imprimatur: ${line}\n`);
  log.die(74);
}

/** Ends with what was begun: stops listening, lets running requests end, closes the store; gives up after a while. */
export function closeOnSignal(cloud: Cloud, log: Log, mostMs: number): void {
  let ending = false;
  const end = (signal: string) => {
    if (ending) return; // under npm or systemd the same signal comes twice
    ending = true;
    log.info({ event: "draining", signal }, "draining");
    const late = setTimeout(() => {
      log.error({ event: "drain-timeout" }, `still busy ${mostMs} ms after ${signal}: ending anyway`);
      log.exit(1);
    }, mostMs);
    cloud.close().then(
      () => {
        clearTimeout(late);
        log.info({ event: "stopped" }, "stopped");
        log.exit(0);
      },
      (error: unknown) => {
        log.error({ event: "close-failed", err: error }, "couldn't close in order");
        log.exit(1);
      },
    );
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => end(signal)); // the last: its terminal is closed
}
