// A simulated printer's faults, for the maintenance page: asked of the simulator's own control address, which only a printer marked simulated may have.
import ky from "ky";
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import type { PrinterConfig } from "./config.ts";

export type Faults = { faults: Record<string, string>; active: string[] };
const ANSWER_MAX_MS = 3_000;

export async function faultsOf(printer: PrinterConfig): Promise<Faults> {
  const [{ faults }, { faults: active }] = await Promise.all([
    call<{ faults: Record<string, string> }>(printer, "GET", "/"),
    call<{ faults: object }>(printer, "GET", "/state"),
  ]);
  return { faults, active: Object.keys(active) };
}
export async function setFault(printer: PrinterConfig, name: string, on: boolean): Promise<Faults> {
  const { faults } = await faultsOf(printer);
  if (!Object.hasOwn(faults, name)) throw new Refusal("NOT_FOUND", saying("simulator_no_fault", { fault: JSON.stringify(name) }));
  await (on ? call(printer, "POST", "/faults", { name }) : call(printer, "DELETE", `/faults/${name}`));
  return faultsOf(printer);
}

async function call<T>({ name, control }: PrinterConfig, method: string, path: string, json?: object): Promise<T> {
  if (control === undefined) throw new Refusal("NOT_FOUND", saying("no_simulator", { printer: name }));
  try {
    const options = { method, retry: 0, timeout: ANSWER_MAX_MS, redirect: "error", ...(json === undefined ? {} : { json }) } as const;
    return await ky(new URL(path, control), options).json<T>();
  } catch (error) {
    throw new Refusal("NOT_READY", saying("simulator_silent", { printer: name, why: (error as Error).message }));
  }
}
