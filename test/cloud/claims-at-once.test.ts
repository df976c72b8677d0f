// Many stations that claim at the same moment: those that ask alike get what they would have got one after another, whoever asks beside them, in vain or wrongly.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { Refusal } from "#shared/errors.ts";
import type { ClaimBatch } from "#shared/wire/jobs.ts";
import type { Caller } from "../../cloud/domain/callers.ts";
import { claim } from "../../cloud/domain/job-claims.ts";
import { openKeys } from "../../cloud/keys.ts";
import { openSeal } from "../../cloud/seal.ts";
import { sql } from "../../cloud/store/drizzle.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { productMaker } from "../../fixtures/publishing.ts";
import { freshFolder } from "../endings.ts";
import { world } from "../world.ts";

const w = await world();
const folder = freshFolder("claims");
const signing = { keys: await openKeys(w.store, folder, await openSeal(w.store, folder, [])), origin: () => w.url };
const STATIONS = 6;
const NOTHING = "nothing";

const deviceOf = ({ tenantId }: Shop, id: string): Caller => ({
  tenantId,
  credential: { kind: "api_key", id, name: id },
  scopes: ["aidc:write"],
  deviceId: id,
  tier: "device",
});
async function stationsOf(shop: Shop): Promise<Caller[]> {
  const made = await Promise.all(Array.from({ length: STATIONS }, (_, i) => shop.newDevice(`line ${i}`)));
  return made.map(({ id }) => deviceOf(shop, id));
}
const claimOf = (caller: Caller, wanted: ClaimBatch) => () =>
  w.store.joint.write("claim", async (tx) => (await claim(tx, caller, wanted, signing))[0]);
type Asked = ReturnType<typeof claimOf>;

let gtins = 941_000;
/** Two tenants with the same jobs of all kinds; what everybody asks for; and which job a reference is. */
async function floor() {
  const named = new Map<string, string>();
  const asked: Asked[] = [];
  for (const who of ["one", "neighbour"]) {
    const shop = await printShop(w, { gtin: gtinOf((gtins += 1)), product: `${who}'s kettle` });
    const items = (await shop.allocate(24)).map((serial, i) => ({
      gtin: shop.gtin,
      serial,
      priority: i % 3,
      needs: i % 4 === 0 ? ["qr", "rfid"] : ["qr"],
      ...(i % 5 === 0 ? { station: "line-1" } : {}),
    }));
    const { jobs } = (await shop.admin.post("/aidc/jobs/batch", { items })).body as { jobs: { job_ref: string }[] };
    for (const [i, { job_ref: ref }] of jobs.entries()) named.set(ref, `${who} ${i}`);
    const stations = await stationsOf(shop);
    const all = (wanted: ClaimBatch) => stations.map((caller) => claimOf(caller, wanted));
    asked.push(
      ...all({ needs: ["qr"] }),
      ...all({ needs: ["rfid"] }), // which no job wants alone
      ...all({ needs: ["qr"], lease_seconds: 600 }),
      ...all({ needs: ["qr"], station: "line-1" }),
      ...all({ needs: ["qr", "rfid"], station: "line-1" }),
      ...all({ needs: ["qr"], station: "line-2" }),
      ...all({ needs: ["qr", "rfid"] }),
    );
  }
  return { asked, named };
}
type Granted = Awaited<ReturnType<Asked>>;
const toldIn = (granted: Granted) => JSON.parse(Buffer.from(granted?.envelope.split(".")[1] ?? "", "base64url").toString()) as object;

test("each gets the job, the lease and the envelope that it would have got alone, in its turn, and who is left over gets none", async () => {
  const [together, alone] = [await floor(), await floor()];
  const granted = await Promise.all(together.asked.map((ask) => ask()));
  const oneByOne: Granted[] = [];
  for (const ask of alone.asked) oneByOne.push(await ask());
  const shown = (each: Granted, named: Map<string, string>) =>
    each && {
      job: named.get(each.job.job_ref),
      attempt: each.job.attempt,
      lasts: Date.parse(each.lease.expires_at) - Date.parse(each.job.updated_at),
    };
  const expected = oneByOne.map((each) => shown(each, alone.named) ?? NOTHING);
  expect(granted.map((each) => shown(each, together.named) ?? NOTHING)).toEqual(expected);
  expect(expected.filter((each) => each === NOTHING).length).toBeGreaterThan(2 * STATIONS);
  expect(new Set(granted.map((each) => each?.attempt_id)).size).toBe(1 + granted.filter(Boolean).length);
});

test("each is told of its own device, attempt and product, and so are the job's history and envelope", async () => {
  const shop = await printShop(w, { gtin: gtinOf((gtins += 1)), product: "Kettle 1.7" });
  for (let i = 0; i < STATIONS; i += 1) await shop.issue();
  const stations = await stationsOf(shop);
  const granted = await Promise.all(stations.map((caller) => claimOf(caller, { needs: ["qr"] })()));
  for (const [i, each] of granted.entries()) {
    const { deviceId: device_id } = stations[i] as Caller;
    const { job, attempt_id } = each as NonNullable<Granted>;
    expect(each).toMatchObject({ lease: { device_id }, job: { state: "CLAIMED", attempt_id, lease: { device_id } } });
    expect(toldIn(each)).toMatchObject({ aud: device_id, jti: attempt_id, job_ref: job.job_ref, product_name: "Kettle 1.7" });
    expect((await shop.admin.get(`/aidc/jobs/${job.job_ref}`)).body).toEqual(job);
    const { data } = (await shop.admin.get(`/aidc/jobs/${job.job_ref}/history`)).body;
    expect(data).toMatchObject([{ to: "QUEUED" }, { from: "QUEUED", to: "CLAIMED", attempt_id, actor: { kind: "device", id: device_id } }]);
  }
});

test("nobody is told that nothing waits while something does, however many ask at once", async () => {
  const shop = await printShop(w, { gtin: gtinOf((gtins += 1)) });
  const items = (await shop.allocate(280)).map((serial, i) => ({ gtin: shop.gtin, serial, needs: i % 2 ? ["qr"] : ["qr", "rfid"] }));
  expect((await shop.admin.post("/aidc/jobs/batch", { items })).body.created).toBe(items.length);
  const ask = claimOf(deviceOf(shop, randomUUID()), { needs: ["qr", "rfid"] });
  const granted = await Promise.all(Array.from({ length: 256 }, ask));
  expect(granted.filter((each) => each === undefined)).toEqual([]);
});

test("jobs that the void of their product hasn't reached end in passing, and everybody gets another", async () => {
  const shop = await printShop(w, { gtin: gtinOf((gtins += 1)) });
  const gone = await productMaker(shop.admin)({ gtin: gtinOf((gtins += 1)) });
  await shop.admin.post(`/passports/${gone.passportId}/validations`);
  const { serials } = (await shop.admin.post("/carriers/batch", { productId: gone.id, count: 4 })).body as { serials: string[] };
  const items = serials.map((serial) => ({ gtin: gone.gtin, serial, priority: 4 }));
  expect((await shop.admin.post("/aidc/jobs/batch", { items })).body.created).toBe(4);
  const good: string[] = [];
  for (let i = 0; i < STATIONS; i += 1) good.push((await shop.issue()).job_ref);
  await w.store.write("void", async ({ db }) => void (await db.run(sql`UPDATE products SET voided_at = 1 WHERE id = ${gone.id}`)));
  const granted = await Promise.all((await stationsOf(shop)).map((caller) => claimOf(caller, { needs: ["qr"] })()));
  expect(granted.map((each) => each?.job.job_ref ?? NOTHING).toSorted()).toEqual(good.toSorted());
  expect((await shop.admin.get("/aidc/jobs?state=CANCELLED")).body.data).toHaveLength(4);
});

test("one that fails with its job in hand takes none from the others, and leaves its own where it was", async () => {
  const shop = await printShop(w, { gtin: gtinOf((gtins += 1)) });
  const refs: string[] = [];
  for (let i = 0; i < STATIONS; i += 1) refs.push((await shop.issue()).job_ref);
  const stations = await stationsOf(shop);
  const failing = (caller: Caller) =>
    w.store.joint.write("fails", async (tx) => {
      const [mine] = await claim(tx, caller, { needs: ["qr"] }, signing);
      throw new Refusal("STALE_ATTEMPT", mine?.job.job_ref);
    });
  const settled = await Promise.allSettled(stations.map((caller, i) => (i === 2 ? failing(caller) : claimOf(caller, { needs: ["qr"] })())));
  expect(settled.map(({ status }) => status)).toEqual(stations.map((_, i) => (i === 2 ? "rejected" : "fulfilled")));
  const granted = settled.flatMap((end) => (end.status === "fulfilled" ? (end.value?.job.job_ref ?? []) : []));
  const left = (await shop.admin.get("/aidc/jobs?state=QUEUED")).body.data as { job_ref: string; attempt: number }[];
  expect(left).toMatchObject([{ attempt: 0 }]);
  expect([...granted, ...left.map((job) => job.job_ref)].toSorted()).toEqual(refs.toSorted());
});

test("said twice under one key it is one claim with one answer, beside others of all sorts; each is audited once", async () => {
  const shop = await printShop(w, { gtin: gtinOf((gtins += 1)) });
  for (let i = 0; i < 2 * STATIONS; i += 1) await shop.issue();
  const devices = await Promise.all(Array.from({ length: STATIONS }, (_, i) => shop.newDevice(`line ${i}`)));
  const said = devices.flatMap(({ api }) => {
    const key = { "idempotency-key": randomUUID() };
    const post = () => api.post("/aidc/jobs/claim", { needs: ["qr"] }, key);
    return [post(), post(), api.post("/aidc/jobs/claim", { needs: ["qr"] }), api.post("/aidc/jobs/claim", { needs: ["ink"] })];
  });
  const bound = shop.admin.post("/aidc/jobs/claim", { needs: ["qr"] });
  const answers = await Promise.all(said);
  expect((await bound).body.error.code).toBe("DEVICE_KEY_REQUIRED");
  expect(answers.map(({ status }) => status)).toEqual(devices.flatMap(() => [200, 200, 200, 400]));
  const refs = answers.map(({ body }) => body.job?.job_ref as string | undefined);
  for (const [i] of devices.entries()) expect(refs[4 * i]).toBe(refs[4 * i + 1]);
  expect(new Set(refs.filter(Boolean)).size).toBe(2 * STATIONS);
  const { data } = (await shop.admin.get("/audit-logs?action=print.claimed&limit=200")).body as { data: { subject: string }[] };
  expect(data.map(({ subject }) => subject).toSorted()).toEqual([...new Set(refs.filter((ref) => ref !== undefined))].toSorted());
});
