// Units of work: everything that touches the database runs in one, ends durable or not at all, and never inside another.
import { AsyncLocalStorage } from "node:async_hooks";
import { drizzle } from "./drizzle.ts";
import type { Logger } from "pino";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";

type Method = "run" | "all" | "get" | "values";
/** `changes` counts the rows that a statement without RETURNING touched. */
export type Rows = { rows: unknown[]; changes?: number };
export type Execute = (sql: string, params: unknown[], method: Method) => Promise<Rows>;

/** At the end of a SELECT whose rows are about to be changed: where several nodes write, rows that another is changing are passed over. */
export const SKIP_LOCKED = "/* skip locked */";
/** Likewise where the rows are waited for and kept until the unit ends; in SQLite a writer is alone as it is. */
export const LOCKED = "/* locked */";

/** What an engine lends to the unit that it is running. */
export type Session = { now: number; execute: Execute };
export type Mode = "read" | "write";

/** The seam between our units and a database: everything that knows which one it is stands behind it. */
export type Engine = {
  name: "sqlite" | "postgres";
  /** Runs work in a transaction: resolves after the durable commit, rejects after the rollback. May run it again. */
  transact<T>(mode: Mode, work: (session: Session) => Promise<T>): Promise<T>;
  /** Statements without parameters, in one transaction of their own; for migrations. */
  script(sql: string): Promise<void>;
  /** Present where no other process can write: its clock is the store's, and what was read stays true until this process writes. */
  sole?: {
    now(): number;
    /** Whether what is deleted is overwritten in the file as well; a page that falls free is written for it. */
    overwrites(isOn: boolean): void;
  };
  /** What durability rests on and doesn't hold here; each a sentence. */
  faults(): Promise<string[]>;
  pending(): number;
  close(): Promise<void>;
};

export type Tx = {
  /** The only time there is: the moment this unit began, by the store's clock. */
  now: number;
  db: Db;
  /** Where the unit stands in a trace (W3C traceparent), if it does. */
  traceparent: string | null;
  /** Runs once the commit is durable; never if it isn't. */
  after(work: () => unknown): void;
  /** A part that may fail by itself: its statements are undone, the unit goes on. */
  attempt<T>(work: () => Promise<T>): Promise<T>;
};

export type Store = Pick<Engine, "sole"> & {
  engine: Engine["name"];
  read<T>(label: string, work: (tx: Tx) => Promise<T>): Promise<T>;
  write<T>(label: string, work: (tx: Tx) => Promise<T>): Promise<T>;
  pending(): number;
  close(): Promise<void>;
};

export type Meter = {
  unit(mode: Mode, seconds: number): void;
  /** Called when a unit is asked for; what it returns ends with it, waiting and commit included. */
  begin?: (mode: Mode, label: string) => { traceparent: string; end(said: { isFault: boolean }): void };
};

type Unit = { label: string; session: Session; over: boolean; began: number; abort: (error: Error) => void };
const running = new AsyncLocalStorage<Unit>();

/**
 * One query builder for all stores: a statement goes to the unit that it is awaited in.
 * So `.prepare()`d queries can stand at the top of a module and serve both engines.
 */
export const db = drizzle((sql, params, method) => run(sql, params, method));

export function run(sql: string, params: unknown[], method: Method): Promise<Rows> {
  const unit = running.getStore();
  if (!unit) throw new Error(`a statement outside of a unit of work: ${sql}`);
  if (unit.over) throw new Error(`a statement after its unit of work "${unit.label}" was over; is an await missing?`);
  return unit.session.execute(sql, params, method);
}
export type Db = typeof db;

/** Thrown by a unit that found itself overtaken: it is undone and begun anew, and then sees what overtook it. */
export const overtaken = (what: string): Error =>
  Object.assign(new Error(`${what} was overtaken by another unit of work`), { code: RUN_AGAIN });
export const RUN_AGAIN = "40001"; // SQL's own code for it

export function unavailable(cause: unknown): Refusal {
  const refusal = new Refusal("STORE_UNAVAILABLE", undefined, undefined, { "retry-after": "1" });
  refusal.cause = cause;
  return refusal;
}

/** drizzle wraps driver errors in one that quotes the parameters: those may be private, the cause is what we want. */
const unwrap = (error: unknown): unknown =>
  error instanceof Error && error.message.startsWith("Failed query") ? (error.cause ?? error) : error;

export function storeOn(engine: Engine, log: Logger, meter?: Meter): Store {
  const open = new Set<Unit>();
  const watch = setInterval(() => abortOverdue(open), WATCH_MS).unref();

  /** Runs the work as the unit that its statements belong to, until it ends or takes too long. */
  async function within<T>(mode: Mode, label: string, session: Session, work: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const self: Unit = { label, session, over: false, began: performance.now(), abort: reject };
    open.add(self);
    try {
      // A builder that work returns runs when it is awaited: in here, not out there.
      running.run(self, async () => await work()).then(resolve, reject);
      return await promise;
    } catch (error) {
      throw unwrap(error);
    } finally {
      self.over = true;
      open.delete(self);
      const ms = performance.now() - self.began;
      meter?.unit(mode, ms / 1000);
      if (ms > limits.UNIT_SLOW_MS) log.warn({ event: "slow-unit", mode, label, ms: Math.round(ms) }, "a unit of work was slow");
    }
  }

  async function unit<T>(mode: Mode, label: string, work: (tx: Tx) => Promise<T>): Promise<T> {
    const outer = running.getStore();
    if (outer && !outer.over) throw new Error(`the unit of work "${label}" was begun inside "${outer.label}": pass its tx on instead`);
    let afterwards: (() => unknown)[] = [];
    const traced = meter?.begin?.(mode, label);
    const { traceparent = null } = traced ?? {};
    const done = engine.transact(mode, (session) => {
      afterwards = []; // the engine may run a unit again
      const after = (act: () => unknown) => void afterwards.push(act);
      const tx: Tx = { now: session.now, db, traceparent, after, attempt: (part) => attempt(session, part) };
      return within(mode, label, session, () => work(tx));
    });
    if (traced)
      done.then(
        () => traced.end({ isFault: false }),
        (error: unknown) => traced.end({ isFault: !(error instanceof Refusal) || error.status >= 500 }),
      );
    const value = await done;
    for (const act of afterwards) running.exit(() => void settle(act, label, log));
    return value;
  }

  return {
    engine: engine.name,
    ...(engine.sole ? { sole: engine.sole } : {}),
    read: (label, work) => unit("read", label, work),
    write: (label, work) => unit("write", label, work),
    pending: () => engine.pending(),
    close: async () => {
      clearInterval(watch);
      await engine.close();
    },
  };
}

const WATCH_MS = 1_000;

function abortOverdue(open: Set<Unit>): void {
  const now = performance.now();
  for (const { label, began, abort } of open)
    if (now - began > limits.UNIT_MAX_MS)
      abort(unavailable(new Error(`the unit of work "${label}" took over ${limits.UNIT_MAX_MS} ms and was rolled back`)));
}

async function attempt<T>(session: Session, part: () => Promise<T>): Promise<T> {
  await session.execute("SAVEPOINT attempt", [], "run");
  try {
    const value = await part();
    await session.execute("RELEASE SAVEPOINT attempt", [], "run");
    return value;
  } catch (error) {
    await session.execute("ROLLBACK TO SAVEPOINT attempt", [], "run");
    await session.execute("RELEASE SAVEPOINT attempt", [], "run");
    throw error;
  }
}

async function settle(act: () => unknown, label: string, log: Logger): Promise<void> {
  try {
    await act();
  } catch (error) {
    log.error({ event: "after-commit-failed", label, err: error }, "work after a commit failed; the commit stands");
  }
}
