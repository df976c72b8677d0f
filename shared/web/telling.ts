// A sentence that others keep, said in the reader's language: those of the table in its words, and in quotation marks whatever is somebody else's.
import { type ErrorCode, errors } from "../errors.ts";
import { heard, partsOf, type Saying } from "../sayings.ts";
import { type Children, h } from "./dom.ts";

/** In one language; English has no words for refusals, whose own are English. */
export type Told = {
  sayings: Readonly<Record<Saying, string>>;
  refusals: Readonly<Partial<Record<ErrorCode, string>>>;
  /** Where this language doesn't write them as the kept sentences do. */
  marks?: Readonly<Record<Mark, string>>;
};
type Mark = "; " | ", " | ": " | " (" | ")";
const mark = ({ marks }: Told, one: Mark): string => marks?.[one] ?? one;
export type ToldAbroad = Told & { refusals: Readonly<Record<ErrorCode, string>> };

type Part = string | { theirs: string; lang?: "en" };
/** What is put in there is a sentence; elsewhere it is a name or a number, which says the same in every language. */
const SENTENCES = new Set(["why", "words", "reason", "doubt", "faults", "state", "kind", "count", "waiting"]);

/** Sentences within sentences: ours are never so deep, and somebody else's may be made to be looked at for hours. */
const DEEPEST = 8;
type Within = Told & { depth?: number };
/** Undefined where it is nobody's sentence that is known here. */
export function tell(outer: Within, text: string): Part[] | undefined {
  const { depth = 0 } = outer;
  if (depth >= DEEPEST) return undefined;
  const told: Within = { ...outer, depth: depth + 1 };
  const known = heard(text);
  const said = known && filled(told, told.sayings[known.name], known.put);
  if (known && Object.keys(known.put).length === 0) return said;
  // The first of a list might take the others for what was put into it.
  return listed(told, text) ?? said ?? refusal(told, text) ?? addressed(told, text) ?? explained(told, text);
}

function filled(told: Told, words: string, put: Readonly<Record<string, string>>): Part[] {
  return partsOf(words).flatMap((part, i): Part[] => (i % 2 === 0 ? [part] : putIn(told, part, put[part] ?? "")));
}
function putIn(told: Told, hole: string, value: string): Part[] {
  if (!SENTENCES.has(hole) || /^\d*$/.test(value)) return [value];
  const [, inner] = /^ \((.*)\)$/s.exec(value) ?? [];
  return inner === undefined
    ? (tell(told, value) ?? [{ theirs: value }])
    : [mark(told, " ("), ...putIn(told, hole, inner), mark(told, ")")];
}

/** `CODE: message`, as reasons of jobs have it that were refused. */
function refusal(told: Told, text: string): Part[] | undefined {
  const [, code = "", message = ""] = /^([A-Za-z_]{4,}): (.*)$/s.exec(text) ?? [];
  return told.refusals[code as ErrorCode] === undefined ? undefined : refused(told, { code, message });
}
/** In the words of its message, where these are known here; else in its code's, with what the message says beyond those: better in English than not at all. */
function refused(told: Told, { code, message }: { code: string; message: string }): Part[] | undefined {
  const words = told.refusals[code as ErrorCode];
  const known = message === "" ? undefined : tell(told, message);
  if (known || words === undefined) return known;
  const isMore = message !== "" && message !== errors[code as ErrorCode].says;
  return [words.replace(/[.。]$/, ""), ...(isMore ? [mark(told, " ("), { theirs: message, lang: "en" as const }, mark(told, ")")] : [])];
}
function listed(told: Told, text: string): Part[] | undefined {
  for (const between of ["; ", ", "] as const) {
    const each = text.split(between).map((one, _, all) => (all.length > 1 ? tell(told, one) : undefined));
    if (each.every((one) => one !== undefined)) return each.flatMap((one, i) => (i === 0 ? one : [mark(told, between), ...one]));
  }
  return undefined;
}
/** Of a port, of a field, of a state: whose it is, and what. */
function addressed(told: Told, text: string): Part[] | undefined {
  const [, of = "", rest = ""] = /^(\S+): (.*)$/s.exec(text) ?? [];
  const said = rest === "" ? undefined : tell(told, rest);
  return said && [...(tell(told, of) ?? [of]), mark(told, ": "), ...said];
}
function explained(told: Told, text: string): Part[] | undefined {
  const [, head = "", code = ""] = /^(.*) \(([A-Z_]+)\)$/s.exec(text) ?? [];
  const said = head === "" ? undefined : tell(told, head);
  return said && [...said, mark(told, " ("), code, mark(told, ")")];
}

/** In whichever language and direction it is. */
export const quoted = (text: string, lang = ""): Children => h("q", { lang, dir: "auto" }, text);
const shown = (parts: readonly Part[]): Children => parts.map((part) => (typeof part === "string" ? part : quoted(part.theirs, part.lang)));
export function inWords(told: Told, text: string): Children {
  const parts = tell(told, text);
  return parts ? shown(parts) : quoted(text);
}
/** Of what is said here alone. */
export function sayingInWords(told: Told, text: string): Children {
  const parts = tell(told, text);
  return parts && shown(parts);
}
export function refusalInWords(told: Told, refusal: { code: string; message: string }): Children {
  const parts = refused(told, refusal);
  return parts && shown(parts);
}
