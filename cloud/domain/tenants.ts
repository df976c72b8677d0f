// Tenants: made by the platform, each with its first admin key and its own audit chain.
import { eq } from "../store/drizzle.ts";
import { type Caller, credentialDied } from "./callers.ts";
import { newIdIn } from "./ids.ts";
import { invalid, Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import type { Tenant, TenantCreate, TenantPatch, TenantTerms } from "#shared/wire/tenants.ts";
import type { Seal } from "../seal.ts";
import { tenants } from "../store/schema.ts";
import { LOCKED, run, type Tx } from "../store/store.ts";
import * as apiKeys from "./api-keys.ts";
import * as audit from "./audit.ts";
import { instant } from "./instant.ts";
import { newestOf, type PageQuery } from "./page.ts";
import * as serialSecrets from "./serial-secrets.ts";

type Row = typeof tenants.$inferSelect;

const toWire = (row: Row): Tenant => ({
  ...row,
  tier: row.tier as Tenant["tier"],
  expiresAt: instant(row.expiresAt),
  createdAt: instant(row.createdAt),
  updatedAt: instant(row.updatedAt),
});

const rowOf = (now: number, id: string, { name, sandbox = false, expiresAt, tier, companyPrefixes = [] }: TenantCreate): Row => ({
  id,
  name,
  tier: tier ?? (sandbox ? "sandbox" : "standard"),
  sandbox,
  expiresAt: expiresAt ? Date.parse(expiresAt) : null,
  companyPrefixes,
  labelTemplate: null,
  offlineGraceSeconds: limits.OFFLINE_GRACE_DEFAULT_S,
  maxAttempts: limits.ATTEMPTS_DEFAULT_MAX,
  createdAt: now,
  updatedAt: now,
});

export async function create(
  tx: Tx,
  input: TenantCreate,
  seal: Seal,
): Promise<{ tenant: Tenant; adminKey: { id: string; secret: string } }> {
  const row = rowOf(tx.now, newIdIn(tx), input);
  await tx.db.insert(tenants).values(row);
  await audit.beginChain(tx, row.id);
  await serialSecrets.begin(tx, row.id, seal);
  const { id, secret } = await apiKeys.insert(tx, row.id, { name: "admin", scopes: ["*:*"] });
  return { tenant: toWire(row), adminKey: { id, secret } };
}

const HOLD = `SELECT id FROM tenants WHERE id = ? ${LOCKED}`;
/** Whoever does likewise comes after the commit: for who decides by how much of something the tenant has. */
export const hold = async (_tx: Tx, id: string): Promise<void> => void (await run(HOLD, [id], "all"));

/** The tenant of those who run the platform; its id is the same everywhere, so that two nodes can't make two of it. */
export const DEFAULT_TENANT = "01900000-0000-7000-8000-000000000000";

export async function ensureDefault(tx: Tx): Promise<void> {
  const made = await tx.db
    .insert(tenants)
    .values(rowOf(tx.now, DEFAULT_TENANT, { name: "default", tier: "pro" }))
    .onConflictDoNothing()
    .returning({ id: tenants.id });
  if (made.length > 0) await audit.beginChain(tx, DEFAULT_TENANT); // once: a chain whose head is gone isn't to be begun anew
}

export async function own(tx: Tx, caller: Caller): Promise<Tenant> {
  const row = await tx.db.select().from(tenants).where(eq(tenants.id, caller.tenantId)).get();
  if (!row) throw new Error(`the caller's tenant ${caller.tenantId} is gone`);
  return toWire(row);
}

export async function patch(tx: Tx, caller: Caller, changes: TenantPatch): Promise<Tenant> {
  await tx.db
    .update(tenants)
    .set({ ...changes, updatedAt: tx.now })
    .where(eq(tenants.id, caller.tenantId));
  return own(tx, caller);
}

async function rowById(tx: Tx, id: string): Promise<Row> {
  const row = await tx.db.select().from(tenants).where(eq(tenants.id, id)).get();
  if (!row) throw new Refusal("NOT_FOUND", "there is no such tenant");
  return row;
}

export const get = async (tx: Tx, id: string): Promise<Tenant> => toWire(await rowById(tx, id));

export async function setTerms(tx: Tx, caller: Caller, id: string, terms: TenantTerms, requestId: string): Promise<Tenant> {
  const { tier, expiresAt } = terms;
  if (!(await rowById(tx, id)).sandbox && expiresAt)
    throw invalid([{ field: "expiresAt", rule: "sandbox", message: "is when a sandbox ends, and this tenant is none" }]);
  const ends = expiresAt === undefined ? {} : { expiresAt: expiresAt === null ? null : Date.parse(expiresAt) };
  await tx.db
    .update(tenants)
    .set({ ...(tier && { tier }), ...ends, updatedAt: tx.now })
    .where(eq(tenants.id, id));
  credentialDied(tx); // as what they were
  if (id !== caller.tenantId)
    audit.append(tx, audit.ourselves(id, "platform"), { action: "tenant.updated", subject: id, details: terms, requestId });
  return get(tx, id);
}

export const list = (tx: Tx, query: PageQuery) => newestOf(tx, query, { table: tenants, where: undefined, toWire });
