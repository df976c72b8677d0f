// Category schemas as data: one file a version, never edited in place. Which one counts depends on the instant and the jurisdiction.
import { readdirSync, readFileSync } from "node:fs";
import { type Judge, judgeOf } from "./validate.ts";

export type FieldSchema = {
  type: "object";
  additionalProperties: false;
  properties: Record<string, { type?: string; description?: string }>;
};
export type CategoryVersion = {
  schemaId: string;
  schemaRegistryId: string;
  category: string;
  version: string;
  title: string;
  jurisdiction: string;
  effectiveFrom: string | null;
  effectiveUntil: string | null;
  basis: string[];
  fieldSchema: FieldSchema;
  judge: Judge;
};
type Catalogue = {
  all: readonly CategoryVersion[];
  find(category: string, at: number, jurisdiction?: string): CategoryVersion | undefined;
  /** Names of the categories that have a schema in effect. */
  effective(at: number, jurisdiction?: string): string[];
};

export const HOME = "EU"; // the jurisdiction where none is named
const folder = new URL("./catalogue/categories/", import.meta.url);

/** Without a beginning it isn't in effect yet, without an end it stays. */
const instantOf = (text: string | null) => (text === null ? Number.POSITIVE_INFINITY : Date.parse(text));
export const startOf = ({ effectiveFrom }: { effectiveFrom: string | null }) => instantOf(effectiveFrom);
export const endOf = ({ effectiveUntil }: { effectiveUntil: string | null }) => instantOf(effectiveUntil);
export const isEffective = (entry: CategoryVersion, at: number): boolean => startOf(entry) <= at && at < endOf(entry);

/** Throws where the files can't all be true: a name that isn't its content's, a window upside down, two at once. */
export function loadCatalogue(from: URL = folder): Catalogue {
  const all = readdirSync(from)
    .filter((name) => name.endsWith(".json"))
    .toSorted()
    .map((name): CategoryVersion => {
      const file = JSON.parse(readFileSync(new URL(name, from), "utf8")) as Omit<CategoryVersion, "judge">;
      if (name !== `${file.category}-${file.version}.json`)
        throw new Error(`category file ${name} says that it is ${file.category} ${file.version}`);
      return { ...file, judge: judgeOf(file.fieldSchema) };
    });
  for (const [i, one] of all.entries()) {
    if (one.effectiveFrom !== null && !(startOf(one) < endOf(one)))
      throw new Error(`category ${one.category} ${one.version} ends before it begins, or its instants aren't instants`);
    const other = all.slice(i + 1).find((next) => overlap(one, next));
    if (other)
      throw new Error(
        `category ${one.category} ${one.version} and ${other.version} are both in effect at once in ${one.jurisdiction}: end the older one`,
      );
  }
  const find: Catalogue["find"] = (category, at, jurisdiction = HOME) =>
    all.find((entry) => entry.category === category && entry.jurisdiction === jurisdiction && isEffective(entry, at));
  const effective: Catalogue["effective"] = (at, jurisdiction = HOME) => [
    ...new Set(all.filter((entry) => entry.jurisdiction === jurisdiction && isEffective(entry, at)).map(({ category }) => category)),
  ];
  return { all, find, effective };
}

const overlap = (a: CategoryVersion, b: CategoryVersion): boolean =>
  a.category === b.category &&
  a.jurisdiction === b.jurisdiction &&
  a.effectiveFrom !== null &&
  b.effectiveFrom !== null &&
  startOf(a) < endOf(b) &&
  startOf(b) < endOf(a);

export const catalogue = loadCatalogue();
