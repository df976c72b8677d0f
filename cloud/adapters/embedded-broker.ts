// The broker that we bring along: for stations only, by the same keys as HTTP, each within its own three topics.
import { randomUUID } from "node:crypto";
import { createServer, type Server, type Socket } from "node:net";
import type { Aedes, AuthenticateError, Client, PublishPacket } from "aedes";
import { Refusal } from "#shared/errors.ts";
import { limits, tiers } from "#shared/limits.ts";
import { placeOf, type TopicKind } from "#shared/mqtt.ts";
import { holds } from "#shared/scopes.ts";
import { credentialEpoch } from "../domain/credentials.ts";
import { budgets } from "../rate.ts";
import type { Caller } from "../route.ts";
import { startWorker } from "../workers/worker.ts";
import type { Broker, Surroundings } from "./broker.ts";
import { metered } from "./packet-meter.ts";

type Station = { caller: Caller; secret: string; goodIn: number; goodAt: number };
type Counts = Record<"refused" | "denied" | "cut", number>;

const NOWHERE = "denied"; // a topic that nobody may listen to
const CLIENT_ID_MAX_LENGTH = 128;
const SILENT_MS = 60_000;
const RECHECK_EVERY_MS = 50;
const QOS2_MAX_ITEMS = 16;

export async function embeddedBroker(at: { host: string; port: number }, around: Surroundings): Promise<Broker> {
  const { log, metrics, origin } = around;
  const counts: Counts = { refused: 0, denied: 0, cut: 0 };
  const stations = new Map<Client, Station>();
  const unknown = new Set<object>();
  metrics.watch("mqtt_connections", "Stations connected to the embedded broker", () => stations.size);
  metrics.watch("mqtt_refused", "Connections that were refused: no good key, too many, too fast", () => counts.refused);
  metrics.watch("mqtt_denied", "Topics that a station had no business with", () => counts.denied);
  metrics.watch("mqtt_cut", "Connections that were ended because their key had died", () => counts.cut);

  let made: Promise<Aedes> | undefined;
  let aedes: Aedes | undefined;
  /** Made for the first who comes: a cloud without MQTT stations doesn't carry 12 MB of it. */
  const broker = () =>
    (made ??= makeAedes(around, stations, unknown, counts).then((ready) => {
      aedes = ready;
      return ready;
    }));

  const take = budgets();
  const within = (key: string, perMinute: number) => !around.rateLimited || take(key, perMinute).isAllowed;
  const admit = async (socket: Socket) => {
    const from = socket.remoteAddress ?? "";
    if (unknown.size >= limits.MQTT_UNKNOWN_MAX_CONNECTIONS || !within(`connect ${from}`, tiers.anonymous)) {
      counts.refused += 1;
      socket.destroy();
      return;
    }
    const own = `packets ${randomUUID()}`;
    const conn = metered(socket, limits.MQTT_PACKET_MAX_BYTES, () => within(own, tiers.device));
    unknown.add(conn);
    conn.once("close", () => unknown.delete(conn));
    (await broker()).handle(conn);
  };
  const server = createServer({ noDelay: true, keepAlive: true, keepAliveInitialDelay: SILENT_MS }, (socket) => {
    admit(socket).catch((error: unknown) => {
      log.error({ event: "mqtt-failed", err: error }, "an MQTT connection couldn't be taken");
      socket.destroy();
    });
  });
  server.maxConnections = limits.MQTT_CONNECTIONS_MAX;
  const port = await listen(server, at, log);
  const rechecker = startRechecker(around, stations, counts);
  return {
    url: () => (port === undefined ? undefined : `mqtt://${new URL(origin()).hostname}:${port}`),
    isUp: () => port !== undefined,
    hint: (topic) => aedes?.publish({ cmd: "publish", topic, payload: "", qos: 0, retain: false, dup: false }, () => {}),
    end: async () => {
      await rechecker.stop();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const running = await made;
      if (running) await new Promise<void>((resolve) => running.close(() => resolve()));
      for (const conn of unknown) (conn as Socket).destroy();
      if (port !== undefined) await closed;
    },
  };
}

/** Another broker on the port is no reason not to start: stations learn the port from us, so any free one does. */
async function listen(
  server: Server,
  { host, port }: { host: string; port: number },
  log: Surroundings["log"],
): Promise<number | undefined> {
  const attempt = (port: number) =>
    new Promise<number>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, () => {
        server.off("error", reject);
        server.on("error", (error) => log.error({ event: "mqtt-failed", err: error }, "the embedded broker can't take connections"));
        resolve((server.address() as { port: number }).port);
      });
    });
  try {
    return await attempt(port);
  } catch (error) {
    const why = `${(error as Error).message}: see IMPRIMATUR_MQTT_PORT`;
    const free = await attempt(0).catch(() => undefined);
    const instead = free === undefined ? "stations poll" : `stations are told port ${free} instead`;
    log.warn({ event: "mqtt-port", port: free }, `the embedded broker can't have port ${port} (${why}); ${instead}`);
    return free;
  }
}

async function makeAedes(around: Surroundings, stations: Map<Client, Station>, unknown: Set<object>, counts: Counts): Promise<Aedes> {
  const { log } = around;
  const { Aedes } = await import("aedes");
  const remembered = new WeakMap<Client, Caller>(); // longer than its connection: a last will is published after it
  const mine = (client: Client | null, topic: string, kinds: readonly TopicKind[], scope: string): boolean => {
    const [place, caller] = [placeOf(topic), client ? remembered.get(client) : undefined];
    const isOwn = place?.tenantId === caller?.tenantId && place?.deviceId === caller?.deviceId;
    const may = place !== undefined && caller !== undefined && isOwn && kinds.includes(place.kind) && holds(caller.scopes, scope);
    if (!may) counts.denied += 1;
    return may;
  };
  const broker = await Aedes.createBroker({
    connectTimeout: limits.MQTT_CONNECT_MAX_MS,
    maxInflightInbound: QOS2_MAX_ITEMS,
    maxClientsIdLength: CLIENT_ID_MAX_LENGTH + limits.NAME_MAX_LENGTH,
    preConnect: (_client, packet, done) => {
      const { clientId, username = "" } = packet;
      if (clientId.length > CLIENT_ID_MAX_LENGTH || username.length > limits.NAME_MAX_LENGTH)
        return done(new Error("too long a name"), false);
      // A client id is a device's own: nobody can take another's connection over by using its id. Nothing is kept for who is away.
      Object.assign(packet, { clientId: `${username}/${clientId || randomUUID()}`, clean: true });
      done(null, true);
    },
    authenticate: (client, username, password, done) => {
      const ended = () => {
        stations.delete(client);
      };
      stationOf(around, username, password?.toString("utf8")).then(
        (station) => {
          unknown.delete(client.conn);
          remembered.set(client, station.caller);
          stations.set(client, station);
          client.conn.once("close", ended);
          if (client.conn.destroyed) ended();
          endOldest(stations, station.caller);
          done(null, true);
        },
        (error: Error) => {
          counts.refused += 1;
          log.info({ event: "mqtt-refused", deviceId: username }, `an MQTT connection was refused: ${error.message}`);
          done(Object.assign(error, { returnCode: error instanceof Refusal && error.status >= 500 ? 3 : 5 }) as AuthenticateError, false);
        },
      );
    },
    authorizePublish: (client, packet, done) => {
      const may = mine(client, packet.topic, ["status", "telemetry"], "aidc:write");
      const keeps = packet.retain && placeOf(packet.topic)?.kind === "status";
      // An error would end the connection, and a client that comes back to say the same would do so forever.
      Object.assign(packet, may ? { retain: keeps } : { topic: NOWHERE, payload: Buffer.alloc(0), retain: false });
      done(null);
    },
    authorizeSubscribe: (client, subscription, done) => {
      done(null, mine(client, subscription.topic, ["wake", "status", "telemetry"], "aidc:read") ? subscription : null);
    },
    published: (packet, client, done) => {
      if (client && packet.topic !== NOWHERE) around.hear(messageOf(packet));
      done();
    },
  });
  (broker as unknown as NodeJS.EventEmitter).on("error", (error) =>
    log.error({ event: "mqtt-failed", err: error as Error }, "the embedded broker has a fault"),
  );
  return broker;
}

const messageOf = ({ topic, payload }: PublishPacket) => ({ topic, payload: Buffer.from(payload), isRetained: false });

/** By the same code as a request over HTTP; the name has to be the device that the key is bound to. */
async function stationOf({ authenticate }: Surroundings, username: string | undefined, secret = ""): Promise<Station> {
  const [goodIn, goodAt] = [credentialEpoch(), performance.now()];
  const { caller, expired } = await authenticate({ "x-api-key": secret });
  if (expired) throw new Refusal("SANDBOX_EXPIRED");
  if (caller.deviceId === null || caller.deviceId !== username)
    throw new Refusal("UNAUTHORIZED", "the username has to be the id of the device whose key the password is");
  return { caller, secret, goodIn, goodAt };
}

/** A device that lost its connections without a word must be able to come back, so that it is the oldest who goes. */
function endOldest(stations: Map<Client, Station>, { deviceId }: Caller): void {
  const its = [...stations].filter(([, { caller }]) => caller.deviceId === deviceId);
  for (const [client] of its.slice(0, -limits.MQTT_DEVICE_MAX_CONNECTIONS)) client.close();
}

/** Looks again at whose key it was, as soon as any key has died here, and now and then for what happened on other nodes. */
function startRechecker(around: Surroundings, stations: Map<Client, Station>, counts: Counts) {
  const isOld = ({ goodIn, goodAt }: Station) => goodIn !== credentialEpoch() || performance.now() - goodAt > limits.MQTT_RECHECK_MS;
  const recheck = async (client: Client, station: Station) => {
    try {
      Object.assign(station, await stationOf(around, station.caller.deviceId ?? undefined, station.secret));
    } catch (error) {
      if (error instanceof Refusal && error.status >= 500) return; // the store is away, which says nothing about the key
      counts.cut += 1;
      client.close();
    }
  };
  return startWorker(around.log, {
    event: "mqtt-recheck-failed",
    idleMs: RECHECK_EVERY_MS,
    step: async (stopping) => {
      for (const [client, station] of stations) if (isOld(station) && !stopping()) await recheck(client, station);
      return false;
    },
  });
}
