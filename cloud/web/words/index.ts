// The languages that the public pages speak, by the tags that pages and linksets name them by. A new one is a file and a line.
import { de } from "./de.ts";
import { en, type Words } from "./en.ts";
import { es } from "./es.ts";
import { fr } from "./fr.ts";
import { it } from "./it.ts";
import { zh } from "./zh.ts";

/** English for whoever reads none of them. GS1's linkset takes a country behind a language, and no script: so it isn't zh-Hans. */
const table = { en, de, es, fr, it, "zh-CN": zh } satisfies Record<string, Words>;
export type Language = keyof typeof table;
export const words: Readonly<Record<Language, Words>> = table;
export const LANGUAGES = Object.keys(words) as [Language, ...Language[]];
