// What the buffer no longer needs to know: attempts that are over, told and explained. Their labels go on being counted.
import { type LabelState, OPEN_LABELS } from "./buffer-labels.ts";
import { placesFor, type Sql } from "./buffer-sql.ts";

const COUNTED = "forgotten_labels";

export function forgettingIn({ run, all, write, meta, setMeta }: Sql) {
  type Counts = Partial<Record<LabelState, number>>;
  const forgotten = (): Counts => JSON.parse(meta(COUNTED) ?? "{}") as Counts;

  /** Keeps the counts of what is taken out of the ledger. */
  function count(id: unknown, counts: Counts): void {
    for (const row of all("SELECT state FROM ledger WHERE attempt_id = ?", id)) {
      const state = row["state"] as LabelState;
      counts[state] = (counts[state] ?? 0) + 1;
    }
  }
  /** The oldest that ended before, but for what people still have to see to; says how many. */
  const forget = (before: number, most: number): number =>
    write(() => {
      const over = all(
        `SELECT attempt_id FROM attempts AS one WHERE ended IS NOT NULL AND updated_at < ? AND ended NOT LIKE 'quarantined%'
           AND NOT EXISTS (SELECT 1 FROM reports WHERE attempt_id = one.attempt_id AND fate IS NULL)
           AND NOT EXISTS (SELECT 1 FROM ledger WHERE attempt_id = one.attempt_id AND state IN (${placesFor(OPEN_LABELS)}))
         ORDER BY updated_at LIMIT ?`,
        before, ...OPEN_LABELS, most,
      ).map((row) => row["attempt_id"]); // oxfmt-ignore
      if (over.length === 0) return 0;
      const counts = forgotten();
      for (const id of over) {
        count(id, counts);
        // Without the attempt nobody would know that what was seen then is accounted for.
        run(
          `DELETE FROM sightings WHERE n IN (SELECT seen.n FROM attempts AS one JOIN sightings AS seen ON seen.text = one.link
             WHERE one.attempt_id = ? AND seen.scanned_at <= strftime('%Y-%m-%dT%H:%M:%fZ', one.updated_at / 1000.0, 'unixepoch'))`,
          id,
        );
        for (const table of ["reports", "acts", "ledger", "attempts"]) run(`DELETE FROM ${table} WHERE attempt_id = ?`, id);
      }
      setMeta(COUNTED, JSON.stringify(counts));
      run("DELETE FROM pictures WHERE sent_at < ?", before);
      return over.length;
    });

  return {
    forget,
    /** Of all labels that ever were here. */
    labelCounts: (): Record<string, number> => {
      const counts: Record<string, number> = { ...forgotten() };
      for (const row of all("SELECT state, count FROM ledger_counts WHERE count > 0")) {
        const state = String(row["state"]);
        counts[state] = (counts[state] ?? 0) + Number(row["count"]);
      }
      return counts;
    },
  };
}
