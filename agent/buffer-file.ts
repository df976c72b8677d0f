// The buffer's file before anything is believed of it: whose it is, which version wrote it, whether it is whole. What can't be read is set aside, never deleted.
import { accessSync, constants, existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import Database from "better-sqlite3";
import { Refusal } from "#shared/errors.ts";
import { codeOf } from "#shared/fault.ts";
import { saying } from "#shared/sayings.ts";
import type { Station as StationInfo } from "#shared/wire/devices.ts";
import { stages } from "./attempt.ts";
import { labelStates } from "./buffer-labels.ts";
import { isDamage } from "./buffer-sql.ts";
import { type Clock, instant } from "./clock.ts";
import { makeFolder, syncFolder } from "./folder.ts";

/** What each version added; a file of a later version is refused, for this agent would lose what it can't know. */
const VERSIONS = [
  `
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE attempts (
  attempt_id TEXT PRIMARY KEY, job_ref TEXT NOT NULL, serial TEXT NOT NULL, link TEXT NOT NULL, task TEXT NOT NULL, envelope TEXT NOT NULL,
  printer TEXT, stage TEXT NOT NULL, work TEXT NOT NULL, lease_seconds INTEGER NOT NULL, lease_until INTEGER NOT NULL,
  envelope_until INTEGER NOT NULL, ask_since INTEGER, ended TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;
CREATE INDEX attempts_open ON attempts (ended, created_at);
CREATE INDEX attempts_job ON attempts (job_ref);
CREATE INDEX attempts_link ON attempts (link);
CREATE TABLE reports (
  n INTEGER PRIMARY KEY AUTOINCREMENT, attempt_id TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL UNIQUE, body TEXT NOT NULL,
  at INTEGER NOT NULL, fate TEXT, told TEXT, settled_at INTEGER) STRICT;
CREATE INDEX reports_waiting ON reports (n) WHERE fate IS NULL;
CREATE INDEX reports_attempt ON reports (attempt_id, n);
CREATE TABLE acts (
  n INTEGER PRIMARY KEY AUTOINCREMENT, attempt_id TEXT NOT NULL, printer TEXT NOT NULL, token TEXT NOT NULL, sha256 TEXT NOT NULL,
  bytes INTEGER NOT NULL, intended_at INTEGER NOT NULL, receipt TEXT, received_at INTEGER) STRICT;
CREATE INDEX acts_attempt ON acts (attempt_id);
CREATE TABLE ledger (
  n INTEGER PRIMARY KEY AUTOINCREMENT, attempt_id TEXT, job_ref TEXT, serial TEXT, printer TEXT NOT NULL, state TEXT NOT NULL,
  words TEXT NOT NULL, at INTEGER NOT NULL, changed_at INTEGER NOT NULL) STRICT;
CREATE INDEX ledger_attempt ON ledger (attempt_id);
CREATE INDEX ledger_state ON ledger (state);
CREATE TABLE quarantine (
  n INTEGER PRIMARY KEY AUTOINCREMENT, job_ref TEXT, attempt_id TEXT, code TEXT NOT NULL, message TEXT NOT NULL, what TEXT NOT NULL,
  at INTEGER NOT NULL) STRICT;
CREATE TABLE pictures (
  sha256 TEXT PRIMARY KEY, media_type TEXT NOT NULL, bytes BLOB, at INTEGER NOT NULL, sent_at INTEGER) STRICT;
CREATE INDEX pictures_waiting ON pictures (at) WHERE sent_at IS NULL;
CREATE TABLE sightings (
  n INTEGER PRIMARY KEY AUTOINCREMENT, scanner TEXT NOT NULL, text TEXT NOT NULL, scanned_at TEXT NOT NULL, image_sha256 TEXT) STRICT;
CREATE INDEX sightings_text ON sightings (text);
CREATE INDEX sightings_image ON sightings (image_sha256);
`,
  `
ALTER TABLE reports ADD COLUMN correlation TEXT;
CREATE INDEX attempts_in_hand ON attempts (created_at) WHERE ended IS NULL AND stage NOT IN ('sealing', 'orphan');
`,
  `
CREATE INDEX attempts_over ON attempts (updated_at) WHERE ended IS NOT NULL;
`,
  `
ALTER TABLE quarantine ADD COLUMN seen_by TEXT;
ALTER TABLE quarantine ADD COLUMN seen_at INTEGER;
`,
  // A month's labels are half a million rows, and each look at the station says how many there are of each kind.
  `
CREATE TABLE ledger_counts (state TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT;
INSERT INTO ledger_counts SELECT state, count(*) FROM ledger GROUP BY state;
CREATE TRIGGER ledger_added AFTER INSERT ON ledger BEGIN
  INSERT INTO ledger_counts VALUES (new.state, 1) ON CONFLICT (state) DO UPDATE SET count = count + 1;
END;
CREATE TRIGGER ledger_removed AFTER DELETE ON ledger BEGIN
  UPDATE ledger_counts SET count = count - 1 WHERE state = old.state;
END;
CREATE TRIGGER ledger_moved AFTER UPDATE OF state ON ledger BEGIN
  UPDATE ledger_counts SET count = count - 1 WHERE state = old.state;
  INSERT INTO ledger_counts VALUES (new.state, 1) ON CONFLICT (state) DO UPDATE SET count = count + 1;
END;
`,
];
const BUFFER_VERSION = VERSIONS.length;
/** For an IN of SQL. */
const quoted = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(", ");
const ON_PAPER = quoted(Object.entries(stages).flatMap(([stage, { paper }]) => (paper ? stage : [])));
/** The first files didn't say theirs. */
const versionOf = (db: Database.Database): number => Number(db.pragma("user_version", { simple: true })) || 1;

export type SetAside = { file: string; why: string; at: string };

/** Held for as long as the process lives: a second agent on this folder would print what the first has printed. */
export function openFile(dataDir: string, file: string, clock: Clock): Database.Database {
  try {
    return opened(dataDir, file, clock);
  } catch (error) {
    if (codeOf(error).startsWith("SQLITE_")) (error as Error).message = `${file}: ${(error as Error).message}`;
    throw error;
  }
}
function opened(dataDir: string, file: string, clock: Clock): Database.Database {
  makeFolder(dataDir, 0o700);
  accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  const was = existsSync(file) ? judged(dataDir, file) : undefined;
  const setAside = was?.good === false ? putAside(file, was.why, clock) : lastAside(file, clock);
  const isNew = !existsSync(file);
  let made: Database.Database | undefined;
  try {
    const db = (made = held(dataDir, file));
    db.pragma("journal_mode = WAL");
    db.pragma("synchronous = FULL");
    db.transaction(() => {
      for (const added of VERSIONS.slice(isNew ? 0 : versionOf(db))) db.exec(added);
      db.pragma(`user_version = ${BUFFER_VERSION}`);
      if (!isNew || !setAside) return;
      const note = db.prepare("INSERT INTO meta (name, value) VALUES (?, ?)");
      note.run("set_aside", JSON.stringify(setAside));
      note.run("adoption", "due");
    }).exclusive();
    return db;
  } catch (error) {
    made?.close();
    // Nothing was ever in it, and the next start would take it for a damaged one.
    if (isNew && !(error instanceof Refusal)) for (const beside of ["", ...BESIDE]) rmSync(file + beside, { force: true });
    throw error;
  }
}

/** Opened by us alone, or refused. */
function held(dataDir: string, file: string): Database.Database {
  // SQLite's own words would name neither the file nor the reason.
  if (existsSync(file)) accessSync(file, constants.R_OK | constants.W_OK);
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory())
    throw Object.assign(new Error(`${file} is a folder where a file has to be`), { code: "EISDIR" });
  const db = new Database(file, { timeout: 0 });
  try {
    db.pragma("locking_mode = EXCLUSIVE");
    db.exec("BEGIN EXCLUSIVE; COMMIT");
    return db;
  } catch (error) {
    db.close();
    if (/^SQLITE_(BUSY|LOCKED)/.test(codeOf(error)))
      throw new Refusal("STORE_UNAVAILABLE", `another agent works in ${dataDir}: one station is one agent with a dataDir of its own`);
    throw error;
  }
}

export function isInUse(dataDir: string, file: string): boolean {
  if (statSync(file).size === 0) return false; // nor to be opened: SQLite would begin its first page in it
  try {
    held(dataDir, file).close();
    return false;
  } catch (error) {
    return error instanceof Refusal; // else it is damaged, or not to be read, and nobody works with it
  }
}

/** `waiting`: reports that the cloud hasn't settled. `owner`: the device whose words or labels are still in it; null where there are none. */
type Whole = { good: true; waiting: number; owner: StationInfo["device"] | null; isPaused: boolean };
type Judged = Whole | { good: false; why: string };
/** Opens it for a moment; refuses where another agent has it, or a newer one wrote it. */
export function judged(dataDir: string, file: string): Judged {
  if (statSync(file).size === 0) return { good: false, why: saying("file_empty") };
  let db: Database.Database | undefined;
  try {
    db = held(dataDir, file);
    const version = versionOf(db);
    if (version > BUFFER_VERSION)
      throw new Refusal(
        "STORE_UNAVAILABLE",
        `${file} was written by a newer agent (version ${version}, this one knows ${BUFFER_VERSION}): start that agent, or give this one another dataDir`,
      );
    const why = faultIn(db, version);
    return why === undefined ? wholeIn(db) : { good: false, why };
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { good: false, why: (error as Error).message };
  } finally {
    db?.close();
  }
}

type Sealed = { attempt_id: string; job_ref: string; gtin: string; serial: string; link: string; sealed_at: string };
/** What the cloud has sealed since, as far as this station knows, and when the first attempt began that it remembers; refuses where an agent works. */
export function sealedIn(dataDir: string, file: string, since: number): { sealed: Sealed[]; firstAt: number | null } {
  const db = held(dataDir, file);
  try {
    const firstAt = db.prepare("SELECT min(created_at) FROM attempts").pluck().get() as number | null;
    const sealed = db
      .prepare(
        `SELECT attempt_id, job_ref, task ->> 'gtin' AS gtin, serial, link, strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS sealed_at
         FROM attempts WHERE ended = 'sealed' AND updated_at >= ? ORDER BY updated_at`,
      )
      .all(since) as Sealed[];
    return { sealed, firstAt };
  } finally {
    db.close();
  }
}

function wholeIn(db: Database.Database): Whole {
  const count = (what: string) => Number(db.prepare(`SELECT count(*) FROM ${what}`).pluck().get());
  const meta = (name: string) => db.prepare("SELECT value FROM meta WHERE name = ?").pluck().get(name) as string | undefined;
  const waiting = count("reports WHERE fate IS NULL");
  const isOwing = waiting + count("pictures WHERE sent_at IS NULL") + count(`attempts WHERE ended IS NULL AND stage IN (${ON_PAPER})`) > 0;
  const station = JSON.parse(meta("station") ?? "null") as StationInfo | null;
  return { good: true, waiting, owner: isOwing && station ? station.device : null, isPaused: meta("paused") === "true" };
}

/** Why this isn't a whole buffer of ours; undefined where it is. */
function faultIn(db: Database.Database, version: number): string | undefined {
  if (version < 0 || shapeOf(db) !== ourShape(version)) return saying("tables_other", { version });
  const said = String(db.pragma("integrity_check(1)", { simple: true }));
  if (said !== "ok") return said.replaceAll(/\s+/g, " ");
  const unread = Number(
    db
      .prepare(`SELECT ${UNREADABLE.map((rows) => `(SELECT count(*) FROM ${rows})`).join(" + ")}`)
      .pluck()
      .get(),
  );
  return unread === 0 ? undefined : saying("rows_unread", { count: unread });
}
/** The names that we read: under others, which other versions may have written, nothing has to be JSON. */
const KEPT_AS_JSON = ["station", "jwks", "unanswered_claim", "set_aside", "paused", "begun_elsewhere"];
/** SQLite notices a torn page, but no changed byte within a value. Ended attempts count too: the console reads them, and so does the next job of their serial. */
const UNREADABLE = [
  `attempts WHERE NOT iif(json_valid(task) AND json_valid(work), stage IN (${quoted(Object.keys(stages))})
    AND (ended IS NOT NULL OR (link, serial, job_ref) IS (task ->> 'digital_link', task ->> 'serial', task ->> 'job_ref')), 0)`,
  "reports WHERE NOT json_valid(body)",
  `ledger WHERE state NOT IN (${quoted(Object.keys(labelStates))})`,
  `meta WHERE (name IN (${quoted(KEPT_AS_JSON)}) OR name LIKE 'odometer:%' OR name LIKE 'counts:%') AND NOT json_valid(value)`,
];
const shapeOf = (db: Database.Database): string =>
  db
    .prepare("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
    .all()
    .map((row) => JSON.stringify(row).replaceAll(/\\n|\s+/g, " "))
    .join();
function ourShape(version: number): string {
  const db = new Database(":memory:");
  try {
    return shapeOf(db.exec(VERSIONS.slice(0, version).join("")));
  } finally {
    db.close();
  }
}

const ASIDE = ".damaged-";
const BESIDE = ["-wal", "-shm", "-journal"];
/** Of a start that was killed between setting aside and beginning anew. */
function lastAside(file: string, clock: Clock): SetAside | null {
  const name = readdirSync(dirname(file))
    .toSorted()
    .findLast((one) => one.startsWith(basename(file) + ASIDE) && !BESIDE.some((beside) => one.endsWith(beside)));
  const at = instant(clock);
  return name === undefined ? null : { file: join(dirname(file), name), why: saying("found_damaged"), at };
}

/** With what SQLite keeps beside it: without them it would be another file. */
function putAside(file: string, why: string, clock: Clock): SetAside {
  const at = instant(clock);
  const aside = freeName(`${file}${ASIDE}${at.replaceAll(/[-:]|\.\d+/g, "")}`);
  for (const beside of BESIDE) if (existsSync(file + beside)) renameSync(file + beside, aside + beside);
  renameSync(file, aside);
  syncFolder(dirname(file));
  return { file: aside, why, at };
}
function freeName(wanted: string, n = 1): string {
  const name = n === 1 ? wanted : `${wanted}-${n}`;
  return existsSync(name) ? freeName(wanted, n + 1) : name;
}
