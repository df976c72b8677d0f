// The headers of answers in the OpenAPI document: every answer has some, so they are put in once, at the end.

import { needsCredential, pathOf, type Route, sentWith } from "./route.ts";

type Response = { headers?: Record<string, unknown> };
type Document = { paths?: Record<string, Record<string, { responses?: Record<string, Response> }>>; components?: Record<string, unknown> };

const text = (description: string) => ({ description, schema: { type: "string" } });
const number = (description: string) => ({ description, schema: { type: "integer" } });
const headers = {
  "X-Correlation-Id": text("The request's, if it sent a safe one, else a new one"),
  "X-RateLimit-Limit": number("The budget a minute"),
  "X-RateLimit-Remaining": number("What may be sent at once now"),
  "X-RateLimit-Reset": number("Seconds until the budget is whole again; of a 429, until the next request is let in"),
  "Retry-After": number("Seconds to wait"),
  "Idempotency-Replayed": text("true where an earlier answer is shown again"),
  ETag: text("The version, in quotes"),
  Location: text("Where the thing is"),
  "Content-Disposition": text("The name that the file is saved by"),
  "WWW-Authenticate": text("How to say who it is"),
} as const;
type Name = keyof typeof headers;

const RATE: Name[] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

function namesFor(route: Route, status: number): Name[] {
  return [
    "X-Correlation-Id",
    ...(route.always ? [] : RATE),
    ...(status === 429 || status === 503 ? (["Retry-After"] as const) : []),
    ...(route.kind === "write" && status < 500 ? (["Idempotency-Replayed"] as const) : []),
    ...(status === 401 && needsCredential(route) ? (["WWW-Authenticate"] as const) : []),
    ...sentWith(route, status),
  ];
}

export function withHeaders<Api extends object>(api: Api, routes: readonly Route[]): Api {
  const document = api as Document;
  for (const route of routes)
    for (const [status, response] of Object.entries(document.paths?.[pathOf(route)]?.[route.method.toLowerCase()]?.responses ?? {}))
      response.headers = Object.fromEntries(
        namesFor(route, Number(status)).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
      );
  document.components = { ...document.components, headers };
  return api;
}
