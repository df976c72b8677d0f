// The embedded broker as stations and their enemies meet it: real sockets, real keys, and everything still there when it isn't.
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { queryObjects } from "node:v8";
import { connect as mqttClient, type IConnackPacket } from "mqtt";
import { expect, onTestFinished, test } from "vitest";
import { limits } from "#shared/limits.ts";
import { topicsOf } from "#shared/mqtt.ts";
import { listening } from "../../fixtures/listening.ts";
import { type Peer, peer } from "../../fixtures/mqtt.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { follow } from "../../fixtures/sse.ts";
import { world } from "../world.ts";

const w = await world();
const SOON = { timeout: 30_000, interval: 20 };

type Device = Shop["device"];
const toldOf = async ({ api }: Device) => (await api.get("/aidc/station")).body.mqtt as { url: string } & ReturnType<typeof topicsOf>;
const topics = ({ tenantId }: Shop, { id }: Device) => topicsOf({ tenantId, deviceId: id });
async function connected(device: Device, more: object = {}): Promise<Peer> {
  const made = await peer((await toldOf(device)).url, { username: device.id, password: device.secret, ...more });
  onTestFinished(() => made.leave());
  return made;
}
const shown = async ({ admin }: Shop, { id }: Device) => (await admin.get(`/devices/${id}`)).body;
const figure = async (name: string): Promise<number> =>
  Number(new RegExp(`^${name} (\\d+)`, "m").exec((await w.admin.get("/metrics")).text)?.[1]);
async function raw(): Promise<Socket & { isClosed: () => boolean }> {
  const { port } = new URL((await toldOf((await printShop(w)).device)).url);
  return dialled(Number(port));
}
async function dialled(port: number, localAddress = "127.0.0.1") {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  let closed = false;
  socket.on("error", () => {});
  socket.once("close", () => (closed = true));
  onTestFinished(() => void socket.destroy());
  await new Promise<void>((resolve) => socket.once("connect", resolve).once("close", () => resolve()));
  return Object.assign(socket, { isClosed: () => closed });
}

test("a station is told where the broker is and which topics are its own", async () => {
  const { device, tenantId } = await printShop(w);
  expect(await toldOf(device)).toEqual({
    url: expect.stringMatching(/^mqtt:\/\/127\.0\.0\.1:\d+$/),
    wake: `imprimatur/${tenantId}/${device.id}/wake`,
    status: `imprimatur/${tenantId}/${device.id}/status`,
    telemetry: `imprimatur/${tenantId}/${device.id}/telemetry`,
  });
});

test("only a device gets in, by its id and its own key", async () => {
  const { device, admin, ...shop } = await printShop(w);
  const other = await shop.newDevice("line 2");
  const { url } = await toldOf(device);
  const plain = (await admin.post("/api-keys", { name: "k", scopes: ["aidc:read", "aidc:write"] })).body.data;
  const before = await figure("mqtt_refused");
  const refused: [string, object][] = [
    ["nobody", {}],
    ["a wrong key", { username: device.id, password: `${device.secret.slice(0, -1)}!` }],
    ["another's key", { username: device.id, password: other.secret }],
    ["a key of no device", { username: plain.id, password: plain.secret }],
    ["an admin's key", { username: device.id, password: w.adminKey }],
    ["no password", { username: device.id }],
    ["the two swapped", { username: device.secret, password: device.id }],
    ["a name without end", { username: "x".repeat(5_000), password: device.secret }],
  ];
  const letIn: string[] = [];
  for (const [who, credentials] of refused)
    await peer(url, credentials).then(
      () => letIn.push(who),
      () => {},
    );
  expect(letIn).toEqual([]);
  expect((await figure("mqtt_refused")) - before).toBeGreaterThanOrEqual(refused.length - 1);
  expect((await connected(device)).isOpen()).toBe(true);
  const said = w.logged().filter((line) => line.includes('"event":"mqtt-refused"'));
  expect([said.some((line) => line.includes(device.id)), w.logged().filter((line) => line.includes(device.secret))]).toEqual([true, []]);
});

test("a key that dies ends its connection, be it revoked, rotated, or gone with its device; others stay", async () => {
  const shop = await printShop(w);
  const [revoked, rotated, removed, stays] = await Promise.all(["a", "b", "c", "d"].map((name) => shop.newDevice(name)));
  if (!revoked || !rotated || !removed || !stays) throw new Error("four devices were made");
  const peers = await Promise.all([revoked, rotated, removed, stays].map((device) => connected(device)));
  await shop.admin.delete(`/api-keys/${revoked.keyId}`);
  await shop.admin.post(`/api-keys/${rotated.keyId}/rotate`);
  await shop.admin.delete(`/devices/${removed.id}`);
  await expect.poll(() => peers.map((one) => one.isOpen()), SOON).toEqual([false, false, false, true]);
  await expect(peer((await toldOf(stays)).url, { username: revoked.id, password: revoked.secret })).rejects.toThrow(/not authorized/i);
});

test("work that waits is a hint to those who can take it, to nobody else, and tells nothing", async () => {
  const [shop, elsewhere] = [await printShop(w), await printShop(w)];
  const { device } = shop;
  const [far, poor] = [await shop.newDevice("line 2"), await shop.newDevice("line 3", ["qr"])];
  await shop.admin.patch(`/devices/${far.id}`, { station: "line-2" });
  const who = [device, far, poor, elsewhere.device];
  const peers = await Promise.all(who.map((one) => connected(one)));
  for (const [i, one] of who.entries())
    expect(await peers[i]?.subscribe(topics(one === elsewhere.device ? elsewhere : shop, one).wake)).toBe(1);
  const counts = () => peers.map(({ heard }) => heard.length);

  await shop.issue({ station: "line-1", needs: ["qr", "rfid"] });
  await expect.poll(counts, SOON).toEqual([1, 0, 0, 0]);
  await shop.issue({ station: "line-2" });
  await expect.poll(counts, SOON).toEqual([1, 1, 0, 0]);
  await elsewhere.issue();
  await expect.poll(counts, SOON).toEqual([1, 1, 0, 1]);
  await shop.issue();
  await expect.poll(counts, SOON).toEqual([2, 2, 1, 1]); // those that shouldn't hear of the earlier ones haven't
  expect(peers[0]?.heard[0]).toEqual({ topic: topics(shop, device).wake, text: "", isRetained: false });
});

test("a job that is cancelled, or voided, while a device holds it is named to that device, and to nobody where none does", async () => {
  const shop = await printShop(w);
  const other = await shop.newDevice("line 1b");
  const peers = [await connected(shop.device), await connected(other)];
  for (const [i, one] of [shop.device, other].entries()) await peers[i]?.subscribe(topics(shop, one).wake);
  const named = () => peers.map(({ heard }) => heard.flatMap(({ text }) => (text === "" ? [] : text)));
  const issued = await shop.issue();
  const [cancelled, voided] = [await shop.device.claim(), (await shop.issue(), await shop.device.claim())];
  const waiting = await shop.issue();
  for (const ref of [waiting.job_ref, cancelled.job.job_ref])
    expect((await shop.admin.post(`/aidc/jobs/${ref}/cancel`, {})).status).toBe(200);
  expect(issued.job_ref).toBe(cancelled.job.job_ref);
  await shop.device.upTo(voided, "SPOOL_SUBMITTED");
  await shop.admin.post(`/products/${voided.job.product_id as string}/void`, { serial: voided.job.serial, reason: "wrong lot" });
  await expect.poll(named, SOON).toEqual([[cancelled.job.job_ref, voided.job.job_ref], []]);
});

test("a batch is a hint or two, not a thousand", async () => {
  const shop = await printShop(w);
  const one = await connected(shop.device);
  await one.subscribe(topics(shop, shop.device).wake);
  const serials = await shop.allocate(300);
  const { body } = await shop.admin.post("/aidc/jobs/batch", { items: serials.map((serial) => ({ gtin: shop.gtin, serial })) });
  expect(body.created).toBe(300);
  await expect.poll(() => one.heard.length, SOON).toBeGreaterThan(0);
  expect(one.heard.length).toBeLessThan(3);
});

test("an attempt that failed, and a lease that ran out, wake whoever can go on", async () => {
  const shop = await printShop(w);
  const other = await shop.newDevice("line 1b");
  const one = await connected(other);
  await one.subscribe(topics(shop, other).wake);
  await shop.issue({ max_attempts: 5 });
  await expect.poll(() => one.heard.length, SOON).toBe(1);
  const first = await shop.device.claim({ lease_seconds: 600 });
  expect((await shop.device.say(first, { status: "FAILED", reason: "ribbon out" })).status).toBe(200);
  await expect.poll(() => one.heard.length, SOON).toBe(2);
  await shop.device.claim({ lease_seconds: 5 });
  w.later(6_000);
  await expect.poll(() => one.heard.length, SOON).toBe(3);
});

test("a device reaches its own topics only, and no filter at all", async () => {
  const [shop, elsewhere] = [await printShop(w), await printShop(w)];
  const other = await shop.newDevice("line 2");
  const one = await connected(shop.device);
  const own = topics(shop, shop.device);
  for (const topic of Object.values(own)) expect(await one.subscribe(topic)).toBe(1);
  const foreign = [
    ...Object.values(topics(shop, other)),
    ...Object.values(topics(elsewhere, elsewhere.device)),
    topicsOf({ tenantId: elsewhere.tenantId, deviceId: shop.device.id }).status,
    "#",
    "imprimatur/#",
    "imprimatur/+/+/wake",
    `imprimatur/${shop.tenantId}/+/status`,
    `imprimatur/${shop.tenantId}/${shop.device.id}/#`,
    `imprimatur/${shop.tenantId}/${shop.device.id}/+`,
    `${own.wake}/`,
    "$SYS/#",
    "denied",
  ];
  for (const topic of foreign) expect([topic, await one.subscribe(topic)]).toEqual([topic, 128]);
});

test("what a device says on a topic of another is acknowledged, goes nowhere, and doesn't end the connection", async () => {
  const [shop, elsewhere] = [await printShop(w), await printShop(w)];
  const other = await shop.newDevice("line 2");
  const [one, two] = [await connected(shop.device), await connected(other)];
  for (const topic of Object.values(topics(shop, other))) await two.subscribe(topic);
  const before = await figure("mqtt_denied");
  const foreign = [
    ...Object.values(topics(shop, other)),
    topics(elsewhere, elsewhere.device).status,
    topicsOf({ tenantId: elsewhere.tenantId, deviceId: shop.device.id }).status,
    topics(shop, shop.device).wake, // ours to say
    "$SYS/x",
    "x",
  ];
  for (const topic of foreign) await one.say(topic, JSON.stringify({ status: "online", version: "forged" }), true);
  expect((await figure("mqtt_denied")) - before).toBe(foreign.length);
  await one.say(topics(shop, shop.device).telemetry, JSON.stringify({ version: "own" }));
  await expect.poll(async () => (await shown(shop, shop.device)).version, SOON).toBe("own");
  expect(one.isOpen()).toBe(true);
  expect(two.heard).toEqual([]);
  for (const [its, device] of [
    [shop, other],
    [elsewhere, elsewhere.device],
  ] as const)
    expect(await shown(its, device)).toMatchObject({ status: "offline", version: null, last_seen: null });
});

test("a status is kept for who asks later; it and telemetry say what POST /aidc/station says", async () => {
  const shop = await printShop(w);
  const one = await connected(shop.device);
  const { status, telemetry } = topics(shop, shop.device);
  await one.say(status, JSON.stringify({ status: "degraded", version: "1.2.3" }), true);
  await one.say(telemetry, JSON.stringify({ buffer_depth: 7, printers: [{ name: "zd", status: "paper out", dpi: 203 }] }), true);
  await expect
    .poll(() => shown(shop, shop.device), SOON)
    .toMatchObject({ status: "degraded", version: "1.2.3", buffer_depth: 7, printers: [{ name: "zd", status: "paper out", dpi: 203 }] });
  const later = await connected(shop.device);
  for (const topic of [telemetry, status]) await later.subscribe(topic);
  await expect
    .poll(() => later.heard, SOON)
    .toEqual([{ topic: status, text: JSON.stringify({ status: "degraded", version: "1.2.3" }), isRetained: true }]);
});

test("a station whose line breaks is offline at once, and online again when it is heard of by HTTP", async () => {
  const shop = await printShop(w);
  const { status } = topics(shop, shop.device);
  const one = await connected(shop.device, { will: { topic: status, payload: Buffer.from("offline"), qos: 1, retain: true } });
  const witness = await connected(shop.device);
  await one.say(status, JSON.stringify({ status: "online" }), true);
  await expect.poll(async () => (await shown(shop, shop.device)).status, SOON).toBe("online");
  await witness.subscribe(status);
  expect((await shop.device.api.post("/aidc/jobs/claim")).status).toBe(204); // heard of a moment before
  one.cut();
  await expect.poll(async () => (await shown(shop, shop.device)).status, SOON).toBe("offline");
  await expect.poll(() => witness.heard.at(-1)?.text, SOON).toBe("offline");
  expect((await shop.device.api.post("/aidc/jobs/claim")).status).toBe(204);
  expect((await shown(shop, shop.device)).status).toBe("online");
});

test("a console is told of a station whose line breaks, however long ago it was heard of", async () => {
  const shop = await printShop(w);
  const { status } = topics(shop, shop.device);
  const one = await connected(shop.device, { will: { topic: status, payload: Buffer.from("offline"), qos: 1, retain: true } });
  await one.say(status, "online", true);
  await expect.poll(async () => (await shown(shop, shop.device)).status, SOON).toBe("online");
  w.later(60_000);
  const session = { "content-type": "application/json", origin: w.url };
  const { headers } = await w.nobody.post("//console/session", { key: shop.adminKey }, session);
  const seen = await follow(`${w.url}/console/events`, { cookie: headers.get("set-cookie")?.split(";")[0] ?? "" });
  onTestFinished(() => seen.close());
  await seen.heard(({ event }) => event === "summary");
  one.cut();
  const told = await seen.heard(({ event, data }) => event === "devices" && JSON.stringify(data).includes(shop.device.id));
  expect(told.data).toMatchObject({ devices: [{ id: shop.device.id, status: "offline" }] });
});

test("a last will for somebody else's topic is nobody's", async () => {
  const shop = await printShop(w);
  const other = await shop.newDevice("line 2");
  await other.api.post("/aidc/station", { status: "online" });
  const before = await figure("mqtt_denied");
  const will = { topic: topics(shop, other).status, payload: Buffer.from("offline"), qos: 1, retain: true } as const;
  (await connected(shop.device, { will })).cut();
  await expect.poll(async () => (await figure("mqtt_denied")) - before, SOON).toBe(1);
  expect((await shown(shop, other)).status).toBe("online");
});

test("nobody takes over another's connection by its client id", async () => {
  const shop = await printShop(w);
  const other = await shop.newDevice("line 2");
  const [one, two] = [await connected(shop.device, { clientId: "same" }), await connected(other, { clientId: "same" })];
  await one.say(topics(shop, shop.device).telemetry, "{}");
  const again = await connected(shop.device, { clientId: "same" });
  await expect.poll(() => [one, two, again].map((each) => each.isOpen()), SOON).toEqual([false, true, true]);
});

test("junk is dropped and counted, and changes nothing", async () => {
  const shop = await printShop(w);
  const one = await connected(shop.device);
  const { status, telemetry } = topics(shop, shop.device);
  await one.say(status, JSON.stringify({ status: "degraded", buffer_depth: 7 }));
  await expect.poll(async () => (await shown(shop, shop.device)).buffer_depth, SOON).toBe(7);
  const junk = [
    "{",
    "null",
    "[]",
    "7",
    '"offline"',
    "gone",
    Buffer.from([0xff, 0xfe, 0x00]),
    '{"status":"asleep"}',
    '{"buffer_depth":-1}',
    '{"buffer_depth":8,"key":"x"}',
    '{"__proto__":{"status":"offline"}}',
    '{"version":"a\\u0000b"}',
    '{"version":"\\ud800"}',
    "[".repeat(20_000),
  ];
  const before = await figure("mqtt_junk");
  for (const [i, payload] of junk.entries()) {
    await one.say(i % 2 ? status : telemetry, payload, true);
    await expect.poll(async () => (await figure("mqtt_junk")) - before, SOON).toBe(i + 1);
  }
  await one.say(telemetry, "");
  await one.say(telemetry, JSON.stringify({ version: "last" }));
  await expect.poll(() => shown(shop, shop.device), SOON).toMatchObject({ status: "degraded", buffer_depth: 7, version: "last" });
});

test("a flood is written now and then; its last word counts", async () => {
  const shop = await printShop(w);
  const one = await connected(shop.device);
  const { status, telemetry } = topics(shop, shop.device);
  const before = await figure("mqtt_reports_dropped");
  await Promise.all([
    one.say(status, "offline"),
    ...Array.from({ length: 500 }, (_, i) => one.say(telemetry, JSON.stringify({ buffer_depth: i }))),
  ]);
  await expect.poll(() => shown(shop, shop.device), SOON).toMatchObject({ buffer_depth: 499 });
  await one.say(status, "offline");
  await expect.poll(async () => (await shown(shop, shop.device)).status, SOON).toBe("offline");
  expect(await figure("mqtt_reports_dropped")).toBeGreaterThan(before);
});

test("too large a packet ends its connection before anybody keeps it", async () => {
  const shop = await printShop(w);
  const one = await connected(shop.device);
  const { telemetry } = topics(shop, shop.device);
  one.client.publish(telemetry, Buffer.alloc(2 * limits.MQTT_PACKET_MAX_BYTES, "x"), { qos: 1 }, () => {});
  await expect.poll(() => one.isOpen(), SOON).toBe(false);
  const many = await connected(shop.device);
  const nobodys = Array.from({ length: limits.MQTT_TOPICS_MAX_BYTES / 8 }, (_, i) => `n${1_000 + i}`); // of eight bytes each
  many.client.unsubscribe(nobodys.slice(0, 20), () => {});
  expect(await many.subscribe(telemetry)).toBe(1);
  many.client.subscribe(nobodys, { qos: 0 }, () => {});
  await expect.poll(() => many.isOpen(), SOON).toBe(false);
  const stranger = await raw();
  stranger.write(Buffer.from([0x10, 0xff, 0xff, 0xff, 0x7f])); // a CONNECT of 256 MB
  await expect.poll(stranger.isClosed, SOON).toBe(true);
  const endless = await raw();
  endless.write(Buffer.from([0x10, 0xff, 0xff, 0xff, 0xff, 0xff]));
  await expect.poll(endless.isClosed, SOON).toBe(true);
  const http = await raw();
  http.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await expect.poll(http.isClosed, SOON).toBe(true);
  expect((await connected(shop.device)).isOpen()).toBe(true);
});

test("who takes nothing of what is said there holds nobody else up, and is let go", async () => {
  const [shop, other] = [await printShop(w), await printShop(w)];
  const { telemetry } = topics(shop, shop.device);
  const deaf = await connected(shop.device);
  expect(await deaf.subscribe(telemetry)).toBe(1);
  deaf.client.stream.unpipe();
  deaf.client.stream.pause();
  onTestFinished(() => deaf.cut()); // it hears of no end
  const station = await connected(other.device);
  const [large, small] = [await connected(shop.device), await connected(shop.device)];
  const before = await figure("mqtt_connections");
  const say = (from: Peer, bytes: number) => from.client.publish(telemetry, Buffer.alloc(bytes, "x"), { qos: 0 }, () => {});
  for (let i = 0; i < 1_000; i += 1) say(large, 30_000); // twice what two sockets hold
  await sleep(2_000); // by then they are full, or who is deaf was let go
  for (let i = 0; i < 1_000; i += 1) say(small, 1); // each is in somebody's place until it is taken
  await station.say(topics(other, other.device).telemetry, JSON.stringify({ version: "heard" }));
  await expect.poll(async () => (await shown(other, other.device)).version, SOON).toBe("heard");
  await expect.poll(() => figure("mqtt_connections"), SOON).toBe(before - 1);
});

test("a packet cut into single bytes is the same packet", async () => {
  const shop = await printShop(w);
  const socket = await raw();
  const text = (value: string) => Buffer.concat([Buffer.from([value.length >> 8, value.length & 255]), Buffer.from(value)]);
  const connect = Buffer.concat([
    text("MQTT"),
    Buffer.from([4, 0xc2, 0, 60]),
    text("bytes"),
    text(shop.device.id),
    text(shop.device.secret),
  ]);
  const topic = text(topics(shop, shop.device).telemetry);
  const publish = Buffer.concat([
    topic,
    Buffer.from(JSON.stringify({ version: "bytewise", printers: [{ name: "zd", status: "x".repeat(150) }] })),
  ]);
  const length = (size: number) => (size < 128 ? [size] : [(size & 127) | 128, size >> 7]);
  const stream = Buffer.concat([
    Buffer.from([0x10, ...length(connect.length)]),
    connect,
    Buffer.from([0x30, ...length(publish.length)]),
    publish,
  ]);
  for (const byte of stream) await new Promise<void>((resolve) => socket.write(Buffer.from([byte]), () => resolve()));
  await expect.poll(async () => (await shown(shop, shop.device)).version, SOON).toBe("bytewise");
});

test("connections are bounded: those that don't say who they are, also of one address, and those of one device", async () => {
  const shop = await printShop(w);
  const { port } = new URL((await toldOf(shop.device)).url);
  const from = (address: string) =>
    Promise.all(Array.from({ length: limits.MQTT_UNKNOWN_ADDRESS_MAX_CONNECTIONS + 5 }, () => dialled(Number(port), address)));
  const atOnce = { timeout: limits.MQTT_CONNECT_MAX_MS / 2, interval: 20 }; // then all are closed
  const strangers = await from("127.0.0.2");
  await expect.poll(() => strangers.filter((one) => one.isClosed()).length, atOnce).toBeGreaterThanOrEqual(5);
  expect((await connected(shop.device)).isOpen()).toBe(true); // from another address
  for (const place of [3, 4, 5]) strangers.push(...(await from(`127.0.0.${place}`)));
  const late = await dialled(Number(port), "127.0.0.6");
  await expect.poll(late.isClosed, atOnce).toBe(true);
  for (const one of strangers) one.destroy();
  await expect
    .poll(
      async () =>
        connected(shop.device).then(
          (one) => one.isOpen(),
          () => false,
        ),
      SOON,
    )
    .toBe(true);
  const peers: Peer[] = [];
  for (let i = 0; i < limits.MQTT_DEVICE_MAX_CONNECTIONS + 2; i += 1) peers.push(await connected(shop.device));
  await expect.poll(() => peers.map((one) => one.isOpen()), SOON).toEqual([false, false, true, true, true, true]);
});

test("who connects too often, or says too much, is turned away", async () => {
  const strict = await world({ settings: { IMPRIMATUR_RATE_LIMIT: "on" } }, onTestFinished);
  const { body } = await strict.admin.post("/devices", { name: "line 1" });
  const { url, telemetry } = (await strict.as(body.key.secret).get("/aidc/station")).body.mqtt;
  const credentials = { username: body.device.id, password: body.key.secret };
  const noisy = await peer(url, credentials);
  for (let i = 0; i < 800 && noisy.isOpen(); i += 1) noisy.client.publish(telemetry, "{}", { qos: 0 });
  await expect.poll(() => noisy.isOpen(), SOON).toBe(false);
  const outcomes = await Promise.all(
    Array.from({ length: 200 }, () =>
      peer(url, credentials).then(
        (one) => one.leave().then(() => true),
        () => false,
      ),
    ),
  );
  expect(outcomes).toContain(true);
  expect(outcomes).toContain(false);
});

test("a port that is taken is no reason not to start: stations are told another", async () => {
  const taken = createServer();
  const port = await listening(taken);
  onTestFinished(() => void taken.close());
  const beside = await world({ settings: { IMPRIMATUR_MQTT_PORT: String(port) } }, onTestFinished);
  const { device } = await printShop(beside);
  const { url } = await toldOf(device);
  expect(url).not.toContain(`:${port}`);
  expect((await connected(device)).isOpen()).toBe(true);
  expect(beside.logged().filter((line) => line.includes('"event":"mqtt-port"'))).toHaveLength(1);
  expect((await beside.nobody.get("//readyz")).body).toEqual({ status: "ready" });
});

test("the broker's address is the public one's host", async () => {
  const named = await world({ settings: { IMPRIMATUR_PUBLIC_URL: "https://cloud.example:8443" } }, onTestFinished);
  const { device } = await printShop(named);
  expect((await toldOf(device)).url).toMatch(/^mqtt:\/\/cloud\.example:\d+$/);
});

test("a cloud that goes doesn't make its stations offline, and takes them again when it is back", async () => {
  const own = await world({}, onTestFinished);
  const shop = await printShop(own);
  const { status } = topics(shop, shop.device);
  const will = { topic: status, payload: Buffer.from("offline"), qos: 1, retain: true } as const;
  const one = await connected(shop.device, { will });
  await one.say(status, "online", true);
  await expect.poll(async () => (await shown(shop, shop.device)).status, SOON).toBe("online");
  const stranger = await dialled(Number(new URL((await toldOf(shop.device)).url).port)); // who says nothing doesn't hold it up
  await own.restart();
  await expect.poll(() => [one.isOpen(), stranger.isClosed()], SOON).toEqual([false, true]);
  expect((await shown(shop, shop.device)).status).toBe("online");
  expect((await connected(shop.device)).isOpen()).toBe(true);
});

test("a client that speaks another version is told so, and one that says nothing sensible is cut off", async () => {
  const { device } = await printShop(w);
  const { url } = await toldOf(device);
  const credentials = { username: device.id, password: device.secret };
  await expect(peer(url, { ...credentials, protocolVersion: 5 })).rejects.toThrow(/./);
  const socket = await raw();
  socket.write(Buffer.from([0x30, 3, 0, 1, 0x78])); // a PUBLISH before anything else
  await expect.poll(socket.isClosed, SOON).toBe(true);
  expect((await connected(device)).isOpen()).toBe(true);
});

test("no session outlives its connection, and a client that wants its own back is told so", async () => {
  const { device } = await printShop(w);
  const { url, wake } = await toldOf(device);
  const asked = { username: device.id, password: device.secret, clientId: "line-1", clean: false, resubscribe: false, reconnectPeriod: 0 };
  for (let time = 1; time <= 2; time += 1) {
    const client = mqttClient(url, asked);
    onTestFinished(() => client.endAsync(true));
    const told = await new Promise<IConnackPacket>((resolve) => client.once("connect", resolve));
    expect([time, told.sessionPresent]).toEqual([time, false]);
    expect(await client.subscribeAsync(wake, { qos: 1 })).toMatchObject([{ qos: 1 }]);
    await client.endAsync();
  }
});

test("of a client that has gone nothing is kept under its id, though it had acknowledged what it was told", async () => {
  const shop = await printShop(w);
  const { status } = topics(shop, shop.device);
  const keepsIt = () => queryObjects(Map, { format: "summary" }).some((map) => map.includes("soon-gone"));
  const one = await connected(shop.device, { clientId: "soon-gone" });
  await one.say(status, "online", true);
  expect(await one.subscribe(status)).toBe(1);
  await expect.poll(() => one.heard.some(({ isRetained }) => isRetained), SOON).toBe(true);
  await one.say(status, "degraded", true); // its acknowledgement of the kept one was read before this
  await one.leave();
  await expect.poll(keepsIt, SOON).toBe(false);
});

test("a key without the scopes of the print loop connects and may nothing", async () => {
  const shop = await printShop(w);
  const key = (await shop.admin.post("/api-keys", { name: "reader", scopes: ["aidc:read"] })).body.data;
  const { device } = (await shop.admin.post("/devices", { name: "reader", api_key_id: key.id })).body;
  const one = await peer((await toldOf(shop.device)).url, { username: device.id, password: key.secret });
  onTestFinished(() => one.leave());
  const own = topicsOf({ tenantId: shop.tenantId, deviceId: device.id });
  expect(await one.subscribe(own.wake)).toBe(1);
  await one.say(own.status, "online", true);
  await one.say(own.telemetry, JSON.stringify({ version: "1" }));
  const seen = await figure("mqtt_denied");
  await one.say(own.status, "online");
  expect((await figure("mqtt_denied")) - seen).toBe(1);
  expect((await shop.admin.get(`/devices/${device.id}`)).body.last_seen).toBeNull();
});

test("a sandbox past its end lets nobody in", async () => {
  const brief = await world({}, onTestFinished);
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const { adminKey } = (await brief.admin.post("/tenants", { name: "brief", sandbox: true, expiresAt })).body;
  const { device, key } = (await brief.as(adminKey.secret).post("/devices", { name: "line 1" })).body;
  const { url } = (await brief.as(key.secret).get("/aidc/station")).body.mqtt;
  const credentials = { username: device.id, password: key.secret };
  await (await peer(url, credentials)).leave();
  brief.later(2 * 3_600_000);
  await expect(peer(url, credentials)).rejects.toThrow(/not authorized/i);
});
