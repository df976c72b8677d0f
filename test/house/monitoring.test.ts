// What watches the cloud names only figures that the cloud has, in expressions that Prometheus can read.
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { text as words } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import { startCollector } from "../../fixtures/collector.ts";
import { metricsOf } from "../../agent/metrics.ts";
import type { State } from "../../agent/state.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { publishedPassport } from "../../fixtures/passports.ts";
import { startRegistry } from "../../fixtures/registry.ts";
import { startWorld } from "../../fixtures/world.ts";
import { freshDatabase, world } from "../world.ts";
import { ALERTS_FILE, alerts, panels } from "./monitoring.ts";

const FUNCTIONS = new Set("rate increase sum max histogram_quantile max_over_time topk".split(" "));
const GROUPING = /\b(?:by|without) \(([\w, ]+)\)/g;

/** Every word that isn't a function, a label or a number is a metric; brackets close, and what stands between them is what may. */
function metricsIn(expr: string): string[] {
  const opened: string[] = [];
  const bare = expr.replaceAll(/"[^"]*"/g, '""');
  for (const letter of bare) {
    if ("([{".includes(letter)) opened.push(letter);
    if (")]}".includes(letter) && "([{".indexOf(opened.pop() ?? " ") !== ")]}".indexOf(letter)) throw new Error(`brackets: ${expr}`);
  }
  if (opened.length > 0) throw new Error(`brackets: ${expr}`);
  const selectors = /\{(\w+(=~|!~|!=|=)""(, *\w+(=~|!~|!=|=)"")*)?\}/g;
  const ranges = /\[(\d+[smh]|\$__rate_interval)\]/g;
  const text = bare.replaceAll(selectors, "").replaceAll(ranges, "").replaceAll(GROUPING, "");
  if (/[{}[\]"]/.test(text)) throw new Error(`a selector or a range isn't one: ${expr}`);
  const words = [...text.matchAll(/(?<![\w.])([a-z_]\w*)\s*(\()?/gi)].map(([, name = "", call]) => ({ name, isCall: call !== undefined }));
  for (const { name, isCall } of words) if (FUNCTIONS.has(name) !== isCall) throw new Error(`${name} isn't a function here: ${expr}`);
  return words.filter(({ isCall }) => !isCall).map(({ name }) => name);
}

const STATION_JOB = "imprimatur-station";
/** As much of one as its figures are made of. */
const STATION: Partial<State> = {
  at: new Date(0).toISOString(), online: true, stopped: null, paused: false, quarantined: 0, notices: [], jobs: [],
  buffer: { depth: 0, oldest_age_ms: null } as State["buffer"], ledger: { counts: {} } as State["ledger"], printers: [{ name: "p", status: "ready" }] as State["printers"],
}; // oxfmt-ignore
const figuresOfStations = async () =>
  new Set([...(await metricsOf(() => STATION as State).text()).matchAll(/^(\w+)(?:\{.*\})? /gm)].map(([, name = ""]) => name));
const named = [...alerts().map(({ expr }) => expr), ...panels().flatMap(({ targets }) => targets.map(({ expr }) => expr))];

test("every metric that an alert or a panel names is exported", async (t) => {
  const w = await world({}, t.onTestFinished);
  const text = (await w.admin.get("/metrics")).text; // answered once before: what counts answers has series
  await w.admin.get("/metrics");
  const exported = new Set([...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name = "", type]) => (type === "histogram" ? ["_bucket", "_sum", "_count"].map((end) => name + end) : [name]))); // oxfmt-ignore
  const ofStations = await figuresOfStations();
  const isExported = (name: string, expr: string) =>
    name === "up" || (expr.includes(`job="${STATION_JOB}"`) ? ofStations : exported).has(name); // `up` is Prometheus's own
  const strangers = named.flatMap((expr) => metricsIn(expr).filter((name) => !isExported(name, expr)));
  expect(strangers).toEqual([]);
  expect(named.length).toBeGreaterThan(20);
});

test("of what a station tells alarms all but that it is paused, and how much it has to say, asks and has done", async () => {
  const alarming = new Set(alerts().flatMap(({ expr }) => metricsIn(expr)));
  const others = [...(await figuresOfStations())].filter((name) => !alarming.has(name));
  expect(others.map((name) => name.replace("imprimatur_agent_", ""))).toEqual(["paused", "buffer_depth", "asks", "labels"]);
});

test("a panel whose title speaks of so many of a hundred shows a quantile", () => {
  const shares = panels().filter(({ title }) => title.includes(" of 100"));
  expect(shares.length).toBeGreaterThan(1);
  expect(shares.filter(({ targets }) => targets.some(({ expr }) => !expr.startsWith("histogram_quantile(")))).toEqual([]);
});

test("nobody is alarmed by what another program exports under the same name", () => {
  const anybodys = named.filter((expr) =>
    metricsIn(expr).some((name) => !/^\{job="imprimatur(-station)?"/.test(expr.slice(expr.indexOf(name) + name.length))),
  );
  expect(anybodys).toEqual([]);
  expect(named.filter((expr) => expr.match(/\bjob="/g)?.length !== metricsIn(expr).length)).toEqual([]);
});

test("what a cloud wasn't set up for is no fault, and alarms nobody; a store that is away is one", async (t) => {
  const w = await world({}, t.onTestFinished);
  const faults = async () => {
    const { text } = await w.admin.get("/metrics");
    return [...text.matchAll(/^http_faults_total\{code="(\w+)"\} (\d+)$/gm)].flatMap(([, code, count]) =>
      count === "0" ? [] : [code, Number(count)],
    );
  };
  expect(alerts().find(({ name }) => name === "ImprimaturFaults")?.expr).toContain("http_faults_total");
  const extensions = { batteryCategory: "industrial", ratedCapacityAh: 100 };
  const battery = { name: "Cell", description: "A cell of a battery", category: "battery", gtin: gtinOf(1), serialNumber: "1", extensions };
  const { id } = (await w.admin.post("/products", battery)).body;
  const asked = await w.admin.post(`/products/${id}/lifecycle/transition`, { stage: "validated" });
  expect([asked.status, asked.body.error.code]).toEqual([503, "COMPLIANCE_EVALUATION_UNAVAILABLE"]);
  expect([await faults(), w.logged().some((line) => line.includes('"event":"fault"'))]).toEqual([[], false]);
  await w.store.write("pages", async ({ db }) => void (await db.values("PRAGMA max_page_count = 1")));
  let full = 0;
  for (let i = 0; i < 300 && full !== 503; i += 1)
    full = (await w.admin.post("/oauth/clients", { name: "x".repeat(190), scopes: ["aidc:read"] })).status;
  expect([await faults(), w.logged().some((line) => line.includes('"code":"STORE_UNAVAILABLE"'))]).toEqual([
    ["STORE_UNAVAILABLE", 1],
    true,
  ]);
});

test("a data folder that is gone is told by the figure of its room, beside all others", async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), "imprimatur-monitoring-"));
  const w = await world({ databaseUrl: await freshDatabase("postgres"), dataDir }, t.onTestFinished);
  rmSync(dataDir, { recursive: true });
  const { status, text } = await w.admin.get("/metrics");
  expect([status, /^data_dir_free_bytes .*$/m.exec(text)?.[0]]).toEqual([200, "data_dir_free_bytes 0"]);
});

test("that a node drains, as it was told to, is no fault; that its store can't answer is one", async (t) => {
  const w = await world({ settings: { IMPRIMATUR_DRAIN_NOTICE_S: "5" } }, t.onTestFinished);
  const ready = async () => (await w.nobody.get("//readyz")).body;
  const faults = () => w.logged().filter((line) => line.includes('"event":"fault"') && line.includes('"code":"NOT_READY"')).length;
  const closing = w.close();
  expect([(await ready()).error.details.notReady, faults()]).toEqual([["draining"], 0]);
  await w.store.close();
  expect([(await ready()).error.details.notReady, faults()]).toEqual([["draining", "store"], 1]);
  await closing;
});

test("a trace marks as an error what the log calls a fault, and no other 503", async (t) => {
  const [collector, registry] = [await startCollector(), await startRegistry()];
  t.onTestFinished(collector.end);
  t.onTestFinished(registry.end);
  const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
  const without = await world({ settings }, t.onTestFinished);
  const with_ = await world({ settings: { ...settings, IMPRIMATUR_REGISTRY_URL: registry.url } }, t.onTestFinished);
  await registry.behave("500");
  const asked: [string, boolean][] = [];
  for (const w of [without, with_]) {
    const { id } = await publishedPassport(w.admin, { gtin: gtinOf(2) });
    const { status, body, headers } = await w.admin.post(`/passports/${id}/publish`);
    expect([status, body.error.code]).toEqual([503, "REGISTRY_UNAVAILABLE"]);
    const requestId = headers.get("x-correlation-id") ?? "";
    asked.push([requestId, w.logged().some((line) => line.includes('"event":"fault"') && line.includes(requestId))]);
  }
  const marked = () => asked.map(([id]) => collector.spans.find(({ attributes }) => attributes["imprimatur.request_id"] === id)?.isFault);
  await expect.poll(() => marked().includes(undefined)).toBe(false);
  expect([marked(), asked.map(([, isFault]) => isFault)]).toEqual([
    [false, true],
    [false, true],
  ]);
});

test("a caller's place in a trace is taken where W3C's own tests take it, and nowhere else", async (t) => {
  const collector = await startCollector();
  t.onTestFinished(collector.end);
  const w = await world({ settings: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } }, t.onTestFinished);
  const [trace, parent] = ["12345678901234567890123456789012", "1234567890123456"];
  const whole = `${trace}-${parent}-01`;
  const taken = [`00-${whole}`, `cc-${whole}`, `cc-${whole}-what-the-future-will-be-like`, `00-${trace}-${parent}-ff`];
  const refused = [
    `ff-${whole}`,
    `00-${whole}.`,
    `00-${whole}-what-the-future-will-be-like`,
    `cc-${whole}.`,
    `0-${whole}`,
    `000-${whole}`,
    `00-${trace.slice(1)}-${parent}-01`,
    `00-${trace}1-${parent}-01`,
    `00-${"0".repeat(32)}-${parent}-01`,
    `00-${trace}-${"0".repeat(16)}-01`,
    `00-${trace}-${parent}-1`,
    `00-${trace}-${parent}-x1`,
    `00-${"ABCDEF".repeat(5)}AB-${parent}-01`,
    `00-${whole},00-${whole}`,
  ];
  const ask = async (traceparent: string) => (await w.as("nobody", { traceparent }).get("/tenant")).headers.get("x-correlation-id");
  const ids = new Map<string, string | null>();
  for (const one of [...taken, ...refused]) ids.set(one, await ask(one));
  const spanOf = (one: string) => collector.spans.find(({ attributes }) => attributes["imprimatur.request_id"] === ids.get(one));
  await expect.poll(() => [...ids.keys()].filter((one) => !spanOf(one))).toEqual([]);
  const isUnder = (one: string) => spanOf(one)?.parentSpanId === parent && spanOf(one)?.traceId === trace;
  expect([...ids.keys()].filter(isUnder)).toEqual(taken);
  expect(refused.filter((one) => spanOf(one)?.parentSpanId !== "")).toEqual([]);
});

test("a trace says which node made it, and what its surroundings say of that", async (t) => {
  const collector = await startCollector();
  t.onTestFinished(collector.end);
  vi.stubEnv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=hall%207");
  t.onTestFinished(() => void vi.unstubAllEnvs());
  t.onTestFinished((await startWorld({ settings: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } })).end);
  await expect.poll(() => collector.spans.length).toBeGreaterThan(0);
  expect(collector.spans[0]?.resource).toMatchObject({
    "service.name": "imprimatur",
    "service.instance.id": expect.stringMatching(/^[\da-f-]{36}$/),
    "deployment.environment.name": "hall 7",
  });
});

test("a loop that stands still once shows in the figure by which its alert judges", async (t) => {
  const { expr = "" } = alerts().find(({ name }) => name === "ImprimaturEventLoop") ?? {};
  const w = await world({}, t.onTestFinished);
  const figure = async () => {
    const { text } = await w.admin.get("/metrics");
    return Number(new RegExp(`^${metricsIn(expr)[0]} (\\S+)$`, "m").exec(text)?.[1]);
  };
  await figure(); // from here on
  await sleep(3_000);
  for (const until = performance.now() + 700; performance.now() < until;);
  await sleep(100);
  expect(await figure()).toBeGreaterThan(Number(/> (\S+)$/.exec(expr)?.[1]));
});

test.each(["rate(http_requests_total[5m]", "rates(x[5m])", "x{a=b}", "x[5 minutes]", "sum by le (x)"])(
  "%s isn't taken for an expression",
  (expr) => {
    expect(() => {
      for (const name of metricsIn(expr)) if (["by", "le"].includes(name)) throw new Error("a word too many");
    }).toThrow();
  },
);

test("every alert has a name of its own and stands in the README with what to do", () => {
  const names = alerts().map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  const readme = readFileSync("README.md", "utf8");
  expect(names.filter((name) => !readme.includes(`\`${name}\``))).toEqual([]);
});

test("promtool takes the rules", async (t) => {
  const said = await promisify(execFile)("promtool", ["check", "rules", ALERTS_FILE]).catch(
    (error: NodeJS.ErrnoException & { stdout?: string }) =>
      error.code === "ENOENT" ? undefined : expect.fail(`${error.stdout ?? ""}${error.message}`),
  );
  if (said === undefined) return t.skip("promtool isn't on this machine: apt-get install prometheus");
  expect(said.stdout).toContain(`${alerts().length} rules found`);
});

test("promtool has no word against a figure of ours", async (t) => {
  if (!(await promisify(execFile)("promtool", ["--version"]).catch(() => undefined)))
    return t.skip("promtool isn't on this machine: apt-get install prometheus");
  const w = await world({}, t.onTestFinished);
  const { text } = await w.admin.get("/metrics");
  const promtool = spawn("promtool", ["check", "metrics"], { stdio: ["pipe", "ignore", "pipe"] });
  promtool.stdin.end(text);
  const lines = (await words(promtool.stderr)).trim().split("\n");
  expect(lines.filter((line) => !line.startsWith("nodejs_"))).toEqual([]); // prom-client's names for what Node counts
});
