// How an instant leaves: ISO 8601 in UTC with milliseconds, and null where there is none.
const KEPT = 1_000;
const said = new Map<number, string>(); // a batch says the same few instants thousands of times

export function instant(at: number): string;
export function instant(at: number | null): string | null;
export function instant(at: number | null): string | null {
  if (at === null) return null;
  const known = said.get(at);
  if (known !== undefined) return known;
  if (said.size >= KEPT) said.clear();
  const text = new Date(at).toISOString();
  said.set(at, text);
  return text;
}
