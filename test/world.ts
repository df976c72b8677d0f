// A world on the engine of the running project, ended with the test file or with a test.
import { randomUUID } from "node:crypto";
import { inject } from "vitest";
import { onServer } from "../fixtures/postgres.ts";
import { startWorld, type World, type WorldOptions } from "../fixtures/world.ts";
import { endsWithFile } from "./endings.ts";

export const engine = inject("engine");

/** The URL of a fresh database, or undefined where the engine is SQLite. */
export async function freshDatabase(on: typeof engine = engine): Promise<string | undefined> {
  if (on === "sqlite") return undefined;
  const url = inject("postgresUrl");
  const name = `t_${randomUUID().replaceAll("-", "")}`;
  await onServer(url, `CREATE DATABASE ${name}`);
  endsWithFile(() => onServer(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).catch(() => {})); // it lies in memory; one that is still held goes with the server
  return url.replace(/postgres$/, name);
}

type Ending = (end: () => Promise<void>) => void;
export async function world(options: WorldOptions = {}, endsWith: Ending = endsWithFile): Promise<World> {
  const made = await startWorld({ databaseUrl: await freshDatabase(), ...options });
  endsWith(made.end);
  return made;
}
