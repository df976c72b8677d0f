// Tells stations over MQTT that work waits, at once after the commit, then once a window and device; and each job that was taken from them. Who misses it polls.
import { type Place, topicsOf } from "#shared/mqtt.ts";
import { limits } from "#shared/limits.ts";
import type { Broker } from "../adapters/broker.ts";
import { ableTo } from "../domain/devices.ts";
import { type Cancelled, onCancelled, onWaiting, type Waiting } from "../domain/wakes.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

export function startWaker(store: Store, log: Log, { broker, metrics }: { broker: Broker; metrics: Metrics }): Worker {
  let waiting = new Map<string, Waiting>(); // a thousand jobs of a kind are one reason to wake somebody
  let cancelled: Cancelled[] = [];
  let hints = 0;
  metrics.watch("mqtt_hints", "Hints that work waits or was cancelled, sent to stations", () => hints);
  let hintedAt = -Infinity;
  const soon = () => {
    if (performance.now() - hintedAt >= limits.WAKE_WINDOW_MS) worker.wake();
  };
  const hint = (device: Place, jobRef?: string) => {
    broker.hint(topicsOf(device).wake, jobRef);
    hints += 1;
  };
  const silences = [
    onWaiting((job) => {
      waiting.set(JSON.stringify([job.tenantId, job.station, job.needs]), job);
      soon();
    }),
    onCancelled((job) => {
      cancelled.push(job);
      soon();
    }),
  ];
  const worker = startWorker(log, {
    event: "wake-failed",
    idleMs: limits.WAKE_WINDOW_MS,
    step: async () => {
      if (waiting.size === 0 && cancelled.length === 0) return false;
      hintedAt = performance.now();
      const taken = cancelled;
      cancelled = [];
      for (const { jobRef, ...device } of taken) hint(device, jobRef);
      const jobs = Map.groupBy(waiting.values(), ({ tenantId }) => tenantId);
      waiting = new Map();
      for (const [tenantId, its] of jobs)
        for (const deviceId of await store.read("wake", (tx) => ableTo(tx, tenantId, its))) hint({ tenantId, deviceId });
      return false;
    },
  });
  return {
    ...worker,
    stop: async () => {
      for (const silence of silences) silence();
      await worker.stop();
    },
  };
}
