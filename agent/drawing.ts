// What is drawn: the label of an attempt on its printer, the same one whenever it is drawn anew; and the one that is nobody's.
import { digestOf } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import type { Attempt } from "./attempt.ts";
import { type Clock, instant } from "./clock.ts";
import type { PrinterConfig } from "./config.ts";
import { drawLabel, type Label, type LabelContent, type LabelOptions, productFault, renderLabel } from "./label.ts";
import { epcFor } from "./rfid.ts";
import { type Template, templateFor } from "./template.ts";

type Drawer = { templates: Template[] };

/** What tells a person this label from others of its serial. */
export const markOf = ({ attempt, reprint }: Attempt["task"]): string | null => {
  if (reprint) return attempt > 1 ? `REPRINT ${attempt}` : "REPRINT";
  return attempt > 1 ? `TRY ${attempt}` : null;
};
export function contentOf({ task }: Pick<Attempt, "task">): LabelContent {
  const { digital_link: payload, gtin, serial, needs, product_name: product } = task;
  const mark = markOf(task);
  return {
    payload,
    gtin,
    serial,
    ...(product ? { product } : {}),
    ...(needs.includes("rfid") ? { epc: epcFor(task) } : {}),
    ...(mark ? { marks: [mark] } : {}),
  };
}

/** What a label of this attempt says on this printer. A name that can't stand on it whole is left off, and the manifest says so: it isn't the item's identity. */
type Drawable = { content: LabelContent; options: LabelOptions; without?: { product: string } };
function drawableOf(floor: Drawer, attempt: Pick<Attempt, "task">, printer: PrinterConfig): Drawable {
  const options = optionsFor(floor.templates, attempt, printer);
  const content = contentOf(attempt);
  const fault = productFault(content, options);
  if (fault === undefined) return { content, options };
  const { product: _product, ...nameless } = content;
  return { content: nameless, options, without: { product: fault } };
}
export function optionsFor(templates: Template[], { task }: Pick<Attempt, "task">, { label, dpi, simulated }: PrinterConfig): LabelOptions {
  const template = templateFor(templates, label, task.template);
  if (task.template_sha256 && task.template_sha256 !== digestOf(template))
    throw new Refusal("LABEL_REFUSED", saying("other_template", { template: task.template }));
  return { template, dpi, simulated };
}
/** As it was or would be drawn, for people and for comparing pictures with. */
export function drawingOf(floor: Drawer, attempt: Attempt, printer: PrinterConfig) {
  const { content, options } = drawableOf(floor, attempt, printer);
  return drawLabel(content, options);
}

/** Says that it is a test, in words and in its symbol, which is no link of anything. */
export const testDrawing = ({ templates, clock }: Drawer & { clock: Clock }, { label, dpi, simulated }: PrinterConfig) =>
  drawLabel(
    { payload: `TEST LABEL ${instant(clock)}`, gtin: "TEST LABEL", serial: "TEST" },
    { template: templateFor(templates, label), dpi, simulated },
  ).bitmap;

/** Drawn and read back; refused where it can't be. */
export async function drawn(floor: Drawer, attempt: Pick<Attempt, "task">, printer: PrinterConfig): Promise<Label> {
  const { content, options, ...leftOff } = drawableOf(floor, attempt, printer);
  const label = await renderLabel(content, options);
  return { ...label, manifest: { ...label.manifest, ...leftOff } };
}
