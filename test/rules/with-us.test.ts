// What a bench or a soak has started ends with it: over a fault of its own, and when it is told to end.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const childrenOf = ({ pid }: ChildProcess): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
const lineOf = (pid: number): string => readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");

/** How it ended once it had started a program of that name, of which nothing may be left then. */
async function endOf(args: string[], name: string, end: (child: ChildProcess) => void): Promise<number | null> {
  const env = { ...process.env, npm_lifecycle_event: "soak" }; // as npm starts it: the launcher stays before the cloud
  const child = spawn(process.execPath, args, { env, stdio: ["pipe", "ignore", "ignore"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "exit");
  const started = () => childrenOf(child).filter((pid) => lineOf(pid).includes(name));
  await expect.poll(() => started().length).toBeGreaterThan(0);
  const pids = started();
  end(child);
  const [code] = (await ended) as [number | null];
  await expect.poll(() => pids.filter(isRunning)).toEqual([]);
  return code;
}

test("what fails takes the server along that it started", async () => {
  const failing = `import { startPostgres } from "./fixtures/postgres.ts";
    await startPostgres();
    process.stdin.once("data", () => { throw new Error("a fault of its own"); });`;
  expect(await endOf(["--input-type=module", "-e", failing], "postgres -D", ({ stdin }) => stdin?.end("now"))).toBe(1);
});

test("a node that stands still, as a fault has it, is taken along, too", async () => {
  const failing = `import { spawn } from "node:child_process";
    import { endsWithUs, endWhenTold } from "./fixtures/with-us.ts";
    endWhenTold();
    endsWithUs(spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"])).kill("SIGSTOP");`;
  expect(await endOf(["--input-type=module", "-e", failing], "setInterval", (one) => one.kill())).toBe(1);
});

test("a soak that is told to end takes along what it started", async () => {
  expect(await endOf(["test/faults/soak.ts", "--seeds", "1"], "run.mjs cloud", (soak) => soak.kill())).toBe(1);
});

test("a soak of minutes and of seeds at once is refused: it would be of seeds alone", () => {
  const { status, stderr } = spawnSync(process.execPath, ["test/faults/soak.ts", "--minutes", "0", "--seeds", "1"], { encoding: "utf8" });
  expect([status, stderr]).toEqual([2, "imprimatur soak: --minutes or --seeds, not both\n"]);
});
