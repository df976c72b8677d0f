// imprimatur agent enroll: a key becomes a station's settings, once, for one user's eyes; and every way in which it can't is one line.
import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ConfigError } from "#shared/arguments.ts";
import { loadAgentConfig } from "../../agent/config.ts";
import { enroll } from "../../agent/enroll.ts";
import { listening } from "../../fixtures/listening.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { diskOf } from "../../fixtures/tmpfs.ts";
import { freshFolder } from "../endings.ts";
import { world } from "../world.ts";
import { netTo } from "./floor.ts";

const w = await world();
const folder = freshFolder("enroll");
const shop = await printShop(w);
let n = 0;
const newFile = () => join(folder, String((n += 1)), "config.json");

type Ran = { code: number; out: string; complaints: string };
const program = (args: string[], { env = {}, stdin = "" }: { env?: Record<string, string>; stdin?: string } = {}): Promise<Ran> =>
  new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ["agent/main.ts", "enroll", ...args],
      { timeout: 30_000, env: { ...process.env, ...env } },
      (error, out, complaints) => resolve({ code: Number(error?.code ?? 0), out, complaints }),
    );
    child.stdin?.end(stdin);
  });
const devices = async (): Promise<{ id: string; name: string; station: string | null }[]> => (await shop.admin.get("/devices")).body.data;

test("a device's key is looked up and written with its station, for this user only, and never shown", async () => {
  const file = newFile();
  const printers = ["--printer", "zpl=tcp://10.0.0.7:9100", "--scanner", "line=serial:/dev/ttyACM0", "--label", "60x40"];
  const before = await devices();
  const { code, out, complaints } = await program(["--cloud", w.url, "--key", shop.device.secret, "--config", file, ...printers]);
  expect([code, complaints]).toEqual([0, ""]);
  expect(out).toContain(`known: device "line 1" (${shop.device.id}) of the tenant ${shop.tenantId}, a sandbox`);
  expect(out).toContain(`next: imprimatur agent doctor --config ${file}`);
  expect(out).not.toContain(shop.device.secret);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(file, ".."))).toEqual(["config.json"]);
  expect(loadAgentConfig(file, {})).toMatchObject({
    cloud: w.url,
    key: shop.device.secret,
    station: "line-1",
    dataDir: join(file, ".."),
    printers: [{ name: "printer-1", driver: "zpl", port: "tcp://10.0.0.7:9100", label: { widthMm: 60, heightMm: 40 } }],
    scanners: [{ name: "scanner-1", driver: "line" }],
  });
  expect(await devices()).toEqual(before);
});

test("a key with which a station works already is told of", async () => {
  const device = await shop.newDevice("line 8");
  const enrolled = async () => (await program(["--cloud", w.url, "--key", device.secret, "--config", newFile()])).out;
  expect(await enrolled()).not.toContain("beware");
  await device.api.post("/aidc/station", { status: "online" });
  expect(await enrolled()).toMatch(/^beware: "line 8" was heard of at 20.* two stations have one key/m);
});

test("the commands that it says to go on with can be pasted, wherever the settings lie", async () => {
  const file = join(folder, "line 1's", "config.json");
  const args = ["--cloud", w.url, "--key", shop.device.secret, "--config", file, "--printer", "zpl=tcp://10.0.0.7:9100"];
  const [, named = ""] = /^next: imprimatur agent doctor --config (.+)$/m.exec((await program(args)).out) ?? [];
  expect(execFileSync("sh", ["-c", `printf '<%s>' ${named}`], { encoding: "utf8" })).toBe(`<${file}>`);
});

test("another key registers the station, which gets a key of its own; a second time its name is taken", async () => {
  const file = newFile();
  const args = ["--cloud", w.url, "--key", "-", "--name", "line 9", "--station", "line-9", "--tenant", shop.tenantId];
  const { code, out, complaints } = await program([...args, "--config", file], { stdin: `${shop.adminKey}\n` });
  expect([code, complaints]).toEqual([0, ""]);
  expect(out).toMatch(/^registered: device "line 9" /);
  expect(out).toContain("name its printers and scanners in that file");
  const { key, station, printers } = JSON.parse(readFileSync(file, "utf8")) as { key: string; station: string; printers: unknown[] };
  expect([station, printers]).toEqual(["line-9", []]);
  expect(key).not.toBe(shop.adminKey);
  expect(out + complaints).not.toContain(key);
  const own = await w.as(key).get("/aidc/station");
  expect(own.body.device).toMatchObject({ name: "line 9", station: "line-9" });
  const again = await program([...args, "--config", newFile()], { stdin: shop.adminKey });
  expect([again.code, again.complaints]).toEqual([1, expect.stringMatching(/has a device "line 9" already .* choose another --name\n$/)]);
});

test("a file that is there is kept, and nothing is registered for it, unless --force says otherwise", async () => {
  const file = join(folder, "kept.json");
  writeFileSync(file, "{}");
  const before = await devices();
  const args = ["--cloud", w.url, "--config", file, "--name", "line 10"];
  const refused = await program(args, { env: { IMPRIMATUR_AGENT_KEY: shop.adminKey } });
  expect([refused.code, refused.complaints]).toEqual([1, expect.stringContaining("is there already")]);
  expect([readFileSync(file, "utf8"), await devices()]).toEqual(["{}", before]);
  expect((await program([...args, "--force"], { env: { IMPRIMATUR_AGENT_KEY: shop.adminKey } })).code).toBe(0);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(await devices()).toHaveLength(before.length + 1);
});

test("a folder in the place of the file is told before anything is asked of the cloud, with --force too", async () => {
  const args = ["--cloud", w.url, "--config", folder, "--name", "line 11"];
  const latest = async () => (await shop.admin.get("/audit-logs?limit=1")).body.data;
  const before = await latest();
  for (const more of [[], ["--force"]]) {
    const { code, complaints } = await program([...args, ...more], { env: { IMPRIMATUR_AGENT_KEY: shop.adminKey } });
    expect([code, complaints]).toEqual([1, expect.stringContaining(`${folder} is a folder: name the file in it`)]);
  }
  expect(await latest()).toEqual(before);
});

test("where a folder can't be made, those that were made above it go again", async () => {
  const file = join(folder, "above", "x".repeat(300), "config.json");
  await expect(enroll(["--cloud", w.url, "--key", shop.adminKey, "--config", file])).rejects.toThrow("the settings can't be written");
  expect(existsSync(join(folder, "above"))).toBe(false);
});

test("settings that the disk takes only half of leave what was there as it was, and no device", async (t) => {
  const disk = diskOf(t, 1);
  const file = join(disk.folder, "kept.json");
  writeFileSync(file, "{}");
  disk.fill();
  truncateSync(join(disk.folder, "ballast"), statSync(join(disk.folder, "ballast")).size - 4_096);
  const before = await devices();
  const many = Array.from({ length: 32 }, (_, i) => ["--printer", `zpl=tcp://10.0.0.${i}:9100`]).flat();
  const args = ["--cloud", w.url, "--config", file, "--name", "line 11", "--force", ...many];
  const { code, complaints } = await program(args, { env: { IMPRIMATUR_AGENT_KEY: shop.adminKey } });
  expect([code, complaints]).toEqual([1, expect.stringContaining("ENOSPC")]);
  expect([readFileSync(file, "utf8"), await devices()]).toEqual(["{}", before]);
});

test("interrupted while the cloud is silent, it leaves nothing behind, nor the folder that it made", async () => {
  const silent = createServer(() => {});
  const asked = once(silent, "request");
  const port = await listening(silent);
  const file = newFile();
  const args = ["agent/main.ts", "enroll", "--cloud", `http://127.0.0.1:${port}`, "--key", "imp_any", "--config", file];
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  const ended = once(child, "exit");
  await asked;
  expect(readdirSync(join(file, ".."))).toEqual([expect.stringMatching(/\.draft$/)]);
  child.kill("SIGINT");
  expect(await ended).toEqual([null, "SIGINT"]);
  silent.closeAllConnections();
  silent.close();
  expect(existsSync(join(file, ".."))).toBe(false);
});

test("interrupted while its device is made, it undoes that first, and tells of the device that it can't undo", async (t) => {
  const net = await netTo(t, w);
  for (const [how, fate] of Object.entries({ pass: "pass", cut: "cut", page: { status: 200, page: "<html>Sign in</html>" } } as const)) {
    const before = await devices();
    const file = newFile();
    let isAsked = () => {};
    const asked = new Promise<void>((resolve) => (isAsked = resolve));
    let goOn = () => {};
    const waits = new Promise<void>((resolve) => (goOn = resolve));
    net.rule(async ({ method }) => {
      if (method === "DELETE") return fate;
      if (method !== "POST") return "pass";
      isAsked();
      await waits;
      return "pass";
    });
    const args = ["agent/main.ts", "enroll", "--cloud", net.url, "--key", shop.adminKey, "--config", file, "--name", `line 12 ${how}`];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
    const ended = once(child, "exit");
    await asked;
    child.kill("SIGTERM");
    let told = "";
    for await (const piece of child.stderr) {
      told += piece;
      if (told.includes("waiting for the cloud")) goOn();
    }
    expect(await ended).toEqual([null, "SIGTERM"]);
    expect(existsSync(join(file, ".."))).toBe(false);
    const left = (await devices()).filter(({ id }) => !before.some((one) => one.id === id));
    if (how === "pass") expect(left).toEqual([]);
    else expect(told).toContain(`the device ${left[0]?.id} is left there, remove it`);
  }
});

test("interrupted twice, it ends at once, and a folder that was there stays", async () => {
  const silent = createServer((request, response) => {
    if (request.method === "GET" && request.url?.includes("/devices")) response.end(JSON.stringify({ data: [], nextCursor: null }));
    else if (request.method === "GET") response.writeHead(403).end(JSON.stringify({ error: { code: "DEVICE_KEY_REQUIRED", message: "" } }));
    else silent.emit("made");
  });
  const asked = once(silent, "made");
  const port = await listening(silent);
  const file = newFile();
  mkdirSync(join(file, ".."));
  const args = ["agent/main.ts", "enroll", "--cloud", `http://127.0.0.1:${port}`, "--key", "imp_any", "--config", file];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "exit");
  await asked;
  child.kill("SIGINT");
  await Promise.race([once(child.stderr, "data"), ended]);
  child.kill("SIGTERM");
  expect(await ended).toEqual([null, "SIGTERM"]);
  silent.closeAllConnections();
  silent.close();
  expect(readdirSync(join(file, ".."))).toEqual([]);
});

test.for([
  ["line 13", "lost", "lose"],
  ["line 17", "a proxy's", { status: 504, page: "<html>Gateway timeout</html>", isDone: true }],
] as const)(
  "the answer that makes its device (%s) may be %s: what nobody has the key of is removed, and there is one",
  async ([name, , fate], t) => {
    const net = await netTo(t, w);
    let posts = 0;
    net.rule(({ method }) => (method === "POST" && (posts += 1) === 1 ? fate : "pass"));
    const { code, complaints } = await program(["--cloud", net.url, "--key", shop.adminKey, "--config", newFile(), "--name", name]);
    expect([code, complaints, posts]).toEqual([0, "", 3]);
    expect((await devices()).filter((device) => device.name === name)).toHaveLength(1);
  },
);

test("a tenant that isn't the one that was meant leaves neither a file, a folder nor a device behind", async () => {
  const before = await devices();
  for (const key of [shop.device.secret, shop.adminKey]) {
    const file = join(folder, "not", "yet", "there", "config.json");
    const tenant = "019a0000-0000-7000-8000-000000000000";
    await expect(enroll(["--cloud", w.url, "--key", key, "--tenant", tenant, "--config", file, "--name", "line 11"])).rejects.toThrow(
      `this key is of the tenant ${shop.tenantId}, not of ${tenant}`,
    );
    expect(existsSync(join(folder, "not"))).toBe(false);
  }
  expect(await devices()).toEqual(before);
});

test("a key that may not register, one that nobody knows, another web site and a cloud that is away are each told in one line", async (t) => {
  const { data: weak } = (await shop.admin.post("/api-keys", { name: "weak", scopes: ["products:read"] })).body;
  const page = createServer(({ headers: { authorization: said = "" } }, response) => {
    const status = Number(said.replace("Bearer ", "")) || 404;
    response.writeHead(status, status < 400 ? { location: "https://login.example/" } : {}).end("<h1>not here</h1>");
  });
  const port = await listening(page);
  t.onTestFinished(() => void page.close());
  const net = await netTo(t, w);
  net.cut();
  const key = shop.device.secret;
  const cases: [args: string[], code: number, says: RegExp][] = [
    [["--cloud", w.url, "--key", weak.secret as string], 1, /needs the scopes aidc:read and aidc:write/],
    [["--cloud", w.url, "--key", `${key}x`], 1, /doesn't know this key/],
    [["--cloud", `http://127.0.0.1:${port}`, "--key", key], 1, /isn't the cloud: is the address right\?/],
    [
      ["--cloud", `http://127.0.0.1:${port}`, "--key", "302"],
      1,
      /leads to https:\/\/login\.example\/, .* does the network want a sign-in\?/,
    ],
    [["--cloud", `http://127.0.0.1:${port}`, "--key", "200"], 1, /isn't the cloud: is the address right, or .* sign-in\?.*answered 200/],
    [
      ["--cloud", `http://127.0.0.1:${port}`, "--key", "502"],
      1,
      /something before the cloud .* answers in its place: does it run.*\(502\)/,
    ],
    [["--cloud", `http://127.0.0.1:${port}`, "--key", "511"], 1, /the network wants a sign-in .*\(511\)/],
    [["--cloud", net.url, "--key", key], 1, /doesn't answer.*is the address right/],
    [["--cloud", w.url.replace("http", "https"), "--key", key], 1, /no TLS is spoken there: .* http:/],
    [["--cloud", `${w.url}/api`, "--key", key], 1, /cloud must be an origin/],
    [["--key", key], 2, /--cloud is missing/],
    [["--cloud", w.url], 2, /--key is missing/],
    [["--cloud", w.url, "--key", key, "--printer", "tcp://10.0.0.7"], 2, /--printer is DRIVER=PORT/],
    [["--cloud", w.url, "--key", key, "--printer", "zpl=10.0.0.7"], 1, /printers\.0\.port/],
    [["--cloud", w.url, "--key", key, "--label", "wide"], 2, /--label is WIDTHxHEIGHT/],
    [["--clod", w.url], 2, /did you mean --cloud\?/],
    [["--tenant", ""], 2, /--tenant has nothing behind it/],
    [["--cloud", w.url, key], 2, /^a key is one word too many \(usage: .*--key KEY/],
    [["line 1"], 2, /^"line 1" is one word too many/],
  ];
  for (const [args, exitCode, says] of cases) {
    const file = newFile();
    const said = await enroll([...args, "--config", file]).catch((error: unknown) => error);
    expect(said).toBeInstanceOf(ConfigError);
    expect([args, (said as ConfigError).exitCode, (said as ConfigError).message]).toEqual([args, exitCode, expect.stringMatching(says)]);
    expect((said as ConfigError).message).not.toMatch(/\n/);
    expect((said as ConfigError).message).not.toContain(key);
    expect(existsSync(file)).toBe(false);
  }
});
