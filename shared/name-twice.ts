// Names that stand in a JSON object twice, which is refused: to us the last value would count, to another reader the first.
/** A string of JSON, and whether it is a name. */
export const STRING = /("[^"\\]*(?:\\[^][^"\\]*)*"?)(\s*:)?/g;

/** The first such name in a text; `value` is what the text was parsed to. */
export function nameTwice(text: string, value: unknown): string | undefined {
  const names = new Map<string, number>();
  const count = (name: string, by: number) => void names.set(name, (names.get(name) ?? 0) + by);
  for (const [, name = "", isName] of text.matchAll(STRING)) if (isName) count(JSON.parse(name) as string, 1);
  const open = [value];
  for (const next of open) {
    if (typeof next !== "object" || next === null) continue;
    if (!Array.isArray(next)) for (const name of Object.keys(next)) count(name, -1);
    for (const inner of Object.values(next)) open.push(inner);
  }
  return [...names].find(([, left]) => left !== 0)?.[0];
}
