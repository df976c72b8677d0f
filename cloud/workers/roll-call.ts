// Says which origin this node names, and hears what the others on its store name: where they differ, what one prints or signs isn't another's. And whether
// this machine's clock is the database's: nothing here goes by the former but the log and the dates of answers, which stations set their own against.
import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { beHeard, CLOCK_OFF_MS, clocksApartMs, originsHeard } from "../domain/nodes.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 5_000;

export function startRollCall(store: Store, log: Logger, origin: string, now: () => number = Date.now): Worker {
  const id = randomUUID();
  let told = "";
  let isOff = false;

  function sayClock(apartMs: number): void {
    if (isOff === apartMs > CLOCK_OFF_MS) return;
    isOff = !isOff;
    if (isOff)
      log.warn({ event: "clock-off", offMs: apartMs }, `this machine's clock and the database's are ${apartMs} ms apart: let NTP set both`);
    else log.info({ event: "clock-agrees" }, "this machine's clock and the database's agree again");
  }

  return startWorker(log, {
    event: "roll-call-failed",
    idleMs: EVERY_MS,
    step: async () => {
      const before = now();
      const { heard, theirs } = await store.write("roll call", async (tx) => {
        await beHeard(tx, id, origin);
        return { heard: await originsHeard(tx), theirs: tx.now };
      });
      sayClock(clocksApartMs(theirs, before, now()));
      const others = heard.filter((other) => other !== origin).join(", ");
      if (others === told) return false;
      told = others;
      if (others === "") log.info({ event: "public-urls-agree" }, `all nodes that are heard of name ${origin}`);
      else
        log.warn(
          { event: "public-urls-differ", origin, others },
          `labels, links and tokens name ${origin} here, and ${others} on nodes heard of within the last minute: set IMPRIMATUR_PUBLIC_URL the same on all`,
        );
      return false;
    },
  });
}
