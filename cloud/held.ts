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
  /** Counts so many bytes until the connection is done with this request, or refuses where there is no room for them. */
  function hold(request: FastifyRequest, { raw }: FastifyReply, bytes: number): Refusal | null {
    if (bytes <= SMALL_BYTES || raw.destroyed) return null;
    const rooms = [
      [ALL, limits.HELD_MAX_BYTES],
      [request.caller.tenantId || fromOf(request), limits.HELD_TENANT_MAX_BYTES],
    ] as const;
    if (rooms.some(([key, most]) => (held.get(key) ?? 0) + bytes > most)) return noRoom();
    for (const [key] of rooms) add(key, bytes);
    raw.once("close", () => {
      for (const [key] of rooms) add(key, -bytes);
    });
    return null;
  }
  app.addHook("preParsing", (request, reply, payload, done) => {
    const bytes = announced(request);
    if (bytes === undefined) countAsItComes(payload, request.routeOptions.bodyLimit, (more) => hold(request, reply, more));
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

const noRoom = (): Refusal =>
  new Refusal("OVERLOADED", "as much is on its way to and fro as there is room for: send fewer at a time", undefined, {
    "retry-after": "1",
    "cache-control": "no-store", // what it stands for may be kept for ever
  });

/**
 * Of a body that doesn't say its length: each time that it outgrows its room, the room becomes four times as large, or it is refused. It is only listened to,
 * not led through a stream of ours: what its parser has given up is still read to its end, or the connection would stand still.
 */
function countAsItComes(body: RequestPayload, bodyLimit: number, hold: (bytes: number) => Refusal | null): void {
  let [come, room] = [0, SMALL_BYTES];
  function count(chunk: Buffer): void {
    come += chunk.length;
    const isKept = body.listenerCount("error") > 0 && come <= bodyLimit; // else its parser has given it up
    if (come <= room || !isKept) return;
    const refusal = hold(3 * room);
    room *= 4;
    if (!refusal) return;
    body.off("data", count);
    body.emit("error", refusal); // to the parser alone, which stops and answers with it: destroyed, the body would take the connection along
  }
  body.on("data", count);
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
