// Print jobs over HTTP: issued and cancelled by whoever may, claimed and reported by stations, read by those who want to know.
import { API } from "#shared/api.ts";
import { limits } from "#shared/limits.ts";
import { closed, listOf, WholeQuery } from "#shared/wire/common.ts";
import { Summary } from "#shared/wire/console.ts";
import {
  BlobKept,
  BlobParams,
  Claim,
  ClaimBatch,
  Claimed,
  ClaimedMany,
  EvidenceBundle,
  EvidenceQuery,
  Heartbeat,
  Job,
  JobBatch,
  JobCancel,
  JobCreate,
  JobHistory,
  JobQuery,
  JobsMade,
  LeaseTaken,
  Orphan,
  OrphanQuery,
  OrphanReport,
  RefParams,
  Result,
  ResultBatch,
  ResultOutcomes,
} from "#shared/wire/jobs.ts";
import * as blobs from "../domain/blobs.ts";
import * as evidence from "../domain/evidence.ts";
import * as claims from "../domain/job-claims.ts";
import { issue, issueBatch } from "../domain/job-issue.ts";
import { list } from "../domain/job-list.ts";
import * as results from "../domain/job-results.ts";
import { cancel } from "../domain/job-ends.ts";
import * as domain from "../domain/jobs.ts";
import * as orphans from "../domain/orphans.ts";
import { gtinFaults } from "../domain/product-rules.ts";
import { summary } from "../domain/summary.ts";
import { type Route, routesUnder } from "../route.ts";
import { Readable } from "node:stream";

const { read, serve, write } = routesUnder("print jobs");
const NONE = "019a0000-0000-7000-8000-000000000000";
const wanted = { gtin: "4006381333931", serial: "1", needs: ["qr"], priority: 5 };
const failed = { status: "FAILED", attempt_id: NONE, reason: "ribbon out", actor: { kind: "operator", id: "op-7" } };
const JOINT_CLAIM_MAX_ITEMS = 8; // as a station of one or two printers asks for; many that ask for more would keep the others' reports waiting
const PICTURES = ["image/png", "image/jpeg", "application/octet-stream"] as const;

export const jobs: Route[] = [
  write({
    method: "POST",
    path: "/aidc/jobs",
    isJoint: true,
    scope: ["aidc:write"],
    says: "Issue a print job for an allocated serial whose passport is readyToPrint",
    body: JobCreate,
    judge: ({ gtin }) => gtinFaults(gtin),
    example: wanted,
    replies: { 201: Job },
    sends: ["Location"],
    refusals: ["SERIAL_NOT_ALLOCATED", "SERIAL_VOIDED", "PASSPORT_NOT_READY", "EPC_UNAVAILABLE", "JOB_EXISTS"],
    audit: "print.issued",
    run: async ({ tx, by, body, deps }) => {
      const job = await issue(tx, by, body, deps.origin());
      const headers = { location: `${API}/aidc/jobs/${job.job_ref}` };
      return {
        status: 201,
        body: job,
        headers,
        about: { subject: job.job_ref, details: { gtin: job.gtin, serial: job.serial, reprint: job.reprint } },
      };
    },
  }),
  write({
    method: "POST",
    path: "/aidc/jobs/batch",
    scope: ["aidc:write"],
    says: "Issue up to 1,000 print jobs; each is judged by itself and the good ones stand",
    body: JobBatch,
    judgesItems: true,
    bodyMaxBytes: 2 * limits.BODY_MAX_BYTES,
    example: { items: [wanted] },
    replies: { 200: JobsMade },
    audit: "print.issued",
    run: async ({ tx, by, body, deps }) => {
      const made = await issueBatch(tx, by, body.items, deps.origin());
      return { status: 200, body: made, about: { subject: null, details: { created: made.created, failed: made.failed } } };
    },
  }),
  serve({
    path: "/aidc/jobs",
    scope: ["aidc:read"],
    says: "The tenant's print jobs, newest first",
    query: JobQuery,
    judge: ({ gtin }) => gtinFaults(gtin),
    replies: { 200: listOf(Job) },
    run: async ({ caller, query, deps }) => ({ status: 200, body: await list(deps.store, caller, query) }),
  }),
  write({
    method: "POST",
    path: "/aidc/jobs/claim",
    isJoint: true,
    scope: ["aidc:write"],
    onlyDevices: true,
    says: "Claim the oldest waiting job of the highest priority, with a device's key; 204 when none waits",
    body: Claim,
    example: { needs: ["qr"], lease_seconds: 60 },
    replies: { 200: Claimed, 204: "Nothing waits" },
    audit: "print.claimed",
    run: async ({ tx, caller, body, deps }) => {
      const [claimed] = await claims.claim(tx, caller, body, deps);
      if (!claimed) return { status: 204, isIdle: true };
      return { status: 200, body: claimed, about: { subject: claimed.job.job_ref, details: { attempt_id: claimed.attempt_id } } };
    },
  }),
  write({
    method: "POST",
    path: "/aidc/jobs/claim/batch",
    isJoint: true,
    runsAlone: ({ max = 1 }) => max > JOINT_CLAIM_MAX_ITEMS,
    scope: ["aidc:write"],
    onlyDevices: true,
    says: "Claim up to 200 jobs at once, with a device's key",
    body: ClaimBatch,
    example: { max: 4, station: "line-1" },
    replies: { 200: ClaimedMany },
    audit: "print.claimed",
    run: async ({ tx, caller, body, deps }) => {
      const claimed = await claims.claim(tx, caller, body, deps);
      const details = { jobs: claimed.map(({ job }) => job.job_ref) };
      return { status: 200, body: { claims: claimed }, isIdle: claimed.length === 0, about: { subject: null, details } };
    },
  }),
  read({
    path: "/aidc/summary",
    scope: ["aidc:read"],
    says: "The floor in figures: jobs by state, labels an hour, what waits where, how many devices are heard of",
    replies: { 200: Summary },
    run: async ({ tx, caller }) => ({ status: 200, body: await summary(tx, caller) }),
  }),
  read({
    path: "/aidc/jobs/{ref}",
    scope: ["aidc:read"],
    says: "One print job",
    params: RefParams,
    replies: { 200: Job },
    run: async ({ tx, caller, params }) => ({ status: 200, body: await domain.get(tx, caller, params.ref) }),
  }),
  read({
    path: "/aidc/jobs/{ref}/history",
    scope: ["aidc:read"],
    says: "Every transition of a job: when, from what to what, on whose word",
    params: RefParams,
    query: closed(WholeQuery),
    replies: { 200: JobHistory },
    run: async ({ tx, caller, params, query }) => ({ status: 200, body: await domain.history(tx, caller, params.ref, query) }),
  }),
  read({
    path: "/aidc/jobs/{ref}/evidence",
    scope: ["aidc:read"],
    says: "An attempt's evidence as it was reported, its digest, and once sealed its place in the log; the latest attempt's where none is named",
    params: RefParams,
    query: EvidenceQuery,
    replies: { 200: EvidenceBundle },
    run: async ({ tx, caller, params, query, deps }) => ({ status: 200, body: await evidence.get(tx, caller, params.ref, query, deps) }),
  }),
  write({
    method: "POST",
    path: "/aidc/jobs/{ref}/cancel",
    scope: ["aidc:write"],
    says: "Cancel a job before physical work, or after its attempt failed",
    params: RefParams,
    body: JobCancel,
    example: { reason: "ordered twice" },
    replies: { 200: Job },
    refusals: ["ILLEGAL_TRANSITION"],
    audit: "print.cancelled",
    run: async ({ tx, by, params, body }) => {
      const job = await cancel(tx, by, params.ref, body.reason);
      return { status: 200, body: job, about: { subject: job.job_ref, details: { reason: job.reason } } };
    },
  }),
  write({
    method: "POST",
    path: "/aidc/jobs/{ref}/heartbeat",
    isJoint: true,
    scope: ["aidc:write"],
    says: "Extend the lease of the job's latest attempt",
    params: RefParams,
    body: Heartbeat,
    example: { attempt_id: NONE, lease_seconds: 60 },
    replies: { 200: LeaseTaken },
    refusals: ["STALE_ATTEMPT", "ENVELOPE_EXPIRED"],
    audit: "print.claimed",
    run: async ({ tx, caller, params, body }) => ({ status: 200, body: await claims.heartbeat(tx, caller, params.ref, body), quiet: true }),
  }),
  write({
    method: "POST",
    path: "/aidc/jobs/{ref}/result",
    isJoint: true,
    scope: ["aidc:write"],
    says: "Report the next state of an attempt with its evidence; a state already reached is taken without effect",
    params: RefParams,
    body: Result,
    example: failed,
    replies: { 200: Job },
    refusals: [
      "STALE_ATTEMPT",
      "ENVELOPE_EXPIRED",
      "ILLEGAL_TRANSITION",
      "DEVICE_KEY_REQUIRED",
      "EVIDENCE_REQUIRED",
      "EVIDENCE_INVALID",
      "SCAN_MISMATCH",
      "BUNDLE_MISMATCH",
      "SIMULATED_EVIDENCE",
    ],
    audit: "print.reported",
    run: async ({ tx, caller, by, params, body }) => {
      const { row, moved } = await results.report(tx, by, caller, params.ref, body);
      const details = { status: body.status, attempt_id: body.attempt_id };
      return { status: 200, body: domain.toWire(row), quiet: !moved, about: { subject: row.jobRef, details } };
    },
  }),
  write({
    method: "POST",
    path: "/aidc/results",
    scope: ["aidc:write"],
    says: "Up to 500 results in order, as a station sends them after an outage; each has its own outcome",
    body: ResultBatch,
    judgesItems: true,
    bodyMaxBytes: limits.RESULTS_BODY_MAX_BYTES,
    example: { results: [{ job_ref: "pj_01K9A0B1C2D3E4F5G6H7J8K9MN", ...failed }] },
    replies: { 200: ResultOutcomes },
    audit: "print.results_reported",
    run: async ({ tx, caller, by, body }) => {
      const outcomes = await results.reportMany(tx, by, caller, body.results);
      const taken = outcomes.filter(({ status }) => status === 200).length;
      return { status: 200, body: { results: outcomes }, about: { subject: null, details: { taken, refused: outcomes.length - taken } } };
    },
  }),
  write({
    method: "POST",
    path: "/aidc/orphans",
    scope: ["aidc:write"],
    says: "Report a label whose job went on without it, found or destroyed",
    body: OrphanReport,
    example: {
      job_ref: "pj_01K9A0B1C2D3E4F5G6H7J8K9MN",
      attempt_id: NONE,
      evidence: { note: "came out after the lease was lost" },
      disposition: "found",
      actor: { kind: "operator", id: "op-7" },
    },
    replies: { 201: Orphan },
    refusals: ["NOT_FOUND", "DEVICE_KEY_REQUIRED", "EVIDENCE_INVALID"],
    audit: "print.orphan_reported",
    run: async ({ tx, caller, body }) => {
      const orphan = await orphans.report(tx, caller, body);
      return {
        status: 201,
        body: orphan,
        about: { subject: orphan.job_ref, details: { disposition: orphan.disposition, attempt_id: orphan.attempt_id } },
      };
    },
  }),
  read({
    path: "/aidc/orphans",
    scope: ["aidc:read"],
    says: "Labels that are to be destroyed, newest first",
    query: OrphanQuery,
    replies: { 200: listOf(Orphan) },
    run: async ({ tx, caller, query }) => ({ status: 200, body: await orphans.list(tx, caller, query) }),
  }),
  write({
    method: "PUT",
    path: "/aidc/evidence/{sha256}",
    scope: ["aidc:write"],
    says: "Keep a picture under its own digest",
    params: BlobParams,
    takesBytes: PICTURES,
    bodyMaxBytes: limits.BLOB_MAX_BYTES,
    replies: { 201: BlobKept, 200: BlobKept },
    refusals: ["EVIDENCE_INVALID"],
    audit: "print.picture_kept",
    run: async ({ tx, caller, params, bytes, mediaType }) => {
      const isNew = await blobs.keep(tx, caller, params.sha256, mediaType, bytes);
      const body = { sha256: params.sha256, bytes: bytes.length };
      return { status: isNew ? 201 : 200, body, quiet: !isNew, about: { subject: params.sha256, details: { bytes: bytes.length } } };
    },
  }),
  serve({
    path: "/aidc/evidence/{sha256}",
    scope: ["aidc:read"],
    says: "A picture that evidence refers to",
    params: BlobParams,
    replies: { 200: PICTURES },
    run: async ({ caller, params, deps }) => {
      const { bytes, mediaType } = await deps.store.read("picture", (tx) => blobs.get(tx, caller, params.sha256));
      const headers = {
        "content-type": mediaType,
        "content-length": String(bytes.length),
        "cache-control": "private, immutable, max-age=31536000",
      };
      return { status: 200, body: Readable.from([bytes]), headers };
    },
  }),
];
