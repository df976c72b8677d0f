// What the steps of a label work with, and how they say something to the cloud: in the buffer first.
import type { BundleItem, JobActor } from "#shared/wire/jobs.ts";
import type { Attempt } from "./attempt.ts";
import type { Store } from "./buffer.ts";
import type { LabelState } from "./buffer-labels.ts";
import { type Clock, instant } from "./clock.ts";
import type { PrinterConfig } from "./config.ts";
import type { Pulse } from "./pulse.ts";
import type { Template } from "./template.ts";

export type Say = (level: "debug" | "info" | "warn" | "error", line: object, words: string) => void;
export type Floor = { store: Store; clock: Clock; news: Pulse; say: Say; templates: Template[]; printers: PrinterConfig[] };
type Item = Omit<BundleItem, "occurred_at"> & { reason?: string };

export const DEVICE = { kind: "device" } as const satisfies JobActor;
/** Whose word it is. */
export const actorOf = (operator?: string) => (operator === undefined ? DEVICE : ({ kind: "operator", id: operator } as const));
export const MAY_BE_HERE: readonly LabelState[] = ["unknown", "printed", "orphan", "void"];

/** Nothing is said any more of an attempt that is over. */
export function tell({ store, clock }: Floor, attemptId: string, item: Item): void {
  if (store.must(attemptId).ended === null) store.report(attemptId, { ...item, occurred_at: instant(clock) });
}
export const isOver = ({ stage, ended }: Attempt): boolean => ended !== null || stage === "orphan";
