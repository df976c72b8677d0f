// What isn't there and what is another tenant's look the same to whoever asks.
import { Refusal } from "#shared/errors.ts";

export const noSuch = (what: string): Refusal => new Refusal("NOT_FOUND", `there is no such ${what} in this tenant`);

export function found<Row>(what: string, row: Row | undefined): Row {
  if (row === undefined) throw noSuch(what);
  return row;
}
