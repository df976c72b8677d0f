// The unit of imprimatur agent install under a real systemd: hardened as it is, it prints, comes back when it is killed, and ends when it is told to.
import { expect, test } from "vitest";
import { loadAgentConfig } from "../../agent/config.ts";
import { SERVICE, STATE_DIR, unitOf } from "../../agent/unit.ts";
import { settingsFile, startFloor } from "../../fixtures/floor.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { OURS, startSystemd, systemdMissing } from "../../fixtures/systemd.ts";
import { freshFolder } from "../endings.ts";
import { world } from "../world.ts";
import { stateInCloud, until } from "./floor.ts";

const missing = systemdMissing();
if (missing) process.stderr.write(`skipped: the station as a service of systemd: ${missing}\n`);

test.skipIf(missing)("a station that is installed as a service of systemd seals labels, before and after it was killed, and goes when it is taken away", { timeout: 240_000 }, async (t) => {
  const w = await world({}, t.onTestFinished);
  const shop = await printShop(w);
  const floor = await startFloor(w.url, shop.device.secret);
  t.onTestFinished(floor.end);
  const file = settingsFile({ folder: freshFolder("service"), config: floor.config }); // on the disk: /dev/shm is another there. Root's: the service gets it as a credential
  const control = unitOf(loadAgentConfig(file), file, 0)
    .replaceAll(process.cwd(), OURS)
    .replace("SystemCallErrorNumber", "SystemCallFilter=~connect\nSystemCallErrorNumber");
  const systemd = await startSystemd({ "control.service": control });
  if (typeof systemd === "string") {
    process.stderr.write(`skipped: the station as a service of systemd: ${systemd}\n`);
    return t.skip(systemd);
  }
  t.onTestFinished(systemd.end);
  const { run } = systemd;
  const program = [process.execPath.replace(process.cwd(), OURS), `${OURS}/agent/main.ts`] as const;
  const agent = (...args: string[]) => run(...program, ...args);
  const shown = async (name: string) => (await run("systemctl", "show", "--value", "-p", name, SERVICE)).trim();
  const seals = async () => {
    const { job_ref: ref } = await shop.issue();
    await until(async () => (await stateInCloud(shop, ref)) === "SEALED", 40_000);
  };
  expect(await agent("install", "--config", file, "--yes")).toMatch(/^write [^]*\nrun systemctl restart imprimatur-agent\.service\n/);
  expect((await run("systemctl", "is-enabled", SERVICE)).trim()).toBe("enabled");
  await seals();
  expect(Number(await shown("UID"))).toBeGreaterThan(60_000); // a user of its own, for as long as it runs
  expect((await run("stat", "-Lc", "%a %U", STATE_DIR, `${STATE_DIR}/station.db`)).trim().split("\n")).toEqual([
    "700 imprimatur-agent",
    "600 imprimatur-agent",
  ]);
  const first = await shown("MainPID");
  await run("systemctl", "kill", "--signal", "KILL", SERVICE);
  await until(async () => (await shown("ActiveState")) === "active" && (await shown("MainPID")) !== first, 40_000);
  await seals();
  expect(await shown("NRestarts")).toBe("1");
  await agent("install", "--config", file, "--yes"); // a second time it is only started anew
  await seals();
  await run("systemctl", "stop", SERVICE);
  expect([await shown("ActiveState"), await shown("Result")]).toEqual(["inactive", "success"]);
  expect(await floor.links()).toHaveLength(3);
  const looked = await agent("doctor", "--config", file).catch((error: { stdout: string }) => error.stdout);
  expect(looked).toMatch(/^warn +agent .*systemctl status imprimatur-agent\.service/m);
  expect(looked).toMatch(/^ok +disk .* for \/var\/lib\/imprimatur-agent\nok +buffer +whole; 0 report/m); // the service's, not what the settings name
  const elsewhere = run("env", "IMPRIMATUR_AGENT_DATA_DIR=/elsewhere", ...program, "missing", "--since", "2026-01-01T00:00Z", "--config", file);
  await expect(elsewhere).rejects.toThrow("/elsewhere/station.db"); // who names a buffer means that one
  await agent("install", "--uninstall", "--yes");
  expect((await run("systemctl", "show", "--value", "-p", "LoadState", SERVICE)).trim()).toBe("not-found");
  await run("test", "-f", `${STATE_DIR}/station.db`); // what it kept stays
  // The control: what the unit forbids is forbidden, or the station above proves little.
  const { job_ref: ref } = await shop.issue();
  await run("systemctl", "start", "control.service").catch(() => "");
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  expect(await stateInCloud(shop, ref)).toBe("QUEUED");
}); // oxfmt-ignore
