// Who may be at the embedded broker and what is theirs there: by the keys of HTTP, and only for as long as HTTP would take them.
import type { Client } from "aedes";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { placeOf, type TopicKind } from "#shared/mqtt.ts";
import { holds, type Scope } from "#shared/scopes.ts";
import { type Caller, credentialEpoch } from "../domain/callers.ts";
import { startWorker } from "../workers/worker.ts";
import type { Surroundings } from "./broker.ts";

export type Gate = {
  /** Throws a refusal where the name isn't the device that the key is bound to. */
  admit(client: Client, username: string | undefined, secret: string | undefined): Promise<void>;
  /** Whether a topic is one of these of the client's own device; what isn't is counted. */
  isOwn(client: Client | null, topic: string, kinds: readonly TopicKind[], scope: Scope): boolean;
  end(): Promise<void>;
};
/** When it was last found good: which keys had died until then, and how long ago that is. */
type Station = { caller: Caller; secret: string; goodIn: number; goodAt: number };

const RECHECK_EVERY_MS = 50;
const PLACES = limits.MQTT_CONNECTIONS_MAX - limits.MQTT_UNKNOWN_MAX_CONNECTIONS; // whoever comes is a stranger first
const ROOMY = 0.9; // of the places: with fewer taken it is news again that all are

export function stationGate({ authenticate, log, metrics }: Pick<Surroundings, "authenticate" | "log" | "metrics">, places = PLACES): Gate {
  const stations = new Map<Client, Station>();
  const [ofTenant, ofDevice] = [shares(), shares()];
  const callers = new WeakMap<Client, Caller>(); // longer than its connection: a last will is published after it
  let [denied, cut] = [0, 0];
  metrics.watch("mqtt_connections", "Stations connected to the embedded broker", () => stations.size);
  metrics.watch("mqtt_denied", "Topics that a station had no business with", () => denied);
  metrics.watch("mqtt_cut", "Connections that were ended because their key had died", () => cut);

  async function stationOf(username: string | undefined, secret = ""): Promise<Station> {
    const [goodIn, goodAt] = [credentialEpoch(), performance.now()];
    const { caller, expired } = await authenticate({ "x-api-key": secret });
    if (expired) throw new Refusal("SANDBOX_EXPIRED");
    if (caller.deviceId === null || caller.deviceId !== username)
      throw new Refusal("UNAUTHORIZED", "the username has to be the id of the device whose key the password is");
    return { caller, secret, goodIn, goodAt };
  }

  async function recheck(client: Client, station: Station): Promise<void> {
    try {
      Object.assign(station, await stationOf(station.caller.deviceId ?? undefined, station.secret));
    } catch (error) {
      if (error instanceof Refusal && error.status >= 500) return; // the store is away, which says nothing about the key
      cut += 1;
      client.close();
    }
  }
  // As soon as any key has died here, and now and then for what happened on other nodes.
  const isOld = ({ goodIn, goodAt }: Station) => goodIn !== credentialEpoch() || performance.now() - goodAt > limits.MQTT_RECHECK_MS;
  const rechecker = startWorker(log, {
    event: "mqtt-recheck-failed",
    idleMs: RECHECK_EVERY_MS,
    step: async (stopping) => {
      for (const [client, station] of stations) if (isOld(station) && !stopping()) await recheck(client, station);
      return false;
    },
  });

  function put(client: Client, station: Station): void {
    stations.set(client, station);
    ofTenant.put(station.caller.tenantId, client);
    ofDevice.put(station.caller.deviceId, client);
  }
  function drop(client: Client): void {
    const { caller } = stations.get(client) ?? {};
    if (!caller) return;
    stations.delete(client);
    ofTenant.drop(caller.tenantId, client);
    ofDevice.drop(caller.deviceId, client);
  }
  /** A device that lost its connections without a word must be able to come back, so that it is the oldest who goes. */
  const oldestOf = (deviceId: string | null): Client[] => [...ofDevice.of(deviceId)].slice(0, -limits.MQTT_DEVICE_MAX_CONNECTIONS);

  let isFull = false;
  /** Where all places are taken, a further one is its own device's, or one of the tenant that has most, which keeps as many as the newcomer's. */
  function leavingFor({ tenantId, deviceId }: Caller): Client[] {
    if (stations.size < places) {
      isFull &&= stations.size > ROOMY * places;
      return [];
    }
    const [most, own] = [ofTenant.largest(), ofTenant.of(tenantId)];
    if (!isFull) {
      const [one] = most;
      const having = { tenantId: one && stations.get(one)?.caller.tenantId, connections: most.size };
      log.warn({ event: "mqtt-full", ...having }, "all places at the embedded broker are taken: the tenant that has most gets no more");
    }
    isFull = true;
    const [its] = ofDevice.of(deviceId);
    const gone = its ?? (most.size > own.size + 1 ? [...most].at(-1) : undefined);
    if (!gone) throw new Refusal("OVERLOADED", "all places for stations are taken, and its tenant has its share of them: it polls");
    drop(gone);
    return [gone];
  }

  return {
    admit: async (client, username, secret) => {
      const station = await stationOf(username, secret);
      if (client.conn.destroyed) return;
      const leaving = leavingFor(station.caller);
      callers.set(client, station.caller);
      put(client, station);
      client.conn.once("close", () => drop(client));
      leaving.push(...oldestOf(station.caller.deviceId));
      // Who comes under the name of one that isn't gone yet would be forgotten with it.
      await Promise.all(leaving.map((one) => new Promise<void>((resolve) => one.close(resolve))));
    },
    isOwn: (client, topic, kinds, scope) => {
      const [place, caller] = [placeOf(topic), client ? callers.get(client) : undefined];
      const isOwn =
        place !== undefined &&
        place.tenantId === caller?.tenantId &&
        place.deviceId === caller.deviceId &&
        kinds.includes(place.kind) &&
        holds(caller.scopes, scope);
      if (!isOwn) denied += 1;
      return isOwn;
    },
    end: () => rechecker.stop(),
  };
}

/** Which of them are whose, the longest there first: ten thousand that come back at once, each of which looked through all, took two seconds by that alone. */
function shares() {
  const held = new Map<string | null, Set<Client>>();
  const of = (whose: string | null): Set<Client> => held.get(whose) ?? new Set();
  return {
    of,
    largest: (): Set<Client> => held.values().reduce((some, others) => (others.size > some.size ? others : some), new Set<Client>()),
    put: (whose: string | null, client: Client): void => void held.set(whose, of(whose).add(client)),
    drop: (whose: string | null, client: Client): void => {
      const its = of(whose);
      if (its.delete(client) && its.size === 0) held.delete(whose);
    },
  };
}
