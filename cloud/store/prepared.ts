// A statement built once and run many times: SQL text and the place of each value are known before the first request.
// The builder's own prepared queries look for placeholders anew at every run, which takes longer than SQLite does.
import type { Placeholder } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { Column, getTableColumns, is, Param, Placeholder as PlaceholderClass, SQL, sql } from "./drizzle.ts";
import { placed } from "./postgres-sets.ts";
import { run } from "./store.ts";

type Values = Record<string, unknown>;
type Buildable<Get, All> = { prepare(): { getQuery(): { sql: string; params: unknown[] }; get(): Promise<Get>; all(): Promise<All> } };
/** What the builder's prepared query can do with rows, though its types don't say so. */
type Mapper<Get, All> = { mapGetResult(row: unknown): Get; mapAllResult(rows: unknown[]): All };
export type Prepared<Get, All> = {
  get(values: Values): Promise<Get>;
  all(values: Values): Promise<All>;
  /** How many rows it touched. */
  run(values: Values): Promise<number>;
};

/** `end` is said after what the builder says, such as LOCKED. */
export function prepared<Get, All>(query: Buildable<Get, All>, end = ""): Prepared<Get, All> {
  const built = query.prepare();
  const { whole, params } = withConstants(built.getQuery());
  const text = end ? `${whole} ${end}` : whole;
  const { mapGetResult, mapAllResult } = mapperOf<Get, All>(built);
  const places = params.map(placeOf);
  const fill = (values: Values) => places.map((place) => place(values));
  return {
    get: async (values) => mapGetResult((await run(text, fill(values), "get")).rows),
    all: async (values) => mapAllResult((await run(text, fill(values), "all")).rows),
    run: async (values) => (await run(text, fill(values), "run")).changes ?? 0,
  };
}

/**
 * What is the same at every run stands in the text. SQLite asks of a bound value whether a partial index holds it, and so would compile the statement
 * anew at each run: a passport that is 'published' took 43 µs to find instead of 4.
 */
function withConstants({ sql: text, params }: { sql: string; params: unknown[] }): { whole: string; params: unknown[] } {
  const whole = placed(text, (n) => literalOf(params[n - 1]) ?? "?");
  return { whole, params: params.filter((param) => literalOf(param) === undefined) };
}
const literalOf = (param: unknown): string | undefined =>
  typeof param === "string" ? `'${param.replaceAll("'", "''")}'` : typeof param === "number" ? String(param) : undefined;

/**
 * A place for text in a query over several tables. SQLite is built with STAT4 here, looks at the value to plan a join, and so compiles the
 * statement anew for every value (30 µs); it can't look into an expression, and the plan stays.
 */
export const unseen = (name: string) => sql<string>`(${sql.placeholder(name)} || '')`;

/** A place for every column of a row. */
export const placesOf = <Table extends SQLiteTable>(table: Table): Table["$inferInsert"] =>
  Object.fromEntries(Object.keys(getTableColumns(table)).map((name) => [name, sql.placeholder(name)]));

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
  const one = (values: unknown[]) => {
    const row: Record<string, unknown> = {};
    for (const [i, { name, decoder }] of columns.entries()) {
      const value = values[i];
      row[name] = value === null || decoder === undefined ? value : decoder.mapFromDriverValue(value);
    }
    return row;
  };
  return {
    mapGetResult: (row) => (row === undefined ? undefined : one(row as unknown[])) as Get,
    mapAllResult: (rows) => rows.map((row) => one(row as unknown[])) as All,
  };
}

/** What makes a value of what the driver gave; nothing where it stays as it is. */
function decoderOf(field: unknown): Decoder | undefined {
  if (!is(field, Column)) return (is(field, SQL) ? (field as unknown as Expression) : (field as { sql: Expression }).sql).decoder;
  return field.mapFromDriverValue === Column.prototype.mapFromDriverValue ? undefined : field;
}

/** Where a parameter comes from: a named value, encoded as its column wants it, or what can't stand in a text. */
function placeOf(param: unknown): (values: Values) => unknown {
  if (is(param, PlaceholderClass)) return valueOf(param.name);
  if (is(param, Param) && is(param.value, PlaceholderClass)) {
    const value = valueOf(param.value.name);
    const { encoder } = param;
    return (values) => {
      const given = value(values);
      return given === null ? null : encoder.mapToDriverValue(given);
    };
  }
  return () => param;
}

const valueOf =
  (name: Placeholder["name"]) =>
  (values: Values): unknown => {
    const value = values[name];
    if (value === undefined) throw new TypeError(`the prepared statement misses a value for "${name}"`);
    return value;
  };
