// Statements on their way to a server: those that were begun in one turn of the event loop leave in one message, and those that ask alike as one set.
import type { Socket } from "node:net";
import { DatabaseError, type PoolClient, type QueryArrayResult, type QueryConfig } from "pg";
import { codeOf } from "#shared/fault.ts";
import { placed, setForm } from "./postgres-sets.ts";
import { type Execute, LOCKED, type Method, type Rows, SKIP_LOCKED, unavailable } from "./store.ts";

const STATEMENTS_KEPT = 1_000;
const SET_MAX = 1_000;
const IN_FAILED_TRANSACTION = "25P02";

/** Statements are named, so that the server parses each once a connection; `set` is the same for many rows, once its types are known. */
type Statement = { name: string; text: string; sql: string; set?: { name: string; text: string } | "none" };
const statements = new Map<string, Statement>();
function statementOf(sql: string): Statement {
  const known = statements.get(sql);
  if (known) return known;
  const made = {
    name: statements.size < STATEMENTS_KEPT ? `s${statements.size}` : "",
    text: placed(sql, (n) => `$${n}`)
      .replaceAll(SKIP_LOCKED, "FOR UPDATE SKIP LOCKED")
      .replaceAll(LOCKED, "FOR UPDATE"),
    sql,
  };
  if (made.name) statements.set(sql, made);
  return made;
}

/** What the server says of itself rather than of the statement: out of resources, going down, broken, read-only; or that it undid who took too long. */
const isStoreFault = (error: unknown) => /^(08|53|57|58|25006|25P0[34])/.test(codeOf(error));

/** An error that isn't the server's own word is a connection's: the store can't be reached. */
export async function ask(client: PoolClient, query: QueryConfig): Promise<QueryArrayResult> {
  try {
    return await client.query({ ...query, rowMode: "array" });
  } catch (error) {
    if (error instanceof DatabaseError && !isStoreFault(error)) throw error;
    const refusal = unavailable(error);
    if (!(error instanceof DatabaseError) ? codeOf(error) !== SILENT : ENDED.test(codeOf(error))) broken.add(refusal);
    throw refusal;
  }
}
export const SILENT = "SERVER_SILENT";
const ENDED = /^57P/; // by an administrator, or for having been idle for long
const broken = new WeakSet<object>();
/** A fault of one connection, known at once: another may do. */
export const isBroken = (error: unknown): boolean => broken.has(error as object);

type Call = { sql: string; values: unknown[]; method: Method; resolve(rows: Rows): void; reject(error: unknown): void };
/** Each line's statements run in the order in which they were begun. */
export type Lines = {
  line(): Execute;
  /** Nothing follows: what was begun leaves now, ahead of the transaction's end. */
  end(): void;
  /** What failed first, whether or not who asked for it minded. */
  fault(): Error | undefined;
};

export function linesOn(client: PoolClient): Lines {
  let begun: { call: Call; line: object }[] = [];
  let isOver = false;
  let cause: unknown;
  /** Of a statement behind one that failed the server says only that one did: what failed first tells whether to try again. */
  const causeOf = (error: unknown): unknown => {
    const isAfterAnother = codeOf(error) === IN_FAILED_TRANSACTION;
    if (!isAfterAnother) cause = error;
    return isAfterAnother ? (cause ?? error) : error;
  };

  /** A call joins the latest of those that ask alike, unless its own line has something behind that already: then it begins a set of its own. */
  function leave(): void {
    const sets: Call[][] = [];
    const newest = new Map<string, number>();
    const reached = new Map<object, number>();
    for (const { call, line } of begun) {
      const found = newest.get(call.sql);
      const joins = found !== undefined && found >= (reached.get(line) ?? 0) && (sets[found]?.length ?? 0) < SET_MAX;
      const at = joins ? found : sets.length;
      if (joins) sets[at]?.push(call);
      else sets.push([call]);
      newest.set(call.sql, at);
      reached.set(line, at);
    }
    begun = [];
    inOneWrite(client, () => sets.forEach((calls) => void send(client, calls)));
  }

  return {
    line: () => {
      const line = {};
      return (sql, values, method) =>
        new Promise((resolve, reject) => {
          if (isOver) throw new Error(`a statement after the end of its transaction: ${sql}`);
          if (begun.length === 0) setImmediate(leave);
          begun.push({ call: { sql, values, method, resolve, reject: (error) => reject(causeOf(error)) }, line });
        });
    },
    end: () => {
      leave();
      isOver = true;
    },
    fault: () => (cause instanceof Error ? cause : undefined),
  };
}

export const streamOf = (client: PoolClient): Socket => (client as unknown as { connection: { stream: Socket } }).connection.stream;

/** The driver writes each query by itself, and each write wakes the server: a third of all our time, if nothing is done about it. */
export function inOneWrite<T>(client: PoolClient, write: () => T): T {
  const stream = streamOf(client);
  stream.cork();
  try {
    return write();
  } finally {
    stream.uncork();
  }
}

async function send(client: PoolClient, calls: Call[]): Promise<void> {
  const [first] = calls as [Call];
  const statement = statementOf(first.sql);
  if (calls.length > 1 && typeof statement.set === "object") return sendSet(client, statement.set, calls);
  const sent = calls.map((call) => sendOne(client, statement, call));
  if (calls.length > 1 && statement.set === undefined && statement.name !== "") void learn(client, statement);
  await Promise.all(sent);
}

async function sendOne(client: PoolClient, { name, text }: Statement, { values, method, resolve, reject }: Call): Promise<void> {
  try {
    const { rows, rowCount } = await ask(client, { name, text, values });
    resolve({ rows: method === "get" ? (rows[0] as unknown[]) : rows, changes: rowCount ?? 0 });
  } catch (error) {
    reject(error);
  }
}

const PREPARED = { name: "types", text: "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = $1" };
/** What the server takes each place of a statement for, once it has seen it: from then on it can be asked for many rows at once. */
async function learn(client: PoolClient, statement: Statement): Promise<void> {
  statement.set = "none"; // until it is known
  try {
    const { rows } = await ask(client, { ...PREPARED, values: [statement.name] });
    const text = setForm(statement.sql, (rows[0]?.[0] as string[] | undefined) ?? []);
    if (text) statement.set = { name: `${statement.name}set`, text };
  } catch {
    delete statement.set; // the transaction failed before; what made it fail is told to who asked
  }
}

async function sendSet(client: PoolClient, set: { name: string; text: string }, calls: Call[]): Promise<void> {
  const [first] = calls as [Call];
  const arrays = first.values.map((_, column) => calls.map(({ values }) => values[column]));
  try {
    const { rows, rowCount, command } = await ask(client, { ...set, values: arrays });
    if (command === "INSERT") return answerInserted(calls, rowCount ?? 0);
    const found = Map.groupBy(rows as [number, ...unknown[]][], ([nth]) => nth);
    // Two of the set may have meant one row, and of these only one was heard: the others speak once more, by themselves.
    const unheard: Call[] = [];
    for (const [i, call] of calls.entries()) {
      const its = (found.get(i + 1) ?? []).map(([, ...row]) => row);
      if (command === "UPDATE" && its.length === 0 && rows.length > 0) unheard.push(call);
      else call.resolve({ rows: call.method === "get" ? (its[0] as unknown[]) : its, changes: its.length });
    }
    await Promise.all(unheard.map((call) => sendOne(client, statementOf(call.sql), call)));
  } catch (error) {
    for (const { reject } of calls) reject(error);
  }
}

function answerInserted(calls: Call[], rows: number): void {
  if (rows !== calls.length) throw new Error(`${calls.length} rows were to be inserted, and ${rows} were`);
  for (const { resolve } of calls) resolve({ rows: [], changes: 1 });
}
