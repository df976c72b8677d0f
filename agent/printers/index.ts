// The printers a station can drive, by the name its settings give them. A new language is a line here and a file beside.
import type { Clock } from "../clock.ts";
import type { PrinterConfig } from "../config.ts";
import type { Driver, Printer, Timing } from "./driver.ts";
import { driver as escpos } from "./escpos.ts";
import { driver as ipp } from "./ipp.ts";
import { driver as zpl } from "./zpl.ts";

export const drivers: Record<string, Driver> = Object.fromEntries([zpl, escpos, ipp].map((driver) => [driver.name, driver]));

type Means = { timing?: Partial<Timing> | undefined; clock?: Clock };
/** The printer of some settings, in its language. */
export async function openPrinter(config: PrinterConfig, { timing, clock }: Means = {}): Promise<Printer> {
  const driver = drivers[config.driver];
  if (!driver) throw new Error(`there is no driver ${config.driver}`);
  return driver.open(config.port, { ...config, ...(timing ? { timing } : {}) }, clock ? { clock } : {});
}
