// A passport for the person who scanned its label: what it is, whether to believe it, what it is made of, and how long it will serve.
import { API } from "#shared/api.ts";
import { digitalLink } from "#shared/gs1.ts";
import { isObject } from "#shared/object.ts";
import { passportUrl } from "../domain/linkset.ts";
import type { PublicPassport } from "../domain/public-passports.ts";
import { day, factsOf, ITEMS_MAX, labelOf, number, numberOf, percent, valueOf } from "./facts.ts";
import { type Html, html, jsonScript, theirs } from "./html.ts";
import { page } from "./layout.ts";
import { type Language, words } from "./words/index.ts";

type Facts = Record<string, unknown>;
const objectIn = (facts: Facts, key: string): Facts => {
  const value = facts[key];
  return isObject(value) ? value : {};
};
const textIn = (facts: Facts, key: string): string | undefined => (typeof facts[key] === "string" ? facts[key] || undefined : undefined);
const without = (facts: Facts, keys: ReadonlySet<string>): Facts =>
  Object.fromEntries(Object.entries(facts).filter(([key]) => !keys.has(key)));

/** Decoration only: every figure beside it is also said in words. */
const bar = (share: number) =>
  html`<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" focusable="false">
    <rect class="rest" width="100" height="4" />
    <rect width="${Math.round(Math.min(1, Math.max(0, share)) * 1000) / 10}" height="4" />
  </svg>`;
const SEAL: Html = {
  html: '<svg class="seal" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d="M12 1.8l2.6 1.9 3.2-.1 1 3 2.6 1.9-1 3.1 1 3.1-2.6 1.9-1 3-3.2-.1L12 21.4l-2.6-1.9-3.2.1-1-3-2.6-1.9 1-3.1-1-3.1 2.6-1.9 1-3 3.2.1z"/><path class="mark" d="M7.8 11.9l2.9 2.9 5.6-5.9"/></svg>',
};

/** The number large, its unit beside it. */
function figure(text: string): Html {
  const [value = "", unit] = text.split("\u00a0", 2);
  return html`<span class="figure">${value}${unit !== undefined && html` <small>${unit}</small>`}</span>`;
}

type Tile = (value: number | string, language: Language) => Html | undefined;
const share: Tile = (value, language) =>
  typeof value === "number" ? html`<span class="figure">${percent(value, language)}</span>${bar(value)}` : undefined;
const amount =
  (key: string): Tile =>
  (value, language) =>
    typeof value === "number" ? figure(numberOf(value, key, language)) : undefined;
/** What most people look for first, in this order; from the product's properties or its scorecards. */
const TILES: Record<string, Tile> = {
  energyEfficiencyClass: (value) =>
    typeof value === "string" && /^[A-G]$/.test(value)
      ? html`<span class="figure class-${value.toLowerCase()}">${value}</span>`
      : undefined,
  repairabilityScore: (value, language) =>
    typeof value === "number" ? html`${figure(words[language].of(number(value, language), "10"))}${bar(value / 10)}` : undefined,
  recycledContent: share,
  recyclableContent: share,
  productLifetimeYears: amount("productLifetimeYears"),
  sparePartsAvailabilityYears: amount("sparePartsAvailabilityYears"),
  annualEnergyConsumptionKwh: amount("annualEnergyConsumptionKwh"),
  carbonFootprint: amount("carbonFootprint"),
};

function glance(all: Facts, language: Language): { tiles: Html[]; told: Set<string> } {
  const told = new Set<string>();
  const tiles = Object.entries(TILES).flatMap(([key, tile]) => {
    const value = all[key];
    const made = typeof value === "number" || typeof value === "string" ? tile(value, language) : undefined;
    if (!made) return [];
    told.add(key);
    return [
      html`<div class="tile">
        <dt>${labelOf(key, language)}</dt>
        <dd>${made}</dd>
      </div>`,
    ];
  });
  return { tiles, told };
}

/** A sentence with somebody's name in it, which is theirs. */
function naming(say: (who: string) => string, mark: (who: Html) => Html, who: string): Html {
  const [before, after] = say("\0").split("\0");
  return html`${before}${mark(theirs(who))}${after}`;
}

function trust({ issuer, serial, anchored, sealedAt, revokedAt }: PublicPassport, language: Language): Html {
  const say = words[language];
  if (revokedAt !== null)
    return html`<section class="trust bad">
      <h2>${say.withdrawn}</h2>
      <p>${say.revokedOn(day(revokedAt, language))}</p>
    </section>`;
  const label = sealedAt === undefined ? say.notSealed : say.sealedOn(day(sealedAt, language));
  const signed = naming(say.signedBy, (who) => html`<strong>${who}</strong>`, issuer);
  return html`<section class="trust ${anchored ? "good" : "signed"}">
    <h2>${SEAL}${anchored ? say.verified : say.signed}</h2>
    <p>${signed}${say.gap}${anchored ? say.anchoredOn(day(anchored.at, language)) : say.notAnchored}</p>
    ${serial !== undefined && html`<p>${label}${say.gap}${say.compare}</p>`}
  </section>`;
}

const section = (title: Html | string, content: Html): Html =>
  html`<section class="card">
    <h2>${title}</h2>
    ${content}
  </section>`;
const hasFacts = (facts: Facts): boolean => Object.keys(facts).some((key) => key !== "type" && key !== "id");

function materials(list: unknown, language: Language): Html[] {
  const say = words[language];
  if (!Array.isArray(list)) return [];
  const all = list.map((item): Facts => (isObject(item) ? item : { name: item }));
  const rows = (some: Facts[]) =>
    html`<ul class="materials">
      ${some.slice(0, ITEMS_MAX).map((item) => {
        const { name, massFraction, hazardous: _, ...rest } = item;
        const fraction = typeof massFraction === "number" ? massFraction : undefined;
        return html`<li>
          <span class="row"
            ><span>${typeof name === "string" ? theirs(name) : valueOf(name, "name", language)}</span
            >${fraction !== undefined && html`<span>${percent(fraction, language)}</span>`}</span
          >
          ${fraction !== undefined && bar(fraction)}${hasFacts(rest) && factsOf(rest, language, 1)}
        </li>`;
      })}
      ${some.length > ITEMS_MAX && html`<li>${say.cut}</li>`}
    </ul>`;
  const [harmless, harmful] = [all.filter(({ hazardous }) => hazardous !== true), all.filter(({ hazardous }) => hazardous === true)];
  return [
    ...(harmless.length > 0 ? [section(say.materials, rows(harmless))] : []),
    ...(harmful.length > 0 ? [section(say.substances, rows(harmful))] : []),
  ];
}

/** Told elsewhere on the page, where it is what it is told as. */
const PRODUCT_TOLD = new Set(["name", "description", "serialNumber", "batchNumber", "characteristics", "productImage"]);
const isUntold = (product: Facts, key: string): boolean =>
  (key === "description" && typeof product[key] !== "string") ||
  (key === "characteristics" && !isObject(product[key])) ||
  (key === "batchNumber" && product["serialNumber"] !== undefined); // the lot that an item comes from
/** Sections of which some is told at a glance. */
const AT_A_GLANCE = new Set(["emissionsScorecard", "circularityScorecard"]);
const TOLD = new Set(["type", "@context", "id", "granularityLevel", "product", "materialsProvenance"]);

function sections(content: Facts, told: ReadonlySet<string>, language: Language): Html[] {
  const product = objectIn(content, "product");
  const toldOfIt = new Set([...PRODUCT_TOLD].filter((key) => !isUntold(product, key)));
  const details = { ...without(product, toldOfIt), ...without(objectIn(product, "characteristics"), told) };
  const others = Object.entries(content).filter(([key]) => !TOLD.has(key));
  return [
    ...materials(content["materialsProvenance"], language),
    ...others.slice(0, ITEMS_MAX).flatMap(([key, value]) => {
      const left = isObject(value) && AT_A_GLANCE.has(key) ? without(value, told) : value;
      if (isObject(left) && !hasFacts(left)) return [];
      return [section(labelOf(key, language), valueOf(left, key, language))];
    }),
    ...(others.length > ITEMS_MAX ? [html`<p>${words[language].cut}</p>`] : []),
    ...(hasFacts(details) ? [section(words[language].details, factsOf(details, language))] : []),
  ];
}

/** Its Digital Link: nobody may speak for the GTIN of a lot as a whole. */
const linkTo = ({ gtin, serial, lot }: PublicPassport, origin: string): string =>
  digitalLink(origin, gtin, serial === undefined ? { lot } : { serial });

/** The same in schema.org's words, for search engines and assistants. */
function schemaOrg(passport: PublicPassport, origin: string): Html {
  const { gtin, serial, issuer, content, uid } = passport;
  const product = objectIn(content, "product");
  const properties = Object.entries(objectIn(product, "characteristics")).filter(([, value]) => typeof value !== "object");
  return jsonScript({
    "@context": "https://schema.org",
    "@type": "Product",
    "@id": linkTo(passport, origin),
    url: passportUrl(origin, uid, serial),
    name: textIn(product, "name") ?? gtin,
    description: textIn(product, "description"),
    gtin14: gtin,
    serialNumber: serial,
    manufacturer: { "@type": "Organization", name: textIn(objectIn(product, "producedByParty"), "name") ?? issuer },
    additionalProperty: properties.slice(0, ITEMS_MAX).map(([name, value]) => ({ "@type": "PropertyValue", name, value })),
  });
}

export function passportPage(passport: PublicPassport, language: Language, origin: string): string {
  const say = words[language];
  const { gtin, serial, lot, issuer, content, uid, version, publishedAt, digest, anchored } = passport;
  const product = objectIn(content, "product");
  const name = textIn(product, "name") ?? gtin;
  const description = textIn(product, "description");
  const { tiles, told } = glance(
    { ...objectIn(content, "emissionsScorecard"), ...objectIn(content, "circularityScorecard"), ...objectIn(product, "characteristics") },
    language,
  );
  const granularity = textIn(content, "granularityLevel");
  const identity: (readonly [string, string | undefined])[] = [
    [say.gtin, gtin],
    [say.serial, serial],
    [say.lot, lot],
  ];
  const links: (readonly [string, string | undefined])[] = [
    [say.credential, passportUrl(origin, uid, serial, ".vc")],
    [say.data, passportUrl(origin, uid, serial, ".jsonld")],
    [say.proof, anchored && `${origin}${API}/log/proof?digest=${digest}`],
    [say.links, `${linkTo(passport, origin)}?linkType=linkset`],
  ];
  const body = html`<header>
      <p class="kicker">${say.passport}</p>
      <h1>${theirs(name)}</h1>
      <p class="by">${naming(say.by, (who) => who, issuer)}</p>
      ${description !== undefined && html`<p class="lead" dir="auto">${description}</p>`}
    </header>
    <main>
      ${trust(passport, language)}
      <section class="card">
        <h2>${say.identity}</h2>
        <dl class="facts identity">
          ${identity.map(
            ([label, value]) =>
              value !== undefined &&
              html`<div>
                <dt>${label}</dt>
                <dd class="code">${value}</dd>
              </div>`,
          )}
          ${
            granularity !== undefined &&
            Object.hasOwn(say.granularity, granularity) &&
            html`<div>
              <dt>${say.covers}</dt>
              <dd>${say.granularity[granularity as "item"]}</dd>
            </div>`
          }
        </dl>
      </section>
      ${
        tiles.length > 0 &&
        html`<section>
          <h2>${say.glance}</h2>
          <dl class="tiles">${tiles}</dl>
        </section>`
      }
      ${sections(content, told, language)}
    </main>
    <footer>
      <h2>${say.more}</h2>
      <ul class="plain">
        ${links.map(([label, href]) => href !== undefined && html`<li><a href="${href}">${label}</a></li>`)}
      </ul>
      <p class="quiet">
        ${say.version(number(version, language), day(publishedAt ?? 0, language))} · <span class="whole">SHA-256</span>
        <span class="code">${digest}</span>
      </p>
    </footer>`;
  return page({ language, title: `${name} · ${say.passport}`, head: schemaOrg(passport, origin), body });
}
