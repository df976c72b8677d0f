// A broker that somebody else runs: we are one of its clients, hear all stations, and come back by ourselves when it was away.
import { randomUUID } from "node:crypto";
import { wordsOf } from "#shared/fault.ts";
import { brokerAt, EVERY_STATION } from "#shared/mqtt.ts";
import type { Broker, Surroundings } from "./broker.ts";

const RETRY_MS = 2_000;
const ANSWER_MS = 10_000; // then it is asked on a new line

export async function externalBroker(url: string, { hear, log }: Pick<Surroundings, "hear" | "log">): Promise<Broker> {
  const { connect } = await import("mqtt"); // only who names a broker loads it
  const { address, signIn } = brokerAt(url);
  const shown = address.href;
  const client = connect(shown, {
    ...signIn,
    protocolVersion: 4, // what every broker speaks
    clientId: `imprimatur-${randomUUID()}`,
    reconnectPeriod: RETRY_MS,
    reconnectOnConnackError: true,
    connectTimeout: ANSWER_MS,
    resubscribe: false,
    queueQoSZero: false,
  });
  let listens = false;
  let told: string | undefined;
  const tell = (state: string, act: () => void) => {
    if (told !== state) act();
    told = state;
  };
  const away = (why: string) => {
    listens = false;
    tell("away", () => log.warn({ event: "broker-away", url: shown }, `the MQTT broker is away (${why}): stations poll meanwhile`));
  };
  let asking: NodeJS.Timeout | undefined;
  const listen = () => {
    const wanted = { [EVERY_STATION.status]: { qos: 1 }, [EVERY_STATION.telemetry]: { qos: 0 } } as const;
    asking = setTimeout(() => {
      away("it doesn't say whether it lets us hear the stations");
      client.stream.destroy();
    }, ANSWER_MS);
    client.subscribe(wanted, (error) => {
      clearTimeout(asking);
      if (error) {
        // Its rules may be mended while we are connected, and no broker tells of that.
        if (client.connected) asking = setTimeout(listen, RETRY_MS);
        return away(`it doesn't let us hear the stations: ${error.message}`);
      }
      listens = true;
      tell("up", () => log.info({ event: "broker-up", url: shown }, "the MQTT broker is there"));
    });
  };
  client.on("connect", listen);
  client.on("message", (topic, payload, { retain }) => hear({ topic, payload, isRetained: retain }));
  client.on("error", (error) => away(wordsOf(error) || "no reason given"));
  client.on("close", () => {
    clearTimeout(asking);
    away("the connection is closed");
  });
  return {
    url: () => shown,
    isUp: () => listens,
    hint: (topic, name = "") => {
      // A hint that doesn't get through is made up for by the next poll, or heartbeat.
      if (client.connected)
        client.publish(topic, name, { qos: 0 }, (error) => error && log.debug({ event: "hint-lost", err: error }, "a hint was lost"));
    },
    end: async () => {
      clearTimeout(asking);
      client.removeAllListeners("close");
      await client.endAsync(true);
    },
  };
}
