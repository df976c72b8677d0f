// What a person did at the console, by one id: whatever is logged and reported because of it carries the id on, to the cloud and beyond.
import { AsyncLocalStorage } from "node:async_hooks";
import { randomBytes, randomUUID } from "node:crypto";
import { isCorrelationId } from "#shared/correlation.ts";

const clicks = new AsyncLocalStorage<string>();

/** The page's own id where it sends one that fits into a header, else a new one. */
export const clickId = (sent: unknown): string => (isCorrelationId(sent) ? sent : randomUUID());
export const asClick = <T>(id: string, act: () => T): T => clicks.run(id, act);
export const clickNow = (): string | undefined => clicks.getStore();

const VERSION_AT = 14;
const CALLS_OWN = /^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[\da-f]{4}-[\da-f]{12}$/;
/** A call's own is a UUID of version 8: those that a proxy makes up for our calls are of others. */
export function callId(): string {
  const id = randomUUID();
  return clickNow() ?? `${id.slice(0, VERSION_AT)}8${id.slice(VERSION_AT + 1)}`;
}
/** What answers repeats the id that it was asked under: this one is another call's, kept or mixed up on the way. A proxy may say it again beside the cloud, or add its own. */
export function isOfAnotherCall(id: string, answered: string | null): boolean {
  const said = (answered ?? "").split(", ");
  return !said.includes(id) && said.some((one) => CALLS_OWN.test(one));
}
/** The headers that a call to the cloud carries: the id, and the beginning of a trace that can be found by it. */
export function callHeaders(id: string): Record<string, string> {
  const hex = id.replaceAll("-", "").toLowerCase();
  const traceId = /^[\da-f]{32}$/.test(hex) ? hex : randomBytes(16).toString("hex");
  return { "x-correlation-id": id, traceparent: `00-${traceId}-${randomBytes(8).toString("hex")}-01` };
}
