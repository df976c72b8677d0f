// What a claim is worth is its signature: nothing of a job is believed, kept or printed before the envelope says it, in the cloud's hand, to this device.
import type { JSONWebKeySet } from "jose";
import { type Static, Type } from "typebox";
import { Ajv } from "ajv";
import { gtin14 } from "#shared/gs1.ts";
import { nullable } from "#shared/wire/common.ts";
import { type Claimed, ENVELOPE_TYPE, type Job, needNames } from "#shared/wire/jobs.ts";
import type { Task } from "./attempt.ts";
import { epcFor } from "./rfid.ts";

const SKEW_S = 300; // clocks on a factory floor are set by hand
const Claims = Type.Object({
  jti: Type.String(),
  exp: Type.Integer(),
  job_ref: Type.String(),
  attempt: Type.Integer(),
  gtin: Type.String(),
  serial: Type.String(),
  digital_link: Type.String(),
  sgtin96_epc: nullable(Type.String()),
  needs: Type.Array(Type.Enum([...needNames])),
  template: Type.String(),
  template_sha256: nullable(Type.String()),
  duplicate_risk: Type.Boolean(),
  product_name: Type.Optional(Type.String()),
  reprint: Type.Optional(Type.Boolean()),
});
const fits = new Ajv({ strict: false, meta: false, validateSchema: false }).compile(Claims);

export type Verified = { good: true; task: Task; until: number } | { good: false; why: string; unknownKey: boolean };

/** `keys` as the cloud publishes them; `now` by the station's clock. */
export async function verifyEnvelope(
  { envelope, attempt_id: attemptId, job }: Pick<Claimed, "envelope" | "attempt_id" | "job">,
  { keys, deviceId, now }: { keys: JSONWebKeySet; deviceId: string; now: number },
): Promise<Verified> {
  const { createLocalJWKSet, errors, jwtVerify } = await import("jose"); // 46 files that wait for the first claim
  const bad = (why: string, unknownKey = false): Verified => ({ good: false, why, unknownKey });
  try {
    const { payload } = await jwtVerify(envelope, createLocalJWKSet(keys), {
      algorithms: ["EdDSA"],
      typ: ENVELOPE_TYPE,
      audience: deviceId,
      currentDate: new Date(now),
      clockTolerance: SKEW_S,
      requiredClaims: ["exp", "aud", "jti"],
    });
    if (!fits(payload)) return bad(`its claim ${fits.errors?.[0]?.instancePath.slice(1) || fits.errors?.[0]?.message} isn't as agreed`);
    const claims = payload as unknown as Static<typeof Claims>;
    const other = difference(claims, attemptId, job);
    if (other) return bad(`it says another ${other} than the job around it`);
    const { job_ref, attempt, gtin, serial, digital_link, sgtin96_epc, needs, template, template_sha256, duplicate_risk, exp } = claims;
    const { product_name = null, reprint = false } = claims;
    const named = { job_ref, attempt, gtin: gtin14(gtin), serial, digital_link, sgtin96_epc, product_name };
    const task: Task = { ...named, needs, template, template_sha256, reprint, duplicate_risk };
    if (needs.includes("rfid")) epcFor(task);
    return { good: true, task, until: exp * 1_000 };
  } catch (error) {
    return bad((error as Error).message, error instanceof errors.JWKSNoMatchingKey);
  }
}

function difference(claims: Static<typeof Claims>, attemptId: string, job: Job): string | undefined {
  if (claims.jti !== attemptId) return "attempt_id";
  const names = ["job_ref", "attempt", "gtin", "serial", "digital_link", "sgtin96_epc", "template", "duplicate_risk"] as const;
  return names.find((name) => claims[name] !== job[name]) ?? (claims.needs.join() === job.needs.join() ? undefined : "needs");
}
