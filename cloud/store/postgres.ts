// The engine for those who outgrow one machine: a connection a unit, statements named and pipelined, conflicts tried again.
import { setTimeout as sleep } from "node:timers/promises";
import { type CustomTypesConfig, DatabaseError, Pool, type PoolClient, type QueryArrayResult, type QueryConfig, types } from "pg";
import { limits } from "#shared/limits.ts";
import { type Engine, type Execute, type Mode, LOCKED, RUN_AGAIN, type Session, SKIP_LOCKED, unavailable } from "./store.ts";

export type PostgresOptions = {
  url: string;
  clock?: () => number;
  connections?: number;
  onCommit?: (units: number, seconds: number) => void;
};

const TRIES = 8;
const STATEMENTS_KEPT = 1_000;
const CONNECT_MAX_MS = 5_000; // for a new connection, and for a free one where all are busy
const NUMBERS = new Set<number>([types.builtins.INT8, types.builtins.NUMERIC]);

const DEADLOCK = "40P01";
const codeOf = (error: unknown): string => (error as { code?: string } | undefined)?.code ?? "";
/** A deadlock, a serialization failure, a row that another unit made first: nothing was done, so the unit runs again and looks anew. */
const isConflict = (error: unknown) => [RUN_AGAIN, DEADLOCK, "23505"].includes(codeOf(error));
const isDeadlock = (error: unknown) => codeOf(error) === DEADLOCK;
async function again<T>(isWorthIt: (error: unknown) => boolean, act: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await act();
    } catch (error) {
      if (!isWorthIt(error)) throw error;
      if (tries === TRIES) throw unavailable(error);
      await sleep(Math.random() * 10 * 2 ** tries);
    }
  }
}
/** What the server says of itself rather than of the statement: out of resources, going down, broken, read-only. */
const isStoreFault = (error: unknown) => /^(08|53|57|58|25006)/.test(codeOf(error));

/** `?` as the builder writes it, `$n` as PostgreSQL reads it; what stands between quotes is left alone. */
export function numbered(sql: string): string {
  let n = 0;
  return sql.replaceAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|\?/g, (part) => (part === "?" ? `$${++n}` : part));
}

/** Statements are named, so that the server parses each once a connection. */
type Statement = { name: string; text: string };
const statements = new Map<string, Statement>();
function statementOf(sql: string): Statement {
  const known = statements.get(sql);
  if (known) return known;
  const made = {
    name: statements.size < STATEMENTS_KEPT ? `s${statements.size}` : "",
    text: numbered(sql).replaceAll(SKIP_LOCKED, "FOR UPDATE SKIP LOCKED").replaceAll(LOCKED, "FOR UPDATE"),
  };
  if (made.name) statements.set(sql, made);
  return made;
}

/** An error that isn't the server's own word is a connection's: the store can't be reached. */
async function ask(client: PoolClient, query: QueryConfig): Promise<QueryArrayResult> {
  try {
    return await client.query({ ...query, rowMode: "array" });
  } catch (error) {
    throw error instanceof DatabaseError && !isStoreFault(error) ? error : unavailable(error);
  }
}

const executor =
  (client: PoolClient): Execute =>
  async (sql, values, method) => {
    const { rows, rowCount } = await ask(client, { ...statementOf(sql), values });
    return { rows: method === "get" ? (rows[0] as unknown[]) : rows, changes: rowCount ?? 0 };
  };

const NOW = { name: "now", text: "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint" };
const BEGIN: Record<Mode, string> = {
  read: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
  write: "BEGIN ISOLATION LEVEL READ COMMITTED",
};

export function openPostgres({ url, clock, connections = limits.POSTGRES_CONNECTIONS, onCommit }: PostgresOptions): Engine {
  const pool = new Pool({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: CONNECT_MAX_MS,
    idleTimeoutMillis: 60_000,
    application_name: "imprimatur",
    statement_timeout: 30_000,
    idle_in_transaction_session_timeout: limits.UNIT_MAX_MS, // a node that is frozen, or cut off, keeps nobody waiting for longer
    options: "-c synchronous_commit=on",
    pipeline: true, // statements that don't wait for one another share a round trip
    types: { getTypeParser: parserOf },
  });
  // A connection that dies is dropped and replaced; who was using it hears it from the statement that failed.
  pool.on("error", () => {});
  pool.on("connect", (client) => void client.on("error", () => {}));
  let pending = 0;

  async function connect(): Promise<PoolClient> {
    try {
      return await pool.connect();
    } catch (error) {
      throw unavailable(error);
    }
  }

  /** The database's clock, so that several nodes agree; asked for in the same round trip that begins the transaction. */
  async function begin(client: PoolClient, mode: Mode): Promise<number> {
    const [, now] = await Promise.all([ask(client, { text: BEGIN[mode] }), clock ? undefined : ask(client, NOW)]);
    return clock ? clock() : Number(now?.rows[0]?.[0]);
  }

  async function commit(client: PoolClient, mode: Mode): Promise<void> {
    const began = performance.now();
    await ask(client, { text: "COMMIT" });
    if (mode === "write") onCommit?.(1, (performance.now() - began) / 1000);
  }

  async function once<T>(mode: Mode, work: (session: Session) => Promise<T>): Promise<T> {
    const client = await connect();
    let broken = false;
    try {
      const now = await begin(client, mode);
      const value = await work({ now, execute: executor(client) });
      await commit(client, mode);
      return value;
    } catch (error) {
      broken = await undo(client);
      throw error;
    } finally {
      client.release(broken);
    }
  }

  return {
    name: "postgres",
    transact: async (mode, work) => {
      pending += 1;
      try {
        return await again(isConflict, () => once(mode, work));
      } finally {
        pending -= 1;
      }
    },
    script: async (text) => {
      const client = await connect();
      try {
        // Several statements in one message are one transaction. A table that changes while others work on it may meet them crosswise.
        await again(isDeadlock, () => client.query(text));
      } finally {
        client.release();
      }
    },
    faults: async () => {
      const client = await connect();
      try {
        const { rows } = await ask(client, {
          text: "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')",
        });
        return rows
          .filter(([, setting]) => setting === "off" || setting === "local")
          .map(([name, setting]) => `PostgreSQL runs with ${String(name)}=${String(setting)}`);
      } finally {
        client.release();
      }
    },
    pending: () => pending,
    close: () => pool.end(),
  };
}

/** Counts and instants come out as the numbers that SQLite gives; all else as the driver reads it. */
const parserOf = ((oid: number, format?: "text") =>
  NUMBERS.has(oid) ? Number : types.getTypeParser(oid, format)) as CustomTypesConfig["getTypeParser"];

/** Says whether the connection is beyond use: one that can't even roll back is, and its transaction dies with it. */
async function undo(client: PoolClient): Promise<boolean> {
  try {
    await client.query("ROLLBACK");
    return false;
  } catch {
    return true; // why it broke is what the unit's own error tells
  }
}
