// The log: JSON lines on stdout, pretty on a terminal, and no secret in either.
import pino, { type DestinationStream, type Logger } from "pino";

const SECRETS = ["secret", "client_secret", "clientSecret", "access_token", "password", "authorization", "key", "bootstrapKey"];
/** At the top, one and two levels down, and where request headers would be. */
const redact = {
  paths: [...SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), '*["x-api-key"]', '*.*["x-api-key"]', '*["set-cookie"]'],
  censor: "[redacted]",
};

export type Log = Logger & {
  /** For the line that every request writes: fixed fields, none of them a secret, so it isn't searched for any (35 µs a line). */
  plain: Logger;
  /** Nothing more is written, at the exit neither: it would wait for a reader who stands still. */
  letGo(): void;
};
const nothing = () => {};

export function createLog(level: string, destination = destinationFor(process.stdout.isTTY)): Log {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const letGo = () => void Object.assign(destination, { write: nothing, end: nothing, flushSync: nothing });
  return Object.assign(pino({ ...options, redact }, destination), { plain: pino(options, destination), letGo });
}

function destinationFor(terminal: boolean): DestinationStream {
  if (terminal) return pino.transport({ target: "pino-pretty", options: { ignore: "event", translateTime: "HH:MM:ss.l" } });
  return pino.destination({ fd: 1, sync: false, minLength: 4_096, periodicFlush: 200 });
}
