// What the embedded broker remembers: of each station its last status, found by its topic and bounded in bytes. The memory that aedes brings goes through
// all that is kept for each subscription, and keeps something of every client id that has ever acknowledged a message.
import { Readable } from "node:stream";
import { limits } from "#shared/limits.ts";

type Kept = { topic: string; payload: Buffer };

/** In the place of the same methods of aedes' own. There are no filters here, and no sessions that outlive a connection. */
export function brokerMemory() {
  const kept = new Map<string, Kept>();
  let bytes = 0;
  const drop = (topic: string): void => {
    const { payload } = kept.get(topic) ?? {};
    if (payload) bytes -= topic.length + payload.length;
    kept.delete(topic);
  };
  return {
    storeRetained: async (packet: Kept): Promise<void> => {
      const { topic } = packet;
      drop(topic);
      if (packet.payload.length === 0) return;
      const payload = Buffer.from(packet.payload); // else what it was read from is kept as a whole
      kept.set(topic, { ...packet, payload });
      bytes += topic.length + payload.length;
      while (bytes > limits.MQTT_KEPT_MAX_BYTES) drop(kept.keys().next().value as string);
    },
    createRetainedStreamCombi: (topics: readonly string[]): Readable => Readable.from(topics.flatMap((topic) => kept.get(topic) ?? [])),
    outgoingClearMessageId: async (): Promise<undefined> => undefined,
  };
}
