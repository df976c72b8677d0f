// Traces, where somebody collects them: requests, units of work and deliveries as spans that name ids and nothing else. Loaded only then.
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { ClientRequest } from "node:http";
import { isSpanContextValid, ROOT_CONTEXT, type SpanContext, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { detectResources, envDetector, resourceFromAttributes, serviceInstanceIdDetector } from "@opentelemetry/resources";
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import { wordsOf } from "#shared/fault.ts";
import type { Log } from "./log.ts";

type Ids = Record<string, string | number | null | undefined>;
export type Traced = { traceparent: string; end(said?: { isFault?: boolean; ids?: Ids }): void };
export type Tracing = ReturnType<typeof startTracing>;

const EXPORT_MAX_MS = 3_000;
const SEND_EVERY_MS = 1_000;
/** Of any request that this process begins. */
const STARTED = "http.client.request.start";
const KINDS = { in: SpanKind.SERVER, within: SpanKind.INTERNAL, out: SpanKind.CLIENT } as const;
/** Of a later version what follows is its own; the first one ends here, and ff is none. */
const PARENT = /^(?!ff|00-.{53})[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-|$)/;

/** W3C trace context; what isn't one begins a trace of its own. */
function contextOf(traceparent: string | null | undefined) {
  const [, traceId = "", spanId = "", flags = "00"] = PARENT.exec(traceparent ?? "") ?? [];
  const parent: SpanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  return isSpanContextValid(parent) ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT;
}
const parentOf = ({ traceId, spanId, traceFlags }: SpanContext) => `00-${traceId}-${spanId}-0${traceFlags & 1}`;
const known = (ids: Ids) => Object.fromEntries(Object.entries(ids).filter(([, value]) => value !== undefined && value !== null));

/** A collector's answer has so long in all, where the exporter itself counts from its latest byte on; that traces are lost is said once, until they are taken again. */
function watched(exporter: SpanExporter, log: Log): SpanExporter & { forget(): void } {
  const sending = new AsyncLocalStorage<true>();
  const bound = (message: unknown): void => {
    if (!sending.getStore()) return;
    const { request } = message as { request: ClientRequest };
    const late = setTimeout(() => request.destroy(), EXPORT_MAX_MS).unref();
    request.once("close", () => clearTimeout(late));
  };
  subscribe(STARTED, bound);
  let areLost = false;
  const told = (error: Error | undefined): void => {
    if (areLost === (error !== undefined)) return;
    areLost = !areLost;
    // In its words alone: the error holds all that the collector answered.
    if (error) log.warn({ event: "traces-lost" }, `traces aren't taken (${wordsOf(error)}), and are lost until they are`);
    else log.info({ event: "traces-taken" }, "traces are taken again");
  };
  return {
    export: (spans, done) => sending.run(true, () => exporter.export(spans, (result) => (told(result.error), done(result)))),
    shutdown: () => exporter.shutdown(),
    forget: () => void unsubscribe(STARTED, bound),
  };
}

export function startTracing(endpoint: string, log: Log) {
  const url = `${endpoint.replace(/\/$/, "")}/v1/traces`;
  const exporter = watched(new OTLPTraceExporter({ url, timeoutMillis: EXPORT_MAX_MS }), log);
  const provider = new TracerProvider({
    // Each node by an id of its own, and by whatever OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say.
    resource: resourceFromAttributes({ "service.name": "imprimatur" }).merge(
      detectResources({ detectors: [serviceInstanceIdDetector, envDetector] }),
    ),
    spanProcessors: [new BatchSpanProcessor({ exporter, scheduledDelayMillis: SEND_EVERY_MS, exportTimeoutMillis: EXPORT_MAX_MS })],
  });
  const tracer = provider.getTracer("imprimatur");
  const current = new AsyncLocalStorage<Traced>();
  return {
    begin: (name: string, kind: keyof typeof KINDS, parent: string | null | undefined, ids: Ids = {}): Traced => {
      const span = tracer.startSpan(name, { kind: KINDS[kind], attributes: known(ids) }, contextOf(parent));
      return {
        traceparent: parentOf(span.spanContext()),
        end: ({ isFault = false, ids: more = {} } = {}) => {
          span.setAttributes(known(more));
          if (isFault) span.setStatus({ code: SpanStatusCode.ERROR }); // an error's words may be private
          span.end();
        },
      };
    },
    within: <T>(traced: Traced, work: () => T): T => current.run(traced, work),
    current: () => current.getStore()?.traceparent,
    /** What wasn't sent yet is sent, if somebody still takes it. */
    close: () => provider.shutdown().finally(exporter.forget), // which shuts no exporter down whose last traces weren't taken
  };
}
