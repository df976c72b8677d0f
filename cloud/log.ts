// The log: JSON lines on stdout, pretty on a terminal, and no secret in either.
import pino, { type Logger } from "pino";
import { type LogOut, logToStdout, logToTerminal } from "#shared/log-out.ts";

const SECRETS = ["secret", "client_secret", "clientSecret", "access_token", "password", "authorization", "key", "bootstrapKey"];
/** Where PostgreSQL says what it refuses: all of a row, or of the values that it was asked with. */
const QUOTES = ["err.detail", "err.where"];
/** At the top, one and two levels down, and where request headers would be. */
const redact = {
  paths: [
    ...QUOTES,
    ...SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
    '*["x-api-key"]',
    '*.*["x-api-key"]',
    '*["set-cookie"]',
  ],
  censor: "[redacted]",
};

export type Log = Logger & {
  /** For the line that every request writes: fixed fields, none of them a secret, so it isn't searched for any (35 µs a line). */
  plain: Logger;
} & Pick<LogOut, "exit" | "die">;

const AT_ONCE_BYTES = 4_096;
const standard = () => (process.stdout.isTTY ? logToTerminal() : logToStdout(AT_ONCE_BYTES));

export function createLog(level: string, { stream, exit, die }: LogOut = standard()): Log {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return Object.assign(pino({ ...options, redact }, stream), { plain: pino(options, stream), exit, die });
}
