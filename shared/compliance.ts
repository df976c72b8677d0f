// What is judged, how and in which words: sectors, severities, outcomes, statuses, priorities and regions, once for all who speak of compliance.

/** Each sector is the subject of one regulation. */
export const sectors = {
  espr: "ecodesign for sustainable products",
  energy: "energy labelling",
  rohs: "restricted substances in electrical and electronic equipment",
  weee: "waste electrical and electronic equipment",
  reach: "chemicals",
  textile: "textile fibre names and labelling",
  battery: "batteries",
} as const;
export type Sector = keyof typeof sectors;
export const sectorNames = Object.keys(sectors) as Sector[];

/** Categories whose law isn't judged here (its pack is quarantined): their products stay drafts. */
export const unjudgedCategories: readonly string[] = ["battery"];

/** The weight counts in the score; a violation that forbids makes the whole NonCompliant. */
export const severities = {
  critical: { weight: 4, forbids: true, says: "the product may not be placed on the market" },
  major: { weight: 2, forbids: true, says: "an obligation of substance" },
  minor: { weight: 1, forbids: false, says: "an aspect that the law asks to be addressed" },
} as const satisfies Record<string, { weight: number; forbids: boolean; says: string }>;
export type Severity = keyof typeof severities;

export const outcomes = {
  met: "applies, all that it needs is there, and its requirement holds",
  violated: "applies, all that it needs is there, and its requirement doesn't hold",
  not_evaluated: "applies, or may apply, and a field that it needs is absent: it wasn't run",
  unknown: "applies and its fields are there, but what they say doesn't decide it, or running it failed",
  not_applicable: "doesn't concern this product, as far as its fields tell",
} as const;
export type Outcome = keyof typeof outcomes;

/** From best to worst. The last three claim no compliance, so none of them is better than another. */
export const statuses = {
  FullyCompliant: "every rule that applies is met, on evidence",
  PartiallyCompliant: "every rule that applies is decided; only minor ones are violated",
  NonCompliant: "a critical or major rule is violated, whatever else is or isn't known",
  Indeterminate: "evidence is missing for a rule, no rule applies, or the product has no compliance data at all",
  Unknown: "evidence doesn't decide a rule, or running it failed: never safe, never zero",
} as const;
export type ComplianceStatus = keyof typeof statuses;

/** From least to most. */
export const priorities = ["low", "medium", "high", "critical"] as const;
export type Priority = (typeof priorities)[number];

export const packStates = {
  draft: "not in effect yet",
  effective: "in effect",
  superseded: "past its end, or a newer version is in effect; kept as it was",
} as const;
export type PackState = keyof typeof packStates;

export const lifecycleStages = ["design", "manufacturing", "placing_on_market", "use", "end_of_life"] as const;

/** A jurisdiction and the regions in which its law holds. */
const jurisdictions = {
  EU: "EU AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK".split(" "),
} as const satisfies Record<string, readonly string[]>;
export const regions: readonly string[] = Object.values(jurisdictions).flat();
export const jurisdictionOf = (region: string): string | undefined =>
  Object.entries(jurisdictions).find(([, inside]) => inside.includes(region))?.[0];
