// Passports over HTTP: asked for, edited, published, validated, and the documents that strangers verify them with.
import { Type } from "typebox";
import { API } from "#shared/api.ts";
import { Refusal } from "#shared/errors.ts";
import { closed, IdParams, listOf, WholeQuery } from "#shared/wire/common.ts";
import {
  Passport,
  PassportCreate,
  PassportGenerate,
  PassportPatch,
  PassportListed,
  PassportQuery,
  PassportRegistered,
  PassportTaken,
  PassportVersionQuery,
  PassportWhole,
  Validated,
  Validations,
} from "#shared/wire/passports.ts";
import { PassportBundle } from "#shared/wire/trust.ts";
import { didDocument, statusList } from "../domain/issued-credentials.ts";
import * as domain from "../domain/passports.ts";
import * as registrations from "../domain/registrations.ts";
import * as validations from "../domain/validations.ts";
import { type Reply, type Route, routesUnder } from "../route.ts";

const { read, serve, write } = routesUnder("passports");
const at = (id: string) => ({ location: `${API}/passports/${id}` });
const reply = (body: Passport, status = 200, headers: Record<string, string> = {}): Reply => ({
  status,
  body,
  headers,
  about: {
    subject: body.id,
    details: { productId: body.uid, status: body.status, version: body.version, draftVersion: body.draftVersion },
  },
});
const commands = { revise: "passport.revised", suspend: "passport.suspended", archive: "passport.archived" } as const;
const command = (name: keyof typeof commands, says: string): Route =>
  write({
    method: "POST",
    path: `/passports/{id}/${name}`,
    scope: ["dpp:update"],
    says,
    params: IdParams,
    replies: { 200: Passport },
    refusals: ["GUARD_REJECTED"],
    audit: commands[name],
    run: async ({ tx, by, params, deps }) =>
      reply(name === "revise" ? await domain.revise(tx, by, params.id, deps) : await domain.move(tx, by, params.id, name)),
  });

export const passports: Route[] = [
  write({
    method: "POST",
    path: "/passports/generate",
    scope: ["dpp:edit"],
    says: "Ask for a passport of a product that is ready for one: taken now, made in a moment",
    body: PassportGenerate,
    example: { productId: "019a0000-0000-7000-8000-000000000000" },
    replies: { 202: PassportTaken },
    sends: ["Location"],
    refusals: ["NOT_FOUND", "PRODUCT_NOT_READY", "PASSPORT_EXISTS"],
    audit: "passport.requested",
    run: async ({ tx, by, body }) => {
      const { id, productId: uid, state: status } = await domain.request(tx, by, body.productId);
      return { status: 202, body: { data: { id, uid, status } }, headers: at(id), about: { subject: id, details: { productId: uid } } };
    },
  }),
  write({
    method: "POST",
    path: "/dpps",
    scope: ["dpp:create"],
    says: "Make a passport at once, with content of one's own or the product's",
    body: PassportCreate,
    example: { productId: "019a0000-0000-7000-8000-000000000000" },
    replies: { 201: Passport },
    sends: ["Location"],
    refusals: ["NOT_FOUND", "PRODUCT_NOT_READY", "PASSPORT_EXISTS"],
    audit: "passport.requested",
    run: async ({ tx, by, body, deps }) => {
      const made = await domain.create(tx, by, body.productId, body.content, deps);
      return reply(made, 201, at(made.id));
    },
  }),
  serve({
    path: "/passports",
    scope: ["dpp:read"],
    says: "The tenant's passports, newest first",
    query: PassportQuery,
    replies: { 200: listOf(PassportListed) },
    run: async ({ caller, query, deps }) => ({ status: 200, body: await domain.list(deps.store, caller, query) }),
  }),
  read({
    path: "/passports/{id}",
    scope: ["dpp:read"],
    says: "One passport, with the content and the credential of its current version, or of the one that is asked for",
    params: IdParams,
    query: PassportVersionQuery,
    replies: { 200: PassportWhole },
    run: async ({ tx, caller, params, query }) => ({ status: 200, body: await domain.get(tx, caller, params.id, query.version) }),
  }),
  write({
    method: "PATCH",
    path: "/passports/{id}",
    scope: ["dpp:update"],
    says: "Put other content into the open draft",
    params: IdParams,
    body: PassportPatch,
    example: { content: { type: ["ProductPassport"], granularityLevel: "model", product: { registeredId: "04006381333931" } } },
    replies: { 200: Passport },
    refusals: ["GUARD_REJECTED"],
    audit: "passport.edited",
    guard: async ({ tx, caller, params }) => void (await domain.mayEdit(tx, caller.tenantId, params.id)),
    run: async ({ tx, by, params, body, deps }) => reply(await domain.edit(tx, by, params.id, body.content, deps)),
  }),
  write({
    method: "DELETE",
    path: "/passports/{id}",
    scope: ["dpp:delete"],
    says: "Delete a passport that was never published",
    params: IdParams,
    replies: { 204: "Deleted" },
    refusals: ["GUARD_REJECTED"],
    audit: "passport.deleted",
    run: async ({ tx, by, params }) => {
      const { id, productId } = await domain.remove(tx, by, params.id);
      return { status: 204, about: { subject: id, details: { productId } } };
    },
  }),
  command("revise", "Open the next draft, from the product as it is now; the published version stays public"),
  command("suspend", "Take a published passport from the public for a while"),
  command("archive", "Put a passport away for good"),
  write({
    method: "POST",
    path: "/products/{id}/publish-dpp",
    scope: ["products:edit"],
    deniedAs: "FORBIDDEN",
    says: "Publish the product's passport: its draft becomes what the public sees, or what was suspended is seen again",
    params: IdParams,
    idempotencyKey: "required",
    replies: { 200: Passport },
    refusals: ["PASSPORT_NOT_PUBLISHABLE", "GUARD_REJECTED", "GTIN_CLAIMED"],
    audit: "product.published",
    run: async ({ tx, by, params }) => reply(await domain.publish(tx, by, params.id)),
  }),
  read({
    path: "/passports/{id}/validations",
    scope: ["dpp:read"],
    says: "The validation chain, and whether carriers may be printed",
    params: IdParams,
    query: closed(WholeQuery),
    replies: { 200: Validations },
    run: async ({ tx, caller, params, query }) => ({ status: 200, body: await validations.list(tx, caller, params.id, query) }),
  }),
  write({
    method: "POST",
    path: "/passports/{id}/validations",
    scope: ["dpp:edit"],
    says: "Sign the current version and anchor it: in the transparency log, and with the anchoring service where one is configured",
    params: IdParams,
    replies: { 201: Validated },
    refusals: ["GUARD_REJECTED", "ANCHORING_UNAVAILABLE", "ANCHORING_FAILED", "PASSPORT_CHANGED"],
    audit: "passport.anchored",
    prepare: async ({ caller, params: { id }, deps: { anchor, store } }): Promise<validations.Anchored | undefined> => {
      if (typeof anchor === "string") return undefined;
      const { version } = await store.read("validation", (tx) => validations.subjectOf(tx, caller.tenantId, id));
      const subject = { passportId: id, version: version.version, digest: version.digest };
      return { ...subject, receipt: await anchor(subject) };
    },
    run: async ({ tx, by, params, deps, prepared }) => {
      const made = await validations.validate(tx, by, params.id, deps, prepared);
      return { status: 201, body: made, about: { subject: params.id, details: { digest: made.digest, anchor: made.jrcAnchor } } };
    },
  }),
  serve({
    path: "/passports/{id}/proof",
    scope: ["dpp:read"],
    says: "All that `imprimatur verify` needs to judge the current version without us: credential, proof, status list, keys",
    params: IdParams,
    replies: { 200: PassportBundle },
    run: async ({ caller, params, deps }) => {
      const parts = await deps.store.read("proof", (tx) => validations.bundle(tx, caller, params.id, deps));
      return { status: 200, body: { ...parts, didDocument: await didDocument(deps) } };
    },
  }),
  write({
    method: "POST",
    path: "/passports/{id}/publish",
    scope: ["dpp:update"],
    says: "Broadcast the published version to the external registry; the same version again changes nothing",
    params: IdParams,
    replies: { 200: PassportRegistered },
    refusals: ["PASSPORT_NOT_PUBLISHABLE", "REGISTRY_UNAVAILABLE"],
    audit: "passport.registered",
    prepare: async ({ caller, params: { id }, deps: { registry, store, origin } }) => {
      const { subject, known, configured } = await store.read("registration", async (tx) => {
        await domain.find(tx, caller.tenantId, id);
        if (!registry) throw new Refusal("REGISTRY_UNAVAILABLE", "no external registry is configured: IMPRIMATUR_REGISTRY_URL names one");
        const subject = await domain.registrable(tx, caller.tenantId, id);
        return { subject, known: await registrations.ofVersion(tx, id, subject.version.version), configured: registry };
      });
      const { version, digest } = subject.version;
      const told = known ?? (await configured.register(registrations.entryOf(subject, origin())));
      return { version, digest, registrationId: told.registrationId, registry: configured.url };
    },
    run: async ({ tx, caller, params: { id }, prepared }) => {
      const registration = await registrations.record(tx, id, prepared);
      const passport = domain.toWire(await domain.find(tx, caller.tenantId, id));
      return { status: 200, body: { ...passport, registration }, about: { subject: id, details: registration } };
    },
  }),
  serve({
    path: "/.well-known/did.json",
    root: true,
    scope: "public",
    open: true,
    says: "The issuer of the credentials, with every key that it ever signed with (did:web)",
    replies: { 200: "application/did+json" },
    headers: { "cache-control": "no-cache" }, // as with jwks.json
    run: async ({ deps }) => ({ status: 200, body: await didDocument(deps), headers: { "content-type": "application/did+json" } }),
  }),
  read({
    path: "/status/{list}",
    root: true,
    scope: "public",
    open: true,
    says: "A status list: one bit a credential, set where it was revoked (Bitstring Status List)",
    params: closed({ list: Type.String({ pattern: "^(0|[1-9][0-9]{0,5})$" }) }),
    replies: { 200: "application/vc+jwt" },
    refusals: ["NOT_FOUND"],
    run: async ({ tx, params, deps }) => ({
      status: 200,
      body: await statusList(tx, Number(params.list), deps),
      headers: { "content-type": "application/vc+jwt", "cache-control": "public, max-age=60" },
    }),
  }),
];
