// What must survive: claimed work, every report before it is sent, every physical act before it is begun, every label. One SQLite file, one agent.
import { Buffer } from "node:buffer";
import { randomUUID } from "node:crypto";
import { existsSync, statfsSync } from "node:fs";
import { join } from "node:path";
import type Database from "better-sqlite3";
import { Refusal } from "#shared/errors.ts";
import type { BundleItem, OrphanReport } from "#shared/wire/jobs.ts";
import type { Attempt, Stage, Task, Work } from "./attempt.ts";
import { askOf } from "./attempt.ts";
import { openFile, type SetAside } from "./buffer-file.ts";
import { clickNow } from "./click.ts";
import type { Clock } from "./clock.ts";
import type { Seen } from "./scan-rules.ts";

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
  /** Of its body. */ bytes: number;
} & ({ kind: "result"; body: ReportBody } | { kind: "orphan"; body: OrphanReport });
export type Fate = "taken" | "dropped" | "quarantined";
export type Quarantined = { n: number; job_ref: string | null; attempt_id: string | null; code: string; message: string; at: number };
export type Store = ReturnType<typeof openBuffer>;

const ROOM = " ".repeat(262_144);
export const ROOM_MIN_BYTES = 4_194_304; // a label's reports and pictures, and what SQLite writes beside them
const KEPT_SIGHTINGS = 20_000;
const FULL = /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|NOMEM)/;
const CORRUPT = /^SQLITE_(CORRUPT|NOTADB)/;

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

/** For this user; what can't be asked is taken for enough. */
export function freeOn(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return Infinity;
  }
}

export function openBuffer(dataDir: string, clock: Clock) {
  const file = join(dataDir, "station.db");
  const db = openFile(dataDir, file, clock);
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
  let isBroken = false;

  /** All of it durable, or nothing; what the disk refuses is told as such. */
  function write<T>(act: () => T): T {
    if (db.inTransaction) return act();
    try {
      return db.transaction(act).immediate();
    } catch (error) {
      const code = String((error as { code?: string }).code);
      isBroken ||= CORRUPT.test(code);
      if (!isBroken && !FULL.test(code)) throw error;
      fault = isBroken
        ? `the buffer ${file} is damaged: restart the agent, which sets it aside and asks the cloud what it held`
        : `the buffer in ${dataDir} can't be written: ${(error as Error).message}`;
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

  const meta = (name: string): string | undefined => get("SELECT value FROM meta WHERE name = ?", name)?.["value"] as string | undefined;
  const setMeta = (name: string, value: string) =>
    void write(() =>
      run("INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value),
    );

  return {
    file,
    write,
    /** The file that was here before this one and couldn't be read, for as long as it lies there. */
    setAside: (): SetAside | null => {
      const said = JSON.parse(meta("set_aside") ?? "null") as SetAside | null;
      return said && existsSync(said.file) ? said : null;
    },
    /** The latest moment that is written down here. */
    latest: (): number => {
      const attempts = get("SELECT max(updated_at) AS at FROM attempts")?.["at"];
      const seen = get("SELECT scanned_at AS at FROM sightings ORDER BY n DESC LIMIT 1")?.["at"] as string | undefined;
      return Math.max(Number(attempts ?? 0), Date.parse(seen ?? "") || 0);
    },
    /** Leases were counted by the clock of a process that is gone: each is asked for before it is believed. */
    distrustLeases: () => void write(() => run("UPDATE attempts SET lease_until = 0 WHERE ended IS NULL AND lease_until <> 0")),
    /** How large the file may grow, in pages of 4 KiB; `full` is as large as it is. */
    limit: (pages: number | "full" | "none") =>
      void db.pragma(`max_page_count = ${pages === "full" ? 1 : pages === "none" ? 4_294_967_294 : pages}`),
    fault: () => fault,
    /** Whether there is room for the reports of some labels, before the disk has to say so. */
    probe: (): boolean => {
      if (isBroken) return false;
      const freeBytes = freeOn(dataDir);
      if (freeBytes < ROOM_MIN_BYTES) {
        fault ??= `the buffer in ${dataDir} can't be written much longer: ${Math.floor(freeBytes / 1_024)} KiB are free`;
        return false;
      }
      if (fault === null) return true;
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
    meta,
    setMeta,

    // --- attempts
    attempt,
    must,
    change,
    take: (taken: Pick<Attempt, "attemptId" | "task" | "envelope" | "leaseSeconds" | "leaseUntil" | "envelopeUntil">) =>
      write(() => {
        const { attemptId, task, envelope, leaseSeconds, leaseUntil, envelopeUntil } = taken;
        const now = clock.now();
        const earlier = get("SELECT 1 AS here FROM ledger WHERE job_ref = ? AND state IN ('unknown', 'printed', 'orphan')", task.job_ref);
        const since = task.duplicate_risk || earlier ? now : null;
        return run(
          `INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, NULL, 'waiting', ?, ?, ?, ?, ?, NULL, ?, ?) ON CONFLICT DO NOTHING`,
          attemptId, task.job_ref, task.serial, task.digital_link, JSON.stringify(task), envelope, JSON.stringify(earlier ? { earlier: true } : {}), leaseSeconds, leaseUntil, envelopeUntil, since, now, now,
        ).changes > 0; // oxfmt-ignore
      }),
    /** Those that are still to be worked on: after a long outage thousands more only wait to be heard of. */
    inHand: (): Attempt[] =>
      all("SELECT * FROM attempts WHERE ended IS NULL AND stage NOT IN ('sealing', 'orphan') ORDER BY created_at, rowid").map(attemptFrom),
    orphans: (): Attempt[] =>
      all("SELECT * FROM attempts WHERE ended IS NULL AND stage = 'orphan' ORDER BY created_at, rowid").map(attemptFrom),
    sealing: (): number => Number(get("SELECT count(*) AS count FROM attempts WHERE ended IS NULL AND stage = 'sealing'")?.["count"]),
    ofJob: (ref: string): Attempt[] =>
      all("SELECT * FROM attempts WHERE job_ref = ? ORDER BY created_at DESC, rowid DESC", ref).map(attemptFrom),
    recent: (most: number): Attempt[] =>
      all("SELECT * FROM attempts WHERE ended IS NOT NULL ORDER BY updated_at DESC LIMIT ?", most).map(attemptFrom),

    // --- reports
    report: (attemptId: string, item: BundleItem & { reason?: string }) =>
      void write(() => enqueue(attemptId, "result", { job_ref: must(attemptId).jobRef, attempt_id: attemptId, ...item })),
    /** What the cloud has heard of an attempt already, before this buffer began. */
    heardBefore: ({ attemptId, jobRef }: Pick<Attempt, "attemptId" | "jobRef">, items: BundleItem[]) =>
      write(() => {
        for (const item of items) {
          const { lastInsertRowid } = enqueue(attemptId, "result", { job_ref: jobRef, attempt_id: attemptId, ...item });
          run("UPDATE reports SET fate = 'taken', settled_at = ? WHERE n = ?", clock.now(), lastInsertRowid);
        }
      }),
    reportOrphan: (orphan: OrphanReport) => void write(() => enqueue(orphan.attempt_id, "orphan", orphan)),
    waiting: (most: number): ReportRow[] =>
      all("SELECT * FROM reports WHERE fate IS NULL ORDER BY n LIMIT ?", most).map(
        (row) =>
          ({
            n: row["n"], attemptId: row["attempt_id"], kind: row["kind"], key: row["key"], at: row["at"], correlation: row["correlation"],
            bytes: Buffer.byteLength(String(row["body"])), body: JSON.parse(String(row["body"])),
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
      const row = get("SELECT count(*) AS count FROM reports WHERE fate IS NULL");
      const oldest = get("SELECT at FROM reports WHERE fate IS NULL ORDER BY n LIMIT 1");
      const pictures = get("SELECT count(*) AS count FROM pictures WHERE sent_at IS NULL");
      return { count: Number(row?.["count"]), oldestAt: (oldest?.["at"] ?? null) as number | null, pictures: Number(pictures?.["count"]) };
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
    nextPictures: (most: number): { sha256: string; mediaType: string; bytes: Uint8Array<ArrayBuffer> }[] =>
      all("SELECT * FROM pictures WHERE sent_at IS NULL ORDER BY at, rowid LIMIT ?", most).map((row) => ({
        sha256: String(row["sha256"]), mediaType: String(row["media_type"]), bytes: row["bytes"] as Uint8Array<ArrayBuffer>,
      })), // oxfmt-ignore
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
