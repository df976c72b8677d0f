// One PostgreSQL for the whole run; each test file makes itself a database in it.
import type { TestProject } from "vitest/node";
import { startPostgres } from "../fixtures/postgres.ts";

declare module "vitest" {
  interface ProvidedContext {
    engine: "sqlite" | "postgres";
    postgresUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const postgres = await startPostgres();
  project.provide("postgresUrl", postgres.url);
  return () => postgres.stop();
}
