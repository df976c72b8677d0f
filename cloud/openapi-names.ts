// What has a name in shared/wire has it in the OpenAPI document, too: else a generated client knows a product by eight types, none of them another's.
import { canonical } from "#shared/canonical.ts";
import { isObject } from "#shared/object.ts";
import * as audit from "#shared/wire/audit.ts";
import * as carriers from "#shared/wire/carriers.ts";
import * as compliance from "#shared/wire/compliance.ts";
import * as console from "#shared/wire/console.ts";
import * as credentials from "#shared/wire/credentials.ts";
import * as devices from "#shared/wire/devices.ts";
import * as dpps from "#shared/wire/dpps.ts";
import * as epcis from "#shared/wire/epcis.ts";
import * as imports from "#shared/wire/imports.ts";
import * as jobs from "#shared/wire/jobs.ts";
import * as log from "#shared/wire/log.ts";
import * as passports from "#shared/wire/passports.ts";
import * as products from "#shared/wire/products.ts";
import * as schemas from "#shared/wire/schemas.ts";
import * as tenants from "#shared/wire/tenants.ts";
import * as trust from "#shared/wire/trust.ts";
import * as webhooks from "#shared/wire/webhooks.ts";

const nouns = { audit, carriers, compliance, console, credentials, devices, dpps, epcis, imports, jobs, log };
const wires = { ...nouns, passports, products, schemas, tenants, trust, webhooks, events: epcis.eventSchemas };
/** The plugin copies what it is given, and writes a constant as the one value of a list, and a record's values as its further members. */
function copied(_name: string, value: unknown): unknown {
  if (!isObject(value)) return value;
  const { const: only, patternProperties, ...rest } = value;
  const values = Object.values(patternProperties ?? {});
  return { ...rest, ...("const" in value ? { enum: [only] } : {}), ...(values.length > 0 ? { additionalProperties: values[0] } : {}) };
}
/** So a shape is known again by its text. */
const namesByText = (): Map<string, string> =>
  new Map(
    Object.values(wires).flatMap((wire) =>
      Object.entries<unknown>(wire).flatMap(([name, shape]): [string, string][] =>
        isShape(shape) ? [[canonical(JSON.parse(JSON.stringify(shape, copied))), name]] : [],
      ),
    ),
  );

/** An object whose members are told: what is any text or number to its reader has no need of a name. */
function isShape(value: unknown): value is Record<string, unknown> {
  return isObject(value) && value["type"] === "object" && Object.keys(value["properties"] ?? {}).length > 0;
}

/**
 * The same document, each shape that has a name told once, under `components`, and referred to from wherever it stands. What a request may hold is closed;
 * answers and webhooks aren't, or who holds them to the document of today would refuse what a later version tells beside it.
 */
export function withNames(document: { components: object; webhooks: object }): object {
  const names = namesByText();
  const told: Record<string, unknown> = {};
  const inner = (value: object, isAnswer: boolean) =>
    Object.fromEntries(
      Object.entries(value).flatMap(([name, part]) =>
        isAnswer && name === "additionalProperties" && part === false ? [] : [[name, referring(part, isAnswer || name === "responses")]],
      ),
    );
  function referring(value: unknown, isAnswer: boolean): unknown {
    if (Array.isArray(value)) return value.map((item) => referring(item, isAnswer));
    if (!isObject(value)) return value;
    const name = isShape(value) ? names.get(canonical(value)) : undefined;
    if (name === undefined) return inner(value, isAnswer);
    told[name] ??= inner(value, isAnswer);
    return { $ref: `#/components/schemas/${name}` };
  }
  const { components, webhooks, ...rest } = document;
  const { schemas = {} } = components as { schemas?: object };
  return {
    ...inner(rest, false),
    webhooks: inner(webhooks, true),
    components: { ...components, schemas: { ...inner(schemas, true), ...told } },
  };
}
