// Figures in Prometheus text. Labels are route templates, never what a caller typed.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { type ErrorCode, errors } from "#shared/errors.ts";
import type { Mode } from "./store/store.ts";

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const COMMIT_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5];
const UNITS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const requests = new Counter({
    name: "http_requests_total",
    help: "Answers, by method, endpoint and status",
    labelNames: ["method", "endpoint", "status"],
    registers,
  });
  const cut = new Counter({
    name: "http_requests_cut_total",
    help: "Requests whose sender went away before the answer's end, by method and endpoint",
    labelNames: ["method", "endpoint"],
    registers,
  });
  const faults = new Counter({
    name: "http_faults_total",
    help: "Answers of 5xx that somebody has to look into, by code; what this cloud wasn't set up for is none",
    labelNames: ["code"],
    registers,
  });
  for (const [code, { status }] of Object.entries(errors)) if (status >= 500) faults.inc({ code }, 0); // else the first of a kind would come from nowhere, and no rate would show it
  const latency = new Histogram({
    name: "http_request_duration_seconds",
    help: "From the first byte read to the last byte written",
    labelNames: ["method", "endpoint"],
    buckets: SECONDS,
    registers,
  });
  const units = new Histogram({
    name: "store_unit_duration_seconds",
    help: "A unit of work, waiting for its turn and for its commit aside",
    labelNames: ["mode"],
    buckets: SECONDS,
    registers,
  });
  const commits = new Histogram({ name: "store_commit_duration_seconds", help: "A durable commit", buckets: COMMIT_SECONDS, registers });
  const commitUnits = new Histogram({ name: "store_commit_units", help: "Units of work that shared a commit", buckets: UNITS, registers });
  const tries = new Counter({
    name: "webhook_tries_total",
    help: "Tries of webhook deliveries by this node, by what was answered",
    labelNames: ["answer"],
    registers,
  });
  const unitsOf = { read: units.labels({ mode: "read" }), write: units.labels({ mode: "write" }) };
  type Series = { count(): void; time(seconds: number): void };
  const series = new Map<string, Series>(); // as many as there are routes and statuses; finding one by its labels costs more than counting

  function seriesOf(method: string, endpoint: string, status: number): Series {
    const id = `${method} ${endpoint} ${status}`;
    const known = series.get(id);
    if (known) return known;
    const counter = requests.labels({ method, endpoint, status });
    const histogram = latency.labels({ method, endpoint });
    const made = { count: () => counter.inc(), time: (seconds: number) => histogram.observe(seconds) };
    series.set(id, made);
    return made;
  }

  return {
    answered(method: string, endpoint: string, status: number, seconds: number) {
      const { count, time } = seriesOf(method, endpoint, status);
      count();
      time(seconds);
    },
    cut: (method: string, endpoint: string) => cut.inc({ method, endpoint }),
    fault: (code: ErrorCode) => faults.inc({ code }),
    unit: (mode: Mode, seconds: number) => unitsOf[mode].observe(seconds),
    commit(count: number, seconds: number) {
      commits.observe(seconds);
      commitUnits.observe(count);
    },
    /** 2xx, 4xx …, or none. */
    tried: (status: number | null) => tries.inc({ answer: status === null ? "none" : `${Math.floor(status / 100)}xx` }),
    /** A figure that is read when somebody asks. */
    watch(name: string, help: string, value: () => number) {
      const gauge: Gauge = new Gauge({ name, help, registers, collect: () => gauge.set(value()) });
    },
    text: () => registry.metrics(),
    contentType: registry.contentType,
  };
}
