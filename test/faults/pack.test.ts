// The tarball as a stranger meets it: packed, read through, installed into an empty folder, run from somewhere else.
import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { startProgram } from "../../fixtures/program.ts";
import { startReceiver } from "../../fixtures/receiver.ts";
import { pngOfGray } from "../../fixtures/scanners/optics.ts";
import { freshFolder } from "../endings.ts";

const run = promisify(execFile);
const folder = freshFolder("pack");
const elsewhere = join(folder, "elsewhere");
mkdirSync(elsewhere);

const manifest = JSON.parse(readFileSync("package.json", "utf8"));
const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { maxBuffer: 8_000_000 });
const said = JSON.parse(stdout);
type Packed = { filename: string; files: { path: string }[] };
const packedOf = (said: unknown) => (Array.isArray(said) ? said : Object.values(said as object))[0] as Packed;
const { filename, files } = packedOf(said);
const paths = new Set<string>(files.map(({ path }: { path: string }) => path));

/** Every name that the module brings in: by import, by export from, and by the doors that take a name as text. */
const namesIn = (text: string) =>
  [...text.matchAll(/^(?:import|export|\})[^"=;()]* from "([^"\n]+)"|^import "([^"\n]+)"|\b(?:import|require)\("([^"\n]+)"\)/gm)].map(
    ([, ...names]) => names.find(Boolean) ?? "",
  );
const packageOf = (name: string) => name.split("/", name.startsWith("@") ? 2 : 1).join("/");

test("what the modules of the tarball import is in it, or is a dependency", () => {
  const missing = [...paths]
    .filter((path) => path.endsWith(".ts"))
    .flatMap((path) =>
      namesIn(readFileSync(path, "utf8"))
        .filter((name) => {
          if (name.startsWith("node:")) return false;
          if (name.startsWith(".")) return !paths.has(posix.join(posix.dirname(path), name));
          if (name.startsWith("#shared/")) return !paths.has(name.slice(1));
          return !(packageOf(name) in manifest.dependencies);
        })
        .map((name) => `${path} imports ${name}`),
    );
  expect(missing).toEqual([]);
});

test("the tarball has what runs, and neither tests nor anybody's data", () => {
  for (const path of [".runtime/run.mjs", "cloud/main.ts", "agent/main.ts", "fixtures/run-floor.ts", "cloud/web/console/index.html"])
    expect(paths).toContain(path);
  const foreign = [...paths].filter((path) => !/^(agent|cloud|shared|fixtures|\.runtime)\/|^(README\.md|package\.json)$/.test(path));
  expect(foreign).toEqual([]);
  const private_ = [...paths].filter((path) =>
    /(\.(test\.ts|pem|db|log)|\/\.env|bootstrap-key|sealing-key)$|\.npmrc|node_modules/.test(path),
  );
  expect(private_).toEqual([]);
});

test("what lies beside the sources is nobody else's: secrets of the deployment, the tarball before, a data folder", async () => {
  const clone = join(folder, "clone");
  const own = ["cloud/deploy/.env", "cloud/deploy/mosquitto.passwords", "cloud/deploy/imprimatur.tgz", "agent/.imprimatur-agent/config.json", "cloud/.imprimatur/sealing-key", "cloud/deploy/node-1.log"]; // oxfmt-ignore
  const sources = ["cloud/deploy/compose.yaml", "cloud/deploy/example.env", "cloud/main.ts"];
  for (const path of [...own, ...sources]) {
    mkdirSync(join(clone, posix.dirname(path)), { recursive: true });
    writeFileSync(join(clone, path), "");
  }
  for (const file of ["package.json", ".gitignore"]) copyFileSync(file, join(clone, file));
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json"], { cwd: clone });
  const found = packedOf(JSON.parse(stdout)).files.map(({ path }) => path);
  expect(found.toSorted()).toEqual([...sources, "package.json"]);
});

const isReachable = () =>
  run("npm", ["view", `pngjs@${manifest.dependencies.pngjs}`, "version"], { timeout: 20_000 }).then(
    () => true,
    () => false,
  );

test("installed into an empty folder without any script, it runs the cloud, a station and a floor from elsewhere", async ({ skip }) => {
  skip(!(await isReachable()), "the package registry can't be reached, so the tarball isn't installed");
  const prefix = join(folder, "prefix");
  const tarball = join(folder, filename);
  await run("npm", ["install", "--global", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", prefix, tarball], { cwd: elsewhere });
  const bin = join(prefix, "bin/imprimatur");
  const own = { IMPRIMATUR_PORT: "0", IMPRIMATUR_MQTT_PORT: "0", IMPRIMATUR_WEBHOOK_PRIVATE: "on" };
  const env = { ...own, IMPRIMATUR_DATA_DIR: undefined, IMPRIMATUR_DATABASE_URL: undefined };

  const cloud = await startProgram(bin, env, [], ["cloud"], elsewhere);
  const get = async (path: string) => (await fetch(cloud.url + path)).text();
  const sees = async (path: string, text: string) => {
    await expect.poll(() => get(path)).toContain(text); // a busy machine sheds at first
  };
  await sees("/readyz", '"ready"');
  await sees("/console", "/console/app.js");
  await sees("/console/app.js", "export");
  const key = readFileSync(join(elsewhere, ".imprimatur/bootstrap-key"), "utf8").trim();
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const post = async <Made>(path: string, body: object) => {
    const answer = await fetch(`${cloud.url}/api/v2${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    expect({ path, status: answer.status }).toEqual({ path, status: 201 });
    return (await answer.json()) as Made;
  };
  const device = await post<{ key: { secret: string } }>("/devices", { name: "packed" });

  const receiver = await startReceiver();
  await post("/webhooks", { url: `${receiver.url}/hook`, events: ["product.created"] });
  await post("/products", productOf({ gtin: gtinOf(1) }));
  await expect.poll(() => receiver.received.map(({ event }) => event.type), { timeout: 20_000 }).toEqual(["product.created"]); // sent by a thread
  await receiver.end();

  const settings = join(elsewhere, "station.json");
  const printer = { name: "away", driver: "zpl", port: "tcp://127.0.0.1:9", dpi: 203, label: { widthMm: 50, heightMm: 25 } };
  const picture = join(prefix, "frame.png");
  writeFileSync(picture, pngOfGray({ width: 9, height: 9, gray: new Uint8Array(81) }));
  const scanners = [{ name: "eye", driver: "camera", port: `file:${picture}` }];
  writeFileSync(
    settings,
    JSON.stringify({ cloud: cloud.url, key: device.key.secret, console: { port: 0 }, printers: [printer], scanners }),
  );
  const agent = await startProgram(bin, env, [], ["agent", "--config", settings], elsewhere);
  expect(await (await fetch(agent.url)).text()).toContain("/console.js");
  const eye = async () => (await (await fetch(`${agent.url}/api/state`)).json()).scanners[0];
  await expect.poll(eye, { timeout: 20_000 }).toMatchObject({ name: "eye", up: true }); // its pictures are read by a thread
  expect(await agent.end()).toBe(0);
  const upgraded = await startProgram(bin, env, [], ["agent", "--config", settings], elsewhere);
  rmSync(join(prefix, "lib/node_modules/imprimatur/node_modules/.cache"), { recursive: true });
  expect(await upgraded.ended).toBe(1);

  const command = async (...args: string[]) => (await run(bin, args, { cwd: elsewhere, env: { ...process.env, ...env } })).stdout;
  expect(await command("agent", "install", "--config", settings, "--print")).toContain(`LoadCredential=config.json:${settings}\n`);
  const cache = join(prefix, "lib/node_modules/imprimatur/node_modules/.cache/imprimatur");
  for (const name of readdirSync(cache).filter((each) => each.startsWith("agent-"))) rmSync(join(cache, name, "main.mjs"));
  expect(await command("agent", "--help")).toContain("usage: imprimatur agent"); // nor where root made it for himself alone
  expect(await command("doctor")).toMatch(/^ok {3}signing key: /m);
  expect(await command("backup", "--to", "node.backup")).toContain("taken and checked");
  expect(await command("backup", "--verify", "node.backup")).toContain("all of it holds");
  expect(await command("restore", "--from", "node.backup", "--data", "restored")).toContain("is restored from");
  for (const made of ["node.backup", "restored"]) rmSync(join(elsewhere, made), { recursive: true });
  expect(await cloud.end()).toBe(0);

  const floor = await run(process.execPath, [bin, "floor", "--stations", "1", "--labels", "3"], {
    cwd: elsewhere,
    env: { ...process.env, ...env },
  });
  expect(floor.stdout).toContain("every label is sealed or explained");
  expect(readdirSync(elsewhere).toSorted()).toEqual([".imprimatur", ".imprimatur-agent", "station.json"]);
  await expect(run(process.execPath, [bin, "verify"], { cwd: elsewhere })).rejects.toThrow("usage: imprimatur verify FILE");
  expect((await run(process.execPath, [bin, "simulate", "zpl", "--help"], { cwd: elsewhere })).stdout).toContain("imprimatur simulate zpl");
  await expect(run(process.execPath, [bin, "bench"], { cwd: elsewhere })).rejects.toThrow('there is no command "bench"');
}, 300_000);
