// The table of print job states, walked cell by cell: every state, every word that a station may say, by whoever may say it.
import { describe, expect, test, vi } from "vitest";
import { hasEnded, type JobState, jobStateNames, jobStates, leasedStates, leaseOf, mayCancel, mayFollow, rankOf } from "#shared/states.ts";
import { reap } from "../../cloud/domain/reaper.ts";
import { type Claim, goodItems, type Item, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";

const w = await world();
const shop = await printShop(w);
const { admin, device } = shop;
await admin.patch("/tenant", { offlineGraceSeconds: 0 });
const stateOf = async (ref: string) => (await admin.get(`/aidc/jobs/${ref}`)).body.state as JobState;

/** The cloud's own reaper comes a fraction of a second later: it isn't waited for. */
async function reaped(ref: string, state: JobState): Promise<void> {
  const now = async () => (await w.store.write("reap", (tx) => reap(tx, 100)), stateOf(ref));
  await expect.poll(now, { interval: 20 }).toBe(state);
}

type Case = Pick<Claim, "job" | "attempt_id"> & { said: Item[] };
/** A job of its own, brought into a state by those who may. */
async function jobIn(state: JobState): Promise<Case> {
  const job = await shop.issue({ max_attempts: state === "DEAD_LETTER" ? 1 : 3, priority: 1 });
  if (state === "QUEUED") return { job, attempt_id: "019a0000-0000-7000-8000-000000000000", said: [] };
  const claimed = await device.claim();
  expect(claimed.job.job_ref).toBe(job.job_ref);
  if (state === "CANCELLED") await admin.post(`/aidc/jobs/${job.job_ref}/cancel`);
  else if (state === "FAILED" || state === "DEAD_LETTER") await device.say(claimed, { status: "FAILED", reason: "head open" });
  else if (state === "SEALED") await device.seal(claimed);
  else if (state !== "CLAIMED") await device.upTo(claimed, state);
  if (state === "DEAD_LETTER") await reaped(job.job_ref, "DEAD_LETTER");
  const said = goodItems(claimed).slice(0, Math.max(0, rankOf(state) - 1));
  return { ...claimed, said };
}

/** What a station would send to say that the job is in this state, well-formed and true as far as it goes. */
function wordFor(status: JobState, { job, said }: Case): Item & { reason?: string } {
  if (status === "FAILED") return { status, reason: "ribbon out" };
  if (status === "SEALED") return sealOf(said);
  return goodItems({ job }).find((item) => item.status === status) ?? { status };
}

const speakers = ["device", "operator", "system"] as const;
type Speaker = (typeof speakers)[number];
const ATTEMPT_OVER = new Set<JobState>(["FAILED", "DEAD_LETTER", "CANCELLED"]);
/** How far the case's attempt came before its state, where the state isn't on the path. */
const reached = (state: JobState): number => (ATTEMPT_OVER.has(state) ? 1 : rankOf(state));

/** What the table says must come of it. */
function expected(from: JobState, status: JobState, speaker: Speaker): [status: number, code: string | null, state: JobState] {
  if (speaker === "system") return [400, "VALIDATION_ERROR", from]; // nobody speaks for the reaper
  if (from === "QUEUED") return [409, "STALE_ATTEMPT", from]; // there is no attempt yet
  const rank = rankOf(status);
  if (status === from || (status === "FAILED" && from === "DEAD_LETTER") || (rank > 0 && rank <= reached(from))) return [200, null, from];
  if (ATTEMPT_OVER.has(from)) return [409, "STALE_ATTEMPT", from];
  const words: readonly string[] = jobStates[status].by;
  return mayFollow(from, status) && words.includes(speaker) && status !== "CLAIMED"
    ? [200, null, status]
    : [409, "ILLEGAL_TRANSITION", from];
}

const cells = jobStateNames.flatMap((from) => jobStateNames.flatMap((status) => speakers.map((speaker) => ({ from, status, speaker }))));

describe.each(jobStateNames)("from %s", (state) => {
  test.each(cells.filter(({ from }) => from === state))("$status by $speaker", async ({ from, status, speaker }) => {
    const at = await jobIn(from);
    const actor = { kind: speaker, id: speaker === "operator" ? "op-7" : device.id };
    const answer = await device.say(at, { ...wordFor(status, at), actor });
    const [code, name, next] = expected(from, status, speaker);
    expect([answer.status, answer.body.error?.code ?? null]).toEqual([code, name]);
    expect(await stateOf(at.job.job_ref)).toBe(next);
    if (!hasEnded(next) && next !== "FAILED") await end(at, next);
    else if (next === "FAILED") expect((await admin.post(`/aidc/jobs/${at.job.job_ref}/cancel`)).status).toBe(200);
  });
});

/** Takes the job out of the way of the next case. */
async function end({ job, attempt_id }: Case, state: JobState): Promise<void> {
  if (!mayCancel(state)) expect((await device.say({ job, attempt_id }, { status: "FAILED", reason: "end of the case" })).status).toBe(200);
  expect((await admin.post(`/aidc/jobs/${job.job_ref}/cancel`)).status).toBe(200);
}

test.each(jobStateNames)("cancelling from %s is what the table says", async (state) => {
  const at = await jobIn(state);
  const answer = await admin.post(`/aidc/jobs/${at.job.job_ref}/cancel`, { reason: "ordered twice" });
  expect([answer.status, answer.body.error?.code ?? answer.body.state]).toEqual(
    mayCancel(state) ? [200, "CANCELLED"] : [409, "ILLEGAL_TRANSITION"],
  );
  if (!mayCancel(state) && !hasEnded(state)) await end(at, state);
});

test.each(leasedStates)("a lease that ends in %s does what the table says", async (state) => {
  const at = await jobIn(state);
  w.later(31_000);
  if (leaseOf(state) === "reclaimable") {
    const again = await vi.waitFor(() => device.claim(), { interval: 20 }); // on a server who claims passes by what the reaper is at
    expect(again.job).toMatchObject({ job_ref: at.job.job_ref, attempt: 2, duplicate_risk: false });
    expect((await device.say(at, wordFor("RENDERED", at))).body.error.code).toBe("STALE_ATTEMPT");
    await end(again as unknown as Case, "CLAIMED");
    return;
  }
  await reaped(at.job.job_ref, "FAILED");
  expect((await device.say(at, wordFor("SEALED", at))).body.error.code).toBe("STALE_ATTEMPT");
  const again = await device.claim();
  expect(again.job).toMatchObject({ job_ref: at.job.job_ref, attempt: 2, duplicate_risk: true });
  await end(again as unknown as Case, "CLAIMED");
});
