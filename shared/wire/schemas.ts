// A category's schema as discovery shows it: the very object that create, batch, PATCH and import judge by.
import { Type } from "typebox";
import { closed, Instant, InstantOrDay, nullable, type Static } from "./common.ts";

const window = {
  jurisdiction: Type.String(),
  effectiveFrom: nullable(Instant),
  effectiveUntil: nullable(Instant),
};

export const CategoryEntry = closed({
  category: Type.String(),
  title: Type.String(),
  effectiveNow: Type.Boolean(),
  ...window,
  versions: Type.Array(closed({ schemaId: Type.String(), version: Type.String(), ...window, effectiveNow: Type.Boolean() })),
});
export type CategoryEntry = Static<typeof CategoryEntry>;

export const CategorySchema = closed({
  schemaId: Type.String(),
  schemaRegistryId: Type.String(),
  category: Type.String(),
  title: Type.String(),
  version: Type.String(),
  ...window,
  basis: Type.Array(Type.String({ description: "CELEX number of what it follows" })),
  fieldSchema: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: "JSON Schema of the extensions" })),
  _links: closed({ self: Type.String(), importTemplate: Type.String() }),
});
export type CategorySchema = Static<typeof CategorySchema>;

/** One that nobody knows is a miss, not a matter of shape. */
const Jurisdiction = Type.String({ minLength: 1, maxLength: 100, description: "EU where absent; its members have its schemas" });
export const SchemaQuery = closed({
  jurisdiction: Type.Optional(Jurisdiction),
  date: Type.Optional(InstantOrDay),
  includeFields: Type.Optional(Type.Boolean({ default: true })),
});
export const TemplateQuery = closed({ jurisdiction: Type.Optional(Jurisdiction) });
export const CategoryParams = closed({ category: Type.String({ minLength: 1 }) });
