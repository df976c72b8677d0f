// The soak in its shortest form: half a minute at 60 % of what the floor can do. SOAK_MINUTES=30 makes a long one of it, CHAOS_SEED repeats one.
import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { soak } from "../soak.ts";

const SEED = Number(process.env["CHAOS_SEED"] ?? randomInt(2 ** 31));
const MINUTES = Number(process.env["SOAK_MINUTES"] ?? 0.5);

test(
  `for ${MINUTES} minutes, seed ${SEED}: no invariant breaks, and neither memory, WAL nor files grow`,
  { timeout: 300_000 + MINUTES * 120_000 },
  async () => {
    const { broken, told, history, looks, grownBytes, seconds } = await soak({ seed: SEED, minutes: MINUTES });
    process.stderr.write(
      `soak: seed ${SEED}: ${told.length} misfortunes, ${history.jobs.length} labels, ${Math.round(grownBytes / 1_048_576)} MiB grown, ${Math.round(seconds)} s\n`,
    );
    expect(broken, `CHAOS_SEED=${SEED}\n${told.join("\n")}`).toEqual([]);
    expect(looks.length).toBeGreaterThan(3);
  },
);
