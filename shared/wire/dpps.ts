// EN 18222's read routes and EN 18223's envelope: a passport as any other system's passports look.
import { Type } from "typebox";
import { limits } from "../limits.ts";
import { granularities } from "../states.ts";
import { closed, ErrorReply, Instant, PageQuery, type Static } from "./common.ts";

const Word = (maxLength: number, description: string) => Type.String({ minLength: 1, maxLength, description });

export const DppParams = closed({ dppId: Word(100, "digitalProductPassportId (urn:uuid:…), or the passport's id alone") });
export const DppProductParams = closed({ productId: Word(500, "The product's Digital Link, percent-encoded once, or its id") });
export const DppQuery = closed({ representation: Type.Optional(Type.Enum(["compressed", "full"])) });
export const DppIdsQuery = closed(PageQuery);
export const DppIdsAsked = closed({
  productIds: Type.Array(Word(500, "A Digital Link or a product's id"), { minItems: 1, maxItems: limits.DPP_PRODUCT_IDS_MAX_ITEMS }),
});
export const DppIds = closed({ dppIds: Type.Array(Type.String()), nextCursor: Type.Optional(Type.String()) });

const OBJECT_TYPES = ["SingleValuedDataElement", "MultiValuedDataElement", "DataElementCollection"] as const;
/** `value` of a collection is a list of elements again. */
const DppElement = Type.Object({
  elementId: Type.String(),
  objectType: Type.Enum([...OBJECT_TYPES]),
  valueDataType: Type.Optional(Type.String()),
  dictionaryReference: Type.Optional(Type.String()),
  value: Type.Unknown(),
});
export type DppElement = Static<typeof DppElement>;

/** Compressed, the data stands beside these as keys and values; full, as `elements`. Only an active passport has any. */
export const Dpp = Type.Object({
  digitalProductPassportId: Type.String({ description: "A URI" }),
  uniqueProductIdentifier: Type.String({ description: "A Digital Link" }),
  granularity: Type.Enum([...granularities]),
  dppSchemaVersion: Type.Literal("EN 18223:2026"),
  dppStatus: Type.Enum(["active", "inactive", "archived", "invalid"]),
  lastUpdated: { ...Instant, description: "When it last changed: its status, what it says, or what is drafted of that" },
  economicOperatorId: Type.String({ description: "A URI" }),
  contentSpecificationIds: Type.Array(Type.String()),
  elements: Type.Optional(Type.Array(DppElement)),
});
export type Dpp = Static<typeof Dpp>;

export const DPP_STATUS_CODES = [
  "ClientErrorBadRequest",
  "ClientNotAuthorized",
  "ClientForbidden",
  "ClientMethodNotAllowed",
  "ClientErrorResourceNotFound",
  "ClientResourceConflict",
  "ServerInternalError",
] as const;
/** EN 18222's failure, beside the envelope that all our refusals have. */
export const DppFailure = Type.Object(
  {
    ...ErrorReply.properties,
    statusCode: Type.Enum([...DPP_STATUS_CODES]),
    message: Type.Array(
      Type.Object({ messageType: Type.Literal("Error"), text: Type.String(), code: Type.String(), correlationId: Type.String() }),
    ),
  },
  { additionalProperties: false, description: "Every answer that isn't a success, in both forms" },
);
export type DppFailure = Static<typeof DppFailure>;
