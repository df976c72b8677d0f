// One statement for many: what is asked alike with many rows of values becomes one that reads them from arrays, so that the server plans and answers once.

/** A place, or what stands between quotes. */
const PART = /'(?:[^']|'')*'|"(?:[^"]|"")*"|\?/g;

/** `?` as the builder writes it becomes what the place is called; what stands between quotes is left alone. */
export function placed(sql: string, nameOf: (n: number) => string): string {
  let n = 0;
  return sql.replaceAll(PART, (part) => (part === "?" ? nameOf((n += 1)) : part));
}

/** What doesn't go with a set: rows that are answered or locked (our marks are comments), and a conflict, which may meet one row once only. */
const ALONE = /\b(returning|conflict)\b|\/\*/i;
const bare = (sql: string) => sql.replaceAll(PART, (part) => (part === "?" ? part : "''"));
const isOneRow = (values: string) => /^\([^()]*\)$/.test(bare(values));

/** The statement over all rows: it answers which row (`nth`, from 1) each answer is for. Undefined where it can't be done. */
export function setForm(sql: string, types: readonly string[]): string | undefined {
  if (types.length === 0 || ALONE.test(bare(sql))) return undefined;
  const text = placed(sql, (n) => `given.v${n}`);
  const arrays = types.map((type, i) => `$${i + 1}::${type}[]`).join(", ");
  const given = `unnest(${arrays}) WITH ORDINALITY AS given(${types.map((_, i) => `v${i + 1}`).join(", ")}, nth)`;
  const [verb = ""] = /^\w+/.exec(sql) ?? [];
  switch (verb.toLowerCase()) {
    case "select":
      return `SELECT given.nth, found.* FROM ${given} CROSS JOIN LATERAL (${text}) AS found`;
    case "insert":
      return inserted(text, given);
    case "update":
      return between(text, ` FROM ${given}`);
    case "delete":
      return between(text, ` USING ${given}`);
    default:
      return undefined;
  }
}

function inserted(text: string, given: string): string | undefined {
  const [head = "", values = "", more] = text.split(/ values (?=\()/i);
  if (more !== undefined || !isOneRow(values)) return undefined;
  return `${head} SELECT ${values.slice(1, -1)} FROM ${given} ORDER BY given.nth`;
}

function between(text: string, given: string): string | undefined {
  const [head = "", where, more] = text.split(/ where /i);
  return where === undefined || more !== undefined ? undefined : `${head}${given} WHERE ${where} RETURNING given.nth`;
}
