// A statement built once and run many times: SQL text and the place of each value are known before the first request.
// The builder's own prepared queries look for placeholders anew at every run, which takes longer than SQLite does.
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { Column, getTableColumns, is, Param, Placeholder as PlaceholderClass, SQL, sql } from "./drizzle.ts";
import { placed } from "./postgres-sets.ts";
import { run } from "./store.ts";

type Values = Record<string, unknown>;
type Buildable<Get, All> = { prepare(): { getQuery(): { sql: string; params: unknown[] }; get(): Promise<Get>; all(): Promise<All> } };
/** What the builder's prepared query can do with rows, though its types don't say so. */
type Mapper<Get, All> = { mapGetResult(row: unknown): Get; mapAllResult(rows: unknown[]): All };
export type Prepared<Get, All> = {
  /** Undefined where no row is there, or none was changed: the builder promises one of each change. */
  get(values: Values): Promise<Get | undefined>;
  all(values: Values): Promise<All>;
  /** How many rows it touched. */
  run(values: Values): Promise<number>;
  /** What it makes of a row, where another statement answered one like it. */
  mapped(row: unknown[]): Get;
};

/** `end` is SQL to append to what the builder made, such as LOCKED. */
export function prepared<Get, All>(query: Buildable<Get, All>, end = ""): Prepared<Get, All> {
  const built = query.prepare();
  const { sql: whole, params } = built.getQuery();
  const places = params.map(placeOf);
  const text = `${placed(whole, (n) => places[n - 1]?.literal ?? "?")} ${end}`.trim();
  const fill = filling(places.filter(({ literal }) => literal === undefined));
  const { mapGetResult, mapAllResult } = mapperOf<Get, All>(built);
  return {
    get: async (values) => mapGetResult((await run(text, fill(values), "get")).rows),
    all: async (values) => mapAllResult((await run(text, fill(values), "all")).rows),
    run: async (values) => (await run(text, fill(values), "run")).changes ?? 0,
    mapped: mapGetResult,
  };
}

/**
 * A place for text in a query over several tables. SQLite is built with STAT4 here, looks at the value to plan a join, and so compiles the
 * statement anew for every value (30 µs); it can't look into an expression, and the plan stays.
 */
export const unseen = (name: string) => sql<string>`(${sql.placeholder(name)} || '')`;

/** A place for every column of a row. */
export const placesOf = <Table extends SQLiteTable>(table: Table): Table["$inferInsert"] =>
  Object.fromEntries(Object.keys(getTableColumns(table)).map((name) => [name, sql.placeholder(name)]));

/** Columns without their table's name, which PostgreSQL doesn't take where a conflict is named. */
export const bare = (...columns: SQLiteColumn[]): SQLiteColumn[] =>
  columns.map(({ name }) => sql.identifier(name) as unknown as SQLiteColumn);

type Decoder = { mapFromDriverValue(value: unknown): unknown };
type Expression = { decoder: Decoder };
type Field = { path: string[]; field: unknown };
/** A row of plain columns becomes an object by names and decoders known beforehand; the builder would ask of each value again what it is. */
function mapperOf<Get, All>(built: unknown): Mapper<Get, All> {
  const { fields, customResultMapper } = built as { fields?: Field[]; customResultMapper?: unknown };
  const builders = built as Mapper<Get, All>;
  if (!fields || customResultMapper || fields.some(({ path }) => path.length > 1))
    return { mapGetResult: (row) => builders.mapGetResult(row), mapAllResult: (rows) => builders.mapAllResult(rows) };
  const columns = fields.map(({ path: [name = ""], field }) => ({ name, decoder: decoderOf(field) }));
  const decoded = (i: number, value: unknown) => (value === null ? null : columns[i]?.decoder?.mapFromDriverValue(value));
  const members = columns.map(({ name, decoder }, i) => `${JSON.stringify(name)}: ${decoder ? `decoded(${i}, row[${i}])` : `row[${i}]`}`);
  const one = functionOf(`(row) => ({ ${members.join(", ")} })`, { decoded });
  return {
    mapGetResult: (row) => (row === undefined ? undefined : one(row)) as Get,
    mapAllResult: (rows) => rows.map((row) => one(row)) as All,
  };
}

/** What makes a value of what the driver gave; nothing where it stays as it is. */
function decoderOf(field: unknown): Decoder | undefined {
  if (!is(field, Column)) return (is(field, SQL) ? (field as unknown as Expression) : (field as { sql: Expression }).sql).decoder;
  return field.mapFromDriverValue === Column.prototype.mapFromDriverValue ? undefined : field;
}

/** Where a parameter comes from: a named value, encoded as its column wants it, or one that is the same at every run. */
type Place = { name?: string; encode?: ((value: unknown) => unknown) | undefined; literal?: string };
function placeOf(param: unknown): Place {
  if (is(param, PlaceholderClass)) return { name: param.name };
  if (is(param, Param) && is(param.value, PlaceholderClass)) return { name: param.value.name, encode: encoderOf(param.encoder) };
  return { literal: literalOf(param) };
}
const encoderOf = (encoder: { mapToDriverValue(value: unknown): unknown }) =>
  encoder.mapToDriverValue === Column.prototype.mapToDriverValue ? undefined : (value: unknown) => encoder.mapToDriverValue(value);

/**
 * What is the same at every run stands in the text. SQLite asks of a bound value whether a partial index holds it, and so would compile the statement
 * anew at each run: a passport that is 'published' took 43 µs to find instead of 4.
 */
function literalOf(constant: unknown): string {
  if (typeof constant === "string") return `'${constant.replaceAll("'", "''")}'`;
  if (typeof constant === "number") return String(constant);
  if (constant === null) return "NULL";
  throw new TypeError(`a ${typeof constant} can't stand in a statement: give it a placeholder`);
}

function filling(places: readonly Place[]): (values: Values) => unknown[] {
  const empty = (i: number, value: unknown) => {
    if (value === null) return null;
    throw new TypeError(`the prepared statement misses a value for "${places[i]?.name}"`);
  };
  const encoded = (i: number, value: unknown) => (value === null || value === undefined ? empty(i, value) : places[i]?.encode?.(value));
  const members = places.map(({ name, encode }, i) => {
    const value = `values[${JSON.stringify(name)}]`;
    return encode ? `encoded(${i}, ${value})` : `${value} ?? empty(${i}, ${value})`;
  });
  return functionOf(`(values) => [${members.join(", ")}]`, { encoded, empty }) as (values: Values) => unknown[];
}

/**
 * The function of a text: it names the members of one statement's rows. One that looped over names would serve all statements, and so look
 * each name up anew at each run: a fifteenth of all that a label costs.
 */
const functionOf = (text: string, given: Record<string, unknown>): ((from: unknown) => unknown) =>
  // oxlint-disable-next-line typescript/no-implied-eval -- of names that stand in the schema, once at the start
  new Function(...Object.keys(given), `return ${text};`)(...Object.values(given)) as (from: unknown) => unknown;

/** Lists of all lengths are few statements: filled up to a power of two with what is in them already. */
export const even = <Item>(list: Item[]): Item[] => {
  const last = list.at(-1);
  return last === undefined ? list : [...list, ...Array.from({ length: 2 ** Math.ceil(Math.log2(list.length)) - list.length }, () => last)];
};
