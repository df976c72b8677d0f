// One product: its stage, its passport and whether labels of it may be printed, its carriers as files, and all that happened to it.
import { h } from "#shared/web/dom.ts";
import type { PassportListed, Validations } from "#shared/wire/passports.ts";
import type { DomainEvent, Product } from "#shared/wire/products.ts";
import { addressOf } from "../api.ts";
import { count, words } from "../language.ts";
import { type Page, useList, useLoaded } from "../loading.ts";
import { Card, code, Empty, Facts, Moment, More, Shown, theirs, Title, toneIcon } from "../parts.ts";
import { exportOf, mayExport } from "./dead-letters.ts";
import { isRevoked, PassportState } from "./passports.ts";
import { Stage } from "./products.ts";

function Anchors({ passport }: { passport: PassportListed }) {
  const chain = useLoaded<Validations>(`/passports/${passport.id}/validations`, ["passport"]);
  const { products } = words();
  return h(Shown<Validations>, {
    loaded: chain,
    children: ({ validations, readyToPrint }) => [
      h(
        "p",
        { class: `verdict ${readyToPrint ? "good" : "warn"}` },
        toneIcon(readyToPrint ? "good" : "warn"),
        readyToPrint ? products.ready : isRevoked(passport) ? products.revoked : products.notReady,
      ),
      validations.length === 0
        ? h(Empty, { text: products.notAnchored })
        : h(Facts, {
            facts: validations.map(
              ({ occurredAt, jrcAnchor }) => [h(Moment, { at: occurredAt }), code(jrcAnchor)] as unknown as readonly [string, object],
            ),
          }),
    ],
  });
}

function ItsPassport({ product }: { product: Product }) {
  const list = useList<PassportListed>(`/passports?productId=${product.id}`, ["passport", "product"]);
  const { products, passports } = words();
  return h(
    Card,
    { title: products.passport },
    h(Shown<Page<PassportListed>>, {
      loaded: list,
      children: ({ data: [passport] }) =>
        passport === undefined
          ? h(Empty, { text: products.noPassport })
          : [
              h(Facts, {
                facts: [
                  [words().common.state, h(PassportState, { of: passport })],
                  [passports.published, passport.publishedVersion !== null && count(passport.publishedVersion)],
                  [passports.draft, passport.draftVersion !== null && count(passport.draftVersion)],
                  [
                    products.publicPage,
                    passport.status === "published" &&
                      h("a", { href: `/p/${product.id}`, target: "_blank", rel: "noreferrer" }, `/p/${product.id}`),
                  ],
                ],
              }),
              h(Anchors, { passport }),
            ],
    }),
  );
}

const Files = ({ id }: { id: string }) => {
  const { products, attention } = words();
  if (!mayExport()) return null;
  const file = (href: string, text: string) => h("a", { class: "button", href, download: "" }, text);
  return h(
    Card,
    { title: products.carriers },
    h(
      "p",
      { class: "actions" },
      file(addressOf(`/carriers/export?productId=${id}`), products.exportAll),
      file(exportOf(id, "pending"), products.exportPending),
      file(exportOf(id, "failed"), attention.reprint),
    ),
  );
};

function Events({ id }: { id: string }) {
  const list = useList<DomainEvent>(`/products/${id}/events`, ["product"]);
  return h(
    Card,
    { title: words().products.life },
    h(Shown<Page<DomainEvent>>, {
      loaded: list,
      children: ({ data }) => [
        h(
          "ol",
          { class: "life" },
          data.map(({ id, type, timestamp, actor }) =>
            h(
              "li",
              { class: "calm", key: id },
              h("span", { class: "node", "aria-hidden": "true" }),
              h("h3", { class: "code" }, type),
              h("p", { class: "quiet" }, h(Moment, { at: timestamp }), " · ", theirs(actor.name)),
            ),
          ),
        ),
        h(More<DomainEvent>, { list }),
      ],
    }),
  );
}

export function ProductView({ id }: { id: string }) {
  const loaded = useLoaded<Product>(`/products/${encodeURIComponent(id)}`, ["product"]);
  const { products } = words();
  const known = loaded.data.value;
  return [
    h(Title, { text: known?.productName ?? products.title, aside: known && h(Stage, { of: known }) }),
    h(Shown<Product>, {
      loaded,
      children: (product) =>
        h(
          "div",
          { class: "grid job" },
          h(
            "div",
            { class: "pile" },
            h(
              Card,
              null,
              h("p", null, theirs(product.productDescription)),
              h(Facts, {
                facts: [
                  [products.gtin, code(product.gtin)],
                  [words().jobs.serial, code(product.serialNumber)],
                  [products.category, theirs(product.category)],
                  [products.version, count(product.version)],
                  [
                    products.voided,
                    product.voidedAt !== null && [h(Moment, { at: product.voidedAt }), " ", theirs(product.voidReason ?? "")],
                  ],
                ],
              }),
            ),
            h(ItsPassport, { product }),
            h(Files, { id }),
          ),
          h(Events, { id }),
        ),
    }),
  ];
}
