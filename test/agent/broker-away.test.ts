// What a broker is good for, and that one that dies costs a station time and nothing else: labels go on to be sealed by polling, and it is woken again when the broker is back.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../../fixtures/free-port.ts";
import { mosquittoMissing, startMosquitto } from "../../fixtures/mqtt.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { type WorldOptions } from "../../fixtures/world.ts";
import { world } from "../world.ts";
import { ask, jobAt, netTo, running, type Running, sealed, stateInCloud, until } from "./floor.ts";

if (mosquittoMissing) process.stdout.write(`skipped: a station beside an external MQTT broker: ${mosquittoMissing}\n`);
async function aShop(options: WorldOptions = {}) {
  const w = await world(options, onTestFinished);
  return { w, shop: await printShop(w) };
}
/** A line to a broker that can be cut, and laid again at the same address. */
async function lineTo(port: number) {
  const open = new Set<Socket>();
  const server = createServer((here) => {
    const there = connect(port, "127.0.0.1");
    for (const [one, other] of [
      [here, there],
      [there, here],
    ] as const) {
      open.add(one);
      one.pipe(other);
      one.on("error", () => {}).on("close", () => (open.delete(one), other.destroy()));
    }
  });
  const lay = async (at: number) => {
    server.listen(at, "127.0.0.1");
    await once(server, "listening");
  };
  await lay(await freePort());
  const address = server.address() as { port: number };
  const cut = async () => {
    const closed = once(server, "close");
    server.close();
    for (const socket of open) socket.destroy();
    await closed;
  };
  onTestFinished(async () => void (server.listening && (await cut())));
  return { url: `mqtt://127.0.0.1:${address.port}`, cut, mend: () => lay(address.port) };
}

const told = ({ lines }: Running, event: string) => lines.filter((line) => line.includes(`"event":"${event}"`)).length;
async function isSealed(shop: Shop): Promise<void> {
  const { job_ref: ref } = await shop.issue();
  await sealed(shop, ref);
}

/** Sealed with it, without it, and with it again: one label a job, each change told once. */
async function outlives(station: Running, shop: Shop, broker: { die(): Promise<unknown>; back(): Promise<unknown> }): Promise<object> {
  await until(() => told(station, "wake-up") === 1);
  await isSealed(shop);
  await broker.die();
  await until(() => told(station, "wake-down") === 1);
  await isSealed(shop);
  await until(() => station.state().online);
  const meanwhile = { up: told(station, "wake-up") };
  await broker.back();
  await until(() => told(station, "wake-up") === 2);
  await isSealed(shop);
  return { ...meanwhile, labels: (await station.floor.links()).length };
}
const WELL = { up: 1, labels: 3 };

test("jobs that a station holds and hasn't begun are dropped as soon as they are cancelled, by hint and after one was missed", async () => {
  const { w, shop } = await aShop();
  const { mqtt } = (await shop.device.api.get("/aidc/station")).body;
  const line = await lineTo(Number(new URL(mqtt.url).port));
  const settings = { mqtt: line.url, claim: { ahead: 3, leaseSeconds: 600 } }; // by its lease it would hear in five minutes
  const net = await netTo({ onTestFinished }, w);
  const station = await running({ onTestFinished }, net.url, shop, { eyes: "hand", settings });
  await until(() => told(station, "wake-up") === 1);
  const first = await shop.issue();
  await until(() => jobAt(station, first.job_ref)?.state === "PRINTED_ATTESTED");
  const [hinted, missed, kept] = [await shop.issue(), await shop.issue(), await shop.issue()];
  const cancel = (ref: string) => shop.admin.post(`/aidc/jobs/${ref}/cancel`, {});
  await until(() => [hinted, missed, kept].every(({ job_ref }) => jobAt(station, job_ref) !== undefined));
  let beats = 0; // the first is answered by a cloud that has too much to do
  net.rule(({ path }) =>
    path.endsWith(`${hinted.job_ref}/heartbeat`) && (beats += 1) === 1 ? { status: 503, code: "OVERLOADED" } : "pass",
  );
  await cancel(hinted.job_ref);
  await until(() => jobAt(station, hinted.job_ref) === undefined, 10_000);
  expect(beats).toBeGreaterThan(1);
  expect(station.lines.some((line) => line.includes(`${hinted.job_ref} isn't ours any more`) && line.includes("CANCELLED"))).toBe(true);
  await line.cut();
  await until(() => told(station, "wake-down") === 1);
  await cancel(missed.job_ref);
  await line.mend();
  await until(() => jobAt(station, missed.job_ref) === undefined, 30_000);
  await ask(station, "POST", "/api/scan", { text: first.digital_link });
  await until(() => jobAt(station, kept.job_ref)?.state === "PRINTED_ATTESTED");
  expect(await station.floor.links()).toEqual([first.digital_link, kept.digital_link]);
});

test("with the cloud's own broker cut off, labels are sealed by polling, and by hints again when it is back", async () => {
  const { w, shop } = await aShop();
  const { mqtt } = (await shop.device.api.get("/aidc/station")).body;
  const line = await lineTo(Number(new URL(mqtt.url).port));
  const station = await running({ onTestFinished }, w.url, shop, { settings: { mqtt: line.url } });
  expect(await outlives(station, shop, { die: line.cut, back: line.mend })).toEqual(WELL);
});

test.each([
  ["with its broker", {}],
  ["without one", { mqtt: "mqtt://127.0.0.1:1" }],
])("%s, a station that ended while a label came out shows as offline, whatever it told last", async (_, settings) => {
  const { w, shop } = await aShop();
  const station = await running({ onTestFinished }, w.url, shop, { eyes: "hand", printer: { scale: 4 }, settings });
  const { job_ref: ref } = await shop.issue();
  await until(async () => (await stateInCloud(shop, ref)) === "SPOOL_SUBMITTED");
  await station.end();
  const { status } = (await shop.admin.get(`/devices/${shop.device.id}`)).body;
  expect([await stateInCloud(shop, ref), status]).toEqual(["PRINTED_ATTESTED", "offline"]);
});

test.skipIf(mosquittoMissing)("with a mosquitto that is killed, the same, and it is found again by itself", async () => {
  const broker = await startMosquitto();
  onTestFinished(() => broker.end());
  const { w, shop } = await aShop({ settings: { IMPRIMATUR_MQTT_URL: broker.url } });
  broker.addUser(shop.device.id, shop.device.secret);
  const station = await running({ onTestFinished }, w.url, shop);
  expect(await outlives(station, shop, { die: () => broker.stop("SIGKILL"), back: () => broker.start() })).toEqual(WELL);
});
