// What the embedded broker keeps: the last status of each station, by its topic, and no more of them than it has room for.
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import { brokerMemory } from "../../cloud/adapters/broker-memory.ts";

const of = async (memory: ReturnType<typeof brokerMemory>, ...topics: string[]) =>
  (await memory.createRetainedStreamCombi(topics).toArray()).map(({ payload }: { payload: Buffer }) => payload.toString("utf8"));

test("the last word on a topic is kept, until it is taken away", async () => {
  const memory = brokerMemory();
  for (const [topic, word] of [
    ["a", "online"],
    ["a", "degraded"],
    ["b", "offline"],
    ["c", "online"],
    ["c", ""],
  ] as const)
    await memory.storeRetained({ topic, payload: Buffer.from(word) });
  expect(await of(memory, "b", "nobody's", "a", "c")).toEqual(["offline", "degraded"]);
});

test("what is kept is bounded, and what was said longest ago goes first, however small", async () => {
  const memory = brokerMemory();
  const BYTES = 30_000;
  const say = (topic: string, payload = Buffer.alloc(BYTES)) => memory.storeRetained({ topic, payload });
  const fits = Math.floor(limits.MQTT_KEPT_MAX_BYTES / (BYTES + 3)) - 1;
  for (let i = 0; i < fits; i += 1) await say(String(100 + i));
  await say("old", Buffer.from("x"));
  for (let i = 0; i < fits; i += 1) await say(String(100 + i)); // said anew they take no more room
  expect((await of(memory, "old")).length).toBe(1);
  await say("new");
  await say("newer");
  expect([await of(memory, "old"), (await of(memory, "100", "101", "new", "newer")).length]).toEqual([[], 3]);
});
