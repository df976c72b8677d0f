// The printers a station can drive, by the name its settings give them. A new language is a line here and a file beside.
import type { Driver } from "./driver.ts";
import { driver as escpos } from "./escpos.ts";
import { driver as ipp } from "./ipp.ts";
import { driver as zpl } from "./zpl.ts";

export const drivers: Record<string, Driver> = Object.fromEntries([zpl, escpos, ipp].map((driver) => [driver.name, driver]));
