// Who may do what: every scope of the spec, its legacy names and what satisfies what. One table; everyone reads it.

type ScopeRow = { says: string; satisfiedBy?: readonly string[] };

export const scopes = {
  "products:read": { says: "read products, events, categories", satisfiedBy: ["products:view"] },
  "products:create": { says: "create products" },
  "products:edit": { says: "update products, register Digital Link, void" },
  "products:delete": { says: "delete products" },
  "identifiers:read": { says: "read carrier and serial identifier allocations" },
  "epcis:capture": { says: "capture EPCIS 2.0 events and read the EPCIS surface" },
  "aidc:read": { says: "read print jobs, job history, device registry", satisfiedBy: ["supply_chain:view", "production:view"] },
  "aidc:write": { says: "issue print jobs, claim, heartbeat, report, manage devices", satisfiedBy: ["supply_chain:edit"] },
  "autoid:verify": { says: "label verification (grantable; no endpoint asks for it)" },
  "dpp:read": { says: "resolve and read passports", satisfiedBy: ["dpp:*"] },
  "dpp:edit": { says: "generate a passport and anchor validation results", satisfiedBy: ["dpp:*"] },
  "dpp:create": { says: "create passports", satisfiedBy: ["dpp:*"] },
  "dpp:update": { says: "update passports: content, elements, publish", satisfiedBy: ["dpp:*"] },
  "dpp:delete": { says: "delete passports", satisfiedBy: ["dpp:*"] },
  "webhooks:manage": { says: "webhooks, their tests, secrets and deliveries" },
  "credential:read": { says: "read verifiable credentials", satisfiedBy: ["credentials:read"] },
  "credential:write": { says: "issue and revoke verifiable credentials", satisfiedBy: ["credentials:write"] },
  "credential:verify": { says: "verify credentials; not implied by read or write", satisfiedBy: ["credentials:verify"] },
  "production:create": { says: "allocate carriers, report print outcomes" },
  "production:view": { says: "export carriers" },
  "platform:admin": { says: "create and list tenants; `*:*` doesn't imply it", satisfiedBy: ["platform:*"] },
  "*:*": { says: "everything inside the tenant" },
} as const satisfies Record<string, ScopeRow>;

/** A scope that a route can ask for. */
export type Scope = keyof typeof scopes;

/** Grantable names that no route asks for by themselves. */
export const otherGrants = {
  "products:view": "legacy name of products:read",
  "supply_chain:view": "satisfies aidc:read",
  "supply_chain:edit": "satisfies aidc:write",
  "credentials:read": "plural of credential:read",
  "credentials:write": "plural of credential:write",
  "credentials:verify": "plural of credential:verify",
  "dpp:*": "every dpp scope",
  "passport:write": "legacy; implies no dpp scope",
  "platform:*": "everything of the platform operator's",
} as const;

export const grantable: readonly string[] = [...Object.keys(scopes), ...Object.keys(otherGrants)];

/** Names of the same: who has one has the other. */
const sameAs: Readonly<Record<string, Scope>> = {
  "products:view": "products:read",
  "credentials:read": "credential:read",
  "credentials:write": "credential:write",
  "credentials:verify": "credential:verify",
};

/** Does a credential holding `granted` satisfy `wanted`? `*:*` stops at the tenant's door: it never reaches platform scopes. */
export function holds(granted: readonly string[], wanted: string): boolean {
  const name = sameAs[wanted] ?? wanted;
  if (granted.includes(wanted) || granted.includes(name)) return true;
  if (!wanted.startsWith("platform:") && granted.includes("*:*")) return true;
  const row: ScopeRow | undefined = scopes[name as Scope];
  return row?.satisfiedBy?.some((alias) => granted.includes(alias)) ?? false;
}
