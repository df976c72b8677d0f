#!/usr/bin/env node
// Starts any of our programs, from a bare clone or as npm installed it: finds or brings a fit Node, installs what the lock file names, steps aside.
// Plain JavaScript for old Nodes: this file is what runs before the right one is there.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import "./unread.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const MIN = [24, 21]; // node:crypto's randomUUIDv7 came with it

/** npm leaves the lock file out of a tarball: without it this isn't a clone, and whoever installed it has seen to the packages. */
const isClone = existsSync(join(root, "package-lock.json"));

const programs = {
  start: { file: "fixtures/start.ts", does: "a cloud and a simulated print station here: takes one label to SEALED, and stays up" },
  cloud: { file: "cloud/main.ts", does: "the cloud alone" },
  agent: { file: "agent/main.ts", does: "one print station; also its enroll, install and doctor" },
  floor: { file: "fixtures/run-floor.ts", does: "a simulated print floor of many stations, labels and faults" },
  simulate: { file: "", does: "one simulated device or service, named next" },
  verify: { file: "cloud/verify.ts", does: "what holds of a passport, a proof or a print's evidence" },
  backup: { file: "cloud/backup.ts", does: "a copy of a SQLite cloud while it runs" },
  restore: { file: "cloud/restore.ts", does: "a data folder from such a copy" },
  doctor: { file: "cloud/doctor.ts", does: "what is wrong with this cloud's settings, machine and records" },
};
const tools = {
  test: {
    file: "node_modules/vitest/vitest.mjs",
    args: ["run", "--config", "test/vitest.config.ts"],
    does: "every test, on SQLite and PostgreSQL",
  },
  check: { file: "test/house/check.ts", takes: "", does: "types, lint, format, dead and duplicate code, OpenAPI" },
  bench: { file: "test/bench/index.ts", takes: "[--brief] [NAME]...", does: "the benchmarks, beside their peers" },
  soak: {
    file: "test/faults/soak.ts",
    takes: "[--minutes N | --seeds N] [--seed S] [--engine sqlite|postgres] [--nodes N]",
    does: "a floor under faults for long: --minutes N or --seeds N",
  },
  readme: { file: "test/house/readme.ts", takes: "[--check]", does: "writes the README's tables anew" },
  verdict: { file: "test/house/verdict.ts", takes: "REPORT CHECKS TESTS", does: "a test report in one line, for CI" },
};
/** What `imprimatur simulate NAME` starts. */
const simulators = {
  zpl: "fixtures/printers/zpl.ts",
  escpos: "fixtures/printers/escpos.ts",
  ipp: "fixtures/printers/ipp.ts",
  scanner: "fixtures/scanners/line.ts",
  camera: "fixtures/scanners/camera.ts",
  receiver: "fixtures/receiver.ts",
  anchor: "fixtures/anchor.ts",
  registry: "fixtures/registry.ts",
};

/** What `imprimatur NAME` runs: a file of ours, or the command line of a tool that only a clone has. */
const commands = isClone ? { ...programs, ...tools } : programs;

const say = (line) => process.stderr.write(`imprimatur: ${line}\n`);
const die = (line) => {
  say(line);
  process.exit(1);
};
const fit = (version) => {
  const [major, minor] = version.replace(/^v/, "").split(".").map(Number);
  return major > MIN[0] || (major === MIN[0] && minor >= MIN[1]);
};
const readJson = (file) => {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return { packages: {} }; // absent or half-written: the same as not installed
  }
};

/** True when what is installed is what the lock file says (packages for other platforms aside). Where none of this platform's is there they were left out, and packers need theirs. */
function installed(folder) {
  const { packages: wanted } = readJson(join(folder, "package-lock.json"));
  const { packages: present } = readJson(join(folder, "node_modules/.package-lock.json"));
  const asWanted = ([path, { version, integrity, optional }]) =>
    path === "" || (present[path] ? present[path].version === version && present[path].integrity === integrity : optional);
  const isForHere = ([, { optional, os, cpu }]) => optional && os?.includes(process.platform) && cpu?.includes(process.arch);
  const forHere = Object.entries(wanted).filter(isForHere);
  const areLeftOut = forHere.length > 0 && forHere.every(([path]) => !present[path]);
  return Object.keys(present).length > 0 && !areLeftOut && Object.entries(wanted).every(asWanted);
}

const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
const alive = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === "EPERM";
  }
};

/** One installer at a time in a clone: a folder is made or it isn't; its owner's death frees it. */
function alone(work) {
  const lock = join(here, ".installing");
  for (let waited = 0; ; waited += 200) {
    try {
      mkdirSync(lock);
      break;
    } catch (error) {
      if (error.code !== "EEXIST")
        die(`can't write to ${here} (${error.code}): run this once as the owner of that folder, or use Node ${MIN.join(".")} or newer`);
      let owner = 0;
      try {
        owner = Number(readFileSync(join(lock, "pid"), "utf8"));
      } catch {
        owner = waited < 5_000 ? process.pid : 0; // the owner has just made the folder and not yet signed it
      }
      if (!owner || !alive(owner)) rmSync(lock, { recursive: true, force: true });
      else {
        if (waited === 0) say("another installation is running here, waiting for it");
        sleep(200);
      }
    }
  }
  writeFileSync(join(lock, "pid"), String(process.pid));
  try {
    work();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

function install(folder, what) {
  if (installed(folder)) return;
  alone(() => {
    if (installed(folder)) return;
    say(`installing ${what} (once; npm ci in ${folder})`);
    const npm = process.env.npm_execpath;
    const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--include=dev", "--include=optional"];
    const [command, argv] = npm && /\.c?js$/.test(npm) ? [process.execPath, [npm, ...args]] : ["npm", args];
    // What npm run sets for its own child would point the inner npm at the outer package and its flags.
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !/^npm_(package|lifecycle|command|config_local_prefix)/i.test(name)),
    );
    const umask = process.umask(0o022); // whoever may read this package has to be able to run it, a service's own user too
    const { status, error } = spawnSync(command, argv, { cwd: folder, stdio: ["ignore", 2, 2], env, shell: process.platform === "win32" });
    process.umask(umask);
    if (status !== 0) die(`npm ci failed in ${folder}${error ? `: ${error.message}` : ""}; is a package registry reachable?`);
    if (!installed(folder))
      die(`npm ci ended well in ${folder}, yet what the lock file names isn't all there; remove node_modules and try again`);
  });
}

function fitNode() {
  if (fit(process.version)) return process.execPath;
  const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
  const { packages } = readJson(join(here, "package-lock.json"));
  if (!packages[`node_modules/${name}`])
    die(
      `this machine's Node is ${process.version}; ${MIN.join(".")} or newer is needed, and none can be brought for ${process.platform}-${process.arch}: install one from nodejs.org`,
    );
  install(here, "the Node.js that Imprimatur runs on");
  const node = join(here, "node_modules", name, process.platform === "win32" ? "bin/node.exe" : "bin/node");
  if (!existsSync(node)) die(`${node} is missing; remove ${join(here, "node_modules")} and try again`);
  return node;
}

/** What runs for long, as few files of plain JavaScript, packed anew when a source of it changed; undefined where that can't be written. */
function packed(program, source) {
  try {
    const digest = createHash("sha256").update(root);
    for (const place of [program, "shared", ".runtime/pack-program.mjs", "package.json"]) {
      const inside = statSync(join(root, place)).isDirectory() ? readdirSync(join(root, place), { recursive: true }).sort() : [""];
      for (const path of inside) {
        const { mtimeMs, size } = statSync(join(root, place, path));
        digest.update(`${place}/${path} ${mtimeMs} ${size}\n`);
      }
    }
    const kept = join(root, "node_modules/.cache/imprimatur");
    for (const name of existsSync(kept) ? readdirSync(kept) : []) {
      const maker = /^(?:agent|cloud)-[0-9a-f]+\.(\d+)$/.exec(name)?.[1]; // half-made by a start that was killed
      if (maker && !alive(Number(maker))) rmSync(join(kept, name), { recursive: true, force: true });
    }
    const dir = join(kept, `${program}-${digest.digest("hex").slice(0, 16)}`);
    if (!existsSync(dir)) {
      const making = `${dir}.${process.pid}`;
      mkdirSync(making, { recursive: true });
      const { status, stderr } = spawnSync(node, [join(here, "pack-program.mjs"), join(root, source), making], { cwd: root });
      const why = [...`${stderr}`.matchAll(/Error: (.+)/g)].at(-1)?.[1] ?? `exit ${status}`;
      if (status !== 0) say(`the ${program} runs unpacked, and takes more memory: ${why}`);
      try {
        if (status === 0) renameSync(making, dir);
      } catch {
        // another start was faster, and made the same
      }
      rmSync(making, { recursive: true, force: true });
    }
    const main = join(dir, "main.mjs");
    return existsSync(main) ? main : undefined; // another user may have made it for himself alone
  } catch {
    return undefined; // a folder of root's: the sources run as they stand, and take 25 MB more
  }
}

const [name, ...rest] = process.argv.slice(2);
/** Asked for, it is the answer; else it is what should have been typed. */
function tell(usage, wrong) {
  if (wrong) say(wrong);
  process[wrong ? "stderr" : "stdout"].write(`${usage}\n`);
  process.exit(wrong ? 2 : 0);
}
/** As shared/nearest.ts has it, which an old Node can't read, and two letters that changed places are one slip; of short words alone, as this takes each way there is. */
const distance = (a, b) =>
  a && b
    ? Math.min(
        distance(a.slice(1), b) + 1,
        distance(a, b.slice(1)) + 1,
        distance(a.slice(1), b.slice(1)) + (a[0] === b[0] ? 0 : 1),
        a[0] === b[1] && a[1] === b[0] ? distance(a.slice(2), b.slice(2)) + 1 : Infinity,
      )
    : a.length + b.length;
function meant(word, known) {
  const slips = (name) => distance(word.toLowerCase().slice(0, 7), name.slice(0, 7));
  const [nearest] = Object.keys(known).sort((a, b) => slips(a) - slips(b));
  return `"${word}"${slips(nearest) * 3 <= nearest.length ? `; did you mean ${nearest}?` : ""}`;
}
const isHelp = (word) => !word || ["--help", "-h", "help"].includes(word);
if (name === "--version") {
  process.stdout.write(`${readJson(join(root, "package.json")).version}\n`);
  process.exit(0);
}
if (isHelp(name) || !Object.hasOwn(commands, name))
  tell(
    `usage: imprimatur COMMAND [options]; COMMAND --help tells what it takes\n${Object.entries(commands)
      .map(([command, { does }]) => `  ${command.padEnd(10)}${does}`)
      .join("\n")}`,
    isHelp(name) ? "" : `there is no command ${meant(name, commands)}`,
  );
const simulated = name === "simulate" ? rest.shift() : undefined;
if (name === "simulate" && (isHelp(simulated) || !Object.hasOwn(simulators, simulated)))
  tell(
    `usage: imprimatur simulate ${Object.keys(simulators).join("|")} [options]; NAME --help tells what it takes`,
    isHelp(simulated) ? "" : `there is no simulator ${meant(simulated, simulators)}`,
  );
const { file, args = [], takes } = simulated ? { file: simulators[simulated] } : commands[name];
if (takes !== undefined && (rest.includes("--help") || rest.includes("-h"))) tell(`usage: imprimatur ${name} ${takes}`.trimEnd()); // what has no parser of its own

const node = fitNode();
if (isClone) install(root, "what the lock file names");
if (!existsSync(join(root, file))) die(`${resolve(root, file)} is missing`);

const isService = name === "agent" || name === "cloud";
const serves = isService && !rest.some((word, i) => (i === 0 && /^\w/.test(word)) || /^(--help|-h)$/.test(word)); // and isn't one of its commands: its log bears that nobody reads it
const main = isService ? packed(name, file) : undefined;
const argv = [
  // Left alone, V8 takes memory by the size of the machine. A station is idle most of the time; a cloud that collects more often keeps its callers waiting.
  ...(name === "agent"
    ? ["--max-semi-space-size=1", "--heap-growing-percent=60"]
    : ["--max-semi-space-size=32", "--heap-growing-percent=150"]),
  ...(name === "cloud" ? ["--expose-gc"] : []), // what its start leaves behind is given back at once
  "--disable-warning=ExperimentalWarning", // the console's pages are blanked of their types by node:module, which still says so
  ...(isClone || main ? [] : ["--import", pathToFileURL(join(here, "strip.mjs")).href]),
  ...(serves ? [] : ["--import", pathToFileURL(join(here, "unread.mjs")).href]),
  main ?? join(root, file),
  ...args.map((arg) => (arg.endsWith(".config.ts") ? join(root, arg) : arg)),
  ...rest,
];
const env = {
  ...process.env,
  // glibc gives back what is needed no more: 5 MB, and of what V8 compiles in, 32 kB at a time, another 6.
  ...(name === "agent" ? { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072", MALLOC_MMAP_THRESHOLD_: "32768" } : {}),
  PATH: `${dirname(node)}${delimiter}${join(root, "node_modules/.bin")}${delimiter}${process.env.PATH ?? ""}`,
};
// Nobody waits for us but a user or systemd: we become the service, instead of holding 45 MB beside it.
if (isService && process.execve && process.platform === "linux" && !process.env.npm_lifecycle_event) {
  process.removeAllListeners("warning");
  process.execve(node, [node, ...argv], env);
}

const child = spawn(node, argv, {
  stdio: "inherit",
  env,
  ...(["test", "check", "bench", "readme", "soak"].includes(name) ? { cwd: root } : {}),
});
// A terminal's Ctrl-C reaches the whole group, the child included; what is sent to us alone we pass on, so that it drains.
const passed = new Set();
const pass = (signal) => passed.has(signal) || (passed.add(signal), child.kill(signal)); // once: to many programs a second one means "at once"
process.on("SIGTERM", () => pass("SIGTERM"));
process.on("SIGHUP", () => pass("SIGTERM"));
process.on("SIGINT", () => process.stdin.isTTY || pass("SIGINT"));
// npm run dies of a SIGTERM without passing it on, and its shell lives on: what it started must not hold the data folder.
const grandparent = () => Number(/\) \w (\d+)/.exec(readFileSync(`/proc/${process.ppid}/stat`, "utf8"))?.[1]);
if (process.env.npm_lifecycle_event && process.platform === "linux") {
  const npm = grandparent();
  setInterval(() => grandparent() === npm || pass("SIGTERM"), 250).unref();
}
child.on("error", (error) => die(`can't run ${node}: ${error.message}`));
child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 1)));
