// What the example's proxy says by itself, where no node can: typed like all that the nodes say, and under the caller's correlation id.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, get, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { isCorrelationId } from "#shared/correlation.ts";
import type { ErrorBody } from "#shared/errors.ts";
import { freePort } from "../../fixtures/free-port.ts";
import { haproxyMissing, startHaproxy } from "../../fixtures/haproxy.ts";
import { startProgram } from "../../fixtures/program.ts";

if (haproxyMissing) process.stderr.write(`skipped: what the example's proxy says by itself: ${haproxyMissing}\n`);

test.skipIf(haproxyMissing)("where a node ends before it answers, or none is ready, the proxy's answer is a typed one", { timeout: 60_000 }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "imprimatur-proxy-"));
  t.onTestFinished(() => rmSync(folder, { recursive: true }));
  const ports = [await freePort(), await freePort(), await freePort()] as const;
  const node = await startProgram("cloud/main.ts", {
    IMPRIMATUR_PORT: String(ports[0]),
    IMPRIMATUR_MQTT_PORT: "0",
    IMPRIMATUR_DATA_DIR: folder,
  });
  t.onTestFinished(async () => void (await node.end("SIGKILL")));
  const proxy = await startHaproxy(ports);
  t.onTestFinished(proxy.end);
  const ask = async (id: string) => {
    const headers = { "x-correlation-id": id };
    const [answer] = (await once(get(`${proxy.url}/api/v2/tenant`, { agent: false, headers }), "response")) as [IncomingMessage];
    const body = JSON.parse(await text(answer)) as ErrorBody;
    return { status: answer.statusCode, code: body.error.code, id: answer.headers["x-correlation-id"], after: answer.headers["retry-after"] };
  };
  const id = randomUUID();
  expect(await ask(id)).toMatchObject({ status: 401, code: "UNAUTHORIZED", id });
  expect((await ask("not one")).id).toSatisfy(isCorrelationId);

  // A node that is ready and then dies with each request that it takes.
  const dying = createServer((request, response) => (request.url === "/readyz" ? response.end() : request.socket.destroy()));
  await once(dying.listen(ports[1], "127.0.0.1"), "listening");
  await node.end("SIGKILL");
  await expect.poll(async () => (await ask(id)).status, { timeout: 20_000 }).toBe(502);
  expect(await ask(id)).toMatchObject({ code: "TIMED_OUT", id });

  dying.close();
  dying.closeAllConnections();
  await expect.poll(async () => (await ask(id)).status, { timeout: 20_000 }).toBe(503);
  expect(await ask(id)).toMatchObject({ code: "NOT_READY", id, after: "1" });
  expect((await ask("not one")).id).toSatisfy(isCorrelationId);
}); // oxfmt-ignore
