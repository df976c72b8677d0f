// Which of the known words was meant: a typo is answered with the right word, not with a list.

/** The fewest letters to change, add or leave out decide; undefined only where nothing is known. */
export const nearest = (word: string, known: readonly string[]): string | undefined => nearestOf(word, known)?.name;

const nearestOf = (word: string, known: readonly string[]) =>
  known.map((name) => ({ name, far: distance(name, word) })).toSorted((a, b) => a.far - b.far)[0];

/** One that differs by no more than a third of its letters: where any text may stand, a far one would be a guess. */
export function near(word: string, known: readonly string[]): string | undefined {
  const isNear = (name: string, far: number) => far * 3 <= name.length;
  const ofItsLength = known.filter((name) => isNear(name, Math.abs(name.length - word.length))); // a sender's word may have any
  const found = nearestOf(word, ofItsLength);
  return found && isNear(found.name, found.far) ? found.name : undefined;
}

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
