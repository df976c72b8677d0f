// Who may do what: every scope of the spec, its legacy names and what satisfies what. One table; everyone reads it.

/** Who has an alias has the scope, and the other way round; what else satisfies it is no name of it. */
type ScopeRow = { says: string; alias?: string; satisfiedBy?: readonly string[] };

export const scopes = {
  "products:read": { says: "read products, events, categories", alias: "products:view" },
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
  "credential:read": { says: "read verifiable credentials", alias: "credentials:read" },
  "credential:write": { says: "issue and revoke verifiable credentials", alias: "credentials:write" },
  "credential:verify": { says: "verify credentials; not implied by read or write", alias: "credentials:verify" },
  "production:create": { says: "allocate carriers, report print outcomes" },
  "production:view": { says: "export carriers" },
  "platform:admin": { says: "create, list and change tenants, retire signing keys; `*:*` doesn't imply it", satisfiedBy: ["platform:*"] },
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

const rows = Object.entries(scopes) as [Scope, ScopeRow][];
const scopeOf = new Map<string, Scope>(rows.flatMap(([name, { alias }]) => (alias ? [[alias, name]] : [])));

/** What satisfies a scope beside itself. */
export const othersThatDo = ({ alias, satisfiedBy = [] }: ScopeRow): readonly string[] => (alias ? [alias, ...satisfiedBy] : satisfiedBy);

/** Does a credential holding `granted` satisfy `wanted`? `*:*` stops at the tenant's door: it never reaches platform scopes. */
export function holds(granted: readonly string[], wanted: string): boolean {
  if (granted.includes(wanted)) return true;
  if (!wanted.startsWith("platform:") && granted.includes("*:*")) return true;
  const name = scopeOf.get(wanted) ?? wanted;
  const row: ScopeRow | undefined = scopes[name as Scope];
  return granted.includes(name) || (row !== undefined && othersThatDo(row).some((other) => granted.includes(other)));
}
