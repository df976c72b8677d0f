// Writes the README's tables from the code, or with --check says which of them no longer say what the code does.
import { readFileSync, writeFileSync } from "node:fs";
import { alerts } from "./monitoring.ts";
import { auditActions } from "#shared/audit.ts";
import { outcomes, statuses } from "#shared/compliance.ts";
import { type ErrorCode, errors, shownCode } from "#shared/errors.ts";
import { eventNames, eventTable } from "#shared/events.ts";
import { BURST_SHARE, limitTable, tiers } from "#shared/limits.ts";
import { otherGrants, othersThatDo, scopes } from "#shared/scopes.ts";
import { grades, jobStateNames, jobStates } from "#shared/states.ts";
import { Settings as StationSettings } from "../../agent/config.ts";
import { settings } from "../../cloud/config.ts";
import { loadPacks } from "../../cloud/packs.ts";
import { pathOf } from "../../cloud/route.ts";
import { routes } from "../../cloud/routes/index.ts";
import { plan } from "../faults/plan.ts";

const file = new URL("../../README.md", import.meta.url);

const cell = (value: string | number) => String(value).replaceAll("|", "\\|");
const table = (head: string[], rows: (string | number)[][]) =>
  [head, head.map(() => "---"), ...rows].map((row) => `| ${row.map(cell).join(" | ")} |`).join("\n");
const code = (text: string) => `\`${text}\``;
const number = (value: number) => value.toLocaleString("en-US");

const needs = (scope: (typeof routes)[number]["scope"]): string => {
  if (typeof scope === "string") return { credential: "any credential", client: "client id and secret", public: "none" }[scope];
  return scope.map(code).join(" or ");
};

/** Names of the fields; those that may be absent with a question mark. */
const fieldsOf = ({ properties, required = [] }: { properties: object; required?: readonly string[] }): string =>
  Object.keys(properties)
    .map((name) => code(required.includes(name) ? name : `${name}?`))
    .join(", ");

type Shape = {
  type?: string;
  description?: string;
  default?: unknown;
  properties?: Record<string, Shape>;
  required?: string[];
  items?: Shape;
};
/** Every name a settings file may have, by its way through the file. */
function settingsIn({ properties = {}, required = [] }: Shape, way = ""): string[][] {
  return Object.entries(properties).flatMap(([name, shape]) => {
    const { description = "", default: fallback, items } = shape;
    const here = way + name;
    const within = items ?? shape;
    const inside = settingsIn(within, `${here}${items ? "[]" : ""}.`);
    const fillsItself = within.required?.every((one) => within.properties?.[one]?.default !== undefined) ?? false; // with what all in it is by itself
    const mustBe = required.includes(name) && !fillsItself;
    const given = fallback === undefined ? (mustBe ? "has to be there" : "") : code(JSON.stringify(fallback));
    return [[code(here), given, description], ...inside];
  });
}

const tables: Record<string, string> = {
  station: table(["setting", "default", "meaning"], settingsIn(StationSettings as Shape)),
  settings: table(
    ["setting", "default", "meaning"],
    Object.entries(settings).map(([name, { default: fallback, says }]) => [code(name), fallback === "" ? "absent" : code(fallback), says]),
  ),
  endpoints: table(
    ["method", "path", "scope", "does"],
    routes.map((route) => [route.method, code(pathOf(route)), needs(route.scope), route.says]),
  ),
  scopes: table(
    ["scope", "grants", "satisfied by"],
    [
      ...Object.entries(scopes).map(([name, row]) => [code(name), row.says, othersThatDo(row).map(code).join(", ")]),
      ...Object.entries(otherGrants).map(([name, says]) => [code(name), says, ""]),
    ],
  ),
  errors: table(
    ["status", "code", "meaning"],
    (Object.keys(errors) as ErrorCode[])
      .toSorted((a, b) => errors[a].status - errors[b].status)
      .map((name) => [errors[name].status, code(shownCode(name)), errors[name].says]),
  ),
  limits: table(
    ["limit", "value", "of"],
    Object.entries(limitTable).map(([name, [value, says]]) => [code(name), number(value), says]),
  ),
  states: table(
    ["state", "means", "then", "on the word of", "evidence"],
    jobStateNames.map((name) => {
      const { says, next, by, evidence } = jobStates[name];
      return [code(name), says, next.map(code).join(", "), by.join(", "), evidence === null ? "" : code(evidence)];
    }),
  ),
  grades: table(
    ["grade", "because", "attests by itself"],
    Object.entries(grades).map(([name, { says, attests }]) => [name, says, attests ? "yes" : "an operator does"]),
  ),
  tiers: table(
    ["tier", "requests a minute", "at once"],
    Object.entries(tiers).map(([name, perMinute]) => [name, number(perMinute), number(perMinute * BURST_SHARE)]),
  ),
  packs: table(
    ["CELEX", "version", "regulation", "sector", "of", "priority", "in effect from", "obligations"],
    loadPacks().all.map(({ celexId, version, title, sectors, categories, priority, effectiveFrom, rules, quarantined }) => [
      code(celexId),
      version,
      title,
      sectors.map(code).join(", "),
      categories?.join(", ") ?? "any category",
      priority,
      effectiveFrom?.slice(0, 10) ?? "a draft",
      quarantined ? `${rules.length}, quarantined: never evaluated` : rules.length,
    ]),
  ),
  outcomes: table(
    ["outcome", "the rule"],
    Object.entries(outcomes).map(([name, says]) => [code(name), says]),
  ),
  statuses: table(
    ["status", "the product, in the sector"],
    Object.entries(statuses).map(([name, says]) => [code(name), says]),
  ),
  events: table(
    ["event", "meaning", "data"],
    eventNames.map((name) => [code(name), eventTable[name].says, fieldsOf(eventTable[name].data)]),
  ),
  alerts: table(
    ["alert", "when", "what to do"],
    alerts().map(({ name, summary, todo }) => [code(name), summary, todo]),
  ),
  faults: table(
    ["", "what befalls it", "tests, and the controls that can fail"],
    plan.map(({ fault, tests, controls }, i) => [
      `F${i + 1}`,
      fault,
      [...new Set([...tests, ...controls].map(([path]) => code(path.replace(".test.ts", ""))))].join(", "),
    ]),
  ),
  audit: table(
    ["action", "meaning"],
    Object.entries(auditActions).map(([name, says]) => [code(name), says]),
  ),
};

/** The README as it should be. */
export function written(text: string): string {
  return Object.entries(tables).reduce((readme, [name, made]) => {
    const [open, close] = [`<!-- table: ${name} -->`, `<!-- end: ${name} -->`];
    const [from, to] = [readme.indexOf(open), readme.indexOf(close)];
    if (from < 0 || to < from) throw new Error(`README.md has no place for the table "${name}": ${open} … ${close}`);
    return `${readme.slice(0, from + open.length)}\n${made}\n${readme.slice(to)}`;
  }, text);
}

if (import.meta.main) {
  const unknown = process.argv.slice(2).find((word) => word !== "--check");
  if (unknown !== undefined) {
    process.stderr.write(`imprimatur readme: ${unknown} isn't --check, and nothing else is known\n`);
    process.exit(2);
  }
  const now = readFileSync(file, "utf8");
  const should = written(now);
  if (!process.argv.includes("--check")) writeFileSync(file, should);
  else if (now !== should) {
    process.stdout.write("README.md's tables don't say what the code says: npm run readme\n");
    process.exitCode = 1;
  }
}
