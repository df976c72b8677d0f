// Products with the stage that each has come to on its way to a passport.
import type { ProductStage } from "#shared/states.ts";
import { h, useEffect, useSignal } from "#shared/web/dom.ts";
import type { Product } from "#shared/wire/products.ts";
import { words } from "../language.ts";
import { useList } from "../loading.ts";
import { Ago, Badge, code, Listed, textIn, theirs, Title, type Tone } from "../parts.ts";
import { goTo, place } from "../state.ts";

const TONES: Record<ProductStage, Tone> = { draft: "calm", validated: "work", ready_for_dpp: "good" };

export const Stage = ({ of: { stage, voidedAt } }: { of: Pick<Product, "stage" | "voidedAt"> }) =>
  voidedAt === null
    ? h(Badge, { tone: TONES[stage], text: words().products.stages[stage] })
    : h(Badge, { tone: "bad", text: words().products.voided });

function List({ name }: { name: string }) {
  const list = useList<Product>(`/products${name === "" ? "" : `?q=${encodeURIComponent(name)}`}`, ["product"]);
  const { products, common } = words();
  const columns = [
    {
      title: common.name,
      class: "wide",
      cell: (product: Product) => h("a", { href: `#/products/${product.id}` }, theirs(product.productName)),
    },
    { title: products.stage, cell: (product: Product) => h(Stage, { of: product }) },
    { title: products.gtin, class: "whole", cell: (product: Product) => code(product.gtin) },
    { title: products.category, cell: (product: Product) => theirs(product.category) },
    { title: products.changed, cell: (product: Product) => h(Ago, { at: product.updatedAt }) },
  ];
  const empty = name === "" ? products.none : products.noMatch;
  return h(Listed<Product>, { list, label: products.title, columns, keyOf: ({ id }) => id, empty });
}

export function Products() {
  const name = place.value.query.get("q") ?? "";
  const { products, common } = words();
  const typed = useSignal(name); // another language takes nothing of it away
  useEffect(() => void (typed.value = name), [name]);
  function find(event: SubmitEvent): void {
    event.preventDefault();
    const text = textIn(event);
    goTo(text === "" ? "/products" : `/products?q=${encodeURIComponent(text)}`);
  }
  const form = h(
    "form",
    { class: "find", role: "search", onSubmit: find },
    h("input", {
      name: "text",
      type: "search",
      value: typed.value,
      "aria-label": products.find,
      placeholder: products.find,
      maxLength: 200,
      onInput: (event: Event) => (typed.value = (event.currentTarget as HTMLInputElement).value),
    }),
    h("button", { type: "submit" }, common.search),
  );
  return [h(Title, { text: products.title, aside: form }), h(List, { name, key: name })];
}
