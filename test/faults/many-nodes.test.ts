// Three nodes, one PostgreSQL, one broker, twenty stations that print; nodes are killed, ended and frozen by chance, and nothing that was promised is broken.
// CHAOS_SEED repeats a run, CHAOS_LABELS=5000 makes a long one of it.
import { randomInt, randomUUID } from "node:crypto";
import { get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { parseNote } from "#shared/note.ts";
import { type Ear, openEar } from "../../fixtures/chaos/ear.ts";
import { createAgentLog } from "../../agent/log.ts";
import { startStation } from "../../agent/station.ts";
import { type Answer, type Client, client } from "../../fixtures/client.ts";
import { type Cluster as Nodes, startCluster } from "../../fixtures/cluster.ts";
import { startFloor } from "../../fixtures/floor.ts";
import { mosquittoMissing, startMosquitto } from "../../fixtures/mqtt.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { random } from "../../fixtures/random.ts";
import { type Receiver, startReceiver } from "../../fixtures/receiver.ts";
import { lookAfter, lying, type Watched } from "../../fixtures/person.ts";
import { type Exchange, startProxy } from "../../fixtures/tcp-proxy.ts";
import { answeredOf } from "../chaos-evidence.ts";
import { brokenCluster, type Cluster, type Growth, type Head } from "../cluster-checker.ts";
import { freshDatabase } from "../world.ts";

if (mosquittoMissing) process.stderr.write(`skipped: three nodes and twenty stations: ${mosquittoMissing}\n`);
const SEED = Number(process.env["CHAOS_SEED"] ?? randomInt(2 ** 31));
const LABELS = Number(process.env["CHAOS_LABELS"] ?? 60);
const STATIONS = 20;
const NODES = 3;
const JOBS_A_CALL = 10;
const MOST_MS = 30_000 + LABELS * 1_500;
const TIMING = { answerMs: 5_000, completionMs: 20_000, settleMs: 5_000, stallMs: 10_000 }; // a busy machine's printers are slow, and not broken
const TOLD_MS = 120_000; // a lane's lease of half a minute, for which nobody sends what a dead node was sending, and a try that failed

const after: (() => unknown)[] = [];
afterAll(async () => {
  for (const act of after.splice(0).toReversed()) await act();
});

/** Asks until it is answered: what a client in an unsure network does, with a key so that it is done once. */
async function insist(ask: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await ask().catch(() => undefined);
    if (answer && answer.status < 500) return answer;
    await sleep(50);
  }
}
const patient = ({ get, post, ...rest }: Client): Client => ({
  ...rest,
  get: (path, sending) => insist(() => get(path, sending)),
  post: (path, json, headers = {}) => {
    const key = randomUUID();
    return insist(() => post(path, json, { "idempotency-key": key, ...headers }));
  },
});

async function startLine(nodes: Nodes, { id, secret }: Shop["device"], ear: Ear): Promise<Watched> {
  const onExchange = (exchange: Exchange) => ear.hear(id, exchange);
  const network = await startProxy(() => ({ port: Number(new URL(nodes.url).port) }), { onRequest: ear.hearRequest, onExchange });
  after.push(network.end);
  const floor = await startFloor(`http://127.0.0.1:${network.port}`, secret, { settings: { claim: { ahead: 2, leaseSeconds: 20 } } });
  after.push(floor.end);
  const log = createAgentLog("silent");
  const station = await startStation(floor.config, { log, timing: TIMING, pauses: { firstMs: 50, mostMs: 500 }, callMs: 5_000 });
  after.push(station.end);
  return { floor, station, destroyed: new Set(), asked: 0 };
}

/** One misfortune after another until told to stop, and a node at least was gone; says what they were. */
async function misfortunes(nodes: Nodes, chance: () => number, over: () => boolean): Promise<string[]> {
  const told: string[] = [];
  let gone = 0;
  while (!over() || gone === 0) {
    await sleep(500 + chance() * 2_000);
    const n = Math.floor(chance() * NODES);
    const kind = chance();
    if (kind < 0.15) {
      const { pid = 0 } = nodes.running.get(n) ?? {};
      process.kill(pid, "SIGSTOP");
      await sleep(500 + chance() * 2_500);
      process.kill(pid, "SIGCONT");
    } else {
      await nodes.kill(n, kind < 0.3 ? "SIGTERM" : "SIGKILL");
      await sleep(chance() * 500);
      await nodes.start(n);
      gone += 1;
    }
    told.push(`${kind < 0.15 ? "froze" : kind < 0.3 ? "ended" : "killed"} ${n}`);
  }
  return told;
}

/** Writes of another kind, all the while: what is answered with success has to be there afterwards. */
async function writing(admin: Client, over: () => boolean): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; !over(); i += 1) {
    const { status, body } = await admin.post("/api-keys", { name: `key ${i}`, scopes: ["aidc:read"] });
    if (status === 201) ids.push(body.data.id as string);
    await sleep(50);
  }
  return ids;
}
async function lookingAtTheLog(nobody: Client, over: () => boolean): Promise<Head[]> {
  const heads: Head[] = [];
  while (!over()) {
    const { head } = parseNote((await nobody.get("/log/checkpoint")).text) ?? {};
    if (head && head.size > (heads.at(-1)?.size ?? 0)) heads.push({ size: head.size, root: head.root.toString("hex") });
    await sleep(200);
  }
  return heads;
}

async function issue(shop: Shop, admin: Client): Promise<{ ref: string; serial: string; link: string }[]> {
  const made = [];
  for (let left = LABELS; left > 0; left -= JOBS_A_CALL) {
    const count = Math.min(left, JOBS_A_CALL);
    const { serials } = (await admin.post("/carriers/batch", { productId: shop.product.id, count })).body;
    const items = serials.map((serial: string) => ({ gtin: shop.gtin, serial, max_attempts: 10 }));
    const { jobs, failed } = (await admin.post("/aidc/jobs/batch", { items })).body;
    expect(failed).toBe(0);
    for (const { job_ref, serial, digital_link } of jobs) made.push({ ref: job_ref, serial, link: digital_link });
    await sleep(100);
  }
  return made;
}

type Evidence = { ear: Ear; lines: Watched[]; receiver: Receiver; acknowledged: string[]; heads: Head[] };
/** All that the checker judges, read when it is quiet again. */
async function gathered(admin: Client, made: Awaited<ReturnType<typeof issue>>, evidence: Evidence): Promise<Cluster> {
  const { ear, lines, receiver, acknowledged, heads } = evidence;
  const jobs = [];
  const leaves = [];
  for (const { ref, serial, link } of made) {
    const history = (await admin.get(`/aidc/jobs/${ref}/history`)).body.data;
    const { print } = (await admin.get(`/carriers/${serial}`)).body.metadata;
    jobs.push({ ref, serial, link, history, answered: answeredOf(ear, ref, history), print: print?.status ?? null });
    const { proof } = (await admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    if (proof) leaves.push({ ref, index: proof.index, size: proof.size, leaf: proof.leafHash, root: proof.root, proof: proof.proof });
  }
  const present = new Set<string>();
  for (const id of acknowledged) if ((await admin.get(`/api-keys/${id}`)).status === 200) present.add(id);
  const growths: Growth[] = [];
  for (const [i, to] of heads.entries()) {
    const from = heads[i - 1];
    if (!from) continue;
    growths.push({ from, to, proof: (await admin.get(`/log/consistency?from=${from.size}&to=${to.size}`)).body.proof });
  }
  return {
    jobs,
    claims: ear.claims,
    paper: (await Promise.all(lines.map(lying))).flat().map(({ link }) => link),
    acknowledged,
    present,
    delivered: receiver.received.map(({ deliveryId, event }) => ({ deliveryId, eventId: event.id, ref: String(event.data["job_ref"]) })),
    chainsHold: (await admin.get("/audit-logs/verify")).body.valid,
    growths,
    leaves,
  };
}

/** Lies, each about one thing that was true: a checker that believes one proves nothing. */
function lies(truth: Cluster): Record<string, Cluster> {
  const [job, other] = truth.jobs;
  const [claim] = truth.claims;
  const [delivery] = truth.delivered;
  const [leaf, next] = truth.leaves;
  if (!job || !other || !claim || !delivery || !leaf || !next) throw new Error("there is nothing to lie about");
  const alter = (changed: object) => ({ ...truth, jobs: [{ ...job, ...changed }, ...truth.jobs.slice(1)] });
  const at = job.history.findIndex(({ to }) => to === "CLAIMED");
  return {
    "an attempt given to two stations": { ...truth, claims: [...truth.claims, { ...claim, station: "another" }] },
    "a claim nobody wrote down": { ...truth, claims: [...truth.claims, { ...claim, attemptId: randomUUID() }] },
    "a second claim of a claimed job": alter({ history: job.history.toSpliced(at, 0, job.history[at] as (typeof job.history)[number]) }),
    "a lost answer": alter({ history: job.history.filter(({ to }) => to !== "SCAN_VERIFIED") }),
    "a lost write": { ...truth, present: new Set([...truth.present].slice(1)) },
    "a serial given twice": alter({ serial: other.serial }),
    "a label printed twice": { ...truth, paper: [...truth.paper, job.link] },
    "an event in two deliveries": { ...truth, delivered: [...truth.delivered, { ...delivery, deliveryId: randomUUID() }] },
    "a label told of twice": { ...truth, delivered: [...truth.delivered, { ...delivery, eventId: randomUUID() }] },
    "a label told of never": { ...truth, delivered: truth.delivered.filter(({ ref }) => ref !== job.ref) },
    "a broken chain": { ...truth, chainsHold: false },
    "a leaf in another's place": { ...truth, leaves: [{ ...leaf, index: next.index }, ...truth.leaves.slice(1)] },
    "a log rewritten": {
      ...truth,
      growths: truth.growths.map(({ from, ...rest }) => ({ ...rest, from: { ...from, root: "0".repeat(64) } })),
    },
  };
}

describe.skipIf(mosquittoMissing)(`three nodes, seed ${SEED}`, () => {
  test(
    "whatever befalls them, nothing is claimed twice, lost, or told of under two names",
    { timeout: MOST_MS + TOLD_MS + 120_000 },
    async () => {
      const broker = await startMosquitto();
      after.push(broker.end);
      const receiver = await startReceiver();
      after.push(receiver.end);
      const databaseUrl = (await freshDatabase("postgres")) ?? "";
      const settings = { IMPRIMATUR_RATE_LIMIT: "off", IMPRIMATUR_WEBHOOK_PRIVATE: "on", IMPRIMATUR_LOG_LEVEL: "info" };
      const nodes = await startCluster({ databaseUrl, mqttUrl: broker.url, nodes: NODES, settings });
      after.push(nodes.end);
      const as = (secret: string) => patient(client(() => nodes.url, { authorization: `Bearer ${secret}` }));
      const shop = await printShop({ url: nodes.url, admin: as(nodes.adminKey), as });
      await shop.admin.post("/webhooks", { url: receiver.url, events: ["print.confirmed"] });
      const ear = openEar();
      const lines: Watched[] = [];
      for (let n = 1; n <= STATIONS; n += 1) {
        const device = await shop.newDevice(`line ${n}`);
        broker.addUser(device.id, device.secret);
        lines.push(await startLine(nodes, device, ear));
      }
      let over = false;
      const isOver = () => over;
      const meanwhile = Promise.all([
        misfortunes(nodes, random(SEED), isOver),
        writing(shop.admin, isOver),
        lookingAtTheLog(patient(client(() => nodes.url)), isOver),
      ]);
      const made = await issue(shop, shop.admin);
      const sealed = () => lines.reduce((sum, { station }) => sum + (station.state().ledger.counts["sealed"] ?? 0), 0);
      const isBusy = () => sealed() < LABELS || lines.some(({ station }) => station.state().jobs.length > 0);
      for (const until = Date.now() + MOST_MS; isBusy() && Date.now() < until;) {
        await sleep(500);
        for (const line of lines) await lookAfter(line);
      }
      over = true;
      const [told, acknowledged, heads] = await meanwhile;
      const answering = () => [...nodes.balancer.handed.values()].filter((count) => count > 0).length;
      for (let i = 0; i < 100 && answering() <= NODES; i += 1, await sleep(50))
        get(nodes.url, { agent: false }, (answer) => answer.resume()).on("error", () => {}); // over a connection of its own
      const events = () => new Set(receiver.received.map(({ event }) => event.id)).size;
      for (const until = Date.now() + TOLD_MS; events() < LABELS && Date.now() < until;) await sleep(100);
      const truth = await gathered(shop.admin, made, { ear, lines, receiver, acknowledged, heads });
      process.stderr.write(
        `many nodes: seed ${SEED}, ${told.join(", ")}; ${acknowledged.length} writes, ${heads.length} heads, ${receiver.received.length} deliveries\n`,
      );
      expect(brokenCluster(truth)).toEqual([]);
      expect(truth.jobs.map(({ history }) => history.at(-1)?.to)).toEqual(truth.jobs.map(() => "SEALED"));
      expect(answering()).toBeGreaterThan(NODES); // those that were killed came back under other addresses
      const believed = Object.entries(lies(truth)).filter(([, told]) => brokenCluster(told).length === 0);
      expect(believed.map(([lie]) => lie)).toEqual([]);
    },
  );
});
