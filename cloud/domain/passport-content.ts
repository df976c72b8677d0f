// From a product to what its passport says: the UN Transparency Protocol's vocabulary, filled by a table of which field goes where; and whether content of one's own is of that product.
import { type FieldFault, invalid } from "#shared/errors.ts";
import { digitalLink } from "#shared/gs1.ts";
import { limits } from "#shared/limits.ts";
import { misreadIn } from "./misread.ts";
import type { Row as Product } from "./products.ts";

export type Content = Record<string, unknown>;
type Section = Record<string, unknown>;
type Place = (value: unknown) => Record<string, Section | Section[]>;

/** As many digits as a number can keep: 33.3 / 100 has one more, and is 0.33299999999999996. */
const share = (value: unknown) => Number((Number(value) / 100).toPrecision(15));
const circular =
  (name: string): Place =>
  (value) => ({ circularityScorecard: { [name]: share(value) } });
const materials =
  (nameOf: string): Place =>
  (value) => ({
    materialsProvenance: (value as Record<string, unknown>[]).map((item) => ({
      type: ["Material"],
      name: item[nameOf],
      ...(item["percentage"] === undefined ? {} : { massFraction: share(item["percentage"]) }),
      ...(item["recycled"] === undefined ? {} : { recycledMassFraction: item["recycled"] ? 1 : 0 }),
      ...(item["countryOfOrigin"] === undefined ? {} : { originCountry: item["countryOfOrigin"] }),
      hazardous: false,
    })),
  });
const substances: Place = (value) => ({
  materialsProvenance: (value as (string | Record<string, unknown>)[]).map((item) => {
    const { name, concentrationPercentage, casNumber, location } =
      typeof item === "string" ? ({ name: item } as Record<string, unknown>) : item;
    return {
      type: ["Material"],
      name,
      ...(concentrationPercentage === undefined ? {} : { massFraction: share(concentrationPercentage) }),
      ...(casNumber === undefined ? {} : { casNumber }),
      ...(location === undefined ? {} : { location }),
      hazardous: true,
    };
  }),
});

/** Fields that the vocabulary has a section for; all the others are the product's characteristics. */
const PLACES: Record<string, Place> = {
  recycledContentPercentage: circular("recycledContent"),
  recyclabilityPercentage: circular("recyclableContent"),
  carbonFootprintKgCo2e: (value) => ({
    emissionsScorecard: { type: ["EmissionsPerformance"], carbonFootprint: value, declaredUnit: "EA", operationalScope: "CradleToGrave" },
  }),
  fibreComposition: materials("fibre"),
  materials: materials("material"),
  hazardousSubstances: substances,
};
const TYPES: Record<string, string[]> = { circularityScorecard: ["CircularityPerformance"] };

/** What the passport is about: all items, those of a lot, or one. */
export const linkOf = (
  origin: string,
  { gtin, granularity, serialNumber }: Pick<Product, "gtin" | "granularity" | "serialNumber">,
): string => digitalLink(origin, gtin, { model: undefined, batch: { lot: serialNumber }, item: { serial: serialNumber } }[granularity]);

export function contentOf(product: Product, origin: string): Content {
  const sections: Record<string, unknown> = {};
  const characteristics: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(product.extensions)) {
    const isNone = Array.isArray(value) && value.length === 0; // which a section, with what else is in it, couldn't say
    const place = isNone ? undefined : PLACES[field];
    if (!place) characteristics[field] = value;
    else
      for (const [name, section] of Object.entries(place(value))) {
        const before = sections[name];
        sections[name] = Array.isArray(section)
          ? [...((before as Section[] | undefined) ?? []), ...section]
          : { ...(TYPES[name] ? { type: TYPES[name] } : {}), ...(before as Section | undefined), ...section };
      }
  }
  const { gtin, serialNumber, granularity, category, name, description } = product;
  return {
    type: ["ProductPassport"],
    granularityLevel: granularity,
    product: {
      type: ["Product"],
      id: linkOf(origin, product),
      name,
      description,
      registeredId: gtin,
      idScheme: { type: ["IdentifierScheme"], id: "https://id.gs1.org/01/", name: "GS1 Global Trade Item Number" },
      ...(granularity === "item" ? { serialNumber } : {}),
      ...(granularity === "batch" ? { batchNumber: serialNumber } : {}),
      productCategory: [{ type: ["Classification"], id: `urn:imprimatur:category:${category}`, name: category }],
      ...(Object.keys(characteristics).length > 0 ? { characteristics } : {}),
    },
    ...sections,
  };
}

const WHAT_KIND = ["type", "granularityLevel"];
const WHICH_PRODUCT = ["type", "id", "name", "registeredId", "serialNumber", "batchNumber"];
const from = (own: Content, names: readonly string[]): Content =>
  Object.fromEntries(names.filter((name) => own[name] !== undefined).map((name) => [name, own[name]]));

const isText = (value: unknown): boolean => typeof value === "string" && value.trim() !== "";
const isKind = (value: unknown): boolean => isText(value) || (Array.isArray(value) && value.length > 0 && value.every(isText));
/** Content that speaks of its product and of no other: what names it is filled in where it is left out. */
export function identified(content: Content, row: Product, origin: string): Content {
  const own = contentOf(row, origin);
  const product = own["product"] as Content;
  const said = content["product"] ?? {};
  if (typeof said !== "object" || Array.isArray(said))
    throw invalid([{ field: "content.product", rule: "type", message: "must be object" }]);
  const names: Content = { ...from(product, WHICH_PRODUCT), ...said };
  const whole: Content = { ...from(own, WHAT_KIND), ...content, product: names };
  const fault = (field: string, rule: string, message: string): FieldFault => ({ field: `content.${field}`, rule, message });
  const other = (field: string, is: unknown, must: unknown): FieldFault[] =>
    is === must ? [] : [fault(field, "const", `must be ${String(must)}: it names the product`)];
  const twoIds = (field: string, thing: Content): FieldFault[] =>
    "@id" in thing ? [fault(field, "once", "is JSON-LD's own word for id, which is there: no reader takes both")] : [];
  const { serialNumber, granularity } = row;
  const numberIn = (field: string) => (field in product ? names[field] : (names[field] ?? serialNumber)); // what names it can't be null
  const isItem = granularity === "item"; // and may say which lot it comes from
  const { batchNumber: lot } = names;
  const id = "id" in whole ? whole["id"] : whole["@id"]; // the subject's own, which it may go without
  const faults = [
    ...(id === undefined || (typeof id === "string" && URL.canParse(id)) ? [] : [fault("id", "format", "must be a URL")]),
    ...["id", "registeredId"].flatMap((field) => other(`product.${field}`, names[field], product[field])),
    ...("id" in whole ? twoIds("@id", whole) : []),
    ...twoIds("product.@id", names),
    ...["serialNumber", ...(isItem ? [] : ["batchNumber"])].flatMap((field) => other(`product.${field}`, numberIn(field), serialNumber)),
    ...(isItem && lot !== undefined && !isText(lot) ? [fault("product.batchNumber", "type", "must be a text")] : []),
    ...other("granularityLevel", whole["granularityLevel"], own["granularityLevel"]),
    ...(isText(names["name"]) ? [] : [fault("product.name", "type", "must be a text")]),
    ...(isKind(whole["type"]) ? [] : [fault("type", "type", "must be a text or a list of texts")]),
    ...(isKind(names["type"]) ? [] : [fault("product.type", "type", "must be a text or a list of texts")]),
  ];
  faults.push(...misreadIn(content, "content", limits.FAULTS_MAX_ITEMS - faults.length));
  if (faults.length > 0) throw invalid(faults);
  return whole;
}
