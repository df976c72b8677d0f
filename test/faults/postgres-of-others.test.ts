// PostgreSQL as others have set it up: it serves all the same, or the start says in one line what to set.
import { execFileSync, spawnSync } from "node:child_process";
import { appendFileSync, chmodSync, chownSync, copyFileSync, existsSync, mkdtempSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { jobPath } from "#shared/states.ts";
import { createLog } from "../../cloud/log.ts";
import { openPostgres } from "../../cloud/store/postgres.ts";
import { storeOn } from "../../cloud/store/store.ts";
import { isTooOld, pgbouncerMissing, startPgbouncer } from "../../fixtures/pgbouncer.ts";
import { onServer, startPostgres } from "../../fixtures/postgres.ts";
import { type Claim, printShop } from "../../fixtures/print-shop.ts";
import { startProgram } from "../../fixtures/program.ts";
import { endsWithFile, freshFolder } from "../endings.ts";
import { freshDatabase, world } from "../world.ts";

const SOON = { timeout: 30_000, interval: 50 };
const folder = freshFolder("of-others");

const own = async (): Promise<[url: string, name: string]> => {
  const url = (await freshDatabase("postgres")) ?? "";
  return [url, new URL(url).pathname.slice(1)];
};
const KEY = "the-key-of-all-nodes-0001";
async function worldOn(databaseUrl: string) {
  const w = await world({ databaseUrl, clock: false, settings: { IMPRIMATUR_BOOTSTRAP_KEY: KEY } }, onTestFinished);
  return { url: w.url, as: w.as, admin: w.as(KEY), logged: w.logged };
}
type Node = Awaited<ReturnType<typeof worldOn>>;
/** What is wrong after labels of several stations, in single calls and in batches, went all their way, and lists were asked for. */
async function wrongAfterLabels(w: Node): Promise<string[]> {
  const { admin, gtin, allocate, newDevice } = await printShop(w);
  const serials = await allocate(24);
  await admin.post("/aidc/jobs/batch", { items: serials.map((serial) => ({ gtin, serial })) });
  const stations = await Promise.all(Array.from({ length: 4 }, (_, n) => newDevice(`line ${n}`)));
  const sealed = await Promise.all(
    stations.map(async ({ api, claim, seal }) => {
      const { claims } = (await api.post("/aidc/jobs/claim/batch", { max: 3, needs: ["qr"] })).body as { claims: Claim[] };
      for (let n = claims.length; n < 6; n += 1) claims.push(await claim({ needs: ["qr"] }));
      await Promise.all(claims.map(seal));
      return claims.map(({ job }) => job.job_ref);
    }),
  );
  const wrong = sealed.flat().map(async (ref) => {
    const { data } = (await admin.get(`/aidc/jobs/${ref}/history`)).body as { data: { to: string }[] };
    return data.map(({ to }) => to).join() === jobPath.join() ? [] : [`${ref}: ${data.map(({ to }) => to).join()}`];
  });
  const found = (await admin.get("/products?q=KETTLE%251_7")).status;
  const { valid } = (await admin.get("/audit-logs/verify")).body;
  return [
    ...(await Promise.all(wrong)).flat(),
    ...(new Set(sealed.flat()).size === serials.length ? [] : ["a job was claimed twice"]),
    ...(found === 200 && valid === true ? [] : [`search ${found}, chain ${valid}`]),
  ];
}

test.each([
  ["standard_conforming_strings = off", "backslash_quote = off"],
  ["array_nulls = off", "quote_all_identifiers = on"],
  ["lock_timeout = '1ms'", "statement_timeout = '10ms'", "idle_in_transaction_session_timeout = '10ms'"],
  ["default_transaction_isolation = 'serializable'"],
  ["DateStyle = 'SQL, DMY'", "TimeZone = 'Asia/Kathmandu'", "bytea_output = 'escape'", "client_encoding = 'LATIN1'", "extra_float_digits = -5"],
])("labels are printed and found in a database with %s", async (...settings) => {
  const [url, name] = await own();
  for (const setting of settings) await onServer(url, `ALTER DATABASE ${name} SET ${setting}`);
  expect(await wrongAfterLabels(await worldOn(url))).toEqual([]);
}); // oxfmt-ignore

test("in a database whose collation orders and folds letters its own way, too", async () => {
  const [url, name] = await own();
  await onServer(url, `CREATE DATABASE ${name}_tr TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR' LOCALE 'C'`);
  expect(await wrongAfterLabels(await worldOn(`${url}_tr`))).toEqual([]);
});

test("a server that gives a node fewer connections than it would take serves it with those, and refuses nothing", async () => {
  const [url, name] = await own();
  await onServer(url, `CREATE ROLE few_${name} LOGIN CONNECTION LIMIT 3; ALTER DATABASE ${name} OWNER TO few_${name}`);
  const w = await worldOn(url.replace("imprimatur@", `few_${name}@`));
  const write = async (_: unknown, n: number) => (await w.admin.post("/api-keys", { name: `${n}`, scopes: ["aidc:read"] })).status;
  expect(new Set(await Promise.all(Array.from({ length: 60 }, write)))).toEqual(new Set([201]));
});

test("a server that ends idle connections is no reason to refuse what comes on one of them", { timeout: 60_000 }, async () => {
  const [url, name] = await own();
  const w = await worldOn(url);
  await onServer(url, `ALTER DATABASE ${name} SET idle_session_timeout = '200ms'`);
  await onServer(
    url,
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
  );
  await expect.poll(async () => (await w.admin.get("//readyz")).status, SOON).toBe(200);
  const statuses = new Set<number>();
  const line = async () => {
    for (let n = 0; n < 30; n += 1) {
      await sleep(195 + 10 * Math.random()); // just when the server loses its patience
      statuses.add((await w.admin.get("/api-keys")).status);
      statuses.add((await w.admin.post("/api-keys", { name: "x", scopes: ["aidc:read"] })).status);
    }
  };
  await Promise.all(Array.from({ length: 8 }, line));
  expect(statuses).toEqual(new Set([200, 201]));
});

test("what brings tables up to date may take longer than transactions are given, and sees what others commit meanwhile", async (t) => {
  const [url, name] = await own();
  await onServer(url, `ALTER DATABASE ${name} SET transaction_timeout = '100ms'`);
  await onServer(url, `ALTER DATABASE ${name} SET default_transaction_isolation = 'repeatable read'`);
  const engine = openPostgres({ url });
  t.onTestFinished(storeOn(engine, createLog("silent")).close);
  await engine.script("CREATE TABLE told AS SELECT 1 AS n");
  const first = engine.script("SELECT 1 FROM told; SELECT pg_sleep(0.3); UPDATE told SET n = n + 1");
  await onServer(url, "UPDATE told SET n = 10");
  await first;
  expect(await storeOn(engine, createLog("silent")).read("look", ({ db }) => db.values("SELECT n FROM told"))).toEqual([[11]]);
});

test("a search path in the URL's options is kept, and what we ask of each connection with it", async (t) => {
  const [url] = await own();
  await onServer(url, "CREATE SCHEMA mine");
  const engine = openPostgres({ url: `${url}?options=-c%20search_path%3Dmine%20-c%20synchronous_commit%3Doff` });
  const store = storeOn(engine, createLog("silent"));
  t.onTestFinished(store.close);
  const names = ["search_path", "synchronous_commit", "enable_seqscan", "lock_timeout"];
  const shown = await store.read("look", ({ db }) => db.values(`SELECT ${names.map((name) => `current_setting('${name}')`).join(", ")}`));
  expect(shown).toEqual([["mine", "on", "off", "0"]]);
});

/** What a start says that doesn't come to serve. */
async function refusal(url: string): Promise<string> {
  const dataDir = mkdtempSync(join(folder, "data-"));
  const env = { IMPRIMATUR_PORT: "0", IMPRIMATUR_MQTT_PORT: "0", IMPRIMATUR_DATA_DIR: dataDir, IMPRIMATUR_DATABASE_URL: url };
  try {
    const cloud = await startProgram("cloud/main.ts", env);
    await cloud.end();
    return `it started: ${cloud.complaints()}`;
  } catch (error) {
    return (error as Error).message.replace("cloud/main.ts ended before it was ready: ", "");
  }
}

const [MAKES, PATH] = ["GRANT CREATE ON SCHEMA public TO plain", "ALTER DATABASE IT SET search_path"];
test.each([
  ["SELECT 1", "plain may make no tables in the schema public: GRANT CREATE ON SCHEMA public TO plain"],
  [`${PATH} = nowhere`, "no schema of the search path (nowhere) is there for plain: CREATE SCHEMA, or ALTER ROLE plain SET search_path"],
  [
    `${MAKES}; ALTER DATABASE IT SET default_transaction_read_only = on`,
    "cannot execute CREATE TABLE in a read-only transaction: name the primary in IMPRIMATUR_DATABASE_URL, or set default_transaction_read_only = off",
  ],
  [
    `${MAKES}; CREATE TABLE migrations (version BIGINT, name TEXT, digest TEXT)`,
    "permission denied for table migrations: the role of IMPRIMATUR_DATABASE_URL has to own our tables, or to be granted what it lacks",
  ],
  [
    `${MAKES}; CREATE FUNCTION is_full() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room' USING ERRCODE = '53100';END $$; CREATE EVENT TRIGGER is_full ON ddl_command_start EXECUTE FUNCTION is_full()`,
    "no room: make room on the disk of the database's server",
  ],
  [
    `CREATE TABLE migrations (version BIGINT, name TEXT, digest TEXT); GRANT SELECT ON migrations TO plain; CREATE SCHEMA mine AUTHORIZATION plain; ${PATH} = mine, public`,
    "our tables are in the schema public, and the search path (mine, public) has mine before it: ALTER ROLE plain SET search_path = the one that is meant",
  ],
])("after %s a start ends with one line: %s", async (setUp, says) => {
  const [url, name] = await own();
  await onServer(url, "DO $$ BEGIN CREATE ROLE plain LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
  for (const statement of setUp.split("; ")) await onServer(url, statement.replace("IT", name));
  expect((await refusal(url.replace("imprimatur@", "plain@"))).replace("can't start: ", "")).toBe(`imprimatur: ${says}\n`);
});

test("a database that can't hold every text is refused at the start", async () => {
  const [url, name] = await own();
  await onServer(url, `CREATE DATABASE ${name}_latin ENCODING 'LATIN1' TEMPLATE template0`);
  expect(await refusal(`${url}_latin`)).toBe(
    "imprimatur: can't start: the database's encoding is LATIN1, which not all texts have: make one with ENCODING 'UTF8' TEMPLATE template0\n",
  );
});

test("a password and hosts as libpq would take them: what our driver can't take is told before anything is tried", async () => {
  const [percent, one] = [
    "must have its user and password percent-encoded (@ is %40, / is %2F, ? is %3F, # is %23)",
    "must name one host: of several, the address that leads to the primary",
  ];
  for (const [authority, says] of [
    ["me:a/b@127.0.0.1:1/x", `${percent}, and a socket's folder as in postgres:///DATABASE?host=/FOLDER&user=USER`],
    ["me:a%E4b@127.0.0.1:1/x", percent],
    ["me@one:5432,two:5432/x", one],
    ["me:a,b@one,two", one],
  ])
    expect(await refusal(`postgres://${authority}`)).toBe(`imprimatur: IMPRIMATUR_DATABASE_URL: ${says}\n`);
  expect(await refusal("postgres://me:a,b@127.0.0.1:1/x")).toContain("ECONNREFUSED");
});

test("a server that asks for a password: who gives none, or a wrong one, is told where it stands", async () => {
  const server = await startPostgres();
  endsWithFile(server.stop);
  await onServer(server.url, "CREATE ROLE plain LOGIN PASSWORD 'its own'");
  writeFileSync(join(server.data, "pg_hba.conf"), "host all imprimatur all trust\nhost all plain all scram-sha-256\n");
  await onServer(server.url, "SELECT pg_reload_conf()");
  const todo = "check the password in IMPRIMATUR_DATABASE_URL (postgres://USER:PASSWORD@HOST/DATABASE, percent-encoded)";
  const as = (who: string) => refusal(server.url.replace("imprimatur@", who));
  await expect.poll(() => as("plain:another@"), SOON).toBe(`imprimatur: password authentication failed for user "plain": ${todo}\n`);
  for (const who of ["plain@", "plain:@"])
    expect(await as(who)).toBe(`imprimatur: the server asks for a password, and none was given: ${todo}\n`);
});

const OPENSSL = "/usr/bin/openssl";
const opensslMissing = existsSync(OPENSSL) ? undefined : `${OPENSSL} isn't installed (apt-get install openssl)`;
test("a server that takes only TLS: who doesn't ask for it, or can't tell whom it speaks to, is told what to set; with its CA it serves", async (t) => {
  t.skip(opensslMissing !== undefined, opensslMissing);
  const server = await startPostgres();
  endsWithFile(server.stop);
  const [ca, key] = [join(folder, "ca.crt"), join(folder, "server.key")];
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  execFileSync(OPENSSL, ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", ...subject, "-keyout", key, "-out", ca], { stdio: "ignore" });
  const owner = statSync(server.data);
  for (const [from, to] of [[ca, "server.crt"], [key, "server.key"]] as const) {
    copyFileSync(from, join(server.data, to));
    chmodSync(join(server.data, to), 0o600);
    chownSync(join(server.data, to), owner.uid, owner.gid);
  }
  writeFileSync(join(server.data, "pg_hba.conf"), "hostssl all remote all trust\nhost all imprimatur all trust\n");
  await onServer(server.url, "CREATE ROLE remote LOGIN SUPERUSER");
  appendFileSync(join(server.data, "postgresql.auto.conf"), "ssl = on\n");
  await onServer(server.url, "SELECT pg_reload_conf()");
  const url = (await server.createDatabase("tls")).replace("imprimatur@127.0.0.1", "remote@localhost");
  await expect.poll(() => refusal(url), SOON).toMatch(/^imprimatur: no pg_hba.conf entry .*; a server that takes only TLS wants sslmode=verify-full in it\n$/);
  for (const mode of ["require", "verify-full"])
    expect(await refusal(`${url}?sslmode=${mode}`)).toMatch(
      /^imprimatur: self-signed certificate.*: name its CA in IMPRIMATUR_DATABASE_URL \(sslrootcert=FILE\), or in NODE_EXTRA_CA_CERTS\n$/,
    );
  const known = `sslmode=require&sslrootcert=${ca}`;
  expect(await refusal(`${url.replace("localhost", "127.0.0.1")}?${known}`)).toMatch(/: name the server in IMPRIMATUR_DATABASE_URL as its certificate does\n$/);
  expect(await wrongAfterLabels(await worldOn(`${url}?${known}`))).toEqual([]);
  expect(await refusal(`${url}?${known}`)).toMatch(/^it started: (imprimatur: the first admin key, [^\n]*\n)?$/);
}); // oxfmt-ignore

const ON_THE_ROLE = ["synchronous_commit = on", "statement_timeout = '30s'", "idle_in_transaction_session_timeout = '10s'", "jit = off"];
const PLANS = ["enable_seqscan = off", "enable_hashjoin = off", "enable_mergejoin = off"];
test.for([
  ["session", "without", []],
  ["session", "with", [...ON_THE_ROLE, ...PLANS]],
  ["transaction", "with", [...ON_THE_ROLE, ...PLANS]],
] as const)("labels are printed by two nodes through a pgbouncer in %s mode, %s our settings at the server", async ([mode, how, settings], t) => {
  const missing = mode === "session" ? pgbouncerMissing : isTooOld();
  t.skip(missing !== undefined, missing);
  const [url, name] = await own();
  for (const setting of settings) await onServer(url, `ALTER DATABASE ${name} SET ${setting}`);
  const pooler = await startPgbouncer(url, { mode });
  endsWithFile(pooler.end);
  const nodes = [await worldOn(pooler.url), await worldOn(pooler.url)];
  expect((await Promise.all(nodes.map(wrongAfterLabels))).flat()).toEqual([]);
  const isWarned = ({ logged }: Node) => logged().some((line) => line.includes("store-settings-lost"));
  expect(nodes.map(isWarned)).toEqual([how === "without", how === "without"]);
  const env = { ...process.env, IMPRIMATUR_DATABASE_URL: pooler.url, IMPRIMATUR_DATA_DIR: folder };
  const { stdout } = spawnSync(process.execPath, ["cloud/doctor.ts", "--json"], { env, encoding: "utf8" });
  const looked = (JSON.parse(stdout) as { check: string; mark: string }[]).find(({ check }) => check === "database");
  expect(looked?.mark).toBe(how === "without" ? "warn" : "ok");
}); // oxfmt-ignore

test("a pgbouncer that knows none of our settings is told apart from a wrong URL", async (t) => {
  t.skip(pgbouncerMissing !== undefined, pgbouncerMissing);
  const [url] = await own();
  const pooler = await startPgbouncer(url, { mode: "session", ignored: "" });
  endsWithFile(pooler.end);
  expect(await refusal(pooler.url)).toBe(
    'imprimatur: unsupported startup parameter: statement_timeout: behind a pooler see "PostgreSQL of others" in the README\n',
  );
});
