// The audit log over HTTP: read it, and let it be recomputed.
import { listOf } from "#shared/wire/common.ts";
import { AuditQuery, AuditRow, AuditVerdict } from "#shared/wire/audit.ts";
import * as audit from "../domain/audit.ts";
import { judgeChain } from "../domain/audit-check.ts";
import { type Route, routesUnder } from "../route.ts";

const { read, serve } = routesUnder("audit");

export const auditLogs: Route[] = [
  read({
    path: "/audit-logs",
    scope: ["*:*"],
    says: "Security-relevant actions of the tenant, newest first",
    query: AuditQuery,
    replies: { 200: listOf(AuditRow) },
    run: async ({ tx, caller, query }) => ({ status: 200, body: await audit.list(tx, caller, query) }),
  }),
  serve({
    path: "/audit-logs/verify",
    scope: ["*:*"],
    says: "Recompute the tenant's chain and name the first row that doesn't hold",
    replies: { 200: AuditVerdict },
    run: async ({ caller, deps }) => ({ status: 200, body: await judgeChain(deps.store, caller.tenantId) }),
  }),
];
