// Names of things in EPCIS: GS1 Digital Links and EPC URNs. What is wrong with one where its digits tell, and the one form to find it by.
import { keyOf as linkKey, type LinkKey } from "#shared/digital-link.ts";
import { Refusal } from "#shared/errors.ts";
import { serialFault, withCheckDigit } from "#shared/gs1.ts";

const HOME = "https://id.gs1.org"; // the canonical host: which resolver a link names says nothing about the thing
export type Level = "item" | "class";
type Named = { key: string; level?: Level; item?: { gtin: string; serial: string } };
type Reading = Named | { fault: string };

const hasCheckDigit = (digits: string): boolean => withCheckDigit(digits.slice(0, -1)) === digits;
const numeric =
  (length: number, what: string) =>
  (value: string): string | undefined => {
    if (!/^\d+$/.test(value) || value.length !== length) return `has a ${what} of ${value.length} characters where ${length} digits belong`;
    return hasCheckDigit(value) ? undefined : `has a ${what} with a wrong check digit: ${value}`;
  };
const short = (value: string): string | undefined => {
  const fault = serialFault(value);
  return fault && `has a serial or lot that ${fault}`;
};

/** A URI may say any word, one that every object has as well. */
const own = <Value>(table: Record<string, Value>, name: string): Value | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

/** Primary keys of a link, the qualifiers that may follow each in their order, and the rule of its value. */
const PRIMARY: Record<string, { next: readonly string[]; fault?: (value: string) => string | undefined }> = {
  "00": { next: [], fault: numeric(18, "SSCC") },
  "01": { next: ["22", "10", "21"] },
  "253": { next: [] },
  "255": { next: [] },
  "401": { next: [] },
  "402": { next: [] },
  "414": { next: ["254"], fault: numeric(13, "GLN") },
  "417": { next: ["7040"], fault: numeric(13, "GLN") },
  "8003": { next: [] },
  "8004": { next: [] },
  "8006": { next: ["22", "10", "21"] },
  "8010": { next: ["8011"] },
  "8013": { next: [] },
  "8017": { next: ["8019"] },
  "8018": { next: ["8019"] },
};

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

type Pair = [ai: string, value: string];

/** Where in the path the link's keys begin, undecoded: a primary key, its value and nothing but its qualifiers after it. */
function pairsOf(uri: string): Pair[] | undefined {
  const path = /^https?:\/\/[^/?#]+(\/[^?#]*)/i.exec(uri)?.[1];
  const segments = path?.replace(/\/$/, "").split("/").slice(1) ?? [];
  for (let i = Math.max(0, segments.length - 2 * (1 + MOST_QUALIFIERS)); i < segments.length - 1; i += 1) {
    const primary = own(PRIMARY, segments[i] ?? "");
    const rest = segments.slice(i);
    if (!primary || rest.length % 2 !== 0 || !/^[\d%]/.test(rest[1] ?? "")) continue;
    const pairs = Array.from({ length: rest.length / 2 }, (_, n): Pair => [rest[2 * n] ?? "", rest[2 * n + 1] ?? ""]);
    if (pairs.slice(1).every(([ai]) => primary.next.includes(ai))) return pairs;
  }
  return undefined;
}
const MOST_QUALIFIERS = 3;

function link(pairs: Pair[]): Reading {
  const [[primary, main] = ["", ""]] = pairs;
  if (primary === "01") return gtinLink(pairs.flat().join("/"), pairs);
  const values = pairs.map(([, value]) => decoded(value));
  if (values.includes(undefined)) return { fault: "has a percent sign that begins no encoded character" };
  const wrong = PRIMARY[primary]?.fault?.(decoded(main) ?? "");
  return wrong ? { fault: wrong } : { key: written(pairs) };
}
const written = (pairs: Pair[]) => `${HOME}/${pairs.map(([ai, value]) => `${ai}/${encodeURIComponent(decoded(value) ?? "")}`).join("/")}`;

const itemNamed = (gtin: string, serial: string): Named => ({
  key: `${HOME}/01/${gtin}/21/${encodeURIComponent(serial)}`,
  level: "item",
  item: { gtin, serial },
});

/** Read as the resolver does: a thing's link names the same thing with its lot as without. */
function gtinLink(path: string, pairs: Pair[]): Reading {
  try {
    const { gtin, serial } = linkKey(`/${path}`);
    return serial === undefined ? { key: written(pairs), level: "class" } : itemNamed(gtin, serial);
  } catch (error) {
    if (error instanceof Refusal) return { fault: `is no GS1 Digital Link: ${error.message}` };
    throw error;
  }
}

/** The key in a GTIN's link, on whichever host and behind whichever stem it stands: the identifier is the path's end. What isn't one names nothing. */
export function linkedBy(uri: string): LinkKey | undefined {
  const pairs = pairsOf(uri);
  if (pairs?.[0]?.[0] !== "01") return undefined;
  try {
    return linkKey(`/${pairs.flat().join("/")}`);
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** The thirteen digits of a URN's company prefix and item reference, put back in a GTIN's order. */
function gtinOf(prefix: string, item: string): string | undefined {
  if (!/^\d{6,12}$/.test(prefix) || !/^\d+$/.test(item) || prefix.length + item.length !== 13) return undefined;
  return withCheckDigit(item.slice(0, 1) + prefix + item.slice(1));
}

type Schemes = Record<string, (parts: string[], rest: string) => Reading>;
const ofGtin =
  (make: (gtin: string, last: string) => Named) =>
  ([prefix = "", item = "", ...last]: string[]): Reading => {
    const gtin = gtinOf(prefix, item);
    const end = decoded(last.join("."));
    if (gtin === undefined) return { fault: "has a company prefix and item reference that aren't 13 digits together" };
    if (end === undefined) return { fault: "has a percent sign that begins no encoded character" };
    const unfit = end === "*" ? undefined : short(end);
    return unfit === undefined ? make(gtin, end) : { fault: unfit };
  };
const digits = (parts: string[], length: number) =>
  parts.slice(0, 2).every((part) => /^\d*$/.test(part)) && parts.slice(0, 2).join("").length === length;

const IDS: Schemes = {
  sgtin: ofGtin(itemNamed),
  sscc: (parts) => {
    if (parts.length !== 2 || !digits(parts, 17))
      return { fault: "has a company prefix and serial reference that aren't 17 digits together" };
    const [prefix = "", serial = ""] = parts;
    return { key: `${HOME}/00/${withCheckDigit(serial.slice(0, 1) + prefix + serial.slice(1))}`, level: "item" };
  },
  sgln: (parts) => {
    if (parts.length < 3 || !digits(parts, 12))
      return { fault: "has a company prefix and location reference that aren't 12 digits together" };
    const extension = decoded(parts.slice(2).join(".")) ?? "";
    const gln = `${HOME}/414/${withCheckDigit(parts.slice(0, 2).join(""))}`;
    return { key: extension === "0" ? gln : `${gln}/254/${encodeURIComponent(extension)}`, level: "item" };
  },
};
const CLASSES: Schemes = {
  lgtin: ofGtin((gtin, lot) => ({ key: `${HOME}/01/${gtin}/10/${encodeURIComponent(lot)}`, level: "class" })),
};
const CLASSES_OF_ITEMS = ofGtin((gtin) => ({ key: `${HOME}/01/${gtin}`, level: "class" }));
const PATTERNS: Schemes = {
  sgtin: (parts, rest) => (parts[1] === "*" ? { key: `urn:epc:idpat:sgtin:${rest}`, level: "class" } : CLASSES_OF_ITEMS(parts)),
};

function urn(kind: string, scheme: string, rest: string): Reading {
  if (kind === "tag" || kind === "raw" || kind === "pat")
    return { fault: `is a URN of how a tag is coded (urn:epc:${kind}:): name the thing itself` };
  const level: Level = kind === "id" ? "item" : "class";
  const read = own(own<Schemes>({ id: IDS, class: CLASSES, idpat: PATTERNS }, kind) ?? {}, scheme);
  return read ? read(rest.split("."), rest) : { key: `urn:epc:${kind}:${scheme}:${rest}`, level };
}

/** What a URI names; any URI is a name, those of GS1 are read. */
function reading(uri: string): Reading {
  const [, kind, scheme = "", rest = ""] = /^urn:epc:([a-z]+):([a-z0-9-]+):(.+)$/.exec(uri) ?? [];
  if (kind !== undefined) return urn(kind, scheme, rest);
  const pairs = pairsOf(uri);
  return pairs ? link(pairs) : { key: uri };
}

/** The form that events are found by, the same for all ways to write a name; a URI that can't be read stays as it is. */
export function keyOf(uri: string): string {
  const read = reading(uri);
  return "key" in read ? read.key : uri;
}

export function itemOf(uri: string): { gtin: string; serial: string } | undefined {
  const read = reading(uri);
  return "item" in read ? read.item : undefined;
}

/** What is wrong with it as the name of an item or of a class, as a sentence's end. */
export function nameFault(uri: string, level?: Level): string | undefined {
  const read = reading(uri);
  if ("fault" in read) return read.fault;
  if (!level || !read.level || read.level === level) return undefined;
  return level === "item" ? "names a class of things where one thing belongs" : "names one thing where a class belongs";
}

/** `before`: the keys that an earlier version made of it, from the whole link. */
export type Pattern = { key: string; before?: string[] } | { prefixes: string[] } | { fault: string };
const PREFIX = /^\d{6,12}$/;
const indicated = (start: string): string[] => Array.from({ length: 10 }, (_, indicator) => `${HOME}/${start}${indicator}`);
/** Names of things with a star for each part from some part on: the company's, one reference's, or all. In keys an indicator or extension digit comes first. */
const STARRED: Record<string, (parts: string[]) => Pattern | undefined> = {
  sgtin: ([company = "", reference, serial]) => {
    if (company === "*" && reference === "*" && serial === "*") return { prefixes: [`${HOME}/01/`] };
    if (PREFIX.test(company) && reference === "*" && serial === "*") return { prefixes: indicated("01/").map((start) => start + company) };
    const known = serial === "*" ? CLASSES_OF_ITEMS([company, reference ?? "", "*"]) : undefined;
    return known && ("key" in known ? { prefixes: [`${known.key}/21/`] } : known);
  },
  sscc: ([company = "", serial, ...more]) => {
    if (serial !== "*" || more.length > 0) return undefined;
    if (company === "*") return { prefixes: [`${HOME}/00/`] };
    return PREFIX.test(company) ? { prefixes: indicated("00/").map((start) => start + company) } : { fault: NO_PREFIX };
  },
  sgln: ([company = "", location, extension]) => {
    if (extension !== "*") return undefined;
    if (company === "*" && location === "*") return { prefixes: [`${HOME}/414/`] };
    if (location === "*") return PREFIX.test(company) ? { prefixes: [`${HOME}/414/${company}`] } : { fault: NO_PREFIX };
    const known = IDS["sgln"]?.([company, location ?? "", "0"], "");
    return known && ("key" in known ? { prefixes: [known.key] } : known);
  },
};
const NO_PREFIX = "has no company prefix of 6 to 12 digits before its stars";

/** How the keys of all links begin that begin like this one, which may end within its first value: on the canonical host, whichever it names itself. */
function atHome(begun: string): string {
  const segments = /^https?:\/\/[^/?#]+\/([^?#]*)$/i.exec(begun)?.[1]?.split("/") ?? [];
  const at = segments.findIndex((ai, i) => own(PRIMARY, ai) && /^\d*\*?$/.test(segments[i + 1] ?? "-"));
  return at < 0 ? begun : `${HOME}/${segments.slice(at).join("/")}`;
}

/** What a query's pattern matches: one key, or all that begin with one of these. */
export function patternOf(uri: string, level: Level): Pattern {
  const [, scheme = "", rest = ""] = /^urn:epc:idpat:([a-z0-9-]+):(.+)$/.exec(uri) ?? [];
  if (scheme === "") {
    const key = keyOf(uri);
    const isBegun = uri.endsWith("*") && key.endsWith("*"); // a star that is written %2A is a serial's own
    if (isBegun) return { prefixes: [...new Set([key, atHome(key)])].map((start) => start.slice(0, -1)) };
    return { key, before: [written(pairsOf(uri) ?? [])].filter((whole) => itemOf(uri) && whole !== key) };
  }
  if (level === "class") return { key: keyOf(uri) };
  const starred = own(STARRED, scheme)?.(rest.split("."));
  if (starred) return starred;
  const one = `urn:epc:id:${scheme}:${rest}`;
  if (!Object.hasOwn(STARRED, scheme)) return begunIn(scheme, rest.split("."));
  const read = reading(one);
  return "key" in read && !rest.includes("*") ? { key: read.key } : { fault: "fault" in read ? read.fault : STAR_BEFORE };
}
const STAR_BEFORE = "has a star before a part that is named";

/** A pattern of a scheme whose names are kept as they are sent. */
function begunIn(scheme: string, parts: string[]): Pattern {
  const named = parts.slice(0, 1 + parts.findLastIndex((part) => part !== "*"));
  const start = `urn:epc:id:${scheme}:${named.join(".")}`;
  if (named.slice(0, -1).some((part) => part.includes("*"))) return { fault: STAR_BEFORE };
  if (named.length < parts.length) return { prefixes: [named.length === 0 ? start : `${start}.`] };
  return start.endsWith("*") ? { prefixes: [start.slice(0, -1)] } : { key: start };
}
