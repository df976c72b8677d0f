// Whoever has the database can write anything into it: every kind of change to the audit log is found, at the row where it begins.
import { afterAll, describe, expect, test } from "vitest";
import { digestOf } from "#shared/canonical.ts";
import { sql } from "../../cloud/store/drizzle.ts";
import { freshDatabase, world } from "../world.ts";

const ROWS = 12;
const MIDDLE = 6;
const texts = ["action", "actor", "subject", "details", "request_id", "prev_hash", "hash"] as const;
const columns = ["at", ...texts] as const;
type Row = Record<(typeof columns)[number] | "tenant_id", string> & { seq: number; at: number };
const LIST = "tenant_id, seq, at, action, actor, subject, details, request_id, prev_hash, hash";

describe.each(["sqlite", "postgres"] as const)("on %s", async (engine) => {
  const w = await world({ databaseUrl: await freshDatabase(engine) }, afterAll);
  const { data: tenant, adminKey } = (await w.admin.post("/tenants", { name: "Straße 1" })).body;
  const tenantId = tenant.id as string;
  const admin = w.as(adminKey.secret);
  for (let i = 0; i < ROWS; i += 1) await admin.post("/api-keys", { name: `ключ ${i}`, scopes: ["aidc:read"] });
  const verdict = async () => (await admin.get("/audit-logs/verify")).body;
  const write = (...statements: ReturnType<typeof sql>[]) =>
    w.store.write("tamper", async ({ db }) => {
      for (const statement of statements) await db.run(statement);
    });
  const rows = await w.store.read("rows", async ({ db }) => {
    const found = await db.values(sql`SELECT ${sql.raw(LIST)} FROM audit_log WHERE tenant_id = ${tenantId} ORDER BY seq`);
    return found.map((row) => Object.fromEntries(LIST.split(", ").map((name, i) => [name, row[i]])) as Row);
  });
  const rowAt = (seq: number) => rows[seq - 1] as Row;
  const here = sql`tenant_id = ${tenantId}`;
  const insert = (row: Row) => {
    const values = LIST.split(", ").map((name) => sql`${row[name as "seq"]}`);
    return sql`INSERT INTO audit_log (${sql.raw(LIST)}) VALUES (${sql.join(values, sql`, `)})`;
  };
  const headIs = ({ seq, hash }: Pick<Row, "seq" | "hash">) => sql`UPDATE audit_heads SET seq = ${seq}, hash = ${hash} WHERE ${here}`;
  /** As it was before anybody touched it. */
  const restore = () => write(sql`DELETE FROM audit_log WHERE ${here}`, ...rows.map(insert), headIs(rowAt(rows.length)));
  const set = (column: string, seq: number, value: unknown) =>
    write(sql`UPDATE audit_log SET ${sql.raw(column)} = ${value} WHERE ${here} AND seq = ${seq}`);
  /** Rows from `seq` on with their hashes made anew, as somebody would who knows how. */
  const rehashed = (from: readonly Row[]) => {
    let prev = rowAt((from[0]?.seq ?? 2) - 1).hash;
    return from.map((row) => {
      const { hash: _old, prev_hash: _prev, at, tenant_id: tenantId, request_id: requestId, ...rest } = row;
      const [actor, details] = [JSON.parse(rest.actor), JSON.parse(rest.details)];
      const parts = { tenantId, requestId, actor, details, at: new Date(at).toISOString(), class: rest.action.split(".")[0] };
      const told = { ...rest, ...parts, prevHash: prev };
      const made = { ...row, prev_hash: prev, hash: digestOf(told) };
      prev = made.hash;
      return made;
    });
  };

  test("left alone it verifies: what follows is found because of what was done", async () => {
    await restore();
    expect(await verdict()).toMatchObject({ valid: true, rows: ROWS, firstBroken: null });
    expect(rehashed(rows.slice(1))).toEqual(rows.slice(1));
  });

  test.each(columns)("one bit flipped anywhere in %s is found at its row", async (column) => {
    const was = rowAt(MIDDLE)[column];
    const flipped = (i: number) => was.slice(0, i) + String.fromCharCode(was.charCodeAt(i) ^ 1) + was.slice(i + 1);
    const values = column === "at" ? [(was as unknown as number) + 1] : Array.from({ length: was.length }, (_, i) => flipped(i));
    const missed: unknown[] = [];
    for (const value of values) {
      await set(column, MIDDLE, value);
      const { valid, firstBroken } = await verdict();
      if (valid || firstBroken.seq !== MIDDLE) missed.push({ value, firstBroken });
    }
    await set(column, MIDDLE, was);
    expect(missed).toEqual([]);
    expect((await verdict()).valid).toBe(true);
  });

  test.each([1, MIDDLE, ROWS])("row %i deleted is missed there", async (seq) => {
    await write(sql`DELETE FROM audit_log WHERE ${here} AND seq = ${seq}`);
    expect(await verdict()).toMatchObject({ valid: false, firstBroken: { seq } });
    await restore();
  });

  const cut = (from: number) => sql`DELETE FROM audit_log WHERE ${here} AND seq >= ${from}`;
  const move = (from: number, to: number) => sql`UPDATE audit_log SET seq = ${to} WHERE ${here} AND seq = ${from}`;
  const forged = { ...rowAt(MIDDLE), subject: "another" };
  const after = rows.slice(MIDDLE);
  const foreign = sql`INSERT INTO audit_log SELECT ${tenantId}, ${MIDDLE}, ${sql.raw(LIST.replace("tenant_id, seq, ", ""))} FROM audit_log
    WHERE tenant_id <> ${tenantId} AND seq = 1`;
  const movedUp = after.map((row) => insert({ ...row, seq: row.seq - 1 }));

  test.each<[what: string, seq: number, how: ReturnType<typeof sql>[]]>([
    ["two rows in each other's place", MIDDLE, [move(MIDDLE, -1), move(MIDDLE + 1, MIDDLE), move(-1, MIDDLE + 1)]],
    ["the rows behind a deleted one moved up", MIDDLE, [cut(MIDDLE), ...movedUp, headIs({ ...rowAt(ROWS), seq: ROWS - 1 })]],
    ["a row said twice", ROWS + 1, [insert({ ...rowAt(ROWS), seq: ROWS + 1 })]],
    ["a row of another tenant's", MIDDLE, [cut(MIDDLE), foreign, ...after.map(insert)]],
    ["the last rows cut off", ROWS - 2, [cut(ROWS - 2)]],
    ["the head set back", ROWS - 2, [headIs(rowAt(ROWS - 3))]],
    ["a row changed and its hash with it", MIDDLE + 1, [cut(MIDDLE), ...[...rehashed([forged]), ...after].map(insert)]],
    ["a row changed and all hashes after it", ROWS, [cut(MIDDLE), ...rehashed([forged, ...after]).map(insert)]],
  ])("%s: found at row %i", async (_what, seq, how) => {
    await restore();
    await write(...how);
    expect(await verdict()).toMatchObject({ valid: false, firstBroken: { seq } });
    await restore();
  });

  test("a tail and its head written anew, or cut off together, is seen by whoever kept an earlier head", async () => {
    const { head } = await verdict();
    const kept = async () =>
      (await admin.get("/audit-logs?limit=200")).body.data.find(({ seq }: { seq: number }) => seq === head.seq)?.hash;
    expect(await kept()).toBe(head.hash);
    const other = rehashed([forged, ...after]);
    await write(cut(MIDDLE), ...other.map(insert), headIs(other.at(-1) as Row));
    expect([(await verdict()).valid, await kept()]).toEqual([true, other.at(-1)?.hash]); // whole in itself, and not what it was
    expect(await kept()).not.toBe(head.hash);
    await restore();
    await write(cut(MIDDLE + 1), headIs(rowAt(MIDDLE)));
    expect([(await verdict()).valid, await kept()]).toEqual([true, undefined]);
    await restore();
  });
});
