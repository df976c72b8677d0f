// An audit row as anybody may recompute it: drop `hash`, write the rest down by RFC 8785, SHA-256 of that is `hash`.
import { Type } from "typebox";
import { auditActionNames, auditClasses } from "../audit.ts";
import { limits } from "../limits.ts";
import { closed, Instant, nullable, PageQuery, type Static } from "./common.ts";

export const AuditRow = closed({
  tenantId: Type.String(),
  seq: Type.Integer({ description: "1, 2, 3 … without a gap" }),
  at: Instant,
  class: Type.String(),
  action: Type.String(),
  actor: closed({ kind: Type.String(), id: nullable(Type.String()), name: Type.String() }),
  subject: nullable(Type.String()),
  details: Type.Record(Type.String(), Type.Unknown()),
  requestId: Type.String({ description: "The X-Correlation-Id of the request that did it" }),
  prevHash: Type.String(),
  hash: Type.String(),
});
export type AuditRow = Static<typeof AuditRow>;

export const AuditQuery = closed({
  ...PageQuery,
  class: Type.Optional(Type.Enum([...auditClasses])),
  action: Type.Optional(Type.Enum([...auditActionNames])),
  requestId: Type.Optional(Type.String({ maxLength: limits.CORRELATION_ID_MAX_LENGTH })),
});
export type AuditQuery = Static<typeof AuditQuery>;

export const AuditVerdict = closed({
  valid: Type.Boolean(),
  rows: Type.Integer({ description: "Rows of the chain that hold, from the first on" }),
  head: closed({ seq: Type.Integer(), hash: Type.String() }),
  firstBroken: nullable(closed({ seq: Type.Integer(), fault: Type.String() })),
});
export type AuditVerdict = Static<typeof AuditVerdict>;
