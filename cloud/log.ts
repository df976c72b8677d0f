// The log: JSON lines on stdout, pretty on a terminal, and no secret in either.
import pino, { type DestinationStream, type Logger } from "pino";

const SECRETS = ["secret", "client_secret", "clientSecret", "access_token", "password", "authorization", "key", "bootstrapKey"];
/** At the top, one and two levels down, and where request headers would be. */
const redact = {
  paths: [...SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), '*["x-api-key"]', '*.*["x-api-key"]', '*["set-cookie"]'],
  censor: "[redacted]",
};

export function createLog(level: string, destination?: DestinationStream): Logger {
  const options = { level, redact, base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (label: string) => ({ level: label }) } };
  if (destination) return pino(options, destination);
  if (process.stdout.isTTY) return pino({ ...options, transport: { target: "pino-pretty", options: { ignore: "event", translateTime: "HH:MM:ss.l" } } });
  return pino(options, pino.destination({ fd: 1, sync: false, minLength: 4_096, periodicFlush: 200 }));
}
