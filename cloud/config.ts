// Settings: one table of what there is, what it means and what it may be; everything else reads the result.
import { isIP } from "node:net";
import { parseEnv } from "node:util";
import { ConfigError } from "#shared/arguments.ts";
import { FOLDER_WORDS, IS_FOLDER } from "#shared/folder.ts";
import { limits } from "#shared/limits.ts";
import { nameTwice } from "#shared/name-twice.ts";
import { nearest } from "#shared/nearest.ts";
import { urlAt } from "#shared/url-at.ts";
import { proxiesIn } from "./caller-address.ts";
import { looksWhole } from "./domain/secrets.ts";
import { textIn } from "./files.ts";

const FILE_MAX_BYTES = 1_048_576;
type Setting = { default: string; says: string; parse: (text: string) => unknown };

/** What may be absent. */
const orNone =
  <T>(parse: (value: string) => T) =>
  (value: string): T | undefined =>
    value === "" ? undefined : parse(value);

const host = (value: string): string => {
  if (isIP(value) === 0 && !/^[a-z0-9]([\w.-]*[a-z0-9])?$/i.test(value))
    throw new Error("must be an address or a host's name, without a scheme or a port");
  return value;
};
const oneOf =
  <const T extends string>(...names: T[]) =>
  (value: string): T => {
    if (!names.includes(value as T)) throw new Error(`must be ${names.join(" or ")}`);
    return value as T;
  };
const port = (value: string): number => {
  if (!/^\d{1,5}$/.test(value) || Number(value) > 65_535) throw new Error("must be a port, 0 to 65535 (0: any free one)");
  return Number(value);
};
const seconds = (value: string): number => {
  if (!/^\d{1,3}$/.test(value)) throw new Error("must be whole seconds, 0 to 999");
  return Number(value);
};
const url =
  (...schemes: string[]) =>
  (value: string): string => {
    if (!URL.canParse(value) || !schemes.includes(new URL(value).protocol.slice(0, -1)))
      throw new Error(`must be a URL that begins with ${schemes.map((name) => `${name}://`).join(" or ")}`);
    return value;
  };
const origin = (value: string): string => {
  const parsed = new URL(url("http", "https")(value));
  const { pathname, search, hash, username, password } = parsed;
  if (pathname !== "/" || search || hash || username || password)
    throw new Error("must be an origin: scheme, host and port, nothing after it");
  return parsed.origin;
};
function refusePassword(parsed: string): string {
  const { username, password } = new URL(parsed);
  if (username || password) throw new Error("must have no user or password in it");
  return parsed;
}
/** fetch takes no URL that carries a password, and a log would show it. */
const service = (value: string): string => refusePassword(url("http", "https")(value));
/** Paths are put behind it. */
const base = (value: string): string => {
  const parsed = service(value);
  if (/[?#]/.test(parsed)) throw new Error("must end with its path: no query, and no fragment");
  return parsed;
};
const ENCODED = "must have its user and password percent-encoded (@ is %40, / is %2F, ? is %3F, # is %23)";
/** Where a password has an @ and a /, ? or # in it, its end is taken for a path, and a part of it for a host, which a log would name. */
function refuseHalfEncoded(parsed: string): void {
  const { username, password, pathname, search, hash } = new URL(parsed);
  const [firstName = ""] = search.split(/[=&]/); // a value may have an @: user=name@server
  try {
    if (!`${pathname}${firstName}${hash}`.includes("@")) return void decodeURIComponent(username + password);
  } catch {
    // the same fault
  }
  throw new Error(ENCODED);
}
const broker = (value: string): string => {
  const parsed = url("mqtt", "mqtts", "ws", "wss")(value);
  if (new URL(parsed).hostname === "") throw new Error("must name a host");
  refuseHalfEncoded(parsed);
  return parsed;
};
/** The TLS parameters that our driver heeds. */
const TLS_PARAMETERS = ["ssl", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslnegotiation"];
/** With one that the driver ignores, the connection would be less safe than its operator asked for. */
function refuseUnheeded(parsed: string): void {
  for (const name of new URL(parsed).searchParams.keys())
    if (/ssl|tls/i.test(name) && !TLS_PARAMETERS.includes(name))
      throw new Error(`has ${name} in it, which nothing here heeds: what is heeded of TLS is ${TLS_PARAMETERS.join(", ")}`);
}
/** What libpq takes and our driver doesn't is told apart from a typing error. */
const database = (value: string): string => {
  if (/^postgres(ql)?:/.test(value)) {
    if (/^\w+:\/\/[^/?]*,[^/?@]*([/?]|$)/.test(value))
      throw new Error("must name one host: of several, the address that leads to the primary");
    if (!URL.canParse(value)) throw new Error(`${ENCODED}, and a socket's folder as in postgres:///DATABASE?host=/FOLDER&user=USER`);
  }
  const parsed = url("postgres", "postgresql")(value);
  refuseHalfEncoded(parsed);
  refuseUnheeded(parsed);
  return parsed;
};
/** A header has to carry it: ASCII, and spaces only inside. */
export const bootstrapKey = (value: string): string => {
  const { BOOTSTRAP_KEY_MIN_LENGTH: least, SECRET_MAX_LENGTH: most } = limits;
  if (value.length < least || value.length > most || !/^[\x21-\x7e][\x20-\x7e]*[\x21-\x7e]$/.test(value))
    throw new Error(`must have ${least} to ${most} printable ASCII characters, spaces only inside and no line end`);
  if (!looksWhole(value)) throw new Error("looks like a key that Imprimatur made, and its checksum doesn't fit: was it cut when copied?");
  return value;
};
/** One a line, the newest first: it seals, the others open what they sealed. */
const sealingKeys = (value: string): string[] => {
  const keys = value.split(/\r?\n/).filter((line) => line.trim() !== "");
  const least = limits.BOOTSTRAP_KEY_MIN_LENGTH;
  if (keys.some(({ length }) => length < least)) throw new Error(`must have at least ${least} characters, and in each line a key`);
  const isSeveral = (key: string) => key.includes(String.raw`\n`) && key.split(String.raw`\n`).every(({ length }) => length >= least);
  if (keys.some(isSeveral))
    throw new Error(
      String.raw`has a \n between what look like two keys: put a line break there (\n is one only in double quotes, in a --config file)`,
    );
  return keys;
};
const sealingKeyFile = (value: string): string[] => {
  if (value === "") return [];
  const keys = sealingKeys(textIn(value, FILE_MAX_BYTES));
  if (keys.length === 0) throw new Error(`${value} has no key in it`);
  return keys;
};
const folder = (value: string): string => {
  if (!IS_FOLDER.test(value)) throw new Error(FOLDER_WORDS);
  return value;
};
const anchor = (value: string): string => {
  if (value === "log" || value === "off") return value;
  try {
    return service(value);
  } catch (cause) {
    throw new Error(`must be log or off; else it ${(cause as Error).message}`, { cause });
  }
};

export const settings = {
  IMPRIMATUR_HOST: { default: "127.0.0.1", says: "the address to listen on", parse: host },
  IMPRIMATUR_PORT: { default: "8080", says: "the port to listen on; 0: any free one, printed", parse: port },
  IMPRIMATUR_DATA_DIR: {
    default: ".imprimatur",
    says: "the SQLite file, evidence blobs in it, and keys; on PostgreSQL the keys alone",
    parse: folder,
  },
  IMPRIMATUR_DATABASE_URL: {
    default: "",
    says: "`postgres://…` puts the cloud on PostgreSQL; absent: SQLite",
    parse: orNone(database),
  },
  IMPRIMATUR_PUBLIC_URL: { default: "", says: "the origin in links and tokens; absent: `http://HOST:PORT`", parse: orNone(origin) },
  IMPRIMATUR_BOOTSTRAP_KEY: {
    default: "",
    says: "secret of the first admin key; absent: made at first start, shown once, kept in the data dir",
    parse: orNone(bootstrapKey),
  },
  IMPRIMATUR_MQTT_URL: {
    default: "",
    says: "an external MQTT broker, with user and password where it wants them; absent: an embedded one",
    parse: orNone(broker),
  },
  IMPRIMATUR_MQTT_PUBLIC_URL: {
    default: "",
    says: "where stations find the broker, if by another address than the cloud does",
    parse: orNone((value) => refusePassword(broker(value))),
  },
  IMPRIMATUR_MQTT_PORT: {
    default: "1883",
    says: "the embedded broker's port, on `IMPRIMATUR_HOST`; 0, or where it is taken: any free one",
    parse: port,
  },
  IMPRIMATUR_REGISTRY_URL: { default: "", says: "the external passport registry; absent: 503 REGISTRY_UNAVAILABLE", parse: orNone(base) },
  IMPRIMATUR_ANCHOR: {
    default: "log",
    says: "`log`: the built-in transparency log; `off`; or the URL of an anchoring service",
    parse: anchor,
  },
  IMPRIMATUR_RATE_LIMIT: { default: "on", says: "`off` for load tests", parse: oneOf("on", "off") },
  IMPRIMATUR_TRUST_PROXY: {
    default: "",
    says: "addresses and ranges of proxies whose `X-Forwarded-For` is believed, such as `10.0.0.0/8`; absent: nobody's",
    parse: proxiesIn,
  },
  IMPRIMATUR_WEBHOOK_PRIVATE: {
    default: "off",
    says: "`on` lets webhooks go to private addresses, and by http",
    parse: oneOf("on", "off"),
  },
  IMPRIMATUR_SEALING_KEY: {
    default: "",
    says: "seals webhook secrets, signing keys and what serials are made with, the same on all nodes; further lines are older keys that still open. Absent: one in the data dir, or on PostgreSQL in the store",
    parse: sealingKeys,
  },
  IMPRIMATUR_SEALING_KEY_FILE: { default: "", says: "a file of such keys instead, one a line, the newest first", parse: sealingKeyFile },
  IMPRIMATUR_DRAIN_NOTICE_S: {
    default: "0",
    says: "how long a node that was told to end still takes requests while `/readyz` says 503; behind a balancer, longer than it takes to notice",
    parse: seconds,
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    default: "",
    says: "a collector of OpenTelemetry traces (OTLP over HTTP), such as `http://127.0.0.1:4318`; absent: none are made",
    parse: orNone(base),
  },
  IMPRIMATUR_LOG_LEVEL: {
    default: "info",
    says: "JSON on stdout, pretty on a terminal",
    parse: oneOf("trace", "debug", "info", "warn", "error", "fatal", "silent"),
  },
} as const satisfies Record<string, Setting>;

type Name = keyof typeof settings;
export type Config = { [N in Name as N extends `IMPRIMATUR_${infer Rest}` ? Rest : N]: ReturnType<(typeof settings)[N]["parse"]> };

type Given = Record<string, string | undefined>;

function refuseUnknown(given: Given): void {
  for (const name of Object.keys(given)) {
    if (!name.startsWith("IMPRIMATUR_") || name.startsWith("IMPRIMATUR_AGENT_") || name in settings) continue;
    throw new ConfigError(`${name} isn't a setting; did you mean ${nearest(name, Object.keys(settings))}?`);
  }
}

export function configFrom(given: Given): Config {
  refuseUnknown(given);
  const entries = (Object.entries(settings) as [Name, Setting][]).map(([name, { default: fallback, parse }]) => {
    try {
      return [name.replace(/^IMPRIMATUR_/, ""), parse(given[name] || fallback)];
    } catch (error) {
      throw new ConfigError(`${name}: ${(error as Error).message}`);
    }
  });
  const config = Object.fromEntries(entries) as Config;
  refuseNameless(config);
  return config;
}

/** A socket may have an address that no URL has, such as one of IPv6 with its interface: all that names the cloud would fail. */
function refuseNameless({ HOST, PORT, PUBLIC_URL }: Config): void {
  if (PUBLIC_URL === undefined && !URL.canParse(urlAt(HOST, PORT)))
    throw new ConfigError(`IMPRIMATUR_HOST: no URL can have ${HOST} in it: set IMPRIMATUR_PUBLIC_URL to the origin that others know`);
}

/** One line of a file. Node reads many at once too, but then a name that is set to a blank takes the next line for its value. */
function lineSetting(line: string, i: number): Given {
  const [, assigned, value = ""] = /^\s*(?:#.*|(?:export\s+)?((?:IMPRIMATUR|OTEL)_\w+\s*=(.*)))?$/.exec(line) ?? [];
  if (assigned === undefined && !/^\s*(#|$)/.test(line)) throw new Error(`line ${i + 1} isn't of the form IMPRIMATUR_NAME=value`);
  const comment = value.indexOf("#");
  if (comment >= 0 && !/^\s*["'`]/.test(value) && !/\s/.test(value[comment - 1] ?? ""))
    throw new Error(`line ${i + 1}: a # begins a comment: put the value into quotes, or a blank before the #`);
  return parseEnv((assigned ?? "").trim());
}

/** The same in JSON, as a station's settings are. Where it is wrong isn't quoted: there are secrets in it. */
function jsonSettings(text: string): Given {
  let values: object;
  try {
    values = JSON.parse(text) as object;
  } catch (cause) {
    throw new Error("it begins with { and isn't JSON", { cause });
  }
  const twice = nameTwice(text, values);
  if (twice !== undefined) throw new Error(`it sets ${twice} a second time: leave one`);
  for (const [name, value] of Object.entries(values)) {
    if (!Object.hasOwn(settings, name) && !name.startsWith("IMPRIMATUR_")) throw new Error(`${name} isn't of the form IMPRIMATUR_NAME`);
    if (typeof value !== "string" && typeof value !== "number") throw new Error(`${name} isn't set to a text or a number`);
  }
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, String(value)]));
}

/** A file of NAME=value lines, or of JSON; what the environment says wins. */
function fileSettings(file: string, env: Given): Given {
  try {
    const text = textIn(file, FILE_MAX_BYTES);
    if (/^\s*\{/.test(text)) return jsonSettings(text.trim());
    const given: Given = {};
    for (const [i, line] of text.split(/\r?\n/).entries())
      for (const [name, value] of Object.entries(lineSetting(line, i))) {
        if (Object.hasOwn(given, name)) throw new Error(`line ${i + 1} sets ${name} a second time: leave one`);
        if (name.startsWith("OTEL_") && !(name in settings) && env[name] === undefined)
          throw new Error(`line ${i + 1}: ${name} counts in the environment alone; of such names a file takes OTEL_EXPORTER_OTLP_ENDPOINT`);
        given[name] = value;
      }
    return given;
  } catch (error) {
    throw new ConfigError(`--config ${file}: ${(error as Error).message}`);
  }
}

/** From weakest to strongest: the table's defaults, the caller's, the file's, the environment's. */
export function loadConfig(file: string | undefined, defaults: Given = {}, env: Given = process.env): Config {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== "")); // set to nothing is not set
  return configFrom({ ...defaults, ...(file === undefined ? {} : fileSettings(file, env)), ...set });
}
