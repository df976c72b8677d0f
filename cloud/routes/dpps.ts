// EN 18222's mandatory reads, at the root and open to all: a passport by its id, by its product, and the ids of many products' passports.
import { Dpp, DppIds, DppIdsAsked, DppIdsQuery, DppParams, DppProductParams, DppQuery } from "#shared/wire/dpps.ts";
import * as domain from "../domain/dpps.ts";
import { read, type Reply, type Route } from "../route.ts";

const [tag, root, scope] = ["EN 18222", true, "public"] as const;
const shown = (body: object): Reply => ({ status: 200, body, headers: { "access-control-allow-origin": "*" } });

export const dpps: Route[] = [
  read({
    method: "GET",
    path: "/v1/dpps/{dppId}",
    root,
    scope,
    says: "A published passport by its id, in EN 18223's envelope (ReadDPPById); suspended, archived or voided, only what it was",
    tag,
    params: DppParams,
    query: DppQuery,
    replies: { 200: Dpp },
    run: async ({ tx, params, query, deps }) => shown(await domain.byId(tx, params.dppId, query, deps.origin())),
  }),
  read({
    method: "GET",
    path: "/v1/dppsByProductId/{productId}",
    root,
    scope,
    says: "The passport of the product that a Digital Link names (ReadDPPByProductId)",
    tag,
    params: DppProductParams,
    query: DppQuery,
    replies: { 200: Dpp },
    run: async ({ tx, params, query, deps }) => shown(await domain.byProduct(tx, params.productId, query, deps.origin())),
  }),
  read({
    method: "POST",
    path: "/v1/dppsByProductIds",
    root,
    scope,
    says: "The ids of the published passports of these products (ReadDPPIdsByProductIds)",
    tag,
    query: DppIdsQuery,
    body: DppIdsAsked,
    example: { productIds: ["https://id.gs1.org/01/04006381333931/21/K17-0001"] },
    replies: { 200: DppIds },
    run: async ({ tx, query, body }) => shown(await domain.idsOf(tx, body.productIds, query)),
  }),
];
