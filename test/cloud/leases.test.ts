// Leases: what time does to a claim, who is still heard when it is over, and what devices come and go with.
import { eq } from "drizzle-orm";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { limits } from "#shared/limits.ts";
import * as claims from "../../cloud/domain/job-claims.ts";
import type { Keys } from "../../cloud/keys.ts";
import { printJobs } from "../../cloud/store/schema.ts";
import { refusal } from "../../fixtures/client.ts";
import { type Claim, goodItems, type Item, printShop, sealOf, type Shop, stationOf } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";

const w = await world();
const SECOND = 1_000;
const code = (answer: { body?: { error?: { code: string }; state?: string } }) => answer.body?.error?.code ?? answer.body?.state;

const SOON = { timeout: 30_000, interval: 50 }; // the reaper comes a fraction of a second later
/** On a server who claims passes by what the reaper is at. */
const claimAnew = (device: Shop["device"]) => vi.waitFor(() => device.claim(), SOON);

test("a late result is heard while nobody else has the job, and renews the lease", async () => {
  const { device, admin, ...shop } = await printShop(w);
  const job = await shop.issue();
  const claimed = await device.claim({ lease_seconds: 30 });
  w.later(10 * 60 * SECOND);
  const [render] = goodItems(claimed);
  const answer = await device.say(claimed, render ?? {});
  expect(answer.body).toMatchObject({ state: "RENDERED", attempt: 1 });
  expect(Date.parse(answer.body.lease.expires_at)).toBeGreaterThan(Date.now() + 10 * 60 * SECOND);
  expect((await device.api.post("/aidc/jobs/claim")).status).toBe(204); // it is his again
  expect((await admin.get(`/aidc/jobs/${job.job_ref}`)).body.attempt).toBe(1);
});

test("a heartbeat that doesn't say how long gives the lease the length that it was claimed with", async () => {
  const { device, ...shop } = await printShop(w);
  await shop.issue();
  const { job, attempt_id } = await device.claim({ lease_seconds: 500 });
  const ends = Date.parse((await device.api.post(`/aidc/jobs/${job.job_ref}/heartbeat`, { attempt_id })).body.lease.expires_at);
  expect(ends).toBeGreaterThanOrEqual(Date.parse((job as { lease?: { expires_at: string } }).lease?.expires_at ?? ""));
});

test("a heartbeat extends a lease, also one that ran out; once reclaimed it is stale", async () => {
  const { device, ...shop } = await printShop(w);
  await shop.issue();
  const claimed = await device.claim({ lease_seconds: 5 });
  const beat = () => device.api.post(`/aidc/jobs/${claimed.job.job_ref}/heartbeat`, { attempt_id: claimed.attempt_id, lease_seconds: 120 });
  w.later(60 * SECOND);
  expect((await beat()).body.lease.device_id).toBe(device.id);
  w.later(60 * SECOND);
  expect((await device.api.post("/aidc/jobs/claim")).status).toBe(204);
  w.later(120 * SECOND);
  await expect.poll(async () => (await device.api.post("/aidc/jobs/claim")).body?.job.job_ref, SOON).toBe(claimed.job.job_ref);
  expect(code(await beat())).toBe("STALE_ATTEMPT");
});

type Looks = Partial<Pick<typeof printJobs.$inferSelect, "lookAt" | "dueAt" | "leaseExpiresAt">>;
const looksOf = (ref: string, of = w) =>
  of.store.read("looks", async ({ db }) => (await db.select().from(printJobs).where(eq(printJobs.jobRef, ref)))[0] as Required<Looks>);
const leave = (ref: string, looks: Looks) =>
  w.store.write("looks", async ({ db }) => void (await db.update(printJobs).set(looks).where(eq(printJobs.jobRef, ref))));

test("what renews a lease leaves the moment of the reaper's look, who then sees how long it goes; a shorter one brings it forward", async () => {
  const { device, admin, ...shop } = await printShop(w);
  const { job_ref: ref } = await shop.issue();
  const lookAt = async () => (await looksOf(ref)).lookAt ?? 0;
  const claimed = await device.claim({ lease_seconds: 60 });
  const beat = (seconds: number) =>
    device.api.post(`/aidc/jobs/${ref}/heartbeat`, { attempt_id: claimed.attempt_id, lease_seconds: seconds });
  const first = await lookAt();
  w.later(40 * SECOND);
  await beat(60);
  expect(await lookAt()).toBe(first);
  w.later(30 * SECOND); // the first lease is over, the second isn't
  await expect.poll(async () => (await lookAt()) - first, SOON).toBeGreaterThan(30 * SECOND);
  expect((await device.api.post("/aidc/jobs/claim")).status).toBe(204);
  expect((await admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ state: "CLAIMED", attempt: 1 });
  await beat(5);
  w.later(10 * SECOND);
  expect((await claimAnew(device)).job).toMatchObject({ job_ref: ref, attempt: 2 });
});

test("after an outage a claim looks through those leases that the reaper comes to first, and not through the whole floor's", async () => {
  const { device, tenantId, allocate, admin, gtin } = await printShop(w);
  const most = limits.CLAIMS_MAX_ITEMS;
  const items = (await allocate(most + 50)).map((serial, i) => ({ gtin, serial, priority: i }));
  const refs = (await admin.post("/aidc/jobs/batch", { items })).body.jobs.map(({ job_ref: ref }: { job_ref: string }) => ref) as string[];
  for (const count of [most, 50]) expect((await device.api.post("/aidc/jobs/claim/batch", { max: most })).body.claims).toHaveLength(count);
  const caller = { tenantId, deviceId: device.id, credential: { kind: "api_key", id: "", name: "" }, scopes: [], tier: "device" } as const;
  const keys = { sign: () => "" } as unknown as Keys;
  const claimed = await w.store.write("outage", async (tx) => {
    for (const [i, ref] of refs.entries()) {
      const over = tx.now - items.length + i;
      await tx.db.update(printJobs).set({ leaseExpiresAt: over, lookAt: over }).where(eq(printJobs.jobRef, ref)); // oxfmt-ignore
    }
    return claims.claim(tx, caller, { max: 2 }, { keys, origin: () => w.url });
  });
  expect(claimed.map(({ job }) => refs.indexOf(job.job_ref))).toEqual([most - 1, most - 2]);
  const waiting = async () => (await admin.get("/aidc/summary")).body.waiting[0]?.jobs;
  await expect.poll(waiting, SOON).toBe(items.length - claimed.length);
});

test("a job that can't be reaped holds up no other", async () => {
  const { device, admin, ...shop } = await printShop(w);
  const [broken, whole] = [await shop.issue(), await shop.issue()];
  await device.claim({ lease_seconds: 5 });
  await device.claim({ lease_seconds: 10 });
  const become = (state: string) =>
    w.store.write("state", async ({ db }) => {
      await db
        .update(printJobs)
        .set({ state: state as "CLAIMED" })
        .where(eq(printJobs.jobRef, broken.job_ref));
    });
  await become("SHELVED"); // a word of a version to come, say
  try {
    w.later(20 * SECOND);
    await expect.poll(async () => (await looksOf(whole.job_ref)).lookAt, SOON).toBeNull();
    expect((await device.claim()).job).toMatchObject({ job_ref: whole.job_ref, attempt: 2 });
    expect((await looksOf(broken.job_ref)).lookAt).not.toBeNull();
  } finally {
    await become("CLAIMED");
  }
  await expect.poll(async () => (await device.api.post("/aidc/jobs/claim")).body?.job.job_ref, SOON).toBe(broken.job_ref);
  expect((await admin.get(`/aidc/jobs/${broken.job_ref}`)).body.attempt).toBe(2);
});

test("what nodes of a version before left to be done is done, unless the job went on since; what is theirs isn't given to them", async () => {
  const { device, admin, ...shop } = await printShop(w);
  const { job_ref: ref } = await shop.issue();
  const show = async () => (await admin.get(`/aidc/jobs/${ref}`)).body;
  const past = Date.now() - 60 * SECOND;
  const claimed = await device.claim({ lease_seconds: 60 });
  expect((await looksOf(ref)).dueAt).toBe(null); // they act on it without a look at the lease
  await leave(ref, { dueAt: past });
  await expect.poll(async () => (await looksOf(ref)).dueAt, SOON).toBe(null);
  expect(await show()).toMatchObject({ state: "CLAIMED", attempt: 1 });
  await leave(ref, { dueAt: past, lookAt: null });
  w.later(90 * SECOND);
  await leave(ref, { dueAt: past, lookAt: null });
  await expect.poll(async () => (await device.api.post("/aidc/jobs/claim")).body?.job.attempt, SOON).toBe(2);
  expect(code(await device.say(claimed, goodItems(claimed)[0] ?? {}))).toBe("STALE_ATTEMPT");
  const again = { ...claimed, attempt_id: (await show()).attempt_id };
  expect(code(await device.say(again, { status: "FAILED", reason: "ribbon out" }))).toBe("FAILED");
  await leave(ref, { lookAt: past }); // as a report to one of theirs leaves it
  await expect.poll(async () => (await looksOf(ref)).lookAt, SOON).toBe(null);
  expect((await device.claim()).job).toMatchObject({ job_ref: ref, attempt: 3 });
});

test("a job that may be on paper waits for its grace, then fails and warns the next one", async () => {
  const { device, admin, ...shop } = await printShop(w);
  await admin.patch("/tenant", { offlineGraceSeconds: 600 });
  const { job_ref: ref } = await shop.issue();
  const claimed = await device.claim({ lease_seconds: 30 });
  const said = await device.upTo(claimed, "SPOOL_SUBMITTED");
  w.later(500 * SECOND);
  const attested = goodItems(claimed)[2] ?? said[0];
  expect(code(await device.say(claimed, attested ?? {}))).toBe("PRINTED_ATTESTED"); // offline for minutes, and heard
  w.later(700 * SECOND);
  await expect.poll(async () => (await admin.get(`/aidc/jobs/${ref}`)).body.state, SOON).toBe("FAILED");
  expect((await admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ reason: "LEASE_EXPIRED_AFTER_SPOOL", duplicate_risk: true });
  expect(code(await device.say(claimed, goodItems(claimed)[3] ?? {}))).toBe("STALE_ATTEMPT");
  const again = await device.claim();
  expect(again.job).toMatchObject({ job_ref: ref, attempt: 2, duplicate_risk: true });
  const { data: audit } = (await admin.get("/audit-logs?action=print.expired")).body;
  expect(audit[0]).toMatchObject({ subject: ref, actor: { kind: "system" } });
});

test.each([
  ["ended while the cloud was away", 1_000],
  ["ends as the cloud comes back", 925],
])("where its grace %s, its station is waited for half a minute from when it is back", async (_when, seconds) => {
  const own = await world({ clock: "stopped" }, onTestFinished);
  const { device, admin, ...shop } = await printShop(own);
  await Promise.all([shop.issue(), shop.issue()]);
  const [good, silent] = [await device.claim({ lease_seconds: 30 }), await device.claim({ lease_seconds: 30 })];
  for (const one of [good, silent]) await device.upTo(one, "SPOOL_SUBMITTED");
  const claimedAt = Number((await looksOf(silent.job.job_ref, own)).leaseExpiresAt) - 30 * SECOND;
  await own.restart(async () => own.later(seconds * SECOND));
  for (const { job } of [good, silent])
    await expect
      .poll(async () => (await looksOf(job.job_ref, own)).lookAt, SOON)
      .toBe(claimedAt + seconds * SECOND + limits.OFFLINE_COMEBACK_MS);
  expect(code(await device.say(good, goodItems(good)[2] ?? {}))).toBe("PRINTED_ATTESTED");
  own.later(limits.OFFLINE_COMEBACK_MS);
  const stateOf = async ({ job }: Claim) => (await admin.get(`/aidc/jobs/${job.job_ref}`)).body.state as string;
  await expect.poll(() => stateOf(silent), SOON).toBe("FAILED");
  expect(await stateOf(good)).toBe("PRINTED_ATTESTED");
});

test("where the clock was set back after the cloud began, a silent station is waited for no longer than else", async () => {
  const own = await world({ clock: "stopped" }, onTestFinished);
  own.later(24 * 3_600 * SECOND);
  await own.restart();
  await expect.poll(() => own.nobody.get("//readyz").then(({ status }) => status), SOON).toBe(200);
  own.later(-24 * 3_600 * SECOND);
  const { device, admin, ...shop } = await printShop(own);
  await shop.issue();
  const silent = await device.claim({ lease_seconds: 30 });
  await device.upTo(silent, "SPOOL_SUBMITTED");
  own.later(1_000 * SECOND);
  const stateLater = async () => {
    own.later(SECOND);
    return (await admin.get(`/aidc/jobs/${silent.job.job_ref}`)).body.state as string;
  };
  await expect.poll(stateLater, SOON).toBe("FAILED");
});

test("a budget used up is a dead letter, and its serial stands in the re-print file", async () => {
  const { device, admin, ...shop } = await printShop(w);
  const job = await shop.issue({ max_attempts: 2 });
  for (const reason of ["ribbon out", "head open"]) {
    const claimed = await device.claim();
    expect(code(await device.say(claimed, { status: "FAILED", reason }))).toBe("FAILED");
  }
  expect((await device.api.post("/aidc/jobs/claim")).status).toBe(204);
  await expect.poll(async () => (await admin.get(`/aidc/jobs/${job.job_ref}`)).body.state, SOON).toBe("DEAD_LETTER");
  expect((await admin.get(`/carriers/${job.serial}`)).body.metadata.print).toMatchObject({ status: "failed", reason: "head open" });
  const { data: audit } = (await admin.get("/audit-logs?action=print.dead_lettered")).body;
  const { data: history } = (await admin.get(`/aidc/jobs/${job.job_ref}/history`)).body;
  expect(history.map(({ reason }: { reason: string | null }) => reason)).toEqual([
    null,
    null,
    "ribbon out",
    null,
    "head open",
    "head open",
  ]);
  expect(audit).toMatchObject([{ subject: job.job_ref, actor: { kind: "system" }, details: { reason: "head open", attempt: 2 } }]);
  const file = (await admin.get(`/carriers/export?productId=${shop.product.id}&printState=failed`)).text;
  expect(file.trim().split("\n").at(-1)).toContain(job.serial);
  expect((await admin.post("/aidc/jobs", { gtin: shop.gtin, serial: job.serial })).status).toBe(201); // it may be tried again
});

test("a serial that was sealed stays so when its reprint ends badly: the next label needs a reason as well", async () => {
  const { device, admin, gtin, ...shop } = await printShop(w);
  const { serial, job_ref: sealed } = await shop.issue();
  await device.seal(await device.claim());
  const issue = (more = {}) => admin.post("/aidc/jobs", { gtin, serial, max_attempts: 1, ...more });
  const { job_ref: ref } = (await issue({ reprint: true, reason: "torn" })).body;
  await device.say(await device.claim(), { status: "FAILED", reason: "ribbon out" });
  await expect.poll(async () => (await admin.get(`/aidc/jobs/${ref}`)).body.state, SOON).toBe("DEAD_LETTER");
  expect((await issue()).body.error).toMatchObject({ code: "JOB_EXISTS", details: { job_ref: sealed } });
  expect((await issue({ reprint: true, reason: "torn" })).status).toBe(201);
  await device.seal(await device.claim());
});

test("a serial whose job ended with its label perhaps on paper gets its next job with the warning, until the label is destroyed", async () => {
  const { device, admin, gtin, ...shop } = await printShop(w);
  const issued = await shop.issue({ max_attempts: 1 });
  const spoil = async () => {
    const claimed = await device.claim();
    await device.upTo(claimed, "SPOOL_SUBMITTED");
    await device.say(claimed, { status: "FAILED", reason: "jam" });
    const { job_ref: ref } = claimed.job;
    await expect.poll(async () => (await admin.get(`/aidc/jobs/${ref}`)).body.state, SOON).toBe("DEAD_LETTER");
    return { job_ref: ref, attempt_id: claimed.attempt_id, evidence: {}, actor: { kind: "operator", id: "op-7" } };
  };
  const again = async () => (await admin.post("/aidc/jobs", { gtin, serial: issued.serial, max_attempts: 1 })).body;
  await spoil();
  expect((await again()).duplicate_risk).toBe(true);
  const stray = await spoil();
  await admin.post("/aidc/orphans", { ...stray, disposition: "destroyed" });
  expect((await again()).duplicate_risk).toBe(false);
  await device.seal(await device.claim());
});

test("a serial that another system says it printed gets its job with the warning, and none once a label of it is sealed", async () => {
  const { device, admin, gtin, ...shop } = await printShop(w);
  const first = await shop.issue();
  const { serial } = first;
  await admin.post(`/aidc/jobs/${first.job_ref}/cancel`, {});
  await admin.post("/carriers/print-status", { results: [{ serial, status: "printed" }] });
  const again = async (more = {}) => (await admin.post("/aidc/jobs", { gtin, serial, max_attempts: 1, ...more })).body;
  const risky = await again();
  expect(risky.duplicate_risk).toBe(true);
  const lost = await device.claim();
  await device.upTo(lost, "SPOOL_SUBMITTED");
  await device.say(lost, { status: "FAILED", reason: "jam" });
  await expect.poll(async () => (await admin.get(`/aidc/jobs/${risky.job_ref}`)).body.state, SOON).toBe("DEAD_LETTER");
  expect((await again()).duplicate_risk).toBe(true); // of that label nobody has heard
  await device.seal(await device.claim()); // who sealed it was asked to destroy all others
  expect((await again({ reprint: true, reason: "torn" })).duplicate_risk).toBe(false);
  await device.seal(await device.claim());
});

test("a serial that another system says it printed warns the job that waits for it as well, but none that may have printed it itself", async () => {
  const { device, admin, ...shop } = await printShop(w);
  const printed = (serial: unknown) => admin.post("/carriers/print-status", { results: [{ serial, status: "printed" }] });
  const waiting = await shop.issue();
  await printed(waiting.serial);
  const claimed = await device.claim();
  expect(claimed.job).toMatchObject({ job_ref: waiting.job_ref, duplicate_risk: true });
  await device.seal(claimed);
  const sealedBefore = (await admin.post("/aidc/jobs", { gtin: shop.gtin, serial: waiting.serial, reprint: true, reason: "torn" })).body;
  await printed(waiting.serial);
  expect((await device.claim()).job).toMatchObject({ job_ref: sealedBefore.job_ref, duplicate_risk: false });
  await shop.issue();
  const its = await device.claim();
  await device.upTo(its, "SPOOL_SUBMITTED");
  await printed(its.job["serial"]);
  expect((await admin.get(`/aidc/jobs/${its.job.job_ref}`)).body.duplicate_risk).toBe(false);
});

test("a serial that another system says it printed warns the job whose own label is known to be gone, or was never printed", async () => {
  const { device, admin, ...shop } = await printShop(w);
  for (const outcome of ["destroyed", "not_printed"]) {
    const { job_ref: ref, serial } = await shop.issue();
    const failed = await device.claim();
    await device.upTo(failed, "SPOOL_SUBMITTED");
    await device.say(failed, { status: "FAILED", reason: "ribbon out", evidence: { label_disposition: { outcome } } });
    expect((await admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ state: "FAILED", duplicate_risk: false });
    await admin.post("/carriers/print-status", { results: [{ serial, status: "printed" }] });
    const again = await device.claim();
    expect(again.job).toMatchObject({ job_ref: ref, duplicate_risk: true });
    await device.seal(again);
  }
});

test("what another system said while an attempt's own label was under way warns the next one, once that label is known to be gone", async () => {
  const { device, admin, ...shop } = await printShop(w);
  for (const outcome of ["destroyed", "not_printed"])
    for (const how of ["alone", "in a batch"]) {
      const { job_ref: ref, serial } = await shop.issue();
      const failed = await device.claim();
      await device.upTo(failed, "SPOOL_SUBMITTED");
      await admin.post("/carriers/print-status", { results: [{ serial, status: "printed" }] });
      const word = { status: "FAILED", reason: "ribbon out", evidence: { label_disposition: { outcome } } };
      if (how === "alone") await device.say(failed, word);
      else await device.api.post("/aidc/results", { results: [{ job_ref: ref, attempt_id: failed.attempt_id, ...word }] });
      const again = await device.claim();
      expect([how, again.job]).toMatchObject([how, { job_ref: ref, duplicate_risk: true }]);
      await device.seal(again);
    }
});

test("what another system said of a serial warns its next job, whatever is accounted for of the one that ended badly meanwhile", async () => {
  const { device, admin, gtin, ...shop } = await printShop(w);
  const GONE = { label_disposition: { outcome: "destroyed" } };
  const ways: [told: "before its claim" | "after its claim", state: string, warned: boolean][] = [
    ["before its claim", "RENDERED", true], // that it printed was said too late
    ["after its claim", "RENDERED", true],
    ["after its claim", "SPOOL_SUBMITTED", true],
    ["before its claim", "SPOOL_SUBMITTED", false], // who printed under the warning had destroyed what came before
  ];
  for (const [told, state, warned] of ways) {
    const { serial } = await shop.issue({ max_attempts: 1 });
    const tell = () => admin.post("/carriers/print-status", { results: [{ serial, status: "printed" }] });
    if (told === "before its claim") await tell();
    const claimed = await device.claim();
    if (told === "after its claim") await tell();
    await device.upTo(claimed, state);
    await device.say(claimed, { status: "FAILED", reason: "ribbon out", evidence: GONE });
    const { job_ref, attempt_id } = { ...claimed.job, ...claimed };
    await expect.poll(async () => (await admin.get(`/aidc/jobs/${job_ref}`)).body.state, SOON).toBe("DEAD_LETTER");
    const actor = { kind: "operator", id: "op-7" };
    await admin.post("/aidc/orphans", { job_ref, attempt_id, evidence: {}, disposition: "destroyed", actor });
    const { job_ref: next } = (await admin.post("/aidc/jobs", { gtin, serial })).body;
    const again = await device.claim();
    expect([told, state, again.job]).toMatchObject([told, state, { job_ref: next, duplicate_risk: warned }]);
    await device.seal(again);
    expect((await admin.post("/aidc/jobs", { gtin, serial, reprint: true, reason: "torn" })).body.duplicate_risk).toBe(false);
    await device.seal(await device.claim());
  }
});

describe("a label that is found", () => {
  const OPERATOR = { kind: "operator", id: "op-7" };
  const orphan = (claimed: Claim, disposition: string) => ({
    job_ref: claimed.job.job_ref,
    attempt_id: claimed.attempt_id,
    evidence: {},
    disposition,
    actor: OPERATOR,
  });
  const FAILED = { status: "FAILED", reason: "jam" };
  const riskOf = async ({ admin }: Shop, ref: string) => (await admin.get(`/aidc/jobs/${ref}`)).body.duplicate_risk as boolean;

  test("warns the next attempt and the next job, until it is destroyed", async () => {
    const shop = await printShop(w);
    const { admin, device, gtin } = shop;
    const { serial, job_ref: ref } = await shop.issue({ max_attempts: 2 });
    const lost = await device.claim({ lease_seconds: 10 });
    w.later(11_000);
    const second = await claimAnew(device);
    expect(code(await device.say(lost, goodItems(lost)[0] as Item))).toBe("STALE_ATTEMPT");
    expect((await admin.post("/aidc/orphans", orphan(lost, "found"))).status).toBe(201);
    expect(await riskOf(shop, ref)).toBe(true);
    await device.say(second, FAILED);
    await expect.poll(async () => (await admin.get(`/aidc/jobs/${ref}`)).body.state, SOON).toBe("DEAD_LETTER");
    const next = (await admin.post("/aidc/jobs", { gtin, serial })).body;
    expect(next.duplicate_risk).toBe(true);
    await admin.post("/aidc/orphans", orphan(lost, "destroyed"));
    expect(await riskOf(shop, next.job_ref)).toBe(false);
    await admin.post(`/aidc/jobs/${next.job_ref}/cancel`, {});
    expect((await admin.post("/aidc/jobs", { gtin, serial })).body.duplicate_risk).toBe(false);
    await device.seal(await device.claim());
  });

  test("of one attempt goes on warning when that of another is destroyed", async () => {
    const shop = await printShop(w);
    const { admin, device } = shop;
    const { job_ref: ref } = await shop.issue();
    const first = await device.claim();
    await device.upTo(first, "SPOOL_SUBMITTED");
    await device.say(first, FAILED);
    await admin.post("/aidc/orphans", orphan(first, "found"));
    const second = await device.claim();
    await device.say(second, FAILED);
    await admin.post("/aidc/orphans", orphan(second, "destroyed"));
    expect(await riskOf(shop, ref)).toBe(true);
    await admin.post("/aidc/orphans", orphan(first, "destroyed"));
    expect(await riskOf(shop, ref)).toBe(false);
    await device.seal(await device.claim());
  });

  test("of one job goes on warning when that of a later job is destroyed, or another is sealed", async () => {
    const shop = await printShop(w);
    const { admin, device, gtin } = shop;
    const [serial] = await shop.allocate(1);
    const issue = async (more: object = {}) => (await admin.post("/aidc/jobs", { gtin, serial, max_attempts: 1, ...more })).body;
    const lost = async () => {
      const { job_ref: ref } = await issue();
      const claimed = await device.claim();
      await device.upTo(claimed, "SPOOL_SUBMITTED");
      await device.say(claimed, FAILED);
      await expect.poll(async () => (await admin.get(`/aidc/jobs/${ref}`)).body.state, SOON).toBe("DEAD_LETTER");
      return claimed;
    };
    const warns = async () => {
      const { job_ref: ref, duplicate_risk: risk } = await issue({ reprint: true, reason: "torn" });
      await admin.post(`/aidc/jobs/${ref}/cancel`, {});
      return risk as boolean;
    };
    const [first, second] = [await lost(), await lost()];
    await admin.post("/aidc/orphans", orphan(first, "found"));
    await admin.post("/aidc/orphans", orphan(second, "destroyed"));
    expect(await warns()).toBe(true);
    await admin.post("/aidc/orphans", orphan(first, "destroyed"));
    expect(await warns()).toBe(false);
    const [third] = [await lost(), await lost()];
    await admin.post("/aidc/orphans", orphan(third, "found"));
    await issue();
    expect((await device.seal(await device.claim())).body.state).toBe("SEALED");
    expect(await warns()).toBe(true);
  });

  test("of an attempt is gone with that of the latest, whose maker had it destroyed; that of an earlier one speaks for itself alone", async () => {
    const shop = await printShop(w);
    const { admin, device } = shop;
    const { job_ref: ref } = await shop.issue();
    const lost = async () => {
      const claimed = await device.claim();
      await device.upTo(claimed, "SPOOL_SUBMITTED");
      await device.say(claimed, FAILED);
      return claimed;
    };
    const [first, second] = [await lost(), await lost()];
    await admin.post("/aidc/orphans", orphan(first, "destroyed"));
    expect(await riskOf(shop, ref)).toBe(true);
    await admin.post("/aidc/orphans", orphan(second, "destroyed"));
    expect(await riskOf(shop, ref)).toBe(false);
    await device.seal(await device.claim());

    const { job_ref: other } = await shop.issue();
    await lost();
    await admin.post("/aidc/orphans", orphan(await lost(), "destroyed"));
    expect(await riskOf(shop, other)).toBe(false);
    await device.seal(await device.claim());
  });

  test("beside one that was sealed warns its reprint, until it is destroyed: the sealed one warns nobody", async () => {
    const { admin, device, gtin, ...shop } = await printShop(w);
    const { serial, job_ref: ref } = await shop.issue();
    const first = await device.claim();
    await device.say(first, FAILED);
    await admin.post("/aidc/orphans", orphan(first, "found"));
    await device.seal(await device.claim());
    const reprint = async () => {
      const issued = (await admin.post("/aidc/jobs", { gtin, serial, reprint: true, reason: "torn" })).body;
      await admin.post(`/aidc/jobs/${issued.job_ref}/cancel`, {});
      return issued.duplicate_risk;
    };
    expect([(await admin.get(`/aidc/jobs/${ref}`)).body.state, await reprint()]).toEqual(["SEALED", true]);
    await admin.post("/aidc/orphans", orphan(first, "destroyed"));
    expect(await reprint()).toBe(false);
  });

  test("of a later job, destroyed, leaves an earlier job's that nobody has accounted for", async () => {
    const { admin, device, gtin, ...shop } = await printShop(w);
    const { serial, job_ref: ref } = await shop.issue({ max_attempts: 1 });
    const lost = await device.claim();
    await device.upTo(lost, "SPOOL_SUBMITTED");
    await device.say(lost, FAILED);
    await expect.poll(async () => (await admin.get(`/aidc/jobs/${ref}`)).body.state, SOON).toBe("DEAD_LETTER");
    const again = async () => (await admin.post("/aidc/jobs", { gtin, serial })).body;
    await again();
    const later = await device.claim();
    await device.say(later, FAILED);
    await admin.post("/aidc/orphans", orphan(later, "found"));
    await admin.post("/aidc/orphans", orphan(later, "destroyed"));
    expect((await admin.get(`/aidc/jobs/${later.job.job_ref}`)).body).toMatchObject({ state: "FAILED", duplicate_risk: true });
    await admin.post(`/aidc/jobs/${later.job.job_ref}/cancel`, {});
    expect((await again()).duplicate_risk).toBe(true);
    await admin.post("/aidc/orphans", orphan(lost, "destroyed"));
    expect((await device.claim()).job["duplicate_risk"]).toBe(false);
  });

  test("of an earlier job, destroyed, leaves the warning of what the job after it may have printed itself", async () => {
    const { admin, device, gtin, ...shop } = await printShop(w);
    const { serial, job_ref: ref } = await shop.issue({ max_attempts: 1 });
    const lost = async () => {
      const claimed = await device.claim();
      await device.upTo(claimed, "SPOOL_SUBMITTED");
      await device.say(claimed, FAILED);
      return claimed;
    };
    const first = await lost();
    await expect.poll(async () => (await admin.get(`/aidc/jobs/${ref}`)).body.state, SOON).toBe("DEAD_LETTER");
    await admin.post("/aidc/jobs", { gtin, serial });
    await lost();
    await admin.post("/aidc/orphans", orphan(first, "destroyed"));
    const next = await device.claim();
    expect(next.job).toMatchObject({ attempt: 2, duplicate_risk: true });
    await device.seal(next);
  });

  test("and destroyed is as if it had never been, where the attempt after it said of its own that it is gone", async () => {
    const shop = await printShop(w);
    const { admin, device } = shop;
    const { job_ref: ref } = await shop.issue();
    const first = await device.claim();
    await device.say(first, FAILED);
    const second = await device.claim();
    await device.upTo(second, "SPOOL_SUBMITTED");
    await device.say(second, { ...FAILED, evidence: { label_disposition: { outcome: "destroyed" } } });
    await admin.post("/aidc/orphans", orphan(first, "found"));
    expect(await riskOf(shop, ref)).toBe(true);
    await admin.post("/aidc/orphans", orphan(first, "destroyed"));
    expect(await riskOf(shop, ref)).toBe(false);
    await device.seal(await device.claim());
  });

  test.each([
    ["destroyed", false],
    ["not_printed", false],
    ["unknown", true],
  ])("and of which its attempt said %s when it failed warns the next one: %s", async (outcome, warns) => {
    const shop = await printShop(w);
    const { job_ref: ref } = await shop.issue();
    const claimed = await shop.device.claim();
    await shop.device.upTo(claimed, "SPOOL_SUBMITTED");
    await shop.device.say(claimed, { ...FAILED, evidence: { label_disposition: { outcome } } });
    expect(await riskOf(shop, ref)).toBe(warns);
    await shop.device.seal(await shop.device.claim());
  });

  test("is reported in a device's name by its key only", async () => {
    const shop = await printShop(w);
    await shop.issue();
    const claimed = await shop.device.claim();
    const said = { ...orphan(claimed, "found"), actor: { kind: "device" } };
    expect(code(await shop.admin.post("/aidc/orphans", said))).toBe("DEVICE_KEY_REQUIRED");
    expect((await shop.device.api.post("/aidc/orphans", said)).status).toBe(201);
  });
});

test("a failure that is said again is the same failure, also once it is buried or cancelled; one that only time made isn't the station's", async () => {
  const { device, admin, ...shop } = await printShop(w);
  const stateOf = async (ref: string) => (await admin.get(`/aidc/jobs/${ref}`)).body.state as string;
  const failed = { status: "FAILED", reason: "ribbon out" };
  const said = await shop.issue({ max_attempts: 1 });
  const claimed = await device.claim();
  expect((await device.say(claimed, failed)).status).toBe(200);
  await expect.poll(() => stateOf(said.job_ref), SOON).toBe("DEAD_LETTER");
  const again = await device.say(claimed, failed);
  expect([again.status, again.body.state]).toEqual([200, "DEAD_LETTER"]);

  const dropped = await shop.issue();
  const given = await device.claim();
  await device.say(given, failed);
  expect((await admin.post(`/aidc/jobs/${dropped.job_ref}/cancel`, {})).status).toBe(200);
  const heard = await device.say(given, failed);
  expect([heard.status, heard.body.state]).toEqual([200, "CANCELLED"]);

  await admin.patch("/tenant", { offlineGraceSeconds: 60 });
  const lost = await shop.issue();
  const late = await device.claim({ lease_seconds: 5 });
  await device.upTo(late, "SPOOL_SUBMITTED");
  w.later(100 * SECOND);
  await expect.poll(() => stateOf(lost.job_ref), SOON).toBe("FAILED");
  await admin.post(`/aidc/jobs/${lost.job_ref}/cancel`, {});
  expect(code(await device.say(late, failed))).toBe("STALE_ATTEMPT");

  const silent = await shop.issue({ max_attempts: 1 });
  const held = await device.claim({ lease_seconds: 5 });
  await device.upTo(held, "SPOOL_SUBMITTED");
  w.later(100 * SECOND);
  await expect.poll(() => stateOf(silent.job_ref), SOON).toBe("DEAD_LETTER");
  expect(code(await device.say(held, failed))).toBe("STALE_ATTEMPT"); // its label is an orphan now
});

test("a lease that runs out on the last attempt before paper is a dead letter as well", async () => {
  const { device, admin, ...shop } = await printShop(w);
  const job = await shop.issue({ max_attempts: 1 });
  await device.claim({ lease_seconds: 5 });
  w.later(6 * SECOND);
  expect((await device.api.post("/aidc/jobs/claim")).status).toBe(204); // nobody gets it before the reaper comes, either
  await expect.poll(async () => (await admin.get(`/aidc/jobs/${job.job_ref}`)).body.state, SOON).toBe("DEAD_LETTER");
});

test("after a day the envelope is over: 410", async () => {
  const { device, admin, ...shop } = await printShop(w);
  await admin.patch("/tenant", { offlineGraceSeconds: 604_800 });
  await shop.issue();
  const claimed = await device.claim();
  const said = await device.upTo(claimed, "SCAN_VERIFIED");
  w.later(25 * 3_600 * SECOND);
  const late = await device.say(claimed, sealOf(said));
  expect([late.status, code(late)]).toEqual([410, "ENVELOPE_EXPIRED"]);
  const again = await device.say(claimed, said[0] as Item);
  expect([again.status, code(again)]).toEqual([200, "SCAN_VERIFIED"]); // what was heard in time stays heard, though its answer was lost
  expect(code(await device.api.post(`/aidc/jobs/${claimed.job.job_ref}/heartbeat`, { attempt_id: claimed.attempt_id }))).toBe(
    "ENVELOPE_EXPIRED",
  );
});

test("many devices at one pool: every job is granted once", async () => {
  const { admin, ...shop } = await printShop(w);
  const items = (await shop.allocate(60)).map((serial) => ({ gtin: shop.gtin, serial }));
  await admin.post("/aidc/jobs/batch", { items });
  const devices = await Promise.all(Array.from({ length: 8 }, (_, i) => shop.newDevice(`line ${i}`)));
  const granted: string[] = [];
  await Promise.all(
    devices.map(async ({ api }) => {
      for (let empty = 0; empty < 3;) {
        const answer = await api.post("/aidc/jobs/claim", { lease_seconds: 600 });
        if (answer.status === 204) empty += 1;
        else granted.push(answer.body.job.job_ref);
      }
    }),
  );
  expect(granted.toSorted()).toEqual([...new Set(granted)].toSorted());
  expect(granted).toHaveLength(60);
});

test("a station tells of 32 printers whatever there is to tell, and no megabyte: whoever lists or watches stations is told all of it", async () => {
  const { device } = await printShop(w);
  const tell = (note: string) => {
    const printers = Array.from({ length: 32 }, (_, i) => ({ name: `${i}`.padEnd(64, "印"), status: "墨".repeat(200), note }));
    return device.api.post("/aidc/station", { status: "degraded", printers });
  };
  expect((await tell("")).status).toBe(200);
  expect(refusal(await tell("x".repeat(30_000)))).toEqual([413, "PAYLOAD_TOO_LARGE"]);
});

test("a device shows what was heard of it, and dies with its key, its leases ending at once", async () => {
  const { admin, device, ...shop } = await printShop(w);
  expect((await admin.get(`/devices/${device.id}`)).body).toMatchObject({ status: "offline", last_seen: null });
  await device.api.post("/aidc/station", {
    version: "1.2.3",
    buffer_depth: 4,
    status: "degraded",
    printers: [{ name: "zd", status: "paper out", dpi: 203 }],
  });
  expect((await device.api.get("/aidc/station")).body).toMatchObject({
    device: { id: device.id, status: "degraded", version: "1.2.3", buffer_depth: 4, printers: [{ name: "zd", dpi: 203 }] },
    tenant: { sandbox: true },
  });
  w.later(100 * SECOND);
  expect((await admin.get(`/devices/${device.id}`)).body.status).toBe("offline");
  const job = await shop.issue();
  await device.claim({ lease_seconds: 600 });
  const other = await shop.newDevice("line 2");
  expect((await other.api.post("/aidc/jobs/claim")).status).toBe(204);
  expect((await admin.delete(`/devices/${device.id}`)).status).toBe(204);
  expect((await device.api.get("/aidc/station")).status).toBe(401);
  expect((await admin.get(`/devices/${device.id}`)).status).toBe(404);
  const freed = async () => (await other.api.post("/aidc/jobs/claim")).body?.job;
  await expect.poll(freed, SOON).toMatchObject({ job_ref: job.job_ref, attempt: 2 });
});

test("a device that claims, beats or reports is one that was heard of", async () => {
  const { admin, device, ...shop } = await printShop(w);
  await shop.issue();
  let claimed: Claim | undefined;
  const acts = [
    async () => (claimed = await device.claim({ lease_seconds: 600 })),
    () => device.api.post(`/aidc/jobs/${claimed?.job.job_ref}/heartbeat`, { attempt_id: claimed?.attempt_id }),
    () => device.say(claimed as Claim, goodItems(claimed as Claim)[0] as Item),
  ];
  const status = async () => (await admin.get(`/devices/${device.id}`)).body.status;
  for (const act of acts) {
    w.later(100 * SECOND);
    expect(await status()).toBe("offline");
    await act();
    await expect.poll(status, SOON).toBe("online");
  }
  await device.say(claimed as Claim, { status: "FAILED", reason: "enough" });
});

test("a device may get a key that exists, and its mint is shown once", async () => {
  const { admin } = await printShop(w);
  const key = (await admin.post("/api-keys", { name: "k", scopes: ["aidc:read", "aidc:write"] })).body.data;
  const { device, ...rest } = (await admin.post("/devices", { name: "given", api_key_id: key.id })).body;
  expect([device.api_key_id, rest]).toEqual([key.id, {}]);
  expect((await w.as(key.secret).get("/aidc/station")).body.device.id).toBe(device.id);
  expect((await admin.post("/devices", { name: "again", api_key_id: key.id })).status).toBe(400);
  const mint = () => admin.post("/devices", { name: "minted" }, { "idempotency-key": "mint" });
  const [first, again] = [await mint(), await mint()];
  expect([first.body.key.secret, again.body.key.secret, again.body.device.id]).toEqual([
    expect.stringMatching(/^imp_/),
    null,
    first.body.device.id,
  ]);
});

test("a device goes on under the key that its own was rotated to, and that key dies with it", async () => {
  const { admin, device, ...shop } = await printShop(w);
  const { data: next } = (await admin.post(`/api-keys/${device.keyId}/rotate`)).body;
  const { api } = stationOf(w.as(next.secret));
  expect((await device.api.get("/aidc/station")).status).toBe(401);
  expect((await api.get("/aidc/station")).body.device).toMatchObject({ id: device.id, api_key_id: next.id });
  await shop.issue();
  expect((await api.post("/aidc/jobs/claim")).body.lease.device_id).toBe(device.id);
  expect((await admin.delete(`/devices/${device.id}`)).status).toBe(204);
  expect((await api.post("/aidc/jobs/claim", { needs: ["qr"] })).status).toBe(401);
  expect(code(await admin.delete(`/api-keys/${next.id}`))).toBe("ALREADY_REVOKED");
});

test("a device is removed once, however many ask at once", async () => {
  const { admin, device } = await printShop(w);
  const asked = await Promise.all(Array.from({ length: 8 }, () => admin.delete(`/devices/${device.id}`)));
  expect(asked.filter(({ status }) => status === 204)).toHaveLength(1);
  expect(asked.filter(({ status }) => status === 404)).toHaveLength(7);
});

test("who manages devices can't make a device's key of one that says more than theirs, and so end it", async () => {
  const { admin } = await printShop(w);
  const mint = async (...scopes: string[]) => (await admin.post("/api-keys", { name: "k", scopes })).body.data;
  const [foreman, boss] = [await mint("aidc:read", "aidc:write"), await mint("*:*")];
  const asked = await w.as(foreman.secret).post("/devices", { name: "trap", api_key_id: boss.id });
  expect([asked.status, code(asked)]).toEqual([403, "API_SCOPE_DENIED"]);
  expect((await w.as(boss.secret).get("/devices")).status).toBe(200);
});
