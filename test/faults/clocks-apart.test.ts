// Nodes whose clocks are apart, by an hour or by what NTP leaves: what was done on one and then on the other is told in that order.
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { client } from "../../fixtures/client.ts";
import { aheadBy, faketimeMissing } from "../../fixtures/faketime.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { startProgram } from "../../fixtures/program.ts";
import { startReceiver } from "../../fixtures/receiver.ts";
import { startWorld } from "../../fixtures/world.ts";
import { freshDatabase } from "../world.ts";

const KEY = `clocks-apart-${randomUUID()}`;
const CHANGES = 40;
const HOUR_S = 3_600;
const product = (n: number) => ({
  name: "A kettle",
  description: "A kettle of 1.7 litres",
  category: "electronics",
  gtin: gtinOf(n),
  serialNumber: "1",
  extensions: {},
});

if (faketimeMissing) process.stderr.write(`skipped: nodes whose clocks are apart: ${faketimeMissing}\n`);
test.skipIf(faketimeMissing).each([HOUR_S, 0.02])("a node is %f s ahead of the other: a webhook hears of a product's changes in their order", async (seconds) => {
  const databaseUrl = await freshDatabase("postgres");
  const after: (() => unknown)[] = [];
  const start = async (clock: Record<string, string>) => {
    const folder = mkdtempSync(join(tmpdir(), "imprimatur-apart-"));
    const node = await startProgram("cloud/main.ts", {
      IMPRIMATUR_DATABASE_URL: databaseUrl,
      IMPRIMATUR_DATA_DIR: folder,
      IMPRIMATUR_BOOTSTRAP_KEY: KEY,
      IMPRIMATUR_PUBLIC_URL: "http://imprimatur.example",
      IMPRIMATUR_PORT: "0",
      IMPRIMATUR_MQTT_PORT: "0",
      IMPRIMATUR_WEBHOOK_PRIVATE: "on",
      IMPRIMATUR_RATE_LIMIT: "off",
      ...clock,
    });
    after.push(() => node.end("SIGKILL").then(() => rmSync(folder, { recursive: true })));
    return client(() => node.url, { authorization: `Bearer ${KEY}` });
  };
  try {
    const [ahead, here] = [await start(aheadBy(seconds)), await start({})];
    const receiver = await startReceiver();
    after.push(receiver.end);
    await ahead.post("/webhooks", { url: receiver.url, events: ["product.created", "product.updated"] });
    const { id } = (await ahead.post("/products", product(931_000))).body;
    for (let n = 1; n <= CHANGES; n += 1)
      expect((await (n % 2 ? here : ahead).patch(`/products/${id}`, { name: `Kettle ${n}` })).status).toBe(200);
    const versions = () => [...new Set(receiver.received.map(({ event }) => event.data["version"]))];
    await expect.poll(() => versions().length).toBe(CHANGES + 1);
    expect(versions()).toEqual(Array.from({ length: CHANGES + 1 }, (_, n) => n + 1));
  } finally {
    for (const act of after.toReversed()) await act();
  }
}); // oxfmt-ignore

test("an event's id is of the store's moment that the event has, not of the node's clock", async (t) => {
  const world = await startWorld({ databaseUrl: await freshDatabase("postgres") });
  t.onTestFinished(world.end);
  world.later(HOUR_S * 1_000);
  const { id } = (await world.admin.post("/products", product(931_001))).body;
  const [event] = (await world.admin.get(`/products/${id}/events`)).body.data as [{ id: string; timestamp: string }];
  const inId = Number.parseInt(event.id.replace("-", "").slice(0, 12), 16);
  expect(Math.abs(inId - Date.parse(event.timestamp))).toBeLessThan((HOUR_S * 1_000) / 2);
});
