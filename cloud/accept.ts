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

/** The first offer where nothing is said, or nothing that we speak: a page in a foreign language beats none. */
export function languageWanted<Offer extends string>(accept: string | undefined, offers: readonly [Offer, ...Offer[]]): Offer {
  if (accept === undefined) return offers[0];
  const ranges = rangesOf(accept);
  const weigh = (offer: string) =>
    Math.max(...ranges.filter(({ name }) => name === offer || name.startsWith(`${offer}-`)).map(({ weight }) => weight), -1);
  const wild = weightOf(ranges, ["*"]);
  return best(offers, (offer) => (weigh(offer) < 0 ? wild : weigh(offer))) ?? offers[0];
}
