// Products over HTTP: one at a time, by the thousand, and through their stages.
import { API } from "#shared/api.ts";
import { closed, IdParams, listOf, PageQuery } from "#shared/wire/common.ts";
import {
  BatchResult,
  CategoryUse,
  DomainEvent,
  Product,
  ProductBatch,
  ProductCreate,
  ProductPatch,
  ProductQuery,
  ProductVersion,
  Transition,
  Void,
} from "#shared/wire/products.ts";
import { limits } from "#shared/limits.ts";
import * as categories from "../domain/categories.ts";
import { list } from "../domain/product-list.ts";
import { gtinFaults, moreFaults, moreOfNew } from "../domain/product-rules.ts";
import * as domain from "../domain/products.ts";
import { voidIt } from "../domain/voids.ts";
import { type Reply, type Route, routesUnder } from "../route.ts";

/** A product as it is now: unwrapped, with the tag that an If-Match may name. */
const reply = (product: Product, status = 200, details: Record<string, unknown> = {}): Reply => ({
  status,
  body: product,
  headers: { etag: `"${product.version}"`, ...(status === 201 ? { location: `${API}/products/${product.id}` } : {}) },
  about: { subject: product.id, details: { version: product.version, ...details } },
});

const { read, serve, write } = routesUnder("products");
const kettle = {
  name: "Kettle 1.7",
  description: "An electric kettle of 1.7 litres, brushed steel",
  category: "electronics",
  gtin: "4006381333931",
  serialNumber: "K17-0001",
  extensions: {
    energyEfficiencyClass: "A",
    annualEnergyConsumptionKwh: 42.5,
    repairabilityScore: 7.5,
    sparePartsAvailabilityYears: 10,
    hazardousSubstances: [{ name: "Lead", casNumber: "7439-92-1", concentrationPercentage: 0.05, location: "solder" }],
    recycledContentPercentage: 30,
    productLifetimeYears: 8,
    weeeCategory: "small_equipment",
  },
};

export const products: Route[] = [
  serve({
    path: "/products",
    scope: ["products:read"],
    says: "The tenant's products, newest first",
    query: ProductQuery,
    judge: ({ gtin }) => gtinFaults(gtin),
    replies: { 200: listOf(Product) },
    run: async ({ caller, query, deps }) => ({ status: 200, body: await list(deps.store, caller, query) }),
  }),
  write({
    method: "POST",
    path: "/products",
    scope: ["products:create"],
    says: "Create a product; it begins as a draft",
    body: ProductCreate,
    judge: (body, found) => moreOfNew(body, found),
    example: kettle,
    replies: { 201: Product },
    sends: ["ETag", "Location"],
    refusals: ["EXTENSIONS_REQUIRED", "SCHEMA_NOT_EFFECTIVE", "DUPLICATE_GTIN"],
    audit: "product.created",
    run: async ({ tx, by, body }) => {
      const product = await domain.create(tx, by, body);
      return reply(product, 201, { gtin: product.gtin });
    },
  }),
  write({
    method: "POST",
    path: "/products/batch",
    scope: ["products:create"],
    says: "Create up to 1,000 products; each is judged by itself and the good ones stand",
    body: ProductBatch,
    judgesItems: true,
    example: { items: [kettle, { ...kettle, gtin: "4006381333948", name: "Kettle 1.0" }] },
    bodyMaxBytes: limits.BATCH_BODY_MAX_BYTES,
    replies: { 200: BatchResult },
    audit: "product.batch_created",
    run: async ({ tx, by, body }) => {
      const result = await domain.createBatch(tx, by, body.items);
      return { status: 200, body: result, about: { subject: null, details: { created: result.created, failed: result.failed } } };
    },
  }),
  serve({
    path: "/products/categories",
    scope: ["products:read"],
    says: "How many products each category has",
    query: closed(PageQuery),
    replies: { 200: listOf(CategoryUse) },
    run: async ({ caller, query, deps }) => ({ status: 200, body: await categories.uses(deps.store, caller, query) }),
  }),
  read({
    path: "/products/{id}",
    scope: ["products:read"],
    says: "One product",
    params: IdParams,
    replies: { 200: Product, 304: "Known by its ETag" },
    sends: ["ETag"],
    run: async ({ tx, caller, params }) => reply(await domain.get(tx, caller, params.id)),
  }),
  write({
    method: "PATCH",
    path: "/products/{id}",
    scope: ["products:edit"],
    says: "Change the fields that are sent, each as a whole",
    params: IdParams,
    body: ProductPatch,
    judge: (body, found) => moreFaults(body, found),
    example: { name: "Kettle 1.7 L", extensions: { ...kettle.extensions, repairabilityScore: 8 } },
    takesIfMatch: true,
    guard: domain.faultsBeside,
    replies: { 200: Product },
    sends: ["ETag"],
    refusals: ["SCHEMA_NOT_EFFECTIVE", "DUPLICATE_GTIN", "SCHEME_LOCKED", "ALREADY_VOIDED"],
    audit: "product.updated",
    run: async ({ tx, by, params, body, ifMatch }) =>
      reply(await domain.patch(tx, by, params.id, body, ifMatch), 200, { fields: Object.keys(body) }),
  }),
  write({
    method: "DELETE",
    path: "/products/{id}",
    scope: ["products:delete"],
    says: "Delete a product that was never in the print loop",
    params: IdParams,
    replies: { 204: "Deleted" },
    takesIfMatch: true,
    refusals: ["PRODUCT_REFERENCED", "ALREADY_VOIDED"],
    audit: "product.deleted",
    run: async ({ tx, by, params, ifMatch }) => {
      const { id, gtin, serialNumber } = await domain.remove(tx, by, params.id, ifMatch);
      return { status: 204, about: { subject: id, details: { gtin, serialNumber } } };
    },
  }),
  read({
    path: "/products/{id}/versions",
    scope: ["products:read"],
    says: "Every version as it was, newest first: when, by whom, what changed",
    params: IdParams,
    query: closed(PageQuery),
    replies: { 200: listOf(ProductVersion) },
    run: async ({ tx, caller, params, query }) => ({ status: 200, body: await domain.versions(tx, caller, params.id, query) }),
  }),
  read({
    path: "/products/{id}/events",
    scope: ["products:read"],
    says: "The product's domain events, oldest first",
    params: IdParams,
    query: closed(PageQuery),
    replies: { 200: listOf(DomainEvent) },
    run: async ({ tx, caller, params, query }) => ({ status: 200, body: await domain.history(tx, caller, params.id, query) }),
  }),
  write({
    method: "POST",
    path: "/products/{id}/lifecycle/transition",
    scope: ["products:edit"],
    says: "Move a product to the next stage",
    params: IdParams,
    body: Transition,
    takesIfMatch: true,
    example: { stage: "validated", reason: "data complete" },
    replies: { 200: Product },
    sends: ["ETag"],
    refusals: ["ILLEGAL_TRANSITION", "COMPLIANCE_EVALUATION_UNAVAILABLE"],
    audit: "product.transitioned",
    run: async ({ tx, by, params, body, ifMatch }) =>
      reply(await domain.transition(tx, by, params.id, body, ifMatch), 200, { to: body.stage, reason: body.reason ?? null }),
  }),
  write({
    method: "POST",
    path: "/products/{id}/void",
    scope: ["products:edit"],
    says: "Void a product, or one allocated serial of it, for good: it stays as a tombstone",
    params: IdParams,
    body: Void,
    takesIfMatch: true,
    example: { reason: "damaged in the warehouse" },
    replies: { 200: Product },
    sends: ["ETag"],
    refusals: ["ALREADY_VOIDED", "SERIAL_NOT_ALLOCATED"],
    audit: "product.voided",
    run: async ({ tx, by, params, body, ifMatch, deps }) => {
      const { reason, serial = null } = body;
      return reply(await voidIt(tx, by, params.id, body, deps.origin(), ifMatch), 200, { reason, serial });
    },
  }),
];
