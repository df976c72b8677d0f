// The print loop against a model of itself: whatever stations, clocks and crashes do in whatever order, the API and fifty lines of model agree.
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { hasEnded, type JobState, jobPath, jobStates, leaseOf, mayCancel, mayFollow, PAPER_MAY_EXIST, rankOf } from "#shared/states.ts";
import { isDue, reap } from "../../cloud/domain/reaper.ts";
import { type Claim, goodItems, type Item, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { type Answered, broken, type Record } from "../print-checker.ts";
import { engine, world } from "../world.ts";

const SCHEDULES = engine === "sqlite" ? 500 : 120; // the rules are the same; the server's round trips are what takes its time
const LEASE_S = 60;
const PAST_LEASE_MS = 65_000; // all that one schedule may wait so stays within the grace, which the model counts from nothing
const PAST_GRACE_MS = 2_000_000;
const MAX_ATTEMPTS = 3;

const w = await world();
const shop = await printShop(w);
const devices = [shop.device, await shop.newDevice("line 2")] as const;
const { admin } = shop;

type Held = { attemptId: string; device: number; claim: Claim };
type Model = {
  state: JobState; reached: number; attempt: number; latest: Held | null; expired: boolean; risk: boolean; voided: boolean;
  /** Its latest attempt failed by its device's word, not by the reaper's. */
  gaveUp: boolean;
}; // oxfmt-ignore
type Say = (typeof jobPath)[number] | "FAILED";

const pooled = ({ state, attempt, expired }: Model) =>
  attempt < MAX_ATTEMPTS && (state === "QUEUED" || state === "FAILED" || (leaseOf(state) === "reclaimable" && expired));

/** What a word must come to, by the rules alone. */
function judge(model: Model, held: Held, status: Say): { code: string | null; moves: boolean } {
  if (model.latest?.attemptId !== held.attemptId) return { code: "STALE_ATTEMPT", moves: false };
  const again = status === "FAILED" ? model.gaveUp : status === model.state;
  if (again || (rankOf(status) > 0 && rankOf(status) <= model.reached)) return { code: null, moves: false };
  if (["FAILED", "DEAD_LETTER", "CANCELLED"].includes(model.state)) return { code: "STALE_ATTEMPT", moves: false };
  const legal = mayFollow(model.state, status) && (jobStates[status].by as readonly string[]).includes("device") && status !== "CLAIMED";
  return legal ? { code: null, moves: true } : { code: "ILLEGAL_TRANSITION", moves: false };
}

function fail(model: Model, byReaper: boolean): void {
  model.risk ||= byReaper || model.reached >= PAPER_MAY_EXIST;
  model.state = "FAILED";
  model.gaveUp = !byReaper;
}

/** What the reaper does to it once the clock has been turned. */
function age(model: Model, ms: number): void {
  const lease = leaseOf(model.state);
  if (lease !== null) model.expired = true;
  if (lease === "uncertain" && ms === PAST_GRACE_MS) fail(model, true);
  if (lease === "reclaimable" && model.attempt >= MAX_ATTEMPTS) model.state = "DEAD_LETTER";
  settle(model);
}
const settle = (model: Model) => {
  if (model.state === "FAILED" && model.attempt >= MAX_ATTEMPTS) model.state = "DEAD_LETTER";
};

const statuses = fc.constantFrom<Say>(...jobPath.slice(1), "FAILED");
const nth = fc.nat({ max: 1 });
const command = fc.oneof(
  { weight: 30, arbitrary: fc.record({ do: fc.constant("claim" as const), device: nth }) },
  { weight: 70, arbitrary: fc.record({ do: fc.constant("advance" as const) }) },
  { weight: 25, arbitrary: fc.record({ do: fc.constant("say" as const), held: fc.nat({ max: 5 }), status: statuses }) },
  { weight: 15, arbitrary: fc.record({ do: fc.constant("repeat" as const) }) },
  { weight: 10, arbitrary: fc.record({ do: fc.constant("heartbeat" as const), held: fc.nat({ max: 5 }) }) },
  { weight: 15, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(PAST_LEASE_MS, PAST_GRACE_MS) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("cancel" as const) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("void" as const) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("issue again" as const), reprint: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cloud crash" as const) }) },
);
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;

let schedule = 0;
async function run(commands: readonly Command[]): Promise<void> {
  const station = `s${(schedule += 1)}`;
  const issued = await shop.issue({ station, max_attempts: MAX_ATTEMPTS });
  const path = `/aidc/jobs/${issued.job_ref}`;
  const model: Model = { state: "QUEUED", reached: 0, attempt: 0, latest: null, expired: false, risk: false, voided: false, gaveUp: false };
  const held: Held[] = [];
  const answered: Answered[] = [];
  let last: (() => Promise<{ status: number; text: string }>) | undefined;
  let lastText = "";

  async function say(by: Held, status: Say): Promise<void> {
    const items = goodItems(by.claim);
    const word: Item & { reason?: string } =
      status === "FAILED"
        ? { status, reason: "x" }
        : status === "SEALED"
          ? sealOf(items)
          : (items.find((item) => item.status === status) ?? { status });
    const key = crypto.randomUUID();
    last = () => devices[by.device as 0].say(by.claim, word, { "idempotency-key": key });
    const answer = await devices[by.device as 0].say(by.claim, word, { "idempotency-key": key });
    lastText = answer.text;
    const { code, moves } = judge(model, by, status);
    expect([status, model.state, answer.body.error?.code ?? null]).toEqual([status, model.state, code]);
    if (answer.status === 200) answered.push({ attempt_id: by.attemptId, status, moved: moves });
    if (!moves) return;
    model.expired = false;
    if (status === "FAILED") fail(model, false);
    else [model.state, model.reached] = [status, rankOf(status)];
    await reapNow();
    settle(model);
  }
  /** The cloud's own reaper does it as well, at the same time: it is over when nothing is due. */
  async function reapNow(): Promise<void> {
    while (await w.store.read("due", isDue)) await w.store.write("reap", (tx) => reap(tx, 100));
  }

  const acts: { [Do in Command["do"]]: (command: Extract<Command, { do: Do }>) => Promise<void> } = {
    claim: async ({ device }) => {
      const answer = await devices[device as 0].api.post("/aidc/jobs/claim", { station, needs: ["qr"], lease_seconds: LEASE_S });
      expect(answer.status).toBe(pooled(model) ? 200 : 204);
      if (answer.status === 204) return;
      model.latest = { attemptId: answer.body.attempt_id, device, claim: answer.body };
      held.push(model.latest);
      expect(answer.body.job.duplicate_risk).toBe(model.risk);
      Object.assign(model, { state: "CLAIMED", reached: 1, attempt: model.attempt + 1, expired: false, gaveUp: false });
    },
    advance: async () => {
      const next = jobPath[model.reached + 1];
      if (model.latest && next) await say(model.latest, next);
    },
    say: async ({ held: i, status }) => {
      const by = held[i % Math.max(1, held.length)];
      if (by) await say(by, status);
    },
    repeat: async () => {
      if (last) expect((await last()).text).toBe(lastText);
    },
    heartbeat: async ({ held: i }) => {
      const by = held[i % Math.max(1, held.length)];
      if (!by) return;
      const answer = await devices[by.device as 0].api.post(`${path}/heartbeat`, { attempt_id: by.attemptId, lease_seconds: LEASE_S });
      const live = model.latest?.attemptId === by.attemptId && leaseOf(model.state) !== null;
      expect(answer.body.error?.code ?? null).toBe(live ? null : "STALE_ATTEMPT");
      if (live) model.expired = false;
    },
    wait: async ({ ms }) => {
      w.later(ms);
      await reapNow();
      age(model, ms);
      await reapNow();
    },
    cancel: async () => {
      const answer = await admin.post(`${path}/cancel`);
      expect(answer.status).toBe(mayCancel(model.state) ? 200 : 409);
      if (answer.status === 200) model.state = "CANCELLED";
    },
    void: async () => {
      const answer = await admin.post(`/products/${shop.product.id}/void`, { reason: "x", serial: issued.serial });
      expect(answer.status).toBe(model.voided ? 409 : 200);
      model.voided = true;
      if (!hasEnded(model.state)) model.state = "CANCELLED";
    },
    "issue again": async ({ reprint }) => {
      const again = {
        gtin: shop.gtin,
        serial: issued.serial,
        station: `${station}-again`,
        ...(reprint ? { reprint, reason: "torn" } : {}),
      };
      const answer = await admin.post("/aidc/jobs", again);
      const free = hasEnded(model.state) && (model.state !== "SEALED" || reprint);
      expect(answer.body.error?.code ?? null).toBe(model.voided ? "SERIAL_VOIDED" : free ? null : "JOB_EXISTS");
      if (answer.status === 201) await admin.post(`/aidc/jobs/${answer.body.job_ref}/cancel`);
    },
    "cloud crash": () => w.restart(),
  };
  for (const one of commands) {
    await acts[one.do](one as never);
    const now = (await admin.get(path)).body;
    expect({ state: now.state, attempt: now.attempt }).toEqual({ state: model.state, attempt: model.attempt });
  }
  const { data: history } = (await admin.get(`${path}/history`)).body;
  const { print } = (await admin.get(`/carriers/${issued.serial}`)).body.metadata;
  expect(broken({ history, answered, print: print?.status ?? null })).toEqual([]);
}

/** Waits past the lease, as often as fit in. */
const QUIET: Command[] = [
  { do: "claim", device: 0 },
  { do: "advance" },
  { do: "advance" },
  ...Array.from({ length: 12 }, (): Command => ({ do: "wait", ms: PAST_LEASE_MS })),
  { do: "advance" },
];

test(`${SCHEDULES} schedules of stations, clocks and crashes agree with the model`, { timeout: 600_000 }, async () => {
  const commands = fc.array(command, { minLength: 4, maxLength: 16 });
  await fc.assert(fc.asyncProperty(commands, run), { numRuns: SCHEDULES, endOnFailure: false, examples: [[QUIET]] });
});

/** The record of a job that failed once and was then sealed. */
function goodRecord(): Record {
  const device = { kind: "device" };
  const [first, second] = ["a", "b"];
  const history: Record["history"] = [{ from: null, to: "QUEUED", attempt_id: null, attempt: 0, actor: { kind: "issuer" } }];
  const then = (to: JobState, attempt_id: string, attempt: number) =>
    history.push({ from: history.at(-1)?.to ?? null, to, attempt_id, attempt, actor: device });
  for (const to of ["CLAIMED", "RENDERED", "FAILED"] as const) then(to, first, 1);
  for (const to of jobPath.slice(1)) then(to, second, 2);
  const answered = history.filter(({ to, attempt_id }) => attempt_id !== null && to !== "CLAIMED");
  return {
    history,
    answered: answered.map(({ attempt_id, to }) => ({ attempt_id: attempt_id ?? "", status: to, moved: true })),
    print: "printed",
  };
}

test("the checker passes a true record and catches every lie about it", () => {
  expect(broken(goodRecord())).toEqual([]);
  const lies: { [what: string]: (record: Record) => unknown } = {
    "an answered event is lost": ({ history }) => history.splice(5, 1),
    "an answer is dropped": ({ answered }) => answered.splice(2, 1),
    "two events are swapped": ({ history }) => history.splice(5, 2, ...history.slice(5, 7).toReversed()),
    "an attempt is reused": ({ history }) => history.forEach((event) => (event.attempt_id &&= "a")),
    "an attempt number stands still": ({ history }) => history.forEach((event) => (event.attempt &&= 1)),
    "a superseded attempt moves the job": ({ history }) => Object.assign(history[6] ?? {}, { attempt_id: "a" }),
    "something follows the end": ({ history }) =>
      history.push({ ...(history.at(-1) as Record["history"][0]), from: "SEALED", to: "FAILED" }),
    "the reaper attests": ({ history }) => Object.assign(history[7] ?? {}, { actor: { kind: "system" } }),
    "the seal comes early": ({ history }) => history.splice(6, 3),
    "the outcome contradicts the state": (record) => Object.assign(record, { print: "failed" }),
    "the outcome is missing": (record) => Object.assign(record, { print: null }),
  };
  const passed = Object.entries(lies).filter(([, lie]) => {
    const record = goodRecord();
    lie(record);
    return broken(record).length === 0;
  });
  expect(passed.map(([what]) => what)).toEqual([]);
});
