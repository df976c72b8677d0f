// What two transactions on PostgreSQL do to each other where the one deletes a webhook and the other makes a delivery of it.
import { Client as Connection } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { onServer } from "../../fixtures/postgres.ts";
import { hooked } from "../hooks.ts";
import { freshDatabase, world } from "../world.ts";

const databaseUrl = (await freshDatabase("postgres")) ?? "";
const w = await world({ databaseUrl, clock: false, settings: { IMPRIMATUR_WEBHOOK_PRIVATE: "on" } });

/** A transaction of somebody else's. */
async function another() {
  const hand = new Connection({ connectionString: databaseUrl });
  await hand.connect();
  onTestFinished(() => hand.end());
  await hand.query("BEGIN");
  return hand;
}
const HELD_UP = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0";
const oneWaits = async (hand: Connection) => {
  await expect.poll(async () => (await hand.query(HELD_UP)).rowCount, { interval: 5 }).toBe(1);
};
const noneIsLeft = async (hand: Connection) => {
  const left = async () => (await hand.query("SELECT id FROM deliveries UNION ALL SELECT webhook_id FROM lanes")).rows;
  await expect.poll(left, { timeout: 5_000 }).toEqual([]);
};

test("a delivery that another node makes while a deleted webhook's lane goes, goes as well", async () => {
  let answer = () => {};
  const h = await hooked(w, ["print.confirmed"], (_, response) => void (answer = () => response.end()));
  for (const serial of ["1", "2"]) await h.print(serial);
  await expect.poll(async () => [h.receiver.requests(), (await h.deliveries()).length]).toEqual([1, 2]);
  const id = (await h.deliveries())[0]?.id;
  const [holder, node] = [await another(), await another()];
  await holder.query("SELECT 1 FROM deliveries WHERE id = $1 FOR UPDATE", [id]);
  expect((await h.admin.delete(h.path)).status).toBe(204);
  answer(); // and so its lane is looked at
  await oneWaits(node);
  await node.query("UPDATE lanes SET due_at = 0, revision = revision + 1 WHERE webhook_id = $1", [h.id]);
  const columns = "tenant_id, event_id, type, state, due_at, tries, by_hand, attempts, created_at";
  await node.query(
    `INSERT INTO deliveries (webhook_id, id, ${columns}) SELECT webhook_id, 'late', ${columns} FROM deliveries WHERE id = $1`,
    [id],
  );
  await holder.query("COMMIT");
  await oneWaits(node);
  await node.query("COMMIT");
  await noneIsLeft(node);
});

test("a webhook that is deleted while it is tried out isn't there, and leaves nothing", async () => {
  const h = await hooked(w, ["print.confirmed"]);
  const holder = await another();
  await holder.query("LOCK TABLE outbox IN SHARE MODE");
  const tried = h.admin.post(`${h.path}/test`, {});
  await oneWaits(holder);
  expect((await h.admin.delete(h.path)).status).toBe(204);
  await expect.poll(async () => (await holder.query("SELECT 1 FROM lanes")).rowCount).toBe(0);
  await holder.query("COMMIT");
  expect((await tried).status).toBe(404);
  await noneIsLeft(holder);
});

test("a deleted webhook's deliveries go to the last, also where the node before is still removing some as its lease has run out", async () => {
  const columns = "webhook_id, id, tenant_id, event_id, type, state, due_at, tries, by_hand, attempts, created_at";
  const many = "SELECT 'gone', 'd' || n, 't', 'e', 'print.confirmed', 'pending', 1, 0, 0, '[]', 1 FROM generate_series(1000, 1299) AS n";
  await onServer(databaseUrl, `INSERT INTO deliveries (${columns}) ${many}`);
  const before = await another();
  const slice = await before.query("DELETE FROM deliveries WHERE webhook_id = 'gone' AND id < 'd1064'");
  expect(slice.rowCount).toBe(64);
  await onServer(databaseUrl, "INSERT INTO lanes VALUES ('gone', 't', 0, 'the node before', 0, 1)");
  await oneWaits(before);
  await before.query("COMMIT");
  await noneIsLeft(before);
});
