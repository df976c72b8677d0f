// The broker that we bring along: for stations only, each within its own three topics, bounded in all that a stranger could make it keep.
import { randomUUID } from "node:crypto";
import { createServer, type Server, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Aedes, AuthenticateError, Client } from "aedes";
import { Refusal } from "#shared/errors.ts";
import { limits, tiers } from "#shared/limits.ts";
import { placeOf } from "#shared/mqtt.ts";
import { countedAs } from "../caller-address.ts";
import { UUID } from "../domain/page.ts";
import { budgets } from "../rate.ts";
import { brokerMemory } from "./broker-memory.ts";
import type { Broker, Surroundings } from "./broker.ts";
import { metered } from "./packet-meter.ts";
import { type Gate, stationGate } from "./station-gate.ts";

const NOWHERE = "denied"; // a topic that nobody may listen to
const CLIENT_ID_MAX_LENGTH = 128;
const SILENT_MS = 60_000;
const QOS2_MAX_ITEMS = 16;
const UNTAKEN_MAX_MS = 100; // what one doesn't take holds one of the hundred places through which everybody's words go
const [SERVER_UNAVAILABLE, NOT_AUTHORIZED] = [3, 5]; // MQTT 3.1.1, table 3.1

export async function embeddedBroker(at: { host: string; port: number }, around: Surroundings): Promise<Broker> {
  const { log, metrics, origin } = around;
  const gate = stationGate(around);
  const all = new Set<Duplex>();
  const strangers = new Map<Duplex, string>(); // those of them that haven't said yet who they are, and where from
  let refused = 0;
  metrics.watch("mqtt_refused", "Connections that were refused: no good key, too many, too fast", () => refused);

  const letIn: LetIn = async (client, username, password, done) => {
    try {
      await gate.admit(client, username, password?.toString("utf8"));
      strangers.delete(client.conn);
      done(null, true);
    } catch (error) {
      refused += 1;
      const named = username !== undefined && UUID.test(username) ? { deviceId: username } : {}; // who swaps the two sends the key as the name
      log.info({ event: "mqtt-refused", ...named }, `an MQTT connection was refused: ${(error as Error).message}`);
      const isOurs = !(error instanceof Refusal) || error.status >= 500;
      done(Object.assign(error as Error, { returnCode: isOurs ? SERVER_UNAVAILABLE : NOT_AUTHORIZED }), false);
    }
  };
  let made: Promise<Aedes> | undefined;
  let aedes: Aedes | undefined;
  /** Made for the first who comes: a cloud without MQTT stations doesn't carry 12 MB of it. */
  const broker = () => (made ??= makeAedes(around, gate, letIn).then((ready) => (aedes = ready)));

  const { take } = budgets();
  const isWithin = (key: string, perMinute: number) => !around.rateLimited || take(key, perMinute).isAllowed;
  const admit = async (socket: Socket) => {
    const from = countedAs("", socket.remoteAddress);
    const ofThere = strangers.values().reduce((count, other) => (other === from ? count + 1 : count), 0);
    const isFull = strangers.size >= limits.MQTT_UNKNOWN_MAX_CONNECTIONS || ofThere >= limits.MQTT_UNKNOWN_ADDRESS_MAX_CONNECTIONS;
    if (isFull || !isWithin(`connect ${from}`, tiers.anonymous)) {
      refused += 1;
      return socket.destroy();
    }
    const own = `packets ${randomUUID()}`;
    const conn = metered(socket, () => isWithin(own, tiers.device));
    all.add(conn);
    strangers.set(conn, from);
    for (const kept of [all, strangers]) conn.once("close", () => kept.delete(conn));
    return (await broker()).handle(conn);
  };
  const server = createServer({ noDelay: true, keepAlive: true, keepAliveInitialDelay: SILENT_MS }, (socket) => {
    admit(socket).catch((error: unknown) => {
      log.error({ event: "mqtt-failed", err: error }, "an MQTT connection couldn't be taken");
      socket.destroy();
    });
  });
  server.maxConnections = limits.MQTT_CONNECTIONS_MAX;
  const port = await listen(server, at, log);
  return {
    url: () => (port === undefined ? undefined : `mqtt://${new URL(origin()).hostname}:${port}`),
    isUp: () => port !== undefined,
    hint: (topic, name = "") => aedes?.publish({ cmd: "publish", topic, payload: name, qos: 0, retain: false, dup: false }, () => {}),
    end: async () => {
      await gate.end();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const running = await made;
      if (running) await new Promise<void>((resolve) => running.close(resolve));
      for (const conn of all) conn.destroy();
      await closed;
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
    const free = await attempt(0).catch((fault: unknown) => {
      log.warn({ event: "mqtt-port", err: fault }, "no other port can be had either");
      return undefined;
    });
    const instead = free === undefined ? "stations poll" : `stations are told port ${free} instead`;
    log.warn({ event: "mqtt-port", port: free }, `IMPRIMATUR_MQTT_PORT can't be had (${(error as Error).message}): ${instead}`);
    return free;
  }
}

type Answer = (error: AuthenticateError | null, isGood: boolean) => void;
type LetIn = (client: Client, username: string | undefined, password: Buffer | undefined, done: Answer) => Promise<void>;

async function makeAedes({ hear, log }: Surroundings, gate: Gate, letIn: LetIn): Promise<Aedes> {
  const { Aedes } = await import("aedes");
  const broker = await Aedes.createBroker({
    connectTimeout: limits.MQTT_CONNECT_MAX_MS,
    drainTimeout: UNTAKEN_MAX_MS,
    maxInflightInbound: QOS2_MAX_ITEMS,
    maxClientsIdLength: CLIENT_ID_MAX_LENGTH + limits.NAME_MAX_LENGTH,
    preConnect: (_client, packet, done) => {
      const { clientId, username = "" } = packet;
      if (clientId.length > CLIENT_ID_MAX_LENGTH || username.length > limits.NAME_MAX_LENGTH)
        return done(new Error("too long a name"), false);
      // A client id is a device's own: nobody can take another's connection over by using its id. Nothing is kept for who is away.
      Object.assign(packet, { clientId: `${username}/${clientId || randomUUID()}`, clean: true });
      return done(null, true);
    },
    authenticate: (client, username, password, done) => void letIn(client, username, password, done),
    authorizePublish: (client, packet, done) => {
      const keeps = packet.retain && placeOf(packet.topic)?.kind === "status";
      const isOwn = gate.isOwn(client, packet.topic, ["status", "telemetry"], "aidc:write");
      // An error would end the connection, and a client that comes back to say the same would do so forever.
      Object.assign(packet, isOwn ? { retain: keeps } : { topic: NOWHERE, payload: Buffer.alloc(0), retain: false });
      done(null);
    },
    authorizeSubscribe: (client, subscription, done) => {
      done(null, gate.isOwn(client, subscription.topic, ["wake", "status", "telemetry"], "aidc:read") ? subscription : null);
    },
    published: ({ topic, payload }, client, done) => {
      if (client && topic !== NOWHERE) hear({ topic, payload: Buffer.from(payload), isRetained: false });
      done();
    },
  });
  const untyped = broker as unknown as NodeJS.EventEmitter & { persistence: object }; // its types leave these out
  Object.assign(untyped.persistence, brokerMemory());
  untyped.on("error", (error: unknown) => log.error({ event: "mqtt-failed", err: error }, "the embedded broker has a fault"));
  return broker;
}
