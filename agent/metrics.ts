// Figures for those who watch many stations: depth and age of the buffer, labels by what became of them, whether the cloud is there.
import { Gauge, Registry } from "prom-client";
import { labelStates } from "./buffer-labels.ts";
import { isWorking } from "./press.ts";
import type { State } from "./state.ts";

export function metricsOf(now: () => State) {
  const registry = new Registry();
  const registers = [registry];
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({ name, help, registers, collect() { this.set(value()); } }); // oxfmt-ignore
  /** A figure each, under a label of their own. */
  const gauges = (name: string, help: string, label: string, values: () => (readonly [of: string, value: number])[]) =>
    new Gauge({ name, help, registers, labelNames: [label], collect() { for (const [of, value] of values()) this.set({ [label]: of }, value); } }); // oxfmt-ignore
  gauge("imprimatur_agent_online", "1 while the cloud answers", () => Number(now().online));
  gauge("imprimatur_agent_stopped", "1 while no jobs are claimed because something is wrong", () => Number(now().stopped !== null));
  gauge("imprimatur_agent_paused", "1 while paused by a person", () => Number(now().paused));
  gauge("imprimatur_agent_buffer_depth", "Reports that the cloud hasn't settled yet", () => now().buffer.depth);
  gauge("imprimatur_agent_buffer_oldest_seconds", "Age of the oldest of them", () => (now().buffer.oldest_age_ms ?? 0) / 1_000);
  gauge("imprimatur_agent_quarantined", "Reports that people have to look at", () => now().quarantined);
  gauge(
    "imprimatur_agent_notices",
    "What people have to know of the station: a buffer set aside, a clock that is off",
    () => now().notices.length,
  );
  gauge("imprimatur_agent_asks", "Jobs that wait for a person's answer", () => now().jobs.filter(({ ask }) => ask !== null).length);
  gauge("imprimatur_agent_ask_oldest_seconds", "How long the first of them has waited for it", () => {
    const { at, jobs } = now();
    const since = Math.min(...jobs.map(({ ask }) => Date.parse(ask?.since ?? "")).filter(Number.isFinite));
    return Math.max(0, Date.parse(at ?? "") - since) / 1_000;
  });
  gauges("imprimatur_agent_labels", "Physical labels by what is known of them", "state", () => {
    const { counts } = now().ledger; // a gauge keeps what it was told last: where there is none any more it is told so
    return Object.keys(labelStates).map((state) => [state, counts[state] ?? 0]);
  });
  gauges("imprimatur_agent_printer_ready", "1 while the printer is ready or printing", "printer", () =>
    now().printers.map((printer) => [printer.name, Number(isWorking(printer))]),
  );
  return { text: () => registry.metrics(), contentType: registry.contentType };
}
