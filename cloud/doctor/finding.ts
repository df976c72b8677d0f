// What a look at one thing finds: it is well, somebody should know, or it has to be mended; and how.
import type { Config } from "../config.ts";
import type { Log } from "../log.ts";
import type { Store } from "../store/store.ts";

export type Finding = { mark: "ok" | "warn" | "FAIL"; says: string; todo?: string };
export const well = (says: string): Finding => ({ mark: "ok", says });
export const odd = (says: string, todo: string): Finding => ({ mark: "warn", says, todo });
export const bad = (says: string, todo: string): Finding => ({ mark: "FAIL", says, todo });

export type Patient = { config: Config; store: Store | undefined; log: Log; now: () => number };
type Found = Finding | Finding[];
export type Check = (patient: Patient) => Found | Promise<Found>;
