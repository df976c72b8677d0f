// What the console offers besides answers, where it must say no: to whom nobody knows, about labels that may exist, and while the cloud is away.
import { expect, test } from "vitest";
import { agentConfigFrom } from "../../agent/config.ts";
import { startDevice } from "../../fixtures/device.ts";
import { OPERATOR } from "../../fixtures/floor.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";
import { ask, asked, jobAt, lineBehindNet, lineOf, running, sessionAt, stateInCloud, until } from "./floor.ts";

const w = await world();

test("a job that is begun can't be skipped, and nothing is skipped without a name", async (t) => {
  const { shop, station } = await lineOf(t, w, { eyes: "hand", config: { attest: "operator" } });
  const { job_ref: ref } = await shop.issue();
  await until(() => asked(station, ref) === "attest");
  expect((await ask(station, "POST", `/api/jobs/${ref}/skip`, {})).status).toBe(401);
  const session = await sessionAt(station);
  const said = await ask(station, "POST", `/api/jobs/${ref}/skip`, { session });
  expect([said.status, said.body.error.details.allowed]).toEqual([409, ["good", "misprint", "not_printed"]]);
  expect((await ask(station, "POST", "/api/jobs/pj_no/skip", { session })).status).toBe(404);
});

test("whoever skips a job that somebody else has skipped is told that there is nothing to skip, and not to look for a label", async (t) => {
  const { shop, station } = await lineOf(t, w, { eyes: "hand", config: { attest: "operator" } });
  const first = await shop.issue({ priority: 2 });
  const { job_ref: ref } = await shop.issue({ priority: 1 });
  await until(() => asked(station, first.job_ref) === "attest" && jobAt(station, ref) !== undefined);
  const session = await sessionAt(station);
  const skip = () => ask(station, "POST", `/api/jobs/${ref}/skip`, { session });
  expect((await skip()).status).toBe(200);
  const { status, body } = await skip();
  expect([status, body.error.message, body.error.details.allowed]).toEqual([409, expect.stringContaining("nothing to skip"), []]);
});

test("a test label waits for nobody: asked for behind a label in hand, it is refused and doesn't come out later", async (t) => {
  const { shop, station } = await lineOf(t, w, { eyes: "hand", config: { attest: "operator" } });
  const { job_ref: ref } = await shop.issue();
  await until(() => asked(station, ref) === "attest");
  const session = await sessionAt(station);
  expect((await ask(station, "POST", "/api/printers/printer/test", { session })).status).toBe(409);
  expect((await ask(station, "POST", "/api/printers/other/test", { session })).status).toBe(404);
  expect((await ask(station, "POST", "/api/printers/printer/test", {})).status).toBe(401);
  expect(station.floor.machine?.labels).toHaveLength(1);
  expect(station.state().ledger.counts).not.toHaveProperty("explained");
});

test("a test label of which nothing left is none that came out", async (t) => {
  const { station } = await lineOf(t, w, { eyes: "hand", rfid: true });
  await until(() => station.state().printers[0]?.ceiling === "A" && station.store.kept("odometer:printer") !== null);
  const counter = station.store.kept("odometer:printer");
  station.floor.machine?.fault("voids-untold", { times: 100 });
  const { status, body } = await ask(station, "POST", "/api/printers/printer/test", { session: await sessionAt(station) });
  expect([status, body.error.code]).toEqual([503, "NOT_READY"]);
  expect([station.state().ledger.counts, station.floor.machine?.labels.length]).toEqual([{ not_printed: 1 }, 0]);
  expect(station.store.kept("odometer:printer")).toBe(counter);
});

test("a test label of a printer that prints when it is told goodbye comes out by itself, and not with the next label", async (t) => {
  const shop = await printShop(w);
  const printed: string[] = [];
  const printer = await startDevice((socket) => {
    let heard = "";
    socket.on("data", (bytes: Buffer) => (heard += bytes.toString("latin1"))).on("end", () => printed.push(heard));
  });
  t.onTestFinished(printer.end);
  const station = await running(t, w.url, shop, { eyes: "hand", port: () => printer.url });
  await until(() => station.state().printers[0]?.status === "ready");
  const { body } = await ask(station, "POST", "/api/printers/printer/test", { session: await sessionAt(station) });
  expect(body.words).toMatch(/^unknown: /);
  expect(printed.filter((text) => text.includes("^XZ"))).toHaveLength(1);
});

test("a reprint is of a sealed label, issued by the cloud, once", async (t) => {
  const { shop, net: network, station } = await lineBehindNet(t, w);
  const { job_ref: ref } = await shop.issue();
  await until(async () => (await stateInCloud(shop, ref)) === "SEALED" && station.state().recent.length === 1);
  const session = await sessionAt(station);
  const reprint = (of = ref) => ask(station, "POST", `/api/jobs/${of}/reprint`, { session });
  expect((await reprint("pj_no")).status).toBe(404);
  network.cut();
  expect((await reprint()).body.error.code).toBe("NOT_READY");
  network.mend();
  await ask(station, "POST", "/api/pause");
  const { status, body } = await reprint();
  expect(status).toBe(200);
  expect((await shop.admin.get(`/aidc/jobs/${body.job_ref}`)).body).toMatchObject({ reprint: true, station: "line-1" }); // where the label is missing
  expect((await reprint()).body.error).toMatchObject({ code: "ILLEGAL_TRANSITION", details: { code: "JOB_EXISTS" } });
});

test("a reprint of which nobody heard, as where a proxy answers in the cloud's place, isn't told as refused, and asked for again it is the same one", async (t) => {
  const { shop, net: network, station } = await lineBehindNet(t, w);
  const { job_ref: ref } = await shop.issue();
  await until(async () => (await stateInCloud(shop, ref)) === "SEALED" && station.state().recent.length === 1);
  const session = await sessionAt(station);
  const reprint = () => ask(station, "POST", `/api/jobs/${ref}/reprint`, { session });
  await ask(station, "POST", "/api/pause");
  network.rule(({ path }) => (path.endsWith("/aidc/jobs") ? { status: 502, page: "<html>Bad gateway</html>", isDone: true } : "pass"));
  const unheard = await reprint();
  expect([unheard.status, unheard.body.error.code]).toEqual([503, "NOT_READY"]);
  network.rule(({ path }) => (path.endsWith("/aidc/jobs") ? { status: 429, code: "RATE_LIMITED" } : "pass"));
  expect((await reprint()).body.error).toMatchObject({ code: "ILLEGAL_TRANSITION", details: { code: "RATE_LIMITED" } });
  network.rule(() => "pass");
  const { status, body } = await reprint();
  expect(status).toBe(200);
  const { data } = (await shop.admin.get("/aidc/jobs")).body;
  expect(data.map((job: { job_ref: string }) => job.job_ref)).toEqual([body.job_ref, ref]);
  expect((await reprint()).body.error).toMatchObject({ code: "ILLEGAL_TRANSITION", details: { code: "JOB_EXISTS" } }); // another one
});

test("a simulator's faults are those it has; a real printer has none, whatever its settings say", async (t) => {
  const { station } = await lineOf(t, w, { eyes: "hand" });
  const set = (fault: string, on: boolean) => ask(station, "POST", "/api/printers/printer/simulator", { fault, on });
  expect((await set("paper-out", true)).body.active).toEqual(["paper-out"]);
  expect((await set("paper-out", false)).body.active).toEqual([]);
  expect((await set("../mend", true)).status).toBe(404);
  const [printer] = station.floor.config.printers;
  expect(() => agentConfigFrom({ ...station.floor.config, printers: [{ ...printer, simulated: false }] })).toThrow("printers.0.control");
  expect(() => agentConfigFrom({ ...station.floor.config, printers: [{ ...printer, control: "file:///etc" }] })).toThrow(
    "printers.0.control",
  );
});

test("PINs are digits, nobody's twice, and a wrong one is never said aloud", async (t) => {
  const shop = await printShop(w);
  const { floor, ...station } = await running(t, w.url, shop, { eyes: "hand" });
  const withOperators =
    (...operators: object[]) =>
    () =>
      agentConfigFrom({ ...floor.config, operators });
  expect(withOperators({ ...OPERATOR, pin: "12a4" })).toThrow("operators.0.pin");
  expect(withOperators(OPERATOR, { id: "op-8", name: "Bo", badge: "B-8", pin: OPERATOR.pin })).toThrow(
    `operators: "${OPERATOR.id}" and "op-8" have the same pin`,
  );
  const arrive = (pin: string) => ask(station, "POST", "/api/operator", { pin });
  expect((await arrive(OPERATOR.pin)).body.operator).toEqual({ id: OPERATOR.id, name: OPERATOR.name });
  for (let i = 0; i < 5; i += 1) expect((await arrive("00000000")).status).toBe(401);
  expect((await arrive(OPERATOR.pin)).status).toBe(429);
  expect((await ask(station, "POST", "/api/operator", { pin: "1", badge: "1" })).status).toBe(400);
  const badge = (text: string) => ask(station, "POST", "/api/operator", { badge: text });
  const guessed = await Promise.all(Array.from({ length: 20 }, (_, n) => badge(`B-${n}`)));
  expect(new Set(guessed.map(({ status }) => status))).toEqual(new Set([401]));
  const locked = await badge("B-20");
  expect([locked.status, locked.body.error.code]).toEqual([429, "RATE_LIMITED"]);
  expect((await badge(OPERATOR.badge)).status).toBe(200); // whose badge it is is let in
  expect(JSON.stringify(station.state())).not.toContain(`"${OPERATOR.pin}"`);
});
