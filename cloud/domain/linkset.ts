// What a resolver says that there is: GS1 link types, their targets, and the linkset document of RFC 9264 that lists them.
import { digitalLink } from "#shared/gs1.ts";
import type { Resolution } from "./resolver.ts";

export const VOCABULARY = "https://ref.gs1.org/voc/";
/** Names that the vocabulary goes by: the prefix, its address, and the address it had before. */
const SPELLINGS = ["gs1:", VOCABULARY, "https://gs1.org/voc/", "https://www.gs1.org/voc/"];

type Target = { href: string; title: string };
type Typed = Target & { type: string; hreflang?: readonly string[] };
export type LinkContext = { anchor: string; itemDescription: string; defaultLink: Target; dpp: readonly Typed[] };

/** The public page of a passport, or one of its other forms; of one serial where it is named. */
export const passportUrl = (origin: string, uid: string, serial?: string, suffix = ""): string =>
  `${origin}/p/${uid}${suffix}${serial === undefined ? "" : `?serial=${encodeURIComponent(serial)}`}`;

/** The names are shown in a list only. */
export const contextsOf = (
  origin: string,
  { levels }: Resolution,
  hreflang: readonly string[],
  names?: ReadonlyMap<string, string>,
): LinkContext[] =>
  levels.map(({ key, productId }) => {
    const to = (suffix: string) => passportUrl(origin, productId, key.serial, suffix);
    return {
      anchor: digitalLink(origin, key.gtin, key),
      itemDescription: names?.get(productId) ?? "",
      defaultLink: { href: to(""), title: "Product passport" },
      dpp: [
        { href: to(""), title: "Product passport", type: "text/html", hreflang },
        { href: to(".jsonld"), title: "Passport data", type: "application/ld+json" },
        { href: to(".vc"), title: "Signed passport", type: "application/vc+jwt" },
      ],
    };
  });

export const linksetOf = (contexts: readonly LinkContext[]) => ({
  linkset: contexts.map(({ anchor, itemDescription, defaultLink, dpp }) => ({
    anchor,
    itemDescription,
    [`${VOCABULARY}defaultLink`]: [defaultLink],
    [`${VOCABULARY}dpp`]: dpp,
  })),
});

/** The link type's own name, where it is of GS1's vocabulary and spelled in one of its ways. */
export function linkTypeName(asked: string): string | undefined {
  const spelling = SPELLINGS.find((one) => asked.startsWith(one));
  return spelling === undefined ? undefined : asked.slice(spelling.length);
}
export const LINK_TYPES = ["gs1:defaultLink", "gs1:dpp"] as const;
