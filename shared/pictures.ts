// Which pictures a print's evidence names: each by its SHA-256, under which it is kept, so that another in its place is seen.
import { isObject } from "./object.ts";

const NAMES = ["preview_sha256", "image_sha256"] as const;

/** The label as it was drawn, and what a camera saw. */
export const picturesIn = (items: readonly { evidence?: unknown }[]): string[] => {
  const stages = items.flatMap(({ evidence }) => (isObject(evidence) ? Object.values(evidence) : [])).filter(isObject);
  return [...new Set(stages.flatMap((said) => NAMES.map((name) => said[name]).filter((hash) => typeof hash === "string")))];
};
