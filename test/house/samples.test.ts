// The README's verification samples, run as they stand against what the cloud really sends, and against a library that never heard of us.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { freshFolder } from "../endings.ts";
import { hooked } from "../hooks.ts";
import { world } from "../world.ts";

const folder = freshFolder("samples");
const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const sample = (language: string): string => {
  const found = new RegExp(`<!-- sample: ${language} -->\n\`\`\`\\w+\n([\\s\\S]*?)\n\`\`\``).exec(readme)?.[1];
  if (!found) throw new Error(`the README has no sample for ${language}`);
  return found;
};
writeFileSync(join(folder, "sample.mjs"), sample("node"));
writeFileSync(join(folder, "sample.py"), sample("python"));
writeFileSync(
  join(folder, "run.mjs"),
  `import { readFileSync } from "node:fs"; import { isGenuine } from "./sample.mjs";
   const cases = JSON.parse(readFileSync(0, "utf8"));
   console.log(JSON.stringify(cases.map(({ headers, body, secret, now }) => isGenuine(headers, Buffer.from(body), secret, now))));`,
);
writeFileSync(
  join(folder, "run.py"),
  `import json, sys\nfrom sample import is_genuine\ncases = json.load(sys.stdin)
print(json.dumps([is_genuine(c["headers"], c["body"].encode(), c["secret"], c.get("now")) for c in cases]))`,
);

type Case = { headers: Record<string, string>; body: string; secret: string; now?: number };
const run = (command: string, file: string, cases: Case[]) =>
  JSON.parse(execFileSync(command, [join(folder, file)], { input: JSON.stringify(cases), encoding: "utf8" })) as boolean[];
const hasPython = (() => {
  try {
    return execFileSync("python3", ["--version"], { encoding: "utf8" }).startsWith("Python 3");
  } catch (error) {
    process.stdout.write(`the README's Python sample isn't run: ${(error as Error).message}\n`);
    return false;
  }
})();

const w = await world({ settings: { IMPRIMATUR_WEBHOOK_PRIVATE: "on" } });

async function cases(): Promise<{ good: Case[]; bad: Case[] }> {
  const h = await hooked(w, ["print.failed"]);
  const old = h.secret;
  await h.emit("print.failed", { serials: ["1"], failures: [{ serial: "1", reason: "Farbband leer – größtenteils ✓" }] });
  await expect.poll(() => h.receiver.received.length).toBe(1);
  const { secret } = (await h.admin.post(`${h.path}/rotate-secret`)).body;
  await h.admin.post(`${h.path}/test`);
  await expect.poll(() => h.receiver.received.length).toBe(2);
  const [first, second] = h.receiver.received.map(({ headers, body }) => ({ headers: headers as Record<string, string>, body }));
  const single = { ...first!, secret: old };
  const signature = single.headers["x-service-signature-v2"]!;
  const at = Number(single.headers["x-service-timestamp"]);
  const signed = (value: string): Case => ({ ...single, headers: { ...single.headers, "x-service-signature-v2": value } });
  return {
    good: [single, { ...second!, secret }, { ...second!, secret: old }, { ...single, now: at + 299 }, { ...single, now: at - 299 }],
    bad: [
      { ...single, now: at + 301 },
      { ...single, now: at - 301 },
      { ...single, body: `${single.body} ` },
      { ...single, secret },
      { ...single, headers: {} },
      signed(signature.replace(/t=\d+/, `t=${at + 1}`)),
      signed(signature.replace("v2=", "v1=")),
      signed(signature.slice(0, -2)),
      signed(`t=${at},v2=`),
      signed(`t=,v2=${"0".repeat(64)}`),
      signed(`t=${"9".repeat(400)},v2=${"0".repeat(64)}`), // more than Python's numbers with a point hold
      signed(`t=${at},v2=${"é".repeat(64)}`),
    ],
  };
}
const verdicts = ({ good, bad }: { good: Case[]; bad: Case[] }) => [...good.map(() => true), ...bad.map(() => false)];

test("the Node sample believes what is ours and fresh, and nothing else; so does the library of Standard Webhooks", async () => {
  const all = await cases();
  expect(run(process.execPath, "run.mjs", [...all.good, ...all.bad])).toEqual(verdicts(all));
  const believes = ({ headers, body, secret }: Case) => {
    try {
      return new Webhook(secret).verify(body, headers) !== undefined;
    } catch {
      return false;
    }
  };
  expect(all.good.slice(0, 3).map(believes)).toEqual([true, true, true]);
  const [, , tampered, foreign, unsigned] = all.bad;
  expect([tampered!, foreign!, unsigned!].map(believes)).toEqual([false, false, false]);
});

test.runIf(hasPython)("the Python sample believes the same", async () => {
  const all = await cases();
  expect(run("python3", "run.py", [...all.good, ...all.bad])).toEqual(verdicts(all));
});

test("a sample is twenty lines at most", () => {
  for (const language of ["node", "python"]) expect(sample(language).split("\n").length).toBeLessThanOrEqual(20);
});
