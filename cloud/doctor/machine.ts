// What stands under a node: settings, its folder and disk, whether a sync is one, the broker, and whether it runs at all.
import { accessSync, closeSync, constants, existsSync, fsyncSync, openSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { codeOf, reasonOf } from "#shared/fault.ts";
import { isLoopback, urlAt } from "#shared/url-at.ts";
import { brokerAt } from "#shared/mqtt.ts";
import { freeBytesUnder } from "../files.ts";
import { keysSetIn } from "../seal.ts";
import { afterCutOff, isClaimed } from "../store/open.ts";
import { bad, type Check, type Finding, odd, well } from "./finding.ts";

export const OTHERS = 0o077;
const FREE_LEAST_BYTES = 268_435_456;
const FREE_FEW_BYTES = 2_147_483_648;
const SYNCS = 20;
const SYNC_SLOW_MS = 20;
const ASK_MS = 3_000;
const GIB = 1_073_741_824;

export const settings: Check = ({ config }) => {
  const { HOST, PORT, PUBLIC_URL, RATE_LIMIT, DATABASE_URL } = config;
  const found: Finding[] = [
    ...(PUBLIC_URL === undefined && (DATABASE_URL !== undefined || !isLoopback(HOST))
      ? [odd(`labels, links and tokens name ${urlAt(HOST, PORT)}`, "set IMPRIMATUR_PUBLIC_URL to the origin that others know")]
      : []),
    ...(RATE_LIMIT === "off" ? [odd("rate limits are off", "set IMPRIMATUR_RATE_LIMIT to on outside of load tests")] : []),
    ...(DATABASE_URL !== undefined && keysSetIn(config).length === 0
      ? [odd("what is sealed is as safe as the database", "set IMPRIMATUR_SEALING_KEY, the same on all nodes")]
      : []),
  ];
  return found.length > 0 ? found : well("all are known and fit");
};

/** A cloud that works or ends beside the doctor takes files away between two looks at them. */
const GONE_IS_FINE = { throwIfNoEntry: false } as const;

export const folder: Check = ({ config: { DATA_DIR: dir } }) => {
  if (!statSync(dir, { throwIfNoEntry: false }))
    return bad(`${resolve(dir)} doesn't exist`, "check IMPRIMATUR_DATA_DIR, or start the cloud once");
  const there = ["", ...readdirSync(dir).filter((name) => name !== "lost+found")].map((name) => join(dir, name));
  const found = [
    ...shutAmong(there),
    ...cutOffIn(dir),
    ...(process.platform === "win32" ? [] : [...foreignAmong(there), ...openAmong(there)]),
  ];
  return found.length > 0 ? found : well(`${dir} is its owner's alone`);
};

/** No cloud starts there until somebody has decided. */
function cutOffIn(dir: string): Finding[] {
  const todo = afterCutOff(dir);
  if (todo === undefined) return [];
  return [isClaimed(dir) ? odd(`a restore into ${dir} is under way`, "let it end") : bad(`a restore into ${dir} was cut off`, todo)];
}

/** The files that SQLite has to write; whether the folder takes new ones the check of the sync shows. */
const WRITTEN = /^(imprimatur\.db|lock)/;
function shutAmong(paths: string[]): Finding[] {
  const shut = paths.filter((path) => {
    if (!WRITTEN.test(basename(path))) return false;
    try {
      accessSync(path, constants.R_OK | constants.W_OK);
      return false;
    } catch (error) {
      return codeOf(error) !== "ENOENT";
    }
  });
  if (shut.length === 0) return [];
  return [
    bad(`this user may not write ${shut.join(", ")}`, "run it as the user that the cloud runs as, or give that user what lies there"),
  ];
}
/** Whoever started the cloud, or copied something, as another user once has left files that its own can't open. */
function foreignAmong(paths: string[]): Finding[] {
  const [owner, ...others] = paths.map((path) => statSync(path, GONE_IS_FINE)?.uid);
  const foreign = paths.slice(1).filter((_, at) => others[at] !== undefined && others[at] !== owner);
  if (foreign.length === 0) return [];
  return [
    odd(
      `${foreign.join(", ")} is of another user than the folder`,
      `chown -R --reference=${paths[0]} ${paths[0]}, if the cloud runs as the folder's owner`,
    ),
  ];
}
function openAmong(paths: string[]): Finding[] {
  const open = paths.filter((path) => ((statSync(path, GONE_IS_FINE)?.mode ?? 0) & OTHERS) !== 0);
  return open.length > 0 ? [odd(`others may read ${open.join(", ")}`, `chmod -R go= ${paths[0]}`)] : [];
}

export const disk: Check = ({ config: { DATA_DIR: dir } }) => {
  if (!existsSync(dir)) return []; // said above, once
  const free = freeBytesUnder(dir);
  const says = `${(free / GIB).toFixed(1)} GiB are free under ${dir}`;
  if (free < FREE_LEAST_BYTES) return bad(says, "make room: writes are refused when it is full");
  return free < FREE_FEW_BYTES ? odd(says, "make room, or move the folder") : well(says);
};

/** Twenty small writes, each synced: what every commit waits for. */
export const sync: Check = ({ config: { DATA_DIR: dir } }) => {
  if (!existsSync(dir)) return [];
  const file = join(dir, `.doctor-${process.pid}`);
  const handle = openSync(file, "wx", 0o600); // anew: the folder may be another's, who could lay a link there
  try {
    const times = Array.from({ length: SYNCS }, () => {
      const began = performance.now();
      writeSync(handle, Buffer.alloc(4_096), 0, 4_096, 0);
      fsyncSync(handle);
      return performance.now() - began;
    });
    const median = times.toSorted((a, b) => a - b)[SYNCS / 2] ?? 0;
    const says = `a write and its fsync take ${median.toFixed(2)} ms`;
    return median > SYNC_SLOW_MS ? odd(says, "put the data folder on a faster disk: every answer waits for one") : well(says);
  } finally {
    closeSync(handle);
    rmSync(file);
  }
};

export const broker: Check = async ({ config: { MQTT_URL, MQTT_PORT } }) => {
  if (MQTT_URL === undefined) return well(`embedded, on ${MQTT_PORT === 0 ? "any free port" : `port ${MQTT_PORT}`}`);
  const { connectAsync } = await import("mqtt"); // only who names a broker loads it
  const { address, signIn } = brokerAt(MQTT_URL);
  try {
    const client = await connectAsync(address.href, {
      ...signIn,
      protocolVersion: 4,
      reconnectPeriod: 0,
      connectTimeout: ASK_MS,
    }, false); // oxfmt-ignore
    await client.endAsync(true);
    return well(`${address.host} takes us`);
  } catch (error) {
    return odd(`${address.host} doesn't take us: ${(error as Error).message}`, "see IMPRIMATUR_MQTT_URL; stations poll meanwhile");
  }
};

const SHOWN_LENGTH = 300;
const READY = /^\{"status":"ready"/;
export const running: Check = async ({ config: { DATA_DIR, DATABASE_URL, HOST, PORT } }) => {
  if (DATABASE_URL === undefined && !isClaimed(DATA_DIR)) return odd(`no cloud works in ${DATA_DIR}`, "start it: imprimatur cloud");
  if (PORT === 0 && DATABASE_URL === undefined) return well("a cloud works here, on a port of its own choosing");
  if (PORT === 0)
    return odd("whether a cloud works here isn't known: its port would be any free one", "name IMPRIMATUR_PORT, or see its log");
  const url = `${urlAt(HOST, PORT)}/readyz`;
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(ASK_MS) });
    const text = (await answer.text()).slice(0, SHOWN_LENGTH);
    if (!answer.ok) return odd(`${url} answers ${answer.status}: ${text}`, "see its log");
    return READY.test(text)
      ? well(`${url} says ready`)
      : odd(`what answers at ${url} is no cloud`, "see IMPRIMATUR_PORT, and who listens there");
  } catch (error) {
    return odd(`${url} doesn't answer: ${reasonOf(error as Error)}`, "start the cloud, or see its log");
  }
};
