// The console's HTTP as its page and integrators meet it, and as a page of somebody else's must not.
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { ErrorBody } from "#shared/errors.ts";
import { systemClock } from "../../agent/clock.ts";
import { OPERATOR, startFloor } from "../../fixtures/floor.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";
import { ask, floorOf, jobAt, quietLog, running, say, sessionAt, stationOn, until } from "./floor.ts";

const w = await world();
const shop = await printShop(w);
const floor = await floorOf({ onTestFinished: afterAll }, w.url, shop, { eyes: "hand" });
const station = await stationOn({ onTestFinished: afterAll }, floor);
const { job_ref: ref } = await shop.issue();
await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED" && station.state().scanners[0]?.up === true);

/** As fetch wouldn't: any Host, any header. */
const raw = (
  method: string,
  path: string,
  headers: Record<string, string>,
  body = "",
): Promise<{ status: number; body: string; headers: object }> =>
  new Promise((resolve, reject) => {
    const sent = request(station.url + path, { method, headers }, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => (text += chunk.toString("utf8")));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: text, headers: response.headers }));
    });
    sent.on("error", reject);
    sent.end(body);
  });

test("the state tells of station, printers, scanners, jobs, buffer, ledger and what the station can't know", async () => {
  const { status, body } = await ask(station, "GET", "/api/state");
  expect(status).toBe(200);
  expect(body).toMatchObject({
    station: "line-1",
    online: true,
    paused: false,
    stopped: null,
    simulated: true,
    device_id: shop.device.id,
    printers: [{ name: "printer", driver: "zpl", ceiling: "A", simulated: true, job_ref: ref }],
    scanners: [{ name: "fixed", driver: "line", up: true }],
    jobs: [{ job_ref: ref, state: "PRINTED_ATTESTED", printer: "printer", attempt: 1, duplicate_risk: false, ask: null }],
    buffer: { fault: null },
    ledger: { counts: { printed: 1 } },
    quarantine: [],
  });
  expect(body.printers[0].cannot_detect.length).toBeGreaterThan(0);
  expect(body.log.length).toBeGreaterThan(0);
  expect(JSON.stringify(body)).not.toContain(shop.device.secret);
  expect(JSON.stringify(body)).not.toContain("B-0007");
});

test("events are the same state, at once and after every change", async () => {
  const abort = new AbortController();
  const response = await fetch(`${station.url}/api/events`, { signal: abort.signal });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  expect(response.headers.get("x-accel-buffering")).toBe("no"); // else nginx holds them back
  let text = "";
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  const whole = () => text.split("\n\n").slice(0, -1);
  const states = () => whole().map((event) => JSON.parse(event.slice(event.indexOf("data: ") + 6)) as { paused: boolean });
  const readUntil = async (isSo: () => boolean) => {
    while (!isSo()) text += decoder.decode((await reader?.read())?.value, { stream: true });
  };
  await readUntil(() => states().length > 0);
  await ask(station, "POST", "/api/pause");
  await readUntil(() => states().at(-1)?.paused === true);
  await ask(station, "POST", "/api/resume");
  await readUntil(() => states().at(-1)?.paused === false);
  abort.abort();
});

test("a state that can't be told ends the page's events and not the station, and the log says why; the page asks again", async (t) => {
  const broken = await running(t, w.url, await printShop(w), { eyes: "hand" });
  const { store } = broken;
  const { sealing } = store;
  const response = await fetch(`${broken.url}/api/events`);
  store.sealing = () => {
    throw new Error("its page can't be read");
  };
  await ask(broken, "POST", "/api/pause");
  await response.text(); // it ends
  expect(await ask(broken, "GET", "/api/events")).toMatchObject({ status: 500, body: { error: { code: "INTERNAL_ERROR" } } });
  expect(broken.lines.join("\n")).toContain("its page can't be read");
  await ask(broken, "POST", "/api/resume"); // which nobody is told any more
  store.sealing = sealing;
  expect((await ask(broken, "GET", "/healthz")).body).toEqual({ status: "ok" });
});

test("a page that no longer reads costs no memory, and is told how things are once it reads again", async (t) => {
  const sleepy = await running(t, w.url, await printShop(w), { eyes: "hand" });
  for (let i = 0; i < 50; i += 1)
    sleepy.store.quarantine({ jobRef: null, attemptId: null, code: "X", message: "x".repeat(40_000), what: "" });
  const { hostname, port } = new URL(sleepy.url);
  const page = connect(Number(port), hostname).setEncoding("utf8");
  t.onTestFinished(() => void page.destroy());
  let text = "";
  page.on("data", (more: string) => (text += more));
  page.write(`GET /api/events HTTP/1.1\r\nHost: ${hostname}:${port}\r\n\r\n`);
  await until(() => text.includes('"at":'));
  page.pause();
  for (let i = 0; i < 9; i += 1) {
    await ask(sleepy, "POST", i % 2 === 0 ? "/api/pause" : "/api/resume");
    await sleep(250);
  }
  const handles = (process as unknown as { _getActiveHandles(): Socket[] })._getActiveHandles();
  const held = handles.filter(({ localPort }) => localPort === Number(port)).map(({ writableLength }) => writableLength);
  expect(Math.max(...held)).toBeLessThan(5_000_000); // two states
  text = "";
  page.resume();
  const isToldLast = () => text.endsWith("\n\n\r\n") && text.lastIndexOf('"paused":true,') > text.lastIndexOf('"paused":false,');
  await until(isToldLast, 12_000); // sooner than it would be by itself
});

test("what isn't HTTP is refused in the same shape as all else", async (t) => {
  const { hostname, port } = new URL(station.url);
  const said = async (text: string): Promise<[status: string | undefined, code: string]> => {
    const socket = connect(Number(port), hostname).setEncoding("utf8");
    t.onTestFinished(() => void socket.destroy());
    let heard = "";
    socket.on("data", (more: string) => (heard += more)).write(text);
    await until(() => socket.closed);
    const [head = "", body = ""] = heard.split("\r\n\r\n");
    return [head.split(" ")[1], (JSON.parse(body) as ErrorBody).error.code];
  };
  expect(await said("a scanner's line\r\n\r\n")).toEqual(["400", "MALFORMED_REQUEST"]);
  expect(await said(`GET /api/state HTTP/1.1\r\nx: ${"x".repeat(20_000)}\r\n\r\n`)).toEqual(["431", "HEADERS_TOO_LARGE"]);
  expect(await said("GET /api/state HTTP/1.1\r\nconnection: close\r\n\r\n")).toEqual(["403", "FORBIDDEN"]); // it names no host
});

test("who stops in the middle of a request is let go, and a page that listens isn't", async (t) => {
  const { hostname, port } = new URL(station.url);
  const begun = (text: string): Socket => {
    const socket = connect(Number(port), hostname)
      .on("error", () => {})
      .resume();
    t.onTestFinished(() => void socket.destroy());
    socket.write(text);
    return socket;
  };
  const page = begun("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const type = "content-type: application/json";
  const halves = ["GET /api/sta", `POST /api/scan HTTP/1.1\r\nHost: localhost\r\n${type}\r\ncontent-length: 20\r\n\r\n{"te`].map(begun);
  await until(() => halves.every(({ closed }) => closed), 50_000);
  expect(page.closed).toBe(false);
});

test("a badge opens a session; an unknown one doesn't", async () => {
  expect((await ask(station, "POST", "/api/operator", { badge: "B-0007" })).body).toEqual({
    operator: { id: "op-7", name: "Ada" },
    session: expect.any(String),
  });
  expect(await ask(station, "POST", "/api/operator", { badge: "B-0008" })).toMatchObject({
    status: 401,
    body: { error: { code: "UNAUTHORIZED" } },
  });
});

test("a badge opens one also where the scanner sends the AIM identifier before what it reads", async () => {
  for (const aim of ["]C1", "]Q1", "]d2"])
    expect((await ask(station, "POST", "/api/operator", { badge: `${aim}B-0007` })).status).toBe(200);
  expect((await ask(station, "POST", "/api/operator", { badge: "]C1B-0008" })).status).toBe(401);
});

test("a badge that a line's scanner reads is neither shown nor logged", async () => {
  await floor.scanner?.scan(OPERATOR.badge);
  await until(() => station.state().scanners[0]?.last?.why === "not_a_link");
  expect(JSON.stringify(station.state())).not.toContain(OPERATOR.badge);
  expect(station.lines.join("\n")).not.toContain(OPERATOR.badge);
});

test("a badge is let in whatever was scanned before it; PINs are counted", async () => {
  const statusOf = async (shown: object) => (await ask(station, "POST", "/api/operator", shown)).status;
  for (let i = 0; i < 20; i += 1) await statusOf({ badge: `40063813339${i}` });
  expect([await statusOf({ badge: "4006381333931" }), await statusOf({ badge: "B-0007" })]).toEqual([429, 200]);
  for (let i = 0; i < 5; i += 1) expect(await statusOf({ pin: "0000" })).toBe(401);
  expect(await statusOf({ pin: "4711" })).toBe(429);
});

test("a session lasts for twelve hours, and whoever guessed PINs or badges is heard again after a minute", async (t) => {
  let off = 0;
  const clock = { ...systemClock, now: () => Date.now() + off };
  const it = await running(t, w.url, await printShop(w), { eyes: "hand" }, { clock });
  const arrive = (shown: object) => ask(it, "POST", "/api/operator", shown);
  const { session } = (await arrive({ badge: OPERATOR.badge })).body;
  const asWhom = async () => (await ask(it, "POST", "/api/jobs/pj_no/skip", { session })).status; // 404: who asks is known
  off = 12 * 3_600_000 - 60_000;
  expect(await asWhom()).toBe(404);
  for (let i = 0; i < 5; i += 1) expect((await arrive({ pin: "0000" })).status).toBe(401);
  for (let i = 0; i < 20; i += 1) expect((await arrive({ badge: `B-${i}` })).status).toBe(401);
  expect([(await arrive({ pin: OPERATOR.pin })).status, (await arrive({ badge: "B-20" })).status]).toEqual([429, 429]);
  off += 60_000;
  expect([(await arrive({ pin: OPERATOR.pin })).status, (await arrive({ badge: "B-20" })).status]).toEqual([200, 401]);
  expect(await asWhom()).toBe(401);
});

test("of more sessions than a station may have people the oldest end", async (t) => {
  const it = await running(t, w.url, await printShop(w), { eyes: "hand" });
  const [first, ...later] = [await sessionAt(it), ...(await Promise.all(Array.from({ length: 1_000 }, () => sessionAt(it))))];
  const asWhom = async (session?: string) => (await ask(it, "POST", "/api/jobs/pj_no/skip", { session })).status;
  expect([await asWhom(first), await asWhom(later[0]), await asWhom(later.at(-1))]).toEqual([401, 404, 404]);
});

test("a verdict needs a session, a job of ours and an answer to what is asked", async () => {
  const session = await sessionAt(station);
  const attest = (verdict: string, of = ref, given: string | undefined = session) =>
    ask(station, "POST", `/api/jobs/${of}/attest`, { verdict, session: given });
  expect((await ask(station, "POST", `/api/jobs/${ref}/attest`, { verdict: "good" })).status).toBe(401);
  expect((await attest("good", ref, "made-up")).status).toBe(401);
  expect((await attest("good", "pj_unknown")).status).toBe(404);
  expect((await attest("fine")).body.error.details.fields[0].message).toContain("good, misprint, not_printed, destroyed");
  expect((await attest("good")).body.error).toMatchObject({ code: "ILLEGAL_TRANSITION", details: { allowed: ["misprint", "destroyed"] } });
});

test("the label is shown as it was printed; metrics and health are for machines", async () => {
  const label = await fetch(`${station.url}/api/jobs/${ref}/label.png`);
  expect([
    label.headers.get("content-type"),
    Buffer.from(await label.arrayBuffer())
      .subarray(1, 4)
      .toString(),
  ]).toEqual(["image/png", "PNG"]);
  expect((await ask(station, "GET", "/api/jobs/pj_no/label.png")).status).toBe(404);
  expect((await ask(station, "GET", "/healthz")).body).toEqual({ status: "ok" });
  const { body } = await ask(station, "GET", "/metrics");
  expect(body).toContain('imprimatur_agent_labels{state="printed"} 1');
  expect(body).toMatch(/^imprimatur_agent_online 1$/m);
});

test("the picture is the named attempt's: what is written on labels tells them apart", async (t) => {
  const own = await printShop(w);
  const line = await running(t, w.url, own, { eyes: "hand" });
  const { job_ref: job } = await own.issue();
  await until(() => jobAt(line, job)?.state === "PRINTED_ATTESTED");
  expect((await say(line, job, "destroyed")).status).toBe(200);
  const second = () => line.state().jobs.find(({ job_ref, mark }) => job_ref === job && mark === "TRY 2");
  await until(() => second()?.state === "PRINTED_ATTESTED");
  const first = line.state().recent.find(({ job_ref }) => job_ref === job);
  expect(first).toMatchObject({ attempt: 1, mark: null });
  const picture = async (query: string) => {
    const got = await fetch(`${line.url}/api/jobs/${job}/label.png${query}`);
    return got.status === 200 ? Buffer.from(await got.arrayBuffer()).toString("base64") : got.status;
  };
  const [newest, ofFirst, ofSecond] = await Promise.all(
    ["", `?attempt_id=${first?.attempt_id}`, `?attempt_id=${second()?.attempt_id}`].map(picture),
  );
  expect([newest === ofSecond, newest === ofFirst, typeof ofFirst]).toEqual([true, false, "string"]);
  expect([await picture(`?attempt_id=${jobAt(station, ref)?.attempt_id}`), await picture("?attempt_id=")]).toEqual([404, 404]);
});

describe("somebody else's page", () => {
  test.each([
    ["another name for this machine", "GET", "/api/state", { host: "evil.example" }, "", 403],
    ["another name, posting", "POST", "/api/pause", { host: "evil.example" }, "", 403],
    ["a page of another origin", "POST", "/api/pause", { origin: "https://evil.example" }, "", 403],
    [
      "a page of another site, which only asks",
      "GET",
      "/api/state",
      { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" },
      "",
      403,
    ],
    ["a page of another port", "GET", "/api/events", { "sec-fetch-site": "same-site", "sec-fetch-dest": "empty" }, "", 403],
    ["a frame around the console", "GET", "/", { "sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe" }, "", 403],
    ["a form", "POST", "/api/operator", { "content-type": "text/plain" }, '{"badge":"B-0007"}', 415],
    ["a form of fields", "POST", "/api/operator", { "content-type": "application/x-www-form-urlencoded" }, "badge=B-0007", 415],
    ["half a body", "POST", "/api/operator", { "content-type": "application/json" }, '{"badge"', 400],
    ["a body too large", "POST", "/api/scan", { "content-type": "application/json" }, JSON.stringify({ text: "x".repeat(100_000) }), 413],
    ["an unknown field", "POST", "/api/scan", { "content-type": "application/json" }, '{"text":"x","by":"me"}', 400],
    ["a list", "POST", "/api/scan", { "content-type": "application/json" }, "[]", 400],
    ["a path that isn't", "GET", "/api/nothing", {}, "", 404],
    ["a path that can't be read", "GET", "/api/jobs/%zz/label.png", {}, "", 400],
    ["a verb that isn't for this path", "DELETE", "/api/jobs/pj_1/attest", {}, "", 405],
  ] as [string, string, string, Record<string, string>, string, number][])(
    "%s is refused",
    async (_what, method, path, headers, body, status) => {
      const answer = await raw(method, path, headers, body);
      expect(answer.status).toBe(status);
      expect(JSON.parse(answer.body).error.code).toEqual(expect.any(String));
      expect(answer.headers).not.toHaveProperty("access-control-allow-origin");
      expect(station.state().paused).toBe(false);
    },
  );
});

test("a link from elsewhere leads to the console, and its own page may ask", async () => {
  const asked = async (path: string, headers: Record<string, string>) => (await raw("GET", path, headers)).status;
  expect(await asked("/", { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" })).toBe(200);
  expect(await asked("/api/state", { "sec-fetch-site": "same-origin", "sec-fetch-dest": "empty" })).toBe(200);
  const { headers } = await raw("GET", "/api/state", {});
  expect(headers).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" });
});

test("a request without a body isn't refused for the type that curl or fetch give to nothing", async () => {
  for (const type of ["application/x-www-form-urlencoded", "text/plain;charset=UTF-8", "application/json"]) {
    const paused = await raw("POST", "/api/pause", { "content-type": type, "content-length": "0" });
    expect([type, paused.status, JSON.parse(paused.body)]).toEqual([type, 200, { paused: true }]);
    expect((await raw("POST", "/api/resume", { "content-type": type, "content-length": "0" })).status).toBe(200);
  }
});

test("what is asked of a path by another verb is told which it takes, and HEAD of the events ends", async () => {
  expect((await raw("PUT", "/api/pause?x=1", {})).headers).toMatchObject({ allow: "POST" });
  expect((await raw("POST", "/api/state", {})).headers).toMatchObject({ allow: "GET, HEAD" });
  const head = await Promise.race([raw("HEAD", "/api/events", {}), sleep(20_000, undefined)]);
  expect(head).toMatchObject({ status: 200, body: "", headers: { "content-type": "text/event-stream" } });
});

test("only an open label whose job is over can be explained: of a sealed one is said that it is sealed", async () => {
  const session = await sessionAt(station);
  const explain = (n: string) => ask(station, "POST", `/api/labels/${n}/explain`, { words: "found it", session });
  const label = (await ask(station, "GET", "/api/state")).body.jobs[0].digital_link;
  expect(await explain("1")).toMatchObject({
    status: 409,
    body: { error: { code: "ILLEGAL_TRANSITION", message: expect.stringContaining("isn't over"), details: { state: "printed" } } },
  });
  await ask(station, "POST", "/api/scan", { text: label });
  await until(() => station.state().ledger.counts["sealed"] === 1);
  expect(await explain("1")).toMatchObject({
    status: 409,
    body: { error: { code: "ILLEGAL_TRANSITION", message: expect.stringContaining("is sealed"), details: { state: "sealed" } } },
  });
  expect(station.state().ledger.counts).toEqual({ sealed: 1 });
  expect([(await explain("99")).status, (await explain("abc")).status]).toEqual([404, 404]);
  station.store.label("printer", "unexplained", "its counter moved");
  expect((await explain("2")).status).toBe(200);
  expect(station.state().ledger.counts).toEqual({ sealed: 1, explained: 1 });
});

test("a station whose console can't listen ends before it asks anything of the cloud or its printer: jobs would wait for it", async (t) => {
  const device = await shop.newDevice("line 2");
  const second = await startFloor(w.url, device.secret);
  t.onTestFinished(second.end);
  const { log, lines } = quietLog();
  const config = { ...second.config, console: { host: "127.0.0.1", port: Number(new URL(station.url).port) } };
  await expect(stationOn(t, { ...second, config }, { log })).rejects.toThrow("EADDRINUSE");
  expect(lines).toEqual([]);
  expect((await shop.admin.get(`/devices/${device.id}`)).body).toMatchObject({ last_seen: null, status: "offline" });
});
