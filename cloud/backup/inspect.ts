// What a copy of the database says of itself, once nothing in it contradicts anything else: SQLite's own check, the log, every audit chain, every sealed bundle, every passport.
import { createHash } from "node:crypto";
import type { Logger } from "pino";
import * as audit from "../domain/audit.ts";
import { judgeBundles, lostBundles } from "../domain/bundle-check.ts";
import { recompute } from "../domain/log-check.ts";
import { judgePassports, keysIn } from "../domain/passport-check.ts";
import { integrityFault, openToRead } from "../store/copy.ts";
import { newestKnown, versionOf } from "../store/migrate.ts";
import type { Store } from "../store/store.ts";
import type { Ring } from "../verify/keys.ts";
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
    const [migration, newest] = [await versionOf(store), newestKnown()];
    if (migration > newest) throw unfit(`a newer Imprimatur made it (migration ${migration}, this one knows ${newest}): use that one`);
    const { size, root, fault: broken } = await recompute(store);
    if (broken) throw unfit(`the transparency log doesn't hold: ${broken}`);
    const keys = await keysIn(store);
    const audited = await chains(store, keys);
    const lost = await lostBundles(store);
    if (lost) throw unfit(`sealed evidence is missing: ${lost}`);
    return { migration, log: { size, root: root.toString("hex") }, audit: audited, keys };
  } finally {
    await store.close();
  }
}

async function chains(store: Store, keys: Ring | undefined): Promise<Inspected["audit"]> {
  const sum = createHash("sha256");
  const ids = await store.read("tenants", audit.chainIds);
  let rows = 0;
  for (const tenantId of ids) {
    const { valid, head, firstBroken } = await audit.verify(store, tenantId);
    if (!valid) throw unfit(`the audit chain of tenant ${tenantId} breaks at row ${firstBroken?.seq}: ${firstBroken?.fault}`);
    const { fault } = await judgeBundles(store, tenantId);
    if (fault) throw unfit(`sealed evidence doesn't hold: ${fault}`);
    const { fault: untrue } = await judgePassports(store, tenantId, keys);
    if (untrue) throw unfit(`a passport doesn't hold: ${untrue}`);
    rows += head.seq;
    sum.update(`${tenantId} ${head.seq} ${head.hash}\n`);
  }
  return { tenants: ids.length, rows, heads: sum.digest("hex") };
}
