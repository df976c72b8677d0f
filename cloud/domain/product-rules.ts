// What makes a product acceptable, in the order in which the spec lists its refusals; single, batch, PATCH and import ask here.
import { unjudgedCategories } from "#shared/compliance.ts";
import { type FieldFault, invalid, Refusal } from "#shared/errors.ts";
import { gtin14, gtinFault, serialFault } from "#shared/gs1.ts";
import { isObject } from "#shared/object.ts";
import { saying } from "#shared/sayings.ts";
import { ProductCreate } from "#shared/wire/products.ts";
import { catalogue, type CategoryVersion } from "../catalogue.ts";
import { judgeOf } from "../validate.ts";

const shape = judgeOf(ProductCreate);

/** For input that no route has judged yet: an item of a batch, a row of a file. */
export function shaped(item: unknown, at: number): ProductCreate {
  const faults = shape(item);
  if (faults.length > 0) throw invalid([...faults, ...moreOfNew(item as Record<string, unknown>, faults, at)]);
  return item as ProductCreate;
}

/** Where no unit has begun there is no time: the newest schema tells what is wrong just as well. */
const NEWEST = Number.MAX_SAFE_INTEGER;

/** What is refused anyway is told all that is wrong with it; what isn't is refused in the spec's order, later. */
export function moreFaults(item: Record<string, unknown>, found: readonly FieldFault[], at: number = NEWEST): FieldFault[] {
  if (found.length === 0 || typeof item !== "object" || item === null) return [];
  const { serialNumber, gtin, category, extensions } = item;
  const schema = typeof category === "string" ? catalogue.find(category, at) : undefined;
  const more = [
    ...(typeof serialNumber === "string" && serialNumber ? faultAt("serialNumber", "serial", serialFault(serialNumber)) : []),
    ...gtinFaults(gtin),
    ...(schema && extensions !== undefined ? schema.judge(extensions, "extensions") : []),
  ];
  return more.filter(({ field }) => !found.some((fault) => fault.field === field));
}

/** A new product has to bring extensions too; alone their absence has a code of its own. */
export function moreOfNew(item: Record<string, unknown>, found: readonly FieldFault[], at?: number): FieldFault[] {
  const isLacking = found.length > 0 && isObject(item) && item["extensions"] === undefined;
  return [...moreFaults(item, found, at), ...faultAt("extensions", "required", isLacking ? "is required, if only as {}" : undefined)];
}

export type Judged = Required<ProductCreate> & { schemaVersion: string; identity: string };

export function judged(input: ProductCreate, at: number): Judged {
  const { extensions, granularity = "model", serialNumber } = input;
  if (extensions === undefined)
    throw new Refusal(
      "EXTENSIONS_REQUIRED",
      "extensions: are required, if only as {}; GET /schemas/categories/{category} lists the fields",
    );
  const schema = effectiveSchema(input.category, at);
  const faults = [
    ...faultAt("serialNumber", "serial", serialFault(serialNumber)),
    ...gtinFaults(input.gtin),
    ...schema.judge(extensions, "extensions"),
  ];
  if (faults.length > 0) throw invalid(faults);
  const gtin = gtin14(input.gtin);
  const identity = granularity === "model" ? gtin : `${gtin}/${serialNumber}`;
  return { ...input, gtin, granularity, extensions, identity, schemaVersion: schema.version };
}

/** Also of a GTIN that is only asked for. */
export const gtinFaults = (gtin: unknown): FieldFault[] => (typeof gtin === "string" ? faultAt("gtin", "gtin", gtinFault(gtin)) : []);

const faultAt = (field: string, rule: string, message: string | undefined): FieldFault[] => (message ? [{ field, rule, message }] : []);

export function effectiveSchema(category: string, at: number): CategoryVersion {
  const found = catalogue.find(category, at);
  if (found) return found;
  const availableCategories = catalogue.effective(at);
  throw new Refusal(
    "SCHEMA_NOT_EFFECTIVE",
    `category: "${category.slice(0, 50)}" has no schema in effect; there are ${availableCategories.join(", ")}`,
    { availableCategories },
  );
}

export function refuseUnjudged({ category }: { category: string }): void {
  if (unjudgedCategories.includes(category)) throw new Refusal("COMPLIANCE_EVALUATION_UNAVAILABLE");
}

export const duplicate = ({ gtin, serialNumber, granularity }: Pick<Judged, "gtin" | "serialNumber" | "granularity">): Refusal =>
  new Refusal(
    "DUPLICATE_GTIN",
    granularity === "model" ? saying("has_gtin", { gtin }) : saying("has_serial", { gtin, serial: serialNumber }),
  );
