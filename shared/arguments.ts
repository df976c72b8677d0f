// What was typed after a command: every option is known, or the line says which one was meant; --help says what there is.
import { parseArgs } from "node:util";
import { nearest } from "./nearest.ts";

/** A fault of the operator's: shown as one line, without a stack. */
export class ConfigError extends Error {
  /** 2 where it is in what was typed. */
  readonly exitCode: 1 | 2;
  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

export type Options = Record<string, { type: "string"; multiple?: true } | { type: "boolean" }>;
export type Given<O extends Options> = {
  [Name in keyof O]?: O[Name] extends { multiple: true } ? string[] : O[Name]["type"] extends "string" ? string : boolean;
};

/** A key whose --key was forgotten isn't shown again, in a log of a script maybe. */
const shown = (word: string): string => (word.startsWith("imp_") ? "a key" : `"${word}"`);

/** The options' values, and the words between them: at most so many. */
export function argumentsOf<O extends Options>(usage: string, options: O, argv: string[], words = 0): Given<O> & { words: string[] } {
  if (argv.includes("--help") || argv.includes("-h")) {
    process.stdout.write(`usage: ${usage}\n`);
    process.exit(0);
  }
  const typo = (says: string) => new ConfigError(`${says} (usage: ${usage})`, 2);
  const { tokens } = parseArgs({ args: argv, options, strict: false, allowPositionals: true, tokens: true });
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    if (!Object.hasOwn(options, token.name))
      throw typo(`there is no option ${token.rawName}; did you mean --${nearest(token.name, Object.keys(options))}?`);
    if (token.value === "") throw typo(`${token.rawName} has nothing behind it`); // what a script says with a variable that isn't set
  }
  try {
    const { values, positionals } = parseArgs({ args: argv, options, strict: true, allowPositionals: true });
    const [extra] = positionals.slice(words);
    if (extra !== undefined) throw new Error(`${shown(extra)} is one word too many`);
    return { ...(values as Given<O>), words: positionals };
  } catch (error) {
    throw typo((error as Error).message.replaceAll(/\s+/g, " "));
  }
}
