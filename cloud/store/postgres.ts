// The engine for those who outgrow one machine: a connection a unit, or for many short ones together; conflicts are tried again.
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type CustomTypesConfig, Pool, type PoolClient, types } from "pg";
import { codeOf } from "#shared/fault.ts";
import { limits } from "#shared/limits.ts";
import { type Joint, jointUnits } from "./postgres-joint.ts";
import { ask, inOneWrite, isBroken, linesOn, SILENT, streamOf } from "./postgres-lines.ts";
import { urlForDriver } from "./postgres-url.ts";
import { NO_PASSWORD } from "./remedies.ts";
import { type Engine, type Execute, type Mode, RUN_AGAIN, sayFinales, type Session, together, unavailable } from "./store.ts";

export type PostgresOptions = {
  url: string;
  clock?: () => number;
  connections?: number;
  /** How long a script comes again for tables that others hold. */
  scriptPatienceMs?: number;
  silentMaxMs?: number;
  onCommit?: (units: number, seconds: number) => void;
};

const TRIES = 8;
const CONNECT_MAX_MS = 5_000; // for a new connection, and for a free one where all are busy
const FULL_MS = 10_000; // until a further connection is asked for again
const FULL_PAUSE_MS = 100;
const STATEMENT_MAX_MS = 30_000;
/**
 * The server itself ends what takes longer, so one that is asked and says nothing for longer is gone, and its machine with it: nobody else tells us,
 * and the network would go on believing in it for a quarter of an hour.
 */
const SILENT_MAX_MS = STATEMENT_MAX_MS + 5_000;
const NUMBERS = new Set<number>([types.builtins.INT8, types.builtins.NUMERIC]);

const DEADLOCK = "40P01";
const HELD = "55P03"; // a lock that wasn't given in time
const READ_ONLY = "25006";
const FULL = "53300"; // the server, the database or the role has no further connection for us
const UNASKED = "UNASKED";
/** A deadlock, a serialization failure, a row that another unit made first: nothing was done, so the unit runs again and looks anew. */
const isConflict = (error: unknown) => [RUN_AGAIN, DEADLOCK, "23505", HELD, UNASKED].includes(codeOf(error));
/** A connection that broke as it was first spoken to, as one does that the server had ended before, did nothing. */
const unasked = (cause: unknown): unknown =>
  isBroken(cause) ? Object.assign(new Error("a connection had ended", { cause }), { code: UNASKED }) : cause;
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
const NOW = { name: "now", text: "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint" };
/** A row that somebody holds for longer is waited for by the unit that wants it, and not by all that share its transaction. */
const JOINT_PATIENCE = "SET LOCAL lock_timeout = '500ms'";
/** Behind who waits to change a table all wait who write to it: so it waits for a moment, and comes again. The work itself may take its time. */
const SCRIPT_BEGIN = `SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = 0;
SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout';\n`;
const SCRIPT_PAUSE_MS = 500;
const SCRIPT_PATIENCE_MS = 30_000;
const KEEPALIVE_MS = 10_000; // without a byte, until the other end's system is asked whether it is there
const BEGIN: Record<Mode, string> = {
  read: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
  write: "BEGIN ISOLATION LEVEL READ COMMITTED",
};

export function openPostgres({
  url,
  clock,
  connections = limits.POSTGRES_CONNECTIONS,
  scriptPatienceMs = SCRIPT_PATIENCE_MS,
  silentMaxMs = SILENT_MAX_MS,
  onCommit,
}: PostgresOptions): Engine {
  const pool = poolOf(url, connections, silentMaxMs);
  const connect = connecting(pool, connections);
  let pending = 0;
  let closed = false;
  let allDone: (() => void) | undefined;

  /** The database's clock, so that several nodes agree; asked for in the same round trip that begins the transaction. */
  async function begin(client: PoolClient, mode: Mode, isShared: boolean): Promise<number> {
    const [, now] = await inOneWrite(client, () =>
      Promise.all([
        ask(client, { text: BEGIN[mode] }),
        clock ? undefined : ask(client, NOW),
        isShared && mode === "write" ? ask(client, { text: JOINT_PATIENCE }) : undefined,
      ]),
    ).catch((error: unknown) => {
      throw unasked(error);
    });
    return clock ? clock() : Number(now?.rows[0]?.[0]);
  }

  /** The same clock in the middle of a transaction: after what was begun before. */
  const clockOn =
    (line: () => Execute): Session["clock"] =>
    async () =>
      clock?.() ?? Number((await line()(NOW.text, [], "get")).rows[0]);

  async function commit(client: PoolClient, mode: Mode, units: number, fault: () => Error | undefined): Promise<void> {
    const began = performance.now();
    const { command } = await ask(client, { text: "COMMIT" });
    if (mode === "read") return;
    // Of a transaction in which a statement failed the server takes it, and says that it undid all.
    if (command === "ROLLBACK") throw fault() ?? unavailable(new Error("the server undid a transaction instead of committing it"));
    onCommit?.(units, (performance.now() - began) / 1000);
  }

  /** `shared`: how many units it is for, where those that come while it begins may share it. */
  async function transaction<T>(mode: Mode, work: (session: Session) => Promise<T>, shared?: () => number): Promise<T> {
    const client = await connect();
    const { line, end, fault } = linesOn(client);
    try {
      const now = await begin(client, mode, shared !== undefined);
      const session: Session = { now, clock: clockOn(line), execute: line(), beside: line, finales: new Map() };
      const value = await work(session);
      const { last } = await sayFinales(session);
      // What fails before it has left spoils nothing on the server: no commit may follow it.
      await Promise.race([last, new Promise((resolve) => process.nextTick(resolve))]);
      const committed = inOneWrite(client, () => {
        end();
        return commit(client, mode, shared?.() ?? 1, fault);
      });
      // A commit behind a statement that failed undoes all, as a rollback does.
      const done = together([last, committed]);
      if (mode === "write") await done;
      void done.then(
        () => client.release(),
        () => client.release(true), // after a read only: what was read is read
      );
      return value;
    } catch (error) {
      end();
      client.release((await undo(client)) || [error, fault()].some(isReadOnly)); // units that share it each hear what failed, and it that one did
      throw error;
    }
  }
  /** One statement each: it needs no transaction around it, and brings the moment along. */
  async function glance<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const client = await connect();
    const { line, end } = linesOn(client);
    let now: number | undefined;
    const moment = clockOn(line)();
    const lookOnce = (): Execute => {
      const execute = line();
      let isDone = false;
      return async (...statement) => {
        if (isDone) throw new Error(`a joint read has one statement, and this is another: ${statement[0]}`);
        isDone = true;
        const [at, found] = await together([moment, execute(...statement)]); // which is the order in which they leave
        now = at;
        return found;
      };
    };
    const session: Session = {
      get now() {
        if (now === undefined) throw new Error("a joint read knows its moment when its statement is answered");
        return now;
      },
      clock: () => moment,
      execute: lookOnce(),
      beside: lookOnce,
      finales: new Map(),
    };
    try {
      const value = await work(session);
      await moment;
      end();
      client.release();
      return value;
    } catch (error) {
      end();
      await Promise.allSettled([moment]);
      client.release(await undo(client));
      throw unasked(error);
    }
  }
  const alone = <T>(mode: Mode, work: (session: Session) => Promise<T>): Promise<T> => again(isConflict, () => transaction(mode, work));
  const joint: Record<Mode, Joint> = {
    read: jointUnits(glance, (work) => again(isConflict, () => glance(work))),
    write: jointUnits(
      (work, units) => transaction("write", work, units),
      (work) => alone("write", work),
    ),
  };

  return {
    name: "postgres",
    transact: async (mode, work, isJoint) => {
      if (closed) throw unavailable(new Error("the store is closed"));
      pending += 1;
      try {
        return await (isJoint ? joint[mode](work) : alone(mode, work));
      } finally {
        pending -= 1;
        if (pending === 0) allDone?.();
      }
    },
    script: async (text) => {
      const client = await connect();
      try {
        await runScript(client, text, scriptPatienceMs);
      } finally {
        client.release();
      }
    },
    faults: async () => {
      const client = await connect();
      try {
        return await durabilityFaults(client);
      } finally {
        client.release();
      }
    },
    pending: () => pending,
    close: async () => {
      if (closed) return;
      closed = true;
      if (pending > 0) await new Promise<void>((resolve) => (allDone = resolve)); // a pool that ends gives no connection to who waits for one
      await pool.end();
    },
  };
}

function poolOf(url: string, connections: number, silentMaxMs: number): Pool {
  const pool = new Pool({
    connectionString: urlForDriver(url),
    max: connections,
    connectionTimeoutMillis: CONNECT_MAX_MS,
    idleTimeoutMillis: 60_000,
    application_name: "imprimatur",
    statement_timeout: STATEMENT_MAX_MS,
    idle_in_transaction_session_timeout: limits.UNIT_MAX_MS, // a node that is frozen, or cut off, keeps nobody waiting for longer
    keepAlive: true, // a script is waited for as long as it takes, but not of a server that has gone without a word
    keepAliveInitialDelayMillis: KEEPALIVE_MS,
    pipeline: true, // statements that don't wait for one another share a round trip
    types: { getTypeParser: parserOf },
  });
  // A connection that dies is dropped and replaced; who was using it hears it from the statement that failed.
  pool.on("error", () => {});
  pool.on("connect", (client) => {
    client.on("error", () => {});
    const stream = streamOf(client);
    stream.on("timeout", () => giveUp(stream, `the server said nothing for ${silentMaxMs} ms`));
  });
  pool.on("acquire", (client) => {
    const stream = streamOf(client);
    stream.setTimeout(silentMaxMs);
    // A line that lets a byte through now and then is never silent, and all units that share what goes over it would wait for it.
    const heldMaxMs = limits.UNIT_MAX_MS + silentMaxMs;
    held.set(client, setTimeout(() => giveUp(stream, `the server took over ${heldMaxMs} ms`), heldMaxMs).unref());
  });
  pool.on("release", (_error, client) => takeItsTime(client)); // nothing is asked of it
  return pool;
}

const giveUp = (stream: Socket, why: string) => void stream.destroy(Object.assign(new Error(why), { code: SILENT }));
const held = new WeakMap<PoolClient, NodeJS.Timeout>();
function takeItsTime(client: PoolClient): void {
  streamOf(client).setTimeout(0);
  clearTimeout(held.get(client));
}

/** Where a server gives fewer connections than we would take, those that we have are waited for. */
function connecting(pool: Pool, connections: number): () => Promise<PoolClient> {
  let fullUntil = 0;
  return async () => {
    const until = performance.now() + CONNECT_MAX_MS;
    for (;;)
      try {
        if (performance.now() > fullUntil) pool.options.max = connections;
        return await primary(await pool.connect());
      } catch (error) {
        const isFull = codeOf(error) === FULL;
        if ((!isFull && !isBroken(error)) || performance.now() > until) throw unavailable(withoutPassword(error) ?? error);
        if (isFull) {
          fullUntil = performance.now() + FULL_MS;
          pool.options.max = Math.max(1, pool.totalCount);
        }
        await sleep(FULL_PAUSE_MS);
      }
  };
}

/** Several statements in one message are one transaction. A table that changes while others work on it may meet them crosswise. */
async function runScript(client: PoolClient, text: string, patienceMs: number): Promise<void> {
  let until = performance.now() + patienceMs;
  const isSame = () => (until = performance.now() + patienceMs);
  const attempt = () => again(isDeadlock, () => ask(client, { text: SCRIPT_BEGIN + text }));
  takeItsTime(client);
  while (await isHeld(attempt, isSame)) {
    if (performance.now() > until) throw new Error(HELD_FOR_LONG);
    await sleep(SCRIPT_PAUSE_MS);
  }
}

async function durabilityFaults(client: PoolClient): Promise<string[]> {
  const { rows } = await ask(client, {
    text: "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')",
  });
  return rows
    .filter(([, setting]) => setting === "off" || setting === "local")
    .map(([name, setting]) => `PostgreSQL runs with ${String(name)}=${String(setting)}`);
}

const VERSIONS = "migrations_pkey"; // a script begins with the row of its version
const HELD_FOR_LONG =
  "the tables can't be brought up to date, because others keep one of them: start again when the copy that is being made (pg_dump), or whatever else lasts, has ended";
/** `isSame` is called where what holds is the same script: of another node, or of one that was killed, which the server takes to its end. */
async function isHeld(act: () => Promise<unknown>, isSame: () => void): Promise<boolean> {
  try {
    await act();
    return false;
  } catch (error) {
    if (codeOf(error) !== HELD) throw error;
    if ((error as { where?: string }).where?.includes(VERSIONS)) isSame();
    return true;
  }
}

/** The driver itself says it in words of its protocol, and without a code. */
const withoutPassword = (error: unknown): Error | undefined =>
  error instanceof Error && /^SASL: .*client password must be/.test(error.message)
    ? Object.assign(new Error("the server asks for a password, and none was given"), { code: NO_PASSWORD })
    : undefined;

/** Counts and instants come out as the numbers that SQLite gives; all else as the driver reads it. */
const parserOf = ((oid: number, format?: "text") =>
  NUMBERS.has(oid) ? Number : types.getTypeParser(oid, format)) as CustomTypesConfig["getTypeParser"];

/** A replica would answer with what was true a while ago: an address may lead to one by mistake, or while its primary is being replaced. */
const primaries = new WeakSet<PoolClient>();
/** Asked once of each connection, and here: the pool loses one whose asker has given up while it asks by itself. */
async function primary(client: PoolClient): Promise<PoolClient> {
  if (primaries.has(client)) return client;
  try {
    const { rows } = await ask(client, { text: "SELECT pg_is_in_recovery()" });
    if (rows[0]?.[0] === true) throw Object.assign(new Error("the server is a replica, which only reads"), { code: READ_ONLY });
  } catch (error) {
    client.release(true);
    throw error;
  }
  primaries.add(client);
  return client;
}
/** This connection can't write any more; a new one may lead to another server. */
const isReadOnly = (error: unknown) => codeOf((error as Error | undefined)?.cause) === READ_ONLY;

/** Says whether the connection is beyond use: one that can't even roll back is, and its transaction dies with it. */
async function undo(client: PoolClient): Promise<boolean> {
  try {
    await client.query("ROLLBACK");
    return false;
  } catch {
    return true; // why it broke is what the unit's own error tells
  }
}
