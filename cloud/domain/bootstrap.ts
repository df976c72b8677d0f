// The first key: made when there is none, replaced when the operator sets another, never resurrected once revoked.
import { and, eq, isNull, ne } from "../store/drizzle.ts";
import { apiKeys } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import * as keys from "./api-keys.ts";
import * as audit from "./audit.ts";
import { byKey } from "./callers.ts";
import { DEFAULT_TENANT, ensureDefault, hold } from "./tenants.ts";

const ROLE = { name: "bootstrap", scopes: ["*:*", "platform:*"], bootstrap: true };
const own = and(eq(apiKeys.tenantId, DEFAULT_TENANT), eq(apiKeys.bootstrap, true));

/** True when the store has never had a bootstrap key, so that one should be made. */
export const isMissing = async (tx: Tx): Promise<boolean> =>
  (await tx.db.select({ id: apiKeys.id }).from(apiKeys).where(own).limit(1)).length === 0;

/**
 * Sees to it that `secret` opens the platform, and no earlier one does. One that was replaced or revoked stays dead, and that is told.
 * Nodes that start at once come one after another, and of the keys that they made for want of any only the `first` counts.
 */
export async function ensure(
  tx: Tx,
  secret: string,
  requestId: string,
  { first = false } = {},
): Promise<"set" | "known" | "dead" | "late"> {
  await ensureDefault(tx);
  await hold(tx, DEFAULT_TENANT);
  if (first && !(await isMissing(tx)) && !(await byKey(tx, secret))) return "late";
  const minted = await keys.insertUnlessTaken(tx, DEFAULT_TENANT, { ...ROLE, secret });
  if (!minted) return (await byKey(tx, secret)) ? "known" : "dead";
  await tx.db
    .update(apiKeys)
    .set({ revokedAt: tx.now })
    .where(and(own, ne(apiKeys.id, minted.id), isNull(apiKeys.revokedAt)));
  audit.append(tx, audit.ourselves(DEFAULT_TENANT, "start"), { action: "auth.bootstrap_key_set", subject: minted.id, requestId });
  return "set";
}
