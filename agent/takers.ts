// Which printers of this station a job may go to: those that write its tag, and have labels on which its template has room.
import type { Attempt } from "./attempt.ts";
import type { PrinterConfig } from "./config.ts";
import type { Floor } from "./floor.ts";
import { fits } from "./template.ts";

export function takersOf({ templates, printers }: Pick<Floor, "templates" | "printers">, { task }: Pick<Attempt, "task">): PrinterConfig[] {
  const able = printers.filter(({ rfid }) => rfid || !task.needs.includes("rfid"));
  const fitting = able.filter(({ label }) => fits(templates, label, task.template));
  return fitting.length > 0 ? fitting : able; // where it fits nowhere, any of them says why
}
