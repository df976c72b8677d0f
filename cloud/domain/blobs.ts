// Pictures that evidence refers to, each under its own digest, so that none can be swapped for another. In the store, where every node finds them.
import { hash } from "node:crypto";
import { and, eq } from "../store/drizzle.ts";
import { Refusal } from "#shared/errors.ts";
import { blobs } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { found } from "./found.ts";

const mine = (tenantId: string, sha256: string) => and(eq(blobs.tenantId, tenantId), eq(blobs.sha256, sha256));

/** Says whether it is new. */
export async function keep(tx: Tx, { tenantId }: Caller, sha256: string, mediaType: string, bytes: Buffer): Promise<boolean> {
  const digest = hash("sha256", bytes);
  if (digest !== sha256)
    throw new Refusal("EVIDENCE_INVALID", `the bytes have the digest ${digest}, not ${sha256}`, {
      sha256: digest,
      fields: [{ field: "sha256", rule: "digest", message: `isn't the digest of the bytes, which is ${digest}` }],
    });
  const known = await tx.db.select({ sha256: blobs.sha256 }).from(blobs).where(mine(tenantId, sha256)).get();
  if (known) return false;
  const row = { tenantId, sha256, mediaType, bytes, createdAt: tx.now };
  return (await tx.db.insert(blobs).values(row).onConflictDoNothing().returning({ sha256: blobs.sha256 })).length > 0;
}

export async function get(tx: Tx, { tenantId }: Caller, sha256: string): Promise<{ mediaType: string; bytes: Buffer }> {
  return found("picture", await tx.db.select().from(blobs).where(mine(tenantId, sha256)).get());
}
