// Which of the known words was meant: a typo is answered with the right word, not with a list.

/** The fewest letters to change, add or leave out decide; undefined only where nothing is known. */
export const nearest = (word: string, known: readonly string[]): string | undefined =>
  known.toSorted((a, b) => distance(a, word) - distance(b, word))[0];

function distance(a: string, b: string): number {
  const [one, other] = [a.toLowerCase(), b.toLowerCase()];
  const row = Array.from({ length: other.length + 1 }, (_, j) => j);
  for (const [i, letter] of one.split("").entries()) {
    let diagonal = i;
    row[0] = i + 1;
    for (let j = 1; j <= other.length; j += 1) {
      const above = row[j] ?? 0;
      row[j] = Math.min(above + 1, (row[j - 1] ?? 0) + 1, diagonal + (letter === other[j - 1] ? 0 : 1));
      diagonal = above;
    }
  }
  return row[other.length] ?? 0;
}
