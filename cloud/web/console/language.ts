// The languages that the console speaks, and the ways to say something in the chosen one. A new one is a table more.
import { speak } from "#shared/web/language.ts";
import { de } from "./words/de.ts";
import { en, type Words } from "./words/en.ts";
import { es } from "./words/es.ts";
import { zh } from "./words/zh.ts";

export const language = speak<Words>([
  { code: "en", name: "English", words: en },
  { code: "de", name: "Deutsch", words: de },
  { code: "es", name: "Español", words: es },
  { code: "zh-Hans", name: "简体中文", words: zh },
]);
export const words = language.words;
export const count = (value: number): string => language.formats().count(value);
export const moment = (at: string): string => language.formats().moment(at);
