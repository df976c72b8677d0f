// SIGKILL under load loses no answered write and breaks no chain, on either engine.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { client } from "../../fixtures/client.ts";
import { cloudSettings, startProgram } from "../../fixtures/program.ts";
import { freshFolder } from "../endings.ts";
import { freshDatabase } from "../world.ts";
import { size, timeout } from "./size.ts";

const CYCLES = size(5, 100);
const ANSWERS = size(30, 5_000); // before each kill
const WRITERS = 16;
const adminKey = "a-key-for-the-kill-test-0001";

test.each(["sqlite", "postgres"] as const)(
  "on %s every answered write is there after each kill",
  { timeout: timeout(120_000) },
  async (engine) => {
    const env = cloudSettings(freshFolder("kill"), adminKey, { IMPRIMATUR_DATABASE_URL: (await freshDatabase(engine)) ?? "" });
    const answered = new Map<string, string>();
    for (let cycle = 0; cycle < CYCLES; cycle += 1) {
      const cloud = await startProgram("cloud/main.ts", env);
      const admin = client(() => cloud.url, { authorization: `Bearer ${adminKey}` });
      let alive = true;
      const writer = async (n: number) => {
        for (let i = 0; alive; i += 1) {
          const key = `${cycle}-${n}-${i}`;
          try {
            const { status, body } = await admin.post("/oauth/clients", { name: key, scopes: ["aidc:read"] }, { "idempotency-key": key });
            if (status === 201) answered.set(key, body.client_id as string);
          } catch {
            alive = false; // the kill: this request was never answered, and may be there or not
          }
        }
      };
      const writers = Array.from({ length: WRITERS }, (_, n) => writer(n));
      const enough = answered.size + ANSWERS;
      while (alive && answered.size < enough) await sleep(10);
      await sleep(Math.random() * 300);
      expect(await cloud.end("SIGKILL")).toBe("SIGKILL");
      await Promise.all(writers);
    }
    const cloud = await startProgram("cloud/main.ts", env);
    const admin = client(() => cloud.url, { authorization: `Bearer ${adminKey}` });
    expect(answered.size).toBeGreaterThanOrEqual(ANSWERS * CYCLES);
    const left = answered.entries();
    const asking = async () => {
      for (const [key, id] of left) {
        const again = await admin.post("/oauth/clients", { name: key, scopes: ["aidc:read"] }, { "idempotency-key": key });
        expect([again.headers.get("idempotency-replayed"), again.body.client_id]).toEqual(["true", id]);
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, asking));
    process.stdout.write(`${engine}: ${CYCLES} kills, ${answered.size} answered writes\n`);
    expect((await admin.get("/audit-logs/verify")).body.valid).toBe(true);
    expect(await cloud.end()).toBe(0);
  },
);
