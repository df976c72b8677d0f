// From a CSV file to products: which columns, what a cell means, and where exactly a fault stands.
import { Readable } from "node:stream";
import type { CsvError } from "csv-parse";
import { brief, type FieldFault, Refusal, shownCode } from "#shared/errors.ts";
import { codeOf } from "#shared/fault.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { ProductCreate } from "#shared/wire/products.ts";
import type { CategoryVersion, FieldSchema } from "../catalogue.ts";
import { parseJson } from "../json.ts";
import { columnsOf, RESERVED_COLUMNS } from "./categories.ts";

/** The file as a whole is no use: said once, and nothing of it is imported from here on. What is quoted of it has to be text that can be kept, and no more than anybody reads. */
export const fileFault = (message: string) => new Refusal("VALIDATION_ERROR", brief(message));
export type CsvRow = { line: number; cells: string[]; columns: string[] };
export type RowFault = { line: number; code: string; field: string | null; message: string };

const REQUIRED_COLUMNS = RESERVED_COLUMNS.filter((name) => (ProductCreate.required as readonly string[]).includes(name));
const DELIMITERS = [",", ";", "\t"];

/** Text with one kind of line end: files that were edited on two systems have several, also inside of cells. */
async function* decoded(bytes: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true }); // it takes a byte order mark away
  let held = ""; // a CR whose LF may follow in the next slice
  try {
    for await (const slice of bytes) {
      const text = held + decoder.decode(slice, { stream: true });
      held = text.endsWith("\r") ? "\r" : "";
      yield (held ? text.slice(0, -1) : text).replaceAll(/\r\n?/g, "\n");
    }
    yield (held + decoder.decode()).replaceAll("\r", "\n");
  } catch (error) {
    if (codeOf(error) !== "ERR_ENCODING_INVALID_ENCODED_DATA") throw error;
    throw fileFault(saying("file_not_utf8"));
  }
}

/** Spreadsheets of half of Europe write semicolons: the header, the first line with more than blanks in it, shows which one it is. */
const delimiterOf = (head: string): string => {
  const line = /\S[^\n]*/.exec(head)?.[0] ?? "";
  return DELIMITERS.toSorted((a, b) => line.split(b).length - line.split(a).length)[0] ?? ",";
};

async function* parsed(bytes: AsyncIterable<Buffer>): AsyncGenerator<{ line: number; cells: string[] }> {
  const csv = await import("csv-parse"); // loaded by the first file: most starts never need it
  const text = decoded(bytes);
  const first = await text.next();
  const head = first.done ? "" : first.value;
  async function* all() {
    yield head;
    yield* text;
  }
  let ended = { lines: 0, empty_lines: 0 }; // with the last whole record: of the one behind it the parser tells only where it gave up
  const options = {
    info: true,
    record_delimiter: "\n",
    relax_column_count: true,
    skip_empty_lines: true,
    on_record: (record: string[], info: typeof ended) => {
      ended = info;
      return record;
    },
    max_record_size: limits.IMPORT_RECORD_MAX_BYTES,
  };
  const source = Readable.from(all());
  const parser = source.pipe(csv.parse({ ...options, delimiter: delimiterOf(head) }));
  source.on("error", (error) => parser.destroy(error));
  try {
    for await (const { record: cells, info } of parser as AsyncIterable<{ record: string[]; info: { lines: number } }>) {
      if (cells.every((cell) => cell.trim() === "")) continue; // what a spreadsheet leaves below its last row
      const line = info.lines - cells.reduce((total, cell) => total + breaksIn(cell), 0);
      if (cells.length > limits.IMPORT_CELLS_MAX_ITEMS) throw fileFault(saying("record_too_wide", { line, cells: cells.length }));
      yield { cells, line };
    }
  } catch (error) {
    if (!(error instanceof csv.CsvError)) throw error;
    throw unparsed(error, ended.lines + 1 + Number(error["empty_lines"]) - ended.empty_lines);
  } finally {
    source.destroy();
  }
}

/** Where a quote is missing, the parser notices it at the next one, or at the file's end: people look for it where its record begins. */
function unparsed(error: CsvError, line: number): Refusal {
  if (error.code === "CSV_QUOTE_NOT_CLOSED") return fileFault(saying("record_unclosed", { line }));
  if (error.code === "CSV_MAX_RECORD_SIZE") return fileFault(saying("record_too_long", { line, bytes: limits.IMPORT_RECORD_MAX_BYTES }));
  return fileFault(saying("file_not_csv", { why: `${error.message} (its record begins at line ${line})` }));
}
const breaksIn = (cell: string) => (cell.includes("\n") ? cell.split("\n").length - 1 : 0);

/** The rows below a header that fits the category. */
export async function* rowsOf(bytes: AsyncIterable<Buffer>, schema: CategoryVersion): AsyncGenerator<CsvRow> {
  let columns: string[] | undefined;
  for await (const { line, cells } of parsed(bytes))
    if (columns) yield { line, cells, columns };
    else columns = headerOf(cells, schema);
  if (!columns) throw fileFault(saying("empty_csv"));
}

const SHOWN = 10; // faults of a header: who has more has sent another file

/** Where there once was more, a spreadsheet goes on with empty cells. */
const withoutTail = (cells: string[], least = 0): string[] =>
  cells.slice(0, Math.max(least, 1 + cells.findLastIndex((cell) => cell.trim() !== "")));

function headerOf(cells: string[], schema: CategoryVersion): string[] {
  const columns = withoutTail(cells).map((cell) => cell.trim());
  const known = new Set(columnsOf(schema));
  const seen = new Set<string>();
  const faults: string[] = [];
  for (const name of columns) {
    if (!known.has(name)) faults.push(saying("not_a_column", { column: name.slice(0, 100), category: schema.category }));
    else if (seen.has(name)) faults.push(saying("column_twice", { column: name }));
    seen.add(name);
  }
  faults.push(...REQUIRED_COLUMNS.filter((name) => !seen.has(name)).map((name) => saying("column_missing", { column: name })));
  const shown = faults.slice(0, SHOWN).join("; ");
  if (faults.length > SHOWN) throw fileFault(saying("header_unfit_more", { faults: shown, more: faults.length - SHOWN }));
  if (faults.length > 0) throw fileFault(saying("header_unfit", { faults: shown }));
  return columns;
}

/** A row as POST /products would be sent it. An empty cell is an absent field, and so is one of blanks. */
export function productOf({ cells: all, columns }: CsvRow, { category, fieldSchema }: CategoryVersion): Record<string, unknown> {
  const cells = all.length > columns.length ? withoutTail(all, columns.length) : all;
  const counts = { cells: cells.length, columns: columns.length };
  if (cells.length > columns.length) throw new Refusal("VALIDATION_ERROR", saying("row_cells_more", counts));
  if (cells.length < columns.length) throw new Refusal("VALIDATION_ERROR", saying("row_cells", counts));
  const filled = columns.map((name, i) => [name, cells[i] ?? ""] as const).filter(([, cell]) => cell.trim() !== "");
  const isReserved = (name: string) => (RESERVED_COLUMNS as readonly string[]).includes(name);
  return {
    category,
    ...Object.fromEntries(filled.filter(([name]) => isReserved(name))),
    extensions: Object.fromEntries(
      filled.filter(([name]) => !isReserved(name)).map(([name, cell]) => [name, valueOf(cell, fieldSchema.properties[name])]),
    ),
  };
}

const NUMBER = /^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$/;

/** What doesn't look like its field's type stays text, and the schema says so. */
function valueOf(cell: string, field: FieldSchema["properties"][string] | undefined): unknown {
  const text = cell.trim();
  if (field?.type === "number" || field?.type === "integer") return NUMBER.test(text) ? Number(text) : cell;
  if (field?.type === "boolean") return { true: true, false: false }[text.toLowerCase()] ?? cell;
  if (field?.type === "array") return text.startsWith("[") ? jsonOr(text) : (listIn(text) ?? cell);
  return field?.type === "object" ? jsonOr(text) : cell;
}

/** Only `[]` says that there is nothing in a list: separators without anything between them are what a spreadsheet's formula leaves. */
function listIn(text: string): string[] | undefined {
  const items = text
    .split(";")
    .map((item) => item.trim())
    .filter(Boolean);
  return items.length === 0 ? undefined : items;
}

function jsonOr(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return text; // the schema's sentence about it is the better one
  }
}

/** A refusal as the faults of a line: one for each column that it names. */
export function faultsOf(line: number, refusal: Refusal): RowFault[] {
  const code = shownCode(refusal.code);
  const fields = (refusal.details?.["fields"] ?? []) as FieldFault[];
  if (fields.length === 0)
    return [{ line, code, field: refusal.code === "DUPLICATE_GTIN" ? "gtin" : null, message: brief(refusal.message) }];
  return fields.map(({ field, message }) => {
    const [column = field, ...inCell] = field.replace(/^extensions\./, "").split(".");
    return { line, code, field: column, message: brief(inCell.length === 0 ? message : `${inCell.join(".")}: ${message}`) };
  });
}
