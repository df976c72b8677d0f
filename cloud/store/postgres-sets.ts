// One statement for many: what is asked alike with many rows of values becomes one that reads them from arrays, so that the server plans and answers once.

/** A place, or what stands between quotes. */
const PART = /'(?:[^']|'')*'|"(?:[^"]|"")*"|\?/g;

/** `?` as the builder writes it becomes what the place is called; what stands between quotes is left alone. */
export function placed(sql: string, nameOf: (n: number) => string): string {
  let n = 0;
  return sql.replaceAll(PART, (part) => (part === "?" ? nameOf((n += 1)) : part));
}

/** What doesn't go with a set: rows that are answered or locked (our marks are comments), a conflict, which may meet one row once only, and an offset of its own. */
const ALONE = /\b(returning|conflict|offset)\b|\/\*/i;
const bare = (sql: string) => sql.replaceAll(PART, (part) => (part === "?" ? part : "''"));
const isOneRow = (values: string) => /^\([^()]*\)$/.test(bare(values));

// Each row that is given has to be looked for by its key, whatever the server's statistics say. Of a table that it hasn't looked into for a while it takes
// a condition (`open_job IS NULL`) to be met by next to none, goes through all of the table for those, and through all that was given for each of them.
const FENCE = " OFFSET 0"; // a subquery that has one is asked once for each row outside of it
const KEY = /^[\w".]+ = given\.v\d+$/;

/** The statement over all rows: it answers which row (`nth`, from 1) each answer is for. Undefined where it can't be done. */
export function setForm(sql: string, types: readonly string[]): string | undefined {
  if (types.length === 0 || ALONE.test(bare(sql))) return undefined;
  const text = placed(sql, (n) => `given.v${n}`);
  const arrays = types.map((type, i) => `$${i + 1}::${type}[]`).join(", ");
  const given = `unnest(${arrays}) WITH ORDINALITY AS given(${types.map((_, i) => `v${i + 1}`).join(", ")}, nth)`;
  const [verb = ""] = /^\w+/.exec(sql) ?? [];
  switch (verb.toLowerCase()) {
    case "select":
      return `SELECT given.nth, found.* FROM ${given} CROSS JOIN LATERAL (${text}${FENCE}) AS found`;
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
  return where === undefined || more !== undefined ? undefined : `${head}${given} WHERE ${byKey(where)} RETURNING given.nth`;
}

/** What is beside the keys, as a value: of one the server doesn't guess how many rows have it. */
function byKey(where: string): string {
  const [keys, rest] = [[] as string[], [] as string[]];
  for (const condition of conditionsOf(where)) (KEY.test(condition) ? keys : rest).push(condition);
  return keys.length === 0 || rest.length === 0 ? where : [...keys, `COALESCE(${rest.join(" and ")}, false)`].join(" and ");
}

/** What has to hold at once: what stands between its `and`s, spelled with spaces as the builder does, and between those of a group that is all of a condition. */
function conditionsOf(where: string): string[] {
  const conditions = [""];
  let depth = 0;
  let isGroup = where.startsWith("(");
  for (const { 0: part, index } of where.matchAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|\s+(?:and|or)\s+|[()]|./gis)) {
    const word = part.trim().toLowerCase();
    if (part === "(") depth += 1;
    if (part === ")") depth -= 1;
    if (depth === 0 && word === "or") return [where];
    if (depth === 0 && word === "and") conditions.push("");
    else conditions.push(conditions.pop() + part);
    isGroup &&= depth > 0 || index === where.length - 1;
  }
  const parts = isGroup ? conditionsOf(where.slice(1, -1)) : conditions;
  return parts.length === 1 ? [where] : isGroup ? parts : parts.flatMap(conditionsOf);
}
