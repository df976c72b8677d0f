// Plans: how SQLite finds what is asked for in a store that nobody ever analyzed. What is looked for at every turn, or in one row of a million, is found by an index.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import * as audit from "../../cloud/domain/audit.ts";
import { judgeChain } from "../../cloud/domain/audit-check.ts";
import * as devices from "../../cloud/domain/devices.ts";
import * as epcis from "../../cloud/domain/epcis-query.ts";
import * as imports from "../../cloud/domain/imports.ts";
import { backlog } from "../../cloud/domain/backlog.ts";
import { claim } from "../../cloud/domain/gtin-claims.ts";
import { fanOut } from "../../cloud/domain/fan-out.ts";
import { list as listJobs } from "../../cloud/domain/job-list.ts";
import { cancelAllOf } from "../../cloud/domain/job-ends.ts";
import { retained } from "../../cloud/domain/retention.ts";
import { DEFAULT_TENANT, ensureDefault } from "../../cloud/domain/tenants.ts";
import * as verifiable from "../../cloud/domain/verifiable-credentials.ts";
import * as schema from "../../cloud/store/schema.ts";
import * as generation from "../../cloud/domain/passport-generation.ts";
import { list as listProducts } from "../../cloud/domain/product-list.ts";
import { createLog } from "../../cloud/log.ts";
import { sql } from "../../cloud/store/drizzle.ts";
import { migrate } from "../../cloud/store/migrate.ts";
import { connect, openSqlite } from "../../cloud/store/sqlite.ts";
import { type Engine, type Execute, storeOn, type Tx } from "../../cloud/store/store.ts";
import { turnsOf } from "../../fixtures/turns.ts";
import { freshFolder } from "../endings.ts";

const folder = freshFolder("plans");
const file = join(folder, "imprimatur.db");
const engine = openSqlite({ file, onFatal: (line) => process.stderr.write(`${line}\n`) });
const asked = new Map<string, unknown[]>();
const noting =
  (execute: Execute): Execute =>
  (sql, params, method) => {
    asked.set(sql, params);
    return execute(sql, params, method);
  };
const heard: Engine = {
  ...engine,
  transact: (mode, work, isJoint) =>
    engine.transact(
      mode,
      (session) => work({ ...session, execute: noting(session.execute), beside: () => noting(session.execute) }),
      isJoint,
    ),
};
const store = storeOn(heard, createLog("silent"));
await migrate(engine, store);
const looker = connect(file, "read");
afterAll(async () => {
  looker.close();
  await store.close();
});

const tenantId = DEFAULT_TENANT;
await store.write("tenant", ensureDefault);
const PRODUCT = "01900000-0000-7000-8000-00000000";
const caller = { tenantId, credential: { kind: "api_key", id: "key", name: "key" }, scopes: ["*:*"], deviceId: null, tier: "pro" } as const;
const by = { tenantId, actor: { kind: "api_key", id: "key", name: "key" }, requestId: "request" } as const;
const device = {
  tenantId,
  id: randomUUID(),
  name: "line",
  station: null,
  capabilities: ["qr" as const],
  apiKeyId: "key",
  report: {},
  createdAt: 1,
  updatedAt: 1,
};

/** The steps of all that was asked meanwhile, in SQLite's words. */
async function plansOf(work: () => Promise<unknown>): Promise<string[]> {
  asked.clear();
  await work();
  return [...asked].flatMap(([sql, params]) =>
    looker
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all(params)
      .map((step) => (step as { detail: string }).detail),
  );
}
const planOf = (work: (tx: Tx) => Promise<unknown>): Promise<string[]> => plansOf(() => store.write("plan", work));

test("passports to be made and imports to be worked off are looked for, five times a second, among themselves", async () => {
  expect(await planOf((tx) => generation.claim(tx, 10))).toEqual(["SEARCH passports USING INDEX passports_to_generate (lease_until<?)"]);
  expect(await planOf(generation.releaseAll)).toEqual(["SEARCH passports USING INDEX passports_to_generate (lease_until>?)"]);
  expect(await planOf((tx) => generation.isGenerating(tx, tenantId))).toEqual(["SCAN passports USING INDEX passports_to_generate"]);
  expect(await planOf(imports.claim)).toEqual(["SEARCH imports USING INDEX imports_open (lease_until<?)", "USE TEMP B-TREE FOR ORDER BY"]);
});

test("the dispatcher's turn, a hundred of them a second, finds the tenants and events whose turn it is by an index", async () => {
  const steps = await planOf(async (tx) => {
    await tx.db
      .insert(schema.outbox)
      .values({ id: "1", tenantId, type: "print.confirmed", at: 1, body: "{}", targets: ["w"], requestId: null, traceparent: null });
    await fanOut(tx, 32, "0");
    await backlog(tx);
  });
  const partial = /INDEX (outbox_to_fan_out|outbox_by_tenant|deliveries_due|deliveries_unwell|lanes_due)\b/;
  const byKey = /(PRIMARY KEY|sqlite_autoindex_\w+) \((webhook_id|id)=\?\)$/;
  const looks = steps.filter((step) => /^(SEARCH|SCAN) (o|outbox|l|d|lanes|deliveries)\b/.test(step));
  expect(looks).toContain("SEARCH o USING INDEX outbox_by_tenant (tenant_id>?)");
  expect(looks).toContain("SEARCH outbox USING INDEX outbox_by_tenant (tenant_id>? AND tenant_id<?)");
  expect(looks.filter((step) => !partial.test(step) && !byKey.test(step))).toEqual([]);
});

/** Steps that look through a table, or through all that a tenant ever had. */
const long = (steps: readonly string[]): string[] => steps.filter((step) => /^SCAN (?!looked_at|of\d)|\(tenant_id=\?\)$/.test(step));

test("a void and the end of a device find the tenant's open jobs by their state, however many were sealed", async () => {
  const byState = "SEARCH print_jobs USING COVERING INDEX print_jobs_state (tenant_id=? AND state=?)";
  const voided = await planOf((tx) => cancelAllOf(tx, by, randomUUID()));
  await planOf((tx) => tx.db.insert(schema.devices).values(device));
  const removed = await planOf((tx) => devices.remove(tx, caller, device.id));
  for (const steps of [voided, removed]) {
    expect(steps).toContain(byState);
    expect(long(steps)).toEqual([]);
  }
});

test("a credential's version is found by its key", async () => {
  const steps = await planOf((tx) => verifiable.get(tx, tenantId, randomUUID()).catch(() => {}));
  expect(steps).toContain(
    "SEARCH passport_versions USING INDEX sqlite_autoindex_passport_versions_1 (passport_id=? AND version=?) LEFT-JOIN",
  );
  expect(long(steps)).toEqual([]);
});

test("a tenant's credentials are listed from its own, on every page", async () => {
  for (const more of [{}, { cursor: Buffer.from(randomUUID()).toString("base64url") }]) {
    const steps = await planOf((tx) => verifiable.list(tx, tenantId, more));
    expect(steps).toEqual([expect.stringMatching(/^SEARCH issued_credentials USING INDEX issued_credentials_by_tenant \(tenant_id=\?/)]);
  }
});

test("who publishes beside another tenant's things is held against them by labels of one's own, once, however many there are", async () => {
  const gtin = "04006381333900";
  const mine = (n: number) => ({
    tenantId,
    id: randomUUID(),
    gtin,
    identity: `${gtin}/L-${n}`,
    granularity: "batch" as const,
    serialNumber: `L-${n}`,
  });
  const theirs = { identity: `${gtin}/1`, gtin, tenantId: randomUUID(), productId: randomUUID() };
  await store.write("another's claim", ({ db }) => db.insert(schema.claims).values(theirs));
  const first = await planOf((tx) => claim(tx, mine(1)));
  expect(first.filter((step) => !step.startsWith("CORRELATED")).slice(-4)).toEqual([
    "SEARCH own USING INDEX products_by_identity (tenant_id=? AND identity>? AND identity<?)",
    "SEARCH label USING INDEX serials_by_product (product_id=?)",
    "SEARCH claims USING PRIMARY KEY (identity=?)",
    "SEARCH item USING INDEX sqlite_autoindex_products_1 (tenant_id=? AND id=?)",
  ]);
  expect(long(first)).toEqual([]);
  const second = await planOf((tx) => claim(tx, mine(2)));
  expect(second.filter((step) => /\b(label|serials)\b/.test(step))).toEqual([]);
});

test("audit rows of an action, of a class and of a request are found by them, on every page", async () => {
  const cursor = Buffer.from("7").toString("base64url");
  for (const more of [{}, { cursor }]) {
    for (const query of [{ action: "webhook.created" }, { class: "webhook" }] as const) {
      const steps = await planOf((tx) => audit.list(tx, caller, { ...query, ...more }));
      expect(steps.join()).toContain("SEARCH audit_log USING COVERING INDEX audit_log_by_action (tenant_id=? AND action=?");
      expect(long(steps)).toEqual([]);
    }
    const steps = await planOf((tx) => audit.list(tx, caller, { requestId: "r", class: "auth", ...more }));
    expect(steps.join()).toContain("USING INDEX audit_log_by_request (request_id=? AND tenant_id=?");
  }
});

test("a list by what no index says is looked through a stretch at a time, by its key, and others get a turn in between", async () => {
  const fields = ["tenant_id", "id", "identity", "gtin", "serial_number", "granularity", "category", "name", "name_folded", "description"];
  const more = ["extensions", "schema_version", "stage", "version", "serials", "printed", "passports", "created_at", "updated_at"];
  await store.write("many products", ({ db }) =>
    db.run(sql`WITH RECURSIVE row (n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM row WHERE n < 7999)
      INSERT INTO products (${sql.raw([...fields, ...more].join(", "))})
      SELECT ${tenantId}, ${PRODUCT} || n, n, n, 'S', 'model', 'textile', 'x', CASE WHEN n IN (1000, 4500, 7999) THEN 'RED' ELSE 'BLUE' END, 'x', '{}', '1.0.0', 'draft', 1, 0, 0, 0, 1, 1
      FROM row`),
  );
  const { counted, end } = turnsOf(store);
  const steps = await plansOf(async () => {
    const first = await listProducts(counted, caller, { q: "red", limit: 2 });
    const next = await listProducts(counted, caller, { q: "red", limit: 2, cursor: first.nextCursor ?? "" });
    const found = [...first.data, ...next.data].map(({ id }) => id);
    expect([found, next.nextCursor]).toEqual([[7999, 4500, 1000].map((n) => `${PRODUCT}${n}`), null]);
  });
  const looks = end();
  expect(looks.length).toBeGreaterThan(3);
  expect(new Set(looks.slice(1)).size).toBeGreaterThan(looks.length - 3);
  const search = "SEARCH products USING INDEX sqlite_autoindex_products_1 (tenant_id=? AND id>?";
  expect(steps.filter((step) => step.startsWith(search)).length).toBeGreaterThan(0);
  const bySome = await plansOf(() => listProducts(store, caller, { gtin: "04006381333931", category: "textile" }));
  expect(bySome.join()).toContain("SEARCH products USING COVERING INDEX products_by_identity (tenant_id=? AND identity>? AND identity<?)");
  expect(long(bySome)).toEqual([]);
});

test("jobs in a state are found by it, and those of a serial by their names", async () => {
  const inState = await plansOf(() => listJobs(store, caller, { state: "DEAD_LETTER" }));
  expect(inState).toContain("SEARCH print_jobs USING COVERING INDEX print_jobs_state (tenant_id=? AND state=? AND job_ref<?)");
  expect(long(inState)).toEqual([]);
  const serial = { tenantId, serial: "1", gtin: "04006381333931", productId: PRODUCT, n: 1, openJob: "pj_1", createdAt: 1 };
  await store.write("serial", ({ db }) => db.insert(schema.serials).values(serial));
  const ofSerial = await plansOf(() => listJobs(store, caller, { serial: "1" }));
  expect(ofSerial).toContain("SEARCH print_jobs USING INDEX print_jobs_of_serial (serial=?)");
  expect(long(ofSerial)).toEqual([]);
});

test("what a device holds is found by the states of jobs under way, however many were sealed", async () => {
  const columns = [
    "tenant_id",
    "job_ref",
    "state",
    "reached",
    "revision",
    "product_id",
    "gtin",
    "serial",
    "digital_link",
    "needs",
    "template",
  ];
  const more = [
    "priority",
    "station",
    "reprint",
    "pool",
    "device_id",
    "attempt",
    "max_attempts",
    "simulated",
    "duplicate_risk",
    "created_at",
    "updated_at",
  ];
  await store.write("many jobs", ({ db }) =>
    db.run(sql`WITH RECURSIVE row (n) AS (SELECT 10000 UNION ALL SELECT n + 1 FROM row WHERE n < 17999)
      INSERT INTO print_jobs (${sql.raw([...columns, ...more].join(", "))})
      SELECT ${tenantId}, 'pj_000000000000000000000' || n, CASE WHEN n IN (10000, 10001, 14000) THEN 'RENDERED' ELSE 'SEALED' END, 1, 1, 'p', 'g', n, 'x', 1, 'any',
        0, '', 0, 0, CASE n WHEN 10001 THEN 'another' ELSE ${device.id} END, 1, 3, 0, 0, 1, 1
      FROM row`),
  );
  const { counted, end } = turnsOf(store);
  const asked = { device: device.id, state: "RENDERED", limit: 1 } as const;
  const steps = await plansOf(async () => {
    const first = await listJobs(counted, caller, asked);
    const next = await listJobs(counted, caller, { ...asked, cursor: first.nextCursor ?? "" });
    const held = [...first.data, ...next.data].map(({ job_ref: ref }) => ref.slice(-5));
    expect([held, next.nextCursor]).toEqual([["14000", "10000"], null]);
  });
  expect(end()).toHaveLength(2);
  expect(steps).toContain("SEARCH print_jobs USING COVERING INDEX print_jobs_state (tenant_id=? AND state=? AND job_ref<?)");
  expect(long(steps)).toEqual([]);
});

test("what is forgotten is found by its age, however much stays", async () => {
  for (const [name, index] of Object.entries({
    "idempotency answers": "idempotency USING INDEX idempotency_by_expiry (expires_at<?)",
    deliveries: "deliveries USING INDEX deliveries_by_end (ended_at>? AND ended_at<?)",
    "held deliveries": "deliveries USING INDEX deliveries_held (created_at<?)",
    scans: "scans USING COVERING INDEX scans_by_age (at<?)",
    "job hours": "job_hours USING COVERING INDEX job_hours_by_hour (hour>? AND hour<?)",
    "console sessions": "console_sessions USING INDEX console_sessions_end (ends_at<?)",
  })) {
    const steps = await planOf((tx) => retained[name]?.(tx, 8) ?? Promise.resolve());
    expect(steps).toContain(`SEARCH ${index}`);
    expect(long(steps)).toEqual([]);
  }
});

test("events by what isn't in the order's index are looked through a stretch at a time; by id, at once", async () => {
  await store.write("many events", ({ db }) =>
    db.run(sql`WITH RECURSIVE row (n) AS (SELECT 10000 UNION ALL SELECT n + 1 FROM row WHERE n < 19999)
      INSERT INTO epcis_events (tenant_id, event_id, type, biz_location, event_time, record_time, body)
      SELECT ${tenantId}, 'e' || n, 'ObjectEvent', CASE WHEN n IN (10000, 15000, 19999) THEN 'here' ELSE 'there' END, n, 30000 - n, json_object('n', n) FROM row`),
  );
  type Document = { epcisBody: { queryResults: { resultsBody: { eventList: { n: number }[] } } } };
  const { counted, end } = turnsOf(store);
  const found = async (asked: Record<string, string>) => {
    const { document, next } = await epcis.query(counted, tenantId, asked);
    const events = (document as Document).epcisBody.queryResults.resultsBody.eventList;
    return { found: events.map(({ n }) => n), next };
  };
  const here = { EQ_bizLocation: "here" };
  expect(await found(here)).toEqual({ found: [19_999, 15_000, 10_000], next: null });
  expect((await found({ ...here, orderDirection: "ASC" })).found).toEqual([10_000, 15_000, 19_999]);
  expect((await found({ ...here, orderBy: "recordTime", maxEventCount: "3" })).found).toEqual([10_000, 15_000, 19_999]);
  await expect(found({ ...here, maxEventCount: "2" })).rejects.toMatchObject({ code: "QUERY_TOO_LARGE" });
  const first = await found({ ...here, perPage: "2" });
  expect([first.found, await found({ ...here, perPage: "2", nextPageToken: first.next ?? "" })]).toEqual([
    [19_999, 15_000],
    { found: [10_000], next: null },
  ]);
  const looks = end();
  expect(looks.length).toBeGreaterThan(25);
  expect(new Set(looks).size).toBeGreaterThan(12);
  const stretches = await plansOf(() => epcis.query(store, tenantId, { EQ_bizLocation: "nowhere" }));
  expect(stretches).toContain("SEARCH e USING COVERING INDEX epcis_events_by_event_time (tenant_id=?)");
  expect(
    stretches.filter((step) => /epcis_events_by_event_time \(tenant_id=\? AND \(event_time,event_id\)/.test(step)).length,
  ).toBeGreaterThan(0);
  const byId = await plansOf(() => epcis.byId(store, tenantId, "e12345"));
  expect(byId).toEqual([
    "SEARCH e USING INDEX sqlite_autoindex_epcis_events_1 (tenant_id=? AND event_id=?)",
    "USE TEMP B-TREE FOR ORDER BY", // of two: the event, and what declares it an error
    "SEARCH epcis_events USING INDEX sqlite_autoindex_epcis_events_1 (tenant_id=? AND event_id=?)", // what they say, once it is known how large they are
  ]);
});

test("what was declared around events is read a few at a time, and once for a query that looks into many of them", async () => {
  const declared = (n: number) => sql`json_array(json_object('c' || ${n}, 'https://c.example/', 'same', 'https://same.example/'))`;
  await store.write("contexts", async ({ db }) => {
    for (let n = 0; n < 40; n += 1)
      await db.run(sql`INSERT INTO epcis_contexts (tenant_id, id, context) VALUES (${tenantId}, ${`c${n}`}, ${declared(n)})`);
    await db.run(sql`WITH RECURSIVE row (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM row WHERE n < 399)
      INSERT INTO epcis_events (tenant_id, event_id, type, biz_step, event_time, record_time, context_id, body)
      SELECT ${tenantId}, 'declared' || n, 'ObjectEvent', 'declaring', 40000 + n, 1, 'c' || (n % 40), json_object('same:mark', n) FROM row`);
  });
  const reads: string[] = [];
  const noted = { ...store, read: ((label, work) => (reads.push(label), store.read(label, work))) as typeof store.read };
  const asked = { EQ_bizStep: "declaring", perPage: "1000" };
  const ofContexts = () => reads.splice(0).filter((label) => label === "epcis contexts").length;
  const all = await epcis.query(noted, tenantId, asked);
  expect([all.found, (all.document["@context"] as unknown[]).length, ofContexts()]).toEqual([400, 1 + 40, 3]);
  const looked = await epcis.query(noted, tenantId, { ...asked, "LT_https://same.example/mark": "0" });
  expect([looked.found, ofContexts()]).toEqual([0, 3]);
});

test("a chain is walked a slice at a time, and others get a turn in between", async () => {
  await store.write("many rows", async (tx) => {
    for (let n = 0; n < 3_500; n += 1) audit.append(tx, caller, { action: "print.reported", subject: null, requestId: `r${n}` });
  });
  const { counted, end } = turnsOf(store);
  expect(await judgeChain(counted, tenantId)).toMatchObject({ valid: true, rows: 3_500 });
  expect(new Set(end()).size).toBeGreaterThan(3);
});
