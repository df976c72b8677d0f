// Writes down what stations say of themselves over MQTT, as if they had said it over HTTP: many a commit, a bounded number, junk dropped and counted.
import { hash } from "node:crypto";
import { Refusal, refusalOr } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { type Place, placeOf } from "#shared/mqtt.ts";
import { StationReport } from "#shared/wire/devices.ts";
import type { Message } from "../adapters/broker.ts";
import { type Overheard, overhear } from "../domain/devices.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { inTurn, type Store, type Tx } from "../store/store.ts";
import { judgeOf } from "../validate.ts";
import { startWorker, type Worker } from "./worker.ts";

const IDLE_MS = 100; // also how often a device's row is written at most
const DEVICES_A_COMMIT = 100;

type Station = Place & { messages: Message[] };
export type Reports = {
  add(message: Message): void;
  take(mostDevices: number): Station[];
  /** They couldn't be written: they wait again, before what was said since. */
  giveBack(taken: readonly Station[]): void;
  wasJunk(count: number): void;
};

export function reportQueue(metrics: Metrics): Reports {
  const waiting = new Map<string, Station>();
  let [held, dropped, junk] = [0, 0, 0];
  metrics.watch("mqtt_reports_waiting", "Reports by MQTT that wait to be written", () => held);
  metrics.watch("mqtt_reports_dropped", "Reports by MQTT that were dropped: too many, or overtaken by the device's next", () => dropped);
  metrics.watch("mqtt_junk", "Messages by MQTT that were no report of a device we know", () => junk);
  function add(message: Message): void {
    const { topic, payload } = message;
    const place = placeOf(topic);
    if (place?.kind === "wake" || payload.length === 0) return; // our own, or a kept status that was taken away
    if (place === undefined || payload.length > limits.MQTT_PACKET_MAX_BYTES) return void (junk += 1);
    const key = `${place.tenantId}/${place.deviceId}`;
    const station = waiting.get(key) ?? { ...place, messages: [] };
    const { messages } = station;
    const ofTopic = messages.filter((other) => other.topic === topic);
    if (ofTopic.length >= limits.MQTT_TOPIC_REPORTS_MAX_ITEMS) {
      dropped += 1; // the latest but this one: a flood must not hide that its sender is gone
      messages.splice(messages.lastIndexOf(ofTopic.at(-1) as Message), 1);
    } else if (held >= limits.MQTT_REPORTS_MAX_ITEMS) return void (dropped += 1);
    else held += 1;
    messages.push(message);
    waiting.set(key, station);
  }
  function take(mostDevices: number): Station[] {
    const taken = waiting.entries().take(mostDevices).toArray();
    for (const [key, { messages }] of taken) {
      waiting.delete(key);
      held -= messages.length;
    }
    return taken.map(([, station]) => station);
  }
  return {
    wasJunk: (count) => {
      junk += count;
    },
    add,
    take,
    giveBack: (taken) => {
      const since = take(waiting.size);
      for (const { messages } of [...taken, ...since]) messages.forEach(add);
    },
  };
}

export function startStationListener(store: Store, log: Log, reports: Reports): Worker {
  return startWorker(log, {
    event: "station-reports-failed",
    idleMs: IDLE_MS,
    step: async () => {
      const taken = reports.take(DEVICES_A_COMMIT);
      const heard = taken.map(wordOf);
      const said = heard.flatMap(({ word }) => word ?? []);
      let strangers = 0;
      try {
        if (said.length > 0) strangers = await store.write("station reports", (tx) => write(tx, said));
      } catch (error) {
        reports.giveBack(taken);
        throw error;
      }
      reports.wasJunk(heard.reduce((sum, { junk }) => sum + junk, strangers));
      return taken.length === DEVICES_A_COMMIT;
    },
  });
}

type Word = Place & { said: StationReport; how: Overheard };
const judge = judgeOf(StationReport);
const BARE = /^(online|degraded|offline)$/;

/** A station's messages since the last time, as one report; none where all of them were junk. Offline may be its last will: such a station wasn't heard. */
function wordOf({ messages, tenantId, deviceId }: Station): { word: Word | undefined; junk: number } {
  const said: StationReport[] = [];
  let isHeard = false;
  let isKept = true;
  let kept: string | undefined;
  for (const { topic, payload, isRetained } of messages) {
    const one = reportIn(payload.toString("utf8"));
    if (one === undefined) continue;
    said.push(one);
    isKept &&= isRetained;
    if (placeOf(topic)?.kind === "status") kept = hash("sha256", payload, "base64url");
    isHeard = one.status === "offline" ? false : isHeard || !isRetained;
  }
  const word = { tenantId, deviceId, said: Object.assign({}, ...said) as StationReport, how: { isHeard, isKept, kept } };
  return { word: said.length === 0 ? undefined : word, junk: messages.length - said.length };
}

/** A report as JSON, or the status as a bare word. */
function reportIn(text: string): StationReport | undefined {
  if (BARE.test(text)) return { status: text as "online" };
  try {
    const said: unknown = JSON.parse(text);
    return judge(said).length === 0 ? (said as StationReport) : undefined;
  } catch {
    return undefined; // counted by who asked
  }
}

/** Says how many of them are no devices of ours, or not any more. */
async function write(tx: Tx, words: readonly Word[]): Promise<number> {
  let strangers = 0;
  // With an external broker each node hears of all devices.
  for (const { tenantId, deviceId, said, how } of inTurn(words, (word) => word.deviceId))
    if ((await refusalOr(() => overhear(tx, tenantId, deviceId, said, how))) instanceof Refusal) strangers += 1;
  return strangers;
}
