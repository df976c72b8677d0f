// What a copy of the database says of itself, once nothing in it contradicts anything else: SQLite's own check, the log, every audit chain, every sealed bundle, every passport.
import { createHash } from "node:crypto";
import type { Logger } from "pino";
import { chainIds } from "../domain/audit.ts";
import { faultIn, judgeChain } from "../domain/audit-check.ts";
import { judgeBundles, lostBundles } from "../domain/bundle-check.ts";
import { recompute } from "../domain/log-check.ts";
import { judgePassports, keysIn } from "../domain/passport-check.ts";
import { integrityFault, openToRead, TABLELESS } from "../store/copy.ts";
import { newestKnown, versionOf } from "../store/migrate.ts";
import type { Store } from "../store/store.ts";
import type { Ring } from "../verify/keys.ts";

export type Inspected = {
  migration: number;
  log: { size: number; root: string };
  audit: { tenants: number; rows: number; heads: string };
  /** What signatures can be checked with. */
  keys: Ring | undefined;
};

function refuse(fault: string | undefined): void {
  if (fault !== undefined) throw new Error(fault);
}

/** Throws the first thing that is wrong. */
export async function inspect(file: string, log: Logger): Promise<Inspected> {
  const damage = integrityFault(file);
  if (damage) throw new Error(`the database is damaged: ${damage}`);
  const store = openToRead(file, log);
  try {
    const [migration, newest] = [await versionOf(store), newestKnown()];
    if (migration > newest) throw new Error(`a newer Imprimatur made it (migration ${migration}, this one knows ${newest}): use that one`);
    if (migration === 0) throw new Error(`the database ${TABLELESS}`);
    const { size, root, fault } = await recompute(store);
    if (fault) throw new Error(`the transparency log doesn't hold: ${fault}`);
    const keys = await keysIn(store);
    const audited = await judgeTenants(store, keys);
    refuse(await lostBundles(store));
    return { migration, log: { size, root: root.toString("hex") }, audit: audited, keys };
  } finally {
    await store.close();
  }
}

/** Every chain, bundle and passport of every tenant; what the manifest says of them is a sum over the chains. */
async function judgeTenants(store: Store, keys: Ring | undefined): Promise<Inspected["audit"]> {
  const sum = createHash("sha256");
  const ids = await store.read("tenants", chainIds);
  let rows = 0;
  for (const tenantId of ids) {
    const verdict = await judgeChain(store, tenantId);
    const { head } = verdict;
    refuse(faultIn(tenantId, verdict));
    refuse((await judgeBundles(store, tenantId)).fault);
    refuse((await judgePassports(store, tenantId, keys)).fault);
    rows += head.seq;
    sum.update(`${tenantId} ${head.seq} ${head.hash}\n`);
  }
  return { tenants: ids.length, rows, heads: sum.digest("hex") };
}
