// A passport: what is said in public about a product, version by version, signed and anchored.
import { Type } from "typebox";
import { passportStates } from "../states.ts";
import { Registration } from "./trust.ts";
import { closed, Id, Instant, MoreCursor, nullable, PageQuery, type Static } from "./common.ts";

const description = "The credential's subject: a UNTP ProductPassport in JSON-LD";
const Content = Type.Record(Type.String(), Type.Unknown(), { description });
const State = Type.Enum([...passportStates]);
const [Thing, List] = [Type.Optional(Type.Record(Type.String(), Type.Unknown())), Type.Optional(Type.Array(Type.Unknown()))];
/** The sections of UNTP's ProductPassport 0.6.0, each a thing or a list; what else is said beside them is free. */
const passportSections = {
  conformityClaim: List,
  emissionsScorecard: Thing,
  traceabilityInformation: List,
  circularityScorecard: Thing,
  dueDiligenceDeclaration: Thing,
  materialsProvenance: List,
};
const OwnContent = Type.Object(passportSections, { description, additionalProperties: true });

export const PassportGenerate = closed({ productId: Id });
export const PassportTaken = closed({ data: closed({ id: Id, uid: Id, status: State }) });

export const Passport = closed({
  id: Id,
  upi: Type.String({ description: "The passport's id" }),
  uid: Type.String({ description: "The product's id, by which the passport is found in public" }),
  status: State,
  version: nullable(Type.Integer({ description: "The published version where there is one, else the draft" })),
  publishedVersion: nullable(Type.Integer()),
  draftVersion: nullable(Type.Integer()),
  revokedAt: nullable(Type.String({ ...Instant, description: "When all its credentials were revoked with the product" })),
  createdAt: Instant,
  updatedAt: Instant,
});
export type Passport = Static<typeof Passport>;

const CredentialRevokedAt = nullable(
  Type.String({ ...Instant, description: "When the version's credential was revoked, by itself or with the product" }),
);
export const PassportListed = closed({ ...Passport.properties, credentialRevokedAt: CredentialRevokedAt });
export type PassportListed = Static<typeof PassportListed>;

export const PassportWhole = closed({
  ...PassportListed.properties,
  version: nullable(Type.Integer({ description: "The one shown: the current version, or the one that was asked for" })),
  content: nullable(Content),
  digest: nullable(Type.String({ description: "SHA-256 of the content by RFC 8785" })),
  credential: nullable(Type.String({ description: "The version as a W3C Verifiable Credential 2.0, application/vc+jwt" })),
  credentialId: nullable(Type.String({ description: "Its id at /credentials/{id}" })),
  registration: nullable(Registration),
});
export type PassportWhole = Static<typeof PassportWhole>;

export const PassportRegistered = closed({ ...Passport.properties, registration: Registration });

export const PassportQuery = closed({ ...PageQuery, status: Type.Optional(State), productId: Type.Optional(Id) });
export type PassportQuery = Static<typeof PassportQuery>;
export const PassportVersionQuery = closed({
  version: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: "Another version than the current one, the open draft for instance",
    }),
  ),
});
export const PassportPatch = closed({ content: OwnContent });
export const PassportCreate = closed({ productId: Id, content: Type.Optional(OwnContent) });

const Validation = closed({
  eventId: Id,
  occurredAt: Instant,
  digest: Type.String(),
  signatureAlgorithm: Type.String(),
  jrcAnchor: Type.String({
    description: "Where it is anchored: origin#index in the transparency log, or what the anchoring service named",
  }),
});
export const Validations = closed({
  upi: Id,
  validations: Type.Array(Validation),
  readyToPrint: Type.Boolean(),
  nextCursor: MoreCursor,
});
export type Validations = Static<typeof Validations>;
/** The contract shows an entry and doesn't say whether it stands in `data`, as what is asked for elsewhere does: it stands in both places. */
export const Validated = closed({ ...Validation.properties, readyToPrint: Type.Boolean(), data: Validation });
