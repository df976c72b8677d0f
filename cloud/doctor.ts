// imprimatur doctor: looks at everything a node rests on and says a line about each, with what to do; changes nothing, beside a node that runs or not.
import { argumentsOf, ConfigError } from "#shared/arguments.ts";
import { codeOf, reasonOf, wordsOf } from "#shared/fault.ts";
import { type Config, loadConfig } from "./config.ts";
import { bad, type Check, type Finding, type Patient } from "./doctor/finding.ts";
import * as machine from "./doctor/machine.ts";
import * as records from "./doctor/records.ts";
import * as secrets from "./doctor/secrets.ts";
import { createLog } from "./log.ts";
import { openToLook } from "./store/open.ts";
import { remedyOf } from "./store/remedies.ts";

const USAGE = "imprimatur doctor [--json] [--config FILE]";
const checks: Record<string, Check> = {
  settings: machine.settings,
  "data folder": machine.folder,
  disk: machine.disk,
  fsync: machine.sync,
  database: records.database,
  integrity: records.integrity,
  "signing key": secrets.signingKey,
  "sealing key": secrets.sealingKey,
  "bootstrap key": secrets.firstKey,
  log: records.log,
  "audit chains": records.chains,
  evidence: records.evidence,
  clock: records.clock,
  "public URL": records.origins,
  broker: machine.broker,
  webhooks: records.webhooks,
  leases: records.leases,
  cloud: machine.running,
};

type Line = Finding & { check: string };
const REMEDIES: [RegExp, string][] = [
  [/^(EACCES|SQLITE_CANTOPEN)/, "run it as the user that the cloud runs as, or see IMPRIMATUR_DATA_DIR"],
  [/^(ENOSPC|SQLITE_(FULL|IOERR))/, "make room; where there is some, see what is wrong with the disk"],
];
/** Of the disk or the folder, by the code of the innermost fault. */
const diskRemedyOf = (error: unknown): string | undefined =>
  error instanceof Error ? (diskRemedyOf(error.cause) ?? REMEDIES.find(([codes]) => codes.test(codeOf(error)))?.[1]) : undefined;
const faultOf = (error: Error & Partial<Finding>): Finding => {
  const { message, cause, todo } = error;
  if (error.says !== undefined) return bad(error.says, todo ?? "see what it names");
  const says = cause instanceof Error && !message.includes(wordsOf(cause)) ? `${message}: ${wordsOf(cause)}` : message;
  return bad(
    codeOf(error) === "STORE_UNAVAILABLE" ? reasonOf(error) : says, // a store's refusal is worded for callers of the API
    todo ?? diskRemedyOf(error) ?? remedyOf(error) ?? "see what it names",
  );
};

const unreadable = ({ message }: SyntaxError): Finding =>
  bad(`what is kept can't be read, a column isn't what was written: ${message}`, records.RESTORE);

async function findingsOf(look: Check, patient: Patient): Promise<Finding[]> {
  try {
    return [await look(patient)].flat();
  } catch (error) {
    return [error instanceof SyntaxError ? unreadable(error) : faultOf(error as Error)];
  }
}

async function examine(config: Config): Promise<Line[]> {
  const log = createLog("silent");
  const lines: Line[] = [];
  const opened = await openToLook({ dataDir: config.DATA_DIR, databaseUrl: config.DATABASE_URL, log }).catch((error: Error) => error);
  let store = opened instanceof Error ? undefined : opened;
  try {
    for (const [check, look] of Object.entries(checks)) {
      const isShut = check === "database" && opened instanceof Error;
      const findings = isShut ? [faultOf(opened)] : await findingsOf(look, { config, store, log, now: Date.now });
      lines.push(...findings.map((finding) => ({ check, ...finding })));
      if (check === "database" && findings.at(-1)?.mark === "FAIL") store = undefined; // what it holds can't be looked at
    }
    return lines;
  } finally {
    if (!(opened instanceof Error)) await opened?.close();
  }
}

const textOf = ({ check, mark, says, todo }: Line) =>
  `${mark.padEnd(4)} ${check}: ${says}${todo ? `; ${todo}` : ""}`.replaceAll(/\p{Cc}/gu, " ");

async function doctor(argv: string[]): Promise<number> {
  const { config, json } = argumentsOf(USAGE, { json: { type: "boolean" }, config: { type: "string" } }, argv);
  let lines: Line[];
  try {
    lines = await examine(loadConfig(config));
  } catch (error) {
    lines = [{ check: "settings", ...bad((error as Error).message, "see Settings in the README") }];
  }
  process.stdout.write(json ? `${JSON.stringify(lines, null, 2)}\n` : `${lines.map(textOf).join("\n")}\n`);
  return lines.some(({ mark }) => mark === "FAIL") ? 1 : 0;
}

process.umask(0o077);
process.exitCode = await doctor(process.argv.slice(2)).catch((error: Error) => {
  process.stderr.write(`imprimatur: ${error.message}\n`);
  return error instanceof ConfigError ? error.exitCode : 1;
});
