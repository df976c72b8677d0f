// What was typed after a command of the cloud's.
import { parseArgs } from "node:util";
import { argumentsWith } from "#shared/arguments.ts";

export const argumentsOf = argumentsWith(parseArgs, (usage) => {
  process.stdout.write(`usage: ${usage}\n`);
  process.exit(0);
});
