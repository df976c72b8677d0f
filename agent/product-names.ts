// What a product is called, for people at the line: read off its public passport when a job of it is claimed, kept for when the cloud is away. Never evidence.
import type { Store } from "./buffer.ts";
import type { CloudClient } from "./cloud.ts";

const NAME_MAX_LENGTH = 200;
const keyOf = (gtin: string) => `product:${gtin}`;
export type ProductNames = { of(gtin: string): string | null; learn(gtin: string, productId: string): Promise<void> };

export function productNames(store: Store, cloud: CloudClient): ProductNames {
  const known = new Map<string, string | null>();
  const of = (gtin: string): string | null => {
    if (!known.has(gtin)) known.set(gtin, store.meta(keyOf(gtin)) ?? null);
    return known.get(gtin) ?? null;
  };
  return {
    of,
    learn: async (gtin, productId) => {
      if (of(gtin) !== null) return;
      const said = await cloud.passport(productId);
      const name = said.ok ? nameIn(said.value) : undefined;
      if (name === undefined) return; // the GTIN alone has to do
      store.setMeta(keyOf(gtin), name);
      known.set(gtin, name);
    },
  };
}

/** The credential's subject is the product, or says `product` of it. */
function nameIn(passport: unknown): string | undefined {
  const { credentialSubject: subject } = (passport ?? {}) as { credentialSubject?: { name?: unknown; product?: { name?: unknown } } };
  const name = subject?.product?.name ?? subject?.name;
  return typeof name === "string" && name !== "" ? name.slice(0, NAME_MAX_LENGTH) : undefined;
}
