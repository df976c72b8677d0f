// EN 18222's mandatory reads, at the root and open to all: a passport by its id, by its product, and the ids of many products' passports.
import { Readable } from "node:stream";
import { Dpp, DppIds, DppIdsAsked, DppIdsQuery, DppParams, DppProductParams, DppQuery } from "#shared/wire/dpps.ts";
import * as domain from "../domain/dpps.ts";
import { type Reply, type Route, routesUnder } from "../route.ts";

const { serve } = routesUnder("EN 18222");
const [root, scope, open] = [true, "public", true] as const;
/** A page that sends JSON asks first. */
const openToPost = () => ({
  "access-control-allow-methods": "POST, OPTIONS",
  "access-control-allow-headers": "Accept, Content-Type, X-Correlation-Id",
  allow: "POST, OPTIONS",
});

const reply = ({ dpp, data }: domain.Read): Reply => ({
  status: 200,
  body: data === undefined ? dpp : Readable.from(domain.inFull(dpp, data)),
});

export const dpps: Route[] = [
  serve({
    path: "/v1/dpps/{dppId}",
    root,
    scope,
    open,
    says: "A published passport by its id, in EN 18223's envelope (ReadDPPById); suspended, archived or voided, only what it was",
    params: DppParams,
    query: DppQuery,
    replies: { 200: Dpp },
    run: async ({ params, query, deps }) =>
      reply(await deps.store.read("dpp", (tx) => domain.byId(tx, params.dppId, query, deps.origin()))),
  }),
  serve({
    path: "/v1/dppsByProductId/{productId}",
    root,
    scope,
    open,
    says: "The passport of the product that a Digital Link names, be it a label's of that product (ReadDPPByProductId)",
    params: DppProductParams,
    query: DppQuery,
    replies: { 200: Dpp },
    refusals: ["SERIAL_VOIDED"],
    run: async ({ params, query, deps }) =>
      reply(await deps.store.read("dpp", (tx) => domain.byProduct(tx, params.productId, query, deps.origin()))),
  }),
  serve({
    method: "POST",
    path: "/v1/dppsByProductIds",
    root,
    scope,
    open: openToPost,
    says: "The ids of the published passports of these products (ReadDPPIdsByProductIds)",
    query: DppIdsQuery,
    body: DppIdsAsked,
    example: { productIds: ["https://id.gs1.org/01/04006381333931/21/K17-0001"] },
    replies: { 200: DppIds },
    run: async ({ query, body, deps }) => ({ status: 200, body: await domain.idsOf(deps.store, body.productIds, query, deps.origin()) }),
  }),
];
