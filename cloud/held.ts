// How much of bodies on their way in, and of answers on their way out, is held at a time: who sends or takes them slowly holds a share, and never all that there is.
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest, RequestPayload } from "fastify";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { fromOf, hasNoBody } from "./request.ts";

const SMALL_BYTES = 65_536; // so many of these as a rate budget lets in are no danger
const READY_BYTES = 1_048_576; // what an answer that is made while it is read has ready for its reader, about
const ALL = "all";

export function boundHeld(app: FastifyInstance): void {
  const held = new Map<string, number>();
  const add = (key: string, bytes: number) => {
    const now = (held.get(key) ?? 0) + bytes;
    if (now === 0) held.delete(key);
    else held.set(key, now);
  };
  function hold(request: FastifyRequest, { raw }: FastifyReply, bytes: number): Refusal | null {
    if (bytes <= SMALL_BYTES || raw.destroyed) return null;
    const keys = [ALL, request.caller.tenantId || fromOf(request)] as const;
    const most = [limits.HELD_MAX_BYTES, limits.HELD_TENANT_MAX_BYTES] as const;
    if (keys.some((key, i) => (held.get(key) ?? 0) + bytes > Number(most[i])))
      return new Refusal("OVERLOADED", "as much is on its way to and fro as there is room for: send fewer at a time", undefined, {
        "retry-after": "1",
        "cache-control": "no-store", // what it stands for may be kept for ever
      });
    for (const key of keys) add(key, bytes);
    raw.once("close", () => {
      for (const key of keys) add(key, -bytes);
    });
    return null;
  }
  /** Of a body that doesn't say its length as much as has come, and up to three times as much for what is to come. */
  function holdAsItComes(request: FastifyRequest, reply: FastifyReply, body: RequestPayload): void {
    let [come, held] = [0, SMALL_BYTES];
    const count = (chunk: Buffer) => {
      come += chunk.length;
      const isRead = body.listenerCount("error") > 0; // what nobody reads is kept by nobody
      if (!isRead || come <= held || come > request.routeOptions.bodyLimit) return;
      const refusal = hold(request, reply, 3 * held);
      held *= 4;
      if (!refusal) return;
      body.off("data", count);
      body.emit("error", refusal); // who reads it stops, and answers with that
    };
    body.on("data", count);
  }
  app.addHook("preParsing", (request, reply, payload, done) => {
    const bytes = announced(request);
    if (bytes === undefined) holdAsItComes(request, reply, payload);
    done(bytes === undefined ? null : hold(request, reply, bytes), payload);
  });
  // What was done is answered; what was only read can be asked for again.
  app.addHook("onSend", (request, reply, payload, done) => {
    const refusal = request.method === "GET" ? hold(request, reply, lengthOf(payload, reply)) : null;
    if (!refusal) return done(null, payload);
    if (payload instanceof Readable) payload.destroy();
    done(refusal);
  });
}

/** Undefined where it isn't said. A body that is too large is refused, and a file isn't held. */
function announced(request: FastifyRequest): number | undefined {
  const { bodyLimit, config } = request.routeOptions;
  if (hasNoBody(request) || config.route?.takesFile) return 0;
  const said = request.headers["content-length"];
  return said === undefined ? undefined : Number(said) > bodyLimit ? 0 : Number(said);
}
function lengthOf(payload: unknown, reply: FastifyReply): number {
  if (typeof payload === "string" || Buffer.isBuffer(payload)) return payload.length;
  const { route } = reply.request.routeOptions.config;
  if (!(payload instanceof Readable) || !route || route.endless) return 0;
  return Number(reply.getHeader("content-length") ?? READY_BYTES);
}
