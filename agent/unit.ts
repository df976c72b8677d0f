// The systemd unit of a station: a user of its own for as long as it runs, nothing writable but its buffer, no device but those that it drives.
import { existsSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { AgentConfig } from "./config.ts";
import { parsePort } from "./port-url.ts";

export const SERVICE = "imprimatur-agent.service";
const NAME = "imprimatur-agent";
export const STATE_DIR = `/var/lib/${NAME}`;
const BACK_OFF_VERSION = 254;
const launcher = fileURLToPath(new URL("../.runtime/run.mjs", import.meta.url)); // it becomes the agent

/**
 * Which kernel devices are which, by the path that settings name them by or by being serial, and whose group may open them. Systemd looks a kind up when the
 * service starts: where the first one is plugged in later, its driver has to be loaded before.
 */
const kinds = [
  { path: /^\/dev\/(usb\/)?lp/, devices: ["char-usb", "char-lp"], groups: ["lp"], drivers: [] },
  {
    path: /^\/dev\/tty|^\/dev\/serial\//,
    isSerial: true,
    devices: ["char-ttyUSB", "char-ttyACM", "char-ttyS"],
    groups: ["dialout", "uucp"],
    drivers: ["usbserial", "cdc_acm"],
  },
];

function wiredTo({ printers, scanners }: AgentConfig) {
  const ports = [...printers.map(({ port }) => port), ...scanners.map(({ port = "" }) => port)].filter((port) =>
    /^(serial|file):/i.test(port),
  );
  return ports.map((port) => parsePort(port)).filter((address) => address.kind !== "tcp");
}
/** What it reads besides its devices: a font, the file in which a camera leaves its picture. */
const filesOf = (config: AgentConfig): string[] => [
  ...config.fonts,
  ...wiredTo(config).flatMap(({ path }) => (path.startsWith("/dev/") ? [] : path)),
];

function devicesOf(config: AgentConfig): { devices: string[]; groups: string[]; drivers: string[] } {
  const wired = wiredTo(config);
  const met = kinds.filter(({ path, isSerial }) => wired.some((one) => path.test(one.path) || (isSerial && one.kind === "serial")));
  const paths = wired.map(({ path }) => path);
  // A board has serial lines of its own, and calls them as it likes: ttyAMA0, ttymxc2, rfcomm0.
  const named = paths.flatMap((one) => /^\/dev\/(tty[a-z]+|rfcomm)\d+$/i.exec(one)?.[1] ?? []).map((name) => `char-${name}`);
  const others = paths.filter((one) => one.startsWith("/dev/") && !kinds.some(({ path }) => path.test(one)));
  return {
    devices: [...new Set([...met.flatMap(({ devices }) => devices), ...named, ...others])],
    groups: met.flatMap(({ groups }) => groups.filter(isGroup).slice(0, 1)),
    drivers: met.flatMap(({ drivers }) => drivers),
  };
}
const isGroup = (name: string): boolean =>
  existsSync("/etc/group") &&
  readFileSync("/etc/group", "utf8")
    .split("\n")
    .some((line) => line.startsWith(`${name}:`));

export const inShell = (path: string): string => `'${path.replaceAll("'", String.raw`'\''`)}'`;
/** systemd reads blanks, percent signs and backslashes. */
const quoted = (word: string): string =>
  /^[\w./=:@+,-]+$/.test(word) ? word : `"${word.replaceAll("%", "%%").replaceAll(/["\\]/g, String.raw`\$&`)}"`;
/** And, in what it starts, variables. */
const inCommand = (word: string): string => quoted(word).replaceAll("$", "$$$$");
const isUnder = (folder: string, path: string): boolean => path.startsWith(`${folder}/`);

/** A user of its own implies a /tmp of its own: from there nothing could be started. */
const isOutOfSight = (path: string): boolean => isUnder("/tmp", path) || isUnder("/var/tmp", path);
export const startsUnseen = (): boolean => [process.execPath, launcher].some(isOutOfSight);
/** On the Node below the program's own folder: an upgrade takes it away, and the service's user may not write another one there. */
export const startsBrought = (): boolean => isUnder(dirname(launcher), process.execPath);
/** The first place on the way to Node or to the program that not every user may enter, run or read, and so not the service's. */
export const closedTo = (): string | undefined =>
  [process.execPath, launcher].flatMap(wayTo).find((place) => (statSync(place).mode & (place === launcher ? 0o004 : 0o001)) === 0);
const wayTo = (place: string): string[] => (dirname(place) === place ? [place] : [...wayTo(dirname(place)), place]);
export const unseenOf = (config: AgentConfig): string[] => filesOf(config).filter(isOutOfSight);

const credentialOf = (file: string): string => `LoadCredential=config.json:${file.replaceAll("%", "%%")}\n`;

/** Whose settings a unit of ours gives to its station. */
export const settingsIn = (unit: string): string | undefined =>
  /^LoadCredential=config\.json:(.+)$/m.exec(readFileSync(unit, "utf8"))?.[1]?.replaceAll("%%", "%");

/** `version` of systemd: the older ones know no back-off between starts. */
export function unitOf(config: AgentConfig, file: string, version: number): string {
  const { devices, groups, drivers } = devicesOf(config);
  const loaded = ["network-online.target", ...drivers.map((driver) => `modprobe@${driver}.service`)].join(" ");
  const needed = [process.execPath, launcher, file, ...filesOf(config)];
  const isAtHome = needed.some((path) => ["/home", "/root", "/run/user", homedir()].some((folder) => isUnder(folder, path)));
  const exec = [process.execPath, launcher, "agent", "--config"].map(inCommand).join(" ");
  const allowed = devices.map((device) => `DeviceAllow=${quoted(device)} rw\n`);
  const access = [...allowed, ...(groups.length > 0 ? [`SupplementaryGroups=${groups.join(" ")}\n`] : [])].join("");
  return `# Written by imprimatur agent install; remove it with imprimatur agent install --uninstall --yes.
[Unit]
Description=Imprimatur station ${(config.station ?? "").replaceAll("%", "%%").replace(/\\$/, "$& ")}
Documentation=${new URL("../README.md", import.meta.url).href.replaceAll("'", "%27").replaceAll("%", "%%")}
Wants=${loaded}
After=${loaded} time-sync.target
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart=${exec} %d/config.json
${credentialOf(file)}Environment=IMPRIMATUR_AGENT_DATA_DIR=${STATE_DIR}
DynamicUser=yes
StateDirectory=${NAME}
StateDirectoryMode=0700
UMask=0077
Restart=always
${version >= BACK_OFF_VERSION ? "RestartSec=1\nRestartSteps=6\nRestartMaxDelaySec=60" : "RestartSec=5"}
KillSignal=SIGTERM
TimeoutStopSec=60
StandardOutput=journal
StandardError=journal
SyslogIdentifier=${NAME}

ProtectSystem=strict
ProtectHome=${isAtHome ? "read-only" : "yes"}
PrivateTmp=yes
PrivateDevices=${devices.length === 0 ? "yes" : "no"}
DevicePolicy=closed
${access}NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=${devices.length === 0 ? "yes" : "no"}
ProtectHostname=yes
ProtectProc=invisible
ProcSubset=pid
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
# V8 compiles as it runs: MemoryDenyWriteExecute would end it.

[Install]
WantedBy=multi-user.target
`;
}
