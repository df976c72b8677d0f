// What imprimatur agent is told to do: run the station, or one of its commands. Whatever goes wrong ends in one line and an exit code.
import { argumentsOf, ConfigError } from "#shared/arguments.ts";
import { Refusal } from "#shared/errors.ts";
import { nearest } from "#shared/nearest.ts";
import { addressFault } from "./address.ts";

type Command = {
  says: string;
  /** Its exit code where it couldn't do what it was told, where 1 is one of its answers. */
  trouble?: 2;
  run(argv: string[]): Promise<number>;
};
const commands: Record<string, Command> = {
  enroll: {
    says: "make this station known to its cloud and write its settings",
    run: async (argv) => (await import("./enroll.ts")).enroll(argv),
  },
  doctor: {
    says: "look at everything the station needs and say what is wrong",
    run: async (argv) => (await import("./doctor.ts")).doctor(argv),
  },
  missing: {
    says: "list the labels sealed here that a cloud which was set back doesn't have; --recover brings them back",
    trouble: 2,
    run: async (argv) => (await import("./missing.ts")).missing(argv),
  },
  install: { says: "run it as a service of this machine", run: async (argv) => (await import("./install.ts")).install(argv) },
};
const STATION = "imprimatur agent [--config FILE]";
const usage = (): string => {
  const others = Object.entries(commands).map(([name, { says }]) => `       imprimatur agent ${name} [options]   ${says}`);
  return [`usage: ${STATION}`, ...others].join("\n");
};

/** A command, or the station itself; the process ends with one line where it can't work. */
export async function runAgent(): Promise<void> {
  const argv = process.argv.slice(2);
  let trouble = 1;
  try {
    process.umask(0o077);
    const [first = "", ...rest] = argv;
    if (["help", "--help", "-h"].includes(first)) return void process.stdout.write(`${usage()}\n`);
    const command = commandOf(first);
    trouble = command?.trouble ?? 1;
    if (command) process.exitCode = await command.run(rest);
    else await work(argv);
  } catch (error) {
    process.stderr.write(`imprimatur agent: ${whyNot(error as Error)}\n`);
    const code = error instanceof ConfigError ? Math.max(error.exitCode, trouble) : trouble;
    process.stdout.write("", () => process.exit(code)); // what was said before is heard whole: a pipe takes 64 KB at once
  }
}
async function work(argv: string[]): Promise<void> {
  const { config } = argumentsOf(STATION, { config: { type: "string" } }, argv);
  const { serve } = await import("./serve.ts");
  await serve(config);
}
function commandOf(name: string): Command | undefined {
  if (name === "" || name.startsWith("-")) return undefined;
  const names = Object.keys(commands);
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command)
    throw new ConfigError(
      `there is no command ${name}; did you mean ${nearest(name, names)}? Without a command it runs the station: ${STATION}`,
      2,
    );
  return command;
}

function whyNot(error: Error & { code?: string }): string {
  const { code = "", message } = error;
  if (error instanceof ConfigError || error instanceof Refusal) return message;
  const unheard = addressFault(error);
  if (unheard !== undefined) return unheard;
  if (/^(EACCES|ENOENT|EROFS|ENOTDIR|EISDIR|ENOSPC|ELOOP|ENAMETOOLONG|SQLITE_(CANTOPEN|READONLY|FULL|IOERR).*)$/.test(code))
    return `${message}: see dataDir`;
  return `can't start: ${message}`;
}
