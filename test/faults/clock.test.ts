// The server's wall clock is set back ten minutes, or leaps: leases, keys, tokens and the schedule of webhooks go by it, and nothing is given out twice for that.
import { randomUUID } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import { goodItems, printShop, sealOf, type Shop } from "../../fixtures/print-shop.ts";
import { freshDatabase, world } from "../world.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const SOON = { timeout: 30_000, interval: 50 };
/** Once the reaper lets go of the row, where it holds it just then. */
const claimedBy = ({ claim }: Pick<Shop["device"], "claim">) => vi.waitFor(() => claim(), SOON);

describe.each(["sqlite", "postgres"] as const)("on %s", async (engine) => {
  const open = async () => {
    const w = await world({ databaseUrl: await freshDatabase(engine) });
    const shop = await printShop(w);
    const other = await shop.newDevice("line 2");
    return { w, ...shop, other, taken: async () => (await other.api.post("/aidc/jobs/claim")).status };
  };

  test("set back by ten minutes, a lease is nobody else's, its holder is heard, and the label is sealed once", async () => {
    const { w, issue, device, taken, admin } = await open();
    await issue();
    const claimed = await device.claim({ lease_seconds: 120 });
    w.later(-10 * MINUTE_MS);
    expect(await taken()).toBe(204);
    const beat = await device.api.post(`/aidc/jobs/${claimed.job.job_ref}/heartbeat`, { attempt_id: claimed.attempt_id });
    expect(beat.status).toBe(200);
    w.later(20 * SECOND_MS);
    expect(await taken()).toBe(204);
    expect((await device.seal(claimed)).body).toMatchObject({ state: "SEALED", attempt: 1 });
    const { data } = (await admin.get(`/aidc/jobs/${claimed.job.job_ref}/history`)).body;
    expect(data.filter(({ to }: { to: string }) => to === "CLAIMED")).toHaveLength(1);
    expect((await admin.get("/audit-logs/verify")).body.valid).toBe(true);
  });

  test("set back while a job waits for its grace, it isn't given away before the time that was said; then it is", async () => {
    const { w, issue, device, other, admin } = await open();
    const { job_ref: ref } = await issue();
    const claimed = await device.claim({ lease_seconds: 30 });
    await device.upTo(claimed, "SPOOL_SUBMITTED");
    const state = async () => (await admin.get(`/aidc/jobs/${ref}`)).body.state;
    w.later(-10 * MINUTE_MS);
    w.later(15 * MINUTE_MS); // what the store's clock has gone through: five minutes
    await new Promise((resolve) => setTimeout(resolve, 500)); // more than a look of the reaper
    expect(await state()).toBe("SPOOL_SUBMITTED");
    w.later(11 * MINUTE_MS);
    await expect.poll(state, SOON).toBe("FAILED");
    expect((await claimedBy(other)).job).toMatchObject({ job_ref: ref, duplicate_risk: true });
  });

  test("after a leap ahead the job is another's, and what its first holder says is stale: one label is sealed", async () => {
    const { w, issue, device, other } = await open();
    await issue();
    const claimed = await device.claim({ lease_seconds: 600 });
    const [render, ...rest] = goodItems(claimed);
    w.later(2 * HOUR_MS);
    const again = await claimedBy(other);
    expect(again.job).toMatchObject({ job_ref: claimed.job.job_ref, attempt: 2 });
    w.later(-2 * HOUR_MS); // set right: the attempt that was given out stands
    expect((await device.say(claimed, render ?? {})).body.error.code).toBe("STALE_ATTEMPT");
    expect((await other.seal(again)).body.state).toBe("SEALED");
    expect((await device.say(claimed, sealOf([render ?? { status: "" }, ...rest]))).body.error.code).toBe("STALE_ATTEMPT");
  });

  test("an idempotency key holds for its day by that clock: longer where it was set back, never doubled", async () => {
    const { w, admin, product } = await open();
    const key = { "idempotency-key": randomUUID() };
    const allocate = async () => (await admin.post("/carriers/batch", { productId: product.id, count: 1 }, key)).body.serials[0] as string;
    const first = await allocate();
    w.later(-10 * MINUTE_MS);
    expect(await allocate()).toBe(first);
    w.later(24 * HOUR_MS);
    expect(await allocate()).toBe(first); // by the clock ten minutes are left
    w.later(11 * MINUTE_MS);
    const second = await allocate();
    expect(second).not.toBe(first);
    w.later(-24 * HOUR_MS);
    expect(await allocate()).toBe(second); // what was forgotten doesn't come back
  });

  test("a token lives by that clock, and one from what is now the future is good all the same", async () => {
    const { w, admin } = await open();
    const { client_id, client_secret } = (await admin.post("/oauth/clients", { name: "c", scopes: ["products:read"] })).body;
    const asked = { grant_type: "client_credentials", client_id, client_secret };
    const token = (await w.nobody.post("/oauth/token", asked, { "idempotency-key": randomUUID() })).body.access_token;
    const status = async () => (await w.as(token).get("/products")).status;
    w.later(-10 * MINUTE_MS);
    expect(await status()).toBe(200);
    w.later(24 * MINUTE_MS);
    expect(await status()).toBe(200);
    w.later(2 * MINUTE_MS);
    expect(await status()).toBe(401);
  });

  test("set back by an hour, a station that isn't heard of any more isn't online for that hour; one that is heard of is", async () => {
    const { w, device, other, admin } = await open();
    for (const one of [device, other]) await one.api.post("/aidc/jobs/claim");
    const shown = async () => {
      const { data } = (await admin.get("/devices")).body;
      const { devices } = (await admin.get("/aidc/summary")).body;
      return [Object.fromEntries(data.map(({ name, status }: { name: string; status: string }) => [name, status])), devices];
    };
    await expect.poll(shown, SOON).toEqual([
      { "line 1": "online", "line 2": "online" },
      { all: 2, heard_of: 2 },
    ]);
    w.later(-HOUR_MS);
    await other.api.post("/aidc/jobs/claim");
    await expect.poll(shown, SOON).toEqual([
      { "line 1": "offline", "line 2": "online" },
      { all: 2, heard_of: 1 },
    ]);
  });

  test("lists stay whole and in order of making while the clock jumps about", async () => {
    const { w, issue, admin } = await open();
    const made: string[] = [];
    for (const ms of [-10 * MINUTE_MS, HOUR_MS, -2 * HOUR_MS, 3 * HOUR_MS]) {
      w.later(ms);
      made.push((await issue()).job_ref);
    }
    expect((await admin.get("/aidc/jobs")).body.data.map(({ job_ref: ref }: { job_ref: string }) => ref)).toEqual(made.toReversed());
    expect((await admin.get("/audit-logs/verify")).body.valid).toBe(true);
  });

  test("the control: without a step of the clock the lease does run out and the job is another's", async () => {
    const { w, issue, device, taken } = await open();
    await issue();
    await device.claim({ lease_seconds: 600 });
    w.later(9 * MINUTE_MS);
    expect(await taken()).toBe(204);
    w.later(2 * MINUTE_MS);
    await expect.poll(taken, SOON).toBe(200); // the reaper may hold the row just then
  });
});
