// The agent's log: JSON lines on stdout, pretty on a terminal; its last lines stay at hand for the console.
import { Writable } from "node:stream";
import pino, { type Logger } from "pino";
import { type LogOut, logToStdout, logToTerminal } from "#shared/log-out.ts";

export type AgentLog = { logger: Logger; last(): string[]; exit: LogOut["exit"] };
const KEPT_LINES = 200;
const redact = {
  paths: ["key", "*.key", "session", "*.session", "badge", "*.badge", "pin", "*.pin", "authorization", "*.authorization"],
  censor: "[redacted]",
};

const standard = () => (process.stdout.isTTY ? logToTerminal() : logToStdout());

export function createAgentLog(level: string, { stream: shown, exit }: Pick<LogOut, "stream" | "exit"> = standard()): AgentLog {
  const lines: string[] = [];
  const keep = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(...chunk.toString("utf8").trimEnd().split("\n"));
      lines.splice(0, Math.max(0, lines.length - KEPT_LINES));
      done();
    },
  });
  const stream = pino.multistream([
    { level: level as pino.Level, stream: shown },
    { level: "debug", stream: keep },
  ]);
  const logger = pino(
    {
      level: level === "trace" ? "trace" : "debug",
      base: null,
      redact,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    stream,
  );
  return { logger, last: () => [...lines], exit };
}
