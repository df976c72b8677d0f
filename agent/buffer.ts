// What must survive: claimed work, every report before it is sent, every physical act before it is begun, every label. One SQLite file, one agent.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { JSONWebKeySet } from "jose";
import type { Station as StationInfo } from "#shared/wire/devices.ts";
import { type Begun, begunBeside } from "./begun.ts";
import { isQuarantined } from "./attempt.ts";
import { attemptsIn } from "./buffer-attempts.ts";
import { openFile, type SetAside } from "./buffer-file.ts";
import { forgettingIn } from "./buffer-forgetting.ts";
import { labelsIn } from "./buffer-labels.ts";
import { reportsIn } from "./buffer-reports.ts";
import { sightingsIn } from "./buffer-sightings.ts";
import { sqlOn } from "./buffer-sql.ts";
import type { Asked } from "./claims.ts";
import type { Clock } from "./clock.ts";
import { BUFFER_FILE } from "./config.ts";

export type Store = ReturnType<typeof openBuffer>;
/** What is kept as JSON, by its name; buffer-file.ts looks whether it is that. */
type Kept = {
  station: StationInfo;
  jwks: JSONWebKeySet;
  unanswered_claim: Asked;
  set_aside: SetAside;
  begun_elsewhere: Begun[];
  [odometer: `odometer:${string}`]: number;
  [counts: `counts:${string}`]: { identity: string | null };
};

export function openBuffer(dataDir: string, clock: Clock) {
  const file = join(dataDir, BUFFER_FILE);
  const db = openFile(dataDir, file, clock);
  const sql = sqlOn(db, { file, dataDir, clock });
  const { run, get, write, meta, setMeta } = sql;
  const attempts = attemptsIn(sql);
  const reports = reportsIn(sql, attempts.must);

  const kept = <Name extends keyof Kept>(name: Name): Kept[Name] | null => JSON.parse(meta(name) ?? "null") as Kept[Name] | null;
  const keep = <Name extends keyof Kept>(name: Name, value: Kept[Name] | null): void => setMeta(name, JSON.stringify(value));
  const begun = begunBeside(file);
  const lastAct = attempts.lastActOfAll();
  const lost = begun.after(lastAct);
  if (begun.last() > lastAct)
    write(() => {
      const elsewhere = lost.filter((one) => !attempts.beginAgain(one));
      keep("begun_elsewhere", [...(kept("begun_elsewhere") ?? []), ...elsewhere]);
      if (lost.length > 0) setMeta("adoption", "due");
      attempts.countActsFrom(begun.last());
      run("DELETE FROM meta WHERE name LIKE 'odometer:%'"); // by those labels the counters have moved since
    });

  return {
    write,
    meta,
    setMeta,
    kept,
    keep,
    noteBegun: begun.note,
    noteOver: begun.over,
    /** Labels that were begun after what this buffer knows: it was put back to how it was, or is a new one. */
    lost: lost.length,
    /** The file that was here before this one and couldn't be read, for as long as it lies there. */
    setAside: (): SetAside | null => {
      const said = kept("set_aside");
      return said && existsSync(said.file) ? said : null;
    },
    /** The latest moment that is written down here. */
    latest: (): number => {
      const attempts = get(
        `SELECT max(at) AS at FROM (SELECT max(updated_at) AS at FROM attempts WHERE ended IS NULL
         UNION ALL SELECT max(updated_at) FROM attempts WHERE ended IS NOT NULL)`,
      )?.["at"];
      const seen = get("SELECT scanned_at AS at FROM sightings ORDER BY n DESC LIMIT 1")?.["at"] as string | undefined;
      return Math.max(Number(attempts ?? 0), Date.parse(seen ?? "") || 0);
    },
    /** Leases were counted by the clock of a process that is gone: each is asked for before it is believed. */
    distrustLeases: () => void run("UPDATE attempts SET lease_until = 0 WHERE ended IS NULL AND lease_until <> 0"),
    /** How large the file may grow, in pages of 4 KiB; `full` is as large as it is. */
    limit: (pages: number | "full" | "none") =>
      void db.pragma(`max_page_count = ${pages === "full" ? 1 : pages === "none" ? 4_294_967_294 : pages}`),
    fault: sql.fault,
    probe: sql.probe,
    ...attempts,
    change: (...[id, changes]: Parameters<typeof attempts.change>) => {
      const changed = attempts.change(id, changes);
      // What was given up here is over once the cloud has heard so: until then a buffer that was put back to before would be believed that it isn't begun.
      const isUntold = changed.ended === "failed" && reports.isUntold(id);
      if (changed.ended !== null && !isQuarantined(changed) && !isUntold) begun.over(id);
      return changed;
    },
    ...reports,
    ...labelsIn(sql),
    ...forgettingIn(sql),
    ...sightingsIn(sql),
    close: () => {
      begun.close();
      db.close();
    },
  };
}
