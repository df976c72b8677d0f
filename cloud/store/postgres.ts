// The engine for those who outgrow one machine: a connection a unit, statements named and pipelined, conflicts tried again.
import { setTimeout as sleep } from "node:timers/promises";
import postgres from "postgres";
import { type Engine, type Execute, type Mode, RUN_AGAIN, type Session, unavailable } from "./store.ts";

export type PostgresOptions = {
  url: string;
  clock?: () => number;
  connections?: number;
  onCommit?: (units: number, seconds: number) => void;
};

const CONNECTIONS = 16;
const TRIES = 8;
const INT8 = 20;
const NUMERIC = 1700;

const codeOf = (error: unknown): string => (error as { code?: string } | undefined)?.code ?? "";
/** A deadlock or a serialization failure: nobody is at fault and nothing was done, so the unit runs again. */
const isConflict = (error: unknown) => codeOf(error) === RUN_AGAIN || codeOf(error) === "40P01";
const isStoreFault = (error: unknown) =>
  /^(08|53|57|58)|^25006$|^CONNECT|^ECONN|^EPIPE|^ENOTFOUND|^ETIMEDOUT|^EHOSTUNREACH/.test(codeOf(error));

/** `?` as the builder writes it, `$n` as PostgreSQL reads it; what stands between quotes is left alone. */
export function numbered(sql: string): string {
  let n = 0;
  return sql.replaceAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|\?/g, (part) => (part === "?" ? `$${++n}` : part));
}

const texts = new Map<string, string>();
function translated(sql: string): string {
  const known = texts.get(sql);
  if (known !== undefined) return known;
  const made = numbered(sql);
  if (texts.size < 1_000) texts.set(sql, made);
  return made;
}

const executor =
  (connection: postgres.ReservedSql): Execute =>
  async (sql, params, method) => {
    const rows = await connection.unsafe(translated(sql), params as postgres.ParameterOrJSON<never>[], { prepare: true }).values();
    return { rows: method === "get" ? (rows[0] as unknown[]) : rows, changes: rows.count };
  };

const BEGIN: Record<Mode, string> = {
  read: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
  write: "BEGIN ISOLATION LEVEL READ COMMITTED",
};

export function openPostgres({ url, clock, connections = CONNECTIONS, onCommit }: PostgresOptions): Engine {
  const sql = postgres(url, {
    max: connections,
    connect_timeout: 5,
    idle_timeout: 60,
    onnotice: () => {},
    // counts and instants come out as the numbers that SQLite gives
    types: { whole: { to: INT8, from: [INT8, NUMERIC], serialize: String, parse: Number } },
    connection: {
      application_name: "imprimatur",
      synchronous_commit: "on",
      statement_timeout: 30_000,
      idle_in_transaction_session_timeout: 60_000,
    },
  });
  let pending = 0;

  /** The database's clock, so that several nodes agree; asked for in the same round trip that begins the transaction. */
  async function begin(connection: postgres.ReservedSql, mode: Mode): Promise<number> {
    const [, rows] = await Promise.all([
      connection.unsafe(BEGIN[mode]),
      clock
        ? undefined
        : connection.unsafe("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint", [], { prepare: true }).values(),
    ]);
    return clock ? clock() : Number(rows?.[0]?.[0]);
  }

  async function commit(connection: postgres.ReservedSql, mode: Mode): Promise<void> {
    const began = performance.now();
    await connection.unsafe("COMMIT");
    if (mode === "write") onCommit?.(1, (performance.now() - began) / 1000);
  }

  async function once<T>(mode: Mode, work: (session: Session) => Promise<T>): Promise<T> {
    const connection = await sql.reserve();
    try {
      const now = await begin(connection, mode);
      const value = await work({ now, execute: executor(connection) });
      await commit(connection, mode);
      return value;
    } catch (error) {
      await undo(connection);
      throw error;
    } finally {
      connection.release();
    }
  }

  return {
    name: "postgres",
    transact: async (mode, work) => {
      pending += 1;
      try {
        for (let tries = 1; ; tries += 1) {
          try {
            return await once(mode, work);
          } catch (error) {
            if (!isConflict(error) || tries === TRIES) throw isConflict(error) || isStoreFault(error) ? unavailable(error) : error;
            await sleep(Math.random() * 10 * 2 ** tries);
          }
        }
      } finally {
        pending -= 1;
      }
    },
    script: async (text) => {
      await sql.begin((connection) => connection.unsafe(text));
    },
    faults: async () => {
      const rows = await sql.unsafe(
        "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')",
      );
      return rows
        .filter(({ setting }) => setting === "off" || setting === "local")
        .map(({ name, setting }) => `PostgreSQL runs with ${name}=${setting}`);
    },
    pending: () => pending,
    close: () => sql.end({ timeout: 5 }),
  };
}

/** A connection that can't even roll back is broken: the driver drops it, and with it goes the transaction. */
async function undo(connection: postgres.ReservedSql): Promise<void> {
  try {
    await connection.unsafe("ROLLBACK");
  } catch (error) {
    if (!isStoreFault(error)) throw error;
  }
}
