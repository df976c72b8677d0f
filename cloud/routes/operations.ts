// For those who run it: is it alive, is it ready, how is it doing, what can it do.
import { Type } from "typebox";
import { Refusal } from "#shared/errors.ts";
import { closed } from "#shared/wire/common.ts";
import { type Route, routesUnder } from "../route.ts";

const { serve } = routesUnder("operations");
const Alive = closed({ status: Type.Literal("ok") });
const Ready = closed({
  status: Type.Literal("ready"),
  degraded: Type.Optional(Type.Array(Type.String(), { description: "What is away and made up for: `broker`, by polling" })),
});

/** A megabyte, which anybody may ask for: written once a document, not once a request. */
const texts = new WeakMap<object, string>();
function textOf(document: object): string {
  const text = texts.get(document) ?? JSON.stringify(document);
  texts.set(document, text);
  return text;
}

/** Of a node that only drains nobody has to look into anything; all else has a cause. */
function unready(notReady: string[]): Refusal {
  const refusal = new Refusal("NOT_READY", `not ready: ${notReady.join(", ")}`, { notReady });
  const faulty = notReady.filter((part) => part !== "draining");
  if (faulty.length > 0) refusal.cause = new Error(`not ready: ${faulty.join(", ")}`);
  return refusal;
}

export const operations: Route[] = [
  serve({
    path: "/healthz",
    root: true,
    scope: "public",
    always: true,
    says: "Alive",
    replies: { 200: Alive },
    run: async () => ({ status: 200, body: { status: "ok" } }),
  }),
  serve({
    path: "/readyz",
    root: true,
    scope: "public",
    always: true,
    says: "Ready: the store answers and the workers run",
    replies: { 200: Ready },
    refusals: ["NOT_READY"],
    run: async ({ deps }) => {
      const notReady = await deps.notReady();
      if (notReady.length > 0) throw unready(notReady);
      return { status: 200, body: { status: "ready", ...(deps.broker().isUp() ? {} : { degraded: ["broker"] }) } };
    },
  }),
  serve({
    path: "/openapi.json",
    scope: "public",
    says: "This document; /docs shows it to people",
    replies: { 200: Type.Object({ openapi: Type.String() }) },
    run: async ({ deps }) => ({ status: 200, body: textOf(deps.document()) }),
  }),
  serve({
    path: "/metrics",
    scope: ["*:*"],
    says: "Figures in Prometheus text",
    replies: { 200: "text/plain" },
    run: async ({ deps }) => ({ status: 200, body: await deps.metrics.text(), headers: { "content-type": deps.metrics.contentType } }),
  }),
];
