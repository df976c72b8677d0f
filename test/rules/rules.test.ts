// The tables and what reads them: scopes, secrets, settings, the README.
import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { grantable, holds } from "#shared/scopes.ts";
import { closed } from "#shared/wire/common.ts";
import { JobCreate } from "#shared/wire/jobs.ts";
import { configFrom } from "../../cloud/config.ts";
import { looksWhole, mintSecret } from "../../cloud/domain/secrets.ts";
import { placed, setForm } from "../../cloud/store/postgres-sets.ts";
import { judgeOf } from "../../cloud/validate.ts";
import { written } from "../house/readme.ts";

test.each([
  [["products:view"], "products:read", true],
  [["products:read"], "products:view", true],
  [["credential:read"], "credentials:read", true],
  [["credential:read"], "credentials:verify", false],
  [["aidc:read"], "supply_chain:view", false],
  [["supply_chain:view"], "aidc:read", true],
  [["production:view"], "aidc:read", true],
  [["supply_chain:edit"], "aidc:write", true],
  [["supply_chain:edit"], "aidc:read", false],
  [["credentials:verify"], "credential:verify", true],
  [["credential:read", "credential:write"], "credential:verify", false],
  [["passport:write"], "dpp:edit", false],
  [["*:*"], "dpp:edit", true],
  [["dpp:*"], "dpp:edit", true],
  [["dpp:*"], "products:read", false],
  [["*:*"], "platform:admin", false],
  [["*:*"], "platform:*", false],
  [["platform:*"], "platform:admin", true],
  [["platform:*"], "products:read", false],
])("%j for %s: %s", (granted, wanted, answer) => expect(holds(granted, wanted)).toBe(answer));

test("every scope satisfies itself and nothing is satisfied by nothing", () => {
  for (const scope of grantable) expect([holds([scope], scope), holds([], scope)]).toEqual([true, false]);
});

test("a secret that was cut, or in which a letter changed, is seen without asking the store", () => {
  const secret = mintSecret();
  expect(looksWhole(secret)).toBe(true);
  const other = secret[20] === "a" ? "b" : "a";
  expect(looksWhole(secret.slice(0, 20) + other + secret.slice(21))).toBe(false);
});

test.each([
  [{ IMPRIMATUR_PORT: "80800" }, "IMPRIMATUR_PORT"],
  [{ IMPRIMATUR_DATABASE_URL: "mysql://x" }, "IMPRIMATUR_DATABASE_URL"],
  [{ IMPRIMATUR_BOOTSTRAP_KEY: "short" }, "IMPRIMATUR_BOOTSTRAP_KEY"],
  [{ IMPRIMATUR_RATE_LIMIT: "maybe" }, "on or off"],
  [{ IMPRIMATUR_PUBLIC_URL: "https://a.example/path" }, "IMPRIMATUR_PUBLIC_URL"],
  [{ IMPRIMATUR_PUBLIC_URL: "https://:secret@a.example" }, "must be an origin"],
  [{ IMPRIMATUR_REGISTRY_URL: "https://registry.example/?token=a" }, "IMPRIMATUR_REGISTRY_URL: must end with its path"],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318/#a" }, "must end with its path"],
  [{ IMPRIMATUR_MQTT_URL: "tcp://broker.example" }, "begins with mqtt://"],
  [{ IMPRIMATUR_MQTT_URL: "mqtt://" }, "must name a host"],
  [{ IMPRIMATUR_MQTT_URL: "mqtt://cloud:100%@broker.example" }, "percent-encoded"],
  [{ IMPRIMATUR_MQTT_URL: "mqtt://cloud:p@ss/word@broker.example" }, "percent-encoded (@ is %40"],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://u:p@ss/word@db.example/imprimatur" }, "percent-encoded (@ is %40"],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://u:12#34@db.example/imprimatur" }, "percent-encoded (@ is %40"],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://u:p@ss?word@db.example/imprimatur" }, "percent-encoded (@ is %40"],
  [{ IMPRIMATUR_MQTT_PUBLIC_URL: "mqtt://cloud:secret@broker.example" }, "no user or password"],
  [{ IMPRIMATUR_PROT: "1" }, "did you mean IMPRIMATUR_PORT"],
  [{ IMPRIMATUR_HOST: "fe80::1%eth0" }, "no URL can have fe80::1%eth0 in it: set IMPRIMATUR_PUBLIC_URL"],
  [
    { IMPRIMATUR_DATABASE_URL: "postgres://db.example/x?ssl_mode=verify-full" },
    "ssl_mode in it, which nothing here heeds: what is heeded of TLS is ssl, sslmode",
  ],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://db.example/x?SSLMODE=require" }, "SSLMODE in it"],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://db.example/x?tls=true" }, "tls in it"],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://db.example/x?sslmode=verify-full&sslcrl=a.pem" }, "sslcrl in it"],
  [
    { IMPRIMATUR_SEALING_KEY: String.raw`the-newest-of-two-keys-0001\nthe-older-of-two-keys-000002` },
    String.raw`\n between what look like two keys`,
  ],
  [{ IMPRIMATUR_DATA_DIR: " /var/lib/imprimatur" }, "IMPRIMATUR_DATA_DIR: must be a folder's path, which doesn't begin with a blank or ~"],
  [{ IMPRIMATUR_DATA_DIR: "~/imprimatur" }, "IMPRIMATUR_DATA_DIR: must be a folder's path, which doesn't begin with a blank or ~"],
])("the setting %j is refused by name", (env, words) => expect(() => configFrom(env)).toThrow(words));

test("an address that no URL has is listened at where another one is told", () => {
  const { HOST, PUBLIC_URL } = configFrom({ IMPRIMATUR_HOST: "fe80::1%eth0", IMPRIMATUR_PUBLIC_URL: "https://id.example" });
  expect([HOST, PUBLIC_URL]).toEqual(["fe80::1%eth0", "https://id.example"]);
  for (const host of ["::", "::1", "0.0.0.0", "localhost", "line-7.factory.local"])
    expect(configFrom({ IMPRIMATUR_HOST: host }).HOST).toBe(host);
});

test("a key that has a \\n in it by chance is one key", () => {
  const key = String.raw`Kx9\nQ2-this-is-one-random-key-it-worked`;
  expect(configFrom({ IMPRIMATUR_SEALING_KEY: key }).SEALING_KEY).toEqual([key]);
});

test.each(["sslmode=verify-full&sslrootcert=ca.pem", "ssl=true", "application_name=a"])("what the driver knows is taken: %s", (query) => {
  const url = `postgres://db.example/x?${query}`;
  expect(configFrom({ IMPRIMATUR_DATABASE_URL: url }).DATABASE_URL).toBe(url);
});

test("places are named outside of quotes only", () => {
  expect(placed(`SELECT "a?" FROM t WHERE b = ? AND c = 'it''s ?' AND d = ?`, (n) => `$${n}`)).toBe(
    `SELECT "a?" FROM t WHERE b = $1 AND c = 'it''s ?' AND d = $2`,
  );
});

const GIVEN = "unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS given(v1, v2, nth)";
test.each([
  [
    "select a from t where b = ? and c = ?",
    `SELECT given.nth, found.* FROM ${GIVEN} CROSS JOIN LATERAL (select a from t where b = given.v1 and c = given.v2 OFFSET 0) AS found`,
  ],
  [
    "insert into t (a, b, c) values (?, null, ?)",
    `insert into t (a, b, c) SELECT given.v1, null, given.v2 FROM ${GIVEN} ORDER BY given.nth`,
  ],
  ["update t set a = ? where b = ?", `update t set a = given.v1 FROM ${GIVEN} WHERE b = given.v2 RETURNING given.nth`],
  [
    `update t set a = ? where ("t"."b" = ? AND ("t"."c" = 0 or "t"."c" IS NULL)) and d BETWEEN 1 and 2`,
    `update t set a = given.v1 FROM ${GIVEN} WHERE "t"."b" = given.v2 and COALESCE(("t"."c" = 0 or "t"."c" IS NULL) and d BETWEEN 1 and 2, false) RETURNING given.nth`,
  ],
  [
    "update t set a = ? where b = ? and c = 'x and (y' or d",
    `update t set a = given.v1 FROM ${GIVEN} WHERE b = given.v2 and c = 'x and (y' or d RETURNING given.nth`,
  ],
  ["delete from t where a = ? and b = ?", `delete from t USING ${GIVEN} WHERE a = given.v1 and b = given.v2 RETURNING given.nth`],
])("%s is asked for many rows at once", (one, many) => expect(setForm(one, ["text", "bigint"])).toBe(many));

test.each([
  "insert into t (a, b) values (?, ?), (?, ?)",
  "insert into t (a, b) values (?, f(?))",
  "insert into t (a, b) values (?, ?) on conflict do nothing",
  "update t set a = ? where b = ? returning a",
  "update t set a = ? where b in (select b from s where c = ?)",
  "SELECT a FROM t WHERE b = ? AND c = ? /* locked */",
  "SELECT a FROM t WHERE b = ? LIMIT 1 OFFSET ?",
  "begin",
])("%s is asked one by one", (one) => expect(setForm(one, ["text", "bigint"])).toBeUndefined());

test("the README's tables say what the code says", () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  expect(written(readme)).toBe(readme);
});

test("of what was refused nothing is kept: not its megabytes, and not the secret in it", async () => {
  setFlagsFromString("--expose-gc");
  const judge = judgeOf(closed({}));
  const refused = () => {
    const sent = { secret: "imp_" };
    expect(judge(sent)).toHaveLength(1);
    return new WeakRef(sent);
  };
  const left = refused();
  await new Promise(setImmediate); // until then a WeakRef's own look holds it
  runInNewContext("gc")();
  expect(left.deref()).toBeUndefined();
});

test("what is refused names a field, also where its choices are asked for twice by one name", () => {
  const $defs = { Some: { anyOf: [{ type: "string" }, { type: "integer" }] } };
  const some = { $ref: "#/$defs/Some" };
  const judge = judgeOf({ $defs, properties: { a: { allOf: [some, some] }, b: { anyOf: [some, some, { type: "null" }] } } });
  expect(judge({ a: true, b: true }).map(({ field, rule }) => `${field} ${rule}`)).toEqual(["a type", "b type"]);
  expect(judge({ a: 5, b: null })).toEqual([]);
});

test("which names were meant is asked of those that are told alone: a batch of unknown fields takes no longer for being near to known ones", () => {
  const judge = judgeOf(JobCreate);
  const unknown = (nameOf: (i: number) => string) => Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [nameOf(i), 1]));
  const fastest = (sent: object) =>
    Math.min(
      ...Array.from({ length: 15 }, () => {
        const at = performance.now();
        judge(sent);
        return performance.now() - at;
      }),
    );
  const [near, far] = [unknown((i) => `name${i}`), unknown((i) => `${"x".repeat(40)}${i}`)];
  judge(near);
  expect(fastest(near) / fastest(far)).toBeLessThan(5); // twice as long; tenfold where each of them is asked
});
