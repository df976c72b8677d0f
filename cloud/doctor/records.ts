// What a node keeps: the database and its schema, the log, the audit chains and the evidence as far as a short look goes, the clock, and what is stuck.
import { join } from "node:path";
import * as audit from "../domain/audit.ts";
import { faultIn, judgeChain } from "../domain/audit-check.ts";
import { backlog, COUNTED_MAX_ROWS } from "../domain/backlog.ts";
import { judgeBundles, lostBundles } from "../domain/bundle-check.ts";
import { recompute } from "../domain/log-check.ts";
import { CLOCK_OFF_MS, clocksApartMs, originsHeard } from "../domain/nodes.ts";
import { judgePassports, keysIn } from "../domain/passport-check.ts";
import { setBackOf } from "../seen-store.ts";
import { integrityFault } from "../store/copy.ts";
import { migrationsIn, newestKnown, SINCE, versionOf } from "../store/migrate.ts";
import { DATABASE, durabilityFaultsOf } from "../store/open.ts";
import { refuseUnfit, settingsLost } from "../store/unfit.ts";
import { bad, type Check, type Finding, odd, well } from "./finding.ts";

const LEAVES = 4_096;
const CHAINS = 20;
const ROWS = 1_000;
const BUNDLES = 200;
const PASSPORTS = 200;
const LATE_MS = 60_000;
export const RESTORE = "stop the cloud and restore the last backup that holds: imprimatur restore";

export const database: Check = async ({ store, config }) => {
  if (!store)
    return bad(`${join(config.DATA_DIR, DATABASE)} doesn't exist, or is empty`, "check IMPRIMATUR_DATA_DIR, or start the cloud once");
  const faults = await durabilityFaultsOf(config.DATABASE_URL);
  if (faults.length > 0) return bad(faults.join("; "), "make it durable: an answered write could be lost");
  if (config.DATABASE_URL !== undefined) await refuseUnfit(store, migrationsIn());
  const [version, newest] = [await versionOf(store), newestKnown()];
  if (version === 0) return bad("it has no tables yet: the first start was cut off", "start the cloud: it makes them");
  if (version > newest) return bad(`migration ${version} ran, and this Imprimatur knows ${newest}`, "use the newer Imprimatur");
  const lost = config.DATABASE_URL === undefined ? undefined : await settingsLost(store);
  if (lost !== undefined) return odd(lost, "then start the nodes again");
  const meanwhile = config.DATABASE_URL === undefined ? "" : "; old nodes go on meanwhile";
  if (version < newest) return odd(`migration ${version} of ${newest} ran`, `the next start runs the others${meanwhile}`);
  return well(`${store.engine} answers, migration ${version} is the latest`);
};

export const integrity: Check = ({ config: { DATABASE_URL, DATA_DIR }, store }) => {
  if (DATABASE_URL !== undefined || !store) return [];
  const fault = integrityFault(join(DATA_DIR, DATABASE), "quick_check");
  return fault ? bad(`the database is damaged: ${fault}`, RESTORE) : well("SQLite's quick_check finds nothing");
};

export const log: Check = async ({ store, config }) => {
  if (!store) return [];
  const setBack = await setBackOf(store, config.DATA_DIR);
  if (setBack) return bad(setBack.says, setBack.todo);
  const { size } = await recompute(store, Number.MAX_SAFE_INTEGER);
  const from = Math.max(0, Math.floor((size - 1) / LEAVES) - 1) * LEAVES;
  const { fault } = await recompute(store, from);
  return fault
    ? bad(`the transparency log doesn't hold: ${fault}`, RESTORE)
    : well(`${size} leaves; recomputed from leaf ${from} on, all hold`);
};

const brokenBy = (faults: (string | undefined)[]): Finding[] => faults.flatMap((fault) => (fault === undefined ? [] : bad(fault, RESTORE)));

export const chains: Check = async ({ store }) => {
  if (!store) return [];
  const ids = await store.read("audit chains", audit.chainIds);
  const faults: (string | undefined)[] = [];
  for (const tenantId of ids.slice(0, CHAINS)) faults.push(faultIn(tenantId, await judgeChain(store, tenantId, ROWS)));
  const broken = brokenBy(faults);
  return broken.length > 0 ? broken : well(`the last ${ROWS} rows of ${Math.min(CHAINS, ids.length)} of ${ids.length} chains hold`);
};

export const evidence: Check = async ({ store }) => {
  if (!store) return [];
  const ids = (await store.read("audit chains", audit.chainIds)).slice(0, CHAINS);
  const keys = await keysIn(store);
  const faults: (string | undefined)[] = [];
  let bundles = 0;
  let passports = 0;
  for (const tenantId of ids) {
    const sealed = await judgeBundles(store, tenantId, BUNDLES);
    const signed = await judgePassports(store, tenantId, keys, PASSPORTS);
    faults.push(sealed.fault, signed.fault);
    bundles += sealed.bundles;
    passports += signed.passports;
  }
  const broken = brokenBy([...faults, await lostBundles(store)]);
  return broken.length > 0
    ? broken
    : well(`the latest of ${ids.length} tenants, ${bundles} sealed bundles and ${passports} passports, are what was sealed and signed`);
};

export const clock: Check = async ({ store, now }) => {
  if (!store) return [];
  const last = await store.read("latest audit rows", async (tx) => {
    const ids = (await audit.chainIds(tx)).slice(0, CHAINS);
    return Math.max(0, ...(await Promise.all(ids.map((tenantId) => audit.latestAt(tx, tenantId)))));
  });
  const before = now();
  const theirs = await store.read("clock", async (tx) => tx.now);
  const apartMs = clocksApartMs(theirs, before, now());
  if (apartMs > CLOCK_OFF_MS) return odd(`this machine's clock and the database's are ${apartMs} ms apart`, "let NTP set both");
  if (last - theirs > CLOCK_OFF_MS)
    return odd(
      `the latest audit row is of ${new Date(last).toISOString()}, which is still to come`,
      "the clock was set back: let NTP set it",
    );
  return well(`${new Date(theirs).toISOString()}, and nothing kept is of the future`);
};

const older = (what: string) =>
  odd(`${what} can't be told: the version before kept it otherwise`, "start the cloud: it brings the tables up to date");

/** What others know this cloud by, as each node was told it. */
export const origins: Check = async ({ store, config: { DATABASE_URL, PUBLIC_URL } }) => {
  if (!store || DATABASE_URL === undefined) return [];
  if ((await versionOf(store)) < SINCE.nodes) return older("whether all nodes name the same public URL");
  const heard = await store.read("nodes", originsHeard);
  const named = new Set([...heard, ...(PUBLIC_URL === undefined ? [] : [PUBLIC_URL])]);
  if (named.size > 1)
    return odd(
      `nodes heard of within the last minute, and these settings, name ${[...named].join(", ")}`,
      "set IMPRIMATUR_PUBLIC_URL the same on all: labels, links and tokens of one aren't another's",
    );
  return well(heard.length === 0 ? "no node has been heard of within the last minute" : `all nodes name ${heard[0]}`);
};

export const webhooks: Check = async ({ store }) => {
  if (!store) return [];
  if ((await versionOf(store)) < SINCE.looks) return older("what waits");
  const found = await store.read("backlog", backlog);
  const many = (count: number) => (count >= COUNTED_MAX_ROWS ? `${count} or more` : `${count}`);
  const says = `${many(found.deliveriesWaiting)} deliveries wait, ${many(found.deliveriesUnwell)} failed or are held, ${found.webhooksDisabled} webhooks are disabled`;
  if (found.dispatchLateMs > LATE_MS)
    return odd(`${says}; the first is ${found.dispatchLateMs} ms late`, "see that a cloud runs, and its log");
  if (found.deliveriesUnwell > 0 || found.webhooksDisabled > 0)
    return odd(says, "mend the receivers, enable the webhooks, send again: POST /webhooks/{id}/deliveries/{deliveryId}/redeliver");
  return well(says);
};

export const leases: Check = async ({ store }) => {
  if (!store) return [];
  if ((await versionOf(store)) < SINCE.looks) return older("whether print jobs wait for the reaper");
  const { reapLateMs } = await store.read("backlog", backlog);
  if (reapLateMs > LATE_MS) return odd(`a print job is due for ${reapLateMs} ms`, "see that a cloud runs: its reaper takes jobs back");
  return well("no print job waits for the reaper");
};
