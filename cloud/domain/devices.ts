// Devices: the identities of stations. A device's key is bound to it, and dies with it.
import { and, between, eq, gte, inArray, isNull, lte, or, sql } from "../store/drizzle.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { holds } from "#shared/scopes.ts";
import { topicsOf } from "#shared/mqtt.ts";
import { leasedStates } from "#shared/states.ts";
import type { Device, DeviceCreate, DevicePatch, Station, StationReport } from "#shared/wire/devices.ts";
import type { Need } from "#shared/wire/jobs.ts";
import { prepared } from "../store/prepared.ts";
import { devices, printJobs, tenants } from "../store/schema.ts";
import { db, type Finale, overtaken, together, type Tx } from "../store/store.ts";
import * as apiKeys from "./api-keys.ts";
import { byId, type Caller, hasEnded } from "./callers.ts";
import { found } from "./found.ts";
import { newIdIn } from "./ids.ts";
import { instant } from "./instant.ts";
import { ANY_STATION, maskOf } from "./jobs.ts";
import { newestOf, type PageQuery } from "./page.ts";
import type { Waiting } from "./wakes.ts";
import { ranks } from "./ranks.ts";

export type Row = typeof devices.$inferSelect;
const KEY_SCOPES = ["aidc:read", "aidc:write"];
const SEEN_EVERY_MS = 10_000; // how exactly it is known when a device was last heard of
const POLL_INTERVAL_MS = 2_000;
const CHANGES_MAX_ROWS = 2_000; // of one look, which comes every second
const LITTLE_BYTES = 2_048; // what most stations say of themselves; where a look would read more than CHANGES_MAX_ROWS of it, it leaves out those that say more

/** Its own report counts for as long as it is heard from; one that was heard from after a report that it is offline is online. */
function statusOf({ report: { status = "online", statusAt = 0 }, lastSeenAt }: Row, now: number): Device["status"] {
  // One that was heard of in the future wasn't since the clock was set back.
  if (lastSeenAt === null || Math.abs(now - lastSeenAt) > limits.DEVICE_SILENCE_MAX_MS) return "offline";
  return status === "offline" && lastSeenAt > statusAt ? "online" : status;
}

const toWire = (row: Row, now: number): Device => ({
  id: row.id,
  name: row.name,
  station: row.station,
  capabilities: row.capabilities,
  api_key_id: row.apiKeyId,
  status: statusOf(row, now),
  printers: row.report.printers ?? [],
  buffer_depth: row.report.buffer_depth ?? null,
  version: row.report.version ?? null,
  last_seen: instant(row.lastSeenAt),
  created_at: instant(row.createdAt),
  updated_at: instant(row.updatedAt),
});

const isMine = (tenantId: string, id: string) => and(eq(devices.tenantId, tenantId), eq(devices.id, id), isNull(devices.deletedAt));

const find = async (tx: Tx, tenantId: string, id: string): Promise<Row> =>
  found("device", await tx.db.select().from(devices).where(isMine(tenantId, id)).get());

export async function create(tx: Tx, caller: Caller, input: DeviceCreate): Promise<{ device: Device; key?: apiKeys.Minted }> {
  const { name, station = null, capabilities = ["qr"], api_key_id: keyId } = input;
  const id = newIdIn(tx);
  const bound = keyId === undefined ? undefined : await apiKeys.bind(tx, caller, keyId, id);
  const key = bound ? undefined : await apiKeys.insert(tx, caller.tenantId, { name: `device ${name}`, scopes: KEY_SCOPES, deviceId: id });
  const row: Row = {
    tenantId: caller.tenantId,
    id,
    name,
    station,
    capabilities,
    apiKeyId: bound?.id ?? (key as apiKeys.Minted).id,
    report: {},
    lastSeenAt: null,
    deletedAt: null,
    createdAt: tx.now,
    updatedAt: tx.now,
  };
  await tx.db.insert(devices).values(row);
  return { device: toWire(row, tx.now), ...(key ? { key } : {}) };
}

export const get = async (tx: Tx, caller: Caller, id: string): Promise<Device> => toWire(await find(tx, caller.tenantId, id), tx.now);

export const list = (tx: Tx, caller: Caller, query: PageQuery) =>
  newestOf(tx, query, {
    table: devices,
    where: and(eq(devices.tenantId, caller.tenantId), isNull(devices.deletedAt)),
    toWire: (row) => toWire(row, tx.now),
    bytes: reportBytes,
  });

const reportBytes = sql<number>`octet_length(${devices.report})`; // known without reading it
/** Those of which something was heard since, changed, fell silent or were removed; `isCut`: there are more of them, whichever. */
export async function changedSince(
  tx: Tx,
  tenantId: string,
  { heard, changed }: { heard: number; changed: number },
): Promise<{ devices: Device[]; removed: string[]; isCut: boolean }> {
  const silentNow = tx.now - limits.DEVICE_SILENCE_MAX_MS;
  const silentThen = heard - limits.DEVICE_SILENCE_MAX_MS;
  const isChanged = and(
    eq(devices.tenantId, tenantId),
    or(gte(devices.lastSeenAt, heard), gte(devices.updatedAt, changed), between(devices.lastSeenAt, silentThen, silentNow)),
  );
  const all = await tx.db
    .select({ bytes: sql<number>`coalesce(sum(${reportBytes}), 0)` })
    .from(devices)
    .where(isChanged)
    .get();
  const isLong = Number(all?.bytes) > CHANGES_MAX_ROWS * LITTLE_BYTES;
  const rows = await tx.db
    .select()
    .from(devices)
    .where(isLong ? and(isChanged, lte(reportBytes, LITTLE_BYTES)) : isChanged)
    .limit(CHANGES_MAX_ROWS + 1);
  return {
    devices: rows.filter(({ deletedAt }) => deletedAt === null).map((row) => toWire(row, tx.now)),
    removed: rows.filter(({ deletedAt }) => deletedAt !== null).map(({ id }) => id),
    isCut: isLong || rows.length > CHANGES_MAX_ROWS,
  };
}

export async function patch(tx: Tx, caller: Caller, id: string, changes: DevicePatch): Promise<Device> {
  await find(tx, caller.tenantId, id);
  await tx.db
    .update(devices)
    .set({ ...changes, updatedAt: tx.now })
    .where(isMine(caller.tenantId, id));
  return get(tx, caller, id);
}

/** Named by what is found in the index of states: by anything else SQLite would look through all jobs that there ever were. */
const leased = (tx: Tx, tenantId: string) =>
  tx.db
    .select({ ref: printJobs.jobRef })
    .from(printJobs)
    .where(and(eq(printJobs.tenantId, tenantId), inArray(printJobs.state, leasedStates)));
/** Its key dies and its leases end now; what may be on paper keeps its grace, for somebody has to look. */
export async function remove(tx: Tx, caller: Caller, id: string): Promise<Row> {
  const [gone] = await tx.db.update(devices).set({ deletedAt: tx.now, updatedAt: tx.now }).where(isMine(caller.tenantId, id)).returning();
  const row = found("device", gone);
  await apiKeys.revokeIfLive(tx, caller, row.apiKeyId);
  await tx.db
    .update(printJobs)
    .set({
      leaseExpiresAt: tx.now,
      dueAt: null,
      lookAt: tx.now,
      revision: sql`${printJobs.revision} + 1`,
    })
    .where(
      and(
        eq(printJobs.tenantId, caller.tenantId),
        inArray(printJobs.jobRef, leased(tx, caller.tenantId)),
        eq(printJobs.deviceId, id),
        inArray(printJobs.state, leasedStates),
        sql`${printJobs.leaseExpiresAt} > ${tx.now}`,
      ),
    );
  return row;
}

const touch = prepared(
  db
    .update(devices)
    .set({ lastSeenAt: sql`${sql.placeholder("now")}` })
    .where(and(eq(devices.tenantId, sql.placeholder("tenantId")), eq(devices.id, sql.placeholder("id")))),
);
const heardAt = new Map<string, number>();
const hearing: Finale<{ tenantId: string; id: string; now: number }> = {
  rank: ranks.devices,
  say: async (heard) => {
    const latest = new Map(heard.map((each) => [each.id, each]));
    const inOrder = [...latest.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
    await together(inOrder.map((each) => touch.run(each)));
  },
};
/** Notes that the device was heard from; stored every few seconds only, as else each label that a line seals would write its device's row. */
export function seen(tx: Tx, tenantId: string, id: string): void {
  const before = heardAt.get(id);
  if (before !== undefined && tx.now >= before && tx.now - before < SEEN_EVERY_MS) return;
  tx.atEnd(hearing, { tenantId, id, now: tx.now });
  tx.after(() => heardAt.set(id, tx.now));
}

export const capabilitiesOf = async (tx: Tx, tenantId: string, id: string): Promise<Need[]> => (await find(tx, tenantId, id)).capabilities;

/** `isHeard` unless it was said by somebody else, or some time ago; `isKept`: all of it was retained by the broker; `kept`: the digest of what it retains now. */
export type Overheard = { isHeard: boolean; isKept: boolean; kept: string | undefined };
const SAID_NOW = { isHeard: true, kept: undefined };
/** What a station says of itself. */
export async function report(
  tx: Tx,
  tenantId: string,
  id: string,
  said: StationReport,
  { isHeard, kept }: Omit<Overheard, "isKept"> = SAID_NOW,
): Promise<Device> {
  const row = await find(tx, tenantId, id);
  const statusAt = said.status === undefined ? {} : { statusAt: tx.now };
  const isNews = said.status !== undefined && said.status !== row.report.status;
  const changed = {
    report: { ...row.report, ...said, ...statusAt, ...(kept === undefined ? {} : { kept }) },
    ...(isHeard ? { lastSeenAt: tx.now } : {}), // what isn't said stays as it is by now, and not as it was read
    ...(!isHeard && isNews ? { updatedAt: tx.now } : {}), // else nobody who looks for changes would see this one
  };
  if (said.status === "offline") tx.after(() => heardAt.delete(id)); // the next time that it is heard of counts at once
  const isUnchanged = and(isMine(tenantId, id), eq(devices.report, row.report));
  const [written] = await tx.db.update(devices).set(changed).where(isUnchanged).returning();
  if (!written) throw overtaken(`the report of device ${id}`);
  return toWire(written, tx.now);
}

/** What came by a broker, which may go on letting in whom we don't: of a device whose key couldn't say it over HTTP, that it is gone and no more. */
export async function overhear(tx: Tx, tenantId: string, id: string, said: StationReport, how: Overheard): Promise<void> {
  const row = await find(tx, tenantId, id);
  const key = await byId(tx, "api_key", row.apiKeyId);
  const isGood = key !== undefined && !hasEnded(key, tx.now) && holds(key.caller.scopes, "aidc:write");
  if (!isGood && said.status !== "offline") throw new Refusal("UNAUTHORIZED", "the device's key has died, or may not report");
  if (how.isKept && how.kept === row.report.kept) return; // heard before, and perhaps the device has said something else since
  await (isGood
    ? report(tx, tenantId, id, said, how)
    : report(tx, tenantId, id, { status: "offline" }, { isHeard: false, kept: undefined }));
}

/** The devices that could take any of these jobs: of its station, or of a job's that has none, with all that it needs. */
export async function ableTo(tx: Tx, tenantId: string, waiting: readonly Waiting[]): Promise<string[]> {
  const { id, station, capabilities } = devices;
  const isLiving = and(eq(devices.tenantId, tenantId), isNull(devices.deletedAt));
  const rows = await tx.db.select({ id, station, capabilities }).from(devices).where(isLiving);
  const able = (row: (typeof rows)[number]) =>
    waiting.some((job) => (job.station === ANY_STATION || job.station === row.station) && (job.needs & ~maskOf(row.capabilities)) === 0);
  return rows.filter(able).map((row) => row.id);
}

/** What a station has to know of its cloud. */
export async function station(tx: Tx, caller: Caller, id: string, brokerUrl: string | undefined): Promise<Station> {
  const device = await get(tx, caller, id);
  const tenant = await tx.db.select({ sandbox: tenants.sandbox }).from(tenants).where(eq(tenants.id, caller.tenantId)).get();
  return {
    device,
    tenant: { id: caller.tenantId, sandbox: tenant?.sandbox ?? false },
    poll_interval_ms: POLL_INTERVAL_MS,
    mqtt: brokerUrl === undefined ? null : { url: brokerUrl, ...topicsOf({ tenantId: caller.tenantId, deviceId: id }) },
    limits: {
      claims: limits.CLAIMS_MAX_ITEMS,
      results: limits.RESULTS_MAX_ITEMS,
      blob_bytes: limits.BLOB_MAX_BYTES,
      lease_max_seconds: limits.LEASE_MAX_S,
    },
  };
}
