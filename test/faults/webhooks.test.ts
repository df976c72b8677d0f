// SIGKILL between the commit of an event and its sending, and between a try and its record: it arrives all the same, under the same id.
import { test } from "vitest";
import { client } from "../../fixtures/client.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { cloudSettings, type Program, startProgram } from "../../fixtures/program.ts";
import { freshFolder } from "../endings.ts";
import { receiving } from "../hooks.ts";
import { freshDatabase } from "../world.ts";

const KEY = "a-key-for-the-webhook-test";

// Where several nodes may live, a dead one is only known by its lease running out: the other tests go on meanwhile.
test.concurrent.for(["sqlite", "postgres"] as const)(
  "on %s an event outlives the process, before it is sent and after",
  { timeout: 180_000 },
  async (engine, { expect }) => {
    const more = { IMPRIMATUR_DATABASE_URL: (await freshDatabase(engine)) ?? "", IMPRIMATUR_WEBHOOK_PRIVATE: "on" };
    const env = cloudSettings(freshFolder("webhooks"), KEY, more);
    let cloud: Program = await startProgram("cloud/main.ts", env);
    const admin = client(() => cloud.url, { authorization: `Bearer ${KEY}` });
    let silent = true; // the first try is heard and never answered
    const receiver = await receiving((_n, response) => void (silent || response.writeHead(204).end()));
    const { id } = (await admin.post("/webhooks", { url: receiver.url, events: ["carrier.generated"] })).body;
    const kettle = productOf({ gtin: gtinOf(880_001) });
    const productId = (await admin.post("/products", kettle)).body.id;
    const allocate = async (count: number) => expect((await admin.post("/carriers/batch", { productId, count })).status).toBe(201);
    await allocate(1);
    await expect.poll(() => receiver.received.length).toBe(1);
    await allocate(2); // waits behind the first, which nobody answers
    expect(await cloud.end("SIGKILL")).toBe("SIGKILL");
    const counts = () => receiver.received.map(({ event }) => event.data["count"]);
    expect(counts()).toEqual([1]);

    silent = false;
    cloud = await startProgram("cloud/main.ts", env);
    await expect.poll(counts, { timeout: 90_000, interval: 100 }).toEqual([1, 1, 2]);
    const [before, after] = receiver.received;
    expect([after?.deliveryId, after?.body]).toEqual([before?.deliveryId, before?.body]);
    const deliveries = async () => (await admin.get(`/webhooks/${id}/deliveries`)).body.data;
    await expect.poll(async () => (await deliveries()).map(({ status }: { status: string }) => status)).toEqual(["delivered", "delivered"]);
    expect((await deliveries()).map((delivery: { attempts: unknown[] }) => delivery.attempts.length)).toEqual([1, 1]);
    expect(await cloud.end()).toBe(0);
  },
);

test.concurrent(
  "SIGTERM waits for the answers of what was begun and writes them down; what hangs is left to the next start",
  { timeout: 120_000 },
  async ({ expect }) => {
    const env = cloudSettings(freshFolder("webhooks"), KEY, { IMPRIMATUR_WEBHOOK_PRIVATE: "on" });
    const slow = await receiving((_n, response) => void setTimeout(() => response.writeHead(204).end(), 1_000));
    let hangs = true;
    const dead = await receiving((_n, response) => void (hangs || response.writeHead(204).end()));
    let cloud = await startProgram("cloud/main.ts", env);
    const admin = client(() => cloud.url, { authorization: `Bearer ${KEY}` });
    const ids: string[] = [];
    for (const { url } of [slow, dead]) ids.push((await admin.post("/webhooks", { url, events: ["product.created"] })).body.id);
    await admin.post("/products", productOf({ gtin: gtinOf(880_002) }));
    await expect.poll(() => [slow.received.length, dead.received.length]).toEqual([1, 1]);
    expect(await cloud.end()).toBe(0);
    hangs = false;
    cloud = await startProgram("cloud/main.ts", env);
    const statuses = () => Promise.all(ids.map(async (id) => (await admin.get(`/webhooks/${id}/deliveries`)).body.data[0].status));
    await expect.poll(statuses).toEqual(["delivered", "delivered"]);
    expect([slow.received.length, dead.received.length]).toEqual([1, 2]);
    await cloud.end();
  },
);
