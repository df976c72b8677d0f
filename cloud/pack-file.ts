// A regulation pack's file: rules are JSON Schemas over `{ product, extensions, passport }`, in the part of the language listed here, so that a pack needs no code.
import { Type } from "typebox";
import { lifecycleStages, severities, type Severity } from "#shared/compliance.ts";
import { closed, Instant, nullable, type Static, VISIBLE } from "#shared/wire/common.ts";
import { Celex, Priority, SectorName, Semver, Term } from "#shared/wire/compliance.ts";

export type Schema = Record<string, unknown>;
const Schema = Type.Unsafe<Schema>({ $ref: "#/$defs/Schema" });
const Count = Type.Integer({ minimum: 0 });
const Many = Type.Array(Schema, { minItems: 1 });
/** What a rule may be written with. */
const keywords = {
  $ref: Type.String({ pattern: String.raw`^#/\$defs/[a-z_]+$`, description: "One of the pack's own $defs" }),
  type: Type.Enum(["string", "number", "integer", "boolean", "object", "array"]),
  enum: Type.Array(Type.Unknown(), { minItems: 1 }),
  const: Type.Unknown(),
  pattern: Type.String({ format: "regex" }),
  minLength: Count,
  maxLength: Count,
  minimum: Type.Number(),
  maximum: Type.Number(),
  exclusiveMinimum: Type.Number(),
  exclusiveMaximum: Type.Number(),
  minItems: Count,
  maxItems: Count,
  required: Type.Array(Type.String(), { minItems: 1 }),
  properties: Type.Record(Type.String(), Schema),
  items: Schema,
  contains: Schema,
  allOf: Many,
  anyOf: Many,
  not: Schema,
};

const Sentence = Type.String({ minLength: 5, maxLength: 1_000, pattern: VISIBLE });
const Pointer = Type.String({ pattern: "^/(product|extensions|passport)(/[A-Za-z0-9]+)+$", description: "A JSON pointer" });
const Rule = closed({
  obligationId: Type.String({ pattern: "^[A-Z]+_ART[0-9]+_[A-Z0-9_]+$" }),
  title: Sentence,
  article: Sentence,
  severity: Type.Enum(Object.keys(severities) as Severity[]),
  text: Sentence,
  remedy: Sentence,
  applies: Schema,
  evidence: Type.Array(Pointer, { minItems: 1, uniqueItems: true, description: "Without any of these it isn't evaluated" }),
  requires: Schema,
  conclusive: Type.Optional(Schema),
});

const PackShape = closed({
  celexId: Celex,
  version: Semver,
  title: Sentence,
  sectors: Type.Array(SectorName, { minItems: 1, uniqueItems: true }),
  jurisdiction: Type.Enum(["EU"]),
  priority: Priority,
  categories: nullable(Type.Array(Term, { minItems: 1, uniqueItems: true })),
  lifecycleStages: Type.Array(Type.Enum([...lifecycleStages]), { minItems: 1, uniqueItems: true }),
  effectiveFrom: nullable(Instant),
  effectiveUntil: nullable(Instant),
  quarantined: Type.Boolean(),
  $defs: Type.Optional(Type.Record(Type.String({ pattern: "^[a-z_]+$" }), Schema)),
  rules: Type.Array(Rule, { minItems: 1 }),
});
export type PackFile = Static<typeof PackShape>;
export const PackFile: object = { ...PackShape, $defs: { Schema: closed(Type.Partial(Type.Object(keywords)).properties) } };
