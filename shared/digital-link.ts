// GS1 Digital Link addresses: from the path and query as they were sent to a GTIN and its qualifiers, or to the reason why not.
import { invalid, Refusal } from "./errors.ts";
import { decodeSgtin96, gtinFault, qualifierFault, serialFault } from "./gs1.ts";

export type LinkKey = { gtin: string; cpv?: string; lot?: string; serial?: string; tpx?: string };

/** The qualifiers of a GTIN, in the one order that they may stand in; a third party's extension stands alone. */
const QUALIFIERS = [
  { ai: "22", name: "cpv" },
  { ai: "10", name: "lot" },
  { ai: "21", name: "serial" },
  { ai: "235", name: "tpx" },
] as const;
const ALONE = QUALIFIERS.length - 1;
const TPX_MAX_LENGTH = 28;
/** Application identifiers that may be data attributes beside a GTIN: other things' keys, too, and none that GS1 says excludes it (Barcode Syntax Dictionary). */
const ATTRIBUTE =
  /^(?:00|1[1-3]|1[5-7]|20|24[0-3]|25[013]|30|31[0-6][0-5]|3[246]\d[0-5]|3[35][0-7][0-5]|39[0-3]\d|394[0-3]|395[0-5]|40[0-3]|41[0-7]|42[0-7]|43[01]\d|432[0-6]|433[0-3]|700[1-9]|701[01]|702[0-3]|703\d|71[0-7]|723\d|724[0-2]|725\d|800[1-57-9]|801[02378]|8026|8030|811[0-2]|9\d)$/;

const badGtin = (message: string) => new Refusal("INVALID_GTIN", message);
const badSerial = (message: string) => new Refusal("INVALID_SERIAL", message);

/** Once, and after the split: an encoded slash belongs to the value, an encoded percent sign stays one. */
function decoded(part: string, refuse: (message: string) => Refusal): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw refuse(`${part.slice(0, 60)} isn't percent-encoded UTF-8`);
  }
}

/** The path, undecoded, from /01/ on; one trailing slash is tolerated. */
export function keyOf(path: string): LinkKey {
  const [, , first = "", ...rest] = (path.endsWith("/") ? path.slice(0, -1) : path).split("/");
  const gtin = decoded(first, badGtin);
  const fault = gtin.length === 14 ? gtinFault(gtin) : "must have 14 digits in a link";
  if (fault) throw badGtin(`the GTIN ${gtin.slice(0, 60)} ${fault}`);
  const key: LinkKey = { gtin };
  let last = -1;
  for (let i = 0; i < rest.length; i += 2) {
    const [ai, encoded] = [decoded(rest[i] ?? "", badSerial), rest[i + 1]];
    const place = QUALIFIERS.findIndex((one) => one.ai === ai);
    const qualifier = QUALIFIERS[place];
    if (!qualifier)
      throw badSerial(`behind a GTIN come 22, 10 and 21, or 235, not ${ai.slice(0, 60)}; a slash inside of a value is written %2F`);
    if (place <= last || (place === ALONE && last >= 0))
      throw badSerial(`${ai} stands there twice or in the wrong place: the order is 22, 10, 21, and 235 stands alone`);
    if (encoded === undefined) throw badSerial(`${ai} has no value`);
    const value = decoded(encoded, badSerial);
    const unfit = qualifier.name === "serial" ? serialFault(value) : qualifierFault(value, place === ALONE ? TPX_MAX_LENGTH : undefined);
    if (unfit) throw badSerial(`the ${qualifier.name} ${value.slice(0, 60)} ${unfit}`);
    key[qualifier.name] = value;
    last = place;
  }
  return key;
}

/** The path, undecoded, with an EPC in it: after /eh as 24 hex digits, after /ex as 16 characters of base64url. */
export function keyOfEpc(form: "h" | "x", path: string): Required<Pick<LinkKey, "gtin" | "serial">> {
  const text = decoded(path.replace(/\/$/, ""), badGtin).slice("/eh".length);
  const fits = form === "h" ? /^[0-9A-Fa-f]{24}$/ : /^[\w-]{16}$/;
  if (!fits.test(text)) throw badGtin(`an EPC of 96 bits is ${form === "h" ? "24 hex digits" : "16 characters of base64url"}`);
  try {
    const { gtin, serial } = decodeSgtin96(form === "h" ? text : Buffer.from(text, "base64url").toString("hex"));
    return { gtin, serial };
  } catch (error) {
    throw error instanceof Refusal ? badGtin(error.message) : error;
  }
}

/** The link type that a query asks for, once the query is found to be one that a link may have. */
export function linkTypeOf(query: string): string | undefined {
  if (query === "") return undefined;
  const seen = new Map<string, string>();
  for (const pair of query.split("&")) {
    const [name, ...value] = pair.split("=");
    const key = plain(name ?? "");
    const fault = queryFault(key, seen);
    if (fault) throw invalid([{ field: key.slice(0, 60), rule: "digital-link", message: fault }]);
    seen.set(key, value.join("="));
  }
  const asked = seen.get("linkType");
  return asked === undefined ? undefined : plain(asked) || undefined;
}

function queryFault(key: string, seen: ReadonlyMap<string, string>): string | undefined {
  const once = key === "linkType" || /^\d+$/.test(key);
  if (once && seen.has(key)) return "stands there twice";
  if (!/^\d+$/.test(key) || ATTRIBUTE.test(key)) return undefined;
  return ["01", ...QUALIFIERS.map(({ ai }) => ai)].includes(key)
    ? "belongs into the path: a query holds data attributes only"
    : "isn't an application identifier that a query may hold, and no other name may be all digits";
}

function plain(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw invalid([{ field: "query", rule: "encoding", message: `${text.slice(0, 60)} isn't percent-encoded UTF-8` }]);
  }
}
