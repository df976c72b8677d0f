// Two writes that overlap for sure, and what both leave behind: told apart from what they leave one after the other, whichever comes first.
import { setTimeout as sleep } from "node:timers/promises";
import { Client as Connection } from "pg";
import type { Answer } from "../fixtures/client.ts";

/** What a pair is tried on, made anew for each try: a tenant of its own, and what the ids in it are called. */
export type Scene = { tenantId: string; names: Record<string, string> };
export type Act<S extends Scene> = (scene: S) => Promise<Answer>;

/** How long a write may take to come to where it is held; one that ends before, or that nobody holds, isn't waited for. */
const BEGUN_MAX_MS = 300;
const HELD = `WITH RECURSIVE held (pid) AS (
    SELECT pid FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))
    UNION SELECT a.pid FROM pg_stat_activity a JOIN held ON held.pid = ANY (pg_blocking_pids(a.pid))
  ) SELECT count(*)::int AS held FROM held`;
/** A deadlock is undone and done again; it needn't take a second here. */
const DEADLOCK_MS = 100;

/** Rows that say when, or in which order, and not what; and those that workers go on changing. */
const COLUMNS_ASIDE = new Set(
  "print_batch hash prev_hash lookup prefix secret previous_secret n seq at hour due_at look_at revision status_index credential signature anchor digest details targets request_id report".split(
    " ",
  ),
);
const TABLES_ASIDE = new Set(["deliveries", "lanes", "idempotency", "rate_budgets", "serial_counters", "audit_heads"]);
/** How a table's rows are known to be a tenant's, by the first of these columns that it has. */
const OWNERS = {
  tenant_id: "t.tenant_id = $1",
  job_ref: "t.job_ref IN (SELECT job_ref FROM print_jobs WHERE tenant_id = $1)",
  passport_id: "t.passport_id IN (SELECT id FROM passports WHERE tenant_id = $1)",
};

type Left = { answers: string[]; rows: string[] };
const linesOf = ({ answers: [one, other], rows }: Left): string[] => [`one: ${one}`, `other: ${other}`, ...rows];
/** Each line as often as it is there. */
function without(lines: readonly string[], known: readonly string[]): string[] {
  const left = [...known];
  return lines.filter((line) => {
    const at = left.indexOf(line);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}
const sizeOf = ({ odd, missing }: { odd: string[]; missing: string[] }): number => odd.length + missing.length;

export async function overlapsOn(databaseUrl: string) {
  const look = new Connection({ connectionString: databaseUrl });
  await look.connect();
  await look.query(`ALTER DATABASE ${new URL(databaseUrl).pathname.slice(1)} SET deadlock_timeout = '${DEADLOCK_MS}ms'`);
  const { rows: columns } = await look.query(
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'",
  );
  const tables = Map.groupBy(columns as { table_name: string; column_name: string }[], (column) => column.table_name);
  const looks = [...tables].flatMap(([table, its]) => {
    const owner = Object.entries(OWNERS).find(([name]) => its.some((column) => column.column_name === name));
    return owner && !TABLES_ASIDE.has(table) ? [{ table, where: owner[1] }] : [];
  });

  const named = ({ names }: Scene, text: string): string =>
    Object.entries(names)
      .reduce((said, [name, id]) => said.replaceAll(id, name), text)
      .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|pj_\w{26}/g, "another id")
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z|"1[78]\d{11}"/g, "a time")
      .replaceAll(/[0-9a-f]{64}|\b30[0-9A-F]{22}\b|log#\d+/g, "what follows from them");

  async function leftBy(scene: Scene, answers: Answer[]): Promise<Left> {
    const rows: string[] = [];
    for (const { table, where } of looks)
      for (const row of (await look.query(`SELECT * FROM ${table} t WHERE ${where}`, [scene.tenantId])).rows) {
        const told = Object.entries(row as object).filter(([name]) => !COLUMNS_ASIDE.has(name) && !name.endsWith("_at"));
        const ends = Object.keys(row as object).filter((name) => /^(voided|revoked|deleted)_at$/.test(name) && row[name] !== null);
        rows.push(named(scene, `${table} ${JSON.stringify(told)} ${ends.join(" ")}`));
      }
    return { answers: answers.map(({ status, body }) => `${status} ${body?.error?.code ?? ""}`), rows: rows.toSorted() };
  }

  /** Holds the end of the tenant's audit chain, where every write ends: what two of them decide by, both have read by then. */
  async function overlapped<S extends Scene>(scene: S, first: Act<S>, second: Act<S>): Promise<[Answer, Answer]> {
    const hand = new Connection({ connectionString: databaseUrl });
    await hand.connect();
    const { pid } = (await hand.query("SELECT pg_backend_pid() AS pid")).rows[0];
    await hand.query("BEGIN");
    await hand.query("SELECT 1 FROM audit_heads WHERE tenant_id = $1 FOR UPDATE", [scene.tenantId]);
    const untilHeld = async (asked: Promise<Answer>, nth: number): Promise<void> => {
      let hasEnded = false;
      void asked.finally(() => (hasEnded = true));
      for (const until = Date.now() + BEGUN_MAX_MS; !hasEnded && Date.now() < until; await sleep(3))
        if ((await look.query(HELD, [pid])).rows[0].held >= nth) return;
    };
    const one = first(scene);
    await untilHeld(one, 1);
    const other = second(scene);
    await untilHeld(other, 2);
    await hand.end();
    return Promise.all([one, other]);
  }

  /** What a pair left when it overlapped and doesn't leave otherwise, beside what is missing of the nearest that it does. */
  async function oddities<S extends Scene>(
    make: () => Promise<S>,
    one: Act<S>,
    other: Act<S>,
  ): Promise<{ odd: string[]; missing: string[] }[]> {
    const inOrder = async (first: Act<S>, second: Act<S>): Promise<Left> => {
      const scene = await make();
      return leftBy(scene, [await first(scene), await second(scene)]);
    };
    const atOnce = async (first: Act<S>, second: Act<S>): Promise<Left> => {
      const scene = await make();
      return leftBy(scene, await overlapped(scene, first, second));
    };
    const turned = ({ answers, rows }: Left): Left => ({ answers: answers.toReversed(), rows });
    const allowed = [await inOrder(one, other), turned(await inOrder(other, one))];
    const tried = [await atOnce(one, other), turned(await atOnce(other, one))];
    return tried.flatMap((left) => {
      const differences = allowed.map((each) => ({
        odd: without(linesOf(left), linesOf(each)),
        missing: without(linesOf(each), linesOf(left)),
      }));
      return differences
        .toSorted((a, b) => sizeOf(a) - sizeOf(b))
        .slice(0, 1)
        .filter((nearest) => sizeOf(nearest) > 0);
    });
  }
  return { oddities, end: () => look.end() };
}
