// Label templates are data: a file each, in millimetres, so that one layout serves every resolution. A job names one, or the label in the printer
// decides; and so a template decides which printers a job may go to.
import { readdirSync, readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { type Static, Type } from "typebox";
import { Refusal } from "#shared/errors.ts";
import { ANY_TEMPLATE } from "#shared/templates.ts";
import { closed } from "#shared/wire/common.ts";
import type { Attempt } from "./attempt.ts";
import type { PrinterConfig } from "./config.ts";
import type { Floor } from "./floor.ts";

const Mm = Type.Number({ exclusiveMinimum: 0, maximum: 500 });
const Place = Type.Number({ minimum: 0, maximum: 500 });
const box = Type.Tuple([Place, Place, Mm, Mm], { minItems: 4, additionalItems: false, description: "x, y, width, height in mm" });
/** Ascender heights to try, the largest first; what doesn't fit at the last is refused. */
const sizesMm = Type.Array(Mm, { minItems: 1 });

const Element = Type.Union([
  closed({ kind: Type.Literal("qr"), box, level: Type.Enum(["L", "M", "Q", "H"]), moduleMinMm: Mm }),
  closed({
    kind: Type.Literal("text"),
    box,
    text: Type.String({ minLength: 1 }),
    sizesMm,
    lines: Type.Optional(Type.Integer({ minimum: 1 })),
  }),
  closed({ kind: Type.Literal("marks"), box, sizesMm }), // what the operator has to see: a reprint, an attempt
  closed({ kind: Type.Literal("rfid"), box, sizesMm }),
  closed({ kind: Type.Literal("simulated"), box, sizesMm }),
]);
const Template = closed({
  name: Type.String({ pattern: "^[a-z0-9][a-z0-9-]*$" }),
  widthMm: Mm,
  heightMm: Mm,
  elements: Type.Array(Element),
});
export type Element = Static<typeof Element>;
export type Template = Static<typeof Template>;
export type Size = { widthMm: number; heightMm: number };

const isTemplate = new Ajv({ strictTuples: false, meta: false, validateSchema: false }).compile(Template);
const folder = new URL("../shared/templates/", import.meta.url);

/** Throws where a file isn't a template: a label must never be the place where that is found out. */
export function loadTemplates(from: URL = folder): Template[] {
  return readdirSync(from)
    .filter((name) => name.endsWith(".json"))
    .toSorted()
    .map((name) => {
      const template = JSON.parse(readFileSync(new URL(name, from), "utf8")) as Template;
      const fault = isTemplate(template) ? faultIn(template) : `${isTemplate.errors?.[0]?.instancePath} ${isTemplate.errors?.[0]?.message}`;
      if (fault) throw new Error(`template file ${name}: ${fault}`);
      if (name !== `${template.name}.json`) throw new Error(`template file ${name} says that it is ${template.name}`);
      return template;
    });
}

/** One symbol, everything inside the label, nothing upon another thing, and a place that says when a label is a simulated one. */
function faultIn({ elements, widthMm, heightMm }: Template): string | undefined {
  for (const kind of ["qr", "simulated"])
    if (elements.filter((element) => element.kind === kind).length !== 1) return `it needs one element of the kind ${kind}`;
  for (const [i, { kind, box }] of elements.entries()) {
    const [x, y, width, height] = box;
    if (x + width > widthMm || y + height > heightMm) return `its element ${i} (${kind}) reaches beyond the label`;
    const other = elements.findIndex(
      ({ box: [left, top, wide, high] }, j) => j > i && left < x + width && x < left + wide && top < y + height && y < top + high,
    );
    if (other >= 0) return `its elements ${i} and ${other} overlap`;
  }
  return undefined;
}

const onLabel = (template: Size, label: Size) => template.widthMm <= label.widthMm && template.heightMm <= label.heightMm;
const mm = (size: Size) => `${size.widthMm} x ${size.heightMm} mm`;

/** The named one, or the largest that fits the label; refuses with the sizes where none does. */
export function templateFor(templates: Template[], label: Size, name = ANY_TEMPLATE): Template {
  if (name !== ANY_TEMPLATE) {
    const named = templates.find((template) => template.name === name);
    if (!named)
      throw new Refusal("LABEL_REFUSED", `there is no template ${name}; there are ${templates.map(({ name }) => name).join(", ")}`);
    if (!onLabel(named, label)) throw new Refusal("LABEL_REFUSED", `the template ${name} is ${mm(named)}, the label ${mm(label)}`);
    return named;
  }
  const area = ({ widthMm, heightMm }: Template) => widthMm * heightMm;
  const [largest] = templates.filter((template) => onLabel(template, label)).toSorted((a, b) => area(b) - area(a));
  if (!largest) throw new Refusal("LABEL_REFUSED", `no template fits a label of ${mm(label)}; there are ${templates.map(mm).join(", ")}`);
  return largest;
}

type Takers = Pick<Floor, "templates" | "printers">;
/** By their names, the printers that it may come out of: its own, once it has one. */
export const printersFor = (floor: Takers, attempt: Pick<Attempt, "task" | "printer">): string[] =>
  attempt.printer === null ? takersOf(floor, attempt).map(({ name }) => name) : [attempt.printer];
/** The printers that a job may go to: those that write its tag, and have labels on which its template has room. */
export function takersOf({ templates, printers }: Takers, { task }: Pick<Attempt, "task">): PrinterConfig[] {
  const fits = ({ label }: PrinterConfig) =>
    templates.some((template) => (task.template === ANY_TEMPLATE || template.name === task.template) && onLabel(template, label));
  const able = printers.filter(({ rfid }) => rfid || !task.needs.includes("rfid"));
  const fitting = able.filter(fits);
  return fitting.length > 0 ? fitting : able; // where it fits nowhere, any of them says why
}
