// Starting on an empty data folder, as npm run cloud does: how long until ready, and how much memory then.
import { rmSync } from "node:fs";
import { inFull, type Line, median, residentMb } from "./measure.ts";
import { freshFolder, KEY, startServer } from "./servers.ts";

const READY_MAX_MS = 1_000;
const RESIDENT_MAX_MB = 150;
const TRIES = inFull(5, 1);

export async function startBench(): Promise<Line[]> {
  const times: number[] = [];
  const sizes: number[] = [];
  for (let i = 0; i < TRIES; i += 1) {
    const folder = freshFolder();
    const began = performance.now();
    const server = await startServer(
      "../../.runtime/run.mjs",
      {
        IMPRIMATUR_PORT: "0",
        IMPRIMATUR_DATA_DIR: folder,
        IMPRIMATUR_BOOTSTRAP_KEY: KEY,
      },
      ["cloud"],
    );
    times.push(performance.now() - began);
    if (process.platform === "linux") sizes.push(residentMb(server.pid));
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  }
  const ms = median(times);
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
