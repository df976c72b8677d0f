// What was typed after a command: every option is known, or the line says which one was meant.
import { parseArgs } from "node:util";
import { nearest } from "#shared/nearest.ts";
import { ConfigError } from "./config.ts";

type Options = Record<string, { type: "string"; multiple?: true } | { type: "boolean" }>;
type Given<O extends Options> = {
  [Name in keyof O]?: O[Name] extends { multiple: true } ? string[] : O[Name]["type"] extends "string" ? string : boolean;
};

export function argumentsOf<O extends Options>(command: string, options: O, argv: string[]): Given<O> {
  const { tokens } = parseArgs({ args: argv, options, strict: false, tokens: true });
  for (const token of tokens)
    if (token.kind === "option" && !Object.hasOwn(options, token.name))
      throw typo(command, options, `there is no option ${token.rawName}; did you mean --${nearest(token.name, Object.keys(options))}?`);
  try {
    return parseArgs({ args: argv, options, strict: true }).values;
  } catch (error) {
    throw typo(command, options, (error as Error).message.replaceAll(/\s+/g, " "));
  }
}

const typo = (command: string, options: Options, words: string) =>
  new ConfigError(
    `${words} (usage: imprimatur ${command === "agent" ? "agent" : `agent ${command}`} ${Object.entries(options)
      .map(([name, { type }]) => `[--${name}${type === "string" ? ` ${name.toUpperCase()}` : ""}]`)
      .join(" ")})`,
    2,
  );
