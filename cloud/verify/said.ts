// The words that a verification is made of.

/** holds and fails say what is; unknown is what would need more than was given; a note is what to keep in mind. */
export type Line = { mark: "holds" | "fails" | "unknown" | "note"; text: string };
export const said = (mark: Line["mark"], text: string): Line => ({ mark, text });
