// The OpenAPI 3.1 document, made from the routes: what validates is what is shown.
import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import type { FastifyInstance, FastifySchema, preHandlerHookHandler } from "fastify";
import { Type } from "typebox";
import { type ErrorCode, errors, shownCode } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { isObject } from "#shared/object.ts";
import { closed, ErrorReply, patternWords, ProblemReply } from "#shared/wire/common.ts";
import { DppFailure } from "#shared/wire/dpps.ts";
import { PLAIN as SESSION_COOKIE } from "./console-cookie.ts";
import { isEn18222 } from "./en18222.ts";
import { headers, headersOf } from "./openapi-headers.ts";
import { withNames } from "./openapi-names.ts";
import { withWebhooks } from "./openapi-webhooks.ts";
import { PROBLEM } from "./problem.ts";
import type { Limit } from "./rate.ts";
import { isSchema, mediaOf, mediaOfReply, needsCredential, pathOf, type Route } from "./route.ts";

const ALWAYS: ErrorCode[] = ["RATE_LIMITED", "INTERNAL_ERROR", "STORE_UNAVAILABLE", "OVERLOADED", "TIMED_OUT"];

/** Every code that a route can answer with: those it names, and those that follow from what it is. */
function refusalsOf(route: Route): ErrorCode[] {
  return [
    "VALIDATION_ERROR", // a query parameter that nobody knows, if nothing else
    "MALFORMED_REQUEST",
    ...(route.method !== "GET" ? (["MALFORMED_JSON", "PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"] as const) : []),
    ...(route.params ? (["URI_TOO_LONG"] as const) : []),
    ...(needsCredential(route) ? (["UNAUTHORIZED", route.deniedAs ?? "API_SCOPE_DENIED", "CROSS_SITE"] as const) : []),
    ...(route.scope === "public" || route.evenExpired ? [] : (["SANDBOX_EXPIRED"] as const)),
    ...(route.params ? (["NOT_FOUND"] as const) : []),
    ...(route.kind === "write" ? (["IDEMPOTENCY_CONFLICT"] as const) : []),
    ...(route.takesIfMatch ? (["PRECONDITION_FAILED"] as const) : []),
    ...(route.onlyDevices ? (["DEVICE_KEY_REQUIRED"] as const) : []),
    ...(route.refusals ?? []),
    ...ALWAYS,
  ];
}

function refusalReplies(route: Route): Record<number, unknown> {
  const byStatus = Map.groupBy(new Set(refusalsOf(route)), (code) => errors[code].status);
  const described = [...byStatus].map(([status, codes]) => [
    status,
    {
      $ref: isEn18222(pathOf(route)) ? "DppFailure#" : "Error#",
      description: codes.map((code) => `${shownCode(code)}: ${errors[code].says}`).join("\n\n"),
    },
  ]);
  return Object.fromEntries(described);
}

const CORRELATION = Type.Optional(
  Type.String({ maxLength: limits.CORRELATION_ID_MAX_LENGTH, description: "Comes back in the answer, the log and the audit row" }),
);
const IF_MATCH = Type.Optional(Type.String({ description: 'The ETag that the change is meant for, such as "3"; another version is 412' }));
const IF_NONE_MATCH = Type.Optional(Type.String({ description: "The ETag of what is there already; if it still stands, that is 304" }));
const keyHeader = Type.String({
  minLength: 1,
  maxLength: limits.IDEMPOTENCY_KEY_MAX_LENGTH,
  description: "Same key and same request: one effect, the same answer",
});

function successReplies(route: Route): Record<number, unknown> {
  return Object.fromEntries(
    Object.entries(route.replies).map(([status, reply]) => {
      if (isSchema(reply)) return [status, { description: route.says, content: { "application/json": { schema: reply } } }];
      const description = [reply].flat().join(", ");
      const media = mediaOfReply(reply);
      if (media.length === 0) return [status, { type: "null", description }];
      const shapeOf = (name: string) => (name.endsWith("json") ? (route.jsonShape ?? {}) : { type: "string" });
      return [status, { description, content: Object.fromEntries(media.map((name) => [name, { schema: shapeOf(name) }])) }];
    }),
  );
}

const access = ({ scope }: Route): string => {
  if (scope === "public") return "Open to everybody.";
  if (scope === "client") return "Authenticated by client_id and client_secret, in the body or by HTTP Basic.";
  return scope === "credential" ? "Any good credential." : `Scope: ${scope.map((name) => `\`${name}\``).join(" or ")}.`;
};

const shownBody = (body: object, example: unknown) => ({ ...body, ...(example === undefined ? {} : { examples: [example] }) });

export function schemaOf(route: Route): FastifySchema {
  const takes = closed({
    "x-correlation-id": CORRELATION,
    ...(route.takesIfMatch ? { "if-match": IF_MATCH } : {}),
    ...(304 in route.replies ? { "if-none-match": IF_NONE_MATCH } : {}),
    ...Object.fromEntries(
      Object.entries(route.takesHeaders ?? {}).map(([name, { says, oneOf }]) => [
        name,
        Type.Optional(Type.Enum([...oneOf], { description: says })),
      ]),
    ),
    ...(route.kind === "write" ? { "idempotency-key": route.idempotencyKey === "required" ? keyHeader : Type.Optional(keyHeader) } : {}),
  });
  const operationId = `${route.method.toLowerCase()}${pathOf(route).replaceAll(/[^a-z0-9]+(\w?)/gi, (_, next: string) => next.toUpperCase())}`;
  return {
    summary: route.says,
    description: access(route),
    operationId,
    tags: [route.tag],
    security: needsCredential(route) ? [{ bearer: [] }, { apiKey: [] }, { session: [] }] : [],
    ...(route.body || route.takesFile || route.takesBytes ? { consumes: mediaOf(route) } : {}),
    ...(route.params ? { params: route.params } : {}),
    ...(route.query ? { querystring: route.query } : {}),
    ...(route.body ? { body: shownBody(route.body, route.example) } : {}),
    ...(route.takesFile ? { body: shownBody(Type.String({ description: "The file, with a header line" }), route.example) } : {}),
    ...(route.takesBytes ? { body: Type.String({ description: "The picture's bytes" }) } : {}),
    headers: takes,
    response: { ...successReplies(route), ...refusalReplies(route) },
  };
}

/** No body at all is an object without fields: where such a one is taken, none has to come. */
function hasToCome({ body, judge }: Route): boolean {
  const { required = [], minProperties = 0 } = body as { required?: string[]; minProperties?: number };
  return required.length > 0 || minProperties > 0 || (judge?.({}, [], {}) ?? []).length > 0;
}

/** A file as the one part of a form, by its name; bare it is the body itself. */
const asForm = ({ takesFile, example }: Route) => ({
  schema: closed({ file: Type.String({ contentMediaType: takesFile }) }),
  example: { file: example },
});

/** A refusal's other forms, for those who accept them. */
const otherForms = (route: Route) => ({
  ...(isEn18222(pathOf(route)) ? {} : { [PROBLEM]: { schema: { $ref: "#/components/schemas/Problem" } } }),
  ...(route.refusalPage ? { "text/html": { schema: { type: "string" } } } : {}),
});

type Answer = { content?: Record<string, unknown>; headers?: Record<string, unknown> };
type Operation = { requestBody?: { required: boolean; content?: object }; responses?: Record<string, Answer> };
type Document = { paths?: Record<string, Record<string, Operation>>; components?: object };

/** What most languages' expressions don't know: whoever validates by the document would stumble over it, also where no text is wrong. */
const UNPORTABLE = /\\p\{|\(\?[=!<]/;

/** What is judged later, where more is known, is shown as it is judged then; a pattern that few can read, in words. */
function asShown(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asShown);
  if (!isObject(value)) return value;
  if ("shownAs" in value) return asShown(value["shownAs"]);
  if ("asksToo" in value) {
    const { asksToo, ...shape } = value;
    return asShown({ ...shape, ...(asksToo as object) });
  }
  const { pattern, ...rest } = value;
  if (typeof pattern === "string" && UNPORTABLE.test(pattern))
    return { ...rest, description: [rest["description"], patternWords[pattern]].filter(Boolean).join("; ") };
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, asShown(inner)]));
}

/** Adds what the plugin leaves out. */
function completed(document: Document, routes: readonly Route[]): Document {
  for (const route of routes) {
    const { requestBody, responses = {} } = document.paths?.[pathOf(route)]?.[route.method.toLowerCase()] ?? {};
    if (requestBody && route.body?.type === "object") requestBody.required = hasToCome(route);
    if (requestBody && route.takesFile) Object.assign(requestBody.content ?? {}, { "multipart/form-data": asForm(route) });
    for (const [status, answer] of Object.entries(responses)) {
      if (Number(status) >= 400) answer.content = { ...answer.content, ...otherForms(route) };
      answer.headers = headersOf(route, Number(status));
    }
  }
  return asShown(withNames(withWebhooks({ ...document, components: { ...document.components, headers } }))) as Document;
}

// The viewer is served whole from here: nothing is fetched from outside, so it works on a floor without internet.
const DOCS_CSP =
  "default-src 'self'; base-uri 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; object-src 'none'";

/** What routes are grouped by. */
const TAGS = {
  tenants: "The door that everything else stands behind",
  credentials: "API keys, OAuth clients, access tokens",
  products: "Commercial items on their way to a passport",
  schemas: "What a category asks for, as validation reads it",
  passports: "What is said in public about a product, signed",
  carriers: "Serials, the print file, and what was reported of it",
  "print jobs": "Labels from claim to seal, with the evidence of each stage",
  devices: "Stations, their keys, how they are",
  public: "What a label's link leads to: the GS1 Digital Link resolver and the passport's page",
  "verifiable credentials": "The signed form of a passport's versions: judged, looked at, revoked",
  "EN 18222": "Published passports as any other system's look: the mandatory reads of the European standard",
  epcis: "What happened to things, in EPCIS 2.0: captured once, found by what they name",
  compliance: "Law as data, judged fail-closed; no legal advice",
  console: "The floor console at /console: its session and its stream",
  "signing keys": "What this cloud signs with, for those who run it",
  log: "The transparency log: what was signed for, provable to anybody",
  webhooks: "Who is told what, by signed messages that arrive at least once",
  audit: "Who did what, in a chain that anybody can recompute",
  operations: "Health, figures, discovery",
};
export type Tag = keyof typeof TAGS;

export async function describe(app: FastifyInstance, routes: readonly Route[], limit: Limit): Promise<void> {
  app.addSchema({ ...ErrorReply, $id: "Error" });
  app.addSchema({ ...ProblemReply, $id: "Problem" });
  app.addSchema({ ...DppFailure, $id: "DppFailure" });
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Imprimatur: Product Passport Service API",
        version: "2.0.0",
        description: "Products, digital product passports, serials and print jobs, with evidence for every label.",
        license: { name: "Proprietary" },
      },
      servers: [{ url: "/" }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
      components: {
        securitySchemes: {
          bearer: { type: "http", scheme: "bearer", description: "An API key or an OAuth access token" },
          apiKey: { type: "apiKey", in: "header", name: "x-api-key" },
          session: {
            type: "apiKey",
            in: "cookie",
            name: SESSION_COOKIE,
            description: "The console's session, for its own page only",
          },
        },
      },
    },
    transformObject: (made) => ("openapiObject" in made ? completed(made.openapiObject as Document, routes) : made.swaggerObject),
    refResolver: { buildLocalReference: (json, _base, _fragment, i) => (typeof json.$id === "string" ? json.$id : `def-${i}`) },
  });
  // The plugin's types know only hooks with a callback; fastify takes those that answer with a promise as well.
  const countDocs = limit as unknown as preHandlerHookHandler;
  await app.register(swaggerUi, {
    routePrefix: "/docs",
    staticCSP: DOCS_CSP,
    uiHooks: { preHandler: countDocs },
    uiConfig: { layout: "BaseLayout" }, // no bar above it, which asks for the address of some other document
    theme: { title: "API · Imprimatur" },
  });
}
