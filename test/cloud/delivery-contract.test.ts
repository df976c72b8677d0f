// The delivery contract of the specification, clause by clause; the number stands in the name of each test.
import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { SCHEDULE_MS } from "../../cloud/domain/tries.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { signatureFault } from "../../fixtures/receiver.ts";
import type { World } from "../../fixtures/world.ts";
import { eventNames, eventTable } from "#shared/events.ts";
import { type Answer, answering, ended, gapMs, type Hooked, hooked, receiving, tried } from "../hooks.ts";
import { world } from "../world.ts";

const PRIVATE = { IMPRIMATUR_WEBHOOK_PRIVATE: "on" };
const w = await world({ settings: PRIVATE, clock: "stopped" });
/** One that waits for no answer for long. */
const hasty = await world({ settings: PRIVATE, clock: "stopped", tryMaxMs: 300 });
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const hex = (secret: string, text: string) => createHmac("sha256", secret).update(text).digest("hex");
const halfway: Answer = (_n, response) => void response.socket?.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
const firstOf = ({ receiver }: Hooked) => receiver.received[0]!;
const standard = (headers: unknown) => headers as Record<string, string>;

test("clause 1: a delivery carries V1, timestamp, V2 and the headers of Standard Webhooks, over the very bytes sent", async () => {
  const h = await hooked(w, ["print.confirmed"]);
  await h.print("ü-1");
  const { id } = await h.latest(ended);
  const { headers, body } = firstOf(h);
  const at = String(headers["x-service-timestamp"]);
  expect(at).toMatch(/^\d{10}$/);
  expect(headers).toMatchObject({
    "content-type": "application/json; charset=utf-8",
    "x-service-delivery": id,
    "x-service-signature": `sha256=${hex(h.secret, body)}`,
    "x-service-signature-v2": `t=${at},v2=${hex(h.secret, `${at}.${body}`)}`,
    "webhook-id": id,
    "webhook-timestamp": at,
  });
  expect(new Webhook(h.secret).verify(body, standard(headers))).toEqual(JSON.parse(body));
  expect(() => new Webhook(h.secret).verify(`${body} `, standard(headers))).toThrow("No matching signature");
  expect(() => new Webhook("whsec_b3RoZXI=").verify(body, standard(headers))).toThrow("No matching signature");
});

test("clause 1: the document names every header that says something of a delivery, the request's that it came from too", async () => {
  const h = await hooked(w, ["print.confirmed"]);
  const { headers: answered } = await h.admin.post(`${h.path}/test`, {});
  await h.latest(ended);
  const { headers } = firstOf(h);
  expect(headers["x-correlation-id"]).toBe(answered.get("x-correlation-id"));
  const { parameters } = (await w.nobody.get("/openapi.json")).body.webhooks["print.confirmed"].post;
  const told = parameters.map(({ name }: { name: string }) => name.toLowerCase());
  expect(told).toEqual(expect.arrayContaining(Object.keys(headers).filter((name) => /^(x-|webhook)/.test(name))));
});

test("clause 2: a receiver refuses a timestamp that is more than 5 minutes off, in either direction, whatever its signature", async () => {
  const h = await hooked(w, ["print.confirmed"]);
  await h.print();
  await h.latest(ended);
  const { headers, body } = firstOf(h);
  const sentAt = Number(headers["x-service-timestamp"]) * 1000;
  const judged = (later: number, secrets = [h.secret]) => signatureFault(headers, Buffer.from(body), secrets, sentAt + later);
  expect([judged(0), judged(5 * MINUTE_MS), judged(-5 * MINUTE_MS)]).toEqual([undefined, undefined, undefined]);
  expect([judged(5 * MINUTE_MS + 1_000), judged(-5 * MINUTE_MS - 1_000)]).toEqual(
    Array(2).fill("the timestamp is more than five minutes off"),
  );
  expect([judged(0, ["whsec_x"]), judged(0, [])]).toEqual(Array(2).fill("the signature is wrong"));
  const moved = {
    ...headers,
    "x-service-signature-v2": String(headers["x-service-signature-v2"]).replace(/t=\d+/, `t=${sentAt / 1000 + 60}`),
  };
  expect(signatureFault(moved, Buffer.from(body), [h.secret], sentAt)).toBe("the signature is wrong");
});

test("clause 2: a retry is signed at its own time, so that it is not stale when it comes after hours", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(500, 204));
  await h.print();
  await h.latest(tried(1));
  w.later(6 * MINUTE_MS);
  await h.latest(ended);
  const [first, second] = h.receiver.received.map(({ headers }) => Number(headers["x-service-timestamp"]));
  expect(second! - first!).toBeGreaterThanOrEqual(360);
});

test("clause 3: the delivery id and the body stay the same across retries, and differ between endpoints only in the id", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(503, 500, 204));
  const other = await receiving();
  await h.add(other.url);
  expect(await h.print()).toBe(2);
  for (const tries of [1, 2]) {
    await h.latest(tried(tries));
    w.later(SCHEDULE_MS[tries - 1]! * 1.2);
  }
  const { id, attempts } = await h.latest(ended);
  expect(attempts.map(({ status }) => status)).toEqual([503, 500, 204]);
  expect(h.receiver.received.map(({ deliveryId }) => deliveryId)).toEqual([id, id, id]);
  await expect.poll(() => other.received.length).toBe(1);
  const bodies = [...h.receiver.received, ...other.received].map(({ body }) => body);
  expect([new Set(bodies).size, bodies.length]).toEqual([1, 4]);
  expect(other.received[0]?.deliveryId).not.toBe(id);
});

test.each([400, 401, 404, 408, 409, 422, 429])("clause 4: a %i ends the delivery without a retry", async (status) => {
  const h = await hooked(w, ["print.confirmed"], answering(status));
  await h.print();
  const delivery = await h.latest(ended);
  expect(delivery).toMatchObject({ status: "failed", nextTryAt: null, attempts: [{ status, responseHead: "answer 0", nextTryAt: null }] });
  expect((await h.admin.get(`${h.path}/deliveries?status=failed`)).body.data).toEqual([delivery]);
  w.later(24 * HOUR_MS);
  await h.admin.post(`${h.path}/test`, {}); // something after it, so that the dispatcher has surely looked
  await h.latest(ended);
  expect(h.receiver.received).toHaveLength(2);
  expect((await h.admin.get(h.path)).body.enabled).toBe(true);
});

test.each([
  ["never ends", hasty, (_n, response) => void response.writeHead(404).write("no, be")],
  ["breaks off", w, (_n, response) => void response.socket?.end("HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nno, be")],
] satisfies [string, World, Answer][])("clause 4: so does a 404 whose text %s", async (_name, at, answer) => {
  const h = await hooked(at, ["print.confirmed"], answer);
  await h.print();
  expect(await h.latest(ended)).toMatchObject({
    status: "failed",
    attempts: [{ status: 404, error: null, responseHead: "no, be", nextTryAt: null }],
  });
});

test("clause 4: a 410 ends it and disables the webhook, which the audit log says; a redelivery by hand is sent all the same", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(410, 204));
  await h.print("first");
  const { id } = await h.latest(ended);
  expect((await h.admin.get(h.path)).body).toMatchObject({ enabled: false, disabledReason: "gone", disabledAt: expect.any(String) });
  const [row] = (await h.admin.get("/audit-logs?action=webhook.disabled")).body.data;
  expect(row).toMatchObject({ subject: h.id, actor: { kind: "system", name: "dispatcher" }, details: { reason: "gone", deliveryId: id } });
  expect(await h.print("second")).toBe(0);
  expect((await h.admin.post(`${h.path}/deliveries/${id}/redeliver`)).status).toBe(202);
  expect(await h.latest(({ status }) => status === "delivered")).toMatchObject({ id, attempts: [{ status: 410 }, { status: 204 }] });
});

test.each([
  ["500", w, answering(500)],
  ["301, which is not followed", w, answering(301)],
  ["a timeout", hasty, () => {}],
  ["a reset", w, (_n, response) => response.socket?.resetAndDestroy()],
  ["a close in the middle of the body", w, halfway],
] satisfies [string, World, Answer][])("clause 4: after %s it is tried again", async (_name, at, answer) => {
  const h = await hooked(at, ["print.confirmed"], answer);
  await h.print();
  const { status, attempts, nextTryAt } = await h.latest(tried(1));
  expect([status, nextTryAt]).toEqual(["pending", attempts[0]?.nextTryAt]);
  at.later(SCHEDULE_MS[0] * 1.2);
  await h.latest(tried(2));
});
test.each([
  ["in the middle of its answer", "the connection ended in the middle of the answer", halfway],
  ["before it answered", "socket hang up", (_n, response) => void response.socket?.end()],
] satisfies [string, string, Answer][])("of a receiver that hung up %s the try says so", async (_name, error, answer) => {
  const h = await hooked(w, ["print.confirmed"], answer);
  await h.print();
  expect(await h.latest(tried(1))).toMatchObject({ attempts: [{ status: null, error, responseHead: null }] });
});
test("clause 4: the back-off is 5 s, 30 s, 2 min, 15 min, 1 h, 4 h, 12 h, each jittered by a tenth; then it is exhausted", async () => {
  expect(SCHEDULE_MS).toEqual([5_000, 30_000, 2 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS]);
  const [h, other] = [await hooked(w, ["print.confirmed"], answering(500)), await hooked(w, ["print.confirmed"])];
  await h.print();
  for (const [n, delay] of SCHEDULE_MS.entries()) {
    const { attempts, status } = await h.latest(tried(n + 1));
    const gap = gapMs(attempts.at(-1)!);
    expect([n, status, gap >= delay * 0.9, gap <= delay * 1.1]).toEqual([n, "pending", true, true]);
    w.later(gap - 1);
    await other.print(); // something else, so that the dispatcher has surely looked
    await other.latest(ended);
    w.later(1);
  }
  const last = await h.latest(tried(SCHEDULE_MS.length + 1));
  const { attempts } = last;
  expect(attempts.slice(1).map(({ at }) => at)).toEqual(attempts.slice(0, -1).map(({ nextTryAt }) => nextTryAt)); // none before its time
  expect(last).toMatchObject({ status: "exhausted", nextTryAt: null, endedAt: expect.any(String) });
  expect((await h.admin.get(`${h.path}/deliveries?status=exhausted`)).body.data).toEqual([last]);
  expect((await h.admin.get(`${h.path}/deliveries?status=pending`)).body.data).toEqual([]);
});

test("clause 4: a redelivery by hand has the same delivery id and begins a new round of tries", async () => {
  const h = await hooked(w, ["print.confirmed"], answering(400, 500, 204));
  await h.print();
  const { id } = await h.latest(ended);
  const again = await h.admin.post(`${h.path}/deliveries/${id}/redeliver`);
  expect([again.status, again.body]).toMatchObject([202, { id, status: "pending", attempts: [{ status: 400 }], endedAt: null }]);
  await h.latest(tried(2));
  w.later(SCHEDULE_MS[0] * 1.2);
  expect(await h.latest(ended)).toMatchObject({ id, status: "delivered", attempts: [{ status: 400 }, { status: 500 }, { status: 204 }] });
  expect(new Set(h.receiver.received.map(({ deliveryId }) => deliveryId))).toEqual(new Set([id]));
  const [row] = (await h.admin.get("/audit-logs?action=webhook.redelivered")).body.data;
  expect(row).toMatchObject({ subject: h.id, details: { deliveryId: id, type: "print.confirmed" } });
});

test("clauses 5 and 6: every event of the catalogue is a row before it is sent, and survives a restart between the two", async () => {
  let isOpen = false;
  const h = await hooked(w, [...eventNames], (_n, response) => void (isOpen ? response.writeHead(204).end() : response.socket?.destroy()));
  for (const type of eventNames) expect([type, await h.emit(type, eventTable[type].example as never)]).toEqual([type, 1]);
  await w.restart();
  isOpen = true;
  const delivered = async () => {
    w.later(SCHEDULE_MS[0]); // what was still on its way may have failed just now
    return (await h.deliveries()).filter(({ status }) => status === "delivered").length;
  };
  await expect.poll(delivered).toBe(13);
  const told = (await h.deliveries()).map(({ id, type }) => `${type} ${id}`).toSorted();
  expect([...new Set(h.receiver.received.map(({ deliveryId, body }) => `${JSON.parse(body).type} ${deliveryId}`))].toSorted()).toEqual(
    told,
  );
  expect(told).toHaveLength(13);
});

test("clause 6: what an effect that fails would have told is never sent", async () => {
  const h = await hooked(w, ["product.created"]);
  const product = productOf({ gtin: gtinOf(770_001) });
  await h.admin.post("/products", product);
  expect((await h.admin.post("/products", product)).status).toBe(409);
  await h.latest(ended);
  expect(await h.deliveries()).toHaveLength(1);
});

test("clause 7: for 24 hours after a rotation both secrets sign, the new one first; afterwards the new one alone", async () => {
  const w = await world({ settings: PRIVATE }); // whose clock nobody has turned yet: the ready-made library reads the machine's
  const h = await hooked(w, ["print.confirmed"]);
  const rotated = await h.admin.post(`${h.path}/rotate-secret`, undefined, { "idempotency-key": "rotation" });
  const { secret, previousSecretUntil } = rotated.body;
  expect([rotated.status, secret === h.secret]).toEqual([200, false]);
  expect(Date.parse(previousSecretUntil) - Date.parse(rotated.body.updatedAt)).toBe(24 * HOUR_MS);
  const replay = await h.admin.post(`${h.path}/rotate-secret`, undefined, { "idempotency-key": "rotation" });
  expect([replay.headers.get("idempotency-replayed"), replay.body.secret]).toEqual(["true", null]);

  await h.print();
  await h.latest(ended);
  const { headers, body } = firstOf(h);
  const at = String(headers["x-service-timestamp"]);
  const both = [secret, h.secret];
  expect(headers).toMatchObject({
    "x-service-signature": both.map((one) => `sha256=${hex(one, body)}`).join(","),
    "x-service-signature-v2": [`t=${at}`, ...both.map((one) => `v2=${hex(one, `${at}.${body}`)}`)].join(","),
  });
  for (const one of both) {
    expect(new Webhook(one).verify(body, standard(headers))).toEqual(JSON.parse(body));
    expect(signatureFault(headers, Buffer.from(body), [one], Number(at) * 1000)).toBeUndefined();
  }
  w.later(24 * HOUR_MS + 1_000);
  await h.print();
  await h.latest((delivery) => ended(delivery) && h.receiver.received.length === 2);
  const alone = h.receiver.received[1]!;
  expect(alone.headers["x-service-signature"]).toBe(`sha256=${hex(secret, alone.body)}`);
  expect((await h.admin.get(h.path)).body.previousSecretUntil).toBeNull();
});

test("clause 7: a second rotation within the day ends the oldest secret at once", async () => {
  const h = await hooked(w, ["print.confirmed"]);
  const [second, third] = [await h.admin.post(`${h.path}/rotate-secret`), await h.admin.post(`${h.path}/rotate-secret`)];
  await h.print();
  await h.latest(ended);
  const { headers, body } = firstOf(h);
  expect(headers["x-service-signature"]).toBe([third, second].map((one) => `sha256=${hex(one.body.secret, body)}`).join(","));
});
