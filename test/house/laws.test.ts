// The import law and its kin, read from the source itself: who may know whom, and that no row of a table is there for show.
import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { auditActions } from "#shared/audit.ts";
import { type ErrorCode, errors, shownCode } from "#shared/errors.ts";
import { eventNames } from "#shared/events.ts";
import { limits } from "#shared/limits.ts";
import { scopes } from "#shared/scopes.ts";
import { leasedStates } from "#shared/states.ts";
import { Settings as StationSettings } from "../../agent/config.ts";
import { settings } from "../../cloud/config.ts";

const sources = (pattern: string) => globSync(pattern).map((file) => ({ file, text: readFileSync(file, "utf8") }));
const imports = (text: string) => [...text.matchAll(/(?:from|import|require)\s*\(?\s*"([^"]+)"/g)].map(([, name = ""]) => name);

type Law = { of: string; except?: string[]; never: RegExp };
const laws: Law[] = [
  { of: "shared/**/*.ts", never: /cloud\/|agent\/|fixtures\/|^fastify|^node:(?!crypto|util)|^better-sqlite3|^pg$/ },
  { of: "cloud/**/*.ts", never: /agent\/|fixtures\/|test\// },
  { of: "agent/**/*.ts", never: /cloud\/|fixtures\/|test\// },
  { of: "agent/**/*.ts", except: ["agent/port.ts"], never: /^serialport|^node:(net|tls|dgram)/ },
  { of: "cloud/domain/**/*.ts", never: /^fastify|^@fastify|routes\/|workers\// },
  { of: "agent/**/*.ts", except: ["agent/buffer-sql.ts", "agent/buffer-file.ts"], never: /^better-sqlite3|^pg$|^drizzle-orm/ },
  { of: "cloud/**/*.ts", except: ["cloud/store/"], never: /^better-sqlite3|^pg$|^drizzle-orm/ },
];

test.each(laws)("$of never imports $never", ({ of, except = [], never }) => {
  const broken = sources(of)
    .filter(({ file }) => !except.some((folder) => file.startsWith(folder)))
    .flatMap(({ file, text }) =>
      imports(text)
        .filter((name) => never.test(name) && !isTypeOnly(text, name))
        .map((name) => `${file} imports ${name}`),
    );
  expect(broken).toEqual([]);
});

/** Types vanish before anything runs, so that naming one couples nothing. */
const isTypeOnly = (text: string, name: string) =>
  new RegExp(`import type \\{[^}]*\\} from "${name.replaceAll(/[.*+?^$()|[\]\\]/g, "\\$&")}"`).test(text);

test("only a config.ts reads process.env", () => {
  const readers = [...sources("cloud/**/*.ts"), ...sources("agent/**/*.ts"), ...sources("shared/**/*.ts")]
    .filter(({ text }) => text.includes("process.env"))
    .map(({ file }) => file);
  expect(readers).toEqual(["cloud/config.ts", "agent/config.ts"]);
});

test("there is one class besides the settings' own error: Refusal", () => {
  const classes = [...sources("cloud/**/*.ts"), ...sources("agent/**/*.ts"), ...sources("shared/**/*.ts")].flatMap(({ text }) =>
    [...text.matchAll(/^(?:export )?class (\w+)/gm)].map(([, name]) => name),
  );
  expect(new Set(classes)).toEqual(new Set(["ConfigError", "Refusal"]));
});

test("what the end of a lease means is asked of the table of states, by SQL too", () => {
  const listed = new RegExp(`\\bIN \\([^)$]*'(?:${leasedStates.join("|")})'`);
  expect(sources("cloud/domain/**/*.ts").flatMap(({ file, text }) => (listed.test(text) ? [file] : []))).toEqual([]);
});

const textOf = (folders: string[], but = "") =>
  folders
    .flatMap((folder) => sources(`${folder}/**/*.ts`))
    .filter(({ file }) => file !== but)
    .map(({ text }) => text)
    .join("\n");
const PROGRAMS = ["agent", "cloud", "shared"];

test("every error code is thrown and seen by a test", () => {
  const thrown = textOf(PROGRAMS);
  const seen = sources("test/**/*.test.ts")
    .filter(({ file }) => !file.endsWith("laws.test.ts"))
    .map(({ text }) => text)
    .join("\n");
  const idle = Object.keys(errors).filter((code) => !thrown.includes(`"${code}"`));
  const unseen = (Object.keys(errors) as ErrorCode[]).filter((code) => !new RegExp(`\\b${shownCode(code)}\\b`).test(seen));
  expect({ idle, unseen }).toEqual({ idle: [], unseen: [] });
});

type Shape = { properties?: Record<string, Shape>; items?: Shape };
const namesIn = ({ properties = {}, items }: Shape): string[] =>
  items ? namesIn(items) : Object.entries(properties).flatMap(([name, inner]) => [name, ...namesIn(inner)]);
const quoted = (name: string) => `"${name}"`;
const UNASKED = "autoid:verify"; // the spec's, to be granted; no endpoint asks for it
type Rows = { of: string; names: string[]; folders?: string[]; table: string; as?: (name: string) => string };
const tables: Rows[] = [
  { of: "limit", names: Object.keys(limits), folders: [...PROGRAMS, "fixtures"], table: "shared/limits.ts" },
  { of: "setting of the cloud", names: Object.keys(settings), table: "cloud/config.ts", as: (name) => name.replace(/^IMPRIMATUR_/, "") },
  { of: "setting of the station", names: namesIn(StationSettings as Shape), folders: ["agent"], table: "agent/config.ts" },
  { of: "event", names: eventNames, folders: ["cloud/domain"], table: "shared/events.ts", as: quoted },
  { of: "audit action", names: Object.keys(auditActions), folders: ["cloud"], table: "shared/audit.ts", as: quoted },
  {
    of: "scope",
    names: Object.keys(scopes).filter((name) => name !== UNASKED),
    folders: ["cloud/routes"],
    table: "shared/scopes.ts",
    as: quoted,
  },
];
test.each(tables)("every $of is used beyond $table", ({ names, folders = PROGRAMS, table, as = String }) => {
  const words = new Set(
    textOf(folders, table)
      .match(/"[^"\n]*"|\w+/g)
      ?.flatMap((word) => [word, ...(word.match(/\w+/g) ?? [])]),
  );
  expect(names.length).toBeGreaterThan(0);
  expect(names.filter((name) => !words.has(as(name)))).toEqual([]);
});

test("every file begins with a line that says what it is", () => {
  const files = ["agent", "cloud", "shared", "fixtures", "test"].flatMap((folder) => sources(`${folder}/**/*.ts`));
  expect(files.filter(({ text }) => !/^\/\/ .{20,}/.test(text)).map(({ file }) => file)).toEqual([]);
});
