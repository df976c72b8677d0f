// The agent is killed at every step of a label, without a word, and started again: never a second print, and the label ends sealed or asked about.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { startFloor } from "../../fixtures/floor.ts";
import { type Passing, startNetwork } from "../../fixtures/network.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { type Program, startProgram } from "../../fixtures/program.ts";
import { startWorld } from "../../fixtures/world.ts";
import { ask, say, stateInCloud, until } from "./floor.ts";

const w = await startWorld();
afterAll(() => w.end());

type Moment = { name: string; when: "request" | "answer" | "printer"; of: (passing: Passing) => boolean };
const reports = (status: string) => (passing: Passing) =>
  passing.path.endsWith("/result") || passing.path.endsWith("/results") ? passing.body.includes(`"${status}"`) : false;
const claims = ({ path }: Passing) => path.endsWith("/claim/batch");
const moments: Moment[] = [
  { name: "when its claim is granted and the answer isn't here yet", when: "answer", of: claims },
  ...["RENDERED", "SPOOL_SUBMITTED", "PRINTED_ATTESTED", "SCAN_VERIFIED", "SEALED"].flatMap((status): Moment[] => [
    { name: `before the cloud hears of ${status}`, when: "request", of: reports(status) },
    { name: `after the cloud heard of ${status}, before it knows`, when: "answer", of: reports(status) },
  ]),
  { name: "while the label leaves the printer", when: "printer", of: () => false },
];
type Job = { job_ref: string; ask: { kind: string } | null; state: string; digital_link: string; stage: string };

describe.for(moments)("killed $name", ({ when, of }) => {
  test("the label is printed once and sealed, by itself or after a person has looked", async (t) => {
    const shop = await printShop(w);
    const net = await startNetwork(() => w.url);
    t.onTestFinished(net.end);
    const floor = await startFloor(net.url, shop.device.secret, { settings: { claim: { ahead: 1, leaseSeconds: 5 } } });
    t.onTestFinished(floor.end);
    const file = join(floor.config.dataDir, "..", "config.json");
    writeFileSync(file, JSON.stringify(floor.config));
    const start = () => startProgram("agent/main.ts", {}, [], ["--config", file]);
    let agent: Program = await start();
    t.onTestFinished(async () => void (await agent.end("SIGKILL")));
    const { job_ref: ref, digital_link: link } = await shop.issue();

    const dead = Promise.withResolvers<void>();
    const kill = () => {
      net.rule(() => "pass");
      void agent.end("SIGKILL").then(() => dead.resolve());
    };
    if (when === "printer") floor.machine?.news.once("changed", kill);
    else
      net.rule((passing) => {
        if (!of(passing)) return "pass";
        kill();
        return when === "request" ? "cut" : "lose";
      });
    await dead.promise;
    const before = await floor.links();
    agent = await start();
    const jobs = async (): Promise<Job[]> => (await ask(agent, "GET", "/api/state")).body.jobs;
    const job = async () => (await jobs()).find(({ job_ref }) => job_ref === ref);
    let looked = false;
    await until(async () => {
      if ((await stateInCloud(shop, ref)) === "SEALED") return true;
      const now = await job();
      if (now?.ask?.kind === "unknown_outcome" && !looked) {
        // The person looks at what lies there, and says what is so.
        const lies = (await floor.links()).includes(link);
        await say(agent, ref, lies ? "good" : "not_printed");
        looked = true;
      }
      if (now?.state === "PRINTED_ATTESTED" && now.ask === null) await ask(agent, "POST", "/api/scan", { text: link });
      return false;
    }, 40_000);
    const paper = (await floor.links()).filter((one) => one === link).length;
    expect(paper).toBe(1);
    expect(before.length).toBeLessThanOrEqual(1);
    const { data } = (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body;
    expect(data.filter(({ to }: { to: string }) => to === "SEALED")).toHaveLength(1);
    await until(async () => (await ask(agent, "GET", "/api/state")).body.buffer_depth === 0);
    expect((await ask(agent, "GET", "/api/state")).body.quarantine).toEqual([]);
    expect(await agent.end()).toBe(0);
  });
});

test("SIGTERM in the middle of a label ends with 0 and leaves nothing unwritten", async (t) => {
  const shop = await printShop(w);
  const floor = await startFloor(w.url, shop.device.secret, { printer: { scale: 1 } });
  t.onTestFinished(floor.end);
  const file = join(floor.config.dataDir, "..", "config.json");
  writeFileSync(file, JSON.stringify(floor.config));
  const start = () => startProgram("agent/main.ts", {}, [], ["--config", file]);
  const first = await start();
  const { job_ref: ref } = await shop.issue();
  await until(async () => (await ask(first, "GET", "/api/state")).body.jobs.some(({ stage }: Job) => stage === "sent"));
  expect(await first.end()).toBe(0);
  expect(await floor.links()).toHaveLength(1);
  const second = await start();
  t.onTestFinished(async () => void (await second.end("SIGKILL")));
  const job = async (): Promise<Job | undefined> =>
    (await ask(second, "GET", "/api/state")).body.jobs.find(({ job_ref }: Job) => job_ref === ref);
  // It heard the printer out before it ended: what is left is the scan, or nothing.
  expect((await job())?.ask ?? null).toBeNull();
  if ((await job())?.state === "PRINTED_ATTESTED") await ask(second, "POST", "/api/scan", { text: (await floor.links())[0] });
  await until(async () => (await stateInCloud(shop, ref)) === "SEALED");
  expect(await floor.links()).toHaveLength(1);
});

test("a second agent on the same folder is refused with one line, and the first goes on", async (t) => {
  const shop = await printShop(w);
  const floor = await startFloor(w.url, shop.device.secret);
  t.onTestFinished(floor.end);
  const file = join(floor.config.dataDir, "..", "config.json");
  writeFileSync(file, JSON.stringify(floor.config));
  const first = await startProgram("agent/main.ts", {}, [], ["--config", file]);
  t.onTestFinished(async () => void (await first.end()));
  await expect(startProgram("agent/main.ts", {}, [], ["--config", file])).rejects.toThrow(/another agent works in .*\n$/);
  expect((await ask(first, "GET", "/healthz")).status).toBe(200);
});
