// Units of work: everything that touches the database runs in one, ends durable or not at all, and never inside another.
import { AsyncLocalStorage } from "node:async_hooks";
import { drizzle } from "./drizzle.ts";
import type { Logger } from "pino";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";

export type Method = "run" | "all" | "get" | "values";
/** `changes` counts the rows that a statement without RETURNING touched. */
export type Rows = { rows: unknown[]; changes?: number };
export type Execute = (sql: string, params: unknown[], method: Method) => Promise<Rows>;

/** At the end of a SELECT whose rows are about to be changed: where several nodes write, rows that another is changing are passed over. */
export const SKIP_LOCKED = "/* skip locked */";
/** Likewise where the rows are waited for and kept until the unit ends; in SQLite a writer is alone as it is. */
export const LOCKED = "/* locked */";

/**
 * What many units of one commit have to say to the same row (the end of a chain, a counter) is said once, just before it: by those whose work held,
 * in the order of ranks, which is the order in which all nodes lock such rows.
 */
export type Finale<Item> = { rank: number; say(items: readonly Item[]): Promise<Parting | void> };
/** Writes of which nothing has to be known but that they held: all are begun at once, and leave with the commit. */
export type Parting = () => Promise<unknown>;
export type Finales = Map<Finale<never>, unknown[]>;

/** What an engine lends to the unit that it is running. Units that share a commit share its finales. */
export type Session = {
  now: number;
  /** What time it is by now, by the same clock. */
  clock(): Promise<number>;
  execute: Execute;
  /** Executes for a part of the work that goes on beside the rest of it. */
  beside(): Execute;
  /** Present where other units run beside it, which may ask alike: see `asOne`. */
  asOne?: typeof asOne;
  finales: Finales;
};
export type Mode = "read" | "write";

/** The seam between our units and a database: everything that knows which one it is stands behind it. */
export type Engine = {
  name: "sqlite" | "postgres";
  /**
   * Runs work in a transaction: resolves after the durable commit, rejects after the rollback. May run it again. What is `joint` may run beside
   * others in one transaction, so it neither waits for locks before its finale nor undoes a part of itself.
   */
  transact<T>(mode: Mode, work: (session: Session) => Promise<T>, isJoint: boolean): Promise<T>;
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

/** Of ids: 48 bits of time and a dash, and how many of that millisecond there were before. */
export type Sequence = { last: string; nth: number };
export type Tx = {
  /** The only time there is: the moment this unit began, by the store's clock. */
  now: number;
  /** What time it is now by that clock, and the last id that this node made by it: for what has to sort in the order in which it was made. */
  moment(): number;
  made: Sequence;
  /** Asks for it anew: a node that stood still as its unit began lags behind by that, and would make ids that sort before what it has seen since. */
  askMoment(): Promise<void>;
  db: Db;
  /** Where the unit stands in a trace (W3C traceparent), if it does. */
  traceparent: string | null;
  /** Runs once the commit is durable; never if it isn't. */
  after(work: () => unknown): void;
  /** Leaves something to be said at the end of the commit, if this unit's work holds. */
  atEnd<Item>(finale: Finale<Item>, item: Item): void;
  /** A part that may fail by itself: its statements are undone, the unit goes on. */
  attempt<T>(work: () => Promise<T>): Promise<T>;
};

type Begin = <T>(label: string, work: (tx: Tx) => Promise<T>) => Promise<T>;
export type Store = Pick<Engine, "sole"> & {
  engine: Engine["name"];
  read: Begin;
  write: Begin;
  /** Short units that come in great numbers share a transaction (see `transact`). One that reads is a single statement, and has its `now` once that is answered. */
  joint: { read: Begin; write: Begin };
  pending(): number;
  close(): Promise<void>;
};

export type Meter = {
  unit(mode: Mode, seconds: number): void;
  /** Called when a unit is asked for; what it returns ends with it, waiting and commit included. */
  begin?: (mode: Mode, label: string) => { traceparent: string; end(said: { isFault: boolean }): void };
};

type Unit = { label: string; session: Session; over: boolean; began: number; abort: (error: Error) => void };
/** The unit that a statement belongs to, and the line of work in it. */
const running = new AsyncLocalStorage<{ unit: Unit; execute: Execute }>();

/**
 * One query builder for all stores: a statement goes to the unit that it is awaited in.
 * So `.prepare()`d queries can stand at the top of a module and serve both engines.
 */
export const db = drizzle((sql, params, method) => run(sql, params, method));

export function run(sql: string, params: unknown[], method: Method): Promise<Rows> {
  const line = running.getStore();
  if (!line) throw new Error(`a statement outside of a unit of work: ${sql}`);
  if (line.unit.over) throw new Error(`a statement after its unit of work "${line.unit.label}" was over; is an await missing?`);
  return line.execute(sql, params, method);
}
type Db = typeof db;

/** Works on all items at once, each in a line of its own: statements that several lines ask alike go to a server as one. */
export function eachBeside<Item, T>(items: readonly Item[], work: (item: Item) => Promise<T>): Promise<T[]> {
  const line = running.getStore();
  if (!line) throw new Error("lines of work outside of a unit of work");
  const { unit } = line;
  return together(items.map((item) => running.run({ unit, execute: unit.session.beside() }, () => work(item))));
}

/** Asks once what several units of one transaction ask at the same moment, and answers each of them; undefined, and nothing is asked, where only one does. */
export const asOne = async <T>(what: string, ask: () => Promise<T>): Promise<T | undefined> =>
  running.getStore()?.unit.session.asOne?.(what, ask);

/**
 * Statements that don't wait for one another's rows share a round trip to a server; they run in the order in which they were begun.
 * All are over when it ends, and of several faults the first one's is told, since the others may follow from it.
 */
export async function together<const Works extends readonly unknown[]>(
  works: Works,
): Promise<{ -readonly [Nth in keyof Works]: Awaited<Works[Nth]> }> {
  const ends = await Promise.allSettled(works);
  return ends.map((end) => {
    if (end.status === "rejected") throw end.reason;
    return end.value;
  }) as { -readonly [Nth in keyof Works]: Awaited<Works[Nth]> };
}

/** The order in which everybody takes many rows, by what names each: crosswise, two units would wait for each other. */
export const inTurn = <Item>(items: Iterable<Item>, nameOf: (item: Item) => string): Item[] =>
  [...items].toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : Number(nameOf(a) > nameOf(b))));

const TURNS_MAX = 16;
/** Waits as long as every turn of the event loop brings more to share a commit, but not for ever. */
export async function turnsThatBring(count: () => number): Promise<void> {
  for (let known = 0, turns = 0; count() > known && turns < TURNS_MAX; turns += 1) {
    known = count();
    await new Promise((turn) => setImmediate(turn));
  }
}

/** To be called by an engine when all units of a commit have done their work: what they left for its end, the last of which is under way then. */
export async function sayFinales(session: Session): Promise<{ last: Promise<unknown> }> {
  const unit: Unit = { label: "end of a commit", session, over: false, began: performance.now(), abort: () => {} };
  const inOrder = [...session.finales].toSorted(([a], [b]) => a.rank - b.rank) as [Finale<unknown>, unknown[]][];
  // They begin in the order of their ranks, and so do their statements: the first of each takes its locks.
  const last = await running.run({ unit, execute: session.execute }, async () => {
    const partings = await together(inOrder.map(([finale, items]) => finale.say(items)));
    return { last: together(partings.map((part) => part?.())) };
  });
  unit.over = true;
  return last;
}

/** Thrown by a unit that found itself overtaken: it is undone and begun anew, and then sees what overtook it. */
export const overtaken = (what: string): Error =>
  Object.assign(new Error(`${what} was overtaken by another unit of work`), { code: RUN_AGAIN });
export const RUN_AGAIN = "40001"; // SQL's own code for it

export const unavailable = (cause: unknown): Refusal =>
  Object.assign(new Refusal("STORE_UNAVAILABLE", undefined, undefined, { "retry-after": "1" }), { cause });

/** drizzle wraps driver errors in one that quotes the parameters: those may be private, the cause is what we want. */
const unwrap = (error: unknown): unknown =>
  error instanceof Error && error.message.startsWith("Failed query") ? (error.cause ?? error) : error;

export function storeOn(engine: Engine, log: Logger, meter?: Meter): Store {
  const open = new Set<Unit>();
  const made: Sequence = { last: "", nth: 0 };
  const watch = setInterval(() => abortOverdue(open), WATCH_MS).unref();

  /** Runs the work as the unit that its statements belong to, until it ends or takes too long. */
  async function within<T>(mode: Mode, label: string, session: Session, work: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const self: Unit = { label, session, over: false, began: performance.now(), abort: reject };
    open.add(self);
    try {
      // A builder that work returns runs when it is awaited: in here, not out there.
      running.run({ unit: self, execute: session.execute }, async () => await work()).then(resolve, reject);
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

  async function unit<T>(mode: Mode, label: string, work: (tx: Tx) => Promise<T>, isJoint = false): Promise<T> {
    const outer = running.getStore()?.unit;
    if (outer && !outer.over) throw new Error(`the unit of work "${label}" was begun inside "${outer.label}": pass its tx on instead`);
    let afterwards: (() => unknown)[] = [];
    const traced = meter?.begin?.(mode, label);
    const { traceparent = null } = traced ?? {};
    const begin = async (session: Session): Promise<T> => {
      afterwards = []; // the engine may run a unit again
      const left: Left[] = [];
      let asked: { now: number; at: number } | undefined;
      const began = performance.now();
      const tx: Tx = {
        get now() {
          return session.now;
        },
        moment: () => Math.floor((asked?.now ?? session.now) + performance.now() - (asked?.at ?? began)),
        made,
        askMoment: async () => {
          const now = await session.clock();
          asked = { now, at: performance.now() };
        },
        db,
        traceparent,
        after: (act) => void afterwards.push(act),
        atEnd: (finale, item) => {
          if (mode === "read") throw new Error(`the unit of work "${label}" only reads: it can't leave anything to be written`);
          left.push({ finale, item });
        },
        attempt: (part) => attempt(session, part, left),
      };
      const value = await within(mode, label, session, () => work(tx));
      for (const { finale, item } of left) leave(session.finales, finale, item);
      return value;
    };
    const done = engine.transact(mode, begin, isJoint);
    if (traced)
      done.then(
        () => traced.end({ isFault: false }),
        (error: unknown) => traced.end({ isFault: !(error instanceof Refusal) || error.isFault }),
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
    joint: { read: (label, work) => unit("read", label, work, true), write: (label, work) => unit("write", label, work, true) },
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

function leave(finales: Finales, finale: Finale<never>, item: unknown): void {
  const items = finales.get(finale);
  if (items) items.push(item);
  else finales.set(finale, [item]);
}

type Left = { finale: Finale<never>; item: unknown };
async function attempt<T>(session: Session, part: () => Promise<T>, left: Left[]): Promise<T> {
  const before = left.length;
  await session.execute("SAVEPOINT attempt", [], "run");
  try {
    const value = await part();
    await session.execute("RELEASE SAVEPOINT attempt", [], "run");
    return value;
  } catch (error) {
    left.length = before;
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
