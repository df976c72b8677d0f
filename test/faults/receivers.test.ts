// Receivers of every temper at once, and a thousand webhooks to a dead one while the floor prints: whoever answers well is told everything, in order, whatever the others do.
import { createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { type Courier, createCourier } from "../../cloud/adapters/courier.ts";
import { emit } from "../../cloud/domain/outbox.ts";
import { createLog } from "../../cloud/log.ts";
import { openSeal } from "../../cloud/seal.ts";
import { startDispatcher } from "../../cloud/workers/dispatcher.ts";
import { listening } from "../../fixtures/listening.ts";
import { storeAt } from "../../fixtures/many-rows.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startWorld } from "../../fixtures/world.ts";
import { endsWithFile, freshFolder } from "../endings.ts";
import { limits } from "#shared/limits.ts";
import { answering, hooked, receiving, serialsOf } from "../hooks.ts";
import { world } from "../world.ts";

const settings = { IMPRIMATUR_WEBHOOK_PRIVATE: "on", IMPRIMATUR_LOG_LEVEL: "warn" };
const HOUR_MS = 3_600_000;
const EVENTS = 20;
const LABELS = 8;
const SLOWER_AT_MOST = 60; // 3 to 5 where it was measured; a seal that waited for a receiver would take hundreds of times as long
const WIDE = { timeout: 60_000, interval: 20 };

/** A door behind which something else than HTTP is done; counts who came. */
async function door(onData: (socket: Socket) => void) {
  let knocks = 0;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    knocks += 1;
    sockets.add(socket);
    socket.on("error", () => {}); // resets are what these are about
    socket.on("data", () => onData(socket));
  });
  const port = await listening(server);
  endsWithFile(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${port}/`, port, knocks: () => knocks };
}
const says = (text: string) => (socket: Socket) => void socket.end(text);
const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

test(
  "of twelve receivers eleven misbehave: the good one is told everything in order, and each of the others gets what the contract says",
  { timeout: 120_000 },
  async () => {
    const w = await world({ settings, tryMaxMs: 1_500 });
    const h = await hooked(w, ["print.confirmed"]);
    const canary = await door(says(ok));
    const plain = await receiving();
    let healed = false;
    const sick = await receiving((_n, response) => void response.writeHead(healed ? 204 : 500).end());
    const tempers = {
      hangs: (await door(() => {})).url,
      drips: (await door((socket) => void setInterval(() => socket.write("H"), 200).unref())).url,
      "is huge": (await receiving((_n, response) => void response.writeHead(200).end("x".repeat(4_000_000)))).url,
      redirects: (await receiving((_n, response) => void response.writeHead(307, { location: canary.url }).end())).url,
      "closes in its head": (await door(says("HTTP/1.1 200 OK\r\nContent-Le"))).url,
      "answers twice": (await door(says(ok + ok))).url,
      "is gone": (await receiving(answering(410))).url,
      "is busy": (await receiving((_n, response) => void response.writeHead(429, { "retry-after": "86400" }).end())).url,
      "has no certificate": plain.url.replace("http:", "https:"),
      "isn't there": "http://127.0.0.1:9/",
      "is sick": sick.url,
    };
    const paths: Record<string, string> = {};
    for (const [temper, url] of Object.entries(tempers)) paths[temper] = `/webhooks/${(await h.add(url)).id}`;
    const serials = Array.from({ length: EVENTS }, (_, i) => String(i));
    for (const serial of serials) await h.print(serial);
    const news = () => serialsOf(h.receiver.received.filter(({ again }) => !again)); // a try that a busy machine was too slow for comes again
    await expect.poll(news, WIDE).toEqual(serials);
    const first = async (temper: string) => (await h.deliveries(paths[temper])).at(-1);
    const tried = async () => (await Promise.all(Object.keys(paths).map(first))).every((delivery) => (delivery?.attempts.length ?? 0) > 0);
    await expect.poll(tried, WIDE).toBe(true);
    const states = async () =>
      Object.fromEntries(await Promise.all(Object.keys(paths).map(async (temper) => [temper, (await first(temper))?.status] as const)));
    const waits = "pending";
    await expect.poll(states, WIDE).toEqual({
      hangs: waits,
      drips: waits,
      "is huge": "delivered",
      redirects: waits,
      "closes in its head": waits,
      "answers twice": "delivered",
      "is gone": "failed",
      "is busy": "failed",
      "has no certificate": waits,
      "isn't there": waits,
      "is sick": waits,
    });
    expect((await h.admin.get(paths["is gone"] ?? "")).body).toMatchObject({ enabled: false, disabledReason: "gone" });
    expect([canary.knocks(), plain.requests()]).toEqual([0, 0]);
    // Two hours of illness later it is told all the same, under the ids of the first tries.
    const ids = new Set((await h.deliveries(paths["is sick"])).map(({ id }) => id));
    for (let hours = 0; hours < 2; hours += 1) {
      w.later(HOUR_MS);
      const then = sick.requests();
      await expect.poll(() => sick.requests(), WIDE).toBeGreaterThan(then);
    }
    healed = true;
    w.later(5 * HOUR_MS);
    await expect
      .poll(async () => new Set((await h.deliveries(paths["is sick"])).map(({ status }) => status)), WIDE)
      .toEqual(new Set(["delivered"]));
    expect(new Set(sick.received.map(({ deliveryId }) => deliveryId))).toEqual(ids);
  },
);

test(
  "a thousand webhooks to a dead receiver: the floor prints, and who listens beside them is told of every label in order",
  { timeout: 180_000 },
  async () => {
    const w = await world({ settings });
    const shop = await printShop(w);
    /** How long a label takes from its order to its seal, in the middle of so many. */
    const print = async (labels: number): Promise<{ sealed: string[]; ms: number }> => {
      const [sealed, took]: [string[], number[]] = [[], []];
      for (let i = 0; i < labels; i += 1) {
        const began = performance.now();
        const { serial } = await shop.issue();
        if ((await shop.device.seal(await shop.device.claim())).status === 200) sealed.push(serial as string);
        took.push(performance.now() - began);
      }
      return { sealed, ms: took.toSorted((one, other) => one - other)[labels >> 1] as number };
    };
    await print(LABELS);
    const alone = await print(2 * LABELS);
    const dead = await door(() => {});
    const good = await receiving();
    const add = (url: string) => shop.admin.post("/webhooks", { url, events: ["print.confirmed"] });
    for (let i = 1; i < limits.WEBHOOKS_MAX_ITEMS; i += 1) expect((await add(`${dead.url}${i}`)).status).toBe(201);
    expect((await add(good.url)).status).toBe(201);
    const { sealed, ms } = await print(LABELS);
    expect(sealed).toHaveLength(LABELS);
    process.stdout.write(`a label took ${(ms / alone.ms).toFixed(1)} times as long as without those webhooks\n`);
    expect(ms / alone.ms).toBeLessThan(SLOWER_AT_MOST);
    await expect.poll(() => serialsOf(good.received), WIDE).toEqual(sealed);
    await expect.poll(() => dead.knocks(), WIDE).toBeGreaterThan(500);
    expect((await w.admin.get("//readyz")).status).toBe(200);
  },
);

/** How many tries had to end before the good receiver was told of all. */
async function endedBefore(tryMaxMs: number, carry: (courier: Courier) => Courier): Promise<number> {
  const dataDir = freshFolder("receivers");
  const w = await startWorld({ settings, dataDir });
  const dead = await door(() => {});
  const h = await hooked(w, ["print.confirmed"]);
  for (let i = 0; i < 6; i += 1) await h.add(`${dead.url}${i}`);
  await w.close();
  const store = await storeAt({ dataDir });
  const courier = createCourier({ allowPrivate: true, tryMaxMs });
  let ended = 0;
  const tried = ({ status }: { status: number | null }) => void (ended += status === null ? 1 : 0);
  const dispatcher = startDispatcher(store, createLog("silent"), {
    seal: await openSeal(store, dataDir, []),
    courier: carry(courier),
    tried,
  });
  for (const serial of ["1", "2", "3"])
    await store.write("emit", (tx) => emit(tx, { tenantId: h.tenantId }, "print.confirmed", { serials: [serial] }));
  await expect.poll(() => h.receiver.received.length, WIDE).toBe(3);
  const before = ended;
  await dispatcher.stop();
  await store.close();
  return before;
}

test(
  "the control: a courier that makes one try at a time keeps the good waiting for the dead, and the count shows it",
  { timeout: 120_000 },
  async () => {
    let last: Promise<unknown> = Promise.resolve();
    const oneAtATime = (courier: Courier): Courier => ({
      ...courier,
      send: (errand) => {
        const turn = last.then(() => courier.send(errand));
        last = turn;
        return turn;
      },
    });
    expect(await endedBefore(15_000, (courier) => courier)).toBe(0);
    expect(await endedBefore(200, oneAtATime)).toBeGreaterThan(0);
  },
);
