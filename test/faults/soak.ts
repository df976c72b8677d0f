// npm run soak: the long forms of chaos. --minutes 30 works at 60 % of what the floor can do with a misfortune every 5 s, and watches each node's memory;
// --seeds 50 runs one seed after another. Either on several nodes with --engine postgres --nodes 3. Ends 1 where an invariant breaks, or where memory, WAL or files grow.
import { parseArgs } from "node:util";
import type { Figures } from "../../fixtures/chaos/site.ts";
import { type Postgres, startPostgres } from "../../fixtures/postgres.ts";
import { endWhenTold } from "../../fixtures/with-us.ts";
import { type Look, runChaos } from "../chaos.ts";
import { type Gains, MIB, SHARE, soak, type Soaked } from "../soak.ts";

const SEED_PACE = { everyMs: 500, lastsMs: 1_200, forMs: 8_000 };

type Options = { minutes: number; seeds: number; seed: number; nodes: number; engine: "sqlite" | "postgres" };
const say = (line: string) => process.stdout.write(`${line}\n`);

function optionsFrom(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      minutes: { type: "string" },
      seeds: { type: "string" },
      seed: { type: "string", default: "1" },
      nodes: { type: "string", default: "1" },
      engine: { type: "string", default: "sqlite" },
    },
  });
  if (values.minutes !== undefined && values.seeds !== undefined) throw new Error("--minutes or --seeds, not both");
  const number = (name: "minutes" | "seeds" | "seed" | "nodes", absent = 0) => {
    const value = Number(values[name] ?? absent);
    if (!(value >= 0) || (name !== "minutes" && !Number.isInteger(value))) throw new Error(`--${name} is a number`);
    return value;
  };
  const { engine } = values;
  if (engine !== "sqlite" && engine !== "postgres") throw new Error("--engine is sqlite or postgres");
  const [minutes, seeds, seed, nodes] = [number("minutes", 2), number("seeds"), number("seed"), number("nodes")];
  if (nodes === 0 || (nodes > 1 && engine === "sqlite")) throw new Error("--nodes is 1, or more with --engine postgres");
  return { minutes, seeds, seed, nodes, engine };
}

const mib = (bytes: number) => `${Math.round(bytes / MIB)} MiB`;
const line = ({ seconds, figures, backlog, issued, sealed }: Look) => {
  say(`${String(seconds).padStart(5)} s  ${sealed}/${issued} labels  ${backlog} reports`);
  for (const { rssBytes, heapBytes, walBytes, fds, queued } of figures)
    say(`         RSS ${mib(rssBytes)}  heap ${mib(heapBytes)}  WAL ${mib(walBytes)}  ${fds} files  ${queued} units`);
};

function table({ looks, told, history, seconds, gains }: Soaked): void {
  const of = (n: number, value: (figures: Figures) => number) => looks.flatMap(({ figures }) => figures.slice(n, n + 1).map(value));
  const most = (values: number[]) => Math.max(0, ...values);
  const rows = {
    seconds: Math.round(seconds),
    misfortunes: told.length,
    "of them, kills of the cloud": told.filter((one) => one.includes("the cloud gets")).length,
    labels: history.jobs.length,
    "calls, retried": `${history.calls.length}, ${history.calls.filter(({ tries }) => tries.length > 1).length}`,
    "deliveries, arrivals": `${history.deliveries.length}, ${history.arrivals.length}`,
    "reports waiting, most": most(looks.map(({ backlog }) => backlog)),
  };
  const rowsOf = ({ heap, resident }: Gains, n: number) => {
    const rss = of(n, ({ rssBytes }) => rssBytes).toSorted((a, b) => a - b);
    return {
      "RSS, median and most": `${mib(rss[Math.floor(rss.length / 2)] ?? 0)}, ${mib(rss.at(-1) ?? 0)}`,
      "heap and RSS, gained once warm": `${mib(heap)}, ${mib(resident)}`,
      "WAL, most": mib(most(of(n, ({ walBytes }) => walBytes))),
      "files, most": most(of(n, ({ fds }) => fds)),
    };
  };
  const named = gains.flatMap((gain, n) =>
    Object.entries(rowsOf(gain, n)).map(([name, value]) => [gains.length > 1 ? `node ${n + 1}: ${name}` : name, value] as const),
  );
  for (const [name, value] of [...Object.entries(rows), ...named]) say(`${name.padEnd(40)}${String(value).padStart(20)}`);
}

async function onPostgres<T>(
  engine: Options["engine"],
  run: (postgres: { server: Postgres; url: string } | undefined) => Promise<T>,
): Promise<T> {
  if (engine === "sqlite") return run(undefined);
  const server = await startPostgres({ onDisk: true });
  try {
    return await run({ server, url: await server.createDatabase("soak") });
  } finally {
    await server.stop();
  }
}

async function oneLong({ minutes, seed, nodes, engine }: Options): Promise<string[]> {
  say(
    `soak: seed ${seed}, ${minutes} minutes on ${engine}${nodes > 1 ? `, ${nodes} nodes` : ""}, at ${SHARE * 100} % of what the floor can do`,
  );
  const soaked = await onPostgres(engine, (postgres) => soak({ seed, minutes, nodes, onLook: line, ...(postgres ? { postgres } : {}) }));
  if (soaked.broken.length > 0) for (const one of soaked.told) say(`  ${one}`);
  table(soaked);
  return soaked.broken;
}

async function manySeeds({ seeds, seed: first, nodes, engine }: Options): Promise<string[]> {
  const broken: string[] = [];
  for (let seed = first; seed < first + seeds; seed += 1) {
    const outcome = await onPostgres(engine, (postgres) =>
      runChaos({ seed, nodes, pace: SEED_PACE, load: { labelsPerSecond: 2 }, ...(postgres ? { postgres } : {}) }),
    );
    const { told, history, seconds } = outcome;
    say(
      `seed ${seed}: ${told.length} misfortunes, ${history.jobs.length} labels, ${Math.round(seconds)} s: ${outcome.broken.length === 0 ? "well" : "BROKEN"}`,
    );
    if (outcome.broken.length > 0) for (const one of told) say(`  ${one}`);
    for (const fault of outcome.broken) say(`  BROKEN: ${fault}`);
    broken.push(...outcome.broken.map((fault) => `seed ${seed}: ${fault}`));
  }
  return broken;
}

if (import.meta.main) {
  endWhenTold();
  try {
    const options = optionsFrom(process.argv.slice(2));
    const broken = await (options.seeds > 0 ? manySeeds(options) : oneLong(options));
    for (const fault of broken) say(`BROKEN: ${fault}`);
    say(broken.length === 0 ? "every invariant holds" : `${broken.length} faults`);
    process.exit(broken.length === 0 ? 0 : 1); // fifty seeds left Node spinning in its own clean-up
  } catch (error) {
    process.stderr.write(`imprimatur soak: ${(error as Error).message}\n`);
    process.exit(2);
  }
}
