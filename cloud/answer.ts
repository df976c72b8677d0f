// Answers on their way out: as the route gave them, as they are kept for a replay, and, in tests, whether the document knows them.
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import type { Answer } from "./domain/idempotency.ts";
import { isSchema, labelOf, mediaOfReply, type Reply, type Route, sentHeaders, sentWith } from "./route.ts";
import { fitting } from "./validate.ts";

/** What leaves: an answer, or one whose body comes as it is made. */
export type Sent = Omit<Answer, "body"> & { body: Answer["body"] | Readable };
export const sentOf = (route: Route, reply: Reply): Sent =>
  reply.body instanceof Readable ? { status: reply.status, headers: reply.headers ?? {}, body: reply.body } : answerOf(route, reply);

export function answerOf(route: Route, { status, body, headers = {}, isIdle = false }: Reply): Answer {
  if (body === undefined) return { status, headers, body: null, isIdle };
  if (typeof body === "string") return { status, headers, body, isIdle };
  const answer: Answer = { status, headers, body: JSON.stringify(body), isIdle };
  if (!route.replay || !("hide" in route.replay)) return answer;
  let shown = body; // by a replay: null stands where a secret was
  for (const path of route.replay.hide) shown = without(shown, path.split("."));
  return { ...answer, keep: JSON.stringify(shown) };
}

/** The same thing need not travel twice; whether it is the same is asked every time. */
export function unlessKnown(route: Route, sent: Sent, known: string | undefined): Sent {
  const { etag } = sent.headers;
  if (known === undefined || etag === undefined || sent.status !== 200 || !(304 in route.replies)) return sent;
  const tags = new Set(known.split(",").map((tag) => tag.trim().replace(/^W\//, "")));
  return tags.has(etag) || tags.has("*") ? { status: 304, headers: { etag }, body: null } : sent;
}

/** A copy with null at the path. */
function without(value: object, [name = "", ...rest]: string[]): object {
  if (!Object.hasOwn(value, name)) return value; // a device that was given a key has none of its own to show
  const inner = (value as Record<string, object>)[name] ?? {};
  return { ...value, [name]: rest.length === 0 ? null : without(inner, rest) };
}

export function send(reply: FastifyReply, { status, headers, body }: Sent): FastifyReply {
  if (body instanceof Readable && reply.request.method === "HEAD") body.destroy(); // nobody reads it: one without an end would go on for ever
  const type = body === null ? {} : { "content-type": "application/json; charset=utf-8" };
  return reply
    .code(status)
    .headers({ ...type, ...headers })
    .send(typeof body === "string" && headers["content-type"] !== undefined ? Buffer.from(body) : (body ?? undefined)); // a text's type would get a charset from fastify
}

/** Of a fault, no more than this: what was answered may have a secret in it. */
const TOLD = ["instancePath", "message", "params", "additionalProperty", "missingProperty"];
/** In tests an answer that isn't documented is a fault, so that the document stays true. */
export function replyChecker(route: Route): (sent: Sent) => void {
  return ({ status, body, headers }) => {
    if (status >= 400) return;
    for (const name of sentHeaders)
      if (!route.maySend?.includes(name) && name.toLowerCase() in headers !== sentWith(route, status).includes(name))
        throw new Error(`${labelOf(route)} and its document disagree about the header ${name}`);
    const shape = route.replies[status];
    if (shape === undefined) throw new Error(`${labelOf(route)} answered ${status}, which it doesn't document`);
    const [type = "application/json"] = headers["content-type"]?.split(";") ?? [];
    if (body !== null && !mediaOfReply(shape).includes(type))
      throw new Error(`${labelOf(route)} answered ${type}, which it doesn't document`);
    if (body instanceof Readable) return;
    const json = isSchema(shape) ? shape : body !== null && type.endsWith("json") ? route.jsonShape : undefined;
    const validate = json && fitting(json);
    if (validate && !validate(JSON.parse(body ?? "null")))
      throw new Error(`${labelOf(route)} answered a shape it doesn't document: ${JSON.stringify(validate.errors, TOLD)}`);
  };
}
