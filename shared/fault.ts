// What an error of Node's says: its code, its words, and the reason behind it.

export const codeOf = (error: unknown): string => (error as { code?: string } | undefined)?.code ?? "";
/** A connection that failed at each address of a name has a code and no words. */
export const wordsOf = (error: Error): string => error.message || codeOf(error);
/** What fetch throws says that it failed, and why only in its cause; who calls fetch may have put its own words around that. */
export const reasonOf = (error: Error): string => (error.cause instanceof Error && reasonOf(error.cause)) || wordsOf(error);
