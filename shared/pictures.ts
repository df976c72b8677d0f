// Which pictures a print's evidence names: each by its SHA-256, under which it is kept, so that another in its place is seen.
import { isObject } from "./object.ts";

const NAMES = ["preview_sha256", "image_sha256"] as const;
/** Stations may say more than is asked for: what is none names no picture, and a part of another path above all. */
const isSha256 = (hash: unknown): hash is string => typeof hash === "string" && /^[0-9a-f]{64}$/.test(hash);

/** The label as it was drawn, and what a camera saw. */
export const picturesIn = (items: readonly { evidence?: unknown }[]): string[] => {
  const stages = items.flatMap(({ evidence }) => (isObject(evidence) ? Object.values(evidence) : [])).filter(isObject);
  return [...new Set(stages.flatMap((said) => NAMES.map((name) => said[name]).filter(isSha256)))];
};
