// The external passport registry: it is told where a published passport is and what it hashes to, and answers with a registration id.
import { digestOf } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import type { Granularity } from "#shared/states.ts";
import { Registered } from "#shared/wire/trust.ts";
import { asking } from "./outside.ts";

/** EN 18222's registry entry, and what the EU's registry keeps of a version. */
export type Entry = {
  uniqueProductIdentifier: string;
  digitalProductPassportId: string;
  uniqueEconomicOperatorIdentifier: string;
  dppApiEndpoint: string;
  granularity: Granularity;
  version: number;
  hashAlgorithm: "SHA-256";
  hash: string;
};
export type Registry = { url: string; register(entry: Entry): Promise<Registered> };

export function registryAt(base: string): Registry {
  const url = `${base.replace(/\/+$/, "")}/v1/registerDPP`;
  const ask = asking<Registered>(Registered);
  return {
    url,
    register: async (entry) => {
      try {
        return await ask({ url, body: entry, key: digestOf(entry) });
      } catch (cause) {
        const message = `the registry failed: ${(cause as Error).message}; nothing was written, and asking again is safe`;
        throw Object.assign(new Refusal("REGISTRY_UNAVAILABLE", message, undefined, { "retry-after": "10" }), { cause });
      }
    },
  };
}
