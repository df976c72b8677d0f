// Every documented operation, asked by its own schema with something wrong here and there: a typed answer always, never a 500, and probes are answered in between.
import { monitorEventLoopDelay } from "node:perf_hooks";
import * as fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { sql } from "../../cloud/store/drizzle.ts";
import type { Client } from "../../fixtures/client.ts";
import { jsonText, type Schema, valuesOf } from "../../fixtures/schema-values.ts";
import type { World } from "../../fixtures/world.ts";
import { furnishing } from "../furnished.ts";
import { world } from "../world.ts";

const SEED = 20_261_121;
const RUNS = 10;
/** What is outside isn't there in these tests: that is said, and isn't a fault. */
const OUTSIDE = new Set(["REGISTRY_UNAVAILABLE", "COMPLIANCE_EVALUATION_UNAVAILABLE", "ANCHORING_UNAVAILABLE"]);

const w = await world();
const home = await furnishing(w);
const known = Object.values(home.ids);

type Parameter = { name: string; in: "path" | "query" | "header"; schema: Schema };
type Operation = { parameters?: Parameter[]; requestBody?: { content: Record<string, { schema?: Schema; example?: unknown }> } };
const document = (await w.nobody.get("/openapi.json")).body as { paths: Record<string, Record<string, Operation>> };
const resolve = (ref: string): Schema =>
  ref
    .replace(/^#\//, "")
    .split("/")
    .reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], document) as Schema;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(
    ([method, operation]) => [`${method.toUpperCase()} ${path}`, { path, method: method.toUpperCase(), operation }] as const,
  ),
);
type Target = (typeof operations)[number][1];

/** Text that can stand in an address, whatever it is. */
const placed = (value: unknown) => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return encodeURIComponent(text.toWellFormed().slice(0, 2_000)) || "%20";
};

function requestsOf({ path, operation: { parameters = [], requestBody } }: Target) {
  const valueOf = (schema: Schema) => valuesOf(schema, known, resolve);
  const of = (where: Parameter["in"]) =>
    Object.fromEntries(parameters.filter((one) => one.in === where).map(({ name, schema }) => [name, valueOf(schema)]));
  const [type, { schema, example } = {}] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  const place = fc.oneof(fc.constantFrom(...known), valueOf({ type: "string" }));
  const places = Object.fromEntries(Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = ""]) => [name, place]));
  const like = example !== null && typeof example === "object" ? fc.constant(example) : valueOf(schema ?? {});
  return fc
    .record({
      who: fc.constantFrom<"admin" | "shop" | "device" | "nobody">("admin", "shop", "device", "nobody"),
      places: fc.record(places),
      query: fc.record(of("query"), { requiredKeys: [] }),
      body: schema ? fc.oneof({ weight: 4, arbitrary: valueOf(schema) }, { weight: 1, arbitrary: like }) : fc.constant(undefined),
      key: fc.option(fc.uuid(), { nil: undefined }),
    })
    .map((asked) => ({ ...asked, type }));
}
type Asked = typeof requestsOf extends (target: Target) => fc.Arbitrary<infer T> ? T : never;

async function ask(as: Client, { path, method }: Target, { places, query, body, key, type = "" }: Asked) {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => placed((places as Record<string, unknown>)[name]));
  const search = Object.entries(query).map(([name, value]) => `${name}=${placed(value)}`);
  const isJson = type.includes("json");
  const sent = body === undefined ? {} : { body: isJson ? jsonText(body).toWellFormed() : placed(body).slice(0, 5_000) };
  const headers = { ...(body === undefined ? {} : { "content-type": type }), ...(key === undefined ? {} : { "idempotency-key": key }) };
  return as.send(method, `/${filled}${search.length > 0 ? `?${search.join("&")}` : ""}`, { ...sent, headers });
}

/** What is wrong with the answers to these requests, and to a probe after each. */
async function faultOf(on: World, who: Record<Asked["who"], Client>, target: Target, asked: Asked): Promise<string | undefined> {
  const { status, text, body } = await ask(who[asked.who], target, asked);
  const probe = await on.nobody.get("//healthz");
  if (probe.status !== 200) return `the probe was answered ${probe.status}`;
  if (status < 400) return undefined;
  const { code, message } = (body?.error ?? {}) as { code?: string; message?: string };
  if (status >= 500 && !OUTSIDE.has(code ?? "")) return `${status} ${text}`;
  const isTyped = (typeof code === "string" && typeof message === "string") || target.path.startsWith("/v1/"); // EN 18222 has its own shape
  return isTyped ? undefined : `${status} without a code: ${text.slice(0, 200)}`;
}
const callersOf = (of: typeof home, at: World) => ({ admin: of.admin, shop: of.shop.admin, device: of.shop.device.api, nobody: at.nobody });

const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
const stalls: { name: string; ms: number }[] = [];
afterAll(() => {
  const [worst] = stalls.toSorted((a, b) => b.ms - a.ms);
  process.stdout.write(`fuzz: server and client together stood still for ${worst?.ms} ms at most, during ${worst?.name}\n`);
});

test.each(operations)("%s takes whatever its schema nearly allows", async (name, target) => {
  delay.reset();
  const who = callersOf(home, w);
  await fc.assert(
    fc.asyncProperty(requestsOf(target), async (asked) => {
      expect(await faultOf(w, who, target, asked)).toBeUndefined();
    }),
    { numRuns: RUNS, seed: SEED, endOnFailure: true },
  );
  stalls.push({ name, ms: Math.round(delay.max / 1e6) });
});

test("afterwards nothing was logged as a fault of ours, and the audit chains hold", async () => {
  expect(w.logged().filter((line) => line.includes('"code":"INTERNAL_ERROR"'))).toEqual([]);
  for (const admin of [home.admin, home.shop.admin, w.admin]) expect((await admin.get("/audit-logs/verify")).body.valid).toBe(true);
});

test("the control: the same requests find a store that is damaged", async () => {
  const sick = await world();
  const there = await furnishing(sick);
  await sick.store.write("damage", async ({ db }) => void (await db.run(sql`DELETE FROM audit_heads`)));
  const [, target] = operations.find(([name]) => name === "POST /api/v2/products") ?? [];
  if (!target) throw new Error("there is no such operation");
  const found = await fc.check(
    fc.asyncProperty(requestsOf(target), async (asked) => (await faultOf(sick, callersOf(there, sick), target, asked)) === undefined),
    { numRuns: 200, seed: SEED, endOnFailure: true },
  );
  expect(found.failed).toBe(true);
});
