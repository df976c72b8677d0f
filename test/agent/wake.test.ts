// The station's line to the broker, against a real cloud with its broker and a real mosquitto: hints come, breaks heal, and nothing waits for it.
import { createServer, type Server } from "node:http";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, onTestFinished, test } from "vitest";
import { topicsOf } from "#shared/mqtt.ts";
import type { Station as Told, StationReport } from "#shared/wire/devices.ts";
import { type Clock, systemClock } from "../../agent/clock.ts";
import { cloudClient } from "../../agent/cloud.ts";
import { startWake, type Wake, type WakeSettings } from "../../agent/wake.ts";
import { freePort } from "../../fixtures/free-port.ts";
import { listening } from "../../fixtures/listening.ts";
import { startProxy } from "../../fixtures/tcp-proxy.ts";
import { mosquittoMissing, type Peer, peer, startMosquitto } from "../../fixtures/mqtt.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { type World, type WorldOptions } from "../../fixtures/world.ts";
import { world } from "../world.ts";

if (mosquittoMissing) process.stderr.write(`skipped: a station at an external MQTT broker: ${mosquittoMissing}\n`);
const SOON = { timeout: 30_000, interval: 20 };
/** It says how it is after 100 ms again; its farewell has the time that it needs. */
const hurried: Clock = { now: () => Date.now(), after: (ms, act) => systemClock.after(ms > 10_000 ? ms / 300 : ms, act) };
type Station = { wake: Wake; wakes: () => number; doubts: (string | undefined)[]; lines: string[]; state: StationReport };
function station(settings: WakeSettings, clock: Clock = systemClock, pausesMs: readonly number[] = [20, 50], told?: () => string): Station {
  const lines: string[] = [];
  const state: StationReport = { status: "online", version: "0.1.0", buffer_depth: 0, printers: [{ name: "zd", status: "ready" }] };
  let wakes = 0;
  const doubts: (string | undefined)[] = [];
  const note = (_line: object, words: string) => void lines.push(words);
  const log = { info: note, warn: note } as never;
  const cloud = cloudClient(settings.cloud, settings.key);
  const wake = startWake({
    settings,
    cloud,
    onWake: () => (wakes += 1),
    onDoubt: (ref) => doubts.push(ref),
    report: () => state,
    log,
    clock,
    pausesMs,
    ...(told ? { told } : {}),
  });
  onTestFinished(() => wake.stop());
  return { wake, wakes: () => wakes, doubts, lines, state };
}
async function aWorld(options: WorldOptions = {}): Promise<{ w: World; shop: Shop }> {
  const w = await world(options, onTestFinished);
  return { w, shop: await printShop(w) };
}
const isUp = async ({ wake }: Station) => {
  await expect.poll(() => wake.link().up, SOON).toBe(true);
};
const shown = async ({ admin, device }: Shop) => (await admin.get(`/devices/${device.id}`)).body;
const topics = ({ tenantId, device }: Shop) => topicsOf({ tenantId, deviceId: device.id });
async function witness(shop: Shop): Promise<Peer> {
  const { url } = (await shop.device.api.get("/aidc/station")).body.mqtt;
  const made = await peer(url, { username: shop.device.id, password: shop.device.secret });
  onTestFinished(() => made.leave());
  return made;
}

describe("at the cloud's own broker", () => {
  test("a station is woken when it connects, and for each work that comes up", async () => {
    const { w, shop } = await aWorld();
    const it = station({ cloud: w.url, key: shop.device.secret });
    await expect.poll(it.wakes, SOON).toBe(1);
    await shop.issue();
    await expect.poll(it.wakes, SOON).toBe(2);
    await shop.issue({ station: "line-9" });
    await shop.issue();
    await expect.poll(it.wakes, SOON).toBe(3);
  });

  test("a job that it holds and that is cancelled is named to it; after a line that was down any may be", async () => {
    const { w, shop } = await aWorld();
    await shop.issue();
    const { job } = await shop.device.claim();
    const it = station({ cloud: w.url, key: shop.device.secret });
    await expect.poll(() => it.doubts, SOON).toEqual([undefined]);
    expect((await shop.admin.post(`/aidc/jobs/${job.job_ref}/cancel`, {})).status).toBe(200);
    await expect.poll(() => it.doubts, SOON).toEqual([undefined, job.job_ref]);
    expect(it.wakes()).toBe(1); // that is no work
  });

  test("it says how it is: a kept status, telemetry, both again by itself, and that it goes", async () => {
    const { w, shop } = await aWorld();
    const it = station({ cloud: w.url, key: shop.device.secret }, hurried);
    await expect
      .poll(() => shown(shop), SOON)
      .toMatchObject({ status: "online", version: "0.1.0", buffer_depth: 0, printers: [{ name: "zd" }] });
    const seen = await witness(shop);
    await seen.subscribe(topics(shop).status);
    await expect
      .poll(() => seen.heard, SOON)
      .toContainEqual({ topic: topics(shop).status, text: '{"status":"online","version":"0.1.0"}', isRetained: true });
    Object.assign(it.state, { status: "degraded", buffer_depth: 12 });
    await expect.poll(() => shown(shop), SOON).toMatchObject({ status: "degraded", buffer_depth: 12 });
    await it.wake.stop();
    await expect.poll(() => seen.heard.at(-1)?.text, SOON).toBe("offline"); // the bare word
    const said = () => seen.heard.map(({ text }) => (text === "offline" ? text : JSON.parse(text).status));
    await expect.poll(async () => (await shown(shop)).status, SOON).toBe("offline");
    expect(said().filter((status, i, all) => status !== all[i - 1])).toEqual(["online", "degraded", "offline"]);
    expect(said().filter((status) => status === "offline")).toHaveLength(1); // and no last will beside
  });

  test("telemetry comes again by itself, often enough to be heard of", async () => {
    const { w, shop } = await aWorld();
    const it = station({ cloud: w.url, key: shop.device.secret }, hurried);
    await isUp(it);
    const seen = await witness(shop);
    await seen.subscribe(topics(shop).telemetry);
    it.state.buffer_depth = 5;
    await expect.poll(() => seen.heard.filter(({ text }) => text.includes('"buffer_depth":5')).length, SOON).toBeGreaterThan(1);
  });

  test("more than a broker takes is cut to what matters", async () => {
    const { w, shop } = await aWorld();
    const it = station({ cloud: w.url, key: shop.device.secret }, hurried);
    await isUp(it);
    it.state.printers = [{ name: "zd", status: "jammed", note: "ü".repeat(40_000) } as never];
    await expect.poll(async () => (await shown(shop)).printers, SOON).toEqual([{ name: "zd", status: "jammed" }]);
    expect(it.wake.link().up).toBe(true);
  });

  test("a cloud and its broker that come back elsewhere are found again, and missed hints made up for", async () => {
    const port = String(await freePort());
    const { w, shop } = await aWorld({ settings: { IMPRIMATUR_PORT: port } });
    const it = station({ cloud: w.url, key: shop.device.secret });
    await isUp(it);
    const { url } = (await shop.device.api.get("/aidc/station")).body.mqtt;
    await w.restart(); // the broker is on any free port
    await expect.poll(it.wakes, SOON).toBe(2);
    await isUp(it);
    expect((await shop.device.api.get("/aidc/station")).body.mqtt.url).not.toBe(url);
    await shop.issue();
    await expect.poll(it.wakes, SOON).toBe(3);
    expect(it.lines.filter((line) => line.startsWith("no MQTT broker"))).toHaveLength(1); // told once, however often it tried
  });

  test("a cloud whose broker is another one by now is followed there, though the one before goes on", async () => {
    const { shop } = await aWorld();
    const told = (await shop.device.api.get("/aidc/station")).body;
    const [before, after] = await Promise.all([0, 1].map(() => startProxy(() => ({ port: Number(new URL(told.mqtt.url).port) }))));
    onTestFinished(async () => void (await Promise.all([before?.end(), after?.end()])));
    const at = (line: typeof before) => `mqtt://127.0.0.1:${line?.port}`;
    let url = at(before);
    const cloud = createServer((_, response) => response.end(JSON.stringify({ ...told, mqtt: { ...told.mqtt, url } })));
    await new Promise<void>((resolve) => cloud.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void cloud.close());
    let asked = url; // the cloud is asked from time to time only
    const where = { cloud: `http://127.0.0.1:${(cloud.address() as { port: number }).port}`, key: shop.device.secret };
    const it = station(where, hurried, [20, 50], () => asked);
    await isUp(it);
    url = at(after);
    asked = url;
    await expect.poll(it.wakes, SOON).toBe(2);
    await isUp(it);
    before?.afflict({ kind: "refuse" });
    await new Promise((resolve) => setTimeout(resolve, 500)); // said several times how it is
    expect([it.wakes(), it.wake.link().up]).toEqual([2, true]);
    await shop.issue();
    await expect.poll(it.wakes, SOON).toBe(3);
  });

  test("where a cloud listens everywhere, the broker is where the cloud is", async () => {
    const { shop } = await aWorld();
    const told = (await shop.device.api.get("/aidc/station")).body;
    const everywhere = JSON.stringify({ ...told, mqtt: { ...told.mqtt, url: told.mqtt.url.replace("127.0.0.1", "[::]") } });
    const cloud = createServer((_, response) => response.end(everywhere));
    const port = await listening(cloud);
    onTestFinished(() => void cloud.close());
    const it = station({ cloud: `http://127.0.0.1:${port}`, key: shop.device.secret });
    await isUp(it);
    await expect.poll(async () => (await shown(shop)).status, SOON).toBe("online");
  });

  test("a revoked key ends the line, and it says why nothing can be done about it", async () => {
    const { w, shop } = await aWorld();
    const it = station({ cloud: w.url, key: shop.device.secret });
    await isUp(it);
    await shop.admin.delete(`/api-keys/${shop.device.keyId}`);
    await expect.poll(() => it.wake.link(), SOON).toMatchObject({ up: false, why: expect.stringContaining("revoked") });
  });

  test("a line that is cut leaves its last will: whoever asks later hears that it is offline", async () => {
    const { w, shop } = await aWorld();
    const { url } = (await shop.device.api.get("/aidc/station")).body.mqtt;
    const line = await startProxy(() => ({ port: Number(new URL(url).port) }));
    onTestFinished(line.end);
    const it = station({ cloud: w.url, key: shop.device.secret, mqtt: `mqtt://127.0.0.1:${line.port}` });
    await isUp(it);
    await expect.poll(async () => (await shown(shop)).status, SOON).toBe("online");
    line.afflict({ kind: "refuse" });
    await expect.poll(async () => (await shown(shop)).status, SOON).toBe("offline");
    const seen = await witness(shop);
    await seen.subscribe(topics(shop).status);
    await expect.poll(() => seen.heard, SOON).toEqual([{ topic: topics(shop).status, text: "offline", isRetained: true }]);
  });

  test("two agents with one key take the line from one another, no faster than they may", async () => {
    const { w, shop } = await aWorld();
    const [one, two] = [0, 1].map(() => station({ cloud: w.url, key: shop.device.secret }, systemClock, [500]));
    await expect.poll(() => (one?.wakes() ?? 0) + (two?.wakes() ?? 0), SOON).toBeGreaterThan(3);
    await shop.issue();
    expect((await shop.device.claim()).job.gtin).toBe(shop.gtin);
  });

  test("nor does a line that holds for moments only make an agent hurry", async () => {
    const { w, shop } = await aWorld();
    const [one, two] = [0, 1].map(() => station({ cloud: w.url, key: shop.device.secret }, systemClock, [20, 300_000]));
    const downs = () => [one, two].filter((each) => each?.wake.link().up === false).length;
    const wakes = () => (one?.wakes() ?? 0) + (two?.wakes() ?? 0);
    await expect.poll(() => wakes() > 2 && downs() === 1, SOON).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 1_000)); // many times the first pause
    expect(wakes()).toBeLessThanOrEqual(4); // each came up anew once
  });
});

/** What a cloud without a broker tells a station. */
const TOLD: Told = {
  device: {
    id: "d",
    name: "line 1",
    station: null,
    capabilities: ["qr"],
    api_key_id: "k",
    status: "online",
    printers: [],
    buffer_depth: null,
    version: null,
    last_seen: null,
    created_at: "2026-01-31T12:00:00.000Z",
    updated_at: "2026-01-31T12:00:00.000Z",
  },
  tenant: { id: "t", sandbox: false },
  poll_interval_ms: 2_000,
  mqtt: null,
  limits: { claims: 200, results: 500, blob_bytes: 2_097_152, lease_max_seconds: 600 },
};

describe("without a broker", () => {
  test.each<[string, (cloud: Server) => void, RegExp]>([
    ["has none", (cloud) => void cloud.on("request", (_, response) => response.end(JSON.stringify(TOLD))), /has none/],
    ["answers nonsense", (cloud) => void cloud.on("request", (_, response) => response.end("{}")), /something else than agreed/],
    ["answers no JSON", (cloud) => void cloud.on("request", (_, response) => response.end("<html>")), /something else than agreed/],
    ["is broken", (cloud) => void cloud.on("request", (_, response) => response.writeHead(502).end()), /502/],
    [
      "sends it elsewhere with its key",
      (cloud) =>
        void cloud.on("request", ({ url }, response) =>
          url === "/elsewhere" ? response.end(JSON.stringify(TOLD)) : response.writeHead(302, { location: "/elsewhere" }).end(),
        ),
      /answered 302, which leads to \/elsewhere$/,
    ],
    ["hangs up", (cloud) => void cloud.on("request", (request) => request.socket.destroy()), /./],
    [
      "names a place where nothing is",
      (cloud) =>
        void cloud.on("request", (_, response) =>
          response.end(JSON.stringify({ ...TOLD, mqtt: { url: "mqtt://127.0.0.1:1", wake: "w", status: "s", telemetry: "t" } })),
        ),
      /ECONNREFUSED/,
    ],
  ])("a cloud that %s is asked again, told once, and left at once", async (_, answer, why) => {
    const cloud = createServer();
    let asked = 0;
    cloud.on("request", () => (asked += 1));
    answer(cloud);
    const port = await listening(cloud);
    onTestFinished(() => void cloud.close());
    const it = station({ cloud: `http://127.0.0.1:${port}`, key: "k" });
    await expect.poll(() => asked, SOON).toBeGreaterThan(2);
    expect(it.wake.link()).toMatchObject({ up: false, why: expect.stringMatching(why) });
    expect([it.lines.length, it.wakes()]).toEqual([1, 0]);
    await it.wake.stop();
    await new Promise((resolve) => setTimeout(resolve, 50)); // what was on its way has arrived
    const before = asked;
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(asked).toBe(before);
  });

  test("however often it is tried in vain, nothing of it is kept", async () => {
    const TRIES = 40_000; // 20 MB when each kept what one promise for all of them keeps
    let tries = 0;
    const clock: Clock = { now: () => 0, after: (_ms, act) => (tries < TRIES && setImmediate(act), () => {}) };
    const cloud = { station: async () => ((tries += 1), { ok: false, message: "away" }) } as never;
    const log = { info: () => {}, warn: () => {} } as never;
    setFlagsFromString("--expose-gc");
    const heapOf = () => (runInNewContext("gc")(), process.memoryUsage().heapUsed);
    const [heap, settings] = [heapOf(), { cloud: "http://127.0.0.1:9", key: "k" }];
    const wake = startWake({
      settings,
      cloud,
      onWake: () => {},
      onDoubt: () => {},
      report: () => ({}),
      log,
      clock,
      pausesMs: [1],
    });
    await expect.poll(() => tries, SOON).toBe(TRIES);
    expect((heapOf() - heap) / TRIES).toBeLessThan(200);
    await wake.stop();
  });

  test.each(["never answers", "never lets anybody in"])("a broker that %s doesn't keep a station from ending", async (what) => {
    const { createServer: listenTcp } = await import("node:net");
    const held = new Set<{ destroy(): void }>();
    const broker = listenTcp((socket) => void held.add(socket.on("error", () => {})));
    const port = await listening(broker);
    onTestFinished(() => {
      for (const socket of held) socket.destroy();
      broker.close();
    });
    const { w, shop } = await aWorld();
    const url = `mqtt://127.0.0.1:${port}`;
    if (what.includes("in")) broker.on("connection", (socket) => socket.once("data", () => socket.write(Buffer.from([0x20, 2, 0, 5]))));
    const it = station({ cloud: w.url, key: shop.device.secret, mqtt: url });
    await expect.poll(() => held.size, SOON).toBeGreaterThan(0);
    await it.wake.stop();
    expect(it.wake.link().up).toBe(false);
  });

  test.each([
    ["that no hints go out", [0x80], "it doesn't let us hear hints"],
    ["nothing more", undefined, "it doesn't say whether it lets us hear hints"],
  ])("one that lets a station in and says %s is none, and that is told once", async (_what, code, why) => {
    const { createServer: listenTcp } = await import("node:net");
    const SUBSCRIBE = 0x82;
    const broker = listenTcp((socket) => {
      socket.on("error", () => {});
      socket.on("data", ([kind, , high = 0, low = 0]) => {
        if (kind === 0x10) socket.write(Buffer.from([0x20, 2, 0, 0]));
        if (kind === SUBSCRIBE && code) socket.write(Buffer.from([0x90, 3, high, low, ...code]));
      });
    });
    const port = await listening(broker);
    onTestFinished(() => void broker.close());
    const { w, shop } = await aWorld();
    const url = `mqtt://127.0.0.1:${port}`;
    const soon: Clock = { now: () => Date.now(), after: (ms, act) => systemClock.after(ms / 20, act) };
    let calls = 0;
    broker.on("connection", () => (calls += 1));
    const it = station({ cloud: w.url, key: shop.device.secret, mqtt: url }, soon, [1_000]);
    await expect.poll(() => calls, SOON).toBeGreaterThan(2);
    expect(it.wake.link()).toMatchObject({ up: false, why: expect.stringContaining(why) });
    expect(it.lines).toEqual([expect.stringContaining(`no MQTT broker (${why}`)]);
  });
});

describe.skipIf(mosquittoMissing)("at an external broker", () => {
  test("it is woken there, shown there, and back after the broker was killed", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.end());
    const { w, shop } = await aWorld({ settings: { IMPRIMATUR_MQTT_URL: broker.url } });
    broker.addUser(shop.device.id, shop.device.secret);
    const it = station({ cloud: w.url, key: shop.device.secret });
    await isUp(it);
    await expect.poll(async () => (await shown(shop)).status, SOON).toBe("online");
    const before = it.wakes();
    await shop.issue();
    await expect.poll(it.wakes, SOON).toBe(before + 1);
    await broker.stop("SIGKILL");
    await expect.poll(() => it.wake.link().up, SOON).toBe(false);
    await shop.device.claim();
    await broker.start();
    await isUp(it);
    await expect.poll(async () => (await w.nobody.get("//readyz")).body.degraded, SOON).toBeUndefined();
    const again = it.wakes();
    await shop.issue();
    await expect.poll(it.wakes, SOON).toBe(again + 1);
    await it.wake.stop();
    await expect.poll(async () => (await shown(shop)).status, SOON).toBe("offline");
  });

  test("another device that comes under its id doesn't end its line: brokers take who has the same client id for the same", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.end());
    const { w, shop } = await aWorld({ settings: { IMPRIMATUR_MQTT_URL: broker.url } });
    const other = await shop.newDevice("line 2");
    for (const { id, secret } of [shop.device, other]) broker.addUser(id, secret);
    const it = station({ cloud: w.url, key: shop.device.secret });
    await isUp(it);
    await expect.poll(async () => (await shown(shop)).status, SOON).toBe("online");
    const credentials = { username: other.id, password: other.secret };
    const stranger = await peer(broker.address, { ...credentials, clientId: shop.device.id });
    onTestFinished(() => stranger.leave());
    await stranger.say(topicsOf({ tenantId: shop.tenantId, deviceId: other.id }).telemetry, "{}");
    const before = it.wakes();
    await shop.issue();
    await expect.poll(it.wakes, SOON).toBe(before + 1);
    expect([it.lines, (await shown(shop)).status]).toEqual([["connected to the MQTT broker"], "online"]);
  });

  test("an address in its settings is used instead of the cloud's, with a user of its own where it names one", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.end());
    const { w, shop } = await aWorld();
    broker.addUser(shop.device.id, "the operator's choice");
    const own = broker.address.replace("//", `//${shop.device.id}:${encodeURIComponent("the operator's choice")}@`);
    const it = station({ cloud: w.url, key: shop.device.secret, mqtt: own });
    await isUp(it);
    const cloud = await peer(broker.address, { username: "cloud", password: "cloud's own" });
    onTestFinished(() => cloud.leave());
    const before = it.wakes();
    await cloud.say(topics(shop).wake, "");
    await cloud.say(topics(shop).wake, '{"work":1}'); // whatever another cloud says with it
    await expect.poll(it.wakes, SOON).toBe(before + 2);
    await cloud.subscribe(topics(shop).status);
    await expect.poll(() => cloud.heard[0]?.text, SOON).toContain("online");
  });
});
