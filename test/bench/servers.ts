// What the benches measure, in processes of their own: any program of ours, and a cloud on a folder of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { client } from "../../fixtures/client.ts";
import { endsWithUs } from "../../fixtures/with-us.ts";

export const KEY = "a-bench-key-of-24-characters";
export const freshFolder = () => mkdtempSync(join(tmpdir(), "imprimatur-bench-"));
const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

type Server = { url: string; end(): Promise<void>; pid: number };

/** Starts a program that logs one line with the event "ready" and its url. */
export async function startServer(file: string, env: Record<string, string>, given: string[] = []): Promise<Server> {
  const child: ChildProcess = endsWithUs(
    spawn(process.execPath, [...process.execArgv, path(file), ...given], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "inherit"],
    }),
  );
  if (!child.stdout) throw new Error("no stdout");
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes('"ready"')) continue;
    child.stdout.resume();
    const { url, pid = child.pid ?? 0 } = JSON.parse(line) as { url: string; pid?: number };
    return {
      url,
      pid,
      end: async () => {
        const ended = once(child, "exit");
        child.kill("SIGTERM");
        await ended;
      },
    };
  }
  throw new Error(`${file} ended before it was ready`);
}

/** A cloud in a process of its own that can be started again on the same folder, which goes with it. */
export async function cloudOn(folder = freshFolder(), more: Record<string, string> = {}) {
  const start = () =>
    startServer("../../cloud/main.ts", {
      IMPRIMATUR_PORT: "0",
      IMPRIMATUR_DATA_DIR: folder,
      IMPRIMATUR_BOOTSTRAP_KEY: KEY,
      IMPRIMATUR_RATE_LIMIT: "off",
      IMPRIMATUR_MQTT_PORT: "0",
      ...more,
    });
  let server = await start();
  const as = (secret: string) => client(() => server.url, { authorization: `Bearer ${secret}` });
  return {
    get url() {
      return server.url;
    },
    get pid() {
      return server.pid;
    },
    as,
    admin: as(KEY),
    restart: async (meanwhile: () => Promise<void>) => {
      await server.end();
      await meanwhile();
      server = await start();
    },
    end: async () => {
      await server.end();
      rmSync(folder, { recursive: true });
    },
  };
}
export type Cloud = Awaited<ReturnType<typeof cloudOn>>;
