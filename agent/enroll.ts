// imprimatur agent enroll: a key becomes a station. A device's key is used as it is; with any other the station is registered and gets its own.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { dirname, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { argumentsOf, ConfigError } from "#shared/arguments.ts";
import type { Device, DeviceCreate, Station } from "#shared/wire/devices.ts";
import { needNames } from "#shared/wire/jobs.ts";
import { type CloudClient, cloudClient, type NoAnswer } from "./cloud.ts";
import { agentConfigFrom, DEFAULT_FILE, keyInEnvironment } from "./config.ts";
import { isRefusal } from "./fates.ts";
import { heardOf, isAbout, ONE_KEY, whyUnmet } from "./meeting.ts";
import { reserve, type Reserved } from "./settings-file.ts";
import { inShell } from "./unit.ts";

const OPTIONS = {
  cloud: { type: "string" },
  key: { type: "string" },
  name: { type: "string" },
  station: { type: "string" },
  tenant: { type: "string" },
  printer: { type: "string", multiple: true },
  scanner: { type: "string", multiple: true },
  label: { type: "string" },
  config: { type: "string" },
  "data-dir": { type: "string" },
  force: { type: "boolean" },
} as const;
const USAGE =
  "imprimatur agent enroll --cloud URL --key KEY [--name NAME] [--station STATION] [--tenant ID] [--printer DRIVER=PORT]... [--scanner DRIVER=PORT]... [--label WIDTHxHEIGHT] [--config FILE] [--data-dir DIR] [--force]";
type Given = ReturnType<typeof argumentsOf<typeof OPTIONS>>;
const PRINTER = { driver: "zpl", port: "tcp://127.0.0.1:9100" };

export async function enroll(argv: string[]): Promise<number> {
  const given = argumentsOf(USAGE, OPTIONS, argv);
  const key = await keyFrom(given);
  const file = resolve(given.config ?? DEFAULT_FILE);
  const settings = settingsOf(given, file);
  const { cloud: origin } = agentConfigFrom({
    ...settings,
    key,
    printers: settings.printers.length > 0 ? settings.printers : [placeholder(given)],
  });
  const draft = reserve(file, given.force ?? false);
  try {
    const met = await meet(origin, key, given, draft);
    try {
      checkMeant(met.station, given);
      if (draft.isInterrupted()) throw new ConfigError("interrupted");
      const { device, tenant } = met.station;
      draft.write({ ...(device.station === null ? {} : { station: device.station }), ...settings, cloud: origin, key: met.key });
      const what = `device ${JSON.stringify(device.name)} (${device.id}) of the tenant ${tenant.id}${tenant.sandbox ? ", a sandbox" : ""}`;
      const twin = isAbout(device) ? [`beware: ${heardOf(device)}: ${ONE_KEY}`] : [];
      const known = met.isNew ? `registered: ${what}` : `known: ${what}`;
      process.stdout.write(`${[known, ...twin, `written: ${file}, for this user only`, ...next(file, settings)].join("\n")}\n`);
    } catch (error) {
      await met.undo();
      throw error;
    }
  } finally {
    draft.giveUp();
  }
  return 0;
}

function next(file: string, { printers }: { printers: object[] }): string[] {
  const isPlain = /^[\w./:@+,=-]+$/.test(file);
  const at = `--config ${isPlain ? file : inShell(file)}`;
  const doctor = `imprimatur agent doctor ${at}`;
  return [
    printers.length > 0 ? `next: ${doctor}` : `next: name its printers and scanners in that file, then ${doctor}`,
    `then: imprimatur agent ${at}, or as a service: imprimatur agent install ${at}`,
  ];
}

/** Also from the environment or, as -, from stdin: what is typed as an option every user of the machine can see. */
async function keyFrom({ key = keyInEnvironment() }: Given): Promise<string> {
  const read = key === "-" ? (await text(process.stdin)).trim() : key;
  if (!read) throw new ConfigError("--key is missing: a device's key, or one that may register devices (- reads it from stdin)", 2);
  return read;
}

function settingsOf(given: Given, file: string) {
  if (given.cloud === undefined) throw new ConfigError("--cloud is missing: the cloud's address, such as https://cloud.example", 2);
  const label = labelOf(given);
  return {
    cloud: given.cloud,
    ...(given.station === undefined ? {} : { station: given.station }),
    dataDir: given["data-dir"] === undefined ? dirname(file) : resolve(given["data-dir"]),
    printers: (given.printer ?? []).map((one, i) => ({
      name: `printer-${i + 1}`,
      ...deviceOf("printer", one, "zpl=tcp://10.0.0.7:9100"),
      label,
    })),
    scanners: (given.scanner ?? []).map((one, i) => ({
      name: `scanner-${i + 1}`,
      ...deviceOf("scanner", one, "line=serial:/dev/ttyACM0"),
    })),
  };
}
const placeholder = (given: Given) => ({ name: "printer-1", ...PRINTER, label: labelOf(given) });
function deviceOf(what: string, said: string, example: string): { driver: string; port: string } {
  const [, driver, port] = /^([a-z]+)=(.+)$/.exec(said) ?? [];
  if (driver === undefined || port === undefined) throw new ConfigError(`--${what} is DRIVER=PORT, such as ${example}`, 2);
  return { driver, port };
}
function labelOf({ label = "50x25" }: Given): { widthMm: number; heightMm: number } {
  const [, widthMm, heightMm] = /^(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)$/.exec(label) ?? [];
  if (widthMm === undefined) throw new ConfigError("--label is WIDTHxHEIGHT in mm, such as 50x25", 2);
  return { widthMm: Number(widthMm), heightMm: Number(heightMm) };
}

// --- at the cloud

type Met = { station: Station; key: string; isNew: boolean; undo(): Promise<void> };

async function meet(origin: string, key: string, given: Given, draft: Reserved): Promise<Met> {
  const cloud = cloudClient(origin, key);
  const said = await cloud.station();
  if (said.ok) return { station: said.value, key, isNew: false, undo: async () => {} };
  if (said.code !== "DEVICE_KEY_REQUIRED") throw unmet(origin, said);
  return register(cloud, origin, given, draft);
}
const unmet = (origin: string, said: NoAnswer) => new ConfigError(whyUnmet(origin, said));

async function register(cloud: CloudClient, origin: string, given: Given, draft: Reserved): Promise<Met> {
  const { name = hostname().slice(0, 64), station } = given;
  const namesake = await named(cloud, origin, name);
  if (namesake)
    throw new ConfigError(
      `this tenant has a device ${JSON.stringify(name)} already (${namesake.id}): enroll with the key it was given, remove it there, or choose another --name`,
    );
  const wanted = { name, capabilities: [...needNames], ...(station === undefined ? {} : { station }) };
  draft.hold();
  const made = await registered(cloud, wanted);
  if (!made.ok) throw unmet(origin, made);
  const { device, key } = made.value;
  const undo = () => remove(cloud, device);
  if (!key?.secret) throw new ConfigError(`${origin} registered the device ${device.id} and didn't say its key: remove it and try again`);
  const own = await cloudClient(origin, key.secret).station();
  if (!own.ok) {
    await undo();
    throw unmet(origin, own);
  }
  return { station: own.value, key: key.secret, isNew: true, undo };
}

/** Where the answer was lost, or a proxy answered, there may be a device whose key was shown to nobody. */
async function registered(cloud: CloudClient, wanted: DeviceCreate) {
  const once = randomUUID();
  const first = await cloud.register(wanted, once);
  if (first.ok || isRefusal(first)) return first;
  const again = await cloud.register(wanted, once);
  if (!again.ok || again.value.key?.secret) return again;
  await remove(cloud, again.value.device);
  return cloud.register(wanted, randomUUID());
}
async function remove(cloud: CloudClient, { id }: Device): Promise<void> {
  const gone = await cloud.unregister(id);
  if (!gone.ok) process.stderr.write(`the device ${id} is left there, remove it: ${gone.message}\n`);
}

/** What was typed has to go with what the cloud says of the key. */
function checkMeant(is: Station, { tenant, station }: Given): void {
  if (tenant !== undefined && is.tenant.id !== tenant)
    throw new ConfigError(`this key is of the tenant ${is.tenant.id}, not of ${tenant}: take a key of that tenant`);
  if (station !== undefined && is.device.station !== null && is.device.station !== station)
    throw new ConfigError(
      `this key's device is at the station ${JSON.stringify(is.device.station)}, not ${JSON.stringify(station)}: leave --station out, or change the device`,
    );
}

async function named(cloud: CloudClient, origin: string, name: string): Promise<Device | undefined> {
  for (let cursor: string | null = ""; cursor !== null;) {
    const page = await cloud.devices(cursor);
    if (!page.ok) throw unmet(origin, page);
    const found = page.value.data.find((device) => device.name === name);
    if (found) return found;
    cursor = page.value.nextCursor;
  }
  return undefined;
}
