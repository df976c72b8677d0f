// One id from the operator's click to the webhook's receiver: through the station's log and buffer, the cloud's log, the audit row, the event and its headers.
import { expect, test } from "vitest";
import { type Received, startReceiver } from "../../fixtures/receiver.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startCollector } from "../../fixtures/collector.ts";
import { world } from "../world.ts";
import { ask, asked, lineOf, running, sealed, sessionAt, until } from "./floor.ts";

test("a click's id is found in every log and record that it leads to, and at the receiver; so is its trace", async (t) => {
  const collector = await startCollector();
  t.onTestFinished(collector.end);
  const w = await world({ settings: { IMPRIMATUR_WEBHOOK_PRIVATE: "on", OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } }, t.onTestFinished);
  const receiver = await startReceiver();
  t.onTestFinished(receiver.end);
  const shop = await printShop(w);
  await shop.admin.post("/webhooks", { url: receiver.url, events: ["print.confirmed"] });
  const { job_ref: ref } = await shop.issue();
  const station = await running(t, w.url, shop, { eyes: "hand", config: { attest: "operator" } });
  await until(() => asked(station, ref) === "attest");
  const session = await sessionAt(station);
  const [good, scan] = ["0199aaaa-0000-4000-8000-00000000c11c", "0199aaaa-0000-4000-8000-0000000005ca"];
  await ask(station, "POST", `/api/jobs/${ref}/attest`, { verdict: "good", session }, { "x-correlation-id": good });
  const { digital_link: link } = (await shop.admin.get(`/aidc/jobs/${ref}`)).body;
  await ask(station, "POST", "/api/scan", { text: link, session }, { "x-correlation-id": scan });
  await sealed(shop, ref);
  await until(() => receiver.received.length > 0);

  const agentSaid = (id: string) => station.lines.map((line) => JSON.parse(line)).filter(({ requestId }) => requestId === id).map(({ event }) => event); // oxfmt-ignore
  expect(agentSaid(good)).toEqual(expect.arrayContaining(["click", "verdict", "told"]));
  expect(agentSaid(scan)).toEqual(expect.arrayContaining(["click", "told"]));
  const cloudSaid = (id: string) => w.logged().map((line) => JSON.parse(line)).filter(({ requestId }) => requestId === id).map(({ event }) => event); // oxfmt-ignore
  expect(cloudSaid(good)).toContain("request");
  await until(() => cloudSaid(scan).includes("delivery"));
  expect(cloudSaid(scan)).toContain("request");
  for (const id of [good, scan]) {
    const { data } = (await shop.admin.get(`/audit-logs?requestId=${id}`)).body;
    expect(data.map(({ action }: { action: string }) => action)).toContain("print.reported");
  }
  const { headers, event } = receiver.received[0] as Received;
  expect([event.type, headers["x-correlation-id"]]).toEqual(["print.confirmed", scan]);

  const traceId = scan.replaceAll("-", "");
  expect(headers["traceparent"]).toContain(traceId);
  const spans = () => collector.spans.filter((span) => span.traceId === traceId);
  await until(() => spans().some(({ name }) => name === "webhook print.confirmed"));
  const names = spans().map(({ name }) => name);
  expect(names).toEqual(
    expect.arrayContaining(["POST /api/v2/aidc/jobs/{ref}/result", "write POST /api/v2/aidc/jobs/{ref}/result", "webhook print.confirmed"]),
  );
  const byId = new Map(spans().map((span) => [span.spanId, span]));
  for (const span of spans().filter(({ name }) => /^(write|webhook)/.test(name))) expect(byId.has(span.parentSpanId)).toBe(true);
  expect(headers["traceparent"]).toContain(spans().find(({ name }) => name.startsWith("webhook"))?.spanId);
  // Ids and nothing else of a tenant's: no name, no serial, no address.
  const said = new Set(collector.spans.flatMap(({ attributes }) => Object.keys(attributes)));
  expect([...said].toSorted()).toEqual([
    "http.request.method",
    "http.response.status_code",
    "http.route",
    "imprimatur.delivery_id",
    "imprimatur.request_id",
    "imprimatur.tenant_id",
  ]);
});

test("a click without an id gets one, one that doesn't fit into a header another, and nobody's fault is logged with it", async (t) => {
  const w = await world({}, t.onTestFinished);
  const { station } = await lineOf(t, w, { eyes: "hand" });
  const click = async (headers: Record<string, string>) =>
    (await fetch(`${station.url}/api/pause`, { method: "POST", headers })).headers.get("x-correlation-id"); // oxfmt-ignore
  const [first, second, third] = [
    await click({}),
    await click({ "x-correlation-id": "a b" }),
    await click({ "x-correlation-id": "mine-1" }),
  ];
  expect([first, second]).toEqual([expect.stringMatching(/^[\da-f-]{36}$/), expect.stringMatching(/^[\da-f-]{36}$/)]);
  expect([first === second, third]).toEqual([false, "mine-1"]);
  const refused = async (path: string, headers: Record<string, string>) => {
    const { status, headers: sent } = await fetch(station.url + path, { method: "POST", body: "x", headers: { ...headers, "x-correlation-id": "mine-2" } });
    return [status, sent.get("x-correlation-id")];
  }; // oxfmt-ignore
  expect([
    await refused("/api/none", {}),
    await refused("/api/pause", { "content-type": "text/csv" }),
    await refused("/api/pause", { "sec-fetch-site": "cross-site" }),
  ]).toEqual([404, 415, 403].map((status) => [status, "mine-2"]));
});

test("a monitor's HEAD is no click, nor is what no address takes: a page's clicks aren't pushed out of the log by them", async (t) => {
  const w = await world({}, t.onTestFinished);
  const { station } = await lineOf(t, w, { eyes: "hand" });
  for (const asked of ["HEAD /healthz", "HEAD /api/state", "POST /api/state", "PUT /api/pause", "POST /api/nothing", "POST /api/pause"]) {
    const [method = "", path] = asked.split(" ");
    await fetch(`${station.url}${path}`, { method });
  }
  const { log } = (await (await fetch(`${station.url}/api/state`)).json()) as { log: string[] };
  const said = log.map((line) => JSON.parse(line) as { event: string; msg: string });
  expect(said.filter(({ event }) => event === "click").map(({ msg }) => msg)).toEqual(["POST /api/pause"]);
});
