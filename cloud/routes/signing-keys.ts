// Signing keys over HTTP: for those who run the platform.
import { closed, listOf, PageQuery } from "#shared/wire/common.ts";
import { KidParams, SigningKey } from "#shared/wire/signing-keys.ts";
import * as domain from "../domain/signing-keys.ts";
import { type Route, routesUnder } from "../route.ts";

const { read, write } = routesUnder("signing keys");

export const signingKeys: Route[] = [
  read({
    path: "/signing-keys",
    scope: ["platform:admin"],
    says: "The keys that this cloud has signed with, newest first",
    query: closed(PageQuery),
    replies: { 200: listOf(SigningKey) },
    run: async ({ tx, query }) => ({ status: 200, body: await domain.list(tx, query) }),
  }),
  write({
    method: "POST",
    path: "/signing-keys/{kid}/retire",
    scope: ["platform:admin"],
    says: "Retire a signing key that leaked: half a minute later nothing that it signed counts, and passports are signed anew",
    params: KidParams,
    replies: { 200: SigningKey },
    audit: "auth.signing_key_retired",
    run: async ({ tx, params }) => {
      const { key, isNew } = await domain.retire(tx, params.kid);
      return { status: 200, body: key, quiet: !isNew, about: { subject: params.kid } };
    },
  }),
];
