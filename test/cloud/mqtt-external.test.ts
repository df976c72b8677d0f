// The cloud beside a broker that somebody else runs: a real mosquitto with passwords and the README's ACL, killed and started again at will.
import { createServer } from "node:net";
import { Aedes } from "aedes";
import { describe, expect, onTestFinished, test } from "vitest";
import { topicsOf } from "#shared/mqtt.ts";
import { listening } from "../../fixtures/listening.ts";
import { type Mosquitto, mosquittoMissing, type Peer, peer, startMosquitto } from "../../fixtures/mqtt.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { startWorld, type World } from "../../fixtures/world.ts";
import { engine, freshDatabase, world } from "../world.ts";

if (mosquittoMissing) process.stderr.write(`skipped: an external MQTT broker: ${mosquittoMissing}\n`);
const SOON = { timeout: 30_000, interval: 20 };
const degraded = async (w: World) => (await w.nobody.get("//readyz")).body.degraded as string[] | undefined;
const isUp = async (w: World) => {
  await expect.poll(() => degraded(w), SOON).toBeUndefined();
};
const statusOf = async ({ admin }: Shop, { id }: Shop["device"]) => (await admin.get(`/devices/${id}`)).body.status as string;
const topics = ({ tenantId }: Shop, { id }: Shop["device"]) => topicsOf({ tenantId, deviceId: id });

async function beside(settings: Record<string, string> = {}) {
  const broker = await startMosquitto();
  onTestFinished(() => broker.end());
  const w = await world({ settings: { IMPRIMATUR_MQTT_URL: broker.url, ...settings } }, onTestFinished);
  await isUp(w);
  return { broker, w, shop: await printShop(w) };
}
async function connected(broker: Mosquitto, device: Shop["device"], more: object = {}): Promise<Peer> {
  broker.addUser(device.id, device.secret);
  const credentials = { username: device.id, password: device.secret };
  let made: Peer | undefined;
  await expect
    .poll(async () => (made = await peer(broker.address, { ...credentials, ...more }).catch(() => undefined)) !== undefined, SOON)
    .toBe(true);
  onTestFinished(() => made?.leave());
  return made as Peer;
}

test("a broker that doesn't let the cloud hear stations is asked again, so that its rules can be mended while all run", async () => {
  let letsHear = false;
  const broker = await Aedes.createBroker({
    authorizeSubscribe: (_client, subscription, done) => done(null, letsHear ? subscription : null),
  });
  const server = createServer(broker.handle);
  const port = await listening(server);
  onTestFinished(() => new Promise<void>((resolve) => broker.close(() => server.close(() => resolve()))));
  const url = `mqtt://127.0.0.1:${port}`;
  const w = await world({ settings: { IMPRIMATUR_MQTT_URL: url } }, onTestFinished);
  await expect.poll(() => w.logged().join("\n"), SOON).toContain("it doesn't let us hear the stations");
  expect(await degraded(w)).toEqual(["broker"]);
  letsHear = true;
  await isUp(w);
  const shop = await printShop(w);
  const one = await peer(url);
  onTestFinished(() => one.leave());
  await one.say(topics(shop, shop.device).status, "online");
  await expect.poll(() => statusOf(shop, shop.device), SOON).toBe("online");
});

test("a broker that lets the cloud in and never says whether it may hear stations is away, and that is told once", async () => {
  let calls = 0;
  const mute = createServer((socket) => {
    calls += 1;
    socket.on("error", () => {}).once("data", () => socket.write(Buffer.from([0x20, 2, 0, 0])));
  });
  const port = await listening(mute);
  onTestFinished(() => void mute.close());
  const w = await world({ settings: { IMPRIMATUR_MQTT_URL: `mqtt://127.0.0.1:${port}` } }, onTestFinished);
  await expect.poll(() => calls, SOON).toBe(2); // it is called again, and not asked on the same line for ever
  expect(w.logged().filter((line) => line.includes('"broker-away"'))).toEqual([
    expect.stringContaining("doesn't say whether it lets us hear"),
  ]);
  expect(await degraded(w)).toEqual(["broker"]);
});

describe.skipIf(mosquittoMissing)("an external broker", () => {
  test("stations are told its address without the cloud's password, and nothing logs it", async () => {
    const { w, shop, broker } = await beside();
    expect((await shop.device.api.get("/aidc/station")).body.mqtt).toEqual({ url: broker.address, ...topics(shop, shop.device) });
    expect(w.logged().join("\n")).not.toContain("own@");
    expect(w.logged().join("\n")).not.toContain("cloud's own");
  });

  test("where stations have another address for it, they are told that one", async () => {
    const url = "mqtts://broker.factory.example:8883";
    const { w, shop } = await beside({ IMPRIMATUR_MQTT_PUBLIC_URL: url });
    expect((await shop.device.api.get("/aidc/station")).body.mqtt).toEqual({ url, ...topics(shop, shop.device) });
    expect((await w.nobody.get("//readyz")).body.degraded).toBe(undefined); // the cloud's own way there is another
  });

  test("it carries hints to those who can take the job, and what stations say back", async () => {
    const { shop, broker } = await beside();
    const far = await shop.newDevice("line 2");
    await shop.admin.patch(`/devices/${far.id}`, { station: "line-2" });
    const [one, two] = [await connected(broker, shop.device), await connected(broker, far)];
    await one.subscribe(topics(shop, shop.device).wake);
    await two.subscribe(topics(shop, far).wake);
    const counts = () => [one.heard.length, two.heard.length];
    await shop.issue({ station: "line-1" });
    await expect.poll(counts, SOON).toEqual([1, 0]);
    await shop.issue({ station: "line-2" });
    await expect.poll(counts, SOON).toEqual([1, 1]);
    expect(one.heard[0]?.text).toBe("");
    await one.say(topics(shop, shop.device).telemetry, JSON.stringify({ buffer_depth: 3 }));
    await expect.poll(async () => (await shop.admin.get(`/devices/${shop.device.id}`)).body.buffer_depth, SOON).toBe(3);
  });

  test("its last will makes a station offline at once", async () => {
    const { shop, broker } = await beside();
    const { status } = topics(shop, shop.device);
    const one = await connected(broker, shop.device, {
      will: { topic: status, payload: Buffer.from('{"status":"offline"}'), qos: 1, retain: true },
    });
    await one.say(status, JSON.stringify({ status: "online" }), true);
    await expect.poll(() => statusOf(shop, shop.device), SOON).toBe("online");
    one.cut();
    await expect.poll(() => statusOf(shop, shop.device), SOON).toBe("offline");
  });

  test("what it keeps of a station and was heard before doesn't stand against what the station said since, when a node starts again", async () => {
    const { w, shop, broker } = await beside();
    const { status } = topics(shop, shop.device);
    const shown = async () => {
      const { body } = await shop.admin.get(`/devices/${shop.device.id}`);
      return `${body.status} ${body.version}`;
    };
    const again = async () => {
      await w.restart();
      await isUp(w);
      const witness = await shop.newDevice("witness"); // what the broker kept was told before what this one says
      const other = await connected(broker, witness);
      await other.say(topics(shop, witness).status, "online", true);
      await expect.poll(() => statusOf(shop, witness), SOON).toBe("online");
    };
    const one = await connected(broker, shop.device, { will: { topic: status, payload: Buffer.from("offline"), qos: 1, retain: true } });
    await one.say(status, JSON.stringify({ status: "online", version: "1" }), true);
    await expect.poll(shown, SOON).toBe("online 1");
    await shop.device.api.post("/aidc/station", { status: "degraded", version: "2" });
    await again();
    expect(await shown()).toBe("degraded 2");
    one.cut();
    await expect.poll(shown, SOON).toBe("offline 2");
    await shop.device.api.post("/aidc/station", { status: "online" });
    await again();
    expect(await shown()).toBe("online 2");
  });

  test("with the README's ACL a device is heard on its own topics only, and a topic in another tenant's name is nobody's", async () => {
    const { w, shop, broker } = await beside();
    const elsewhere = await printShop(w);
    const other = await shop.newDevice("line 2");
    const [one, two] = [await connected(broker, shop.device), await connected(broker, other)];
    await two.subscribe(topics(shop, other).wake);
    await one.subscribe("imprimatur/#"); // mosquitto grants it and delivers what the ACL lets through
    const forged = topicsOf({ tenantId: elsewhere.tenantId, deviceId: shop.device.id });
    for (const topic of [...Object.values(topics(shop, other)), topics(elsewhere, elsewhere.device).status, forged.status])
      await one.say(topic, JSON.stringify({ status: "online" }), true);
    await one.say(topics(shop, shop.device).telemetry, JSON.stringify({ version: "own" }));
    await expect.poll(async () => (await shop.admin.get(`/devices/${shop.device.id}`)).body.version, SOON).toBe("own");
    await shop.issue({ station: "line-1" });
    await expect.poll(() => two.heard.length, SOON).toBe(1); // ours, and no forged one
    expect(one.heard.every(({ topic }) => topic === topics(shop, shop.device).wake)).toBe(true);
    for (const [its, device] of [
      [shop, other],
      [elsewhere, elsewhere.device],
    ] as const)
      expect((await its.admin.get(`/devices/${device.id}`)).body.last_seen).toBeNull();
  });

  test("whose key has died, or whose sandbox has ended, isn't believed though the broker lets it in; that it is gone is", async () => {
    const { w, shop, broker } = await beside();
    const { admin, device } = shop;
    const { body } = await w.admin.post("/tenants", {
      name: "brief",
      sandbox: true,
      expiresAt: new Date(Date.now() + 60_000).toISOString(),
    });
    const brief = w.as(body.adminKey.secret);
    const { device: made, key } = (await brief.post("/devices", { name: "line 1" })).body;
    const ended = { id: made.id as string, secret: key.secret as string } as Shop["device"];
    const at = topicsOf({ tenantId: body.data.id, deviceId: ended.id });
    const other = await shop.newDevice("line 2");
    const [one, two, three] = [await connected(broker, device), await connected(broker, other), await connected(broker, ended)];
    const heard = { status: "online", version: "1" };
    await one.say(topics(shop, device).status, JSON.stringify(heard), true);
    await expect.poll(() => statusOf(shop, device), SOON).toBe("online");
    await admin.delete(`/api-keys/${device.keyId}`);
    w.later(61_000); // short of what silence is
    await one.say(topics(shop, device).status, JSON.stringify({ status: "degraded", version: "2" }), true);
    await three.say(at.status, JSON.stringify(heard), true);
    await two.say(topics(shop, other).status, JSON.stringify(heard), true);
    await expect.poll(() => statusOf(shop, other), SOON).toBe("online"); // what was said before it is judged by now
    expect((await admin.get(`/devices/${device.id}`)).body).toMatchObject(heard);
    await one.say(topics(shop, device).status, JSON.stringify({ status: "offline", version: "3" }), true);
    await expect.poll(async () => (await admin.get(`/devices/${device.id}`)).body, SOON).toMatchObject({ status: "offline", version: "1" });
    w.later(-61_000);
    expect((await brief.get(`/devices/${ended.id}`)).body.last_seen).toBeNull();
  });

  test("who isn't let in by it isn't there", async () => {
    const { shop, broker } = await beside();
    broker.addUser(shop.device.id, "another password");
    await expect(peer(broker.address)).rejects.toThrow(/./);
    await expect(peer(broker.address, { username: shop.device.id, password: shop.device.secret })).rejects.toThrow(
      /not authorized|bad user/i,
    );
  });

  test("killed, it is missed by nobody: work goes on by polling, and it is used again when it is back", async () => {
    const { w, shop, broker } = await beside();
    await broker.stop("SIGKILL");
    await expect.poll(() => degraded(w), SOON).toEqual(["broker"]);
    const ready = await w.nobody.get("//readyz");
    expect([ready.status, ready.body.status]).toEqual([200, "ready"]);
    const job = await shop.issue();
    expect((await shop.device.claim()).job.job_ref).toBe(job.job_ref);
    expect((await shop.device.api.get("/aidc/station")).body.mqtt.url).toBe(broker.address);
    await broker.start();
    await isUp(w);
    const one = await connected(broker, shop.device);
    await one.subscribe(topics(shop, shop.device).wake);
    await shop.issue();
    await expect.poll(() => one.heard.length, SOON).toBe(1);
    const told = w.logged().filter((line) => /"event":"broker-(up|away)"/.test(line));
    expect(told).toHaveLength(3); // up, away, up: each change once
  });

  test("a status said while the cloud was away is taken when it is back, but isn't a sign of life", async () => {
    const { w, shop, broker } = await beside();
    const one = await connected(broker, shop.device);
    await shop.device.api.post("/aidc/station", { status: "online" });
    const { last_seen: before } = (await shop.admin.get(`/devices/${shop.device.id}`)).body;
    await w.restart(() => one.say(topics(shop, shop.device).status, JSON.stringify({ status: "degraded", version: "9" }), true));
    await expect
      .poll(async () => (await shop.admin.get(`/devices/${shop.device.id}`)).body, SOON)
      .toMatchObject({ version: "9", status: "degraded", last_seen: before });
  });

  test("a broker that never was there holds nothing up", async () => {
    const w = await world({ settings: { IMPRIMATUR_MQTT_URL: "mqtt://127.0.0.1:1" } }, onTestFinished);
    const shop = await printShop(w);
    await shop.issue();
    expect((await shop.device.claim()).job.gtin).toBe(shop.gtin);
    expect(await degraded(w)).toEqual(["broker"]);
  });

  test.skipIf(engine === "sqlite")("each of several nodes tells of its own work, and all hear the stations", async () => {
    const broker = await startMosquitto();
    onTestFinished(() => broker.end());
    const settings = { IMPRIMATUR_MQTT_URL: broker.url, IMPRIMATUR_BOOTSTRAP_KEY: "a-key-for-two-nodes-of-one-cloud" };
    const databaseUrl = await freshDatabase();
    const first = await startWorld({ databaseUrl, settings });
    const second = await world({ databaseUrl, settings }, onTestFinished);
    await isUp(first);
    await isUp(second);
    const key = settings.IMPRIMATUR_BOOTSTRAP_KEY;
    const shop = await printShop({ url: second.url, admin: second.as(key), as: second.as });
    const one = await connected(broker, shop.device);
    await one.subscribe(topics(shop, shop.device).wake);
    await shop.issue();
    await expect.poll(() => one.heard.length, SOON).toBeGreaterThan(0);
    await one.say(topics(shop, shop.device).status, "degraded", true);
    await expect.poll(() => statusOf(shop, shop.device), SOON).toBe("degraded");
    await first.end();
    const before = one.heard.length;
    await shop.issue();
    await expect.poll(() => one.heard.length, SOON).toBeGreaterThan(before);
  });
});
