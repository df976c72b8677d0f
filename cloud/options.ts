// What OPTIONS tells of an address: to any web page that it may read it, to a standard's clients what they discover.
import type { FastifyInstance } from "fastify";
import type { Deps } from "./deps.ts";
import type { Limit } from "./rate.ts";
import { askedBy } from "./request.ts";
import { type Asked, pathOf, type Route } from "./route.ts";
import { allow } from "./unrouted.ts";

export const CORS = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "ETag, Link, Location, Retry-After, X-Correlation-Id",
  "cross-origin-resource-policy": "cross-origin",
};
const PREFLIGHT = {
  "access-control-allow-methods": "GET, HEAD, OPTIONS",
  "access-control-allow-headers": "Accept, Accept-Language, If-None-Match, X-Correlation-Id",
  "access-control-max-age": "86400",
  allow: "GET, HEAD, OPTIONS",
};

type Means = { routes: readonly Route[]; deps: Deps; limit: Limit };
export function answerOptions(app: FastifyInstance, url: string, route: Route, { routes, deps, limit }: Means): void {
  const headersOf = optionsOf(route, routes, deps);
  if (!headersOf) return;
  app.route({
    method: "OPTIONS",
    url,
    schema: { hide: true },
    config: { endpoint: pathOf(route) },
    onRequest: limit,
    handler: async (request, reply) =>
      reply
        .code(204)
        .headers(headersOf(askedBy(request)))
        .send(),
  });
}

/** Undefined where it has nothing to tell. */
function optionsOf(
  { open, standard, path }: Route,
  routes: readonly Route[],
  deps: Deps,
): ((asked: Asked) => Record<string, string>) | undefined {
  if (open) return (asked) => ({ ...CORS, ...PREFLIGHT, ...(open === true ? {} : open(asked, deps)) });
  if (!standard) return undefined;
  const there = routes.filter((route) => route.path === path);
  const told: Record<string, string> = Object.assign({}, ...there.map((route) => route.standard?.discovery));
  return () => ({ ...told, allow: allow(["OPTIONS", ...there.map(({ method }) => method)]) });
}
