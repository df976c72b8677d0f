// The printers a station can drive, by the name its settings give them. A new language is a line here and a file beside.
import type { Clock } from "../clock.ts";
import type { PrinterConfig } from "../config.ts";
import { type Ability, type Driver, type Printer, settleMsFor, type Timing } from "./driver.ts";
import { driver as escpos } from "./escpos.ts";
import { driver as ipp } from "./ipp.ts";
import { driver as zpl } from "./zpl.ts";

export const drivers: Record<string, Driver> = Object.fromEntries([zpl, escpos, ipp].map((driver) => [driver.name, driver]));

export const can = ({ driver }: Pick<PrinterConfig, "driver">, what: Ability): boolean => drivers[driver]?.can.includes(what) ?? false;
/** The languages that can do it. */
export const whoCan = (what: Ability): string =>
  Object.keys(drivers)
    .filter((driver) => can({ driver }, what))
    .join(" or ");

type Means = { timing?: Partial<Timing> | undefined; clock?: Clock; leaving?: AbortSignal };
/** The printer of some settings, in its language. */
export async function openPrinter(config: PrinterConfig, { timing, ...means }: Means = {}): Promise<Printer> {
  const driver = drivers[config.driver];
  if (!driver) throw new Error(`there is no driver ${config.driver}`);
  return driver.open(config.port, { ...config, timing: { settleMs: settleMsFor(config.label.heightMm), ...timing } }, means);
}
