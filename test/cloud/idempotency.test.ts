// Same key, same request: one effect and one answer, at once, later, after a restart; another body is a conflict.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { once, REPLAYED } from "../../cloud/domain/idempotency.ts";
import type { Finale } from "../../cloud/store/store.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";

const w = await world();
const body = { name: "once", scopes: ["aidc:read"] };
const keysNamed = async (name: string) =>
  (await w.admin.get("/api-keys?limit=200")).body.data.filter((key: { name: string }) => key.name === name).length;

test("a repeat replays status and body, says so, and shows no secret again", async () => {
  const key = { "idempotency-key": randomUUID() };
  const first = await w.admin.post("/api-keys", { ...body, name: "a" }, key);
  const again = await w.admin.post("/api-keys", { ...body, name: "a" }, key);
  expect([first.status, again.status, again.headers.get("idempotency-replayed")]).toEqual([201, 201, "true"]);
  expect(first.headers.get("idempotency-replayed")).toBeNull();
  expect(again.body).toEqual({ data: { ...first.body.data, secret: null } });
  expect(await keysNamed("a")).toBe(1);
});

test("the replay of an answer that had no secret in it shows none", async () => {
  const key = { "idempotency-key": randomUUID() };
  const { id } = (await w.admin.post("/api-keys", { name: "own", scopes: ["aidc:read", "aidc:write"] })).body.data;
  const first = await w.admin.post("/devices", { name: "line 1", api_key_id: id }, key);
  const again = await w.admin.post("/devices", { name: "line 1", api_key_id: id }, key);
  expect([first.status, Object.keys(first.body)]).toEqual([201, ["device"]]);
  expect([again.status, again.body]).toEqual([201, first.body]);
});

test("the same request is the same bytes: written anew in another order it is another one", async () => {
  const key = { "idempotency-key": randomUUID() };
  const { name, scopes } = { ...body, name: "bytes" };
  expect((await w.admin.post("/api-keys", { name, scopes }, key)).status).toBe(201);
  expect((await w.admin.post("/api-keys", { scopes, name }, key)).body.error.code).toBe("IDEMPOTENCY_CONFLICT");
  expect((await w.admin.post("/api-keys", { name, scopes }, key)).headers.get("idempotency-replayed")).toBe("true");
});

test("sixteen at once run once", async () => {
  const key = { "idempotency-key": randomUUID() };
  const answers = await Promise.all(Array.from({ length: 16 }, () => w.admin.post("/api-keys", { ...body, name: "b" }, key)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
  expect(new Set(answers.map((answer) => answer.body.data.id)).size).toBe(1);
  expect(answers.filter((answer) => answer.body.data.secret !== null)).toHaveLength(1);
  expect(await keysNamed("b")).toBe(1);
});

test("a claim that is sent again before it is answered gets the same job, not the answer that nothing waits", async () => {
  const { device, issue } = await printShop(w);
  for (const path of ["claim", "claim/batch"]) {
    await issue();
    const key = { "idempotency-key": randomUUID() };
    const answers = await Promise.all(Array.from({ length: 8 }, () => device.api.post(`/aidc/jobs/${path}`, { needs: ["qr"] }, key)));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]?.text).toContain("attempt_id");
    expect(answers.filter(({ headers }) => headers.get("idempotency-replayed") === "true")).toHaveLength(7);
  }
});

test("an answer in vain whose unit had to be run again is no replay; the next one under its key is", async () => {
  const request = { scope: Buffer.from("a scope"), key: randomUUID(), fingerprint: Buffer.alloc(32) };
  const answer = { status: 204, headers: {}, body: null, isIdle: true };
  const ask = () => once(w.store.joint, "in vain", request, { prepare: undefined, act: async () => answer, refused: async () => {} });
  const failing: Finale<string> = { rank: 9, say: () => Promise.reject(new Error("at the end of a commit that others share")) };
  const [first] = await Promise.all([
    ask(),
    expect(w.store.joint.write("fails", async (tx) => tx.atEnd(failing, "it"))).rejects.toThrow("at the end"),
  ]);
  expect([first.headers, (await ask()).headers]).toEqual([{}, REPLAYED]);
});

test("another body or another address under the same key is a conflict, another caller or another route isn't", async () => {
  const key = { "idempotency-key": randomUUID() };
  const { id } = (await w.admin.post("/api-keys", { ...body, name: "c" }, key)).body.data;
  expect((await w.admin.post("/oauth/clients", { ...body, name: "c" }, key)).status).toBe(201);
  expect((await w.admin.post(`/api-keys/${id}/rotate`, undefined, key)).status).toBe(201);
  expect((await w.admin.post(`/api-keys/${randomUUID()}/rotate`, undefined, key)).body.error.code).toBe("IDEMPOTENCY_CONFLICT");
  expect((await w.admin.post("/api-keys", { ...body, name: "d" }, key)).body.error.code).toBe("IDEMPOTENCY_CONFLICT");
  const other = (await w.admin.post("/api-keys", { name: "other", scopes: ["*:*"] })).body.data.secret;
  expect((await w.as(other).post("/api-keys", { ...body, name: "d" }, key)).status).toBe(201);
});

test("a body that is unfit besides is a conflict all the same, and one under a fresh key is told what is wrong with it", async () => {
  const { admin, device, product } = await printShop(w);
  const key = { "idempotency-key": randomUUID() };
  const unfit: [path: string, fit: object | undefined, unfit: object, client?: typeof admin][] = [
    ["/api-keys", { ...body, name: "e" }, { name: "" }],
    ["/carriers/batch", { productId: product.id, count: 1 }, { productId: product.id, count: 0 }],
    [`/products/${product.id}/publish-dpp`, undefined, { colour: "red" }],
    ["/aidc/jobs/claim", { needs: ["qr"] }, { needs: ["ink"] }, device.api],
  ];
  for (const [path, first, second, client = admin] of unfit) {
    const { status } = await client.post(path, first, key);
    const other = await client.post(path, second, key);
    expect([path, other.status, other.body.error.code]).toEqual([path, 409, "IDEMPOTENCY_CONFLICT"]);
    const again = await client.post(path, first, key);
    expect([path, again.status, again.headers.get("idempotency-replayed")]).toEqual([path, status, "true"]);
    const fresh = await client.post(path, second, { "idempotency-key": randomUUID() });
    expect([path, fresh.status, fresh.body.error.code]).toEqual([path, 400, "VALIDATION_ERROR"]);
  }
});

test("a refusal is replayed too, whatever happened since; a malformed request takes no key", async () => {
  const { id } = (await w.admin.post("/api-keys", { ...body, name: "e" })).body.data;
  await w.admin.delete(`/api-keys/${id}`);
  const key = { "idempotency-key": randomUUID() };
  const first = await w.admin.post(`/api-keys/${id}/rotate`, undefined, key);
  const again = await w.admin.post(`/api-keys/${id}/rotate`, undefined, key);
  expect([first.status, again.status, again.headers.get("idempotency-replayed")]).toEqual([409, 409, "true"]);
  expect(again.body).toEqual(first.body);
  const fresh = { "idempotency-key": randomUUID() };
  expect((await w.admin.post("/api-keys", { name: "f" }, fresh)).status).toBe(400);
  expect((await w.admin.post("/api-keys", { ...body, name: "f" }, fresh)).status).toBe(201);
});

test("a refusal under a key is a problem for who accepts one, first and replayed, and stays plain for who doesn't", async () => {
  const { id } = (await w.admin.post("/api-keys", { ...body, name: "p" })).body.data;
  await w.admin.delete(`/api-keys/${id}`);
  const key = { "idempotency-key": randomUUID() };
  const asking = (headers: Record<string, string> = {}) => w.admin.post(`/api-keys/${id}/rotate`, undefined, { ...key, ...headers });
  const accept = "application/problem+json, application/json;q=0.5";
  for (const replayed of [null, "true"]) {
    const { status, headers, body: problem } = await asking({ accept });
    expect([status, headers.get("content-type"), headers.get("idempotency-replayed")]).toEqual([
      409,
      "application/problem+json; charset=utf-8",
      replayed,
    ]);
    const { error, ...rest } = problem;
    expect(error.code).toBe("ALREADY_REVOKED");
    expect(rest).toEqual({ type: "about:blank", title: error.code, status: 409, detail: error.message });
  }
  const plain = await asking();
  expect([plain.headers.get("content-type"), Object.keys(plain.body)]).toEqual(["application/json; charset=utf-8", ["error"]]);
});

test("an answer is kept for 24 hours and through a restart, then the key is free", async () => {
  const key = { "idempotency-key": randomUUID() };
  const first = await w.admin.post("/api-keys", { ...body, name: "g" }, key);
  await w.restart();
  w.later(24 * 3_600_000 - 60_000);
  expect((await w.admin.post("/api-keys", { ...body, name: "g" }, key)).body.data.id).toBe(first.body.data.id);
  w.later(120_000);
  expect((await w.admin.post("/api-keys", { ...body, name: "g" }, key)).body.data.id).not.toBe(first.body.data.id);
});

test("a claim in vain is replayed under its key, and writes nothing; the next key gets what has come since", async () => {
  const rowsOf = ({ "idempotency-key": key }: { "idempotency-key": string }) =>
    w.store.read("rows", ({ db }) => db.values(`SELECT status FROM idempotency WHERE key = '${key}'`));
  for (const [path, answer] of [["claim", null], ["claim/batch", { claims: [] }]] as const) {
    const { device, issue } = await printShop(w);
    const key = { "idempotency-key": randomUUID() };
    const claim = (more: object = {}) => device.api.post(`/aidc/jobs/${path}`, { needs: ["qr"], ...more }, key);
    const first = await claim();
    expect([first.status, first.body ?? null]).toEqual([answer === null ? 204 : 200, answer]);
    await issue();
    const again = await claim();
    expect([again.status, again.body ?? null, again.headers.get("idempotency-replayed")]).toEqual([first.status, answer, "true"]);
    expect((await claim({ lease_seconds: 60 })).body.error.code).toBe("IDEMPOTENCY_CONFLICT");
    expect(await rowsOf(key)).toEqual([]);
    expect((await device.api.post("/aidc/jobs/claim", { needs: ["qr"] })).status).toBe(200);
    w.later(24 * 3_600_000 + 60_000);
    await issue();
    const later = await claim(); // as of what is written: after a day the key is free, and there is something
    expect([later.headers.get("idempotency-replayed"), later.text]).toEqual([null, expect.stringContaining("envelope")]);
  }
}); // oxfmt-ignore

test("a key is 1 to 255 printable characters", async () => {
  for (const key of ["x".repeat(256), "tab\there"])
    expect((await w.admin.post("/api-keys", body, { "idempotency-key": key })).body.error.details.fields[0].field).toBe("Idempotency-Key");
  expect((await w.admin.post("/api-keys", body, { "idempotency-key": "x".repeat(255) })).status).toBe(201);
});
