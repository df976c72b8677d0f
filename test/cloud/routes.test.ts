// The whole table of routes, walked: every documented example works as it stands, and another tenant's things are never there.
import { hash } from "node:crypto";
import { expect, test } from "vitest";
import type { Route } from "../../cloud/route.ts";
import { routes } from "../../cloud/routes/index.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";

const w = await world();
let n = 200_000;

/** A tenant with one of everything that a path can name. */
async function furnished() {
  const { data, adminKey } = (await w.admin.post("/tenants", { name: "furnished" })).body;
  const admin = w.as(adminKey.secret);
  const id = async (path: string, body: unknown, at = (answer: { id: string }) => answer.id) => at((await admin.post(path, body)).body);
  const kettle = {
    name: "Kettle",
    description: "A kettle of 1.7 litres",
    category: "electronics",
    gtin: gtinOf((n += 1)),
    serialNumber: "1",
    extensions: {},
  };
  const secret = (answer: { client_id: string; client_secret: string }) => answer;
  const client = secret((await admin.post("/oauth/clients", { name: "erp", scopes: ["products:read"] })).body);
  const csv = {
    body: `name,description,gtin,serialNumber\nPot,A pot of two litres,${gtinOf((n += 1))},1\n`,
    headers: { "content-type": "text/csv" },
  };
  const ids: Record<string, string> = {
    products: await id("/products", kettle),
    "api-keys": await id(
      "/api-keys",
      { name: "k", scopes: ["aidc:read"] },
      (answer) => (answer as unknown as { data: { id: string } }).data.id,
    ),
    clients: client.client_id,
    imports: (await admin.send("POST", "/imports?category=electronics", csv)).body.data.id,
    categories: "electronics",
    status: "0",
  };
  // A second product, ready for a passport, and a third that has one.
  const ready = async () => {
    const product = await id("/products", { ...kettle, gtin: gtinOf((n += 1)) });
    for (const stage of ["validated", "ready_for_dpp"]) await admin.post(`/products/${product}/lifecycle/transition`, { stage });
    return product;
  };
  const readyProduct = await ready();
  // An event that says nothing but what is this tenant's own.
  const own = () => `urn:uuid:${crypto.randomUUID()}`;
  const [events, epcs, eventTypes, bizSteps, dispositions, readPoints, bizLocations] = Array.from({ length: 7 }, own);
  const [readPoint, bizLocation] = [{ id: readPoints }, { id: bizLocations }];
  const when = { eventTime: "2026-11-21T09:00:00Z", eventTimeZoneOffset: "+00:00" };
  const said = { type: eventTypes, eventID: events, epcList: [epcs], bizStep: bizSteps, disposition: dispositions, readPoint, bizLocation };
  const captured = (await admin.post("/epcis/capture", { ...when, ...said })).headers.get("location") ?? "";
  Object.assign(ids, {
    capture: captured.replace(/^.*\//, ""),
    events,
    epcs,
    eventTypes,
    bizSteps,
    dispositions,
    readPoints,
    bizLocations,
  });
  for (const noun of ["events", "epcs", "eventTypes", "bizSteps", "dispositions", "readPoints", "bizLocations"])
    expect((await admin.get(`/epcis/${noun}/${ids[noun]}${noun === "events" ? "" : "/events"}`)).status).toBe(200);
  ids["passports"] = await id("/dpps", { productId: await ready() });
  const { content, credentialId } = (await admin.get(`/passports/${ids["passports"]}`)).body;
  const quiet = { url: "https://erp.example.invalid/hook", events: ["print.confirmed"] };
  ids["webhooks"] = await id("/webhooks", quiet);
  ids["deliveryId"] = await id(`/webhooks/${ids["webhooks"]}/test`, {});
  // A shop that prints, with a job under way, one to cancel and a picture.
  const shop = await printShop(w);
  const job = await shop.issue();
  const claimed = await shop.device.claim();
  const [serial, spare] = await shop.allocate(2);
  const picture = Buffer.from("a picture");
  const sha256 = hash("sha256", picture);
  await shop.admin.send("PUT", `/aidc/evidence/${sha256}`, { body: picture, headers: { "content-type": "image/png" } });
  Object.assign(ids, { jobs: job.job_ref, evidence: sha256, devices: shop.device.id, carriers: spare, credentials: credentialId });
  return { admin, tenantId: data.id as string, ids, client, readyProduct, content, shop, claimed, serial };
}
type Furnished = Awaited<ReturnType<typeof furnished>>;

/** What its path names: the word before the first place, or the first word. */
const nounOf = ({ path }: Route) => /([\w-]+)\/\{/.exec(path)?.[1] ?? path.split("/")[1] ?? "";
/** Nouns that live in the shop's tenant. */
const OF_SHOP = new Set(["jobs", "evidence", "devices", "carriers", "aidc"]);
const ofShop = (route: Route) => OF_SHOP.has(nounOf(route));
const filled = (route: Route, ids: Record<string, string>) => {
  const id = ids[nounOf(route)];
  if (id === undefined && route.path.includes("{"))
    throw new Error(`${route.path} names a thing that this test doesn't have: add it to furnished()`);
  return (route.root ? "/" : "") + route.path.replaceAll(/\{(\w+)\}/g, (_, place: string) => ids[place] ?? id ?? "");
};
const name = ({ method, path }: Route) => `${method} ${path}`;
const named = (picked: readonly Route[]) => picked.map((route) => [name(route), route] as const);

/** What an example can't know: the query that it needs, and the secrets of this world. */
const also = (
  route: Route,
  { client, readyProduct: productId, content, shop, claimed, serial, ids }: Furnished,
): { query: string; body: Record<string, unknown> } => ({
  query: route.path === "/imports" ? "?category=electronics" : "",
  body:
    {
      "/oauth/token": { client_id: client.client_id, client_secret: client.client_secret },
      "/console/session": { client_id: client.client_id, client_secret: client.client_secret },
      "/passports/generate": { productId },
      "/dpps": { productId },
      "/passports/{id}": { content },
      "/carriers/batch": { productId: shop.product.id },
      "/aidc/jobs": { gtin: shop.gtin, serial },
      "/aidc/jobs/batch": { items: [{ gtin: shop.gtin, serial }] },
      "/aidc/jobs/{ref}/heartbeat": { attempt_id: claimed.attempt_id },
      "/aidc/jobs/{ref}/result": { attempt_id: claimed.attempt_id },
      "/aidc/results": { results: [{ job_ref: ids["jobs"], status: "FAILED", attempt_id: claimed.attempt_id, reason: "x" }] },
      "/aidc/orphans": { job_ref: ids["jobs"], attempt_id: claimed.attempt_id },
      "/compliance/evaluations": { productIds: [ids["products"]] },
    }[route.path] ?? {},
});

function sendingOf(route: Route, body: Record<string, unknown>) {
  if (route.takesBytes) return bytesOf;
  if (typeof route.example === "string") return { body: route.example, headers: { "content-type": "text/csv" } };
  const headers = { "idempotency-key": crypto.randomUUID() };
  return route.example === undefined ? { headers } : { json: { ...route.example, ...body }, headers };
}

const withBody = routes.filter((route) => route.body !== undefined || route.takesFile);
const bytesOf = { body: Buffer.from("a picture"), headers: { "content-type": "image/png" } };

test("every route that takes a body shows an example of it", () => {
  expect(withBody.filter(({ example }) => example === undefined).map(name)).toEqual([]);
});

test.each(named(withBody))("the example of %s works as it stands", async (_name, route) => {
  const home = await furnished();
  const { query, body } = also(route, home);
  const device = route.refusals?.includes("DEVICE_KEY_REQUIRED") && !route.path.endsWith("result");
  const owner = ofShop(route) ? (device ? home.shop.device.api : home.shop.admin) : home.admin;
  const admin = nounOf(route) === "tenants" ? w.admin : owner;
  const answer = await admin.send(route.method, filled(route, home.ids) + query, sendingOf(route, body));
  expect([answer.status, answer.text]).toEqual([expect.toSatisfy((status) => status < 300), expect.any(String)]);
  if (answer.body?.errors) expect(answer.body.errors).toEqual([]);
  const document = (await w.nobody.get("/openapi.json")).body;
  const shown = document.paths[`${route.root ? "" : "/api/v2"}${route.path}`][route.method.toLowerCase()].requestBody.content;
  expect(Object.values(shown)).toContainEqual(expect.objectContaining({ example: route.example }));
});

// A picture that another tenant keeps is kept anew: putting one is no question about it.
const ofTenants = routes.filter(
  ({ path, scope, takesBytes }) => path.includes("{") && !path.includes("{category}") && scope !== "public" && !takesBytes,
);

test.each(named(ofTenants))("%s with another tenant's key is 404, and nothing happened", async (_name, route) => {
  const [home, stranger] = [await furnished(), await furnished()];
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
