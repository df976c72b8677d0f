// A tenant: the door that every credential, product and label stands behind.
import { Type } from "typebox";
import { limits } from "../limits.ts";
import { closed, COMPANY_PREFIX, Id, Instant, InstantOrDay, MaxAttempts, Name, nullable, Secret, type Static, Word } from "./common.ts";

const CompanyPrefixes = Type.Array(Type.String({ pattern: COMPANY_PREFIX, description: "GS1 company prefix, 6 to 12 digits" }), {
  maxItems: limits.COMPANY_PREFIXES_MAX_ITEMS,
  uniqueItems: true,
});
const TierName = Type.Enum(["sandbox", "standard", "pro"]);

export const TenantCreate = closed({
  name: Name,
  sandbox: Type.Optional(Type.Boolean({ default: false })),
  expiresAt: Type.Optional(nullable(InstantOrDay)),
  tier: Type.Optional(TierName),
  companyPrefixes: Type.Optional(CompanyPrefixes),
});
export type TenantCreate = Static<typeof TenantCreate>;

export const TenantPatch = closed({
  name: Type.Optional(Name),
  companyPrefixes: Type.Optional(CompanyPrefixes),
  labelTemplate: Type.Optional(nullable(Word)),
  offlineGraceSeconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 604_800 })),
  maxAttempts: Type.Optional(MaxAttempts),
});
export type TenantPatch = Static<typeof TenantPatch>;

/** What is the platform's to set: a tenant can't give itself a larger budget, or a longer life. */
export const TenantTerms = closed({
  tier: Type.Optional(TierName),
  expiresAt: Type.Optional(nullable(InstantOrDay)),
});
export type TenantTerms = Static<typeof TenantTerms>;

export const Tenant = closed({
  id: Id,
  name: Type.String(),
  tier: TierName,
  sandbox: Type.Boolean(),
  expiresAt: nullable(Instant),
  companyPrefixes: Type.Array(Type.String()),
  labelTemplate: nullable(Type.String()),
  offlineGraceSeconds: Type.Integer(),
  maxAttempts: Type.Integer(),
  createdAt: Instant,
  updatedAt: Instant,
});
export type Tenant = Static<typeof Tenant>;

export const TenantMinted = closed({
  data: Tenant,
  adminKey: closed({ id: Id, secret: Secret }),
});
