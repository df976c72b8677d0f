// No bench rots unseen: each of them runs, once and small, beside real servers and a real browser.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { endsWithUs } from "../../fixtures/with-us.ts";

const program = fileURLToPath(new URL("../../.runtime/run.mjs", import.meta.url));

test("in brief, every bench runs to its end", async () => {
  const child = endsWithUs(spawn(process.execPath, [program, "bench", "--brief"], { stdio: ["ignore", "pipe", "pipe"] }));
  const [out, wrong, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  expect(wrong).toBe("");
  const lines = out.trimEnd().split("\n");
  expect(lines.filter((line) => !/^(ran  \w+: |skipped: )/.test(line))).toEqual([]);
  expect(new Set(lines.map((line) => line.split(/ +|:/)[1]))).toContain("station"); // the last one
  expect(code).toBe(0);
}, 900_000);
