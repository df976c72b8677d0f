// What no route answers: an address that exists is told which methods it takes (405), any other that it doesn't exist (404).
import type { FastifyInstance, FastifyRequest } from "fastify";
import { NO_SUCH_ADDRESS } from "#shared/api.ts";
import { Refusal } from "#shared/errors.ts";
import type { Limit } from "./rate.ts";
import { pathOf, type Route } from "./route.ts";

export function answerUnrouted(app: FastifyInstance, table: readonly Route[], limit: Limit, isFile: (path: string) => boolean): void {
  const verbsAt = verbsOf(table);
  // As the request comes in: what its body is like doesn't matter where nobody takes one.
  app.addHook("onRequest", async (request, reply) => {
    if (!request.is404) return;
    await limit(request, reply);
    throw refusalAt(request);
  });
  const refusalAt = (request: FastifyRequest): Refusal => {
    const path = pathnameOf(request.url);
    const { own, neighbours } = isFile(path) ? { own: ["GET"], neighbours: [] } : verbsAt(path);
    const allowed = own.length > 0 ? own : neighbours;
    // A file that isn't there is asked for by the right verb.
    if (allowed.length === 0 || allowed.includes(request.method === "HEAD" ? "GET" : request.method))
      return new Refusal("NOT_FOUND", NO_SUCH_ADDRESS);
    return wrongVerb(request.method, allowed);
  };
  app.setNotFoundHandler(async (request) => {
    throw refusalAt(request); // what serves files looks for one before it sends a request here
  });
  for (const url of new Set(table.map(pathOf).filter((path) => !path.includes("{")))) answerShadowed(app, url, verbsAt(url), limit);
}

/** A verb that only a neighbour knows is the wrong one all the same: GET /carriers/batch doesn't ask for a serial named batch. */
function answerShadowed(app: FastifyInstance, url: string, { own, neighbours }: Verbs, limit: Limit): void {
  const method = [...new Set(neighbours)].filter((verb) => !own.includes(verb));
  if (method.length === 0) return;
  app.route({
    method,
    url,
    schema: { hide: true },
    onRequest: async (request, reply) => {
      await limit(request, reply);
      throw wrongVerb(request.method, own);
    },
    handler: async () => {},
  });
}

/** Decoded once, as the router does, to which an encoded slash parts nothing; also where a proxy's absolute form was sent. */
function pathnameOf(url: string): string {
  const pathname = url.startsWith("/") ? (url.split("?")[0] ?? url) : (URL.parse(url)?.pathname ?? url);
  try {
    return decodeURIComponent(pathname.replaceAll(/%(?=2f)/gi, "%25"));
  } catch {
    return pathname; // no address of ours
  }
}

type Verbs = { own: string[]; neighbours: string[] };
/** The methods that an address has under its very name, and those of the addresses that have a parameter in its place. */
function verbsOf(table: readonly Route[]): (path: string) => Verbs {
  const shapeOf = (path: string) =>
    path
      .split(/\{\w+\}/)
      .map((part) => RegExp.escape(part))
      .join("[^/]+");
  const known = table.flatMap((route) => {
    const path = pathOf(route);
    const shape = new RegExp(`^${shapeOf(path)}$`);
    return [route.method, ...(route.open || route.standard ? ["OPTIONS"] : [])].map((method) => ({ method, path, shape }));
  });
  return (asked) => {
    const fitting = known.filter(({ shape }) => shape.test(asked));
    const methods = (isOwn: boolean) => fitting.filter(({ path }) => (path === asked) === isOwn).map(({ method }) => method);
    return { own: methods(true), neighbours: methods(false) };
  };
}

/** As the header Allow has them. */
export const allow = (methods: readonly string[]): string =>
  [...new Set([...methods, ...(methods.includes("GET") ? ["HEAD"] : [])])].toSorted().join(", ");

function wrongVerb(method: string, allowed: readonly string[]): Refusal {
  const all = allow(allowed);
  return new Refusal("METHOD_NOT_ALLOWED", `${method} isn't possible here, ${all} is`, undefined, { allow: all });
}
