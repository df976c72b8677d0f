// What a client would rather have: the best of what is offered by the weights in its Accept and Accept-Language (RFC 9110, 12.5).

type Range = { name: string; weight: number };

function rangesOf(header: string): Range[] {
  return header
    .slice(0, MAX_LENGTH)
    .toLowerCase()
    .split(",")
    .map((part) => {
      const [name = "", ...parameters] = part.split(";").map((text) => text.trim());
      const q = parameters.find((text) => text.startsWith("q="))?.slice(2);
      const weight = q === undefined ? 1 : /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(q) ? Number(q) : 0;
      return { name, weight };
    })
    .filter(({ name }) => name !== "");
}
const MAX_LENGTH = 2_000; // nobody means more

/** How much an offer is wanted: the most specific range that covers it decides. */
function weightOf(ranges: readonly Range[], covering: readonly string[]): number {
  for (const name of covering) {
    const found = ranges.find((range) => range.name === name);
    if (found) return found.weight;
  }
  return 0;
}

function best<Offer extends string>(offers: readonly Offer[], weigh: (offer: Offer) => number): Offer | undefined {
  let chosen: { offer: Offer; weight: number } | undefined;
  for (const offer of offers) {
    const weight = weigh(offer);
    if (weight > 0 && weight > (chosen?.weight ?? 0)) chosen = { offer, weight };
  }
  return chosen?.offer;
}

/** The first offer where nothing is said; of those as welcome as each other one that is named, before what only a wildcard covers; undefined where none is wanted. */
export function mediaWanted<Offer extends string>(accept: string | undefined, offers: readonly Offer[]): Offer | undefined {
  if (accept === undefined || accept.trim() === "") return offers[0];
  const ranges = rangesOf(accept);
  const { named = [], others = [] } = Object.groupBy(offers, (offer) => (ranges.some(({ name }) => name === offer) ? "named" : "others"));
  return best([...named, ...others], (offer) => weightOf(ranges, [offer, `${offer.split("/")[0]}/*`, "*/*"]));
}

/** What is said of it, else of its language at large: whoever reads zh-TW is served better by zh-CN than by English. */
function heaviestOf(ranges: readonly Range[], offer: string): Range | undefined {
  const tag = offer.toLowerCase();
  for (const base of new Set([tag, tag.replace(/-.*/, "")])) {
    const [heaviest] = ranges.filter(({ name }) => name === base || name.startsWith(`${base}-`)).toSorted((a, b) => b.weight - a.weight);
    if (heaviest) return heaviest;
  }
  return undefined;
}

/**
 * The first offer where nothing is said, or nothing that we speak: a page in a foreign language beats none. Of those as welcome as each other the one that
 * is named first, before what only a wildcard covers.
 */
export function languageWanted<Offer extends string>(accept: string | undefined, offers: readonly [Offer, ...Offer[]]): Offer {
  if (accept === undefined) return offers[0];
  const ranges = rangesOf(accept);
  const found = new Map(offers.map((offer) => [offer, heaviestOf(ranges, offer)]));
  const placeOf = (offer: Offer) => {
    const range = found.get(offer);
    return range ? ranges.indexOf(range) : ranges.length;
  };
  const wild = weightOf(ranges, ["*"]);
  const inTurn = offers.toSorted((a, b) => placeOf(a) - placeOf(b));
  return best(inTurn, (offer) => found.get(offer)?.weight ?? wild) ?? offers[0];
}
