// The shapes that every noun is built from.
import { type Static, type TProperties, type TSchema, Type } from "typebox";
import { saying } from "../sayings.ts";
import { limits } from "../limits.ts";
import { grantable } from "../scopes.ts";

/** An object without room for a field that nobody declared; `asksToo` is what else it has to hold, and `shownAs` all of that, where code refuses it in words of its own. */
export const closed = <Properties extends TProperties>(
  properties: Properties,
  options: { description?: string; minProperties?: number; asksToo?: object; shownAs?: TSchema } = {},
) => Type.Object(properties, { additionalProperties: false, ...options });

/** An object with any members. It says so, as else generated clients take it for one that has none. */
export const AnyObject = Type.Object({}, { additionalProperties: Type.Unknown() });

export const nullable = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()]);

/** Lets all of it in, because it is judged where more is known, and says to a reader of the document what is asked for then. */
export const shownAs = (shape: TSchema) => Type.Unknown({ shownAs: shape });

export const Instant = Type.String({ format: "date-time", maxLength: 40, description: "ISO 8601 in UTC, with milliseconds" });
/** Where people name a day as easily: laws begin with one, sandboxes end with one. */
export const InstantOrDay = Type.Union([Instant, Type.String({ format: "date", description: "Or a day: its beginning in UTC" })]);
const SHA256 = "^[0-9a-f]{64}$";
export const Sha256 = Type.String({ pattern: SHA256, description: "SHA-256 in hex" });
export const Id = Type.String({ minLength: 1, maxLength: 64, description: "UUIDv7" });
/** Something to see in it, and nothing that moves the cursor or turns the line around. */
export const VISIBLE = "^(?=.*[\\p{L}\\p{N}\\p{P}\\p{S}])[^\\p{Cc}\\u202a-\\u202e\\u2066-\\u2069]*$";
/** The same for text of several lines. */
export const READABLE = "^(?=[\\s\\S]*[\\p{L}\\p{N}\\p{P}\\p{S}])(?:[\\t\\n\\r]|[^\\p{Cc}\\u202a-\\u202e\\u2066-\\u2069])*$";
/** Or no text at all, by those who send every field. */
export const READABLE_OR_EMPTY = `${READABLE}|^$`;
/** Bytes, and what a tag holds. */
export const HEX = "^[A-Fa-f0-9]+$";
export const EPC_96 = "^[0-9A-Fa-f]{24}$";
export const COMPANY_PREFIX = "^[0-9]{6,12}$";
/** Of EPCIS: an event's offset, the code of a unit, the versions that are spoken. */
export const OFFSET = "^[+-](?:(?:0\\d|1[0-3]):[0-5]\\d|14:00)$";
export const UNIT_CODE = "^[A-Z0-9]{2,3}$";
export const EPCIS_2 = "^2(?:\\.\\d+)*$";
/** Of the catalogue's categories: what a substance is registered under, and a country. */
const CAS = "^[0-9]{2,7}-[0-9]{2}-[0-9]$";
const COUNTRY = "^[A-Z]{2}$";
const SEEN = saying("must_be_visible");
/** How a refusal says what a pattern asks for: an expression tells nobody what to send. */
export const patternWords: Record<string, string> = {
  [SHA256]: "must be a SHA-256 in hex: 64 characters, 0 to 9 and a to f",
  [VISIBLE]: SEEN,
  [READABLE]: SEEN,
  [READABLE_OR_EMPTY]: SEEN,
  [HEX]: "must be hex digits",
  [EPC_96]: "must be an SGTIN-96 in hex: 24 digits",
  [COMPANY_PREFIX]: "must be a GS1 company prefix, 6 to 12 digits",
  [OFFSET]: "must be an offset from -14:00 to +14:00, such as +01:00, and never Z",
  [UNIT_CODE]: "must be a unit's code of UN/CEFACT Recommendation 20, such as KGM",
  [CAS]: saying("must_be_cas"),
  [COUNTRY]: saying("must_be_country"),
  [EPCIS_2]: "must be 2.0, the version of EPCIS that is spoken here",
};
/** What people call a device, a printer, a template, an operator. */
export const Word = Type.String({ minLength: 1, maxLength: 64, pattern: VISIBLE });
export const Name = Type.String({ minLength: 1, maxLength: limits.NAME_MAX_LENGTH, pattern: VISIBLE });
const ScopeName = Type.Enum([...grantable], { description: "A scope; the README lists them" });
export const Scopes = Type.Array(ScopeName, { minItems: 1, maxItems: limits.SCOPES_MAX_ITEMS, uniqueItems: true });

/** Physical tries of a print job, by whoever may say how many: its tenant, or who issues it. */
export const MaxAttempts = Type.Integer({ minimum: 1, maximum: 20 });
export const Reason = Type.String({ minLength: 1, maxLength: limits.REASON_MAX_LENGTH, pattern: READABLE });
/** Of a credential, in the answer that makes it. */
export const Secret = nullable(Type.String({ description: "Shown once; null in a replay" }));

export const IdParams = closed({ id: Id });
export const PageQuery = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: limits.PAGE_MAX_ITEMS, default: limits.PAGE_DEFAULT_ITEMS })),
  cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: "nextCursor of the page before" })),
};
/** Of a list that was shown whole: as much as a page may have, and a cursor only where there is more. */
export const WholeQuery = {
  ...PageQuery,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: limits.PAGE_MAX_ITEMS, default: limits.PAGE_MAX_ITEMS })),
};
export const MoreCursor = Type.Optional(Type.String({ description: "Only where there is more" }));
export const listOf = <Schema extends TSchema>(item: Schema) => closed({ data: Type.Array(item), nextCursor: nullable(Type.String()) });

export const ErrorReply = Type.Object(
  {
    error: closed({
      code: Type.String(),
      message: Type.String(),
      details: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    }),
  },
  { additionalProperties: false, description: "Every answer that isn't a success" },
);
export const ProblemReply = Type.Object(
  { type: Type.String(), title: Type.String(), status: Type.Integer(), detail: Type.String(), error: ErrorReply.properties.error },
  { additionalProperties: false, description: "The same as a problem (RFC 9457), for those who accept that" },
);

export type { Static };
