// A PostgreSQL that its own means set back to yesterday: restore --set-back sees to it that what was given out since isn't given out again.
import { execFile } from "node:child_process";
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { warnOfJobs } from "../../cloud/domain/restored.ts";
import { client } from "../../fixtures/client.ts";
import { startPostgres } from "../../fixtures/postgres.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { cloudSettings, startProgram } from "../../fixtures/program.ts";
import { freshFolder } from "../endings.ts";
import { world } from "../world.ts";

const folder = freshFolder("set-back");
const postgres = await startPostgres();
afterAll(postgres.stop);
const adminKey = "a-key-for-the-set-back-test";
const env = cloudSettings(join(folder, "node"), adminKey, {
  IMPRIMATUR_DATABASE_URL: await postgres.createDatabase("floor"),
  IMPRIMATUR_SEALING_KEY: "a sealing key of this test",
});
const start = () => startProgram("cloud/main.ts", env);
const imprimatur = (command: string, args: string[], more: Record<string, string> = {}) =>
  new Promise<{ code: number; out: string }>((resolve) => {
    execFile(process.execPath, [`cloud/${command}.ts`, ...args], { env: { ...process.env, ...env, ...more } }, (error, out, err) =>
      resolve({ code: Number(error?.code ?? 0), out: out + err }),
    );
  });
/** With owners and modes, which the server looks at. */
const copy = (from: string, to: string) => promisify(execFile)("cp", ["-a", from, to]);
const allOf = (serials: string[], others: string[]) => serials.filter((serial) => others.includes(serial));

test("after restore --set-back no serial comes twice, open jobs are looked for, every tenant is told, and the chains hold", { timeout: 240_000 }, async () => {
  const first = await start();
  let url = first.url;
  const as = (secret: string) => client(() => url, { authorization: `Bearer ${secret}` });
  const shop = await printShop({ url, admin: as(adminKey), as });
  const open = await shop.issue({ station: "elsewhere" });
  const [unprinted] = await shop.allocate(1);
  await shop.issue();
  const before = await shop.device.claim();
  expect((await shop.device.seal(before)).status).toBe(200);
  await first.end();
  await postgres.halt();
  await copy(postgres.data, join(folder, "copy"));

  await postgres.start();
  const second = await start();
  ({ url } = second);
  const lost = await shop.allocate(2_000);
  await second.end();

  const setBack = async () => {
    await postgres.halt();
    rmSync(postgres.data, { recursive: true });
    await copy(join(folder, "copy"), postgres.data);
    await postgres.start();
  };
  await setBack();
  const refused = await imprimatur("main", []);
  const says = /the store was set back: it doesn't go on from the log of \d+ leaves and the 2\d{3} serials that this node has seen .*: end every node on it, then imprimatur restore --set-back/;
  expect([refused.code, refused.out]).toEqual([1, expect.stringMatching(says)]);
  expect((await imprimatur("doctor", [])).out).toMatch(/FAIL log: the store was set back: .* end every node on it, then imprimatur restore --set-back/);
  // The control: without it the same serials come again, where the node has forgotten what it saw.
  renameSync(join(folder, "node", "seen.json"), join(folder, "seen.json"));
  const careless = await start();
  ({ url } = careless);
  expect(allOf(await shop.allocate(2_000), lost)).toHaveLength(2_000);
  await careless.end();

  await setBack();
  const seen = JSON.parse(readFileSync(join(folder, "seen.json"), "utf8")) as object;
  writeFileSync(join(folder, "node", "seen.json"), JSON.stringify({ ...seen, restoredAt: Date.now() + 3_600_000 })); // it was set back once before, by a clock that was an hour ahead
  const hasSeenNothing = { IMPRIMATUR_DATA_DIR: join(folder, "node-1"), IMPRIMATUR_DATABASE_URL: `${env.IMPRIMATUR_DATABASE_URL}?application_name=node-1` };
  const toWatch = await startProgram("cloud/main.ts", { ...env, ...hasSeenNothing });
  expect(await imprimatur("restore", ["--set-back"])).toEqual({
    code: 1,
    out: expect.stringMatching(/^imprimatur: somebody works on this database \(sessions of its role: \d+ node-1 from 127\.0\.0\.1\): end all nodes first; [^\n]*\n$/),
  });
  await toWatch.end();
  const { code, out } = await imprimatur("restore", ["--set-back"]);
  expect([code, out]).toEqual([0, expect.stringMatching(/^the database goes to \d{4}-.*Z, with a log of \d+ leaves; every tenant is told\./)]);
  expect(out).toContain("A node that doesn't start even so knows of a later one: say it there as well.");
  const itsOwn = join(folder, "node-1", "seen.json");
  writeFileSync(itsOwn, JSON.stringify({ ...JSON.parse(readFileSync(itsOwn, "utf8")), restoredAt: Date.now() + 7_200_000 }));
  expect((await imprimatur("doctor", [], hasSeenNothing)).out).toMatch(/FAIL log: the store was set back: .* then imprimatur restore --set-back/);
  expect((await imprimatur("restore", ["--set-back"], hasSeenNothing)).code).toBe(0);
  expect((await imprimatur("doctor", [], hasSeenNothing)).out).not.toContain("the store was set back");
  const third = await start();
  ({ url } = third);
  expect(allOf(await shop.allocate(2_000), lost)).toEqual([]);
  expect((await shop.admin.get(`/aidc/jobs/${open.job_ref}`)).body.duplicate_risk).toBe(true);
  expect((await shop.admin.post("/aidc/jobs", { gtin: shop.gtin, serial: unprinted })).body.duplicate_risk).toBe(true);
  expect((await shop.admin.get(`/aidc/jobs/${before.job.job_ref}`)).body).toMatchObject({ state: "SEALED", duplicate_risk: false });
  expect((await shop.admin.get("/audit-logs/verify")).body.valid).toBe(true);
  const [row] = (await shop.admin.get("/audit-logs?class=tenant")).body.data;
  expect(row).toMatchObject({ action: "tenant.restored", details: { takenAt: expect.any(String), logSize: expect.any(Number) } });
  const looked = await imprimatur("doctor", [], { IMPRIMATUR_PORT: new URL(url).port });
  expect([looked.code, looked.out]).toEqual([0, expect.not.stringContaining("FAIL")]);
  expect(await third.end()).toBe(0);
}); // oxfmt-ignore

test("of a queue, however long, each job gets its warning, a slice a unit of work", async () => {
  const w = await world({ databaseUrl: await postgres.createDatabase("queue") }, onTestFinished);
  const shop = await printShop(w);
  for (let n = 0; n < 5; n += 1) await shop.issue({ station: "elsewhere" });
  const slices: string[] = [];
  for (let after: string | undefined = ""; after !== undefined;) {
    const from: string = after;
    after = await w.store.write("slice", (tx) => warnOfJobs(tx, shop.tenantId, "QUEUED", from, 2));
    slices.push(from);
  }
  const { data } = (await shop.admin.get("/aidc/jobs")).body as { data: { job_ref: string; duplicate_risk: boolean }[] };
  const refs = data.map(({ job_ref }) => job_ref).toSorted();
  expect([slices, data.map((job) => job.duplicate_risk)]).toEqual([["", refs[1], refs[3]], Array.from({ length: 5 }, () => true)]);
});

test.each([
  [["--set-back"], { IMPRIMATUR_DATABASE_URL: "" }, 1, "IMPRIMATUR_DATABASE_URL isn't set"],
  [["--set-back"], { IMPRIMATUR_DATABASE_URL: "postgres://127.0.0.1:1/x" }, 1, "ECONNREFUSED 127.0.0.1:1: see IMPRIMATUR_DATABASE_URL"],
  [["--set-back", "--force"], {}, 2, "it goes without the others"],
] as const)("restore %j with %j is refused in one line", async (args, more, code, says) => {
  expect(await imprimatur("restore", [...args], more)).toEqual({ code, out: expect.stringMatching(new RegExp(`^imprimatur: [^\\n]*${says}[^\\n]*\\n$`)) });
}); // oxfmt-ignore
