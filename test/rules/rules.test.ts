// The tables and what reads them: scopes, secrets, settings, the README.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { grantable, holds } from "#shared/scopes.ts";
import { configFrom } from "../../cloud/config.ts";
import { looksWhole, mintSecret } from "../../cloud/domain/secrets.ts";
import { numbered } from "../../cloud/store/postgres.ts";
import { written } from "../house/readme.ts";

test.each([
  [["products:view"], "products:read", true],
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
  [{ IMPRIMATUR_MQTT_URL: "tcp://broker.example" }, "begins with mqtt://"],
  [{ IMPRIMATUR_MQTT_URL: "mqtt://" }, "must name a host"],
  [{ IMPRIMATUR_MQTT_URL: "mqtt://cloud:100%@broker.example" }, "percent-encoded"],
  [{ IMPRIMATUR_PROT: "1" }, "did you mean IMPRIMATUR_PORT"],
])("the setting %j is refused by name", (env, words) => expect(() => configFrom(env)).toThrow(words));

test("places are numbered outside of quotes only", () => {
  expect(numbered(`SELECT "a?" FROM t WHERE b = ? AND c = 'it''s ?' AND d = ?`)).toBe(
    `SELECT "a?" FROM t WHERE b = $1 AND c = 'it''s ?' AND d = $2`,
  );
});

test("the README's tables say what the code says", () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  expect(written(readme)).toBe(readme);
});
