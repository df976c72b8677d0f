// The station's line to the MQTT broker: it hears that work waits, or was cancelled, sooner than it would by polling, and says how it is. Without a broker nothing is lost but time.
import { createHmac } from "node:crypto";
import type { MqttClient } from "mqtt";
import type { Logger } from "pino";
import { reasonOf, wordsOf } from "#shared/fault.ts";
import { limits } from "#shared/limits.ts";
import { brokerAt, type Topics, topicsOf } from "#shared/mqtt.ts";
import type { StationReport } from "#shared/wire/devices.ts";
import { type Clock, systemClock, within } from "./clock.ts";
import type { CloudClient } from "./cloud.ts";
import { linkTold, pauseAfter, PAUSES_MS, STEADY_MS } from "./reconnecting.ts";

export type WakeSettings = {
  cloud: string;
  key: string;
  /** Overrides where the cloud says that the broker is. */ mqtt?: string | undefined;
};
type WakeOptions = {
  settings: WakeSettings;
  /** The cloud says where its broker is. */
  cloud: Pick<CloudClient, "station">;
  /** Work may wait: at each hint that names no job, and whenever the line is up again, for hints may have been missed. */
  onWake: () => void;
  /** That job may have been cancelled; without a name, any. */
  onDoubt: (jobRef?: string) => void;
  /** How the station is, asked whenever it is said. */
  report: () => StationReport;
  /** Where the cloud says that its broker is, as it said when it was last asked. */
  told?: () => string | undefined;
  log: Pick<Logger, "info" | "warn">;
  clock?: Clock;
  pausesMs?: readonly number[];
};
export type Wake = ReturnType<typeof startWake>;

const CONNECT_MAX_MS = 10_000;
const KEEPALIVE_S = 20; // a cable that is pulled out shows as offline after half as long again
const TELEMETRY_EVERY_MS = 30_000;
const FAREWELL_MAX_MS = 1_000;
const HEADERS_BYTES = 512;
const JOB = /^pj_\w{26}$/; // a hint that says anything else says that work waits
const OFFLINE = "offline"; // the bare word, as whoever else listens there knows a last will

export function startWake(options: WakeOptions) {
  const { settings, cloud, onWake, onDoubt, report, told, log, clock = systemClock, pausesMs = PAUSES_MS } = options;
  let line: Line | undefined;
  let heardAt: (string | undefined)[] = [];
  let failures = 0;
  let over = false;
  let callOff = () => {};
  const leaving = new AbortController();

  const { link, tell } = linkTold("not connected yet", (news) => {
    if (over) return;
    if (news.up) log.info({ event: "wake-up" }, "connected to the MQTT broker");
    else log.warn({ event: "wake-down" }, `no MQTT broker (${news.why}): jobs are found by polling`);
  });
  const later = () => {
    if (over) return;
    const pause = pauseAfter(failures, pausesMs);
    failures += 1;
    // Stations that lost their broker together don't come back together.
    callOff = clock.after(pause * (0.5 + Math.random() / 2), () => {
      attempting = attempt();
    });
  };
  const attempt = async () => {
    try {
      // Asked anew each time: a broker that was restarted may be elsewhere.
      const place = await unlessLeft(placeOf(settings, cloud), leaving.signal);
      if (!place || over) return;
      line = await connect(place, (said) => (JOB.test(said) ? onDoubt(said) : onWake()), clock, leaving.signal);
      heardAt = [place.told, told?.()];
    } catch (error) {
      tell({ up: false, why: reasonOf(error as Error) });
      return later();
    }
    const since = clock.now();
    tell({ up: true });
    void line.ended.then((why) => {
      line = undefined;
      callOff();
      if (clock.now() - since >= STEADY_MS) failures = 0;
      tell({ up: false, why });
      later();
    });
    if (over) return; // stop() waits for us, and leaves
    sayHow();
    onWake();
    onDoubt();
  };
  /** One that isn't the cloud's any more may go on for long, and brings no hints. */
  const hasMoved = () => told !== undefined && settings.mqtt === undefined && !heardAt.includes(told());
  /** Now, and from time to time. */
  const sayHow = () => {
    if (line && hasMoved()) return void line.leave(clock);
    try {
      line?.say(report());
    } catch (error) {
      log.warn({ event: "wake" }, `the broker can't be told how the station is: ${(error as Error).message}`);
    }
    callOff();
    callOff = clock.after(TELEMETRY_EVERY_MS, sayHow);
  };
  let attempting = attempt();

  return {
    link,
    /** Says that it goes, and goes. */
    stop: async (): Promise<void> => {
      over = true;
      leaving.abort(new Error("the station stops"));
      callOff();
      await attempting;
      await line?.leave(clock);
    },
  };
}

/** Undefined once the station leaves, which is listened for anew each time: one promise raced against at every attempt would keep something of each. */
async function unlessLeft<T>(asked: Promise<T>, leaving: AbortSignal): Promise<T | undefined> {
  const left = Promise.withResolvers<undefined>();
  const leave = () => left.resolve(undefined);
  leaving.addEventListener("abort", leave);
  try {
    return await Promise.race([asked, left.promise]);
  } finally {
    leaving.removeEventListener("abort", leave);
  }
}

type BrokerPlace = { url: string; told: string | undefined; username: string; password: string; clientId: string; topics: Topics };

async function placeOf({ cloud: origin, key, mqtt }: WakeSettings, cloud: WakeOptions["cloud"]): Promise<BrokerPlace> {
  const said = await cloud.station();
  if (!said.ok) throw new Error(said.message);
  const { device, tenant, mqtt: told } = said.value;
  const url = mqtt ?? told?.url;
  if (url === undefined) throw new Error("the cloud has none");
  const topics = told ?? topicsOf({ tenantId: tenant.id, deviceId: device.id });
  const at = reachable(url, origin, { username: device.id, password: key });
  return { ...at, told: told?.url, clientId: clientIdOf(device.id, key), topics };
}

const CLIENT_ID_HEX = 16;
/** The same each time, so that the broker knows an old connection of ours for dead; and nobody else's guess, or who came under it would end ours. */
const clientIdOf = (deviceId: string, key: string): string =>
  `${deviceId}-${createHmac("sha256", key).update(deviceId).digest("hex").slice(0, CLIENT_ID_HEX)}`;

/** A cloud that listens everywhere can't know by which name it is reached, but we do. A user in the address is used instead of ours. */
export function reachable(url: string, cloud: string, ours: { username: string; password: string }) {
  const { address, signIn } = brokerAt(url);
  if (address.hostname === "0.0.0.0" || address.hostname === "[::]") address.hostname = new URL(cloud).hostname;
  return { url: address.href, ...ours, ...signIn };
}

type Line = {
  say(report: StationReport): void;
  leave(clock: Clock): Promise<void>;
  /** Why it ended. */
  ended: Promise<string>;
};

/** Once hints are heard: who lets us in and no hint out is no broker. */
async function connect(place: BrokerPlace, hear: (named: string) => void, clock: Clock, leaving: AbortSignal): Promise<Line> {
  const { url, username, password, clientId, topics } = place;
  const mqtt = await import("mqtt");
  const client = mqtt.connect(url, {
    protocolVersion: 4, // what every broker speaks
    clientId,
    username,
    password,
    clean: true,
    keepalive: KEEPALIVE_S,
    connectTimeout: CONNECT_MAX_MS,
    reconnectPeriod: 0,
    queueQoSZero: false,
    writeCache: false, // of all 65,536 numbers, each as a buffer of its own: 7 MB
    will: { topic: topics.status, payload: Buffer.from(OFFLINE), qos: 1, retain: true },
  });
  let why = "the connection is closed";
  client.on("error", (error) => {
    why = wordsOf(error) || why;
  });
  client.on("message", (topic, payload) => {
    if (topic === topics.wake) hear(payload.toString("utf8"));
  });
  const giveUp = (because: string) => {
    why = because;
    client.end(true);
  };
  let callOff = () => {};
  const ended = new Promise<string>((resolve) => client.once("close", () => resolve(why))).finally(() => {
    callOff();
    client.end(true);
  });
  const up = new Promise<void>((resolve) => {
    client.once("connect", () => {
      callOff = clock.after(CONNECT_MAX_MS, () => giveUp("it doesn't say whether it lets us hear hints"));
      client.subscribe(topics.wake, { qos: 1 }, (error) => {
        callOff();
        if (!error) resolve();
        else if (!client.disconnecting) giveUp(`it doesn't let us hear hints: ${error.message}`);
      });
    });
  });
  const cut = () => void client.end(true);
  leaving.addEventListener("abort", cut);
  const first = await Promise.race([up, ended]).finally(() => leaving.removeEventListener("abort", cut));
  if (typeof first === "string") throw new Error(first);
  return { ...speaking(client, topics), ended };
}

function speaking(client: MqttClient, topics: Topics): Omit<Line, "ended"> {
  const publish = (topic: string, payload: string, retain: boolean) =>
    new Promise<void>((resolve) => client.publish(topic, payload, { qos: 1, retain }, () => resolve())); // unsaid is said again later
  return {
    say: (report) => {
      const { status = "online", version } = report;
      void publish(topics.status, JSON.stringify({ status, ...(version === undefined ? {} : { version }) }), true);
      void publish(topics.telemetry, whole(report), false);
    },
    leave: async (clock) => {
      await within(clock, FAREWELL_MAX_MS, publish(topics.status, OFFLINE, true), () => {});
      await within(clock, FAREWELL_MAX_MS, client.endAsync(), () => void client.end(true));
    },
  };
}

/** What printers tell beside their state may be any length; a broker cuts off who says too much. */
function whole(report: StationReport): string {
  const text = JSON.stringify(report);
  if (Buffer.byteLength(text) <= limits.MQTT_PACKET_MAX_BYTES - HEADERS_BYTES) return text;
  return JSON.stringify({ ...report, printers: report.printers?.map(({ name, status }) => ({ name, status })) });
}
