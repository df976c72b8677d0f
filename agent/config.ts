// The station's settings: one JSON file, each of its top-level values also from the environment; everything else reads the result.
import { isUtf8 } from "node:buffer";
import { existsSync, readFileSync } from "node:fs";
import { Ajv, type ErrorObject } from "ajv";
import { type Static, type TSchema, Type } from "typebox";
import { codeOf } from "#shared/fault.ts";
import { FOLDER, FOLDER_WORDS } from "#shared/folder.ts";
import { limits } from "#shared/limits.ts";
import { ConfigError } from "#shared/arguments.ts";
import { nameTwice } from "#shared/name-twice.ts";
import { nearest } from "#shared/nearest.ts";
import { isObject } from "#shared/object.ts";
import { closed, patternWords, Word } from "#shared/wire/common.ts";
import { parsePort } from "./port-url.ts";
import { can, drivers, whoCan } from "./printers/index.ts";
import { RFID_TRIES } from "./printers/zpl-format.ts";
import { scannerDrivers, type ScannerKind } from "./scanners/index.ts";
import { isLink } from "./web/scanned.ts";

export const DEFAULT_FILE = ".imprimatur-agent/config.json";
/** In `dataDir`. */
export const BUFFER_FILE = "station.db";
const PREFIX = "IMPRIMATUR_AGENT_";
const BYTE_ORDER_MARK = /^\uFEFF/; // Windows' editors put one before what they save
const Url = Type.String({ minLength: 1, maxLength: 2_048 });

const PIN = "^\\d{4,12}$";
const wordsOfPatterns: Record<string, string> = {
  ...patternWords,
  [PIN]: "must have 4 to 12 digits",
  [FOLDER]: FOLDER_WORDS,
};

const said = <S extends TSchema>(schema: S, description: string): S => ({ ...schema, description });

const Printer = closed({
  name: said(Word, "As people call it"),
  driver: Type.Enum(Object.keys(drivers), { description: `Its language: ${Object.keys(drivers).join(", ")}` }),
  port: said(Url, "`tcp://HOST:PORT`, `serial:/dev/…?baud=`, `file:/dev/usb/lp0` or `ipp://HOST:PORT/printers/NAME`"),
  dpi: Type.Optional(Type.Enum([203, 300, 600], { default: 203, description: "Dots an inch of its head" })),
  label: closed(
    {
      widthMm: Type.Number({ exclusiveMinimum: 0, maximum: 500, description: "Across the web" }),
      heightMm: Type.Number({ exclusiveMinimum: 0, maximum: 500, description: "Along it" }),
    },
    { description: "The labels in it" },
  ),
  rfid: Type.Optional(Type.Boolean({ default: false, description: "It encodes tags" })),
  attest: Type.Optional(
    Type.Enum(["device", "operator"], { default: "device", description: "Who says that a label came out, where the device could know" }),
  ),
  simulated: Type.Optional(Type.Boolean({ default: false, description: "Its evidence is marked, and seals in a sandbox only" })),
  control: Type.Optional(said(Url, "A simulated one's address, for its faults")),
  setup: Type.Optional(Type.String({ maxLength: 4_000, description: "Sent at the head of every label" })),
  rfidTries: Type.Optional(
    Type.Integer({ default: RFID_TRIES, minimum: 1, maximum: 10, description: "Labels to try until a tag takes its EPC" }),
  ),
  fence: Type.Optional(Type.Enum(["gs-h", "gs-r", "none"], { description: "ESC/POS: how it answers, where it isn't to be tried out" })),
  cut: Type.Optional(Type.Boolean({ default: true, description: "ESC/POS: cut after each label" })),
  inFlight: Type.Optional(
    Type.Integer({ default: 1, minimum: 1, maximum: 4, description: "Labels under way at once, on a printer with a counter" }),
  ),
});
const Scanner = closed({
  name: said(Word, "As people call it"),
  driver: Type.Enum(Object.keys(scannerDrivers) as ScannerKind[], { description: `What it is: ${Object.keys(scannerDrivers).join(", ")}` }),
  port: Type.Optional(said(Url, "As a printer's; of a camera `http(s)://…` or `file:/…`")),
  simulated: Type.Optional(Type.Boolean({ default: false, description: "What it sees is marked, and seals in a sandbox only" })),
});
const Operator = closed({
  id: said(Word, "In the evidence"),
  name: said(Word, "On the page"),
  badge: Type.Optional(
    said(Word, "What the badge says when it is scanned: nothing that can be guessed, and no link where there is no PIN"),
  ),
  pin: Type.Optional(Type.String({ pattern: PIN, description: "4 to 12 digits, where there is no badge" })),
});
const LEVELS = ["trace", "debug", "info", "warn", "error", "silent"];
const properties = {
  cloud: Type.String({ default: "http://127.0.0.1:8080", maxLength: 2_048, description: "The cloud's origin" }),
  key: Type.String({
    minLength: 1,
    maxLength: limits.SECRET_MAX_LENGTH,
    description: "The device's key, from enrolment or `POST /devices`",
  }),
  station: Type.Optional(said(Word, "Whose jobs it takes beside those of no station")),
  dataDir: Type.String({
    default: ".imprimatur-agent",
    minLength: 1,
    pattern: FOLDER,
    description: "The buffer: what isn't in the cloud yet",
  }),
  console: closed(
    {
      host: Type.String({ default: "127.0.0.1", minLength: 1, description: "This machine only, unless told otherwise" }),
      port: Type.Integer({ default: 8090, minimum: 0, maximum: 65_535, description: "0 is any free one" }),
    },
    { description: "Where operators and integrators meet the station" },
  ),
  claim: closed(
    {
      ahead: Type.Integer({ default: 4, minimum: 1, maximum: limits.CLAIMS_MAX_ITEMS, description: "Labels kept ready for each printer" }),
      leaseSeconds: Type.Integer({
        default: 60,
        minimum: limits.LEASE_MIN_S,
        maximum: limits.LEASE_MAX_S,
        description: "Until a job of a silent station is another's",
      }),
    },
    { description: "Labels kept ready, so that the line doesn't wait for the network" },
  ),
  operators: Type.Array(Operator, { default: [], maxItems: 1_000, description: "Who may answer at the console" }),
  fonts: Type.Array(Url, { default: [], maxItems: 8, description: "TrueType or OpenType files for scripts that the built-in one lacks" }),
  printers: Type.Array(Printer, { minItems: 1, maxItems: 32, description: "One lane each" }),
  scanners: Type.Array(Scanner, { default: [], maxItems: 32, description: "The console's keyboard is always one" }),
  mqtt: Type.Optional(said(Url, "The broker, where the cloud doesn't say the right one")),
  logLevel: Type.Enum(LEVELS, { default: "info", description: LEVELS.join(", ") }),
};
export const Settings = closed(properties);
type Values = Record<string, unknown>;
type Given = Static<typeof Printer>;
type Filled = "dpi" | "rfid" | "attest" | "simulated"; // where they are left out
export type PrinterConfig = Omit<Given, Filled> & Required<Pick<Given, Filled>>;
export type AgentConfig = Omit<Static<typeof Settings>, "printers"> & { printers: PrinterConfig[] };
const LET_GO_MS = 120_000;
/** A job that can't be begun here for so long others may do. */
export const letGoMs = ({ claim }: Pick<AgentConfig, "claim">): number => Math.max(LET_GO_MS, claim.leaseSeconds * 4_000);

const ajv = new Ajv({ allErrors: true, useDefaults: true, strictTypes: false, allowUnionTypes: true, meta: false, validateSchema: false });
const nestedDefaults = { console: {}, claim: {} };

export function agentConfigFrom(given: unknown): AgentConfig {
  if (!isObject(given)) throw new ConfigError("the settings are one JSON object: { … }");
  const settings: Values = structuredClone({ ...nestedDefaults, ...given });
  if (typeof settings["key"] === "string") settings["key"] = settings["key"].trim(); // HTTP does it too, a broker doesn't
  const validate = ajv.compile(Settings);
  if (!validate(settings)) throw new ConfigError(sentenceOf(worstOf(validate.errors ?? [])));
  const config = settings as unknown as AgentConfig;
  checkUrls(config);
  for (const [i, printer] of config.printers.entries()) checkPrinter(`printers.${i}`, printer);
  for (const [i, scanner] of config.scanners.entries())
    named(`scanners.${i}.port`, () => scannerDrivers[scanner.driver].checkPort(scanner.port ?? ""));
  checkNames(config);
  checkWires(config);
  return config;
}

/** What is misspelt is missing under its right name, too. */
const worstOf = (errors: ErrorObject[]) => errors.find(({ keyword }) => keyword === "additionalProperties") ?? errors[0];
const at = (path: string) => path.slice(1).replaceAll("/", ".");
function sentenceOf(error?: ErrorObject): string {
  if (!error) return "the settings are wrong";
  const where = at(error.instancePath);
  const inside = (name: string) => (where ? `${where}.${name}` : name);
  if (error.keyword === "required") return `${inside(String(error.params["missingProperty"]))} is missing`;
  if (error.keyword === "additionalProperties") {
    const unknown = String(error.params["additionalProperty"]);
    const known = knownAt(error.instancePath);
    return `${inside(unknown)} isn't a setting; did you mean ${inside(nearest(unknown, known) ?? "")}?`;
  }
  if (error.keyword === "minItems" || error.keyword === "minLength") return `${where} is empty`;
  if (error.keyword === "pattern") return `${where} ${wordsOfPatterns[String(error.params["pattern"])] ?? error.message}`;
  const choices = error.params["allowedValues"] as unknown[] | undefined;
  return `${where || "the file"} ${choices ? `must be one of ${choices.join(", ")}` : error.message}`;
}
function knownAt(path: string): string[] {
  let schema: TSchema | undefined = Settings;
  for (const step of path.split("/").slice(1)) {
    const { properties: inner, items } = schema as { properties?: Record<string, TSchema>; items?: TSchema };
    schema = /^\d+$/.test(step) ? items : inner?.[step];
  }
  return Object.keys((schema as { properties?: object }).properties ?? {});
}

function checkUrls(config: AgentConfig): void {
  const cloud = URL.canParse(config.cloud) ? new URL(config.cloud) : undefined;
  if (!cloud || !/^https?:$/.test(cloud.protocol) || cloud.href !== `${cloud.origin}/`)
    throw new ConfigError("cloud must be an origin such as https://cloud.example: scheme, host and port, nothing after it");
  config.cloud = cloud.origin;
  if (config.mqtt !== undefined && !(/^(mqtts?|wss?|tcp|ssl|tls):\/\/[^/]/i.test(config.mqtt) && URL.canParse(config.mqtt)))
    throw new ConfigError("mqtt must be the broker's URL, such as mqtt://broker.example:1883 or mqtts://broker.example");
}
function checkPrinter(where: string, printer: PrinterConfig): void {
  const { driver, control, simulated, rfid, setup = "", inFlight = 1 } = printer;
  named(`${where}.port`, () => checkPrinterPort(printer));
  if (inFlight > 1 && !can(printer, "several"))
    throw new ConfigError(`${where}.inFlight is 1 for ${driver}: only ${whoCan("several")} can tell apart what became of several labels`);
  if (rfid && !can(printer, "tags"))
    throw new ConfigError(
      `${where}.rfid is false for ${driver}: only ${whoCan("tags")} can write tags; leave it out, or give the tags to a ${whoCan("tags")} printer`,
    );
  const strange = /[^\0-\xff]/u.exec(setup)?.[0]; // cut to its last byte it may be a command
  if (strange !== undefined)
    throw new ConfigError(`${where}.setup has ${JSON.stringify(strange)}, and a printer takes bytes: write it in Latin-1`);
  if (control !== undefined && (!simulated || !/^http:\/\/[^/]/.test(control) || !URL.canParse(control)))
    throw new ConfigError(`${where}.control is the http:// address of a simulator, for a printer that is simulated`);
}
function checkPrinterPort({ driver, port }: PrinterConfig): void {
  const { schemes = [], check } = drivers[driver] ?? {};
  const scheme = /^([a-z]+):/i.exec(port)?.[1]?.toLowerCase() ?? "";
  if (!schemes.includes(scheme)) throw new Error(`of this driver begins with ${schemes.map((name) => `${name}:`).join(" or ")}`);
  check?.(port);
}
function named(name: string, check: () => void): void {
  try {
    check();
  } catch (error) {
    throw new ConfigError(`${name} ${(error as Error).message}`);
  }
}

/** A queue keeps jobs apart, a wire doesn't. */
const wiresOf = ({ printers }: AgentConfig) =>
  printers.filter((printer) => !can(printer, "queue")).map(({ name, port }) => ({ name, wire: parsePort(port).shown }));

/** Names, operators' ids and badges each name one thing. */
function checkNames(config: AgentConfig): void {
  const lists: [what: string, values: string[]][] = [
    ["printers: the name", config.printers.map(({ name }) => name)],
    ["printers: the port", wiresOf(config).map(({ wire }) => wire)],
    ["scanners: the name", config.scanners.map(({ name }) => name)],
    ["operators: the id", config.operators.map(({ id }) => id)],
  ];
  for (const [what, values] of lists) {
    const twice = values.find((value, i) => values.indexOf(value) !== i);
    if (twice !== undefined) throw new ConfigError(`${what} ${JSON.stringify(twice)} is there twice`);
  }
  checkSecrets(config);
}

/** Whose is wrong is named, and not what it is. */
function checkSecrets({ operators }: AgentConfig): void {
  for (const [i, { id, badge, pin }] of operators.entries()) {
    if (pin !== undefined) continue;
    if (badge === undefined) throw new ConfigError(`operators.${i} has neither a badge nor a PIN`);
    if (isLink(badge))
      throw new ConfigError(
        `operators.${i}.badge begins as a label's link does, and the console would take it for a label: give ${JSON.stringify(id)} another one, or a PIN`,
      );
  }
  for (const secret of ["badge", "pin"] as const)
    for (const [i, { id, [secret]: own }] of operators.entries()) {
      const other = own === undefined ? undefined : operators.slice(0, i).find((earlier) => earlier[secret] === own);
      if (other) throw new ConfigError(`operators: ${JSON.stringify(other.id)} and ${JSON.stringify(id)} have the same ${secret}`);
    }
}

/** Whoever opens the other end of a printer's wire as well takes the answers from each other. */
function checkWires(config: AgentConfig): void {
  const wires = wiresOf(config);
  for (const [i, { driver, port = "" }] of config.scanners.entries()) {
    if (scannerDrivers[driver].port !== "wire") continue;
    const { shown } = parsePort(port);
    const printer = wires.find(({ wire }) => wire === shown);
    if (printer)
      throw new ConfigError(
        `scanners.${i}.port is that of the printer ${JSON.stringify(printer.name)} (${shown}): a scanner needs a port of its own; one that types into the console is a keyboard, without a port`,
      );
  }
}

const variableOf = (name: string) => PREFIX + name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
const isText = (name: string) =>
  (properties[name as keyof typeof properties] as { type?: string }).type === "string" || name === "logLevel";

/** Text as it is, everything else as JSON. */
function fromEnvironment(env: Record<string, string | undefined>): Values {
  const names = Object.keys(properties);
  const given: Values = {};
  for (const [variable, text] of Object.entries(env)) {
    if (!variable.startsWith(PREFIX) || !text) continue;
    const name = names.find((candidate) => variableOf(candidate) === variable || `${PREFIX}${candidate.toUpperCase()}` === variable);
    if (name === undefined) {
      throw new ConfigError(`${variable} isn't a setting; did you mean ${nearest(variable, names.map(variableOf))}?`);
    }
    try {
      given[name] = isText(name) ? text : JSON.parse(text);
    } catch {
      throw new ConfigError(`${variable} isn't JSON: it holds what "${name}" holds in the file`);
    }
  }
  return given;
}

const QUOTED_BEFORE = 10;
/** V8 quotes what stands around a fault, half a key maybe: its line is said instead. */
function withoutQuote(message: string, text: string): string {
  const [, says, isCut, quote = ""] = /^(.*?), (\.{3})?"([^]*)"(?:\.{3})? is not valid JSON$/.exec(message) ?? [];
  if (says === undefined) return message;
  return `${says} in line ${text.slice(0, text.indexOf(quote) + (isCut ? QUOTED_BEFORE : 0)).split("\n").length}`;
}

function fromFile(file: string, isNamed: boolean): Values {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    if (!isNamed && codeOf(error) === "ENOENT") return {};
    if (codeOf(error) === "EISDIR") throw new ConfigError(`--config ${file}: it is a folder: name the file in it`);
    throw new ConfigError(`--config ${file}: ${(error as Error).message}`);
  }
  // A name that was misread is another one: the station would wait for jobs of a station that there isn't.
  if (!isUtf8(bytes)) throw new ConfigError(`--config ${file}: it isn't UTF-8: save it as that`);
  const text = bytes.toString("utf8").replace(BYTE_ORDER_MARK, "");
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new ConfigError(`--config ${file}: it isn't JSON: ${withoutQuote((error as Error).message, text)}`);
  }
  if (!isObject(parsed)) throw new ConfigError(`--config ${file}: it isn't one JSON object: { … }`);
  const twice = nameTwice(text, parsed);
  if (twice !== undefined) throw new ConfigError(`--config ${file}: the name ${JSON.stringify(twice)} stands twice in an object of it`);
  return parsed;
}

export const keyInEnvironment = (): string | undefined => process.env[`${PREFIX}KEY`];
/** What this environment sets, by name. */
export const variablesSet = (): string[] => Object.keys(process.env).filter((name) => name.startsWith(PREFIX) && process.env[name]);

/** The file's values, and over them the environment's. */
export function loadAgentConfig(file: string | undefined, env: Record<string, string | undefined> = process.env): AgentConfig {
  const set = fromEnvironment(env);
  const given = { ...fromFile(file ?? DEFAULT_FILE, file !== undefined), ...set };
  if (file === undefined && Object.keys(given).length === 0)
    throw new ConfigError(
      `there is no ${DEFAULT_FILE}: make one with imprimatur agent enroll, name a file with --config FILE, or set ${PREFIX}KEY and ${PREFIX}PRINTERS`,
    );
  try {
    return agentConfigFrom(given);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const [name = ""] = /^\w*/.exec(error.message) ?? [];
    const inFile = file ?? (existsSync(DEFAULT_FILE) ? DEFAULT_FILE : `the environment, as there is no ${DEFAULT_FILE}`);
    throw new ConfigError(`${Object.hasOwn(set, name) ? variableOf(name) : inFile}: ${error.message}`);
  }
}
