// Where a device is, as one URL in the settings: read here, once, so that a typo is told at start and not at the first label.
import { bareHost } from "#shared/url-at.ts";

type Parity = "none" | "even" | "odd";
export type Address =
  | { kind: "tcp"; host: string; port: number; shown: string }
  | {
      kind: "serial";
      path: string;
      baud: number;
      dataBits: 7 | 8;
      parity: Parity;
      stopBits: 1 | 2;
      flow: "none" | "rtscts" | "xonxoff";
      dtr: boolean | undefined;
      rts: boolean | undefined;
      shown: string;
    }
  | { kind: "file"; path: string; shown: string };

const bad = (url: string, what: string) => new Error(`the port ${JSON.stringify(url)} ${what}`);

/** Throws a sentence that names what is wrong with it. */
export function parsePort(url: string): Address {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase();
  if (scheme === "tcp") return tcp(url);
  if (scheme === "serial") return serial(url);
  if (scheme === "file") return file(url);
  if (scheme === "ipp" || scheme === "ipps") throw bad(url, 'is a print queue, not a stream of bytes: give it to the driver "ipp"');
  if (scheme === "http" || scheme === "https") throw bad(url, 'is a web address, not a stream of bytes: give it to the driver "camera"');
  throw bad(
    url,
    `${scheme ? `has the unknown scheme ${scheme}:` : "has no scheme"}; there are tcp://HOST:PORT, serial:/dev/…?baud=, file:/dev/…`,
  );
}

function tcp(url: string): Address {
  if (!/^tcp:\/\//i.test(url) || !URL.canParse(url)) throw bad(url, "isn't of the form tcp://HOST:PORT, with a port of 1 to 65535");
  const { hostname, port, pathname, search, hash, username } = new URL(url.toLowerCase()); // outside the web a URL's host keeps its capitals
  if (!hostname) throw bad(url, "names no host; it is tcp://HOST:PORT");
  if (!port || port === "0") throw bad(url, "names no TCP port, 1 to 65535; label printers mostly listen at 9100");
  if (search || hash || username || (pathname && pathname !== "/"))
    throw bad(url, "has something after the TCP port; it is tcp://HOST:PORT");
  return { kind: "tcp", host: bareHost(hostname), port: Number(port), shown: `${hostname}:${port}` };
}

const oneOf = <const T extends string>(...names: T[]) =>
  Object.fromEntries(names.map((name) => [name, name])) as Record<string, T | undefined>;
const ON_OFF: Record<string, boolean | undefined> = { on: true, off: false };
const PARAMETERS = {
  dataBits: { "7": 7, "8": 8 } as Record<string, 7 | 8 | undefined>,
  parity: oneOf("none", "even", "odd"),
  stopBits: { "1": 1, "2": 2 } as Record<string, 1 | 2 | undefined>,
  flow: oneOf("none", "rtscts", "xonxoff"),
  dtr: ON_OFF,
  rts: ON_OFF,
};
const BAUD_DEFAULT = 9_600;
const BAUD_MAX = 4_000_000;

function serial(url: string): Address {
  const [path, given] = pathAndQuery(url);
  if (!path) throw bad(url, "names no device; it is serial:/dev/…?baud=");
  const known = ["baud", ...Object.keys(PARAMETERS)];
  for (const name of given.keys()) {
    if (!known.includes(name)) throw bad(url, `has the unknown parameter ${name}; there are ${known.join(", ")}`);
    if (given.getAll(name).length > 1) throw bad(url, `says ${name} twice`);
  }
  const pick = <N extends keyof typeof PARAMETERS, D>(name: N, otherwise: D) => {
    const value = given.get(name);
    if (value === null) return otherwise;
    const choices = PARAMETERS[name] as Record<string, NonNullable<(typeof PARAMETERS)[N][string]>>;
    if (!Object.hasOwn(choices, value)) throw bad(url, `has ${name}=${value}; it is one of ${Object.keys(choices).join(", ")}`);
    return choices[value] as NonNullable<(typeof PARAMETERS)[N][string]>;
  };
  const baud = given.get("baud") ?? String(BAUD_DEFAULT);
  if (!/^[1-9]\d{1,6}$/.test(baud) || Number(baud) > BAUD_MAX)
    throw bad(url, `has baud=${baud}; it is a number such as 9600 or 115200, at most ${BAUD_MAX}`);
  return {
    kind: "serial",
    path,
    baud: Number(baud),
    dataBits: pick("dataBits", 8 as const),
    parity: pick("parity", "none" as const),
    stopBits: pick("stopBits", 1 as const),
    flow: pick("flow", "none" as const),
    dtr: pick("dtr", undefined),
    rts: pick("rts", undefined),
    shown: path,
  };
}

function file(url: string): Address {
  const [path, given] = pathAndQuery(url);
  if (!path.startsWith("/")) throw bad(url, "names no device by its whole path; it is file:/dev/usb/lp0");
  if (given.size > 0) throw bad(url, "has parameters, and a file takes none");
  return { kind: "file", path, shown: path };
}

/** The path as written: `serial:COM3`, `file:/dev/usb/lp0` and `file:///dev/usb/lp0` alike. */
function pathAndQuery(url: string): [path: string, query: URLSearchParams] {
  const [, rest = "", query = ""] = /^[^:]*:(?:\/\/(?=\/))?([^?]*)\??(.*)$/s.exec(url) ?? [];
  if (rest.includes("\0")) throw bad(url, "has a NUL in its path");
  return [rest, new URLSearchParams(query)];
}
