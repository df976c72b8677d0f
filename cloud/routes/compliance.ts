// Compliance over HTTP: which law concerns a product, how it was judged by it, and the same on paper.
import { closed, IdParams, listOf, PageQuery } from "#shared/wire/common.ts";
import {
  Evaluation,
  EvaluationBatch,
  EvaluationBatchResult,
  EvaluationSummaries,
  PackEntry,
  RegulationSelect,
  RegulationSelection,
  SectorParams,
} from "#shared/wire/compliance.ts";
import * as domain from "../domain/compliance.ts";
import { instant } from "../domain/instant.ts";
import * as regulations from "../domain/regulations.ts";
import { type Route, routesUnder } from "../route.ts";
import { REPORT_CSP, reportOf } from "../web/compliance-report.ts";

const { read, serve } = routesUnder("compliance");
const ofSector = {
  scope: ["products:read"] as const,
  params: SectorParams,
  refusals: ["COMPLIANCE_EVALUATION_UNAVAILABLE"] as const,
};

export const compliance: Route[] = [
  read({
    path: "/compliance/packs",
    scope: ["products:read"],
    says: "Every regulation pack and version, with its state now and its digest",
    query: closed(PageQuery),
    replies: { 200: listOf(PackEntry) },
    run: async ({ tx, query, deps }) => ({ status: 200, body: regulations.list(deps.packs, tx.now, query) }),
  }),
  read({
    method: "POST",
    path: "/compliance/regulations/select",
    scope: ["products:read"],
    says: "The regulation packs that concern a category in a region, at a stage of its life and an instant",
    body: RegulationSelect,
    example: {
      context: {
        region: "EU",
        productCategory: "electronics",
        lifecycleStage: "placing_on_market",
        effectiveDate: "2026-11-01T00:00:00.000Z",
      },
      minimumPriorityLevel: "high",
    },
    replies: { 200: RegulationSelection },
    run: async ({ tx, body, deps }) => ({ status: 200, body: { ...regulations.select(deps.packs, body), evaluatedAt: instant(tx.now) } }),
  }),
  serve({
    method: "POST",
    path: "/compliance/evaluations",
    scope: ["products:read"],
    says: "Evaluate up to 1,000 products, in all sectors or some; each by itself",
    body: EvaluationBatch,
    example: { sectors: ["espr", "rohs"], productIds: ["019a0000-0000-7000-8000-000000000000"] },
    replies: { 200: EvaluationBatchResult },
    run: async ({ by, body, deps }) => ({ status: 200, body: await domain.evaluateBatch(deps, by, body) }),
  }),
  serve({
    ...ofSector,
    path: "/products/{id}/compliance",
    params: IdParams,
    says: "How the product stands in each sector",
    replies: { 200: EvaluationSummaries },
    run: async ({ by, params, deps }) => ({ status: 200, body: { data: await domain.overview(deps, by, params.id) } }),
  }),
  serve({
    ...ofSector,
    path: "/products/{id}/compliance/{sector}/full",
    says: "The product's evaluation in one sector: every rule with its outcome, what it looked at and what would satisfy it",
    replies: { 200: Evaluation },
    run: async ({ by, params, deps }) => ({ status: 200, body: await domain.evaluate(deps, by, params.id, params.sector) }),
  }),
  serve({
    ...ofSector,
    path: "/products/{id}/compliance/{sector}/report",
    says: "The same evaluation as a page to print",
    replies: { 200: "text/html" },
    run: async ({ by, params, deps }) => ({
      status: 200,
      body: reportOf(JSON.parse(await domain.evaluate(deps, by, params.id, params.sector)) as Evaluation),
      headers: { "content-type": "text/html; charset=utf-8", "content-security-policy": REPORT_CSP, "cache-control": "no-store" },
    }),
  }),
];
