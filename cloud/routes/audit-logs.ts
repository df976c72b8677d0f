// The audit log over HTTP: read it, and let it be recomputed.
import { listOf } from "#shared/wire/common.ts";
import { AuditQuery, AuditRow, AuditVerdict } from "#shared/wire/audit.ts";
import * as audit from "../domain/audit.ts";
import { judgeChain } from "../domain/audit-check.ts";
import { read, type Route, serve } from "../route.ts";

export const auditLogs: Route[] = [
  read({
    method: "GET",
    path: "/audit-logs",
    scope: ["*:*"],
    says: "Security-relevant actions of the tenant, newest first",
    tag: "audit",
    query: AuditQuery,
    replies: { 200: listOf(AuditRow) },
    run: async ({ tx, caller, query }) => ({ status: 200, body: await audit.list(tx, caller, query) }),
  }),
  serve({
    method: "GET",
    path: "/audit-logs/verify",
    scope: ["*:*"],
    says: "Recompute the tenant's chain and name the first row that doesn't hold",
    tag: "audit",
    replies: { 200: AuditVerdict },
    run: async ({ caller, deps }) => ({ status: 200, body: await judgeChain(deps.store, caller.tenantId) }),
  }),
];
