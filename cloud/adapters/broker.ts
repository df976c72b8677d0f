// The MQTT broker, inside or outside of us. It brings hints sooner than the next poll would; whatever it does is also done without it.
import type { Authenticate } from "../auth.ts";
import type { Config } from "../config.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { embeddedBroker } from "./embedded-broker.ts";
import { externalBroker } from "./external-broker.ts";

/** What came on a topic; `isRetained` when it was said earlier and kept by the broker. */
export type Message = { topic: string; payload: Buffer; isRetained: boolean };
export type Broker = {
  /** Where stations find it; undefined where there is none. */
  url(): string | undefined;
  isUp(): boolean;
  /** Says on a topic that there is something, and at most its name; nothing is kept for who doesn't listen now. */
  hint(topic: string, name?: string): void;
  end(): Promise<void>;
};
export type Surroundings = {
  authenticate: Authenticate;
  hear: (message: Message) => void;
  origin: () => string;
  log: Log;
  metrics: Metrics;
  rateLimited: boolean;
};

export const noBroker: Broker = { url: () => undefined, isUp: () => true, hint: () => {}, end: async () => {} };

export async function openBroker({ MQTT_URL, MQTT_PUBLIC_URL, MQTT_PORT, HOST }: Config, around: Surroundings): Promise<Broker> {
  const broker = await (MQTT_URL === undefined
    ? embeddedBroker({ host: HOST, port: MQTT_PORT }, around)
    : externalBroker(MQTT_URL, around));
  return MQTT_PUBLIC_URL === undefined ? broker : { ...broker, url: () => MQTT_PUBLIC_URL };
}
