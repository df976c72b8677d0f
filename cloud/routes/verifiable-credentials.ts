// Verifiable credentials over HTTP: looked at, judged, revoked one by one.
import { Type } from "typebox";
import { limits } from "#shared/limits.ts";
import { closed, listOf, PageQuery } from "#shared/wire/common.ts";
import { Credential, CredentialListed, CredentialVerdict, CredentialVerify } from "#shared/wire/trust.ts";
import * as domain from "../domain/verifiable-credentials.ts";
import { type Route, routesUnder } from "../route.ts";

const { read, write } = routesUnder("verifiable credentials");
const params = closed({
  id: Type.String({ minLength: 1, maxLength: 200, description: "Its id, the id written in it (percent-encoded), or its passport's" }),
});
/** What a stranger wrote may stand in the audit log only where it is plain text. */
const shown = (id: unknown): string | null => (typeof id === "string" && /^[\x21-\x7e]{1,300}$/.test(id) ? id : null);

export const verifiableCredentials: Route[] = [
  write({
    method: "POST",
    path: "/credentials/verify",
    scope: ["credential:verify"],
    says: "Judge a credential: signature, issuer, validity, status and schema, each by itself",
    body: CredentialVerify,
    bodyMaxBytes: 2 * limits.BODY_MAX_BYTES, // one is longer by a third than the text it was made of
    example: { credential: "eyJhbGciOiJFZERTQSJ9.e30.c2lnbmF0dXJl" },
    replies: { 200: CredentialVerdict },
    audit: "passport.credential_verified",
    prepare: ({ body, deps }) => domain.examine(body.credential, deps),
    run: async ({ tx, deps, prepared }) => {
      const judged = await domain.verify(tx, prepared, deps);
      const outcomes = Object.fromEntries(judged.checks.map(({ name, outcome }) => [name, outcome]));
      return {
        status: 200,
        body: judged,
        about: { subject: shown(prepared.opened?.payload["id"]), details: { verdict: judged.verdict, ...outcomes } },
      };
    },
  }),
  read({
    path: "/credentials",
    scope: ["credential:read"],
    says: "The credentials of the tenant's passports, of all their versions, newest first; each by itself is shown with what was signed",
    query: closed(PageQuery),
    replies: { 200: listOf(CredentialListed) },
    run: async ({ tx, caller, query }) => ({ status: 200, body: await domain.list(tx, caller.tenantId, query) }),
  }),
  read({
    path: "/credentials/{id}",
    scope: ["credential:read"],
    says: "One credential of a passport's version: by its id, the id written in it, or its passport's, which means the current version's",
    params,
    replies: { 200: Credential },
    run: async ({ tx, caller, params }) => ({ status: 200, body: await domain.get(tx, caller.tenantId, params.id) }),
  }),
  write({
    method: "POST",
    path: "/credentials/{id}/revoke",
    scope: ["credential:write"],
    says: "Revoke one credential for good: its bit is set in the status list, and its version isn't ready to print any more",
    params,
    replies: { 200: Credential },
    refusals: ["ALREADY_REVOKED"],
    audit: "passport.credential_revoked",
    run: async ({ tx, caller, params }) => {
      const revoked = await domain.revokeOne(tx, caller.tenantId, params.id);
      const { id, passportId, version } = revoked;
      return { status: 200, body: revoked, about: { subject: passportId, details: { credentialId: id, version } } };
    },
  }),
];
