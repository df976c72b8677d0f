// Short units that come in great numbers share a transaction, beside one another: a begin, a commit and a round trip a statement for all of them.
import { Refusal } from "#shared/errors.ts";
import { isBroken } from "./postgres-lines.ts";
import { type asOne, type Execute, LOCKED, type Session, turnsThatBring } from "./store.ts";

type Work<T> = (session: Session) => Promise<T>;
/** Runs work as one of many: resolves after their commit. */
export type Joint = <T>(work: Work<T>) => Promise<T>;
type Run = <T>(work: Work<T>, shared?: () => number) => Promise<T>;

const UNITS_MAX = 128;
const AT_ONCE = 2; // while one commits, the next one works
const KINDS_KEPT = 1_000;

type Waiting = { work: Work<unknown>; resolve(value: unknown): void; reject(error: unknown): void };
type Outcome = { unit: Waiting; value?: unknown; error?: unknown; isWhole: boolean };
const SPOILED = new Error("a unit failed in the middle of a joint transaction: each has to run by itself");

export function jointUnits(transaction: Run, alone: Run): Joint {
  const waiting: Waiting[] = [];
  let running = 0;
  let isBeginning = false; // and takes all that come until it has begun

  function next(): void {
    if (waiting.length > 0 && running < AT_ONCE && !isBeginning) void turn();
  }
  async function turn(): Promise<void> {
    running += 1;
    isBeginning = true;
    await turnsThatBring(() => waiting.length);
    await (waiting.length === 1 ? Promise.all(taken().map(byItself)) : share());
    running -= 1;
    next();
  }
  function taken(): Waiting[] {
    isBeginning = false;
    const units = waiting.splice(0, UNITS_MAX);
    next();
    return units;
  }

  const byItself = ({ work, resolve, reject }: Waiting): Promise<void> => alone(refusingLocks(work)).then(resolve, reject);

  async function share(): Promise<void> {
    let units: Waiting[] | undefined;
    let outcomes: Outcome[] = [];
    try {
      await transaction(
        async (session) => {
          units = taken();
          const asker = askingAsOne();
          outcomes = await Promise.all(units.map((unit) => outcomeOf(unit, session, asker)));
          if (!outcomes.every(({ isWhole }) => isWhole)) throw SPOILED;
        },
        () => outcomes.length,
      );
      for (const outcome of outcomes)
        if ("error" in outcome) outcome.unit.reject(outcome.error);
        else outcome.unit.resolve(outcome.value);
    } catch (error) {
      units ??= taken(); // it couldn't even begin
      await Promise.all(
        units.map(async (unit, i) => {
          const own = outcomes[i]?.error;
          if (isFault(error)) unit.reject(error);
          else if (isFault(own) && !isBroken(own)) unit.reject(own);
          else await byItself(unit);
        }),
      );
    }
  }

  return <T>(work: Work<T>) =>
    new Promise<T>((resolve, reject) => {
      waiting.push({ work, resolve, reject });
      next();
    });
}

/** A fault of the store's and not of the unit's: running the unit again wouldn't mend it, unless its connection broke before the commit was asked for. */
const isFault = (error: unknown): boolean => error instanceof Refusal && error.status >= 500;

type Kind = "reads" | "writes" | "needs to be alone";
const kinds = new Map<string, Kind>();
function kindOf(sql: string): Kind {
  const known = kinds.get(sql);
  if (known) return known;
  const isAlone = sql.includes(LOCKED) || sql.includes("SAVEPOINT");
  const made = isAlone ? "needs to be alone" : /^select\b/i.test(sql) ? "reads" : "writes";
  if (kinds.size < KINDS_KEPT) kinds.set(sql, made);
  return made;
}

/** One question for all units that ask the same before the work of this turn of the event loop is done. */
function askingAsOne(): typeof asOne {
  const begun = new Map<string, { answer: Promise<unknown>; isAlone: boolean }>();
  return <T>(what: string, ask: () => Promise<T>) => {
    const known = begun.get(what);
    if (known) {
      known.isAlone = false;
      return known.answer as Promise<T>;
    }
    const { promise, resolve, reject } = Promise.withResolvers<T | undefined>();
    const asked = { answer: promise as Promise<unknown>, isAlone: true };
    begun.set(what, asked);
    process.nextTick(() => {
      begun.delete(what);
      if (asked.isAlone) resolve(undefined);
      else ask().then(resolve, reject);
    });
    return promise;
  };
}

/** A session that notes what writes. It refuses locks, for which all others of the transaction would wait, and savepoints, which they would share; also where there are no others just now. */
function looking(session: Session, wrote: () => void, asker?: typeof asOne): Session {
  const over =
    (execute: Execute): Execute =>
    async (sql, values, method) => {
      const kind = kindOf(sql);
      if (kind === "needs to be alone") throw new Error(`a joint unit can't wait for a lock or undo a part of itself: ${sql}`);
      const rows = await execute(sql, values, method);
      if (kind === "writes" && rows.changes !== 0) wrote();
      return rows;
    };
  return {
    get now() {
      return session.now; // which who only reads doesn't know at first
    },
    clock: session.clock,
    execute: over(session.beside()),
    beside: () => over(session.beside()),
    ...(asker && { asOne: asker }),
    finales: session.finales,
  };
}

const refusingLocks =
  <T>(work: Work<T>): Work<T> =>
  (session) =>
    work(looking(session, () => {}));

/** What became of a unit. It is whole where it held, or refused without having changed anything: else the others can't stand without undoing it. */
async function outcomeOf(unit: Waiting, session: Session, asker: typeof asOne): Promise<Outcome> {
  let hasWritten = false;
  const its = looking(session, () => void (hasWritten = true), asker);
  try {
    return { unit, value: await unit.work(its), isWhole: true };
  } catch (error) {
    return { unit, error, isWhole: !hasWritten && error instanceof Refusal && error.status < 500 };
  }
}
