// JSON that somebody sent, read as it was meant. Node can take a name that is written with an escape for another one that anybody sent before
// (nodejs/node#63785), so that what needs no escape is read without; a name that needs one is refused (validate.ts).

/** A quote, a backslash, or what comes before the space. */
export const NEEDS_ESCAPE = /[^ !#-[\]-\uffff]/;
const [QUOTE, SLASH, BACKSLASH, U] = Buffer.from('"/\\u');
const ESCAPE_UNITS = 6; // of \u0041

/** What the escape at this place stands for; undefined for one that has to stay. */
function signAt(text: string, at: number): number | undefined {
  if (text.charCodeAt(at + 1) === SLASH) return SLASH; // as PHP writes it
  if (text.charCodeAt(at + 1) !== U) return undefined;
  const digits = text.slice(at + 2, at + ESCAPE_UNITS);
  if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new SyntaxError(`Bad Unicode escape in JSON at position ${at}`); // else what follows could make it whole
  const code = Number.parseInt(digits, 16);
  return NEEDS_ESCAPE.test(String.fromCharCode(code)) ? undefined : code;
}

/** In place: to put a text of millions of strings together from its pieces kept everybody waiting for seconds. Outside of strings an escape stays what it is: no JSON. */
function unescaped(text: string): string {
  const bytes = Buffer.from(text, "utf16le");
  const units = new Uint16Array(bytes.buffer, bytes.byteOffset, text.length);
  let isString = false;
  let [at, length] = [0, 0];
  while (at < units.length) {
    if (units[at] === QUOTE) isString = !isString;
    const isEscape = isString && units[at] === BACKSLASH;
    const sign = isEscape ? signAt(text, at) : undefined;
    if (sign !== undefined) {
      at += units[at + 1] === U ? ESCAPE_UNITS : 2;
      units[length++] = sign;
    } else for (let left = isEscape ? 2 : 1; left > 0; left -= 1) units[length++] = units[at++] as number;
  }
  return bytes.toString("utf16le", 0, 2 * length);
}

export const parseJson = (text: string): unknown => JSON.parse(text.includes("\\u") || text.includes("\\/") ? unescaped(text) : text);
