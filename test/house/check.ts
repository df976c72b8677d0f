// npm run check: types, lint, format, dead code, duplicate code, OpenAPI lint, README tables, advisories; every tool runs, then the verdict.
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";

const checks: Record<string, string[]> = {
  types: ["tsc", "--noEmit"],
  "types of pages": ["tsc", "--noEmit", "-p", "cloud/web/console"],
  lint: ["oxlint", "--type-aware", "--deny-warnings", "."],
  "types of the station's page": ["tsc", "--noEmit", "-p", "agent/web"],
  format: ["oxfmt", "--check", "."],
  "dead code": ["knip", "--no-progress"],
  "duplicate code": [
    "jscpd",
    "shared",
    "cloud",
    "agent",
    "fixtures",
    "test",
    "--min-lines",
    "8",
    "--min-tokens",
    "80",
    "--exitCode",
    "1",
    "--reporters",
    "console",
    "--format",
    "typescript",
  ],
  "OpenAPI document": ["node", "test/house/lint-openapi.ts"],
  advisories: ["node", "test/house/advisories.ts"],
  "README tables": ["node", "test/house/readme.ts", "--check"],
};

type Result = { name: string; code: number; output: string; seconds: number };

function run(name: string, [command = "", ...args]: string[]): Promise<Result> {
  const began = performance.now();
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], shell: process.platform === "win32" });
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => chunks.push(chunk));
  return new Promise((resolve) => {
    const end = (code: number | null) =>
      resolve({ name, code: code ?? 1, output: Buffer.concat(chunks).toString("utf8"), seconds: (performance.now() - began) / 1000 });
    child.on("error", (error) => {
      chunks.push(Buffer.from(error.message));
      end(1);
    });
    child.on("close", end);
  });
}

const waiting = Object.entries(checks);
const failed: string[] = [];
async function worker(): Promise<void> {
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const { name, code, output, seconds } = await run(...next);
    process.stdout.write(`${code === 0 ? "ok  " : "FAIL"} ${name} (${seconds.toFixed(1)} s)\n`);
    if (code === 0 && output.startsWith("note: ")) process.stdout.write(`     ${output}`);
    if (code !== 0) {
      failed.push(name);
      process.stdout.write(`${output.trimEnd()}\n`);
    }
  }
}
await Promise.all(Array.from({ length: availableParallelism() }, worker));
process.stdout.write(failed.length === 0 ? "check: all clean\n" : `check: ${failed.join(", ")} failed\n`);
process.exitCode = failed.length === 0 ? 0 : 1;
