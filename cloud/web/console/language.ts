// The languages that the console speaks, and the ways to say something in the chosen one. A new one is a table more.
import { speak } from "#shared/web/language.ts";
import { en, type Words } from "./words/en.ts";

export const language = speak<Words>(en, {
  de: () => import("./words/de.ts").then(({ de }) => de),
  es: () => import("./words/es.ts").then(({ es }) => es),
  "zh-Hans": () => import("./words/zh.ts").then(({ zh }) => zh),
});
export const words = language.words;
export const count = (value: number): string => language.formats().count(value);
export const moment = (at: string): string => language.formats().moment(at);
