// The deployment example against what it is an example of: settings that exist, the same parts as the tests start by hand, files that their programs accept.
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { parseYaml } from "@redocly/openapi-core";
import { expect, test } from "vitest";
import { errors } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { configFrom, settings } from "../../cloud/config.ts";
import { SHARED } from "../../fixtures/cluster.ts";
import { HAPROXY, haproxyMissing } from "../../fixtures/haproxy.ts";
import { aclOfReadme } from "../../fixtures/mqtt.ts";
import { freshFolder } from "../endings.ts";

type Service = {
  environment?: Record<string, string>;
  volumes?: string[];
  healthcheck?: { test: string[] };
  stop_grace_period?: string;
  command?: string[];
};
const folder = new URL("../../cloud/deploy/", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, folder), "utf8");
const example = Object.fromEntries(
  [...read("example.env").matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name = "", value = ""]) => [name, value]),
);
const secret = randomBytes(24).toString("hex");
/** As compose fills it in: from .env, a default, or not at all, which is an error. */
const filled = (text: string) =>
  text.replaceAll(/\$\{([A-Z_]+)(?::-([^}]*)|:\?)\}/g, (_, name: string, fallback?: string) => {
    const value = example[name] === "" ? secret : (example[name] ?? fallback);
    if (value === undefined) throw new Error(`example.env lacks ${name}`);
    return value;
  });
const { services } = parseYaml(filled(read("compose.yaml"))) as { services: Record<string, Service> };
const nodes = Object.entries(services).filter(([name]) => name.startsWith("node-"));
const temporary = freshFolder("deploy");

test("three nodes get settings that exist and are taken, and the same but for their folders", () => {
  expect(nodes.map(([name]) => name)).toEqual(["node-1", "node-2", "node-3"]);
  for (const [, { environment = {} }] of nodes) {
    expect(Object.keys(environment).filter((name) => !(name in settings))).toEqual([]);
    expect(environment).toEqual(nodes[0]?.[1].environment);
    expect(configFrom(environment)).toMatchObject({
      PORT: 8080,
      TRUST_PROXY: ["172.30.0.0/24"],
      PUBLIC_URL: "https://imprimatur.example",
      MQTT_PUBLIC_URL: "mqtt://imprimatur.example:1883", // stations don't see the network inside
    });
  }
  expect(new Set(nodes.map(([, { volumes }]) => volumes?.join())).size).toBe(3);
});

test("no secret of it is one that everybody knows: empty, it stops the start until it is set", () => {
  const asked = [...read("compose.yaml").matchAll(/\$\{([A-Z_]*(?:KEY|PASSWORD))(:\?)?/g)].map(([, name = "", isNeeded]) => ({
    name,
    isNeeded,
  }));
  expect(asked.length).toBeGreaterThan(4);
  expect(asked.filter(({ name, isNeeded }) => example[name] !== "" || isNeeded === undefined)).toEqual([]);
});

test("what the tests tell every node of a cluster, the example tells them too", () => {
  const told = Object.keys(nodes[0]?.[1].environment ?? {});
  expect(SHARED.filter((name) => !told.includes(name))).toEqual([]);
});

test("a node may drain before it is killed, is asked at /readyz, and the server has connections for all of them", () => {
  for (const [, { stop_grace_period: grace = "", healthcheck, environment = {} }] of nodes) {
    const notice = Number(environment["IMPRIMATUR_DRAIN_NOTICE_S"]) * 1_000;
    expect(Number.parseInt(grace, 10) * 1_000).toBeGreaterThan(limits.DRAIN_MAX_MS + notice);
    expect(healthcheck?.test.join(" ")).toContain("/readyz");
  }
  const most = Number(/max_connections=(\d+)/.exec(services["postgres"]?.command?.join(" ") ?? "")?.[1]);
  expect(most).toBeGreaterThanOrEqual(nodes.length * limits.POSTGRES_CONNECTIONS + 10);
});

test("the broker's rules are the README's", () => {
  expect(read("mosquitto.acl")).toBe(aclOfReadme());
  expect(read("mosquitto.conf")).toMatch(/^allow_anonymous false$/m);
});

test("in a node's container its commands are found by their name, as the alerts and the README name them", () => {
  const dockerfile = read("Dockerfile");
  const [, home = ""] = /^WORKDIR (\S+)$/m.exec(dockerfile) ?? [];
  expect(dockerfile).toContain(`ENV PATH=${home}/node_modules/.bin:$PATH\n`);
  expect(dockerfile).toMatch(/^ENTRYPOINT \["imprimatur", "cloud"\]$/m);
});

if (haproxyMissing) process.stderr.write(`skipped: the proxy's configuration: ${haproxyMissing}\n`);
test.skipIf(haproxyMissing)("the proxy's configuration is one, names all nodes and asks whether they are ready", async () => {
  const check = async (text: string) => {
    const file = join(temporary, "haproxy.cfg");
    writeFileSync(file, text);
    return promisify(execFile)(HAPROXY, ["-c", "-f", file]).then(
      () => "valid",
      () => "refused",
    );
  };
  const text = read("haproxy.cfg");
  expect(await check(text)).toBe("valid");
  expect(await check(text.replace("balance leastconn", "balance by chance"))).toBe("refused");
  for (const [name] of nodes) expect(text).toMatch(new RegExp(`^ +server ${name} ${name}:8080$`, "m"));
  expect(text).toMatch(/uri \/readyz/);
  const codes = [...text.matchAll(/"code":"(\w+)"/g)].map(([, code]) => code);
  expect(codes).toHaveLength(4);
  expect(Object.keys(errors)).toEqual(expect.arrayContaining(codes));
});
