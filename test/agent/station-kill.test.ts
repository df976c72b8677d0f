// The agent is killed before and after everything that leaves it, without a word, and started again: never a second print, and the label ends sealed or asked about.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { settingsFile, startFloor } from "../../fixtures/floor.ts";
import { type Kind, kinds } from "../../fixtures/killer.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { type Program, startProgram } from "../../fixtures/program.ts";
import { random } from "../../fixtures/random.ts";
import { world } from "../world.ts";
import { ask, say, sealed, stateInCloud, until } from "./floor.ts";

const w = await world();

/** IMPRIMATUR_KILL=commit,write,call walks through all moments of these kinds; otherwise so many of each, drawn by a seed. */
const SAMPLE: Record<Kind, number> = { commit: 6, write: 6, call: 4 };
const WHOLE = (process.env["IMPRIMATUR_KILL"] ?? "").split(",");
const isWhole = WHOLE[0] !== "";
const LIFE_MS = 180_000;
const SEED = Number(process.env["IMPRIMATUR_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const ABREAST = 4;
const KILLER = pathToFileURL(join(import.meta.dirname, "../../fixtures/killer.ts"));

type Moment = { kind: Kind; n: number | "label"; when: "before" | "after" };
/** Between a label's last byte and the receipt: it is out, and the station has no word of it. In every run, for it hid a fault. */
const UNRECEIPTED: Moment = { kind: "write", n: "label", when: "after" };
type Job = { job_ref: string; ask: { kind: string } | null; state: string; stage: string };

/** A label of its own from claim to seal; killed at that moment, if any; what reached the outside world in the first life. */
async function live(shop: Shop, moment?: Moment): Promise<{ journal: string[]; asked: string[]; killed: boolean }> {
  const floor = await startFloor(w.url, shop.device.secret, { settings: { claim: { ahead: 1, leaseSeconds: 5 } } });
  const file = settingsFile(floor);
  const journal = join(floor.folder, "journal");
  const killer = new URL(KILLER);
  const query = { journal, printer: String(floor.machine?.port), ...(moment ? { ...moment, n: String(moment.n) } : {}) };
  for (const [name, value] of Object.entries(query)) killer.searchParams.set(name, value);
  const { job_ref: ref, digital_link: link } = await shop.issue();
  const started = startProgram("agent/main.ts", { NODE_OPTIONS: `--import=${killer.href}` }, [], ["--config", file]);
  // Whom it kills before it is ready never says so; whether it was killed at all is read from the journal.
  let agent: Program | undefined = moment ? await started.catch(() => undefined) : await started;
  let isDead = agent === undefined;
  void agent?.ended.then(() => (isDead = true));
  const asked: string[] = [];
  const told = moment ? `${moment.when} ${moment.kind} ${moment.n}` : "never";
  let last: unknown;
  try {
    await until(async () => {
      if (isDead) {
        isDead = false;
        agent = await startProgram("agent/main.ts", {}, [], ["--config", file]);
      }
      if (!agent) return false;
      const now = await ask(agent, "GET", "/api/state").catch(() => undefined); // it may die while it is asked
      if (!now) return false;
      const { jobs, buffer_depth: depth } = now.body as { jobs: Job[]; buffer_depth: number };
      last = { ...now.body, log: now.body.log?.slice(-12), recent: [] };
      if (depth === 0 && jobs.length === 0 && (await stateInCloud(shop, ref)) === "SEALED") return true;
      const job = jobs.find(({ job_ref }) => job_ref === ref);
      if (job?.ask) {
        // The person looks at what lies there, and says what is so.
        const lies = (await floor.links()).includes(link);
        asked.push(job.ask.kind);
        await say(agent, ref, lies ? "good" : "not_printed").catch(() => {}); // it may die of the answer: it is asked again
      } else if (job?.state === "PRINTED_ATTESTED") await ask(agent, "POST", "/api/scan", { text: link }).catch(() => {}); // likewise
      return false;
    }, LIFE_MS).catch((error: unknown) => {
      throw new Error(`killed ${told}: ${JSON.stringify(last)}`, { cause: error });
    });
    const { ledger, quarantine } = (await ask(agent as Program, "GET", "/api/state")).body;
    const { data } = (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body;
    const seals = data.filter(({ to }: { to: string }) => to === "SEALED").length;
    expect(
      { told, paper: await floor.links(), moved: (floor.machine?.counters.labels ?? 0) - 1_000, seals, open: ledger.open, quarantine },
      "killed there, one label lies here, is sealed once, and no label is unexplained",
    ).toEqual({ told, paper: [link], moved: 1, seals: 1, open: [], quarantine: [] });
    expect([told, ledger.counts["sealed"]]).toEqual([told, 1]);
    const lines = readFileSync(journal, "utf8").trim().split("\n");
    return { journal: lines.filter((line) => line !== "killed"), asked, killed: lines.includes("killed") };
  } finally {
    await agent?.end("SIGKILL");
    await floor.end();
  }
}

test("killed before and after port writes, commits and calls: one label, sealed once, and what is uncertain is asked", { timeout: isWhole ? 3_600_000 : 300_000 }, async () => {
  const shops = await Promise.all(Array.from({ length: ABREAST }, () => printShop(w)));
  const { journal, asked } = await live(shops[0] as Shop);
  expect(asked, "a label that nobody disturbs asks nobody").toEqual([]);
  const lives: Moment[] = kinds.flatMap((kind) =>
    journal
      .filter((line) => line.startsWith(`${kind} `))
      .flatMap((_, i) => (["before", "after"] as const).map((when) => ({ kind, n: i + 1, when }))),
  );
  const moments = [UNRECEIPTED, ...(isWhole ? lives.filter(({ kind }) => WHOLE.includes(kind)) : sampled(lives))];
  process.stderr.write(`killing at ${moments.length} of ${lives.length} moments of a label's life, seed ${SEED}\n`);
  let killed = 0;
  let questions = 0;
  const queue = [...moments];
  const ends = await Promise.allSettled(
    shops.map(async (shop) => {
      for (let moment = queue.shift(); moment; moment = queue.shift()) {
        const life = await live(shop, moment).finally(() => process.stderr.write("."));
        if (moment === UNRECEIPTED) expect(life.killed, "every life has that moment").toBe(true);
        killed += Number(life.killed);
        questions += Number(life.asked.includes("unknown_outcome"));
      }
    }),
  );
  for (const end of ends) if (end.status === "rejected") throw end.reason;
  process.stderr.write(`\nkilled ${killed} of ${moments.length} times, a person was asked ${questions} times\n`);
  // How often it polls and asks its printer differs from life to life, so that the last few of each kind may not come.
  expect(killed).toBeGreaterThan(moments.length / 2);
  expect(questions).toBeGreaterThan(0);
}); // oxfmt-ignore

/** Every commit and write between the claim and the seal is as likely as another. */
function sampled(moments: Moment[]): Moment[] {
  const chance = random(SEED);
  const drawn = kinds.flatMap((kind) => {
    const left = moments.filter((moment) => moment.kind === kind);
    return Array.from({ length: Math.min(SAMPLE[kind], left.length) }, () => left.splice(Math.floor(chance() * left.length), 1)).flat();
  });
  return drawn;
}
test.for([
  ["SIGTERM", "SIGTERM"],
  ["a terminal that is closed", "SIGHUP"],
] as const)("%s in the middle of a label ends with 0 and leaves nothing unwritten", async ([, signal], t) => {
  const shop = await printShop(w);
  const floor = await startFloor(w.url, shop.device.secret, { printer: { scale: 1, speed: 0.75 } }); // slow enough to be met in it
  t.onTestFinished(floor.end);
  const file = settingsFile(floor);
  const start = () => startProgram("agent/main.ts", {}, [], ["--config", file]);
  const first = await start();
  const { job_ref: ref } = await shop.issue();
  await until(async () => (await ask(first, "GET", "/api/state")).body.jobs.some(({ stage }: Job) => stage === "sent"));
  expect(await first.end(signal)).toBe(0);
  expect(await floor.links()).toHaveLength(1);
  const second = await start();
  t.onTestFinished(async () => void (await second.end("SIGKILL")));
  const job = async (): Promise<Job | undefined> =>
    (await ask(second, "GET", "/api/state")).body.jobs.find(({ job_ref }: Job) => job_ref === ref);
  // It heard the printer out before it ended: what is left is the scan, or nothing.
  expect((await job())?.ask ?? null).toBeNull();
  if ((await job())?.state === "PRINTED_ATTESTED") await ask(second, "POST", "/api/scan", { text: (await floor.links())[0] });
  await sealed(shop, ref);
  expect(await floor.links()).toHaveLength(1);
});

test("a void label that was out before it was killed waits in the ledger afterwards", async (t) => {
  const shop = await printShop(w);
  const floor = await startFloor(w.url, shop.device.secret, { eyes: "hand", rfid: true });
  t.onTestFinished(floor.end);
  const file = settingsFile(floor);
  const start = () => startProgram("agent/main.ts", {}, [], ["--config", file]);
  const first = await start();
  const stateOf = async (agent: Program) => (await ask(agent, "GET", "/api/state")).body;
  await until(async () => (await stateOf(first)).printers[0].status === "ready");
  floor.machine?.fault("rfid-void", { times: 1 });
  floor.machine?.fault("fence-never");
  const { job_ref: ref } = await shop.issue({ needs: ["qr", "rfid"] });
  await until(async () => floor.machine?.labels.length === 2 && (await stateOf(first)).jobs[0]?.stage === "sent");
  await first.end("SIGKILL");
  floor.machine?.clear();
  const second = await start();
  t.onTestFinished(async () => void (await second.end("SIGKILL")));
  await until(async () => (await stateOf(second)).printers[0].words.startsWith("waits for an answer"));
  expect((await stateOf(second)).ledger.counts).toEqual({ unknown: 1, unexplained: 1 });
  await say(second, ref, "destroyed");
  await until(async () => (await stateOf(second)).ledger.counts["destroyed"] === 1);
  expect((await stateOf(second)).ledger.open).toMatchObject([{ state: "unexplained" }]);
});

test("a second agent on the same folder is refused with one line, and the first goes on", async (t) => {
  const shop = await printShop(w);
  const floor = await startFloor(w.url, shop.device.secret);
  t.onTestFinished(floor.end);
  const file = settingsFile(floor);
  const first = await startProgram("agent/main.ts", {}, [], ["--config", file]);
  t.onTestFinished(async () => void (await first.end()));
  await expect(startProgram("agent/main.ts", {}, [], ["--config", file])).rejects.toThrow(/another agent works in .*\n$/);
  expect((await ask(first, "GET", "/healthz")).status).toBe(200);
});
