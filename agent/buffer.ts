// What must survive: claimed work, every report before it is sent, every physical act before it is begun, every label. One SQLite file, one agent.
import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { Refusal } from "#shared/errors.ts";
import type { BundleItem, OrphanReport } from "#shared/wire/jobs.ts";
import type { Attempt, Stage, Task, Work } from "./attempt.ts";
import { askOf } from "./attempt.ts";
import { clickNow } from "./click.ts";
import type { Clock } from "./clock.ts";
import type { Seen } from "./scan-rules.ts";

const SCHEMA = `
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS attempts (
  attempt_id TEXT PRIMARY KEY, job_ref TEXT NOT NULL, serial TEXT NOT NULL, link TEXT NOT NULL, task TEXT NOT NULL, envelope TEXT NOT NULL,
  printer TEXT, stage TEXT NOT NULL, work TEXT NOT NULL, lease_seconds INTEGER NOT NULL, lease_until INTEGER NOT NULL,
  envelope_until INTEGER NOT NULL, ask_since INTEGER, ended TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS attempts_open ON attempts (ended, created_at);
CREATE INDEX IF NOT EXISTS attempts_job ON attempts (job_ref);
CREATE INDEX IF NOT EXISTS attempts_link ON attempts (link);
CREATE TABLE IF NOT EXISTS reports (
  n INTEGER PRIMARY KEY AUTOINCREMENT, attempt_id TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL UNIQUE, body TEXT NOT NULL,
  at INTEGER NOT NULL, fate TEXT, told TEXT, settled_at INTEGER) STRICT;
CREATE INDEX IF NOT EXISTS reports_waiting ON reports (n) WHERE fate IS NULL;
CREATE INDEX IF NOT EXISTS reports_attempt ON reports (attempt_id, n);
CREATE TABLE IF NOT EXISTS acts (
  n INTEGER PRIMARY KEY AUTOINCREMENT, attempt_id TEXT NOT NULL, printer TEXT NOT NULL, token TEXT NOT NULL, sha256 TEXT NOT NULL,
  bytes INTEGER NOT NULL, intended_at INTEGER NOT NULL, receipt TEXT, received_at INTEGER) STRICT;
CREATE INDEX IF NOT EXISTS acts_attempt ON acts (attempt_id);
CREATE TABLE IF NOT EXISTS ledger (
  n INTEGER PRIMARY KEY AUTOINCREMENT, attempt_id TEXT, job_ref TEXT, serial TEXT, printer TEXT NOT NULL, state TEXT NOT NULL,
  words TEXT NOT NULL, at INTEGER NOT NULL, changed_at INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS ledger_attempt ON ledger (attempt_id);
CREATE INDEX IF NOT EXISTS ledger_state ON ledger (state);
CREATE TABLE IF NOT EXISTS quarantine (
  n INTEGER PRIMARY KEY AUTOINCREMENT, job_ref TEXT, attempt_id TEXT, code TEXT NOT NULL, message TEXT NOT NULL, what TEXT NOT NULL,
  at INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS pictures (
  sha256 TEXT PRIMARY KEY, media_type TEXT NOT NULL, bytes BLOB, at INTEGER NOT NULL, sent_at INTEGER) STRICT;
CREATE INDEX IF NOT EXISTS pictures_waiting ON pictures (at) WHERE sent_at IS NULL;
CREATE TABLE IF NOT EXISTS sightings (
  n INTEGER PRIMARY KEY AUTOINCREMENT, scanner TEXT NOT NULL, text TEXT NOT NULL, scanned_at TEXT NOT NULL, image_sha256 TEXT) STRICT;
CREATE INDEX IF NOT EXISTS sightings_text ON sightings (text);
CREATE INDEX IF NOT EXISTS sightings_image ON sightings (image_sha256);
`;

/** A physical label from when it may exist to when it is explained. */
export const labelStates = {
  unknown: "it may have come out",
  printed: "it came out and isn't sealed",
  void: "it came out void and has to be destroyed",
  orphan: "its job went on without it: it has to be destroyed",
  unexplained: "the printer's counter moved without a job of ours",
  sealed: "sealed, and out of the door",
  destroyed: "destroyed, as an operator said",
  not_printed: "it never came out, as an operator or the printer said",
  explained: "it is explained otherwise",
} as const;
export type LabelState = keyof typeof labelStates;
export const OPEN_LABELS: readonly LabelState[] = ["unknown", "printed", "void", "orphan", "unexplained"];
export type LedgerRow = {
  n: number; attempt_id: string | null; job_ref: string | null; serial: string | null; printer: string; state: LabelState; words: string;
  at: number; changed_at: number;
}; // oxfmt-ignore
export type ReportBody = BundleItem & { job_ref: string; attempt_id: string; reason?: string };
export type ReportRow = {
  n: number;
  attemptId: string;
  key: string;
  at: number;
  /** The click it came from. */ correlation: string | null;
} & ({ kind: "result"; body: ReportBody } | { kind: "orphan"; body: OrphanReport });
export type Fate = "taken" | "dropped" | "quarantined";
export type Quarantined = { n: number; job_ref: string | null; attempt_id: string | null; code: string; message: string; at: number };
export type Store = ReturnType<typeof openBuffer>;

/** Columns that buffers of earlier versions don't have. */
const GROWN = { reports: { correlation: "TEXT" } };

const ROOM = " ".repeat(262_144);
const KEPT_SIGHTINGS = 20_000;
const FULL = /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|NOMEM)/;

type Change = Partial<Pick<Attempt, "printer" | "stage" | "leaseUntil" | "leaseSeconds" | "ended">> & {
  /** Over what was known; undefined takes it away. */
  work?: { [Name in keyof Work]: Work[Name] | undefined };
};
type Row = Record<string, unknown>;

function attemptFrom(row: Row): Attempt {
  return {
    attemptId: String(row["attempt_id"]),
    jobRef: String(row["job_ref"]),
    serial: String(row["serial"]),
    task: JSON.parse(String(row["task"])) as Task,
    envelope: String(row["envelope"]),
    printer: row["printer"] as string | null,
    stage: row["stage"] as Stage,
    work: JSON.parse(String(row["work"])) as Work,
    leaseSeconds: Number(row["lease_seconds"]),
    leaseUntil: Number(row["lease_until"]),
    envelopeUntil: Number(row["envelope_until"]),
    askSince: row["ask_since"] as number | null,
    ended: row["ended"] as string | null,
    createdAt: Number(row["created_at"]),
    updatedAt: Number(row["updated_at"]),
  };
}

export function openBuffer(dataDir: string, clock: Clock) {
  const file = join(dataDir, "station.db");
  const db = opened(dataDir, file);
  const statements = new Map<string, Database.Statement>();
  const prepared = (sql: string): Database.Statement => {
    const known = statements.get(sql) ?? db.prepare(sql);
    statements.set(sql, known);
    return known;
  };
  const run = (sql: string, ...values: unknown[]) => prepared(sql).run(...values);
  const all = (sql: string, ...values: unknown[]) => prepared(sql).all(...values) as Row[];
  const get = (sql: string, ...values: unknown[]) => prepared(sql).get(...values) as Row | undefined;
  let fault: string | null = null;

  /** All of it durable, or nothing; what the disk refuses is told as such. */
  function write<T>(act: () => T): T {
    if (db.inTransaction) return act();
    try {
      return db.transaction(act).immediate();
    } catch (error) {
      if (!FULL.test(String((error as { code?: string }).code))) throw error;
      fault = `the buffer in ${dataDir} can't be written: ${(error as Error).message}`;
      throw new Refusal("STORE_UNAVAILABLE", fault);
    }
  }

  const attempt = (id: string): Attempt | undefined => {
    const row = get("SELECT * FROM attempts WHERE attempt_id = ?", id);
    return row && attemptFrom(row);
  };
  const must = (id: string): Attempt => {
    const found = attempt(id);
    if (!found) throw new Error(`the attempt ${id} isn't in the buffer`);
    return found;
  };

  function change(id: string, changes: Change): Attempt {
    return write(() => {
      const before = must(id);
      const work = Object.fromEntries(
        Object.entries({ ...before.work, ...changes.work }).filter(([, value]) => value !== undefined),
      ) as Work;
      const next: Attempt = { ...before, ...changes, work, updatedAt: clock.now() };
      const [was, is] = [askOf(before), askOf(next)];
      next.askSince = is === null ? null : is === was ? before.askSince : clock.now();
      run(
        `UPDATE attempts SET printer = ?, stage = ?, work = ?, lease_until = ?, lease_seconds = ?, ask_since = ?, ended = ?, updated_at = ? WHERE attempt_id = ?`,
        next.printer, next.stage, JSON.stringify(next.work), next.leaseUntil, next.leaseSeconds, next.askSince, next.ended, next.updatedAt, id,
      ); // oxfmt-ignore
      return next;
    });
  }

  const enqueue = (attemptId: string, kind: ReportRow["kind"], body: object) =>
    run(
      "INSERT INTO reports (attempt_id, kind, key, body, at, correlation) VALUES (?, ?, ?, ?, ?, ?)",
      attemptId,
      kind,
      randomUUID(),
      JSON.stringify(body),
      clock.now(),
      clickNow() ?? null,
    );

  return {
    file,
    write,
    /** How large the file may grow, in pages of 4 KiB; `full` is as large as it is. */
    limit: (pages: number | "full" | "none") =>
      void db.pragma(`max_page_count = ${pages === "full" ? 1 : pages === "none" ? 4_294_967_294 : pages}`),
    fault: () => fault,
    /** Whether there is room again for the reports of some labels. */
    probe: (): boolean => {
      try {
        write(() => {
          run("INSERT INTO meta (name, value) VALUES ('room', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", ROOM);
          run("DELETE FROM meta WHERE name = 'room'");
        });
      } catch {
        return false;
      }
      fault = null;
      return true;
    },
    meta: (name: string): string | undefined => get("SELECT value FROM meta WHERE name = ?", name)?.["value"] as string | undefined,
    setMeta: (name: string, value: string) =>
      void write(() =>
        run("INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value),
      ),

    // --- attempts
    attempt,
    must,
    change,
    take: (taken: Pick<Attempt, "attemptId" | "task" | "envelope" | "leaseSeconds" | "leaseUntil" | "envelopeUntil">) =>
      write(() => {
        const { attemptId, task, envelope, leaseSeconds, leaseUntil, envelopeUntil } = taken;
        const now = clock.now();
        const since = task.duplicate_risk ? now : null;
        return run(
          `INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, NULL, 'waiting', '{}', ?, ?, ?, ?, NULL, ?, ?) ON CONFLICT DO NOTHING`,
          attemptId, task.job_ref, task.serial, task.digital_link, JSON.stringify(task), envelope, leaseSeconds, leaseUntil, envelopeUntil, since, now, now,
        ).changes > 0; // oxfmt-ignore
      }),
    open: (): Attempt[] => all("SELECT * FROM attempts WHERE ended IS NULL ORDER BY created_at, rowid").map(attemptFrom),
    ofJob: (ref: string): Attempt[] =>
      all("SELECT * FROM attempts WHERE job_ref = ? ORDER BY created_at DESC, rowid DESC", ref).map(attemptFrom),
    recent: (most: number): Attempt[] =>
      all("SELECT * FROM attempts WHERE ended IS NOT NULL ORDER BY updated_at DESC LIMIT ?", most).map(attemptFrom),

    // --- reports
    report: (attemptId: string, item: BundleItem & { reason?: string }) =>
      void write(() => enqueue(attemptId, "result", { job_ref: must(attemptId).jobRef, attempt_id: attemptId, ...item })),
    reportOrphan: (orphan: OrphanReport) => void write(() => enqueue(orphan.attempt_id, "orphan", orphan)),
    waiting: (most: number): ReportRow[] =>
      all("SELECT * FROM reports WHERE fate IS NULL ORDER BY n LIMIT ?", most).map(
        (row) =>
          ({
            n: row["n"], attemptId: row["attempt_id"], kind: row["kind"], key: row["key"], at: row["at"], correlation: row["correlation"], body: JSON.parse(String(row["body"])),
          }) as ReportRow, // oxfmt-ignore
      ),
    isWaiting: (n: number): boolean => get("SELECT 1 FROM reports WHERE n = ? AND fate IS NULL", n) !== undefined,
    settle: (n: number, fate: Fate, told: string | null) =>
      void write(() =>
        run("UPDATE reports SET fate = ?, told = ?, settled_at = ? WHERE n = ? AND fate IS NULL", fate, told, clock.now(), n),
      ),
    /** What this attempt still has to say is said to nobody: its job went on. */
    dropReports: (attemptId: string, told: string) =>
      void write(() =>
        run(
          "UPDATE reports SET fate = 'dropped', told = ?, settled_at = ? WHERE attempt_id = ? AND kind = 'result' AND fate IS NULL",
          told,
          clock.now(),
          attemptId,
        ),
      ),
    /** The bundle's items, exactly as they are sent. */
    items: (attemptId: string): BundleItem[] =>
      all("SELECT body FROM reports WHERE attempt_id = ? AND kind = 'result' ORDER BY n", attemptId)
        .map((row) => JSON.parse(String(row["body"])) as ReportBody)
        .map(({ job_ref: _ref, attempt_id: _id, reason: _reason, ...item }) => item),
    lastState: (attemptId: string): string | undefined => {
      const row = get("SELECT body FROM reports WHERE attempt_id = ? AND kind = 'result' ORDER BY n DESC LIMIT 1", attemptId);
      return row && (JSON.parse(String(row["body"])) as ReportBody).status;
    },
    depth: (): { count: number; oldestAt: number | null; pictures: number } => {
      const row = get("SELECT count(*) AS count, min(at) AS oldest FROM reports WHERE fate IS NULL");
      const pictures = get("SELECT count(*) AS count FROM pictures WHERE sent_at IS NULL");
      return { count: Number(row?.["count"]), oldestAt: row?.["oldest"] as number | null, pictures: Number(pictures?.["count"]) };
    },

    // --- acts
    intend: (attemptId: string, printer: string, sent: { token: string; sha256: string; bytes: number }): number =>
      write(() =>
        Number(
          run(
            "INSERT INTO acts (attempt_id, printer, token, sha256, bytes, intended_at) VALUES (?, ?, ?, ?, ?, ?)",
            attemptId,
            printer,
            sent.token,
            sent.sha256,
            sent.bytes,
            clock.now(),
          ).lastInsertRowid,
        ),
      ),
    receipt: (n: number, receipt: object) =>
      void write(() => run("UPDATE acts SET receipt = ?, received_at = ? WHERE n = ?", JSON.stringify(receipt), clock.now(), n)),
    lastAct: (
      attemptId: string,
    ): { sha256: string; bytes: number; printer: string; intendedAt: number; receipt: string | null } | undefined => {
      const row = get("SELECT * FROM acts WHERE attempt_id = ? ORDER BY n DESC LIMIT 1", attemptId);
      return row && {
        sha256: String(row["sha256"]), bytes: Number(row["bytes"]), printer: String(row["printer"]), intendedAt: Number(row["intended_at"]),
        receipt: row["receipt"] as string | null,
      }; // oxfmt-ignore
    },

    // --- labels
    label: (printer: string, state: LabelState, words: string, of?: Attempt) =>
      write(() => {
        const now = clock.now();
        run(
          "INSERT INTO ledger (attempt_id, job_ref, serial, printer, state, words, at, changed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
          of?.attemptId ?? null,
          of?.jobRef ?? null,
          of?.serial ?? null,
          printer,
          state,
          words,
          now,
          now,
        );
      }),
    /** Says something new of the labels of an attempt that are in these states. */
    relabel: (attemptId: string, from: readonly LabelState[], state: LabelState, words: string): number =>
      write(
        () =>
          run(
            `UPDATE ledger SET state = ?, words = ?, changed_at = ? WHERE attempt_id = ? AND state IN (${from.map(() => "?").join(", ")})`,
            state, words, clock.now(), attemptId, ...from,
          ).changes, // oxfmt-ignore
      ),
    explain: (n: number, state: LabelState, words: string): boolean =>
      write(() => run("UPDATE ledger SET state = ?, words = ?, changed_at = ? WHERE n = ?", state, words, clock.now(), n).changes > 0),
    labelCounts: (): Record<string, number> =>
      Object.fromEntries(
        all("SELECT state, count(*) AS count FROM ledger GROUP BY state").map((row) => [row["state"], Number(row["count"])]),
      ),
    openLabels: (most: number): LedgerRow[] =>
      all(
        `SELECT * FROM ledger WHERE state IN (${OPEN_LABELS.map(() => "?").join(", ")}) ORDER BY n DESC LIMIT ?`,
        ...OPEN_LABELS,
        most,
      ) as LedgerRow[],
    labelsOf: (attemptId: string): LedgerRow[] => all("SELECT * FROM ledger WHERE attempt_id = ? ORDER BY n", attemptId) as LedgerRow[],

    // --- what people have to see
    quarantine: (row: { jobRef: string | null; attemptId: string | null; code: string; message: string; what: string }) =>
      void write(() =>
        run(
          "INSERT INTO quarantine (job_ref, attempt_id, code, message, what, at) VALUES (?, ?, ?, ?, ?, ?)",
          row.jobRef,
          row.attemptId,
          row.code,
          row.message,
          row.what,
          clock.now(),
        ),
      ),
    quarantined: (most: number): Quarantined[] =>
      all("SELECT n, job_ref, attempt_id, code, message, at FROM quarantine ORDER BY n DESC LIMIT ?", most) as Quarantined[],

    // --- pictures
    picture: (sha256: string, mediaType: string, bytes: Uint8Array) =>
      void write(() => run("INSERT INTO pictures VALUES (?, ?, ?, ?, NULL) ON CONFLICT DO NOTHING", sha256, mediaType, bytes, clock.now())),
    nextPicture: (): { sha256: string; mediaType: string; bytes: Uint8Array<ArrayBuffer> } | undefined => {
      const row = get("SELECT * FROM pictures WHERE sent_at IS NULL ORDER BY at, rowid LIMIT 1");
      return row && { sha256: String(row["sha256"]), mediaType: String(row["media_type"]), bytes: row["bytes"] as Uint8Array<ArrayBuffer> };
    },
    /** Once the cloud has it, its bytes needn't lie here as well. */
    pictureSent: (sha256: string) =>
      void write(() => run("UPDATE pictures SET sent_at = ?, bytes = NULL WHERE sha256 = ?", clock.now(), sha256)),

    // --- scans
    sighting: ({ scanner, text, scanned_at, image_sha256 = null }: Omit<Seen, "image_sha256"> & { image_sha256?: string | null }) =>
      write(() => {
        const { lastInsertRowid } = run(
          "INSERT INTO sightings (scanner, text, scanned_at, image_sha256) VALUES (?, ?, ?, ?)",
          scanner,
          text,
          scanned_at,
          image_sha256,
        );
        if (Number(lastInsertRowid) % 1_000 === 0) run("DELETE FROM sightings WHERE n <= ?", Number(lastInsertRowid) - KEPT_SIGHTINGS);
      }),
    /** What matters to a judgement of these texts: where and when they were seen, this very picture, and the scanner's last word. */
    seen: (scanner: string, texts: string[], image: string | undefined): Seen[] =>
      all(
        `SELECT * FROM (SELECT * FROM sightings WHERE text IN (${texts.map(() => "?").join(", ")}) ORDER BY n DESC LIMIT 200)
         UNION SELECT * FROM (SELECT * FROM sightings WHERE image_sha256 = ? LIMIT 1)
         UNION SELECT * FROM (SELECT * FROM sightings WHERE scanner = ? ORDER BY n DESC LIMIT 1) ORDER BY n`,
        ...texts, image ?? "", scanner,
      ).map((row) => ({
        scanner: String(row["scanner"]), text: String(row["text"]), scanned_at: String(row["scanned_at"]),
        ...(typeof row["image_sha256"] === "string" ? { image_sha256: row["image_sha256"] } : {}),
      })), // oxfmt-ignore
    /** Attempts whose label says this, the latest first. */
    allOfLink: (text: string): Attempt[] =>
      all("SELECT * FROM attempts WHERE link = ? ORDER BY created_at DESC, rowid DESC LIMIT 100", text).map(attemptFrom),
    close: () => db.close(),
  };
}

/** Held for as long as the process lives: a second agent on this folder would print what the first has printed. */
function opened(dataDir: string, file: string): Database.Database {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const db = new Database(file, { timeout: 0 });
  try {
    db.pragma("locking_mode = EXCLUSIVE");
    db.pragma("journal_mode = WAL");
    db.pragma("synchronous = FULL");
    db.exec(`BEGIN EXCLUSIVE; ${SCHEMA} COMMIT`);
    for (const [table, columns] of Object.entries(GROWN)) {
      const known = new Set((db.pragma(`table_info(${table})`) as { name: string }[]).map(({ name }) => name));
      for (const [name, type] of Object.entries(columns)) if (!known.has(name)) db.exec(`ALTER TABLE ${table} ADD COLUMN ${name} ${type}`);
    }
    return db;
  } catch (error) {
    db.close();
    if (/^SQLITE_(BUSY|LOCKED)/.test(String((error as { code?: string }).code)))
      throw new Refusal("STORE_UNAVAILABLE", `another agent works in ${dataDir}: one station is one agent with a dataDir of its own`);
    throw error;
  }
}
