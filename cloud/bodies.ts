// Bodies come in as bytes: they are the fingerprint of a request, and must be UTF-8 before they are anything else.
import { isUtf8 } from "node:buffer";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { invalid, Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { parseJson } from "./json.ts";
import type { Route } from "./route.ts";

/** Of every content type that a route of the table takes, and of no other. */
export function readBodies(app: FastifyInstance, table: readonly Route[]): void {
  const named = (typesOf: (route: Route) => readonly string[]) => [...new Set(table.flatMap(typesOf))];
  const take = (types: string[], read: (bytes: Buffer) => unknown) =>
    app.addContentTypeParser(types, { parseAs: "buffer" }, async (request: FastifyRequest, bytes: Buffer) => {
      request.bytes = bytes;
      return read(bytes);
    });
  app.removeAllContentTypeParsers();
  take(["application/json", ...named(({ takesJsonAs = [] }) => takesJsonAs)], jsonOf);
  take(["application/x-www-form-urlencoded"], formOf);
  take(
    named(({ takesBytes = [] }) => takesBytes),
    () => undefined,
  );
  const files = named(({ takesFile = [] }) => [takesFile].flat());
  app.addContentTypeParser(files, (_request, _payload, done) => done(null)); // the route reads it as it comes
}

function utf8(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new Refusal("MALFORMED_JSON", "the body isn't UTF-8");
  return bytes.toString("utf8");
}

const [QUOTE, BACKSLASH, LIST, OBJECT] = Buffer.from('"\\[{');
/** Counted before they are read: that is what takes the time, and nobody is answered meanwhile. */
function refuseCountless(bytes: Buffer): void {
  if (bytes.length <= limits.JSON_NESTED_MAX_ITEMS) return; // it has no room for more
  let nested = 0;
  let isText = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) isText = !isText;
    else if (isText && byte === BACKSLASH) at += 1;
    else if (!isText && (byte === LIST || byte === OBJECT)) nested += 1;
  }
  if (nested > limits.JSON_NESTED_MAX_ITEMS)
    throw invalid([{ field: "body", rule: "nested", message: `has more than ${limits.JSON_NESTED_MAX_ITEMS} lists and objects in it` }]);
}

function jsonOf(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  refuseCountless(bytes);
  try {
    return parseJson(utf8(bytes));
  } catch (error) {
    throw error instanceof Refusal ? error : new Refusal("MALFORMED_JSON", `the body isn't JSON: ${(error as Error).message}`);
  }
}

const FORM_MAX_FIELDS = 100; // far more than any form of ours has: a megabyte of them takes a second to part
function formOf(bytes: Buffer): Record<string, string> {
  const fields = new Map<string, string>();
  const text = utf8(bytes);
  if (text.split("&", FORM_MAX_FIELDS + 1).length > FORM_MAX_FIELDS)
    throw invalid([{ field: "body", rule: "maxProperties", message: `has more than ${FORM_MAX_FIELDS} fields` }]);
  for (const [name, value] of new URLSearchParams(text)) {
    if (fields.has(name)) throw invalid([{ field: name, rule: "once", message: saying("is_twice") }]);
    fields.set(name, value);
  }
  return Object.fromEntries(fields);
}
