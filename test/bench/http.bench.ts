// HTTP: an authenticated, idempotent, audited POST against a bare fastify POST of the same size, each server in a process of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes, randomUUIDv7 } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import autocannon from "autocannon";
import { endsWithUs } from "../../fixtures/with-us.ts";
import { duel, type Line, ratioLine } from "./measure.ts";

const CONNECTIONS = 64;
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

const body = JSON.stringify({ name: "a key of the bench, about as long as a name is", scopes: ["products:read", "aidc:read"] });

async function load(url: string, headers: Record<string, string>, ms: number): Promise<number> {
  const result = await autocannon({
    url,
    connections: CONNECTIONS,
    duration: ms / 1000,
    requests: [
      {
        method: "POST",
        body,
        setupRequest: (request) => ({
          ...request,
          headers: { "content-type": "application/json", ...headers, "idempotency-key": randomUUIDv7() },
        }),
      },
    ],
  });
  if (result.non2xx > 0 || result.errors > 0) throw new Error(`${result.non2xx} answers weren't 2xx, ${result.errors} failed`);
  return result["2xx"];
}

export async function httpBench(): Promise<Line[]> {
  const folder = mkdtempSync(join(tmpdir(), "imprimatur-bench-"));
  const key = `bench-${randomBytes(16).toString("hex")}`;
  const ours = await startServer("../../cloud/main.ts", {
    IMPRIMATUR_PORT: "0",
    IMPRIMATUR_DATA_DIR: folder,
    IMPRIMATUR_BOOTSTRAP_KEY: key,
    IMPRIMATUR_RATE_LIMIT: "off",
  });
  const bare = await startServer("./bare.ts", {});
  const headers = { authorization: `Bearer ${key}` };
  try {
    const result = await duel(
      { name: "POST /oauth/clients", run: (ms) => load(`${ours.url}/api/v2/oauth/clients`, headers, ms) },
      { name: "bare fastify POST", run: (ms) => load(`${bare.url}/`, headers, ms) },
    );
    return [ratioLine("http: an authenticated, idempotent, audited POST against a bare fastify POST", result, 0.25, "requests")];
  } finally {
    await ours.end();
    await bare.end();
    rmSync(folder, { recursive: true, force: true });
  }
}
