// The transparency log over HTTP: open to everybody, since everybody may check it.
import { ConsistencyQuery, LogConsistency, LogProof, ProofQuery } from "#shared/wire/log.ts";
import * as domain from "../domain/log.ts";
import { type Route, routesUnder } from "../route.ts";

const { read } = routesUnder("log");

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
];
