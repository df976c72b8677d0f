// The whole table of routes, walked: every documented example works as it stands, and another tenant's things are never there.
import type { TSchema } from "typebox";
import { expect, test, vi } from "vitest";
import type { Route } from "../../cloud/route.ts";
import { routes } from "../../cloud/routes/index.ts";
import { fitting } from "../../cloud/validate.ts";
import type { Answer } from "../../fixtures/client.ts";
import { goodItems } from "../../fixtures/print-shop.ts";
import { also, type Furnished, filled, furnishing, name, named, nounOf, ofShop, sendingOf } from "../furnished.ts";
import { world } from "../world.ts";

const w = await world();
const furnished = () => furnishing(w);
/** Made once, for tests that leave it as it is. */
const shared = (): (() => Promise<Furnished>) => {
  let made: Promise<Furnished> | undefined;
  return () => (made ??= furnished());
};
const [looked, strange] = [shared(), shared()];

type Shown = { $ref?: string; properties?: Record<string, Shown>; items?: Shown };
type Named = { components: { schemas: Record<string, Shown> } };
/** A schema with what it refers to in its place. */
function spelledOut(document: Named, schema: unknown): Shown {
  return JSON.parse(JSON.stringify(schema), (_name, value) => {
    const named = /^#\/components\/schemas\/(\w+)$/.exec(value?.$ref)?.[1];
    return named === undefined ? (value as unknown) : spelledOut(document, document.components.schemas[named]);
  }) as Shown;
}

const withBody = routes.filter((route) => route.body !== undefined || route.takesFile);

test("every route that takes a body shows an example of it", () => {
  expect(withBody.filter(({ example }) => example === undefined).map(name)).toEqual([]);
});

test.each(named(withBody))("the example of %s works as it stands", async (_name, route) => {
  const home = await furnished();
  const { query, body } = also(route, home);
  const owner = ofShop(route) ? (route.onlyDevices ? home.shop.device.api : home.shop.admin) : home.admin;
  const admin = nounOf(route) === "tenants" ? w.admin : owner;
  const answer = await admin.send(route.method, filled(route, home.ids) + query, sendingOf(route, body));
  expect([answer.status, answer.text]).toEqual([expect.toSatisfy((status) => status < 300), expect.any(String)]);
  if (answer.body?.errors) expect(answer.body.errors).toEqual([]);
  const document = (await w.nobody.get("/openapi.json")).body;
  const shown = document.paths[`${route.root ? "" : "/api/v2"}${route.path}`][route.method.toLowerCase()].requestBody.content;
  expect(Object.values(shown)).toContainEqual(expect.objectContaining({ example: route.example }));
});

test("whatever PATCH changes PUT changes as well, and only as much as it names", async () => {
  const { admin, shop, ids, content } = await furnished();
  const at = (noun: string) => `/${noun}/${ids[noun]}`;
  const changes: [path: string, change: Record<string, unknown>, owner: typeof admin][] = [
    ["/tenant", { maxAttempts: 7 }, admin],
    [at("tenants"), { tier: "pro" }, w.admin],
    [at("products"), { name: "Kettle, put" }, admin],
    [at("passports"), { content: { ...content, product: { ...content.product, name: "Kettle, put" } } }, admin],
    [at("webhooks"), { description: "put" }, admin],
    [at("devices"), { station: "line-9" }, shop.admin],
  ];
  const patched = routes.filter(({ method }) => method === "PATCH");
  expect(patched.map(({ path }) => path.replace("/{id}", "")).toSorted()).toEqual(
    changes.map(([path]) => `/${path.split("/")[1]}`).toSorted(),
  );
  for (const [path, change, owner] of changes) {
    const { updatedAt: _, updated_at: _too, version: _one, ...before } = (await owner.get(path)).body;
    const answer = await owner.send("PUT", path, { json: change });
    const after = (await owner.get(path)).body;
    expect([path, answer.status]).toEqual([path, 200]);
    const wanted = path.startsWith("/products") ? { productName: change["name"] } : change;
    const signed = path.startsWith("/passports")
      ? { digest: after.digest, credential: after.credential, credentialId: after.credentialId }
      : {};
    expect(after).toMatchObject({ ...before, ...signed, ...wanted });
    const unfit = await owner.send("PUT", path, { json: { ...change, colour: "red" } });
    expect([path, unfit.status, unfit.body.error.details.fields[0].field]).toEqual([path, 400, "colour"]);
  }
});

const shape = expect.objectContaining({ type: "object" });
const exported = { $ref: "#/components/schemas/CarriersExported" };
const refusalShown = {
  "application/json": { schema: { $ref: "#/components/schemas/Error" } },
  "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } },
};
test.each<[path: string, method: string, status: number, content: object | undefined]>([
  ["/api/v2/products/{id}", "delete", 204, undefined],
  ["/api/v2/carriers/export", "get", 200, { "text/csv": { schema: { type: "string" } }, "application/json": { schema: exported } }],
  ["/.well-known/did.json", "get", 200, { "application/did+json": { schema: {} } }],
  ["/01/{gtin}", "get", 200, { "application/linkset+json": { schema: shape }, "text/html": { schema: { type: "string" } } }],
  ["/api/v2/metrics", "get", 200, { "text/plain": { schema: { type: "string" } } }],
  ["/p/{uid}", "get", 410, { ...refusalShown, "text/html": { schema: { type: "string" } } }],
  ["/api/v2/products/{id}", "get", 404, refusalShown],
])("%s: the document says which types its answer to %s has, JSON for what it is, and no body where none comes", async (...shown) => {
  const [path, method, status, content] = shown;
  const document = (await w.nobody.get("/openapi.json")).body;
  expect(document.paths[path][method].responses[status].content).toEqual(content);
});

test.each([
  ["/carriers/export", 200, "Content-Disposition"],
  ["/schemas/categories/{category}/import-template", 200, "Content-Disposition"],
  ["/products/{id}", 401, "WWW-Authenticate"],
  ["/passports/{id}/proof", 401, "WWW-Authenticate"],
  ["/audit-logs", 403, "WWW-Authenticate"],
])("%s: the document names what a %i sends beside its body: %s", async (path, status, header) => {
  const home = await furnished();
  const poor = async () => w.as((await home.admin.post("/api-keys", { name: "poor", scopes: ["aidc:read"] })).body.data.secret);
  const asking = status === 401 ? w.nobody : status === 403 ? await poor() : home.admin;
  const at = path.replace("{category}", "electronics").replace("{id}", home.ids["products"] ?? "");
  const answer = await asking.get(path.endsWith("export") ? `${at}?productId=${home.ids["products"]}` : at);
  expect([answer.status, answer.headers.get(header)]).toEqual([status, expect.any(String)]);
  const document = (await w.nobody.get("/openapi.json")).body;
  expect(document.paths[`/api/v2${path}`].get.responses[status].headers).toHaveProperty([header]);
});

test("every expression in the document is one that other languages can read; where it isn't, the field says it in words", async () => {
  const { text, body } = await w.nobody.get("/openapi.json");
  const patterns = [...text.matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(([, pattern]) => JSON.parse(pattern ?? "") as string);
  expect(new Set(patterns).size).toBeGreaterThan(5);
  expect(patterns.filter((pattern) => /\\[pPku]|\(\?(?!:)/.test(pattern))).toEqual([]);
  const { schema } = body.paths["/api/v2/products/{id}/void"].post.requestBody.content["application/json"];
  expect(spelledOut(body, schema).properties?.["reason"]).toMatchObject({
    minLength: 1,
    description: "must have something to see in it and no control characters",
  });
});

test("no object in the document is shown as one that can't have a member", async () => {
  const { text } = await w.nobody.get("/openapi.json");
  const empty: unknown[] = [];
  JSON.parse(text, (_name, value) => {
    if (value?.type === "object" && Object.keys(value.properties ?? {}).length === 0 && !value.additionalProperties) empty.push(value);
    return value as unknown;
  });
  expect(empty).toEqual([]);
});

test("a thing that several answers show has one name in the document, so that a client's generator makes one type of it", async () => {
  const { body } = await w.nobody.get("/openapi.json");
  const at = (path: string, method: string, status = 200) =>
    body.paths[`/api/v2${path}`][method].responses[status].content["application/json"].schema;
  const called = (name: string) => ({ $ref: `#/components/schemas/${name}` });
  const products = [at("/products", "post", 201), at("/products/{id}", "get"), at("/products/{id}", "patch")];
  expect([...products, at("/products", "get").properties.data.items]).toEqual(Array.from({ length: 4 }, () => called("Product")));
  expect(body.components.schemas.Claimed.properties.job).toEqual(called("Job"));
  expect(spelledOut(body, called("Product"))).toMatchObject({ type: "object", required: expect.arrayContaining(["id", "productName"]) });
  const answers: string[] = [];
  JSON.parse(JSON.stringify(body.paths), (_name, value) => {
    if (value?.type === "object" && Object.keys(value.properties ?? {}).length > 5) answers.push(Object.keys(value.properties).join());
    return value as unknown;
  });
  expect(answers).toEqual([...new Set(answers)]);
});

test("who holds answers, and webhooks, to the document takes one that has gained a member, and is told which a request can't have", async () => {
  const { admin, ids } = await looked();
  const { body } = await w.nobody.get("/openapi.json");
  const closed: string[] = [];
  const look = (value: unknown, at: string): void => {
    if (typeof value !== "object" || value === null) return;
    if ("additionalProperties" in value && value.additionalProperties === false) closed.push(at);
    for (const [name, part] of Object.entries(value)) look(part, `${at} ${name}`);
  };
  for (const [path, methods] of Object.entries<Record<string, { responses: unknown }>>(body.paths))
    for (const [method, { responses }] of Object.entries(methods)) look(spelledOut(body, responses), `${method} ${path}`);
  look(spelledOut(body, body.webhooks), "webhooks");
  expect(closed).toEqual([]);
  const fitsIn = (name: string) => fitting(spelledOut(body, { $ref: `#/components/schemas/${name}` }));
  const product = (await admin.get(`/products/${ids["products"]}`)).body;
  expect([fitsIn("Product")({ ...product, colour: "red" }), fitsIn("Product")({ id: product.id })]).toEqual([true, false]);
  const changes = [{ name: "Kettle" }, { name: "Kettle", colour: "red" }].map((change) => fitsIn("ProductPatch")(change));
  expect(changes).toEqual([true, false]);
});

test("the document shows what is judged item by item, and the evidence that each state asks for", async () => {
  const { text, body } = await w.nobody.get("/openapi.json");
  const fieldsOf = (path: string) => {
    const { schema } = body.paths[`/api/v2${path}`].post.requestBody.content["application/json"];
    return spelledOut(body, schema).properties ?? {};
  };
  expect(fieldsOf("/products/batch")["items"]?.items?.properties).toEqual(fieldsOf("/products"));
  expect(fieldsOf("/aidc/jobs/batch")["items"]?.items?.properties).toEqual(fieldsOf("/aidc/jobs"));
  const report = fieldsOf("/aidc/jobs/{ref}/result");
  expect(fieldsOf("/aidc/results")["results"]?.items?.properties).toMatchObject(report);
  const fits = fitting(report["evidence"] as TSchema);
  const { claimed } = await looked();
  for (const { evidence } of goodItems(claimed)) expect([evidence, fits(evidence ?? {})]).toEqual([evidence, true]);
  for (const name of ["render_manifest", "spool_receipt", "completion", "scan_result", "evidence_bundle"])
    expect([name, fits({ [name]: {} })]).toEqual([name, false]);
  expect(text).not.toMatch(/shownAs|asksToo/);
});

test.each([
  ["/api/v2/carriers/export", "application/json", "?format=json&productId={product}"],
  ["/01/{gtin}", "application/linkset+json", "?linkType=linkset"],
])("%s: the document shows the shape of %s, and the answer has it", async (path, media, asked) => {
  const { shop } = await looked();
  const at = (path.startsWith("/api") ? path.slice("/api/v2".length) : `/${path}`) + asked;
  const answer = await shop.admin.get(at.replace("{gtin}", shop.gtin).replace("{product}", shop.product.id));
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, expect.stringContaining(media)]);
  const document = (await w.nobody.get("/openapi.json")).body;
  const fits = fitting(spelledOut(document, document.paths[path].get.responses[200].content[media].schema));
  expect([fits(JSON.parse(answer.text)), fits.errors]).toEqual([true, null]);
  expect(fits({})).toBe(false);
});

/** How an answer travels and what guards it: no document names these. */
const UNTOLD =
  /^(cache-control|connection|content-(length|security-policy|type)|cross-origin-.+|date|keep-alive|referrer-policy|strict-transport-security|vary|x-(content-type|frame)-options|access-control-expose-headers)$/;
const page = { accept: "text/html" };
const tooMany = {
  "@context": ["https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld"],
  type: "EPCISDocument",
  schemaVersion: "2.0",
  creationDate: "2026-11-21T09:00:00Z",
  epcisBody: { eventList: Array.from({ length: 10_001 }, () => 0) },
};
test.each<[method: string, path: string, status: number, asked: string, told: string[], accept?: object, json?: object]>([
  ["GET", "/api/v2/epcis/events", 200, "?perPage=1", ["Link", "GS1-EPCIS-Version", "GS1-CBV-Version", "GS1-EPC-Format"]],
  ["GET", "/api/v2/epcis/capture", 200, "", ["GS1-EPCIS-Version", "GS1-CBV-Version"]],
  ["POST", "/api/v2/epcis/capture", 413, "", ["GS1-EPCIS-Capture-Limit", "GS1-EPCIS-Capture-File-Size-Limit"], {}, tooMany],
  ["GET", "/01/{gtin}", 302, "", ["Link", "Location", "Access-Control-Allow-Origin"]],
  ["GET", "/01/{gtin}", 200, "?linkType=linkset", ["Link", "Access-Control-Allow-Origin"]],
  ["GET", "/01/{gtin}", 404, "?linkType=gs1:pip", ["Content-Language", "Access-Control-Allow-Origin"], page],
  ["GET", "/p/{uid}", 200, "", ["Content-Language", "ETag", "Access-Control-Allow-Origin"], page],
  ["GET", "/api/v2/log/checkpoint", 200, "", ["Access-Control-Allow-Origin"]],
])("%s %s: the document names every header of a %i, and it comes: %s %j", async (...[method, path, status, asked, told, accept, json]) => {
  const { shop } = await looked();
  const event = { type: "ObjectEvent", action: "OBSERVE", eventTimeZoneOffset: "+00:00", epcList: ["urn:epc:id:sgtin:0614141.107346.1"] };
  for (const hour of [1, 2]) await shop.admin.post("/epcis/events", { ...event, eventTime: `2026-11-21T0${hour}:00:00Z` });
  const at = path.replace("/api/v2", "").replace("{gtin}", shop.gtin).replace("{uid}", shop.product.id);
  const answer = await shop.admin.send(method, (path.startsWith("/api") ? "" : "/") + at + asked, {
    headers: { ...accept },
    ...(json ? { json } : {}),
  });
  expect(answer.status).toBe(status);
  const shown = (await w.nobody.get("/openapi.json")).body.paths[path][method.toLowerCase()].responses[status].headers;
  const sent = [...answer.headers.keys()].filter((name) => !UNTOLD.test(name));
  expect(Object.keys(shown).map((name) => name.toLowerCase())).toEqual(expect.arrayContaining(sent));
  for (const name of told) expect([name, answer.headers.get(name)]).toEqual([name, expect.any(String)]);
});

test("the document asks for a body only where a request without one is refused for it", async () => {
  const home = await furnished();
  const { paths } = (await w.nobody.get("/openapi.json")).body;
  const wrong: string[] = [];
  for (const route of withBody) {
    const { required } = paths[`${route.root ? "" : "/api/v2"}${route.path}`][route.method.toLowerCase()].requestBody;
    const shopkeeper = route.onlyDevices ? home.shop.device.api : home.shop.admin;
    const owner = nounOf(route) === "tenants" ? w.admin : ofShop(route) ? shopkeeper : home.admin;
    const { status } = await owner.send(route.method, filled(route, home.ids), { headers: { "idempotency-key": crypto.randomUUID() } });
    const isRefused = status === 400 || status === 415; // what it stands for may still be refused: no state, no such thing
    if (required !== isRefused) wrong.push(`${name(route)}: required is ${required}, answered ${status}`);
  }
  expect(wrong).toEqual([]);
});

test("no shape in the document has alternatives beside its fields: generated clients take such a one for anything at all", async () => {
  const found: unknown[] = [];
  JSON.stringify((await w.nobody.get("/openapi.json")).body, (name, value) => {
    if (value?.properties && (value.anyOf || value.oneOf)) found.push([name, value]);
    return value;
  });
  expect(found).toEqual([]);
});

/** Of EPCIS, what an event has to be about depends on what else it says. */
test("a body that lacks what the document doesn't ask for isn't refused for lacking it", async () => {
  const home = await furnished();
  const document = (await w.nobody.get("/openapi.json")).body;
  const wrong: string[] = [];
  let sent = 0;
  for (const route of withBody.filter(({ takesFile, path }) => !takesFile && !path.startsWith("/epcis"))) {
    const path = `${route.root ? "" : "/api/v2"}${route.path}`;
    const { schema } = document.paths[path][route.method.toLowerCase()].requestBody.content["application/json"];
    const fits = fitting(spelledOut(document, schema));
    const { query, body } = also(route, home);
    const whole = { ...(route.example as object), ...body } as Record<string, unknown>;
    const owner = nounOf(route) === "tenants" ? w.admin : ofShop(route) && route.onlyDevices ? home.shop.device.api : home.admin;
    for (const lacking of Object.keys(whole)) {
      const { [lacking]: _, ...json } = whole;
      if (!fits(json)) continue;
      sent += 1;
      const headers = { "idempotency-key": crypto.randomUUID() };
      const { status, text } = await owner.send(route.method, filled(route, home.ids) + query, { json, headers });
      if (status === 400 || text.includes("EXTENSIONS_REQUIRED")) wrong.push(`${name(route)} without ${lacking}: ${text}`);
    }
  }
  expect([wrong, sent]).toEqual([[], expect.toSatisfy((some: number) => some > 30)]);
});

/** Their shape is the contract's own, or bound to one thing: a job's steps, a product's sectors. */
const WHOLE = new Set(["/aidc/jobs/{ref}/history", "/products/{id}/compliance"]);
const listsOf = (route: Route) => Object.hasOwn((route.replies[200] as { properties?: object })?.properties ?? {}, "data");
const lists = routes.filter((route) => route.method === "GET" && listsOf(route) && !WHOLE.has(route.path));

test.each(named(lists))("%s comes in pages, each saying where the next begins", async (_name, route) => {
  const home = await looked();
  const owner = route.scope.includes("platform:admin") ? w.admin : ofShop(route) ? home.shop.admin : home.admin;
  const path = filled(route, home.ids);
  const whole = async () => (await owner.get(`${path}?limit=200`)).body;
  const walked = async () => {
    const seen: unknown[] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const { body }: Answer = await owner.get(`${path}?limit=1${cursor}`);
      expect(body.data.length).toBeLessThanOrEqual(1);
      seen.push(...body.data);
      cursor = body.nextCursor === null ? null : `&cursor=${body.nextCursor}`;
    }
    return seen;
  };
  const { data, nextCursor } = await whole();
  expect([Array.isArray(data), nextCursor]).toEqual([true, null]);
  // What moves on by itself during a walk (a delivery that is tried) is walked once more; a fault of the pages stays one.
  await vi.waitFor(async () => expect(await walked()).toEqual((await whole()).data), { timeout: 10_000 });
  for (const query of ["limit=0", "limit=201", "cursor=zzz", "cursor=Z29uZQ"])
    expect([query, (await owner.get(`${path}?${query}`)).status]).toEqual([query, 400]);
});

// A picture that another tenant keeps is kept anew: putting one is no question about it.
const ofTenants = routes.filter(
  ({ path, scope, takesBytes }) =>
    path.includes("{") && !path.includes("{category}") && scope !== "public" && !scope.includes("platform:admin") && !takesBytes,
);

test.each(named(ofTenants))("%s with another tenant's key is 404, and nothing happened", async (_name, route) => {
  const [home, stranger] = [await looked(), await strange()];
  const owner = ofShop(route) ? home.shop.admin : home.admin;
  const before = (await owner.get("/audit-logs")).text;
  const answer = await stranger.admin.send(route.method, filled(route, home.ids), sendingOf(route, {}));
  expect([answer.status, answer.body.error.code]).toEqual([404, "NOT_FOUND"]);
  expect((await owner.get("/audit-logs")).text).toBe(before);
});

test.each(named(routes.filter(({ scope }) => Array.isArray(scope))))(
  "%s without its scope is refused before anything is looked at",
  async (_name, route) => {
    const poor = w.as((await w.admin.post("/api-keys", { name: "poor", scopes: ["autoid:verify"] })).body.data.secret);
    const path = route.path.replaceAll(/\{\w+\}/g, "nothing");
    const answer = await poor.send(route.method, (route.root ? "/" : "") + path, sendingOf(route, {}));
    expect([answer.status, answer.body.error.code, answer.body.error.details]).toEqual([
      403,
      route.deniedAs ?? "API_SCOPE_DENIED",
      { required: route.scope, available: ["autoid:verify"] },
    ]);
  },
);

test.each(named(routes.filter(({ onlyDevices }) => onlyDevices)))(
  "%s is refused to any other key, as the document says",
  async (_name, route) => {
    const { shop, ids } = await looked();
    const answer = await shop.admin.send(route.method, filled(route, ids), sendingOf(route, {}));
    expect([answer.status, answer.body.error.code]).toEqual([403, "DEVICE_KEY_REQUIRED"]);
    const { description } = (await w.nobody.get("/openapi.json")).body.paths[`/api/v2${route.path}`][route.method.toLowerCase()]
      .responses[403];
    expect(description).toContain("DEVICE_KEY_REQUIRED: ");
  },
);
