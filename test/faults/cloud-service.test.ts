// The unit of cloud/deploy under a real systemd: as a user of its own, it comes back when it is killed, and root looks at it, copies it and brings it back without locking it out.
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { client } from "../../fixtures/client.ts";
import { freePort } from "../../fixtures/free-port.ts";
import { OURS, startSystemd, systemdMissing } from "../../fixtures/systemd.ts";
import { freshFolder } from "../endings.ts";

const missing = systemdMissing();
if (missing) process.stderr.write(`skipped: the cloud as a service of systemd: ${missing}\n`);
const NAME = "imprimatur-cloud.service";
const DATA = "/var/lib/imprimatur";
const KEY = "the-first-key-of-a-service-01";
const SOON = { timeout: 40_000, interval: 100 };

test.skipIf(missing)("a cloud that systemd runs keeps what it answered, killed or stopped, and root's doctor, backup and restore shut it out of nothing", { timeout: 120_000 }, async (t) => {
  const port = await freePort();
  const file = join(freshFolder("cloud-service"), "cloud.env"); // on the disk: /dev/shm is another there
  writeFileSync(file, `IMPRIMATUR_PORT=${port}\nIMPRIMATUR_MQTT_PORT=0\nIMPRIMATUR_BOOTSTRAP_KEY=${KEY}\n`);
  chmodSync(file, 0o600);
  const unit = readFileSync(new URL(`../../cloud/deploy/${NAME}`, import.meta.url), "utf8")
    .replace("/usr/bin/env imprimatur", `${process.execPath} ${OURS}/.runtime/run.mjs`.replaceAll(process.cwd(), OURS))
    .replace("cloud.env:/etc/imprimatur/cloud.env", `cloud.env:${file}`);
  const systemd = await startSystemd({ [NAME]: unit });
  if (typeof systemd === "string") {
    process.stderr.write(`skipped: the cloud as a service of systemd: ${systemd}\n`);
    return t.skip(systemd);
  }
  t.onTestFinished(systemd.end);
  const { run } = systemd;
  const shown = async (name: string) => (await run("systemctl", "show", "--value", "-p", name, NAME)).trim();
  const admin = client(() => `http://127.0.0.1:${port}`, { authorization: `Bearer ${KEY}` });
  const isReady = () => admin.get("//readyz").then(({ status }) => status === 200, () => false);
  const asRoot = (...words: string[]) =>
    run("env", `IMPRIMATUR_DATA_DIR=${DATA}`, process.execPath, `${OURS}/cloud/${words[0]}.ts`, ...words.slice(1), "--config", file);
  await run("systemctl", "start", NAME);
  await expect.poll(isReady, SOON).toBe(true);
  expect((await admin.post("/api-keys", { name: "kept", scopes: ["aidc:read"] })).status).toBe(201);
  expect(Number(await shown("UID"))).toBeGreaterThan(60_000);
  const first = await shown("MainPID");
  await run("systemctl", "kill", "--signal", "KILL", NAME);
  await expect.poll(async () => (await shown("MainPID")) !== first && (await isReady()), SOON).toBe(true);
  expect(await asRoot("doctor")).toMatch(/^ok +cloud: .* says ready$/m);
  await asRoot("backup", "--to", "/run/while-it-runs");
  await run("systemctl", "stop", NAME);
  expect([await shown("ActiveState"), await shown("Result")]).toEqual(["inactive", "success"]);
  expect(await asRoot("doctor")).toMatch(/^warn cloud: no cloud works in/m);
  await asRoot("backup", "--to", "/run/while-it-is-stopped");
  await asRoot("restore", "--from", "/run/while-it-is-stopped", "--data", DATA, "--force");
  await run("systemctl", "start", NAME);
  await expect.poll(isReady, SOON).toBe(true);
  const { data } = (await admin.get("/api-keys")).body as { data: { name: string }[] };
  expect(data.map(({ name }) => name)).toContain("kept");
  expect(await run("find", "-L", DATA, "-user", "root")).toBe("");
}); // oxfmt-ignore
