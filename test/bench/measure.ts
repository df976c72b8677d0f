// Measuring as ratios within one run: contestants take turns, so that a noisy machine slows them alike; the median of the rounds counts.
import { readFileSync } from "node:fs";

export type Contestant = { name: string; /** Runs for about this long and says how many it did. */ run(ms: number): Promise<number> };

/** `npm run bench -- --brief`: each bench once and small, to see that it still runs; its figures mean nothing. */
export const BRIEF = process.argv.includes("--brief");
export const inFull = <T>(full: T, brief: T): T => (BRIEF ? brief : full);

const ROUNDS = inFull(5, 1);
const ROUND_MS = inFull(1_000, 50);
const WARM_MS = inFull(3_000, 0);
/** Of nothing measured it is no number, which meets no target. */
export const percentile = (values: number[], share: number) => values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? NaN;
export const median = (values: number[]) => percentile(values, 0.5);

/** Rates a second of each contestant, and the median of the first's over the second's, round by round. */
export async function duel(first: Contestant, second: Contestant): Promise<{ rates: [number, number]; ratio: number }> {
  const rates: [number[], number[]] = [[], []];
  if (WARM_MS > 0) for (const { run } of [first, second]) await run(WARM_MS); // the compiler has seen it all before anything counts
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [i, { run }] of [first, second].entries()) {
      const began = performance.now();
      const done = await run(ROUND_MS);
      rates[i as 0 | 1].push((done / (performance.now() - began)) * 1000);
    }
  return { rates: [median(rates[0]), median(rates[1])], ratio: median(rates[0].map((rate, i) => rate / (rates[1][i] ?? 1))) };
}

/** For how long autocannon asks, which it takes by the second; in brief how often. */
export const lasting = (ms: number) => inFull({ duration: ms / 1000 }, { amount: 200 });

/** So many callers at once, each beginning again as soon as it is answered. */
export async function callers(count: number, ms: number, call: () => Promise<unknown>): Promise<number> {
  const until = performance.now() + ms;
  let done = 0;
  const caller = async () => {
    while (performance.now() < until) {
      await call();
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: count }, caller));
  return done;
}

export type Line = { name: string; figure: string; target: string; met: boolean };
export const rate = (value: number) => Math.round(value).toLocaleString("en-US");

export function ratioLine(name: string, { rates, ratio }: { rates: [number, number]; ratio: number }, least: number, unit: string): Line {
  return {
    name,
    figure: `${ratio.toFixed(2)} (${rate(rates[0])} against ${rate(rates[1])} ${unit}/s)`,
    target: `at least ${Math.round(least * 100) / 100}`,
    met: ratio >= least,
  };
}

export const residentMb = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;

export const TICK_MS = 10; // of /proc/PID/stat, on every Linux there is
/** What the kernel tells of a process, from its state on. */
export const statOf = (pid: number | string): string[] =>
  readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
export const cpuMs = (stat: string[]): number => (Number(stat[11]) + Number(stat[12])) * TICK_MS;
