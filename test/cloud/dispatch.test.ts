// The dispatcher among many webhooks: order, patience with the slow, the end of the hopeless, what is held, what is forgotten, clocks and keys that change.
import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { backlog } from "../../cloud/domain/backlog.ts";
import { SCHEDULE_MS, settle } from "../../cloud/domain/tries.ts";
import { fanOut } from "../../cloud/domain/fan-out.ts";
import { forgetEnded, forgetEvents } from "../../cloud/domain/deliveries.ts";
import { claim, type Lane, look, overShare } from "../../cloud/domain/lanes.ts";
import { emit } from "../../cloud/domain/outbox.ts";
import { disable, markLane } from "../../cloud/domain/webhooks.ts";
import { eq, inArray } from "../../cloud/store/drizzle.ts";
import { auditHeads, deliveries as table, lanes, outbox, webhooks } from "../../cloud/store/schema.ts";
import { run } from "../../cloud/store/store.ts";
import { freshFolder } from "../endings.ts";
import { limits } from "#shared/limits.ts";
import { answering, ended, hooked, receiving, serialsOf, tried } from "../hooks.ts";
import { engine, freshDatabase, world } from "../world.ts";

const PRIVATE = { IMPRIMATUR_WEBHOOK_PRIVATE: "on" };
const w = await world({ settings: PRIVATE, clock: "stopped" });
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const OFTEN = { interval: 10 };
const MORE_AT_MOST = 50;
const FETCHED = "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'deliveries'";
const PLANS_ANEW = 6; // PostgreSQL makes five plans of a statement, and then keeps one

/** A receiver that takes so long, and knows how many tries it had at once. */
function atOnce(ms: number) {
  let open = 0;
  const tries = {
    most: 0,
    answer: (_n: number, response: { writeHead(status: number): { end(): void } }) => {
      open += 1;
      tries.most = Math.max(tries.most, open);
      setTimeout(() => {
        open -= 1;
        response.writeHead(204).end();
      }, ms);
    },
  };
  return tries;
}

/** No node works on its lane, and nothing of it waits for one. */
const rests = (id: string): Promise<boolean> =>
  w.store.read("lane", async ({ db }) =>
    (await db.select().from(lanes)).some(({ webhookId, owner, dueAt }) => webhookId === id && owner === null && dueAt !== 0),
  );

test("a few events of one webhook arrive one after another, in the order they happened", async () => {
  const tries = atOnce(20);
  const h = await hooked(w, ["print.confirmed"], tries.answer);
  const serials = Array.from({ length: 7 }, (_, i) => String(i)); // of eight that wait, two would go at once
  for (const serial of serials) await h.print(serial);
  await expect.poll(() => serialsOf(h.receiver.received), OFTEN).toEqual(serials);
  expect(tries.most).toBe(1);
});

test("a retry that is due goes before what happened later, however busy its webhook is", async () => {
  const held: ServerResponse[] = [];
  const h = await hooked(w, ["print.confirmed"], (n, response) => void (n === 0 ? response.writeHead(500).end() : held.push(response)));
  await h.print("failed");
  await h.latest(tried(1));
  for (const serial of ["before 1", "before 2"]) await h.print(serial);
  await expect.poll(async () => [held.length, (await h.deliveries()).length], OFTEN).toEqual([1, 3]);
  w.later(SCHEDULE_MS[0] * 1.2);
  await h.print("after");
  const order = ["before 1", "before 2", "failed", "after"];
  for (const [nth] of order.entries()) {
    await expect.poll(() => held.length, OFTEN).toBe(nth + 1);
    held[nth]?.writeHead(204).end();
  }
  await expect.poll(() => serialsOf(h.receiver.received), OFTEN).toEqual(["failed", ...order]);
});

test("many that wait go several at a time, begun in order and never more than the limit", async () => {
  const tries = atOnce(5);
  const h = await hooked(w, ["print.confirmed"], tries.answer);
  const count = 150;
  await w.store.write("burst", async (tx) => {
    for (let i = 0; i < count; i += 1) await emit(tx, { tenantId: h.tenantId }, "print.confirmed", { serials: [String(i)] });
  });
  await expect.poll(() => h.receiver.received.length, OFTEN).toBe(count);
  expect([tries.most > 1, tries.most <= limits.WEBHOOK_IN_FLIGHT_MAX]).toEqual([true, true]);
  const early = serialsOf(h.receiver.received).filter((serial, place) => Number(serial) >= place + limits.WEBHOOK_IN_FLIGHT_MAX);
  expect(early).toEqual([]); // nothing overtakes what wasn't even begun
});

test("a receiver that hangs holds up nobody but itself", async () => {
  const held: ServerResponse[] = [];
  let isStuck = true;
  const h = await hooked(w, ["print.confirmed"], (_n, response) => void (isStuck ? held.push(response) : response.writeHead(204).end()));
  const fast = await receiving();
  await h.add(fast.url);
  const began = performance.now();
  for (let i = 0; i < 40; i += 1) expect(await h.print(String(i))).toBe(2);
  await expect.poll(() => fast.received.length, OFTEN).toBe(40);
  const rounds = 1 + Math.floor((performance.now() - began) / limits.WEBHOOK_TRY_MAX_MS);
  expect(h.receiver.requests()).toBeLessThanOrEqual(rounds * limits.WEBHOOK_IN_FLIGHT_MAX);
  isStuck = false;
  for (const response of held) response.writeHead(204).end();
  const arrived = () => {
    w.later(SCHEDULE_MS[0]); // what hung for too long is tried again
    return new Set(serialsOf(h.receiver.received)).size;
  };
  await expect.poll(arrived, OFTEN).toBe(40);
});

test("a receiver that refused one event and is away for a moment at the next, days later, isn't disabled for that", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(400, 503, 204));
  await h.print();
  await h.latest(ended);
  w.later(limits.WEBHOOK_FAILING_MAX_MS * 2);
  await h.print();
  await h.latest(tried(1));
  expect((await h.admin.get(h.path)).body).toMatchObject({ enabled: true, failingSince: expect.any(String) });
  w.later(SCHEDULE_MS[0] * 1.2);
  await h.latest(ended);
  expect((await h.deliveries()).map(({ status }) => status)).toEqual(["delivered", "failed"]);
});

test("a webhook whose deliveries have waited for days for their first try is disabled though each is tried again: none would come to its end", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(400, 503));
  await h.print();
  await h.latest(ended);
  w.later(limits.WEBHOOK_FAILING_MAX_MS);
  await h.print();
  const { id } = await h.latest(tried(1));
  const failed = (createdAt: number) =>
    w.store.write("settle", async (tx) => {
      const row = await tx.db.select().from(table).where(eq(table.id, id)).get();
      if (!row) throw new Error("it isn't there");
      const delivery = { ...row, tries: 0, createdAt: tx.now - createdAt };
      const outcome = { status: 503, error: null, latencyMs: 1, head: null };
      const made = { delivery, url: "", sealed: [], at: tx.now, body: "", requestId: null, traceparent: null };
      await settle(tx, { made, outcome });
    });
  await failed(limits.WEBHOOK_FAILING_MAX_MS - 1);
  expect((await h.admin.get(h.path)).body).toMatchObject({ enabled: true });
  await failed(limits.WEBHOOK_FAILING_MAX_MS);
  expect((await h.admin.get(h.path)).body).toMatchObject({ enabled: false, disabledReason: "failing" });
});

test("what a receiver's old address failed at doesn't count against its new one", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(400));
  await h.print();
  await h.latest(ended);
  w.later(limits.WEBHOOK_FAILING_MAX_MS * 2);
  const elsewhere = await receiving(answering(400));
  expect((await h.admin.patch(h.path, { url: elsewhere.url })).body).toMatchObject({ enabled: true, failingSince: null });
  await h.print();
  await expect.poll(async () => (await h.deliveries()).map(({ status }) => status), OFTEN).toEqual(["failed", "failed"]);
  expect((await h.admin.get(h.path)).body).toMatchObject({ enabled: true, failingSince: expect.any(String) });
});

test("a webhook of which no try succeeds for days is disabled, which the audit log and its own data say; a success begins the days anew", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(500, 204, 500, 500));
  const after = async (ms: number, tries: number) => {
    w.later(ms);
    await h.print();
    await h.latest(tried(tries));
  };
  await h.print();
  await h.latest(tried(1));
  expect((await h.admin.get(h.path)).body).toMatchObject({ enabled: true, failingSince: expect.any(String) });
  w.later(SCHEDULE_MS[0] * 1.2);
  await h.latest(ended);
  expect((await h.admin.get(h.path)).body.failingSince).toBeNull();
  await after(4 * DAY_MS, 1);
  expect((await h.admin.get(h.path)).body).toMatchObject({ enabled: true, failingSince: expect.any(String) });
  w.later(limits.WEBHOOK_FAILING_MAX_MS);
  await h.latest(tried(2));
  expect((await h.admin.get(h.path)).body).toMatchObject({ enabled: true }); // it is tried again
  for (const [nth, ms] of SCHEDULE_MS.slice(1).entries()) {
    w.later(ms * 1.2);
    await h.latest(tried(nth + 3));
  }
  const { failingSince, ...shown } = (await h.admin.get(h.path)).body;
  expect(shown).toMatchObject({ enabled: false, disabledReason: "failing", disabledAt: expect.any(String) });
  const [row] = (await h.admin.get("/audit-logs?action=webhook.disabled")).body.data;
  expect(row).toMatchObject({
    subject: h.id,
    actor: { kind: "system" },
    details: { reason: "failing", url: h.receiver.url, failingSince },
  });
  expect(await h.print()).toBe(0);
  expect((await h.admin.get("/audit-logs/verify")).body.valid).toBe(true);
});

test("what waits when a webhook is disabled is held, its next try far off or not, and goes out in order when it is enabled again", async () => {
  let isOpen = false;
  const h = await hooked(w, ["print.confirmed"], (_n, response) => void response.writeHead(isOpen ? 204 : 500).end());
  for (const serial of ["1", "2", "3"]) await h.print(serial);
  await expect.poll(async () => (await h.deliveries()).map(({ attempts }) => attempts.length), OFTEN).toEqual([1, 1, 1]);
  expect((await h.admin.patch(h.path, { enabled: false })).body).toMatchObject({ enabled: false, disabledReason: "by_hand" });
  expect(await h.print("unheard")).toBe(0);
  await expect.poll(() => rests(h.id), OFTEN).toBe(true); // all that the change entails is done
  const statuses = async () => (await h.deliveries()).map(({ status }) => status);
  expect(await statuses()).toEqual(Array(3).fill("held"));
  isOpen = true;
  const before = h.receiver.received.length;
  expect((await h.admin.patch(h.path, { enabled: true })).body).toMatchObject({ enabled: true, disabledReason: null, disabledAt: null });
  await expect.poll(() => rests(h.id), OFTEN).toBe(true);
  expect(serialsOf(h.receiver.received.slice(before))).toEqual(["1", "2", "3"]);
  expect(await statuses()).toEqual(Array(3).fill("delivered"));
});

test("what waits for its next try is held, too, when a receiver says that it is gone", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(500, 500, 410));
  for (const serial of ["1", "2"]) await h.print(serial);
  await expect.poll(async () => (await h.deliveries()).map(({ attempts }) => attempts.length), OFTEN).toEqual([1, 1]);
  await h.print("3");
  await expect.poll(async () => (await h.admin.get(h.path)).body.disabledReason, OFTEN).toBe("gone");
  await expect.poll(() => rests(h.id), OFTEN).toBe(true);
  expect((await h.deliveries()).map(({ status }) => status)).toEqual(["failed", "held", "held"]);
});

test("a webhook that is deleted is sent nothing more, and its deliveries go with it", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(500));
  for (let i = 0; i < 100; i += 1) await h.print(String(i));
  expect((await h.admin.delete(h.path)).status).toBe(204);
  expect((await h.admin.get(h.path)).status).toBe(404);
  const left = () =>
    w.store.read("left", async ({ db }) => [
      (await db.select().from(table)).filter((row) => row.webhookId === h.id).length,
      (await db.select().from(lanes)).filter((row) => row.webhookId === h.id).length,
    ]);
  await expect.poll(left, OFTEN).toEqual([0, 0]);
  const onTheirWay = async () => /^webhook_tries_in_flight (\d+)/m.exec((await w.admin.get("/metrics")).text)?.[1];
  await expect.poll(onTheirWay, OFTEN).toBe("0"); // those that were begun before
  const told = h.receiver.requests();
  w.later(DAY_MS);
  expect([await h.print(), h.receiver.requests()]).toEqual([0, told]);
});

test("what is held of a webhook that is deleted goes at once, however much it is", async () => {
  const h = await hooked(w, ["print.confirmed"]);
  const count = 200;
  await w.store.write("held at once", async (tx) => {
    for (let i = 0; i < count; i += 1) await emit(tx, h, "print.confirmed", { serials: [String(i)] });
    await disable(tx, h.tenantId, h.id, "failing");
  });
  const states = () =>
    w.store.read("states", async ({ db }) => (await db.select().from(table)).filter(({ webhookId }) => webhookId === h.id));
  await expect.poll(async () => (await states()).filter(({ state }) => state === "held").length, OFTEN).toBe(count);
  await expect.poll(() => rests(h.id), OFTEN).toBe(true);
  expect((await h.admin.delete(h.path)).status).toBe(204);
  await expect.poll(async () => (await states()).length, OFTEN).toBe(0);
});

test("what came of a try is on record once, though the answer to the commit that says so was lost; a try of somebody else's beside it is noted", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(400));
  await h.print();
  const { id } = await h.latest(ended);
  const row = async () => (await w.store.read("delivery", ({ db }) => db.select().from(table).where(eq(table.id, id))))[0];
  const said = await row();
  const [attempt] = said?.attempts ?? [];
  if (!said || !attempt) throw new Error("there was no try");
  const before = { ...said, state: "pending" as const, attempts: [], tries: said.tries - 1, dueAt: 1, endedAt: null };
  const again = (at: number) =>
    w.store.write("settle again", (tx) =>
      settle(tx, {
        made: { delivery: before, url: "", sealed: [], at, body: "", requestId: null, traceparent: null },
        outcome: { status: attempt.status, error: attempt.error, latencyMs: attempt.latencyMs, head: attempt.responseHead },
      }),
    );
  const at = Date.parse(attempt.at);
  await again(at);
  expect(await row()).toEqual(said);
  await again(at + 1);
  expect((await row())?.attempts).toEqual([attempt, { ...attempt, at: new Date(at + 1).toISOString() }]);
});

test("deliveries that ended 30 days ago are forgotten with their events; what still waits is not", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(204, 500));
  await h.print("old");
  const { id } = await h.latest(ended);
  w.later(limits.WEBHOOK_KEEP_MS - HOUR_MS);
  await h.print("young");
  await h.latest(tried(1));
  const sweep = async () => {
    for (const forget of [forgetEnded, forgetEvents]) while ((await w.store.write("sweep", (tx) => forget(tx, 50))) === 50);
  };
  await sweep();
  expect(await h.deliveries()).toHaveLength(2);
  w.later(2 * HOUR_MS);
  await sweep();
  expect((await h.deliveries()).map(({ id }) => id)).not.toContain(id);
  expect(await h.deliveries()).toHaveLength(1);
  expect((await h.admin.post(`${h.path}/deliveries/${id}/redeliver`)).status).toBe(404);
  const events = await w.store.read("events", async ({ db }) =>
    (await db.select().from(outbox)).filter((row) => row.tenantId === h.tenantId),
  );
  expect(events).toHaveLength(1);
});

test("a delivery that is sent again and again shows its last tries", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(200));
  await h.print();
  const { id } = await h.latest(ended);
  const more = limits.WEBHOOK_ATTEMPTS_SHOWN_MAX + 2;
  for (let i = 0; i < more; i += 1) {
    await h.admin.post(`${h.path}/deliveries/${id}/redeliver`);
    await h.latest(ended);
  }
  const { attempts } = await h.latest(ended);
  const heads = Array.from({ length: limits.WEBHOOK_ATTEMPTS_SHOWN_MAX }, (_, i) => `answer ${i + 3}`);
  expect(attempts.map(({ responseHead }) => responseHead)).toEqual(heads);
});

test("what is sent again by hand while a try of it is on its way goes out once more, whatever came of that try", async () => {
  const held: ServerResponse[] = [];
  const h = await hooked(w, ["print.confirmed"], (n, response) => void (n === 0 ? held.push(response) : response.writeHead(204).end()));
  await h.print();
  await expect.poll(() => held.length, OFTEN).toBe(1);
  const [{ id } = { id: "" }] = await h.deliveries();
  await h.admin.post(`${h.path}/deliveries/${id}/redeliver`);
  held[0]?.writeHead(204).end();
  await expect.poll(() => h.receiver.requests(), OFTEN).toBe(2);
  expect(await h.latest(ended)).toMatchObject({ id, status: "delivered", attempts: [{ status: 204 }, { status: 204 }] });
});

test("a delivery whose event is forgotten ends, says so, and can't be sent again", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(204));
  await w.store.write("held at once", async (tx) => {
    await emit(tx, h, "print.confirmed", { serials: ["1"] });
    await disable(tx, h.tenantId, h.id, "failing");
  });
  await expect.poll(async () => (await h.deliveries()).map(({ status }) => status), OFTEN).toEqual(["held"]);
  await w.store.write("forgotten", ({ db }) => db.delete(outbox).where(eq(outbox.tenantId, h.tenantId)));
  await h.admin.patch(h.path, { enabled: true });
  const { id, ...delivery } = await h.latest(ended);
  expect(delivery).toMatchObject({ status: "exhausted", attempts: [{ status: null, error: "its event was forgotten" }] });
  expect((await h.admin.post(`${h.path}/deliveries/${id}/redeliver`)).body.error.message).toContain("forgotten");
  expect((await h.deliveries())[0]?.status).toBe("exhausted");
});

test("an event for a webhook that went before its deliveries were made leaves none", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(204));
  const goneId = randomUUID();
  await w.store.write("late", (tx) => emit(tx, h, "print.confirmed", { serials: ["1"] }, { listeners: [goneId, h.id] }));
  await expect.poll(() => h.receiver.requests(), OFTEN).toBe(1);
  const left = await w.store.read("left", ({ db }) => db.select().from(table).where(eq(table.webhookId, goneId)));
  expect(left).toEqual([]);
});

test("an event that nobody was told of yet isn't forgotten, however old it is", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(204));
  const kept = await w.store.write("an old event", async (tx) => {
    const { tenantId } = h;
    await emit(tx, { tenantId }, "print.confirmed", { serials: ["late"] });
    await tx.db
      .update(outbox)
      .set({ at: tx.now - limits.WEBHOOK_KEEP_MS - HOUR_MS })
      .where(eq(outbox.tenantId, tenantId));
    await forgetEvents(tx, 1_000); // in one unit: the dispatcher hasn't seen it
    return tx.db.select().from(outbox).where(eq(outbox.tenantId, tenantId));
  });
  expect(kept).toHaveLength(1);
  await expect.poll(() => serialsOf(h.receiver.received), OFTEN).toEqual(["late"]);
});

test("a clock that is set back delays no first try; one that leaps ahead makes a retry due once", async () => {
  const own = await world({ settings: PRIVATE, clock: "stopped" });
  const h = await hooked(own, ["print.confirmed"], answering(204, 500, 204));
  own.later(-2 * HOUR_MS);
  await h.print("after the clock went back");
  await h.latest(ended);
  await h.print("to be tried again");
  await h.latest(tried(1));
  own.later(6 * HOUR_MS);
  await h.latest(ended);
  await h.print("after the leap");
  await h.latest(ended);
  expect(serialsOf(h.receiver.received)).toEqual(["after the clock went back", "to be tried again", "to be tried again", "after the leap"]);
});

test("a clock that leaps ahead doesn't begin again what is on its way", async () => {
  const held: ServerResponse[] = [];
  const h = await hooked(w, ["print.confirmed"], (_n, response) => void held.push(response));
  const other = await receiving();
  await h.add(other.url);
  await h.print("1");
  await expect.poll(() => [held.length, other.received.length], OFTEN).toEqual([1, 1]);
  w.later(MINUTE_MS);
  for (const serial of ["2", "3"]) await h.print(serial);
  await expect.poll(() => other.received.length, OFTEN).toBe(3);
  expect(held).toHaveLength(1);
  for (const nth of [0, 1, 2]) {
    await expect.poll(() => held.length, OFTEN).toBe(nth + 1);
    held[nth]?.writeHead(204).end();
  }
  await h.latest(ended);
  expect(serialsOf(h.receiver.received)).toEqual(["1", "2", "3"]);
});

test("a secret that can't be opened with this node's key is told in the delivery, and a rotation mends it", async () => {
  const dataDir = freshFolder("seal");
  const databaseUrl = await freshDatabase();
  const begin = (key: string) => world({ dataDir, databaseUrl, settings: { ...PRIVATE, IMPRIMATUR_SEALING_KEY: key } });
  const first = await begin("the first sealing key, long enough");
  const h = await hooked(first, ["print.confirmed"]);
  const adminKey = (await h.admin.post("/api-keys", { name: "k", scopes: ["*:*"] })).body.data.secret;
  await first.close();
  const second = await begin("another sealing key, long enough");
  const admin = second.as(adminKey);
  const delivery = (await admin.post(`${h.path}/test`, {})).body;
  const now = async () => (await admin.get(`${h.path}/deliveries/${delivery.id}`)).body;
  await expect.poll(async () => (await now()).attempts[0]?.error, OFTEN).toContain("IMPRIMATUR_SEALING_KEY");
  await admin.post(`${h.path}/rotate-secret`);
  await admin.post(`${h.path}/deliveries/${delivery.id}/redeliver`);
  await expect.poll(async () => (await now()).status, OFTEN).toBe("delivered");
  await second.close();
});

test.runIf(engine === "postgres")("two nodes on one database: each try is made by one of them, and both work", async () => {
  const databaseUrl = await freshDatabase();
  const [one, two] = [await world({ databaseUrl, settings: PRIVATE }), await world({ databaseUrl, settings: PRIVATE })];
  const h = await hooked(two, ["print.confirmed"]); // who came last has the bootstrap key that lives
  const hooks = 20;
  const events = 20;
  for (let i = 1; i < hooks; i += 1) await h.add(`${h.receiver.url}/${i}`);
  const print = (node: typeof one, serial: string) =>
    node.store.write("emit", (tx) => emit(tx, { tenantId: h.tenantId }, "print.confirmed", { serials: [serial] }));
  const all = async () => {
    const rows = await one.store.read("all", async ({ db }) => db.select().from(table));
    return rows.filter(({ state }) => state === "delivered");
  };
  for (const [i, node] of [one, two, one, two].entries()) {
    await print(node, `one by one ${i}`); // who writes it hears of it first
    await expect.poll(async () => (await all()).length, OFTEN).toBe(hooks * (i + 1));
  }
  await Promise.all(Array.from({ length: events - 4 }, (_, i) => print(i % 2 === 0 ? one : two, String(i))));
  await expect.poll(async () => (await all()).length, OFTEN).toBe(hooks * events);
  expect((await all()).every(({ attempts }) => attempts.length === 1)).toBe(true);
  expect(h.receiver.requests()).toBe(hooks * events);
  expect(new Set(h.receiver.received.map(({ deliveryId }) => deliveryId)).size).toBe(hooks * events);
  const made = async (node: typeof one) =>
    Number(/webhook_tries_total\{answer="2xx"\} (\d+)/.exec((await node.as(two.adminKey).get("/metrics")).text)?.[1] ?? 0);
  const shares = async () => [await made(one), await made(two)] as const;
  // Now and then the same one is faster each time: the other writes until it was, too.
  let more = 0;
  for (let idle = (await shares()).indexOf(0); idle >= 0 && more < MORE_AT_MOST; idle = (await shares()).indexOf(0)) {
    more += 1;
    await print(idle === 0 ? one : two, `more ${more}`);
    await expect.poll(async () => (await all()).length, OFTEN).toBe(hooks * (events + more));
  }
  const [ofOne, ofTwo] = await shares();
  expect([ofOne + ofTwo, ofOne > 0, ofTwo > 0]).toEqual([hooks * (events + more), true, true]);
});

test("hundreds of receivers that hang leave the others as they were", async () => {
  const own = await world({ settings: PRIVATE });
  const held: ServerResponse[] = [];
  const h = await hooked(own, ["print.confirmed"], (_n, response) => void held.push(response));
  for (let i = 0; i < 60; i += 1) await Promise.all(Array.from({ length: 10 }, (_, n) => h.add(`${h.receiver.url}/${i}/${n}`)));
  expect(await h.print()).toBe(601);
  await expect.poll(() => h.receiver.requests(), OFTEN).toBeGreaterThan(500);
  const other = await hooked(own, ["print.confirmed"]);
  for (const serial of ["1", "2", "3"]) await other.print(serial);
  await expect.poll(() => serialsOf(other.receiver.received), OFTEN).toEqual(["1", "2", "3"]);
  for (const response of held) response.destroy(); // so that the end doesn't wait for them
});

test("a try of which it can't be written down what came of it, as its tenant's audit chain has lost its head, holds up nobody else's, and is written down once that is mended", async () => {
  const own = await world({ settings: PRIVATE });
  const damaged = await hooked(own, ["print.confirmed"], answering(410));
  const lost = await own.store.write("damage", (tx) =>
    tx.db.delete(auditHeads).where(eq(auditHeads.tenantId, damaged.tenantId)).returning(),
  );
  await damaged.print("1");
  await expect.poll(() => own.logged().some((line) => line.includes("has no audit chain")), OFTEN).toBe(true);
  const other = await hooked(own, ["print.confirmed"]);
  for (const serial of ["1", "2", "3"]) await other.print(serial);
  await expect.poll(() => serialsOf(other.receiver.received), OFTEN).toEqual(["1", "2", "3"]);
  await own.store.write("mend", (tx) => tx.db.insert(auditHeads).values(lost));
  expect((await damaged.latest(ended)).status).toBe("failed");
  expect(damaged.receiver.received).toHaveLength(1);
});

test("thousands of lanes of a few tenants leave room for the next one's; who has its share lets others go first", async () => {
  const many = (tenantId: string, count: number) =>
    Array.from({ length: count }, (_, n) => ({
      tenantId,
      webhookId: `${tenantId} ${n}`,
      leaseUntil: 0,
      inFlight: new Set<string>(),
      restedRevision: null,
    }));
  expect(overShare(many("alone", 1_000), 3_000)).toEqual([]);
  expect(overShare([...many("first", 600), ...many("second", 600), ...many("third", 599)], 2_400)).toEqual(["first", "second"]);
  const own = await world({ settings: PRIVATE, clock: "stopped" });
  await own.store.write("lanes", async (tx) => {
    for (const { tenantId, webhookId, leaseUntil } of [...many("greedy", 3), ...many("modest", 1)])
      await tx.db.insert(lanes).values({ tenantId, webhookId, leaseUntil, dueAt: 0, owner: null, revision: 1 });
    const mine = await claim(tx, "a node", 2);
    expect(mine.map(({ webhookId }) => webhookId)).toEqual(["greedy 0", "greedy 1"]);
    expect((await look(tx, "a node", mine[1]!, 0)).lane).toBeUndefined();
    expect((await claim(tx, "a node", 9, ["greedy"])).map(({ webhookId }) => webhookId)).toEqual(["modest 0"]);
    const rest = [...(await claim(tx, "a node", 1)), ...(await claim(tx, "a node", 1))];
    expect(rest.map(({ webhookId }) => webhookId)).toEqual(["greedy 2", "greedy 1"]); // behind what waits since before
    await tx.db.delete(lanes);
  });
});

test.runIf(engine === "postgres").for(["deleted", "disabled"])(
  "of a %s webhook's deliveries a slice is looked at in a turn, also by a plan that the server made when there were none",
  async (end) => {
    const own = await world({ settings: PRIVATE, clock: "stopped" });
    const { id: webhookId, tenantId } = await hooked(own, ["print.confirmed"]);
    const looked = own.store.write("look", async (tx) => {
      if (end === "deleted") await tx.db.delete(webhooks);
      else await tx.db.update(webhooks).set({ enabled: false });
      const looks = async () => {
        await tx.db.delete(lanes);
        await tx.db.insert(lanes).values({ webhookId, tenantId, dueAt: 0, owner: "a node", leaseUntil: 0, revision: 1 });
        return look(tx, "a node", { webhookId, tenantId, leaseUntil: 0, inFlight: new Set(), restedRevision: null });
      };
      await run("ANALYZE deliveries", [], "run");
      for (let n = 0; n < PLANS_ANEW; n += 1) await looks();
      const columns = "webhook_id, id, tenant_id, event_id, type, state, due_at, tries, by_hand, attempts, created_at";
      const later = `SELECT ?, 'd' || n, ?, 'e', 'print.confirmed', 'pending', ${tx.now + DAY_MS}, 1, 0, '[]', 1 FROM generate_series(1, 4000) AS n`;
      await run(`INSERT INTO deliveries (${columns}) ${later}`, [webhookId, tenantId], "run");
      const fetched = async () => Number((await run(FETCHED, [], "get")).rows[0]);
      const before = await fetched();
      const { again } = await looks();
      throw new Error(JSON.stringify({ again, isCheap: (await fetched()) - before < 500 })); // nothing of it stays
    });
    await expect(looked).rejects.toThrow(JSON.stringify({ again: true, isCheap: true }));
  },
);

test("a turn takes no more lanes than it asks for, also by a plan that the server made when it knew of none", async () => {
  const own = await world({ settings: PRIVATE, clock: "stopped" });
  await own.store.write("lanes", async (tx) => {
    if (engine === "postgres") await run("ANALYZE lanes", [], "run");
    for (let n = 0; n < PLANS_ANEW; n += 1) expect(await claim(tx, "a node", 2)).toEqual([]);
    const many = Array.from({ length: 40 }, (_, n) => ({
      tenantId: "t",
      webhookId: `${n}`,
      dueAt: 0,
      owner: null,
      leaseUntil: 0,
      revision: 1,
    }));
    await tx.db.insert(lanes).values(many);
    expect(await claim(tx, "a node", 2)).toHaveLength(2);
    await tx.db.delete(lanes);
  });
});

test("an event of one tenant doesn't wait for the many that another has for its many webhooks", async () => {
  const own = await world({ settings: PRIVATE });
  const held: ServerResponse[] = [];
  const busy = await hooked(own, ["print.confirmed"], (_n, response) => void held.push(response));
  await Promise.all(Array.from({ length: 39 }, (_, n) => busy.add(`${busy.receiver.url}/${n}`)));
  const other = await hooked(own, ["print.confirmed"]);
  await own.store.write("burst", async (tx) => {
    for (let i = 0; i < 150; i += 1) await emit(tx, busy, "print.confirmed", { serials: [String(i)] });
  });
  await other.print("1");
  await expect.poll(() => serialsOf(other.receiver.received), OFTEN).toEqual(["1"]);
  expect((await own.store.read("backlog", backlog)).eventsWaiting).toBeGreaterThan(0);
  for (const response of held) response.destroy();
});

test("however many tenants have events that wait, each has its turn", async () => {
  const own = await world({ settings: PRIVATE });
  const turns: string[][] = [];
  await own.store.write("turns", async (tx) => {
    const tenants = Array.from({ length: 40 }, (_, n) => `tenant ${String(n).padStart(2, "0")}`);
    for (const tenantId of tenants)
      for (const listeners of [["a", "b", "c"], ["d"]]) await emit(tx, { tenantId }, "print.confirmed", { serials: ["1"] }, { listeners });
    const waiting = async () =>
      new Map((await tx.db.select().from(outbox)).map(({ id, tenantId, targets }) => [id, { tenantId, left: targets?.length ?? 0 }]));
    for (let last: string | undefined = "", before = await waiting(), more = true; more;) {
      const turn: { more: boolean; lastTenant: string } = await fanOut(tx, 32, last);
      const after = await waiting();
      turns.push([...after].filter(([id, { left }]) => left < (before.get(id)?.left ?? 0)).map(([, { tenantId }]) => tenantId));
      [last, before, more] = [turn.lastTenant, after, turn.more];
    }
    expect([...(await waiting()).values()].every(({ left }) => left === 0)).toBe(true);
    const firstTurns = turns.slice(0, 3).flat();
    expect(new Set(firstTurns).size).toBe(40);
  });
});

// On SQLite units follow one another.
test.runIf(engine === "postgres")(
  "two nodes that make deliveries for each other's lanes while they let go of their own, or keep them, don't wait crosswise",
  async () => {
    const [one, other] = [await hooked(w, ["print.confirmed"]), await hooked(w, ["print.confirmed"])];
    for (const inFlight of [[], ["a try"]]) {
      await w.store.write("lanes", async (tx) => {
        const theirs = [[one, "node 2"], [other, "node 1"]] as const; // oxfmt-ignore
        for (const [{ id }, owner] of theirs)
          await tx.db
            .update(lanes)
            .set({ owner, leaseUntil: tx.now + HOUR_MS, dueAt: null })
            .where(eq(lanes.webhookId, id));
      });
      const laneOf = ({ id, tenantId }: typeof one): Lane => ({
        webhookId: id,
        tenantId,
        leaseUntil: 0,
        inFlight: new Set(inFlight),
        restedRevision: null,
      });
      const [areMarked, areLookedAt] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      let [units, marked, lookedAt] = [0, 0, 0];
      const turn = (owner: string, marks: typeof one, looksAt: typeof one) =>
        w.store.write("turn", async (tx) => {
          units += 1;
          if (units > 2) areLookedAt.resolve(); // one had to give way
          await markLane.get({ webhookId: marks.id });
          if ((marked += 1) === 2) areMarked.resolve();
          await areMarked.promise;
          const seen = await look(tx, owner, laneOf(looksAt));
          if ((lookedAt += 1) === 2) areLookedAt.resolve();
          await areLookedAt.promise; // so long each keeps what it marked
          return seen;
        });
      const looks = await Promise.all([turn("node 1", one, other), turn("node 2", other, one)]);
      expect(looks.map(({ lane, again }) => [lane?.webhookId, again])).toEqual([[other.id, true], [one.id, true]]); // oxfmt-ignore
      expect(units).toBe(2); // none was begun anew
    }
    const isTheirs = inArray(lanes.webhookId, [one.id, other.id]);
    await w.store.write("lanes", async (tx) => void (await tx.db.update(lanes).set({ owner: null, leaseUntil: 0 }).where(isTheirs)));
  },
);

test.runIf(engine === "postgres")(
  "what tenants have waiting is found at once, whatever the server took a quiet hour, or a long past, for",
  async () => {
    const enough = new Error("enough");
    const looking = w.store.write("turn", async (tx) => {
      const add = (id: string, tenantId: string, count: number, targets: string | null) =>
        run(
          "INSERT INTO outbox (id, tenant_id, type, at, body, targets) SELECT ? || lpad(n::text, 8, '0'), ?, 'print.confirmed', 1, '{}', ? FROM generate_series(1, ?) n",
          [id, tenantId, targets, count],
          "run",
        );
      const looked = async () =>
        Number(
          (await run("SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'outbox'", [], "get")).rows[0],
        );
      const looksOfATurn = async () => {
        const before = await looked();
        await fanOut(tx, 32);
        return (await looked()) - before;
      };
      await add("a", "busy", 20_000, null);
      await run("ANALYZE outbox", [], "run");
      await add("b", "flooded", 10_000, "[]");
      await add("c", "other", 100, "[]");
      expect(await looksOfATurn()).toBeLessThan(1_000);
      await run("ANALYZE outbox", [], "run");
      await add("d", "busy", 1, "[]");
      expect(await looksOfATurn()).toBeLessThan(1_000);
      throw enough;
    });
    await expect(looking).rejects.toBe(enough);
  },
);

test("while no dispatcher can work, how late the events are is told, though no webhook has anything to try again", async () => {
  const broken = await world({ settings: PRIVATE, clock: "stopped" });
  const lateMs = async () => (await broken.store.read("backlog", backlog)).dispatchLateMs;
  const h = await hooked(broken, ["print.confirmed"]);
  await h.print("1");
  await expect.poll(() => h.receiver.received.length, OFTEN).toBe(1);
  broken.later(HOUR_MS);
  await expect.poll(lateMs, OFTEN).toBe(0); // once what came of the try is written down
  const unreadable = ["0", h.tenantId, "print.confirmed", Date.now() + HOUR_MS, "{}", "["];
  await broken.store.write("damage", () =>
    run("INSERT INTO outbox (id, tenant_id, type, at, body, targets) VALUES (?, ?, ?, ?, ?, ?)", unreadable, "run"),
  );
  await h.print("2");
  await expect.poll(() => broken.logged().some((line) => line.includes("dispatch-failed")), OFTEN).toBe(true);
  broken.later(HOUR_MS);
  expect(await lateMs()).toBeGreaterThan(HOUR_MS - 60_000);
  expect(new Set(serialsOf(h.receiver.received))).toEqual(new Set(["1"])); // again where the clock was turned before its answer was kept
});
