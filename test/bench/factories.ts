// A thousand factories for a day, minute by minute: shifts in three time zones, breaks, lines that stop; what their labels ask of nodes and database.
import { random } from "../../fixtures/random.ts";

/** What one label costs from its issue to SEALED, as measured. */
export type Cost = { nodeCpuMs: number; databaseCpuMs: number; walBytes: number; storedBytes: number; commits: number };
export type Floor = { factories: number; linesEach: number; labelsAMinute: number; seed: number };
export type Need = {
  labelsADay: number;
  peakLabels: number;
  nodeCores: number;
  databaseCores: number;
  walMb: number;
  commits: number;
  storedTbAYear: number;
};

const MINUTES = 1_440;
const SHIFT_MINUTES = 480;
const BREAK_MINUTES = 30;
const ZONES_MINUTES = [0, 360, 780]; // Asia, Europe, America
const STOP_SHARE = 0.02; // of the minutes of a line in which it begins to stand still
const STOP_MINUTES = 10;
const BUSY_SHARE = 0.6; // more of a core isn't planned for: above it the waits grow without end

/** Labels in each minute of the day. */
export function demand({ factories, linesEach, labelsAMinute, seed }: Floor): number[] {
  const chance = random(seed);
  const labels = Array.from({ length: MINUTES }, () => 0);
  for (let factory = 0; factory < factories; factory += 1) {
    const dawn = (ZONES_MINUTES[factory % ZONES_MINUTES.length] ?? 0) + 360 + Math.floor((chance() - 0.5) * 120);
    const shifts = 1 + Math.floor(chance() * 3);
    for (let line = 0; line < linesEach; line += 1) {
      let standsUntil = 0;
      for (let minute = 0; minute < shifts * SHIFT_MINUTES; minute += 1) {
        if (chance() < STOP_SHARE) standsUntil = minute + STOP_MINUTES * chance();
        const pauses = minute % SHIFT_MINUTES >= SHIFT_MINUTES / 2 && minute % SHIFT_MINUTES < SHIFT_MINUTES / 2 + BREAK_MINUTES;
        if (!pauses && minute >= standsUntil) labels[(dawn + minute) % MINUTES] = (labels[(dawn + minute) % MINUTES] ?? 0) + labelsAMinute;
      }
    }
  }
  return labels;
}

/** What the busiest minute asks for, with room beside it, and what a year leaves. */
export function needOf(floor: Floor, cost: Cost): Need {
  const labels = demand(floor);
  const labelsADay = labels.reduce((sum, count) => sum + count, 0);
  const peakLabels = Math.max(...labels) / 60;
  const cores = (ms: number) => Math.ceil((peakLabels * ms) / 1_000 / BUSY_SHARE);
  return {
    labelsADay,
    peakLabels,
    nodeCores: cores(cost.nodeCpuMs),
    databaseCores: cores(cost.databaseCpuMs),
    walMb: (peakLabels * cost.walBytes) / 1e6,
    commits: peakLabels * cost.commits,
    storedTbAYear: (labelsADay * 365 * cost.storedBytes) / 1e12,
  };
}
