// The floor in figures: what one look costs with a thousand jobs in the books and with a million, most of them sealed long ago.
import { rmSync } from "node:fs";
import { summary } from "../../cloud/domain/summary.ts";
import { run } from "../../cloud/store/store.ts";
import { storeAt } from "../../fixtures/many-rows.ts";
import { callers, duel, inFull, type Line, ratioLine } from "./measure.ts";
import { freshFolder } from "./servers.ts";

const SIZES = { big: inFull(1_000_000, 2_000), small: 1_000 };
const OPEN = 900; // waiting or under way in either
const TENANT = "bench";

const FILL = `WITH RECURSIVE row (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM row WHERE n < ? - 1)
  INSERT INTO print_jobs (tenant_id, job_ref, state, reached, revision, product_id, gtin, serial, digital_link, needs, template, priority, station, reprint,
    pool, attempt, max_attempts, simulated, duplicate_risk, created_at, updated_at)
  SELECT '${TENANT}', printf('pj_%026d', n), CASE WHEN n >= ? THEN 'SEALED' WHEN n % 3 = 0 THEN 'QUEUED' WHEN n % 3 = 1 THEN 'CLAIMED' ELSE 'SPOOL_SUBMITTED' END,
    0, 1, 'product', '04006381333931', n || '', 'http://bench.example/01/04006381333931/21/' || n, 1, 'default', 0, 'line-' || n % 20, 0,
    CASE WHEN n < ? AND n % 3 = 0 THEN 1 ELSE 0 END, 0, 3, 0, 0, n, n FROM row`;
const HOURS = `INSERT INTO job_hours (tenant_id, state, hour, jobs) SELECT '${TENANT}', 'SEALED', 3600000 * value, 100 FROM json_each(?)`;

async function floorOf(jobs: number) {
  const folder = freshFolder();
  const store = await storeAt({ dataDir: folder });
  await store.write("fill", async () => void (await run(FILL, [jobs, OPEN, OPEN], "run")));
  const hours = JSON.stringify(Array.from({ length: Math.ceil(jobs / 100) }, (_, hour) => hour));
  await store.write("hours", async () => void (await run(HOURS, [hours], "run")));
  const look = (ms: number) => callers(1, ms, () => store.read("summary", (tx) => summary(tx, { tenantId: TENANT })));
  const end = async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  };
  return { look, end };
}

export async function summaryBench(): Promise<Line[]> {
  const [big, small] = [await floorOf(SIZES.big), await floorOf(SIZES.small)];
  const looks = await duel({ name: "a million jobs", run: big.look }, { name: "a thousand", run: small.look });
  await big.end();
  await small.end();
  return [ratioLine("console: the floor in figures with 1,000,000 jobs against 1,000", looks, 1 / 10, "looks")];
}
