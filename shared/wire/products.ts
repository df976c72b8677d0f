// A product: a tenant's commercial item, from draft to the brink of its passport.
import { Type } from "typebox";
import { limits } from "../limits.ts";
import { granularities, productStages, productStatuses } from "../states.ts";
import { closed, Id, Instant, InstantOrDay, nullable, PageQuery, READABLE, Reason, shownAs, type Static, VISIBLE } from "./common.ts";

const ProductName = Type.String({ minLength: 1, maxLength: limits.PRODUCT_NAME_MAX_LENGTH, pattern: VISIBLE });
const Description = Type.String({ minLength: limits.DESCRIPTION_MIN_LENGTH, maxLength: limits.DESCRIPTION_MAX_LENGTH, pattern: READABLE });
const Category = Type.String({ minLength: 1, description: "One of GET /schemas/categories that is effective now" });
const Gtin = Type.String({ description: "8, 12, 13 or 14 digits with a right check digit; kept with 14" });
const Serial = Type.String({ minLength: 1, description: "At most 20 characters of GS1's set 82: the SGTIN-96 bound" });
const Extensions = Type.Record(Type.String(), Type.Unknown(), { description: "The category's own fields, as its schema says" });
const Granularity = Type.Enum([...granularities]);
const Stage = Type.Enum(Object.keys(productStages) as (keyof typeof productStages)[]);
const Status = Type.Enum([...productStatuses]);

/** Lengths of serial and GTIN are judged by GS1's rules, and absent extensions are a 422: neither is a matter of shape. */
export const ProductCreate = closed(
  {
    name: ProductName,
    description: Description,
    category: Category,
    gtin: Gtin,
    serialNumber: Serial,
    extensions: Type.Optional(Extensions),
    granularity: Type.Optional(Granularity),
  },
  { asksToo: { required: ["name", "description", "category", "gtin", "serialNumber", "extensions"] } },
);
export type ProductCreate = Static<typeof ProductCreate>;

/** Any part of it. */
export const ProductPatch = Type.Partial(ProductCreate, { additionalProperties: false });
export type ProductPatch = Static<typeof ProductPatch>;

export const Product = closed({
  id: Id,
  status: Status,
  stage: Stage,
  productName: Type.String(),
  productDescription: Type.String(),
  category: Type.String(),
  gtin: Type.String(),
  serialNumber: Type.String(),
  granularity: Granularity,
  extensions: Extensions,
  schemaVersion: Type.String({ description: "Version of the category's schema that the extensions were judged by" }),
  version: Type.Integer({ description: "Counts the changes; the ETag is this number in quotes" }),
  voidedAt: nullable(Instant),
  voidReason: nullable(Type.String()),
  createdAt: Instant,
  updatedAt: Instant,
});
export type Product = Static<typeof Product>;

export const ProductQuery = closed({
  ...PageQuery,
  category: Type.Optional(Category),
  status: Type.Optional(Status),
  gtin: Type.Optional(Gtin),
  q: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: "A part of the name, in any case" })),
  updatedSince: Type.Optional({
    ...InstantOrDay,
    description: `What changed at that instant or later, by \`updatedAt\`; where several nodes share a store a change may come to be seen up to ${limits.COMMIT_LATE_MAX_MS / 1_000} s after it: who must miss none asks from so long before the latest that he knows`,
  }),
});
export type ProductQuery = Static<typeof ProductQuery>;

export const ProductBatch = closed({
  items: Type.Array(shownAs(ProductCreate), { minItems: 1, maxItems: limits.BATCH_MAX_ITEMS }),
});
export const BatchResult = closed({
  created: Type.Integer(),
  failed: Type.Integer(),
  errors: Type.Array(closed({ index: Type.Integer(), error: Type.String({ description: "CODE: field: message" }) })),
});
export type BatchResult = Static<typeof BatchResult>;

export const Transition = closed({ stage: Stage, reason: Type.Optional(Reason) });
export type Transition = Static<typeof Transition>;
export const Void = closed({ reason: Reason, serial: Type.Optional(Serial) });
export type Void = Static<typeof Void>;

const Actor = closed({ kind: Type.String(), id: nullable(Type.String()), name: Type.String() });

export const ProductVersion = closed({
  version: Type.Integer(),
  at: Instant,
  actor: Actor,
  correlationId: Type.String(),
  type: Type.String({ description: "The event that tells of it" }),
  changed: Type.Array(Type.String(), {
    description: "The product's fields that it changed: none where its passport was published, or one of its serials voided",
  }),
  reason: Type.Optional(nullable(Type.String())),
  serial: Type.Optional(Type.String({ description: "The serial that was voided" })),
  passportVersion: Type.Optional(Type.Integer({ description: "The passport's version that was published" })),
  snapshot: Product,
});
export type ProductVersion = Static<typeof ProductVersion>;

export const DomainEvent = closed({
  id: Id,
  type: Type.String(),
  timestamp: Instant,
  correlationId: Type.String(),
  actor: Actor,
  data: Type.Record(Type.String(), Type.Unknown()),
});
export type DomainEvent = Static<typeof DomainEvent>;

export const CategoryUse = closed({ category: Type.String(), products: Type.Integer(), effectiveNow: Type.Boolean() });
