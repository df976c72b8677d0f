// The headers of answers in the OpenAPI document: every answer has some, described once and referred to.
import { type Route, sentWith } from "./route.ts";

const text = (description: string) => ({ description, schema: { type: "string" } });
const number = (description: string) => ({ description, schema: { type: "integer" } });
export const headers = {
  "X-Correlation-Id": text("The request's, if it sent a safe one, else a new one"),
  "X-RateLimit-Limit": number("The budget a minute"),
  "X-RateLimit-Remaining": number("What may be sent at once now"),
  "X-RateLimit-Reset": number("Seconds until the budget is whole again; of a 429, until the next request is let in"),
  "Retry-After": number("Seconds to wait"),
  "Idempotency-Replayed": text("true where an earlier answer is shown again"),
  ETag: text("The version, in quotes"),
  Location: text("Where the thing is"),
  "Content-Disposition": text("The name that the file is saved by"),
  Link: text("What goes with this: the next page, or a linkset and another name of the thing; several are one list with commas"),
  "Content-Language": text("The language of a page"),
  "Access-Control-Allow-Origin": text("*: any web page may read this"),
  "GS1-EPCIS-Version": text("The version of EPCIS that this speaks"),
  "GS1-CBV-Version": text("The version of the Core Business Vocabulary"),
  "GS1-EPC-Format": text("How things are named: as they were when they were captured"),
  "GS1-Capture-Error-Behaviour": text("rollback or proceed, as it was asked for"),
  "GS1-EPCIS-Capture-Limit": number("The most events of one capture"),
  "GS1-EPCIS-Capture-File-Size-Limit": number("The most bytes of one capture"),
  "WWW-Authenticate": text("How to say who it is, and what was wrong with what was said"),
} as const;
type Name = keyof typeof headers;
const named = (written: object): Name[] =>
  (Object.keys(headers) as Name[]).filter((name) => Object.keys(written).includes(name.toLowerCase()));

const RATE: Name[] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/** Of a refusal, what kind of credential there has to be. */
const asks = (route: Route, status: number): boolean =>
  status === 401 ? route.scope !== "public" : status === 403 && Array.isArray(route.scope);

function namesFor(route: Route, status: number): Name[] {
  return [
    "X-Correlation-Id",
    ...(route.always ? [] : RATE),
    ...(status === 429 || status === 503 ? (["Retry-After"] as const) : []),
    ...(route.kind === "write" && status < 500 ? (["Idempotency-Replayed"] as const) : []),
    ...(asks(route, status) ? (["WWW-Authenticate"] as const) : []),
    ...(status === 413 && route.standard ? named(route.standard.limits) : []),
    ...(status >= 400 && route.refusalPage ? (["Content-Language"] as const) : []),
    ...(route.open ? (["Access-Control-Allow-Origin"] as const) : []),
    ...sentWith(route, status),
    ...(status === 200 ? (route.maySend ?? []) : []),
  ];
}

export const headersOf = (route: Route, status: number): Record<string, unknown> =>
  Object.fromEntries(namesFor(route, status).map((name) => [name, { $ref: `#/components/headers/${name}` }]));
