// Products: a thousand in one call against a thousand calls, a file of 100,000 rows, and what a million products change.
import { setTimeout as sleep } from "node:timers/promises";
import { gtinOf } from "../../fixtures/gtin.ts";
import { manyProducts } from "../../fixtures/many-rows.ts";
import { duel, inFull, type Line, ratioLine, residentMb } from "./measure.ts";
import { type Cloud, cloudOn, freshFolder } from "./servers.ts";

const IMPORT_ROWS = inFull(100_000, 2_000);
const FEW = inFull(1_000, 200);
const MANY = inFull(1_000_000, 200);

let n = 0;
const kettle = () => ({
  name: "Kettle 1.7",
  description: "An electric kettle of 1.7 litres, brushed steel",
  category: "electronics",
  gtin: gtinOf((n += 1)),
  serialNumber: `K17-${n}`,
  extensions: { energyEfficiencyClass: "A", repairabilityScore: 7.5, hazardousSubstances: ["lead"], weeeCategory: "small_equipment" },
});

/** Does it one after another for about so long; how many it did. */
async function repeat(ms: number, act: () => Promise<{ status: number; text: string }>, each = 1): Promise<number> {
  const until = performance.now() + ms;
  let done = 0;
  while (performance.now() < until) {
    const { status, text } = await act();
    if (status >= 300) throw new Error(`answered ${status}: ${text}`);
    done += each;
  }
  return done;
}

async function batches(): Promise<Line> {
  const cloud = await cloudOn();
  const batch = () => cloud.admin.post("/products/batch", { items: Array.from({ length: 1_000 }, kettle) });
  const result = await duel(
    { name: "batches of 1,000", run: (ms) => repeat(ms, batch, 1_000) },
    { name: "single creates", run: (ms) => repeat(ms, () => cloud.admin.post("/products", kettle())) },
  );
  await cloud.end();
  return ratioLine("products: in batches of 1,000, against one by one on one connection", result, 4, "products");
}

async function importing(): Promise<Line[]> {
  const cloud = await cloudOn();
  await repeat(1_000, () => cloud.admin.get("/tenant"));
  const idle = residentMb(cloud.pid);
  const rows = Array.from({ length: IMPORT_ROWS }, (_, i) => `Kettle,A kettle of 1.7 litres,${gtinOf((n += 1))},K-${i},A,7.5`);
  const csv = ["name,description,gtin,serialNumber,energyEfficiencyClass,repairabilityScore", ...rows].join("\n");
  const began = performance.now();
  const taken = await cloud.admin.send("POST", "/imports?category=electronics", { body: csv, headers: { "content-type": "text/csv" } });
  let peak = 0;
  let state = taken.body.data;
  while (!["completed", "failed"].includes(state.status)) {
    await sleep(50);
    peak = Math.max(peak, residentMb(cloud.pid));
    state = (await cloud.admin.get(`/imports/${state.id}`)).body;
  }
  const seconds = (performance.now() - began) / 1000;
  if (state.created !== IMPORT_ROWS) throw new Error(`${state.created} of ${IMPORT_ROWS} rows were created: ${state.fault}`);

  const pages: string[] = [];
  for (let cursor: string | null = "", page = 1; page <= 499 && cursor !== null; page += 1) {
    pages.push(cursor);
    cursor = (await cloud.admin.get(`/products?limit=200${cursor}`)).body.nextCursor;
    if (cursor !== null) cursor = `&cursor=${cursor}`;
  }
  const read = (cursor: string | undefined) => (ms: number) => repeat(ms, () => cloud.admin.get(`/products?limit=100${cursor}`));
  const paging = await duel({ name: "page 1,000", run: read(pages.at(-1)) }, { name: "page 1", run: read("") });
  await cloud.end();
  return [
    {
      name: `import: ${IMPORT_ROWS.toLocaleString("en-US")} rows`,
      figure: `${Math.round(IMPORT_ROWS / seconds).toLocaleString("en-US")} rows/s`,
      target: "at least 3,000",
      met: IMPORT_ROWS / seconds >= 3_000,
    },
    {
      name: "import: resident memory above idle",
      figure: `${Math.round(peak - idle)} MB`,
      target: "at most 100 MB",
      met: peak - idle <= 100,
    },
    ratioLine("list: the last of 1,000 pages against the first", paging, 0.5, "pages"),
  ];
}

async function cloudWith(products: number): Promise<Cloud> {
  const folder = freshFolder();
  const cloud = await cloudOn(folder); // makes the tables and the tenant
  await cloud.restart(() => manyProducts(folder, products));
  return cloud;
}

async function grown(): Promise<Line[]> {
  const [big, small] = [await cloudWith(MANY), await cloudWith(FEW)];
  const creates = await duel(
    { name: "at a million", run: (ms) => repeat(ms, () => big.admin.post("/products", kettle())) },
    { name: "at a thousand", run: (ms) => repeat(ms, () => small.admin.post("/products", kettle())) },
  );
  let at = 0;
  const readOne = ({ admin }: Cloud, count: number) => {
    at = (at + 7_919) % count;
    return admin.get(`/products/01900000-0000-7000-8000-${String(at).padStart(12, "0")}`);
  };
  const reads = await duel(
    { name: "at a million", run: (ms) => repeat(ms, () => readOne(big, MANY)) },
    { name: "at a thousand", run: (ms) => repeat(ms, () => readOne(small, FEW)) },
  );
  await Promise.all([big.end(), small.end()]);
  return [
    ratioLine("create: in a tenant of 1,000,000 products against one of 1,000", creates, 1 / 1.5, "products"),
    ratioLine("read: in a tenant of 1,000,000 products against one of 1,000", reads, 1 / 1.5, "products"),
  ];
}

export const productsBench = async (): Promise<Line[]> => [await batches(), ...(await importing()), ...(await grown())];
