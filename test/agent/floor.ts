// A station between a real cloud and a simulated floor, for tests: one call each for what they all do.
import { setTimeout as sleep } from "node:timers/promises";
import type { onTestFailed } from "vitest";
import { eq } from "../../cloud/store/drizzle.ts";
import { printJobs } from "../../cloud/store/schema.ts";
import { pictureOf } from "../../agent/bitmap.ts";
import { decode } from "../../agent/decode.ts";
import { createAgentLog } from "../../agent/log.ts";
import { logTo } from "../../shared/log-out.ts";
import { type Station, type StationOptions, startStation } from "../../agent/station.ts";
import { type FloorOptions, linkOn, OPERATOR, type SimulatedFloor, startFloor } from "../../fixtures/floor.ts";
import { type Network, startNetwork } from "../../fixtures/network.ts";
import { decodeGraphic } from "../../fixtures/printers/zpl.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import type { World } from "../../fixtures/world.ts";
import { Writable } from "node:stream";

export const HASTY = { answerMs: 600, pollMs: 20, completionMs: 4_000, settleMs: 4_000, stallMs: 1_000 };
const PATIENCE = { idleMs: 500, muteMs: 300, retryMs: [50, 100, 200], drainMs: 2_000 };
const PAUSES = { firstMs: 50, mostMs: 400 };

export const TOLD_LINES = 30; // of a station whose test failed

export type Running = Station & { floor: SimulatedFloor; lines: string[] };
/** Of a test, or of what has an end too. */
export type Ends = { onTestFinished(end: () => void | Promise<void>): void; onTestFailed?: typeof onTestFailed };

export function quietLog() {
  const lines: string[] = [];
  const out = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(...chunk.toString("utf8").trimEnd().split("\n"));
      done();
    },
  });
  return { log: createAgentLog("debug", logTo(out)), lines };
}

/** Between its stations and that cloud; ends with the test. */
export async function netTo({ onTestFinished }: Ends, cloud: { url: string }): Promise<Network> {
  const net = await startNetwork(() => cloud.url);
  onTestFinished(net.end);
  return net;
}

/** Ends with the test; `restart` is a new station on the same buffer. */
export async function stationOn({ onTestFinished }: Ends, floor: SimulatedFloor, options: Partial<StationOptions> = {}): Promise<Running> {
  const { log, lines } = quietLog();
  const common = { log, timing: HASTY, patience: PATIENCE, pauses: PAUSES, callMs: 15_000 };
  const station = await startStation(floor.config, { ...common, ...options });
  let ended: Promise<void> | undefined;
  const end = () => (ended ??= station.end());
  onTestFinished(end);
  return { ...station, floor, lines, end };
}

export async function floorOf(ends: Ends, cloud: string, shop: Shop, options: FloorOptions = {}): Promise<SimulatedFloor> {
  const floor = await startFloor(cloud, shop.device.secret, options);
  ends.onTestFinished(floor.end);
  return floor;
}
export async function running(
  ends: Ends,
  cloud: string,
  shop: Shop,
  options: FloorOptions = {},
  more: Partial<StationOptions> = {},
): Promise<Running> {
  const station = await stationOn(ends, await floorOf(ends, cloud, shop, options), more);
  ends.onTestFailed?.(() => void process.stderr.write(`${station.lines.slice(-TOLD_LINES).join("\n")}\n`));
  return station;
}
type Line = { shop: Shop; station: Running };
export async function lineOf(ends: Ends, world: World, options?: FloorOptions, more?: Partial<StationOptions>): Promise<Line> {
  const shop = await printShop(world);
  return { shop, station: await running(ends, world.url, shop, options, more) };
}
export async function lineBehindNet(
  ends: Ends,
  world: World,
  options?: FloorOptions,
  more?: Partial<StationOptions>,
): Promise<Line & { net: Network }> {
  const shop = await printShop(world);
  const net = await netTo(ends, world);
  return { shop, net, station: await running(ends, net.url, shop, options, more) };
}

type Job = { job_ref: string; serial: string; digital_link: string };
type InVain = { station: Running; net: Network; before: Job; job: Job };
/** The printer was well when it was looked at, and says nothing once the label of `job` is begun: for so long it isn't known that nothing leaves. The cloud hears of none of it before `net` lets it. */
export async function begunInVain(
  ends: Ends,
  cloud: string,
  shop: Shop,
  answerMs: number,
  { port, hush }: Pick<FloorOptions, "port"> & { hush?(): void } = {},
): Promise<InVain> {
  const net = await netTo(ends, { url: cloud });
  const first = await running(ends, net.url, shop, { eyes: "hand", ...(port ? { port } : {}) });
  const [before, job] = [await shop.issue({ priority: 2 }), await shop.issue({ priority: 1 })];
  const isDone = () => jobAt(first, job.job_ref) !== undefined && first.state().buffer_depth === 0;
  await until(async () => isDone() && (await stateInCloud(shop, before.job_ref)) === "PRINTED_ATTESTED");
  await first.end();
  const late = Promise.withResolvers<"pass">();
  let beats = 0; // one of the rounds of its leases, one of its lane, which by then has looked at the printer
  net.rule(({ path, body }) => {
    if (path.endsWith(`${job.job_ref}/heartbeat`)) return ((beats += 1), late.promise);
    return `${path} ${body}`.includes(job.job_ref) && /\/results?$/.test(path) ? "cut" : "pass"; // it hasn't heard of the drawing
  });
  const station = await stationOn(ends, first.floor, { timing: { ...HASTY, answerMs } }); // it believes in no lease of the run before
  await ask(station, "POST", "/api/scan", { text: before.digital_link });
  await until(() => beats === 2);
  if (hush) hush();
  else station.floor.machine?.fault("dont-answer"); // before it says where its counter stands
  late.resolve("pass");
  await until(() => jobAt(station, job.job_ref)?.stage === "sending");
  return { station, net, before, job };
}

export type Told = { status: number; body: any }; // oxlint-disable-line typescript/no-explicit-any -- what a console answers; tests look
export async function ask(
  station: Pick<Station, "url">,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Told> {
  const response = await fetch(station.url + path, {
    method,
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text.startsWith("{") ? JSON.parse(text) : text };
}
export async function sessionAt(station: Pick<Station, "url">): Promise<string> {
  return (await ask(station, "POST", "/api/operator", { badge: OPERATOR.badge })).body.session as string;
}
/** `question`: the one that is answered; absent: whichever is asked by then. */
export async function say(station: Pick<Station, "url">, ref: string, verdict: string, question: object = {}): Promise<Told> {
  return ask(station, "POST", `/api/jobs/${ref}/attest`, { verdict, ...question, session: await sessionAt(station) });
}
export const jobAt = (station: Station, ref: string) => station.state().jobs.find(({ job_ref }) => job_ref === ref);
export const asked = (station: Station, ref: string) => jobAt(station, ref)?.ask?.kind ?? null;
/** Of its printers, in their order. */
export const statuses = (station: Station): string =>
  station
    .state()
    .printers.map(({ status }) => status)
    .join(", ");
export const until = async (isSo: () => boolean | Promise<boolean>, ms = 100_000): Promise<void> => {
  for (const end = Date.now() + ms; !(await isSo()); await sleep(20))
    if (Date.now() > end) throw new Error(`not so after ${ms} ms: ${String(isSo)}`);
};
export const stateInCloud = async (shop: Shop, ref: string): Promise<string> =>
  (await shop.admin.get(`/aidc/jobs/${ref}`)).body.state as string;
/** And the station has heard it. */
export const sealedHere = (station: Station, ref: string): Promise<void> =>
  until(() => station.state().recent.some(({ job_ref, ended }) => job_ref === ref && ended === "sealed"));
/** As a database that was set back to before the claim has it. */
export const setBack = ({ store }: World, ref: string) =>
  store.write("set back", ({ db }) =>
    db
      .update(printJobs)
      .set({ state: "QUEUED", fromState: null, reached: 0, pool: true, attemptId: null, attempt: 0, deviceId: null, lookAt: null })
      .where(eq(printJobs.jobRef, ref)),
  );
export const sealed = (shop: Shop, ref: string): Promise<void> => until(async () => (await stateInCloud(shop, ref)) === "SEALED");
/** The states that it came to, in their order. */
export const movesOf = async (shop: Shop, ref: string): Promise<string[]> =>
  (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body.data.map(({ to }: { to: string }) => to);

const drawnAs = new Map<string, Promise<string | undefined>>();
/** Whose label it is, however badly it came out. */
function linkIn(source: string): Promise<string | undefined> {
  const graphic = /\^GF(A[^^]*)\^FS/.exec(source)?.[1] ?? "";
  const known = drawnAs.get(source) ?? decode(pictureOf(decodeGraphic(graphic))).then(([symbol]) => symbol?.text);
  drawnAs.set(source, known);
  return known;
}
/** The numbers of the good labels of this link that came out. */
export async function lyingOf({ labels }: Pick<NonNullable<SimulatedFloor["machine"]>, "labels">, link: string): Promise<number[]> {
  const found: number[] = [];
  for (const { n, source, dots, isVoid, isForeign } of labels)
    if (!isVoid && !isForeign && (await (source === undefined ? linkOn(dots) : linkIn(source))) === link) found.push(n);
  return found;
}
