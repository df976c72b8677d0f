// Many at once about the same things in other orders: each is done once, and nobody waits for another that waits for them.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Client as Connection } from "pg";
import { expect, test } from "vitest";
import { topicsOf } from "#shared/mqtt.ts";
import { hold } from "../../cloud/domain/jobs.ts";
import { hold as holdProduct } from "../../cloud/domain/products.ts";
import { createLog } from "../../cloud/log.ts";
import { createMetrics } from "../../cloud/metrics.ts";
import { reportQueue, startStationListener } from "../../cloud/workers/station-listener.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { type Claim, goodItems, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { productMaker, publishing } from "../../fixtures/publishing.ts";
import { engine, freshDatabase, world } from "../world.ts";

const databaseUrl = await freshDatabase();
const w = await world({ databaseUrl });
const { admin } = w;
const shop = await printShop(w, { gtin: gtinOf(935_000) });
let next = 936_000;
const gtin = () => gtinOf((next += 1));
const ROUNDS = Array.from({ length: 6 }, (_, i) => i);

test("the same products judged by eight in other orders are judged once each", async () => {
  const { tenant } = publishing(w, 938_000);
  const own = await tenant("eight judges");
  const ids: string[] = [];
  for (let i = 0; i < 40; i += 1) ids.push((await own.published({}, "none")).id);
  const turned = Array.from({ length: 8 }, (_, n) => [...ids.slice(5 * n), ...ids.slice(0, 5 * n)]);
  const answers = await Promise.all(
    turned.map((some, n) => own.admin.post("/compliance/evaluations", { productIds: n % 2 ? some.toReversed() : some })),
  );
  const judged = answers.map(({ body }) =>
    body.data
      .map((one: object) => JSON.stringify(one))
      .toSorted()
      .join(),
  );
  expect(new Set(judged).size).toBe(1);
});

test("a file and batches of the same products in other orders make each once", async () => {
  const gtins = Array.from({ length: 600 }, gtin);
  const body = ["name,description,gtin,serialNumber", ...gtins.toReversed().map((its) => `Kettle,A kettle of 1.7 litres,${its},S-1`)].join(
    "\n",
  );
  const { data } = (await admin.send("POST", "/imports?category=electronics", { body, headers: { "content-type": "text/csv" } })).body;
  const report = async () => (await admin.get(`/imports/${data.id}`)).body;
  await expect.poll(async () => (await report()).processed, { interval: 5 }).toBeGreaterThan(0);
  const items = gtins.map((its) => productOf({ gtin: its, serialNumber: "S-1" }));
  const batches = await Promise.all(ROUNDS.map(() => admin.post("/products/batch", { items })));
  await expect.poll(async () => (await report()).status).toBe("completed");
  expect(batches.reduce((sum, batch) => sum + batch.body.created, (await report()).created)).toBe(gtins.length);
});

test("the same events captured by eight in other orders are stored once", async () => {
  const eventTime = "2026-11-21T12:00:00.000Z";
  const looked = { type: "ObjectEvent", eventTime, eventTimeZoneOffset: "+00:00", action: "OBSERVE", bizStep: "inspecting" };
  const events = Array.from({ length: 240 }, (_, i) => ({
    ...looked,
    eventID: `urn:uuid:${randomUUID()}`,
    epcList: [`https://id.gs1.org/01/${shop.gtin}/21/${1000 + i}`],
  }));
  const document = (eventList: object[]) => ({
    "@context": ["https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld"],
    type: "EPCISDocument",
    schemaVersion: "2.0",
    creationDate: eventTime,
    epcisBody: { eventList },
  });
  const turned = Array.from({ length: 8 }, (_, n) => [...events.slice(30 * n), ...events.slice(0, 30 * n)]);
  const answers = await Promise.all(turned.map((some, n) => shop.admin.post("/epcis/capture", document(n % 2 ? some.toReversed() : some))));
  expect(answers.map(({ status }) => status)).toEqual(turned.map(() => 202));
  const found = await shop.admin.get("/epcis/events?EQ_bizStep=inspecting&perPage=500");
  expect(found.body.epcisBody.queryResults.resultsBody.eventList).toHaveLength(events.length);
});

test("labels sealed in one call, while what printed them says so in calls in other orders, are each sealed", async () => {
  await Promise.all(Array.from({ length: 60 }, () => shop.issue()));
  const { claims } = (await shop.device.api.post("/aidc/jobs/claim/batch", { needs: ["qr", "rfid"], max: 60 })).body;
  const words = (claims as Claim[]).map((claim) => {
    const { attempt_id, job } = claim;
    const items = goodItems(claim);
    return { serial: job.serial, said: [...items, sealOf(items)].map((item) => ({ job_ref: job.job_ref, attempt_id, ...item })) };
  });
  const results = words.flatMap(({ said }) => said.slice(0, -1));
  expect((await shop.device.api.post("/aidc/results", { results })).status).toBe(200);
  const turned = ROUNDS.map((n) => [...words.slice(10 * n), ...words.slice(0, 10 * n)]);
  const statuses = turned.map((some) => some.map(({ serial }) => ({ serial, status: "printed" })));
  const [sealed, ...told] = await Promise.all([
    shop.device.api.post("/aidc/results", { results: words.flatMap(({ said }) => said.slice(-1)) }),
    ...statuses.map((some, n) => shop.admin.post("/carriers/print-status", { results: n % 2 ? some.toReversed() : some })),
  ]);
  const outcomes = sealed.body.results as { status: number; job: { state: string } }[];
  expect(outcomes.map(({ job }) => job.state)).toEqual(words.map(() => "SEALED"));
  expect(told.map(({ status }) => status)).toEqual(turned.map(() => 200));
});

test("jobs that wait, cancelled while another system says that it printed their labels, are each cancelled", async () => {
  const jobs = await Promise.all(Array.from({ length: 60 }, () => shop.issue()));
  const results = jobs.map(({ serial }) => ({ serial, status: "printed" }));
  const [told, ...cancelled] = await Promise.all([
    shop.admin.post("/carriers/print-status", { results }),
    ...jobs.toReversed().map(({ job_ref: ref }) => shop.admin.post(`/aidc/jobs/${ref}/cancel`, { reason: "ordered twice" })),
  ]);
  expect(told.status).toBe(200);
  expect(new Set(cancelled.map(({ body }) => body.state))).toEqual(new Set(["CANCELLED"]));
});

test("the same jobs issued in calls in other orders, while what printed them says so, are each issued once", async () => {
  const serials = await shop.allocate(300);
  const turned = ROUNDS.map((n) => [...serials.slice(50 * n), ...serials.slice(0, 50 * n)]);
  const answers = await Promise.all(
    turned.map((some, n) => {
      const mixed = n % 2 ? some.toReversed() : some;
      if (n > 3) return shop.admin.post("/carriers/print-status", { results: mixed.map((serial) => ({ serial, status: "failed" })) });
      return shop.admin.post("/aidc/jobs/batch", { items: mixed.map((serial) => ({ gtin: shop.gtin, serial })) });
    }),
  );
  expect(answers.map(({ status }) => status)).toEqual(turned.map(() => 200));
  expect(answers.reduce((sum, { body }) => sum + (body.created ?? 0), 0)).toBe(serials.length);
});

test("the jobs of a product that is voided while their station reports them in one call each end", async () => {
  const own = await printShop(w, { gtin: gtin() });
  const items = (await own.allocate(20)).map((serial) => ({ gtin: own.gtin, serial }));
  await own.admin.post("/aidc/jobs/batch", { items });
  const { claims } = (await own.device.api.post("/aidc/jobs/claim/batch", { max: items.length, lease_seconds: 600 })).body;
  const refs = (claims as Claim[]).map(({ job }) => job.job_ref).toSorted();
  const rendered = claims.slice(10).map((claim: Claim) => own.device.upTo(claim, "RENDERED"));
  await Promise.all(rendered); // those that are further on are the later ones, and are voided first
  const isHeld = Promise.withResolvers<void>();
  const held = w.store.write("results", async (tx) => {
    await hold(tx, own.tenantId, refs.slice(0, 10));
    isHeld.resolve();
    await sleep(200); // as some hundreds take
    return (await hold(tx, own.tenantId, refs.slice(10))).size;
  });
  await isHeld.promise;
  const [{ status }, size] = await Promise.all([own.admin.post(`/products/${own.product.id}/void`, { reason: "recalled" }), held]);
  expect([status, size]).toEqual([200, 10]);
  expect((await own.admin.get("/aidc/summary")).body.states.CANCELLED).toBe(items.length);
});

test("a serial of a lot that is voided by way of its model, while the lot is voided with all its jobs, ends once", async () => {
  const own = await printShop(w, { gtin: gtin() });
  const maker = productMaker(own.admin);
  const lot = await maker({ gtin: own.gtin, granularity: "batch", serialNumber: "L-1" }, "published");
  await own.admin.post(`/passports/${lot.passportId}/validations`);
  const { serials } = (await own.admin.post("/carriers/batch", { productId: lot.id, count: 1 })).body;
  const { body: job } = await own.admin.post("/aidc/jobs", { gtin: own.gtin, serial: serials[0] });
  expect(job.product_id).toBe(lot.id);
  const isHeld = Promise.withResolvers<void>();
  const held = w.store.write("void", async (tx) => {
    await holdProduct(tx, own.tenantId, lot.id);
    isHeld.resolve();
    await sleep(200);
    return (await hold(tx, own.tenantId, [job.job_ref])).size;
  });
  await isHeld.promise;
  const [{ status }, size] = await Promise.all([
    own.admin.post(`/products/${own.product.id}/void`, { reason: "torn", serial: serials[0] }),
    held,
  ]);
  expect([status, size]).toEqual([200, 1]);
  expect((await own.admin.get(`/aidc/jobs/${job.job_ref}`)).body.state).toBe("CANCELLED");
});

test("serials that are voided one by one while what printed them says so are each voided", async () => {
  const own = await printShop(w, { gtin: gtin() });
  const serials = await own.allocate(15);
  await own.admin.post("/aidc/jobs/batch", { items: serials.map((serial) => ({ gtin: own.gtin, serial })) });
  const results = serials.map((serial) => ({ serial, status: "printed" }));
  let areVoided = false;
  const say = async () => {
    const statuses: number[] = [];
    while (!areVoided) statuses.push((await own.admin.post("/carriers/print-status", { results })).status);
    return statuses;
  };
  const voidEach = async () => {
    const statuses: number[] = [];
    for (const serial of serials)
      statuses.push((await own.admin.post(`/products/${own.product.id}/void`, { reason: "torn", serial })).status);
    areVoided = true;
    return statuses;
  };
  expect(new Set((await Promise.all([voidEach(), say(), say()])).flat())).toEqual(new Set([200]));
});

test("the first that is said of a product's labels, and their first jobs, are taken while some of them are voided", async () => {
  const maker = productMaker(admin);
  for (const round of ROUNDS) {
    const own = { gtin: gtin() };
    const { id, passportId } = await maker(own, "published");
    await admin.post(`/passports/${passportId}/validations`);
    const { serials } = (await admin.post("/carriers/batch", { productId: id, count: 40 })).body as { serials: string[] };
    const results = serials.map((serial) => ({ serial, status: "printed" }));
    const items = serials.map((serial) => ({ ...own, serial }));
    const voids = serials.slice(round, round + 3).map((serial) => admin.post(`/products/${id}/void`, { reason: "torn", serial }));
    const said = round < 3 ? [] : [admin.post("/carriers/print-status", { results })];
    const issued = round % 3 === 0 ? [] : [admin.post("/aidc/jobs/batch", { items })];
    const answers = await Promise.all([...voids, ...said, ...issued]);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  }
});

test("passports that are published, edited, revoked, or deleted and asked for again, while their products are voided, end as one or the other", async () => {
  const maker = productMaker(admin);
  for (const round of ROUNDS) {
    const { id, passportId } = await maker({ gtin: gtin() }, "draft");
    const publish = () => admin.post(`/products/${id}/publish-dpp`, undefined, { "idempotency-key": randomUUID() });
    const others = [
      () => admin.post(`/products/${id}/void`, { reason: "recalled" }),
      ...(round < 3
        ? [() => admin.send("DELETE", `/passports/${passportId}`), () => admin.post("/dpps", { productId: id })]
        : [
            () => admin.patch(`/passports/${passportId}`, { content: {} }),
            () => admin.post(`/passports/${passportId}/revise`),
            () => admin.post(`/passports/${passportId}/validations`),
            () => admin.post(`/credentials/${passportId}/revoke`),
          ]),
    ];
    const asked = round % 2 ? [publish, ...others] : [...others.toReversed(), publish];
    const answers = await Promise.all(asked.map((ask) => ask()));
    expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
  }
});

test("what stations say by a broker that two nodes hear, in other orders, is written", async () => {
  const own = await printShop(w, { gtin: gtin() });
  const devices = await Promise.all(Array.from({ length: 20 }, (_, n) => own.newDevice(`line ${n}`)));
  const topics = devices.map(({ id }) => topicsOf({ tenantId: own.tenantId, deviceId: id }).telemetry);
  const log = createLog("silent");
  const nodes = [0, 1].map(() => reportQueue(createMetrics()));
  const listeners = nodes.map((reports) => startStationListener(w.store, log, reports));
  const depths = async () => {
    const { data } = (await own.admin.get("/devices")).body as { data: { id: string; buffer_depth: number | null }[] };
    return new Set(data.flatMap(({ id, buffer_depth: depth }) => (id === own.device.id ? [] : [depth])));
  };
  for (const round of [1, 2]) {
    const payload = Buffer.from(JSON.stringify({ buffer_depth: round }));
    for (const [n, reports] of nodes.entries())
      for (const topic of n ? topics.toReversed() : topics) reports.add({ topic, payload, isRetained: false });
    await expect.poll(depths, { timeout: 10_000 }).toEqual(new Set([round]));
  }
  await Promise.all(listeners.map((listener) => listener.stop()));
});

/** How often the server had to end one that waited for another that waited for it: its connections tell it when they are closed. */
async function deadlocksIn(url: string): Promise<number> {
  const look = new Connection({ connectionString: url });
  await look.connect();
  const ask = async (text: string) => Number((await look.query(`${text} WHERE datname = current_database()`)).rows[0].n);
  const others = () => ask("SELECT count(*) FILTER (WHERE backend_type = 'client backend') - 1 AS n FROM pg_stat_activity");
  await expect.poll(others).toBe(0);
  const deadlocks = await ask("SELECT deadlocks AS n FROM pg_stat_database");
  await look.end();
  return deadlocks;
}

/** Two that do wait for each other. */
async function waitCrosswise(url: string): Promise<void> {
  const both = [1, 2].map((own) => ({ own, line: new Connection({ connectionString: url }) }));
  for (const { own, line } of both) {
    await line.connect();
    await line.query(`SET deadlock_timeout = '10ms'; BEGIN; SELECT pg_advisory_xact_lock(${own})`);
  }
  await Promise.allSettled(both.map(({ own, line }) => line.query(`SELECT pg_advisory_xact_lock(${3 - own})`)));
  await Promise.all(both.map(({ line }) => line.end()));
}

// On SQLite units follow one another.
test.runIf(engine === "postgres")("in none of these did anybody wait crosswise, which would be seen", async () => {
  const url = databaseUrl ?? "";
  await w.restart(async () => {
    expect(await deadlocksIn(url)).toBe(0);
    await waitCrosswise(url);
    expect(await deadlocksIn(url)).toBe(1);
  });
});
