// JSON that somebody sent, read as it was meant. Node can take a name that is written with an escape for another one that anybody sent before
// (nodejs/node#63785), so that what needs no escape is read without; a name that needs one is refused (validate.ts).

/** A quote, a backslash, or what comes before the space. */
export const NEEDS_ESCAPE = /[^ !#-[\]-\uffff]/;
const QUOTE_OR_ESCAPE = /"|\\(?:u([0-9a-fA-F]{4})|[^])/g;

function plain(escape: string, code?: string): string {
  if (escape === "\\/") return "/"; // as PHP writes it
  if (code === undefined) return escape;
  const letter = String.fromCharCode(Number.parseInt(code, 16));
  return NEEDS_ESCAPE.test(letter) ? escape : letter;
}

/** Outside of strings an escape stays what it is: no JSON. */
function unescaped(text: string): string {
  let isString = false;
  return text.replaceAll(QUOTE_OR_ESCAPE, (found: string, code?: string) => {
    if (found === '"') isString = !isString;
    return isString ? plain(found, code) : found;
  });
}

export const parseJson = (text: string): unknown => JSON.parse(text.includes("\\u") || text.includes("\\/") ? unescaped(text) : text);
