// The transparency log over HTTP: open to everybody, since everybody may check it.
import { Readable } from "node:stream";
import { Refusal } from "#shared/errors.ts";
import { ConsistencyQuery, LogConsistency, LogProof, ProofQuery, TileParams } from "#shared/wire/log.ts";
import { tileOf } from "#shared/tiles.ts";
import * as domain from "../domain/log.ts";
import { tile } from "../domain/log-tiles.ts";
import { type Route, routesUnder } from "../route.ts";

const { read, serve } = routesUnder("log");

export const log: Route[] = [
  read({
    path: "/log/checkpoint",
    scope: "public",
    open: true,
    says: "The log's signed head: origin, size and root, as a C2SP signed note",
    replies: { 200: "text/plain" },
    run: async ({ tx, deps }) => ({
      status: 200,
      body: await domain.checkpoint(tx, deps),
      headers: { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" },
    }),
  }),
  read({
    path: "/log/proof",
    scope: "public",
    open: true,
    says: "Where a digest stands in the log, and the way from it to the head (RFC 6962)",
    query: ProofQuery,
    replies: { 200: LogProof },
    refusals: ["NOT_FOUND"],
    run: async ({ tx, query, deps }) => ({ status: 200, body: await domain.prove(tx, query.digest, deps) }),
  }),
  read({
    path: "/log/consistency",
    scope: "public",
    open: true,
    says: "What shows that an earlier log is the beginning of a later one",
    query: ConsistencyQuery,
    judge: ({ from, to }) => (Number(from) > Number(to) ? [{ field: "from", rule: "order", message: "must be at most to" }] : []),
    replies: { 200: LogConsistency },
    refusals: ["NOT_FOUND"],
    run: async ({ tx, query }) => ({ status: 200, body: await domain.consistency(tx, query) }),
  }),
  serve({
    path: "/log/tile/{level}/{n}",
    scope: "public",
    open: true,
    says: "All of the log, in tiles of 256 hashes or entries that never change (C2SP tlog-tiles)",
    params: TileParams,
    replies: { 200: "application/octet-stream" },
    refusals: ["NOT_FOUND"],
    run: async ({ params, deps }) => {
      const asked = tileOf(params.level, params.n);
      if (!asked) throw new Refusal("NOT_FOUND", "no tile has a name with more zeros than it takes");
      const bytes = await deps.store.read("log tile", (tx) => tile(tx, asked));
      const headers = {
        "content-type": "application/octet-stream",
        "content-length": String(bytes.length),
        "cache-control": "public, immutable, max-age=31536000",
      };
      return { status: 200, body: Readable.from([bytes]), headers };
    },
  }),
];
