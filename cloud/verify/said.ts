// The words that a verification is made of.

/** holds and fails say what is; unknown is what would need more than was given; a note is what to keep in mind. */
export type Line = { mark: "holds" | "fails" | "unknown" | "note"; text: string };
export const holds = (text: string): Line => ({ mark: "holds", text });
export const fails = (text: string): Line => ({ mark: "fails", text });
export const unclear = (text: string): Line => ({ mark: "unknown", text });
export const noted = (text: string): Line => ({ mark: "note", text });
