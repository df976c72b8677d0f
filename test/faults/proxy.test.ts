// What a proxy before the nodes says by itself, where no node can: typed like all that the nodes say.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { Agent, createServer, get, type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { isCorrelationId } from "#shared/correlation.ts";
import type { ErrorBody } from "#shared/errors.ts";
import { freePort } from "../../fixtures/free-port.ts";
import { haproxyMissing, startHaproxy } from "../../fixtures/haproxy.ts";
import { closed, listening } from "../../fixtures/listening.ts";
import { nginxMissing, startNginx } from "../../fixtures/nginx.ts";
import { startProgram } from "../../fixtures/program.ts";
import { follow } from "../../fixtures/sse.ts";
import { freshFolder } from "../endings.ts";

const LATE_MS = 1_500;

if (nginxMissing) process.stderr.write(`skipped: README's lines for nginx: ${nginxMissing}\n`);
if (haproxyMissing) process.stderr.write(`skipped: what the example's proxy says by itself: ${haproxyMissing}\n`);

test.skipIf(haproxyMissing)("where a node ends before it answers, or none is ready, the proxy's answer is a typed one", { timeout: 60_000 }, async (t) => {
  const folder = freshFolder("proxy");
  const ports = [await freePort(), await freePort(), await freePort()] as const;
  const node = await startProgram("cloud/main.ts", {
    IMPRIMATUR_PORT: String(ports[0]),
    IMPRIMATUR_MQTT_PORT: "0",
    IMPRIMATUR_DATA_DIR: folder,
  });
  t.onTestFinished(async () => void (await node.end("SIGKILL")));
  const proxy = await startHaproxy(ports);
  t.onTestFinished(proxy.end);
  const ask = async (id: string, agent: Agent | false = false) => {
    const headers = { "x-correlation-id": id };
    const [answer] = (await once(get(`${proxy.url}/api/v2/tenant`, { agent, headers }), "response")) as [IncomingMessage];
    const body = JSON.parse(await text(answer)) as ErrorBody;
    return { status: answer.statusCode, code: body.error.code, id: answer.headers["x-correlation-id"], after: answer.headers["retry-after"] };
  };
  const id = randomUUID();
  expect(await ask(id)).toMatchObject({ status: 401, code: "UNAUTHORIZED", id });
  expect((await ask("not one")).id).toSatisfy(isCorrelationId);
  const kept = new Agent({ keepAlive: true, maxSockets: 1 });
  t.onTestFinished(() => kept.destroy());
  expect(await ask(id, kept)).toMatchObject({ status: 401 });

  // A node that is ready and then dies with each request that it takes.
  const dying = createServer((request, response) => (request.url === "/readyz" ? response.end() : request.socket.destroy()));
  await once(dying.listen(ports[1], "127.0.0.1"), "listening");
  await node.end("SIGKILL");
  await expect.poll(async () => (await ask(id)).status, { timeout: 20_000 }).toBe(502);
  expect(await ask(id)).toMatchObject({ code: "TIMED_OUT", id });
  // A connection that has carried a request before is closed without an answer, and its next one is as the first.
  await expect(ask(id, kept)).rejects.toMatchObject({ code: "ECONNRESET" });
  expect(await ask(id, kept)).toMatchObject({ code: "TIMED_OUT", id });

  dying.close();
  dying.closeAllConnections();
  await expect.poll(async () => (await ask(id)).status, { timeout: 20_000 }).toBe(503);
  expect(await ask(id)).toMatchObject({ code: "NOT_READY", id, after: "1" });
  expect((await ask("not one")).id).toSatisfy(isCorrelationId);
}); // oxfmt-ignore

test.skipIf(haproxyMissing)("nodes that are so busy that they say late that they are ready go on being asked", { timeout: 60_000 }, async (t) => {
  let said = 0;
  const busy = createServer((request, response) => {
    if (request.headers.host !== "proxy") return void response.end();
    setTimeout(() => {
      said += 1;
      response.end();
    }, LATE_MS);
  });
  const port = await listening(busy);
  t.onTestFinished(() => closed(busy));
  const proxy = await startHaproxy([port, port, port]);
  t.onTestFinished(proxy.end);
  const statuses = new Set<number>();
  await expect
    .poll(async () => {
      statuses.add((await fetch(`${proxy.url}/api/v2/tenant`)).status);
      return said;
    })
    .toBeGreaterThan(9); // each node three times
  expect([...statuses]).toEqual([200]);
}); // oxfmt-ignore

test.skipIf(nginxMissing)(
  "with README's lines nginx passes all on, a stream at once, and is typed in what it says itself",
  { timeout: 60_000 },
  async (t) => {
    const folder = freshFolder("proxy");
    const port = await freePort();
    const key = `bootstrap-${randomUUID()}`;
    const node = await startProgram("cloud/main.ts", {
      IMPRIMATUR_PORT: String(port),
      IMPRIMATUR_MQTT_PORT: "0",
      IMPRIMATUR_DATA_DIR: folder,
      IMPRIMATUR_BOOTSTRAP_KEY: key,
      IMPRIMATUR_TRUST_PROXY: "127.0.0.1",
    });
    t.onTestFinished(async () => void (await node.end("SIGKILL")));
    const proxy = await startNginx(port);
    t.onTestFinished(proxy.end);
    const authorization = `Bearer ${key}`;

    const stream = await follow(`${proxy.url}/console/events`, { authorization });
    await stream.heard(({ event }) => event === "alive");
    await fetch(`${proxy.url}/api/v2/devices`, {
      method: "POST",
      headers: { authorization, "content-type": "application/json" },
      body: JSON.stringify({ name: "line 1" }),
    });
    await stream.heard(({ event, data }) => event === "devices" && JSON.stringify(data).includes("line 1"));
    stream.close();

    const send = (bytes: number, headers: Record<string, string> = {}) =>
      fetch(`${proxy.url}/api/v2/imports?category=electronics`, {
        method: "POST",
        headers: { authorization, "content-type": "text/csv", ...headers },
        body: "x".repeat(bytes),
      });
    expect((await send(3 * 2 ** 20)).status).toBe(202); // three times what nginx takes by itself
    expect((await (await fetch(`${proxy.url}/01/09506000134352/21/a%2Fb`)).json()) as ErrorBody).toMatchObject({
      error: { code: "PRODUCT_NOT_FOUND", details: { serial: "a/b" } },
    });
    /** What is left for the caller at this address, who says that he is another. */
    const leftFor = async (localAddress: string, said: string) => {
      const asked = get(`${proxy.url}/01/1`, { localAddress, agent: false, headers: { "x-forwarded-for": said } });
      const [{ headers }] = (await once(asked, "response")) as [IncomingMessage];
      return Number(headers["x-ratelimit-remaining"]);
    };
    const left = await leftFor("127.0.0.2", "198.51.100.1");
    const others = Array.from({ length: 20 }, (_, n) => leftFor("127.0.0.2", `198.51.100.${n}`));
    expect(Math.min(...(await Promise.all(others)))).toBeLessThan(left);
    expect(await leftFor("127.0.0.3", "198.51.100.2")).toBe(left);
    const typed = async (answer: Response) => {
      expect(answer.headers.get("content-type")).toBe("application/json");
      return [answer.status, ((await answer.json()) as ErrorBody).error.code];
    };
    const [tooLarge] = (await once(
      request(`${proxy.url}/api/v2/imports`, { method: "POST", headers: { "content-length": String(2 ** 30) } }).on("error", () => {}).end("x"), // oxfmt-ignore
      "response",
    )) as [IncomingMessage];
    expect([tooLarge.statusCode, tooLarge.headers["content-type"]]).toEqual([413, "application/json"]);
    expect((JSON.parse(await text(tooLarge)) as ErrorBody).error.code).toBe("PAYLOAD_TOO_LARGE");

    await node.end("SIGKILL");
    expect(await typed(await fetch(`${proxy.url}/api/v2/tenant`))).toEqual([502, "TIMED_OUT"]);
    expect(await typed(await send(10))).toEqual([502, "TIMED_OUT"]);
  },
);
