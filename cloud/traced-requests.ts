// A span for every request, under the caller's own where it names one, and the place from which the units of work of it hang.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Traced, Tracing } from "./tracing.ts";

/** Answers what ends a request's span. */
export function traceRequests(app: FastifyInstance, tracing: Tracing): (request: FastifyRequest, reply: FastifyReply) => void {
  const spans = new WeakMap<FastifyRequest, Traced>();
  app.addHook("onRequest", (request, _reply, next) => {
    const { method, routeOptions, headers, id } = request;
    const parent = typeof headers["traceparent"] === "string" ? headers["traceparent"] : undefined;
    const endpoint = routeOptions.config.endpoint ?? "(none)"; // the template, never what was typed
    const ids = { "http.request.method": method, "http.route": endpoint, "imprimatur.request_id": id };
    const span = tracing.begin(`${method} ${endpoint}`, "in", parent, ids);
    spans.set(request, span);
    tracing.within(span, next);
  });
  // The body comes by events, which know nothing of the request that waits for it.
  app.addHook("preHandler", (request, _reply, next) => {
    const span = spans.get(request);
    if (span) tracing.within(span, next);
    else next();
  });
  return (request, reply) => {
    const status = reply.raw.headersSent ? reply.statusCode : undefined;
    const ids = { "http.response.status_code": status, "imprimatur.tenant_id": request.caller.tenantId || undefined };
    spans.get(request)?.end({ isFault: request.refusal?.isFault ?? (status ?? 0) >= 500, ids });
  };
}
