// What a server is asked for with each connection, whatever it, its database or the role has been set to: our statements mean the same everywhere.

const OURS = [
  "synchronous_commit=on",
  "lock_timeout=0", // who waits for a row waits as long as its statement may take
  "standard_conforming_strings=on",
  "array_nulls=on",
  /*
   * All that is asked at every turn has its index. The server would keep the plans that it made while a table was small, and go through all of it for each
   * row of a set (250 ms for 64 of 10,000 serials); so it does as SQLite does, and only what no index says is looked for row by row.
   * Before version 18 that would count as so dear that it is compiled first.
   */
  "enable_seqscan=off",
  "enable_hashjoin=off",
  "enable_mergejoin=off",
  "jit=off",
].map((setting) => `-c ${setting}`);
/** The driver takes all of them for this one, and says in eight lines that it won't always. */
const VERIFIED = new Set(["prefer", "require", "verify-ca"]);

/** The URL as the driver takes it: what it has in `options`, such as a search path, stands before ours. */
export function urlForDriver(given: string): string {
  const url = new URL(given);
  const { searchParams: query } = url;
  query.set("options", [query.get("options") ?? [], OURS].flat(2).join(" "));
  if (VERIFIED.has(query.get("sslmode") ?? "") && query.get("uselibpqcompat") !== "true") query.set("sslmode", "verify-full");
  return url.href;
}
