// SIGKILL in the middle of an import: the rest is worked off by whoever comes next, and no row is lost or doubled.
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "vitest";
import { client } from "../../fixtures/client.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { cloudSettings, startProgram } from "../../fixtures/program.ts";
import { freshFolder } from "../endings.ts";
import { freshDatabase } from "../world.ts";

const ROWS = 10_000;
const KEY = "a-key-for-the-import-test-1";

// Where several nodes may live, a dead one is only known by its lease running out: one kill has to do there, and the other engine's go on meanwhile.
test.concurrent.for([
  ["sqlite", 3],
  ["postgres", 1],
] as const)("on %s, killed %i times", { timeout: 200_000 }, async ([engine, kills], { expect }) => {
  const env = cloudSettings(freshFolder("import"), KEY, { IMPRIMATUR_DATABASE_URL: (await freshDatabase(engine)) ?? "" });
  let cloud = await startProgram("cloud/main.ts", env);
  const admin = client(() => cloud.url, { authorization: `Bearer ${KEY}` });
  const rows = Array.from({ length: ROWS }, (_, i) => `Kettle ${i},A kettle of 1.7 litres,${gtinOf(300_000 + i)},SN-${i}`);
  const body = ["name,description,gtin,serialNumber", ...rows].join("\n");
  const taken = await admin.send("POST", "/imports?category=electronics", { body, headers: { "content-type": "text/csv" } });
  const now = async () => (await admin.get(`/imports/${taken.body.data.id}`)).body;
  let reached = 0;
  for (let kill = 0; kill < kills; kill += 1) {
    const isFurther = ({ processed, status }: { processed: number; status: string }) => processed > reached || status === "completed";
    while (!isFurther(await now())) await sleep(5);
    await sleep(Math.random() * 30);
    await cloud.end("SIGKILL");
    cloud = await startProgram("cloud/main.ts", env);
    const { processed, status } = await now();
    expect(processed === ROWS || processed > reached).toBe(true);
    reached = processed;
    if (status === "completed") break;
  }
  await expect.poll(async () => (await now()).status, { timeout: 120_000 }).toBe("completed");
  expect(await now()).toMatchObject({ total: ROWS, processed: ROWS, created: ROWS, failed: 0 });
  const { data } = (await admin.get("/products/categories")).body;
  expect(data.find(({ category }: { category: string }) => category === "electronics").products).toBe(ROWS);
  await cloud.end();
});
