// A line of the doctor's: it is well, somebody should know, or it has to be mended.
export type Line = { check: string; level: "ok" | "warn" | "FAIL"; words: string };

/** The lines of one check. */
export const linesOf = (check: string) => ({
  well: (words: string): Line => ({ check, level: "ok", words }),
  odd: (words: string): Line => ({ check, level: "warn", words }),
  bad: (words: string): Line => ({ check, level: "FAIL", words }),
});
