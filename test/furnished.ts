// A tenant with one of everything that a path can name, and every route filled with it: for tests that walk the whole table.
import { hash } from "node:crypto";
import { expect, vi } from "vitest";
import type { Route } from "../cloud/route.ts";
import { gtinOf } from "../fixtures/gtin.ts";
import { productOf } from "../fixtures/passports.ts";
import { printShop } from "../fixtures/print-shop.ts";
import type { World } from "../fixtures/world.ts";

let n = 200_000;

/** A tenant with one of everything that a path can name. */
export async function furnishing(w: World) {
  const { id: tenantId, admin } = await w.tenant("furnished");
  const id = async (path: string, body: unknown, at = (answer: { id: string }) => answer.id) => at((await admin.post(path, body)).body);
  const kettle = productOf({ gtin: gtinOf((n += 1)) });
  const secret = (answer: { client_id: string; client_secret: string }) => answer;
  const client = secret((await admin.post("/oauth/clients", { name: "erp", scopes: ["products:read"] })).body);
  const csv = {
    body: `name,description,gtin,serialNumber\nPot,A pot of two litres,${gtinOf((n += 1))},1\n`,
    headers: { "content-type": "text/csv" },
  };
  const ids: Record<string, string> = {
    tenants: tenantId,
    products: await id("/products", kettle),
    "api-keys": await id(
      "/api-keys",
      { name: "k", scopes: ["aidc:read"] },
      (answer) => (answer as unknown as { data: { id: string } }).data.id,
    ),
    clients: client.client_id,
    imports: (await admin.send("POST", "/imports?category=electronics", csv)).body.data.id,
    categories: "electronics",
    sector: "espr",
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
  // The import's product comes when it ends, and nothing is to change beneath who looks.
  const imported = async () => expect((await admin.get(`/imports/${ids["imports"]}`)).body.status).toBe("completed");
  await vi.waitFor(imported, { timeout: 20_000, interval: 10 });
  return { admin, tenantId, ids, client, readyProduct, content, shop, claimed, serial };
}
export type Furnished = Awaited<ReturnType<typeof furnishing>>;

/** What its path names: the word before the first place, or the first word. */
export const nounOf = ({ path }: Route) => /([\w-]+)\/\{/.exec(path)?.[1] ?? path.split("/")[1] ?? "";
/** Nouns that live in the shop's tenant. */
const OF_SHOP = new Set(["jobs", "evidence", "devices", "carriers", "aidc"]);
export const ofShop = (route: Route) => OF_SHOP.has(nounOf(route));
export const filled = (route: Route, ids: Record<string, string>) => {
  const id = ids[nounOf(route)];
  if (id === undefined && route.path.includes("{"))
    throw new Error(`${route.path} names a thing that this test doesn't have: add it to furnished()`);
  return (route.root ? "/" : "") + route.path.replaceAll(/\{(\w+)\}/g, (_, place: string) => ids[place] ?? id ?? "");
};
export const name = ({ method, path }: Route) => `${method} ${path}`;
export const named = (picked: readonly Route[]) => picked.map((route) => [name(route), route] as const);

/** What an example can't know: the query that it needs, and the secrets of this world. */
export const also = (
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

const bytesOf = { body: Buffer.from("a picture"), headers: { "content-type": "image/png" } };
export function sendingOf(route: Route, body: Record<string, unknown>) {
  if (route.takesBytes) return bytesOf;
  if (typeof route.example === "string") return { body: route.example, headers: { "content-type": "text/csv" } };
  const headers = { "idempotency-key": crypto.randomUUID() };
  return route.example === undefined ? { headers } : { json: { ...route.example, ...body }, headers };
}
