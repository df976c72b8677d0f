// What the audit log can say: the action's class is the word before the dot.

export const auditActions = {
  "auth.bootstrap_key_set": "the first admin key was made, or replaced by a new IMPRIMATUR_BOOTSTRAP_KEY",
  "auth.key_created": "an API key was minted",
  "auth.key_rotated": "a key's secret was replaced; the old one died in the same commit",
  "auth.key_revoked": "an API key was revoked",
  "auth.client_created": "an OAuth client was minted",
  "auth.client_deleted": "an OAuth client and all its tokens died",
  "auth.token_issued": "an access token was issued",
  "auth.token_refused": "a known client came with a wrong secret",
  "auth.scope_denied": "a good credential lacked a scope",
  "tenant.created": "a tenant was created",
  "tenant.updated": "a tenant's settings were changed",
  "product.created": "a product was created",
  "product.batch_created": "products were created in a batch; the details count them",
  "product.updated": "a product was changed",
  "product.transitioned": "a product moved to another stage, with the reason given",
  "product.voided": "a product was voided, with the reason given",
  "product.deleted": "a product was deleted",
  "product.published": "a product's passport was published",
  "passport.requested": "a passport was asked for",
  "passport.edited": "a passport's draft was changed",
  "passport.revised": "the next draft of a published passport was opened",
  "passport.suspended": "a passport was suspended",
  "passport.archived": "a passport was archived",
  "passport.deleted": "a passport's draft was deleted",
  "passport.anchored": "a passport's current version was signed and anchored in the log",
  "product.import_begun": "a file of products was taken in for import",
  "product.events_captured": "EPCIS events were handed in; the details say how many were new",
} as const;

export type AuditAction = keyof typeof auditActions;
export const auditClasses = ["auth", "tenant", "product", "passport", "print", "device", "webhook"] as const;
