// The same chaos with three nodes of the cloud on PostgreSQL, and that in it too: nodes are killed and frozen, connections are terminated, lines to the
// database are bad, the server crashes under load.
// CHAOS_SEED=N repeats a run.
import { randomInt } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { mosquittoMissing } from "../../fixtures/mqtt.ts";
import { startPostgres } from "../../fixtures/postgres.ts";
import { runChaos } from "../chaos.ts";

const SEED = Number(process.env["CHAOS_SEED"] ?? randomInt(2 ** 31));
if (mosquittoMissing) process.stderr.write(`one node instead of three: ${mosquittoMissing}\n`);
const NODES = mosquittoMissing ? 1 : 3;
const PACE = { everyMs: 500, lastsMs: 1_200, forMs: 8_000 };

test(`on PostgreSQL, ${NODES} nodes, seed ${SEED}: whatever happens, no invariant breaks`, { timeout: 480_000 }, async () => {
  const server = await startPostgres();
  onTestFinished(server.stop);
  const postgres = { server, url: await server.createDatabase("chaos") };
  const { broken, told, history, seconds } = await runChaos({
    seed: SEED,
    nodes: NODES,
    postgres,
    pace: PACE,
    load: { labelsPerSecond: 2 },
  });
  process.stderr.write(
    `chaos on PostgreSQL: seed ${SEED}: ${told.length} misfortunes, ${history.jobs.length} labels, ${Math.round(seconds)} s\n`,
  );
  expect(broken, `CHAOS_SEED=${SEED}\n${told.join("\n")}`).toEqual([]);
  expect(history.jobs.length).toBeGreaterThan(0);
});
