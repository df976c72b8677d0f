// One PostgreSQL for the whole run; each test file makes itself a database in it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { startPostgres } from "../fixtures/postgres.ts";

declare module "vitest" {
  interface ProvidedContext {
    engine: "sqlite" | "postgres";
    postgresUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const compiled = mkdtempSync(join(tmpdir(), "imprimatur-compiled-"));
  process.env["NODE_COMPILE_CACHE"] ??= compiled; // programs start by the hundred: to strip and compile the same files anew was half of what that took
  const postgres = await startPostgres();
  project.provide("postgresUrl", postgres.url);
  return async () => {
    await postgres.stop();
    rmSync(compiled, { recursive: true, force: true });
  };
}
