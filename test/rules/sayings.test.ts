// What consoles say in every language: no refusal, reason, fault or question may come out in English for want of words.
import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { faultTable } from "../../fixtures/printers/machine.ts";
import { heard, partsOf, saying, type Saying, sayings } from "../../shared/sayings.ts";
import { tell, type Told } from "../../shared/web/telling.ts";
import { de } from "../../shared/web/words/de.ts";
import { en } from "../../shared/web/words/en.ts";
import { es } from "../../shared/web/words/es.ts";
import { zh } from "../../shared/web/words/zh.ts";
import * as station from "../../agent/web/words/de.ts";
import * as stationEs from "../../agent/web/words/es.ts";
import * as stationZh from "../../agent/web/words/zh.ts";
import { type AuditAction, auditActions } from "../../shared/audit.ts";
import * as floor from "../../cloud/web/console/words/de.ts";
import * as floorEs from "../../cloud/web/console/words/es.ts";
import * as floorZh from "../../cloud/web/console/words/zh.ts";
import { errors } from "../../shared/errors.ts";
import { catalogue } from "../../cloud/catalogue.ts";

const abroad = { de, es, zh };
const names = Object.keys(sayings) as Saying[];
const holesOf = (text: string) => partsOf(text).filter((_, i) => i % 2 === 1);
const flat = (told: Told, text: string) =>
  tell(told, text)
    ?.map((part) => (typeof part === "string" ? part : `“${part.theirs}”`))
    .join("");

test.each(Object.entries(abroad))(
  "in %s there are words for every sentence that others keep, with all that is put in",
  (_, { sayings: words }) => {
    for (const name of names) {
      expect([name, words[name]?.trim()]).not.toEqual([name, ""]);
      expect([name, holesOf(words[name] ?? "").toSorted()]).toEqual([name, holesOf(sayings[name]).toSorted()]);
      if (/[a-z]{3} [a-z]{3}/.test(sayings[name])) expect(words[name]).not.toBe(sayings[name]);
    }
  },
);

test.each(Object.entries(abroad))("in %s there are words for every code of an error", (_, { refusals }) => {
  expect(Object.keys(errors).filter((code) => !refusals[code as keyof typeof errors])).toEqual([]);
});

test.each([station.de, stationEs.es, stationZh.zh])("a simulator's faults have a name in each language", ({ simulatorFaults }) => {
  expect(Object.keys(faultTable).filter((name) => !simulatorFaults[name])).toEqual([]);
});

const any = saying as (name: Saying, put: Readonly<Record<string, string>>) => string;
test.each([floor.de, floorEs.es, floorZh.zh])("the audit log's actions have words in each language", ({ audit }) => {
  for (const [action, says] of Object.entries(auditActions))
    expect([action, audit.actions[action as AuditAction]]).not.toEqual([action, expect.toSatisfy((words) => !words || words === says)]);
});

test("what was said is heard as the same sentence again, whatever was put into it", () => {
  for (const name of names) {
    const text = any(name, Object.fromEntries(holesOf(sayings[name]).map((hole, i) => [hole, `X${i}`])));
    const known = heard(text);
    expect([name, known && any(known.name, known.put)]).toEqual([name, text]);
  }
});

test.each([
  ["the printer waits: it is out of labels, its head is open", "der Drucker wartet: die Etiketten sind zu Ende, der Druckkopf ist offen"],
  [
    "an operator found a misprint: it couldn't be verified by a scan",
    "ein Bediener fand einen Fehldruck: es ließ sich nicht durch einen Scan prüfen",
  ],
  [
    "tcp://10.0.0.7:9100: nothing listens there: is the device on, and is this its port? (ECONNREFUSED)",
    "tcp://10.0.0.7:9100: dort antwortet nichts: ist das Gerät an, und ist das sein Anschluss? (ECONNREFUSED)",
  ],
  [
    "STALE_ATTEMPT: the attempt is over: look for it, and explain it here",
    "Der Auftrag ging ohne diesen Versuch weiter: Sein Etikett ist zu vernichten (“the attempt is over”): suchen und hier erklären",
  ],
  [
    "SCAN_MISMATCH: the tag has another serial: look for it, and explain it here",
    "Das Gescannte gehört nicht zu diesem Auftrag (“the tag has another serial”): suchen und hier erklären",
  ],
  [
    "UNAUTHORIZED: the credential is unknown, revoked or of a deleted client",
    "der Zugang ist unbekannt, widerrufen oder von einem gelöschten Client",
  ],
  ["DEVICE_KEY_REQUIRED: Only a key that is bound to a device may do this", "Das darf nur der Schlüssel eines Geräts"],
  ["blocked: it is paused", "blockiert: er ist angehalten"],
  [
    "the printer answered, but it no longer tells its counter, and unknown labels wait in it",
    "der Drucker hat geantwortet, aber er nennt seinen Zähler nicht mehr; wartende Etiketten: unbekannt",
  ],
  [
    "the printer answered, but its counter moved by 2, and 1 labels wait in it",
    "der Drucker hat geantwortet, aber sein Zähler ging um 2 weiter; wartende Etiketten: 1",
  ],
  ["the queue refused the label: Toner almost empty", "die Warteschlange hat das Etikett abgelehnt: “Toner almost empty”"],
  ["LEASE_EXPIRED_AFTER_SPOOL", "die Station hat nach dem Senden nichts mehr gesagt: es kann ein Etikett geben"],
  [`"a" isn't a column of textile; "gtin" is missing`, "„a“ ist keine Spalte von textile; „gtin“ fehlt"],
  [
    "name: must NOT have fewer than 1 characters; gtin: must consist of digits only",
    "name: zu kurz; Zeichen mindestens: 1; gtin: darf nur aus Ziffern bestehen",
  ],
])("%s, in German", (text, german) => {
  expect(flat(de, text)).toBe(german);
});

test.each([
  ["the printer waits: it is out of labels, its head is open", "打印机在等待：标签已用完、打印头已打开"],
  [
    "SCAN_MISMATCH: the tag has another serial: look for it, and explain it here",
    "扫描内容不属于该任务（“the tag has another serial”）：请查找并在此说明",
  ],
  ["tcp://zd:9100: the port is closed (ECONNREFUSED)", "tcp://zd:9100：端口已关闭（ECONNREFUSED）"],
])("%s, in Chinese with its own punctuation", (text, chinese) => {
  expect(flat(zh, text)).toBe(chinese);
});

test("what nobody here has said is left to be quoted", () => {
  expect(tell(de, "Ribbon out, and no spare one at the line")).toBeUndefined();
  expect(flat(en, "the printer waits: it is paused")).toBe("the printer waits: it is paused");
});

test("what was made to be looked at for hours is quoted as soon as anything else", () => {
  let looks = 0;
  const refusals = new Proxy(de.refusals, {
    get: (all, code) => {
      if ((looks += 1) > 10_000) throw new Error("it is looked at again and again");
      return all[code as keyof typeof all];
    },
  });
  expect(tell({ ...de, refusals }, `${"abcd: ".repeat(20)}e${" (X)".repeat(20)}`)).toBeUndefined();
});

/** Of any value: all that a category's rules can say against it. */
const VALUES = [
  undefined,
  null,
  1.5,
  -1e9,
  1e9,
  true,
  "",
  "x",
  "x".repeat(9_999),
  "2026-99-99",
  [],
  [1, 1],
  Array.from({ length: 999 }, () => ({})),
  {},
  { x: 1 },
];
test("whatever a category's schema says against a row has words", () => {
  const silent = new Set<string>();
  for (const category of catalogue.effective(Date.now())) {
    const schema = catalogue.find(category, Date.now());
    for (const name of Object.keys(schema?.fieldSchema.properties ?? {}))
      for (const value of VALUES)
        for (const { message } of schema?.judge({ [name]: value }, "extensions") ?? []) if (!tell(de, message)) silent.add(message);
  }
  expect([...silent]).toEqual([]);
});

const RAW = [
  /\b(?:become|verdict|fail|relabel|abandon|refused(?!\("\w+", )|bad)\([^\n]*["`](?:\$\{|[a-z])[^"`]* [a-z][^"`]* [a-z]/,
  /(?<!const )\b(?:words|why|reason|unknown|fault|failing)\s*[:=]\s*["`][a-z][^"`]* [a-z][^"`]* [a-z]/,
  /\bfileFault\(["'`]/,
];
/** For the log or the terminal alone; or told on the page by `why`, for which it has words of its own. */
const ELSEWHERE = /agent\/(web|doctor|install|port-url|scan-rules|envelope|wake|standing|buffer-labels|rfid|config)/;
test("what a station says of its labels and devices is said by the table", () => {
  const raw = [...globSync("agent/**/*.ts"), "cloud/domain/import-rows.ts", "cloud/domain/reaper.ts", "cloud/workers/importer.ts"]
    .filter((file) => !ELSEWHERE.test(file))
    .flatMap((file) =>
      readFileSync(file, "utf8")
        .split("\n")
        .filter((line) => RAW.some((sign) => sign.test(line)))
        .map((line) => `${file}: ${line.trim()}`),
    );
  expect(raw).toEqual([]);
});
