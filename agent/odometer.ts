// A printer's label counter: where it should stand, so that labels show which nobody here sent; and whether this printer has one, even while it keeps it back.
import { saying } from "#shared/sayings.ts";
import type { Floor } from "./floor.ts";
import { attests, type Capabilities, isOther } from "./printers/driver.ts";

const UNEXPLAINED_MAX = 20;

export function odometerOf({ store, say }: Floor, printer: string) {
  const expectedAs = `odometer:${printer}` as const;
  const toldAs = `counts:${printer}` as const;
  /** Null while a label whose outcome isn't known may still move it. */
  const expected = () => store.kept(expectedAs);
  const expect = (labels: number | null): void => store.keep(expectedAs, labels);
  /** Who has told its counter, perhaps to an earlier run; null where nobody has. */
  const toldBy = () => store.kept(toldAs);

  /** One that gives itself another name is another printer. */
  function isExchanged(identity: string | null): boolean {
    const before = toldBy()?.identity ?? null;
    return identity !== null && before !== null && isOther(identity, before);
  }
  /** A printer that told its counter once has one: while it keeps it back, its answers alone attest no label. */
  const isKeptBack = ({ counter, identity, ceiling }: Capabilities): boolean =>
    toldBy() !== null && !counter && attests(ceiling) && !isExchanged(identity);

  /** The printer has said who it is and what it tells. */
  function met({ counter, identity }: Capabilities): void {
    const known = toldBy();
    const isOfAnother = isExchanged(identity);
    const isBetterKnown = (identity ?? "").length > (known?.identity ?? "").length; // by its number as well
    if (!counter || !(known === null || isOfAnother || isBetterKnown)) return;
    store.write(() => {
      store.keep(toldAs, { identity });
      if (!isOfAnother) return;
      expect(null); // what the one before it had counted says nothing of this one's labels
      const words = `it is ${identity} now, and was ${known?.identity}: another printer, or another firmware; its counter is taken as it stands`;
      say("warn", { event: "exchanged", printer }, `${printer}: ${words}`);
    });
  }

  /** Where it stands when the printer is looked at; `isMoving`: a label of ours may be moving it. */
  function read(labels: number | null, isMoving: () => boolean): void {
    const before = expected();
    if (labels === null || labels === before) return;
    if (before === null && isMoving()) return;
    store.write(() => {
      expect(labels);
      if (before === null) return;
      if (labels > before) unexplained(labels - before, saying("counter_without_job", { from: before, to: labels }));
      else say("warn", { event: "counter", printer }, `${printer}: its counter went back from ${before} to ${labels}: was it set back?`);
    });
  }

  /** Labels that nobody here sent: each is in the ledger until a person explains it. */
  function unexplained(count: number, words: string): void {
    for (let i = 0; i < Math.min(count, UNEXPLAINED_MAX); i += 1) store.label(printer, "unexplained", words);
    say("warn", { event: "counter", printer, count }, `${printer}: ${words} of ours`);
  }

  return { expected, expect, toldBy, isKeptBack, met, read, unexplained };
}
