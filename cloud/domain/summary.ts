// The floor in figures, at a price that doesn't grow with its history: open jobs are counted off an index up to a bound, ended ones were counted as they ended.
import { limits } from "#shared/limits.ts";
import { jobStateNames, openStates } from "#shared/states.ts";
import type { Summary } from "#shared/wire/console.ts";
import { run, type Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { instant } from "./instant.ts";
import { endedJobs, HOUR_MS, hourOf, jobsByHour } from "./job-hours.ts";

const HOURS = 24;
const STATIONS_SHOWN = 50;
const MOST = limits.SUMMARY_COUNT_MAX_ITEMS;

const OPEN_SQL = openStates
  .map(
    (state) =>
      `SELECT '${state}' AS state, COUNT(*) AS jobs FROM (SELECT 1 FROM print_jobs WHERE tenant_id = ? AND state = '${state}' LIMIT ${MOST}) AS counted_${state}`,
  )
  .join(" UNION ALL ");
const WAITING_SQL = `SELECT station, COUNT(*) AS jobs FROM (SELECT station FROM print_jobs WHERE tenant_id = ? AND pool = 1 LIMIT ${MOST}) AS counted
  GROUP BY station ORDER BY jobs DESC, station`;
const DEVICES_SQL = `SELECT COUNT(*), COUNT(CASE WHEN last_seen_at BETWEEN ? AND ? THEN 1 END) FROM devices WHERE tenant_id = ? AND deleted_at IS NULL`;

const rowsOf = async <Row extends unknown[]>(sql: string, values: unknown[]): Promise<Row[]> =>
  (await run(sql, values, "all")).rows as Row[];
type Counted = [name: string, jobs: number];

/** The running hour and those before it, silent ones too. */
function hoursOf(now: number, rows: readonly { hour: number; jobs: number }[]): Summary["sealed_by_hour"] {
  const labels = new Map(rows.map(({ hour, jobs }) => [hour, jobs]));
  const running = hourOf(now);
  return Array.from({ length: HOURS }, (_, i) => running - (HOURS - 1 - i) * HOUR_MS).map((hour) => ({
    hour: instant(hour),
    labels: labels.get(hour) ?? 0,
  }));
}

export async function summary(tx: Tx, { tenantId }: Pick<Caller, "tenantId">): Promise<Summary> {
  const { now } = tx;
  const ended = (await endedJobs(tx, tenantId)).map(({ state, jobs }): Counted => [state, jobs]);
  const open = await rowsOf<Counted>(
    OPEN_SQL,
    openStates.map(() => tenantId),
  );
  const sealed = await jobsByHour(tx, tenantId, "SEALED", now - HOURS * HOUR_MS);
  const waiting = (await rowsOf<Counted>(WAITING_SQL, [tenantId])).map(([station, jobs]) => ({ station: station || null, jobs }));
  const silence = limits.DEVICE_SILENCE_MAX_MS;
  const [[all, heardOf] = [0, 0]] = await rowsOf<[number, number]>(DEVICES_SQL, [now - silence, now + silence, tenantId]);
  const counted = new Map<string, number>([...ended, ...open]);
  return {
    at: instant(now),
    states: Object.fromEntries(jobStateNames.map((state) => [state, counted.get(state) ?? 0])),
    capped: openStates.filter((state) => counted.get(state) === MOST),
    sealed_by_hour: hoursOf(now, sealed),
    waiting: waiting.slice(0, STATIONS_SHOWN),
    waiting_capped: waiting.reduce((sum, { jobs }) => sum + jobs, 0) === MOST,
    devices: { all, heard_of: heardOf },
  };
}
