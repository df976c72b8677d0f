// PostgreSQL dies and comes back: typed refusals meanwhile, no answered write lost, no restart of ours.
import { afterAll, expect, test } from "vitest";
import { type Postgres, startPostgres } from "../../fixtures/postgres.ts";
import { startWorld } from "../../fixtures/world.ts";

let postgres: Postgres | undefined;
afterAll(() => postgres?.stop());

test("a crash of PostgreSQL under load costs no answered write, and the cloud recovers by itself", { timeout: 120_000 }, async () => {
  postgres = await startPostgres();
  const w = await startWorld({ databaseUrl: await postgres.createDatabase("crash"), clock: false });
  const answered: string[] = [];
  const refused = new Set<string>();
  let running = true;
  const writer = async (n: number) => {
    for (let i = 0; running; i += 1) {
      const { status, body } = await w.admin.post("/api-keys", { name: `${n}-${i}`, scopes: ["aidc:read"] });
      if (status === 201) answered.push(body.data.id as string);
      else refused.add(`${status} ${body.error.code as string}`);
    }
  };
  const writers = Array.from({ length: 8 }, (_, n) => writer(n));
  await expect.poll(() => answered.length).toBeGreaterThan(50);
  await postgres.crash();
  const before = answered.length;
  await expect.poll(() => refused.size).toBeGreaterThan(0);
  const ready = await w.admin.get("//readyz");
  expect([ready.status, ready.body.error.code, ready.body.error.details.notReady]).toEqual([503, "NOT_READY", ["store"]]);
  expect((await w.admin.get("//healthz")).status).toBe(200);
  await postgres.start();
  await expect.poll(() => answered.length).toBeGreaterThan(before + 50);
  running = false;
  await Promise.all(writers);
  expect([...refused]).toEqual(["503 STORE_UNAVAILABLE"]);
  for (const id of answered) expect((await w.admin.get(`/api-keys/${id}`)).status).toBe(200);
  expect((await w.admin.get("/audit-logs/verify")).body.valid).toBe(true);
  await w.end();
});
