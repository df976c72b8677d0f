// A label that is nobody's: asked for by a person, printed between two jobs, explained in the ledger before it is sent.
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import type { PrinterConfig } from "./config.ts";
import { testDrawing } from "./drawing.ts";
import { isWorking, type Press } from "./press.ts";
import type { Printer } from "./printers/driver.ts";
import type { Floor } from "./floor.ts";

const TEST_MS = 10_000;

export function testLabels(floor: Floor, config: PrinterConfig, press: Press, signal: AbortSignal) {
  const { store, news, say } = floor;
  let asked: { operator: string; done: PromiseWithResolvers<string> } | undefined;
  const cant = (what: "cant_print" | "cant_test") =>
    new Refusal("ILLEGAL_TRANSITION", saying(what, { printer: config.name, why: press.state().words }), { allowed: [] });

  /** Says in words what came of it. */
  function ask(operator: string): Promise<string> {
    if (press.isOver()) throw new Refusal("NOT_READY", saying("station_ending"));
    if (asked) throw new Refusal("ILLEGAL_TRANSITION", saying("test_asked"), { allowed: [] });
    const { status } = press.state();
    if (store.inHand().some(press.isHeld) || (status !== "ready" && status !== "blocked")) throw cant("cant_test");
    asked = { operator, done: Promise.withResolvers<string>() };
    news.beat();
    return asked.done.promise;
  }

  /** It tells nothing of any label, and would confirm nothing that it is told to drop. */
  const isMute = () => !press.isQueue && press.capabilities()?.fence === "none";

  /** Asked for and not to be had: it must not come out later, when nobody looks any more. */
  function drop(): void {
    asked?.done.reject(cant("cant_test"));
    asked = undefined;
  }

  async function answer(printer: Printer): Promise<void> {
    if (!asked) return;
    const { operator, done } = asked;
    try {
      const isReady = await press.isReady(printer);
      if (!isReady && isWorking(press.state())) return; // its line had been hung up unheard: it stays asked for, over a new one
      if (!isReady) throw cant("cant_print");
      done.resolve(await print(printer, operator));
    } catch (error) {
      done.reject(error);
    }
    asked = undefined;
  }

  async function print(printer: Printer, operator: string): Promise<string> {
    const encoded = await printer.encode(testDrawing(floor, config));
    const before = press.counter.expected();
    const label = store.write(() => {
      press.counter.expect(null);
      return store.label(config.name, "explained", saying("test_label_as", { operator }));
    });
    press.become("printing", saying("prints_test"));
    const submission = await printer.submit(encoded);
    if (submission.bytesAccepted === 0) {
      store.write(() => {
        press.counter.expect(submission.before.labels ?? before);
        store.neverCame(label, saying("nothing_left"));
      });
      throw new Refusal("NOT_READY", submission.fault ?? saying("nothing_sent"));
    }
    const completion = await printer.awaitCompletion(submission, { signal, withinMs: isMute() ? press.patience.muteMs : TEST_MS });
    if (completion.outcome === "unknown" && isMute()) await press.close(); // it may wait for our goodbye before it prints
    else if (completion.outcome !== "confirmed") await printer.flush(encoded.token);
    press.counter.expect(completion.outcome === "confirmed" ? (completion.evidence.after ?? null) : null);
    press.become("ready", saying("ready"));
    say("info", { event: "test_label", printer: config.name, operator }, `${config.name}: test label: ${completion.reason}`);
    return `${completion.outcome}: ${completion.reason}`;
  }

  return { isAsked: () => asked !== undefined, ask, drop, answer };
}
