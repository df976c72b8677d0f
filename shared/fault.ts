// What an error of Node's says: its code, its words, and the reason behind it.

export const codeOf = (error: unknown): string => (error as { code?: string } | undefined)?.code ?? "";
/** A connection that failed at each address of a name has a code and no words. */
export const wordsOf = (error: Error): string => tlsWords(error) || error.message || codeOf(error);
/** OpenSSL puts its own between numbers and the names of its files, with a line end behind them. */
function tlsWords(error: Error): string | undefined {
  if (codeOf(error) === "ERR_SSL_WRONG_VERSION_NUMBER")
    return "no TLS is spoken there: should the address begin without the s, as http:// does?";
  return /^[\dA-F]+:error:[^:]*:[^:]*:[^:]*:([^:]+):/.exec(error.message)?.[1];
}
/** What fetch throws says that it failed, and why only in its cause; who calls fetch may have put its own words around that. */
export const reasonOf = (error: Error): string => (error.cause instanceof Error && reasonOf(error.cause)) || wordsOf(error);
