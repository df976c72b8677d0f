// What a copy of the database says of itself, once nothing in it contradicts anything else: SQLite's own check, the log, every audit chain, every sealed bundle.
import { createHash } from "node:crypto";
import type { Logger } from "pino";
import * as audit from "../domain/audit.ts";
import { judgeBundles } from "../domain/bundle-check.ts";
import { recompute } from "../domain/log-check.ts";
import { integrityFault, openToRead } from "../store/copy.ts";
import { versionOf } from "../store/migrate.ts";
import { signingKeys } from "../store/schema.ts";
import type { Store } from "../store/store.ts";
import { ringFrom, type Ring } from "../verify/keys.ts";
import { unfit } from "./archive.ts";

export type Inspected = {
  migration: number;
  log: { size: number; root: string };
  audit: { tenants: number; rows: number; heads: string };
  /** What signatures can be checked with. */
  keys: Ring | undefined;
};

/** Throws the first thing that is wrong. */
export async function inspect(file: string, log: Logger): Promise<Inspected> {
  const fault = integrityFault(file);
  if (fault) throw unfit(`the database is damaged: ${fault}`);
  const store = openToRead(file, log);
  try {
    const migration = await versionOf(store);
    const { size, root, fault: broken } = await recompute(store);
    if (broken) throw unfit(`the transparency log doesn't hold: ${broken}`);
    return { migration, log: { size, root: root.toString("hex") }, audit: await chains(store), keys: await keysIn(store) };
  } finally {
    await store.close();
  }
}

async function chains(store: Store): Promise<Inspected["audit"]> {
  const sum = createHash("sha256");
  const ids = await store.read("tenants", audit.chainIds);
  let rows = 0;
  for (const tenantId of ids) {
    const { valid, head, firstBroken } = await audit.verify(store, tenantId);
    if (!valid) throw unfit(`the audit chain of tenant ${tenantId} breaks at row ${firstBroken?.seq}: ${firstBroken?.fault}`);
    const { fault } = await judgeBundles(store, tenantId);
    if (fault) throw unfit(`sealed evidence doesn't hold: ${fault}`);
    rows += head.seq;
    sum.update(`${tenantId} ${head.seq} ${head.hash}\n`);
  }
  return { tenants: ids.length, rows, heads: sum.digest("hex") };
}

async function keysIn(store: Store): Promise<Ring | undefined> {
  const rows = await store.read("signing keys", ({ db }) => db.select().from(signingKeys));
  return rows.length === 0 ? undefined : ringFrom({ keys: rows.map(({ kid, publicJwk }) => ({ ...publicJwk, kid })) });
}
