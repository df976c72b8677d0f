// Claims: a device takes the oldest waiting jobs of the highest priority under a lease, each with an envelope that says what to print and that we said so.
import { randomUUIDv7 } from "node:crypto";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { leasedStates, leaseOf } from "#shared/states.ts";
import { templateDigest } from "#shared/templates.ts";
import { type ClaimBatch, type Claimed, ENVELOPE_TYPE, needNames } from "#shared/wire/jobs.ts";
import type { Signing } from "../keys.ts";
import { asOne, eachBeside, overtaken, run, SKIP_LOCKED, type Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { capabilitiesOf, seen } from "./devices.ts";
import { instant } from "./instant.ts";
import { cancelVoided } from "./job-ends.ts";
import * as jobs from "./jobs.ts";
import type * as products from "./products.ts";

const UUID_LENGTH = 36;
/** The kinds of jobs that who offers this can do: all their needs have to be met. */
const doableOf = (offered: number): number[] =>
  Array.from({ length: 1 << needNames.length }, (_, mask) => mask).filter((mask) => mask > 0 && (mask & ~offered) === 0);

// Places that SQLite can't look into: the statement would be compiled anew for every value (see `unseen`), which takes three times as long as it runs.
const TEXT = "(? || '')";
const NUMBER = "CAST(? AS BIGINT)";

/** How late a look may be due for a claim to see its job: of those that are due no more are gone through than fill any claim. After an outage it would be the leases of the whole floor. */
const FIRST_DUE = `COALESCE((SELECT look_at FROM print_jobs WHERE look_at <= ${NUMBER} ORDER BY look_at LIMIT 1 OFFSET ${limits.CLAIMS_MAX_ITEMS - 1}), ${NUMBER})`;

/** The states in which the end of a lease frees the job. */
const FREED = leasedStates
  .filter((state) => leaseOf(state) === "reclaimable")
  .map((state) => `'${state}'`)
  .join(", ");

const ofProduct = (column: string) =>
  `(SELECT ${column} FROM products WHERE products.tenant_id = print_jobs.tenant_id AND products.id = print_jobs.product_id)`;

/**
 * Each kind of job that the device can do (its station's or any, of needs that it offers) is a range of the pool's index that is read from its front, so
 * that a million jobs for others cost nothing. Jobs whose leases have just run out are looked for beside them, until the reaper has put them into the pool.
 */
function rangesOf(offered: number, withStation: boolean, end: string): string {
  const doable = doableOf(offered);
  const stations = withStation ? [TEXT, "''"] : ["''"];
  const first = (where: string) =>
    `SELECT tenant_id, job_ref, priority FROM print_jobs WHERE ${where} ORDER BY priority DESC, job_ref LIMIT ${NUMBER} ${end}`;
  const waiting = stations.flatMap((station) =>
    doable.map((mask) => first(`tenant_id = ${TEXT} AND pool = 1 AND station = ${station} AND needs = ${mask}`)),
  );
  const lost = first(
    // Spelled so that the index of what is to be looked at is taken, and no engine thinks of another: not the tenant's whole history, nor all that is in these states.
    `tenant_id || '' = ${TEXT} AND pool = 0 AND look_at <= ${FIRST_DUE} AND lease_expires_at <= ${NUMBER} AND state || '' IN (${FREED}) AND attempt < max_attempts AND station IN (${stations.join(", ")}) AND needs IN (${doable.join(", ")})`,
  );
  return [...waiting, lost].map((range, i) => `SELECT * FROM (${range}) AS range${i}`).join(" UNION ALL ");
}
const placesIn = ({ tenantId, offered, station }: Wanted, now: number, most: number): unknown[] => {
  const at = station === undefined ? [] : [station];
  const kinds = doableOf(offered);
  const waiting = [...at.flatMap(() => kinds.map(() => [tenantId, ...at, most])), ...kinds.map(() => [tenantId, most])];
  return [...waiting.flat(), tenantId, now, now, now, ...at, most];
};

/** Takes jobs in one statement. The fresh attempt ids come in as one text, a place each. */
export const claimSql = (offered: number, withStation: boolean): string => `UPDATE print_jobs
    SET state = 'CLAIMED', from_state = state, reached = 1, revision = revision + 1, pool = 0, due_at = NULL, look_at = ?, attempt_id = substr(?, picked.place, ${UUID_LENGTH}),
      attempt = attempt + 1, device_id = ?, lease_seconds = ?, lease_expires_at = ?, envelope_expires_at = ?, simulated = 0, reason = NULL, updated_at = ?
    FROM (
      SELECT tenant_id, job_ref, CAST(1 + ${UUID_LENGTH} * (row_number() OVER (ORDER BY priority DESC, job_ref) - 1) AS INTEGER) AS place
      FROM (${rangesOf(offered, withStation, SKIP_LOCKED)}) AS found ORDER BY priority DESC, job_ref LIMIT ${NUMBER}
    ) AS picked
    WHERE print_jobs.tenant_id = picked.tenant_id AND print_jobs.job_ref = picked.job_ref
    RETURNING ${jobs.COLUMNS}, ${ofProduct("name")}, ${ofProduct("voided_at")}`;
const lookSql = (offered: number, withStation: boolean): string => `SELECT 1 FROM (${rangesOf(offered, withStation, "")}) AS found LIMIT 1`;

const made = new Map<string, string>();
function statementOf(make: typeof claimSql, { offered, station }: Wanted): string {
  const key = `${make.name} ${offered} ${station !== undefined}`;
  const text = made.get(key) ?? make(offered, station !== undefined);
  made.set(key, text);
  return text;
}

type Wanted = { tenantId: string; offered: number; station: string | undefined };
type Taken = { row: jobs.Row; product: Pick<products.Row, "name" | "voidedAt"> };

/** Asked once for many waiting stations, so it locks nothing: the jobs are for others to claim. */
const isAnyThere = async ({ now }: Tx, wanted: Wanted): Promise<boolean> =>
  (await run(statementOf(lookSql, wanted), placesIn(wanted, now, 1), "all")).rows.length > 0;

type Taker = { deviceId: string; most: number; leaseSeconds: number };
/** Soonest first. */
async function take({ now }: Tx, wanted: Wanted, { deviceId, most, leaseSeconds }: Taker): Promise<Taken[]> {
  const until = now + leaseSeconds * 1000;
  const attempts = Array.from({ length: most }, () => randomUUIDv7() as string);
  const values = [until, attempts.join(""), deviceId, leaseSeconds, until, now + limits.ENVELOPE_LIFE_S * 1000, now];
  const { rows } = await run(statementOf(claimSql, wanted), [...values, ...placesIn(wanted, now, most), most], "all");
  const taken = new Map((rows as unknown[][]).map(takenOf).map((each) => [each.row.attemptId, each]));
  return attempts.flatMap((attemptId) => taken.get(attemptId) ?? []);
}
function takenOf(values: unknown[]): Taken {
  const [name, voidedAt] = values.slice(-2) as [string, number | null];
  return { row: jobs.rowOf(values), product: { name, voidedAt } };
}

/** The row's part of the statement: what a station has to know to print it, in our name. */
function envelopeOf(row: jobs.Row, productName: string, { keys, origin }: Signing, now: number): string {
  return keys.sign(ENVELOPE_TYPE, {
    iss: origin(),
    aud: row.deviceId,
    jti: row.attemptId,
    iat: Math.floor(now / 1000),
    exp: Math.floor((row.envelopeExpiresAt ?? 0) / 1000),
    tenant: row.tenantId,
    job_ref: row.jobRef,
    attempt: row.attempt,
    gtin: row.gtin,
    serial: row.serial,
    digital_link: row.digitalLink,
    sgtin96_epc: row.sgtin96Epc,
    needs: jobs.toWire(row).needs,
    template: row.template,
    template_sha256: templateDigest(row.template),
    duplicate_risk: row.duplicateRisk,
    product_name: productName,
    reprint: row.reprint,
  });
}

export function deviceOf({ deviceId }: Caller): string {
  if (deviceId === null) throw new Refusal("DEVICE_KEY_REQUIRED");
  return deviceId;
}

export async function claim(tx: Tx, caller: Caller, wanted: ClaimBatch, signing: Signing): Promise<Claimed[]> {
  const deviceId = deviceOf(caller);
  seen(tx, caller.tenantId, deviceId);
  const {
    needs = await capabilitiesOf(tx, caller.tenantId, deviceId),
    station,
    max = 1,
    lease_seconds: leaseSeconds = limits.LEASE_DEFAULT_S,
  } = wanted;
  const like: Wanted = { tenantId: caller.tenantId, offered: jobs.maskOf(needs), station };
  const claimed: Claimed[] = [];
  for (let round = 0, ended = true; ended && claimed.length < max && round < limits.CLAIMS_MAX_ITEMS; round += 1) {
    const isThere = asOne(`claim ${JSON.stringify(like)}`, () => isAnyThere(tx, like));
    if ((await isThere) === false) break;
    const taken = await take(tx, like, { deviceId, most: max - claimed.length, leaseSeconds });
    const granted = await grant(tx, caller.tenantId, deviceId, taken, signing);
    claimed.push(...granted);
    ended = granted.length < taken.length; // in the place of those that had to end, others may wait
  }
  return claimed;
}

async function grant(tx: Tx, tenantId: string, deviceId: string, taken: Taken[], signing: Signing): Promise<Claimed[]> {
  const granted = await eachBeside(taken, async ({ row, product }): Promise<Claimed[]> => {
    await jobs.record(tx, row, { actor: { kind: "device", id: deviceId } });
    if (product.voidedAt !== null) {
      await cancelVoided(tx, { tenantId, actor: { id: null } }, row.jobRef, "PRODUCT_VOIDED"); // one that the void didn't reach
      return [];
    }
    const lease = jobs.leaseShown(row);
    if (!lease || row.attemptId === null) throw overtaken(`print job ${row.jobRef}`);
    return [{ job: jobs.toWire(row), attempt_id: row.attemptId, lease, envelope: envelopeOf(row, product.name, signing, tx.now) }];
  });
  return granted.flat();
}

export const stale = ({ attemptId, state }: jobs.Row, message?: string): Refusal =>
  new Refusal("STALE_ATTEMPT", message ?? `the job is ${state} and its attempt is another: what this one printed is an orphan`, {
    attempt_id: attemptId,
    state,
  });

/** A lease that begins anew. The reaper still looks when the earlier one would have ended, and sees then: so the renewal at each report moves nothing in the index of looks. */
export const renewed = ({ lookAt }: jobs.Row, leaseSeconds: number, now: number) => {
  const leaseExpiresAt = now + leaseSeconds * 1000;
  return { leaseSeconds, leaseExpiresAt, pool: false, lookAt: Math.min(lookAt ?? leaseExpiresAt, leaseExpiresAt) };
};

/** Refuses who doesn't hold the job: another attempt, another device, a job that went on without them. */
export function refuseForeign(row: jobs.Row, { deviceId }: Caller, attemptId: string): void {
  if (row.attemptId !== attemptId) throw stale(row);
  if (deviceId !== null && row.deviceId !== deviceId) throw stale(row, "the attempt is another device's");
}
export function refuseExpired(row: jobs.Row, now: number): void {
  if (row.envelopeExpiresAt !== null && row.envelopeExpiresAt <= now)
    throw new Refusal("ENVELOPE_EXPIRED", `the envelope of this attempt ended at ${instant(row.envelopeExpiresAt)}`);
}

export async function heartbeat(tx: Tx, caller: Caller, ref: string, beat: { attempt_id: string; lease_seconds?: number }) {
  const row = await jobs.find(tx, caller.tenantId, ref);
  refuseForeign(row, caller, beat.attempt_id);
  if (leaseOf(row.state) === null) throw stale(row, `the job is ${row.state}: there is no lease to extend`);
  refuseExpired(row, tx.now);
  if (caller.deviceId !== null) seen(tx, caller.tenantId, caller.deviceId);
  const leaseSeconds = beat.lease_seconds ?? row.leaseSeconds ?? limits.LEASE_DEFAULT_S;
  const lease = jobs.leaseShown(await jobs.change(tx, row, renewed(row, leaseSeconds, tx.now)));
  if (!lease) throw new Error(`the renewed lease of ${ref} isn't there`);
  return { lease };
}
