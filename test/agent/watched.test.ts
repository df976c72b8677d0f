// A station as a service is watched: JSON lines, health and figures in the form that machines read, and no secret in any of them.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { metricsOf } from "../../agent/metrics.ts";
import { OPERATOR, settingsFile } from "../../fixtures/floor.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startProgram } from "../../fixtures/program.ts";
import { world } from "../world.ts";
import { ask, floorOf, jobAt, lineOf, say, sealed, until } from "./floor.ts";

const w = await world();

/** The text format of Prometheus, strictly: every family has its help and type before its samples, every sample parses, none is there twice. */
function figuresIn(body: string): Map<string, number> {
  const [samples, types, helps] = [new Map<string, number>(), new Map<string, string>(), new Set<string>()];
  expect(body.endsWith("\n")).toBe(true);
  for (const line of body.split("\n").filter(Boolean)) {
    const [, help] = /^# HELP ([a-zA-Z_:][\w:]*) \S.*$/.exec(line) ?? [];
    const [, typed, type] = /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram|summary|untyped)$/.exec(line) ?? [];
    if (help) {
      expect([line, helps.has(help)]).toEqual([line, false]);
      helps.add(help);
    } else if (typed && type) {
      expect([line, types.has(typed), helps.has(typed)]).toEqual([line, false, true]);
      types.set(typed, type);
    } else {
      const [, name = "", labels = "", value = ""] =
        /^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"(?:,(?=[a-zA-Z_]))?)*\})? (-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN)$/.exec(
          line,
        ) ?? [];
      expect([line, name === "", types.has(name)]).toEqual([line, false, true]);
      expect([line, samples.has(name + labels)]).toEqual([line, false]);
      samples.set(name + labels, Number(value));
    }
  }
  expect([...types.keys()].toSorted()).toEqual([...helps].toSorted());
  return samples;
}

test("its log is JSON lines, its health and figures are for machines, and neither key nor badge nor PIN is in them", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop);
  const printers = floor.config.printers.map((one) => ({ ...one, name: 'a "b" \\c' }));
  const file = settingsFile(floor, { logLevel: "debug", printers });
  const agent = await startProgram("agent/main.ts", {}, [], ["--config", file]);
  t.onTestFinished(async () => void (await agent.end("SIGKILL")));
  const { job_ref: ref } = await shop.issue();
  await sealed(shop, ref);
  const { session } = (await ask(agent, "POST", "/api/operator", { badge: OPERATOR.badge })).body;
  await ask(agent, "POST", "/api/scan", { text: "x", session });
  await until(async () => (await ask(agent, "GET", "/api/state")).body.buffer_depth === 0);

  expect((await ask(agent, "GET", "/healthz")).body).toEqual({ status: "ok" });
  const metrics = await fetch(`${agent.url}/metrics`);
  expect(metrics.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
  const body = await metrics.text();
  const figures = figuresIn(body);
  const readme = readFileSync("README.md", "utf8");
  const names = [...body.matchAll(/^# TYPE imprimatur_agent(\w+) /gm)].map(([, name = ""]) => name);
  expect(names).toContain("_online");
  expect(names.filter((name) => !readme.includes(`\`${name}`) && !readme.includes(`\`imprimatur_agent${name}`))).toEqual([]);
  expect(Object.fromEntries(figures)).toMatchObject({
    imprimatur_agent_online: 1,
    imprimatur_agent_stopped: 0,
    imprimatur_agent_buffer_depth: 0,
    imprimatur_agent_notices: 0,
    'imprimatur_agent_labels{state="sealed"}': 1,
    'imprimatur_agent_printer_ready{printer="a \\"b\\" \\\\c"}': 1,
  });
  const { log, ...state } = (await ask(agent, "GET", "/api/state")).body as { log: string[] };
  const lines = [...agent.said().trimEnd().split("\n"), ...log];
  for (const line of lines)
    expect(JSON.parse(line)).toMatchObject({ level: expect.any(String), time: expect.any(String), msg: expect.any(String) });
  expect(lines.some((line) => line.includes('"event":"verified"'))).toBe(true);
  for (const secret of [shop.device.secret, OPERATOR.badge, OPERATOR.pin, session as string])
    for (const said of [body, JSON.stringify(state), ...lines])
      expect([said, said.includes(`"${secret}"`) || said.includes(`${secret} `)]).toEqual([said, false]);
  expect(await agent.end()).toBe(0);
});

test("a figure of labels goes down again: none is left where the last one was", async (t) => {
  const { shop, station } = await lineOf(t, w, { eyes: "hand" });
  const labels = async (state: string) =>
    figuresIn((await ask(station, "GET", "/metrics")).body).get(`imprimatur_agent_labels{state="${state}"}`) ?? 0;
  const { job_ref: ref, digital_link: text } = await shop.issue();
  await until(() => jobAt(station, ref)?.stage === "printed");
  expect([await labels("printed"), await labels("sealed")]).toEqual([1, 0]);
  await ask(station, "POST", "/api/scan", { text });
  await sealed(shop, ref);
  await until(() => station.state().ledger.counts["sealed"] === 1);
  expect([await labels("printed"), await labels("sealed")]).toEqual([0, 1]);
});

test("how long the first of those has waited who wait for a person is a figure: on a line where each label is asked about somebody always does", async (t) => {
  const { shop, station } = await lineOf(t, w, { eyes: "hand", config: { attest: "operator" } });
  const figure = async (state = station.state()) =>
    figuresIn(await metricsOf(() => state).text()).get("imprimatur_agent_ask_oldest_seconds");
  expect(await figure()).toBe(0);
  const { job_ref: ref } = await shop.issue();
  await until(() => jobAt(station, ref)?.ask?.kind === "attest");
  const state = station.state();
  const [job] = state.jobs;
  if (!job?.ask?.since) throw new Error("nothing is asked");
  const [since, at] = [1_000, 961_000].map((ms) => new Date(Date.parse(job.ask?.since ?? "") + ms).toISOString());
  expect(await figure({ ...state, at: at ?? null, jobs: [{ ...job, ask: { ...job.ask, since: since ?? null } }, job] })).toBe(961);
  await say(station, ref, "good");
  await until(() => jobAt(station, ref)?.stage === "printed");
  expect(await figure()).toBe(0);
});

test("what people have to look at is counted whole, and not as far as the page lists it", async (t) => {
  const { station } = await lineOf(t, w, { eyes: "hand" });
  const figure = async () => figuresIn((await ask(station, "GET", "/metrics")).body).get("imprimatur_agent_quarantined");
  for (let n = 1; n <= 51; n += 1)
    station.store.quarantine({ jobRef: `pj_${n}`, attemptId: null, code: "EVIDENCE_INVALID", message: "no", what: "{}" });
  expect([station.state().quarantine.length, await figure()]).toEqual([50, 51]);
  const { session } = (await ask(station, "POST", "/api/operator", { badge: OPERATOR.badge })).body;
  for (const n of [1, 2]) expect((await ask(station, "POST", `/api/quarantine/${n}/seen`, { session })).status).toBe(200);
  expect([station.state().quarantine.length, await figure()]).toEqual([49, 49]);
});

test("what a station that can't start writes is one line on stderr, for the journal", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop, { settings: { dataDir: "/dev/null/none" } });
  const file = settingsFile(floor);
  const child = spawn(process.execPath, ["agent/main.ts", "--config", file], { stdio: ["ignore", "pipe", "pipe"] });
  const [out, complaints] = await Promise.all([text(child.stdout), text(child.stderr)]);
  expect(out).toBe("");
  expect(complaints).toMatch(/^imprimatur agent: .*see dataDir\n$/);
  expect(complaints).not.toContain(shop.device.secret);
});
