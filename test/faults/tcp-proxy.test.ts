// The bad line itself: each of its verbs does what it says, or a suite that breaks things with it proves nothing.
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, createServer as createSocketServer } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { listening } from "../../fixtures/listening.ts";
import { type Exchange, type Proxy, startProxy, type Toxic } from "../../fixtures/tcp-proxy.ts";
import { random } from "../../fixtures/random.ts";

const PATIENT_MS = 30_000;
const IN_VAIN_MS = 300;

async function line(onExchange?: (exchange: Exchange) => void) {
  const heard: string[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      heard.push(body);
      response.end(`echo ${body}`);
    });
  });
  const port = await listening(server);
  const proxy = await startProxy(() => ({ port }), { chance: random(1), ...(onExchange ? { onExchange } : {}) });
  onTestFinished(async () => {
    await proxy.end();
    server.closeAllConnections();
    server.close();
  });
  const ask = async (body: string, signal = AbortSignal.timeout(PATIENT_MS)) =>
    (await fetch(`http://127.0.0.1:${proxy.port}/`, { method: "POST", body, signal, headers: { connection: "close" } })).text();
  /** Waits for an answer for a moment more once the work was done so often. */
  const askInVain = async (body: string, done: number) => {
    const patience = new AbortController();
    const asked = ask(body, patience.signal);
    const ended = asked.catch(() => {});
    await expect.poll(() => heard.length, { interval: 10 }).toBeGreaterThanOrEqual(done);
    await Promise.race([sleep(IN_VAIN_MS), ended]);
    patience.abort();
    return asked;
  };
  return { proxy, heard, ask, askInVain, port };
}
const during = async (proxy: Proxy, toxic: Toxic, act: () => Promise<unknown>, way?: "up" | "down") => {
  const cure = proxy.afflict(toxic, way);
  const said = await act().then(
    () => "answered",
    () => "not answered",
  );
  cure();
  return said;
};

test("unharmed it passes everything, and tells what was asked and answered", async () => {
  const told: Exchange[] = [];
  const { ask } = await line((exchange) => told.push(exchange));
  expect(await ask("ü".repeat(50_000))).toBe(`echo ${"ü".repeat(50_000)}`);
  expect(told.map(({ request, answer }) => [request.line, request.body.length, answer.line, answer.body.length])).toEqual([
    ["POST / HTTP/1.1", 50_000, "HTTP/1.1 200 OK", 50_005],
  ]);
});

test("latency, bandwidth and slices only make it slow", async () => {
  const { proxy, ask } = await line();
  for (const toxic of [
    { kind: "latency", ms: 100, jitterMs: 20 },
    { kind: "bandwidth", bytesPerSecond: 5_000 },
    { kind: "slice", bytes: 50, ms: 5 },
  ] satisfies Toxic[]) {
    const began = performance.now();
    expect(await during(proxy, toxic, () => ask("x".repeat(500)))).toBe("answered");
    expect(performance.now() - began).toBeGreaterThan(60);
  }
});

test.each([
  [{ kind: "limit", bytes: 100 }, "up", 0],
  [{ kind: "limit", bytes: 20 }, "down", 1],
  [{ kind: "black-hole" }, "up", 0],
  [{ kind: "black-hole" }, "down", 1],
  [{ kind: "half-open" }, undefined, 0],
  [{ kind: "refuse" }, undefined, 0],
] as const satisfies [Toxic, "up" | "down" | undefined, number][])(
  "%j of the way %s: no answer, and the work was done %i times",
  async (toxic, way, done) => {
    const { proxy, heard, ask, askInVain } = await line();
    expect(await during(proxy, toxic, () => askInVain("x", done), way)).toBe("not answered");
    expect(heard).toHaveLength(done);
    expect(await ask("again")).toBe("echo again");
  },
);

test("a reset ends what is open after its time, and the next connection too", async () => {
  const { proxy, ask } = await line();
  proxy.afflict({ kind: "latency", ms: 400, jitterMs: 0 });
  expect(await during(proxy, { kind: "reset", afterMs: 50 }, () => ask("x"))).toBe("not answered");
});

test("half-open and black-holed connections stay open for the caller, until it is healed", async () => {
  const silent = createSocketServer((socket) => void socket.on("error", () => {}).resume());
  const port = await listening(silent);
  const proxy = await startProxy(() => ({ port }));
  onTestFinished(async () => {
    await proxy.end();
    silent.close();
  });
  const socket = connect(proxy.port, "127.0.0.1");
  await once(socket, "connect");
  proxy.afflict({ kind: "half-open" });
  socket.write("is anybody there?");
  await sleep(100);
  expect(socket.destroyed).toBe(false);
  proxy.heal();
  await once(socket, "close");
  await expect.poll(() => proxy.connections()).toBe(0);
});

test("a replay delivers the whole request a second time, and the caller hears one answer", async () => {
  const { proxy, heard, ask } = await line();
  proxy.afflict({ kind: "replay", share: 1 });
  expect(await ask("once")).toBe("echo once");
  await expect.poll(() => heard).toEqual(["once", "once"]);
  expect(proxy.replayed()).toBe(1);
});
