// Starting on an empty data folder, as npm run cloud does: how long until ready, and how much memory then.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer } from "./http.bench.ts";
import { inFull, type Line, residentMb } from "./measure.ts";

const READY_MAX_MS = 1_000;
const RESIDENT_MAX_MB = 150;
const TRIES = inFull(5, 1);

export async function startBench(): Promise<Line[]> {
  const times: number[] = [];
  const sizes: number[] = [];
  for (let i = 0; i < TRIES; i += 1) {
    const folder = mkdtempSync(join(tmpdir(), "imprimatur-bench-"));
    const began = performance.now();
    const server = await startServer(
      "../../.runtime/run.mjs",
      {
        IMPRIMATUR_PORT: "0",
        IMPRIMATUR_DATA_DIR: folder,
        IMPRIMATUR_BOOTSTRAP_KEY: "a-bench-key-of-24-characters",
      },
      ["cloud"],
    );
    times.push(performance.now() - began);
    if (process.platform === "linux") sizes.push(residentMb(server.pid));
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  }
  const ms = times.toSorted((a, b) => a - b)[Math.floor(TRIES / 2)] ?? 0;
  const mb = Math.max(...sizes);
  return [
    {
      name: "start: ready on an empty data folder",
      figure: `${Math.round(ms)} ms`,
      target: `under ${READY_MAX_MS} ms`,
      met: ms < READY_MAX_MS,
    },
    ...(sizes.length > 0
      ? [
          {
            name: "start: resident memory when ready",
            figure: `${Math.round(mb)} MB`,
            target: `under ${RESIDENT_MAX_MB} MB`,
            met: mb < RESIDENT_MAX_MB,
          },
        ]
      : []),
  ];
}
