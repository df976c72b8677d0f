// Webhooks: how many deliveries a second of one core's time, what a fan-out costs the request that causes it, and what a past of a million costs.
import { rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fanOut as makeDeliveries } from "../../cloud/domain/fan-out.ts";
import { claim, look } from "../../cloud/domain/lanes.ts";
import { settle } from "../../cloud/domain/tries.ts";
import { emit } from "../../cloud/domain/outbox.ts";
import { DEFAULT_TENANT, ensureDefault } from "../../cloud/domain/tenants.ts";
import * as webhooks from "../../cloud/domain/webhooks.ts";
import { openSeal } from "../../cloud/seal.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { manyDeliveries, storeAt } from "../../fixtures/many-rows.ts";
import { cpuMs, duel, inFull, type Line, percentile, rate, ratioLine, statOf } from "./measure.ts";
import { type Cloud, cloudOn, freshFolder, startServer } from "./servers.ts";

const ENDPOINTS = inFull(100, 10);
const EVENTS = inFull(100, 5);
const ROUNDS = inFull(40, 1);
const ROUND_MS = inFull(1_000, 100);
const CALLS_PER_S = 10; // with 100 endpoints that is a thousand deliveries a second
const MANY = inFull(1_000_000, 200);
const TEN = 10;

async function good<T extends { status: number; text: string }>(answer: Promise<T>): Promise<T> {
  const { status, text } = await answer;
  if (status >= 300) throw new Error(`answered ${status}: ${text}`);
  return answer;
}
/** Seconds of processor time that the process has used. */
const usedS = (pid: number): number => cpuMs(statOf(pid)) / 1_000;

let n = 500_000;
/** A tenant with serials, and a way to report the next of them as printed. */
async function floor(cloud: Cloud, hooks: number, receiver: string) {
  const made = (await good(cloud.admin.post("/tenants", { name: `floor ${(n += 1)}` }))).body;
  const admin = cloud.as(made.adminKey.secret);
  const kettle = productOf({ gtin: gtinOf(n) });
  const { id: productId } = (await good(admin.post("/products", kettle))).body;
  const { serials } = (await good(admin.post("/carriers/batch", { productId, count: inFull(10_000, 1_000) }))).body;
  for (let i = 0; i < hooks; i += 1) await good(admin.post("/webhooks", { url: `${receiver}/${i}`, events: ["print.confirmed"] }));
  let next = 0;
  return async () => {
    const began = performance.now();
    const results = [{ serial: serials[next % serials.length] as string, status: "printed" }];
    next += 1;
    await good(admin.post("/carriers/print-status", { results }));
    return performance.now() - began;
  };
}
const countAt = async (receiver: string) => Number(await (await fetch(receiver)).text());
async function until(receiver: string, count: number): Promise<void> {
  while ((await countAt(receiver)) < count) await sleep(20);
}

async function throughput(cloud: Cloud, receiver: string): Promise<Line> {
  const print = await floor(cloud, ENDPOINTS, receiver);
  const run = async (events: number) => {
    const before = await countAt(receiver);
    const [beganAt, used] = [performance.now(), usedS(cloud.pid)];
    for (let i = 0; i < events; i += 1) await print();
    await until(receiver, before + events * ENDPOINTS);
    await sleep(100); // the last ones are written down
    return { wall: (events * ENDPOINTS * 1000) / (performance.now() - beganAt), core: (events * ENDPOINTS) / (usedS(cloud.pid) - used) };
  };
  await run(EVENTS / 5);
  const { wall, core } = await run(EVENTS);
  return {
    name: `webhooks: deliveries to ${ENDPOINTS} endpoints that answer in 20 ms, in a second of one core`,
    figure: `${rate(core)} (${rate(wall)} by the clock on this machine as it is)`,
    target: "at least 1,000",
    met: core >= 1_000,
  };
}

/** Calls at a steady pace, whatever the answers take; the times they took. */
async function paced(call: () => Promise<number>, ms: number): Promise<number[]> {
  const calls: Promise<number>[] = [];
  const beganAt = performance.now();
  for (let i = 0; performance.now() - beganAt < ms; i += 1) {
    calls.push(call());
    await sleep(Math.max(0, beganAt + ((i + 1) * 1000) / CALLS_PER_S - performance.now()));
  }
  return Promise.all(calls);
}

async function fanOut(cloud: Cloud, receiver: string): Promise<Line> {
  const [loud, quiet] = [await floor(cloud, ENDPOINTS, receiver), await floor(cloud, 0, receiver)];
  const took: { loud: number[]; quiet: number[] } = { loud: [], quiet: [] };
  for (const call of [loud, quiet]) await paced(call, 2 * ROUND_MS);
  for (let round = 0; round < ROUNDS; round += 1) {
    took.loud.push(...(await paced(loud, ROUND_MS)));
    await sleep(300); // what it set off is over
    took.quiet.push(...(await paced(quiet, ROUND_MS)));
  }
  const [with100, without] = [percentile(took.loud, 0.99), percentile(took.quiet, 0.99)];
  return {
    name: `webhooks: p99 of POST /carriers/print-status with ${ENDPOINTS} endpoints told, against none`,
    figure: `${(with100 / without).toFixed(2)} (${with100.toFixed(1)} against ${without.toFixed(1)} ms)`,
    target: "at most 1.2",
    met: with100 <= 1.2 * without,
  };
}

/** The whole way of an event to ten webhooks and back, without the network: fan-out, claim, pick, record. */
async function picker(folder: string, past: number) {
  const store = await storeAt({ dataDir: folder });
  const tenantId = DEFAULT_TENANT;
  const seal = await openSeal(store, folder, []);
  const caller = { tenantId, credential: { kind: "system", id: "", name: "" }, scopes: [], deviceId: null, tier: "pro" } as const;
  const ids: string[] = [];
  await store.write("webhooks", async (tx) => {
    await ensureDefault(tx);
    for (let i = 0; i < TEN; i += 1) {
      const made = await webhooks.create(
        tx,
        caller,
        { url: "https://erp.example.com/", events: ["print.confirmed"] },
        { seal, allowPrivate: false },
      );
      ids.push(made.id);
    }
  });
  await manyDeliveries(store, tenantId, ids, past);
  const outcome = { status: 204, error: null, head: null, latencyMs: 20 };
  const cycle = () =>
    store.write("cycle", async (tx) => {
      await emit(tx, { tenantId }, "print.confirmed", { serials: ["1"] });
      await makeDeliveries(tx, TEN);
      for (const lane of await claim(tx, "bench", TEN)) {
        const { tries, lane: held } = await look(tx, "bench", lane);
        for (const made of tries) await settle(tx, { made, outcome });
        if (held) await look(tx, "bench", held);
      }
    });
  const run = async (ms: number) => {
    const until = performance.now() + ms;
    let done = 0;
    for (; performance.now() < until; done += TEN) await cycle();
    return done;
  };
  return { run, end: () => store.close() };
}

async function picking(): Promise<Line> {
  const folders = [freshFolder(), freshFolder()] as const;
  const [old, young] = [await picker(folders[0], MANY), await picker(folders[1], 0)];
  const result = await duel({ name: "after a million", run: old.run }, { name: "after none", run: young.run });
  await Promise.all([old.end(), young.end()]);
  for (const folder of folders) rmSync(folder, { recursive: true });
  return ratioLine(
    "webhooks: picking and recording due deliveries beside 1,000,000 delivered ones, against none",
    result,
    1 / 1.3,
    "deliveries",
  );
}

export async function webhooksBench(): Promise<Line[]> {
  const receiver = await startServer("./slow-receiver.ts", {});
  const cloud = await cloudOn(undefined, { IMPRIMATUR_WEBHOOK_PRIVATE: "on" });
  try {
    return [await throughput(cloud, receiver.url), await fanOut(cloud, receiver.url), await picking()];
  } finally {
    await cloud.end();
    await receiver.end();
  }
}
