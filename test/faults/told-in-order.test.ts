// What is told of a label comes in the order in which it came true, also where whoever began first had to wait for a row that somebody held.
import { setTimeout as sleep } from "node:timers/promises";
import { Client as Connection } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { gtinOf } from "../../fixtures/gtin.ts";
import { goodItems, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { productMaker } from "../../fixtures/publishing.ts";
import { receiving } from "../hooks.ts";
import { freshDatabase, world } from "../world.ts";

const databaseUrl = (await freshDatabase("postgres")) ?? "";
const w = await world({ databaseUrl, clock: false, settings: { IMPRIMATUR_WEBHOOK_PRIVATE: "on" } });
const shop = await printShop(w, { gtin: gtinOf(935_000) });

/** A hand on a row: who needs it waits, as many as are asked for, until it lets go. */
async function holding(row: string, id: string) {
  const hand = new Connection({ connectionString: databaseUrl });
  await hand.connect();
  const letGo = () => hand.end();
  onTestFinished(letGo);
  await hand.query("BEGIN");
  await hand.query(`SELECT 1 FROM ${row} = $1 FOR UPDATE`, [id]);
  // Of this database: the server is all test files'.
  const heldUp = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0";
  const waits = async (count: number) => {
    await expect.poll(async () => (await hand.query(heldUp)).rowCount, { interval: 5 }).toBe(count);
  };
  return { waits, letGo };
}

async function scanned() {
  const { serial } = await shop.issue();
  const claimed = await shop.device.claim({ lease_seconds: 600 });
  await shop.device.upTo(claimed, "SCAN_VERIFIED");
  return { serial: serial as string, seal: () => shop.device.say(claimed, sealOf(goodItems(claimed))) };
}

test("of a label that is reported as failed and then sealed, it is told last that it is printed", async () => {
  const { admin } = shop;
  const receiver = await receiving();
  const listen = async (...events: string[]) => (await admin.post("/webhooks", { url: receiver.url, events })).body.id as string;
  const other = await listen("product.created");
  await listen("print.confirmed", "print.failed");
  const { serial, seal } = await scanned();
  const deliveries = await holding("lanes WHERE webhook_id", other); // both events are written before any of them is sent
  await productMaker(admin)({ gtin: gtinOf(935_001) }, "none");
  await deliveries.waits(1);
  const label = await holding("serials WHERE serial", serial);
  const failed = admin.post("/carriers/print-status", { results: [{ serial, status: "failed", reason: "torn" }] });
  await label.waits(2);
  const sealed = seal();
  await label.waits(3);
  await label.letGo();
  expect([(await failed).status, (await sealed).status]).toEqual([200, 200]);
  expect((await admin.get(`/carriers/${serial}`)).body.metadata.print.status).toBe("printed");
  await deliveries.letGo();
  const told = () => receiver.received.map(({ event }) => event.type).filter((type) => type.startsWith("print."));
  await expect.poll(told).toHaveLength(2);
  expect(told()).toEqual(["print.failed", "print.confirmed"]);
});

test("a void that had to wait while the label was sealed ends what the seal began", async () => {
  const { serial, seal } = await scanned();
  const product = await holding("products WHERE id", shop.product.id);
  const voided = shop.admin.post(`/products/${shop.product.id}/void`, { reason: "stolen", serial });
  await product.waits(1);
  await sleep(20);
  expect((await seal()).status).toBe(200);
  await product.letGo();
  expect((await voided).status).toBe(200);
  const thing = encodeURIComponent(`https://id.gs1.org/01/${shop.gtin}/21/${serial}`);
  const { eventList } = (await shop.admin.get(`/epcis/epcs/${thing}/events`)).body.epcisBody.queryResults.resultsBody;
  expect(eventList.map(({ bizStep }: { bizStep: string }) => bizStep)).toEqual(["decommissioning", "commissioning"]);
});

test("what another system said while a label of the serial was claimed warns its next job, though saying it was begun before", async () => {
  const { admin, device, gtin } = shop;
  const { serial, job_ref: ref } = await shop.issue({ max_attempts: 1, priority: 1 });
  const { id: productId } = await productMaker(admin)({ gtin: gtinOf(935_002) }, "none");
  const [unprinted] = (await admin.post("/carriers/batch", { productId, count: 1 })).body.serials;
  const product = await holding("products WHERE id", productId);
  const told = admin.post("/carriers/print-status", { results: [serial, unprinted].map((its) => ({ serial: its, status: "printed" })) });
  await product.waits(1);
  await sleep(20);
  const claimed = await device.claim();
  expect(claimed.job).toMatchObject({ job_ref: ref, duplicate_risk: false });
  await product.letGo();
  expect((await told).body.printed).toHaveLength(2);
  await device.upTo(claimed, "SPOOL_SUBMITTED");
  await device.say(claimed, { status: "FAILED", reason: "ribbon out", evidence: { label_disposition: { outcome: "destroyed" } } });
  await expect.poll(async () => (await admin.get(`/aidc/jobs/${ref}`)).body.state, { timeout: 30_000 }).toBe("DEAD_LETTER");
  const actor = { kind: "operator", id: "op-7" };
  await admin.post("/aidc/orphans", { job_ref: ref, attempt_id: claimed.attempt_id, evidence: {}, disposition: "destroyed", actor });
  expect((await admin.post("/aidc/jobs", { gtin, serial })).body.duplicate_risk).toBe(true);
});
