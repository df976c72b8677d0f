// The resolver over HTTP: GS1 Digital Links, as printed on labels, to the public passport or to the list of what there is.
import { Type } from "typebox";
import { keyOf, keyOfEpc, linkTypeOf, type LinkKey } from "#shared/digital-link.ts";
import { digitalLink } from "#shared/gs1.ts";
import { closed } from "#shared/wire/common.ts";
import { mediaWanted } from "../accept.ts";
import type { Deps } from "../deps.ts";
import { contextsOf, LINK_TYPES, type LinkContext, linksetOf, linkTypeName, VOCABULARY } from "../domain/linkset.ts";
import { namesIn, noLink, type Resolution, resolve } from "../domain/resolver.ts";
import { type Asked, type Reply, type Route, routesUnder } from "../route.ts";
import { linksetPage } from "../web/linkset-page.ts";
import { PAGE_HEADERS } from "../web/layout.ts";
import { languageOf, refusalPage } from "../web/refusal-page.ts";
import { LANGUAGES } from "../web/words/index.ts";

const { serve } = routesUnder("public");

const LINKSET = "application/linkset+json";
const CONTEXT =
  '<https://ref.gs1.org/standards/resolver/linkset-context>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"';

type Question = { key: LinkKey; query: string; /** Said of an address in which the key was compressed. */ sameAs?: string };
type Read = (path: string, origin: string) => Omit<Question, "query">;

/** The address as it was sent, split before anything of it is decoded. */
function questionIn({ url }: Asked, read: Read, origin: string): Question {
  const end = url.indexOf("?");
  const [path, query] = end < 0 ? [url, ""] : [url.slice(0, end), url.slice(end + 1)];
  return { ...read(path, origin), query };
}
const fromLink: Read = (path) => ({ key: keyOf(path) });
const fromEpc =
  (form: "h" | "x"): Read =>
  (path, origin) => {
    const key = keyOfEpc(form, path);
    return { key, sameAs: `<${digitalLink(origin, key.gtin, key)}>; rel="owl:sameAs"` };
  };

const linksetAt = (origin: string, key: LinkKey) =>
  `<${digitalLink(origin, key.gtin, key)}?linkType=linkset>; rel="linkset"; type="${LINKSET}"`;
const joined = (...links: (string | undefined)[]) => links.filter((link) => link !== undefined).join(", ");

async function answer(asked: Asked, requestId: string, { origin: originOf, store, scans }: Deps, read: Read): Promise<Reply> {
  const origin = originOf();
  const { host } = new URL(origin);
  const { key, query, sameAs } = questionIn(asked, read, origin);
  const linkType = linkTypeOf(query);
  const isList = wantsLinkset(linkType, asked);
  const { found, names } = await store.read("resolve", async (tx) => {
    const found = await resolve(tx, key, host);
    return { found, names: isList ? await namesIn(tx, found) : undefined };
  });
  const contexts = contextsOf(origin, found, LANGUAGES, names);
  const [first] = contexts as [LinkContext, ...LinkContext[]];
  const href = targetOf(first, LISTS.has(linkType) ? undefined : linkType, asked);
  if (href === undefined) throw noLink(key, host, linkType, LINK_TYPES);
  if (isList) return listed(contexts, asked, sameAs);
  if (asked.method === "GET") tell(scans, found, asked, requestId);
  return { status: 302, headers: { location: withQuery(href, query), link: joined(linksetAt(origin, key), sameAs) } };
}

const LISTS: ReadonlySet<string | undefined> = new Set(["linkset", "all"]);
const wantsLinkset = (linkType: string | undefined, { headers: { accept } }: Asked): boolean =>
  LISTS.has(linkType) || ((accept?.toLowerCase().includes("linkset") ?? false) && mediaWanted(accept, ["text/html", LINKSET]) === LINKSET);

function listed(contexts: readonly LinkContext[], asked: Asked, sameAs: string | undefined): Reply {
  const links = joined(CONTEXT, sameAs);
  const document = linksetOf(contexts);
  if (mediaWanted(asked.headers.accept, [LINKSET, "application/json", "text/html"]) === "text/html") {
    const language = languageOf(asked);
    return {
      status: 200,
      body: linksetPage(contexts, document, language),
      headers: { ...PAGE_HEADERS, "content-language": language, link: links },
    };
  }
  return { status: 200, body: document, headers: { "content-type": LINKSET, link: links } };
}

/** Undefined where there is no such link. */
function targetOf({ defaultLink, dpp }: LinkContext, linkType: string | undefined, { headers: { accept } }: Asked): string | undefined {
  const name = linkType === undefined ? "defaultLink" : linkTypeName(linkType);
  if (name === "defaultLink") return defaultLink.href;
  if (name !== "dpp") return undefined;
  const type = mediaWanted(
    accept,
    dpp.map((target) => target.type),
  );
  return (dpp.find((target) => target.type === type) ?? defaultLink).href;
}

/** The whole query goes along as it was sent: Node's parser lets nothing into an address that a header couldn't carry. */
const withQuery = (href: string, query: string): string => (query === "" ? href : `${href}${href.includes("?") ? "&" : "?"}${query}`);

function tell(scans: Deps["scans"], found: Resolution, { headers: { accept } }: Asked, requestId: string): void {
  const { tenantId, at, levels } = found;
  const [{ key, productId }] = levels;
  const { gtin, serial } = key;
  if (serial === undefined) return;
  scans.add({ tenantId, productId, gtin, serial, at, agent: accept?.includes("text/html") ? "browser" : "program", requestId });
}

const Target = closed({
  href: Type.String(),
  title: Type.String(),
  type: Type.Optional(Type.String()),
  hreflang: Type.Optional(Type.Array(Type.String())),
});
/** RFC 9264: each further member is a link type, by its whole URI. */
const Linkset = closed({
  linkset: Type.Array(
    Type.Object(
      { anchor: Type.String(), itemDescription: Type.Optional(Type.String()) },
      { additionalProperties: Type.Array(Target), description: "From the link that was asked for up to its GTIN" },
    ),
  ),
});

/** As the document shows it; whatever else a query says goes along. */
const Asking = Type.Object({
  linkType: Type.Optional(Type.String({ description: "Which link: gs1:dpp or https://ref.gs1.org/voc/dpp; linkset lists them all" })),
});

const link = (path: string, says: string, params: Parameters<typeof closed>[0], read: Read): Route =>
  serve({
    path,
    root: true,
    scope: "public",
    says,
    params: closed(params),
    query: Asking,
    readsAddress: true,
    headers: { "cache-control": "no-store", vary: "Accept, Accept-Language" },
    open: (asked, { origin: originOf }) => {
      const origin = originOf();
      const { key, sameAs } = questionIn(asked, read, origin);
      return { link: joined(linksetAt(origin, key), sameAs) };
    },
    refusalPage,
    jsonShape: Linkset,
    replies: { 200: [LINKSET, "text/html"], 302: "To the public passport, the whole query kept" },
    sends: ["Location", "Link"],
    maySend: ["Content-Language"],
    refusals: ["INVALID_GTIN", "INVALID_SERIAL", "PRODUCT_NOT_FOUND", "SERIAL_VOIDED"],
    run: ({ asked, requestId, deps }) => answer(asked, requestId, deps, read),
  });

const gtin = Type.String({ pattern: "^[0-9]{14}$", description: "GTIN, 14 digits" });
const value = (description: string, maxLength = 20) => Type.String({ minLength: 1, maxLength, description });
const [serial, lot, cpv] = [value("Serial number (AI 21)"), value("Lot (AI 10)"), value("Consumer product variant (AI 22)")];
const tpx = value("Third party controlled, serialised extension (AI 235)", 28);

const Described = Type.Object({ resolverRoot: Type.String(), supportedPrimaryKeys: Type.Array(Type.String()) });

export const resolver: Route[] = [
  link("/01/{gtin}", "Resolve a GTIN to its public passport (GS1 Digital Link)", { gtin }, fromLink),
  link("/01/{gtin}/21/{serial}", "Resolve one item by its serial; an unknown serial is 404, a voided one 410", { gtin, serial }, fromLink),
  link("/01/{gtin}/10/{lot}", "Resolve a lot; one that nobody speaks of is answered for by its GTIN", { gtin, lot }, fromLink),
  link(
    "/01/{gtin}/22/{cpv}/10/{lot}/21/{serial}",
    "Resolve a GTIN with any of its qualifiers, in this order",
    { gtin, cpv, lot, serial },
    fromLink,
  ),
  link(
    "/01/{gtin}/235/{tpx}",
    "Resolve a GTIN with a third party's extension, of which nothing is known here: answered for by the GTIN",
    { gtin, tpx },
    fromLink,
  ),
  link(
    "/eh{hex}",
    "Resolve an item by the hex digits of its SGTIN-96",
    { hex: Type.String({ pattern: "^[0-9A-Fa-f]{24}$" }) },
    fromEpc("h"),
  ),
  link(
    "/ex{base64url}",
    "Resolve an item by its SGTIN-96 in base64url",
    { base64url: Type.String({ pattern: "^[\\w-]{16}$" }) },
    fromEpc("x"),
  ),
  serve({
    path: "/.well-known/gs1resolver",
    root: true,
    scope: "public",
    says: "What this resolver resolves (GS1 resolver description file)",
    open: true,
    replies: { 200: Described },
    run: async ({ deps }) => ({
      status: 200,
      body: {
        name: "Imprimatur",
        resolverRoot: deps.origin(),
        supportedPrimaryKeys: ["01"],
        supportedLinkType: [{ namespace: VOCABULARY, prefix: "gs1:" }],
        linkTypeDefaultCanBeLinkset: false,
        contact: { fn: "Imprimatur" },
      },
    }),
  }),
];
