// What printers and people say, on its way to the cloud, which takes no controls and nothing that turns the direction of text round.
const UNREADABLE = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu;

/** The beginning of it, which may end in the middle of a character. */
export const readable = (text: string, mostCharacters: number): string =>
  text.replaceAll(UNREADABLE, " ").slice(0, mostCharacters).toWellFormed();
