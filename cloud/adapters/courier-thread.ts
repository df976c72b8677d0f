// The courier in a thread of its own: sockets, certificates and signatures of a thousand deliveries never stand between a request and its answer.
// Begun by the first errand, because most starts have none; one that dies takes its tries along, and the next errand begins another.
import { isMainThread, type MessagePort, parentPort, Worker, workerData } from "node:worker_threads";
import { type Courier, type CourierOptions, createCourier, type Errand, type Outcome } from "./courier.ts";

type Numbered<T> = [n: number, what: T];
const MARK = "imprimatur courier";

/** Collects what one turn of the event loop brings, so that many cross the border as one message. */
function gathering<T>(post: (all: T[]) => void): (one: T) => void {
  let gathered: T[] = [];
  return (one) => {
    if (gathered.push(one) > 1) return;
    setImmediate(() => {
      post(gathered);
      gathered = [];
    });
  };
}

export function startCourier(options: CourierOptions): Courier {
  let thread: Worker | undefined;
  let last = 0;
  const waiting = new Map<number, (outcome: Outcome) => void>();
  const answer = ([n, outcome]: Numbered<Outcome>) => {
    waiting.get(n)?.(outcome);
    waiting.delete(n);
  };
  const giveUp = (error: string) => {
    thread = undefined;
    for (const n of waiting.keys()) answer([n, { status: null, error, head: null, latencyMs: 0 }]);
  };

  function begun(): Worker {
    const made = new Worker(new URL(import.meta.url), { workerData: { mark: MARK, options }, name: "courier" });
    made.on("message", (outcomes: Numbered<Outcome>[]) => outcomes.forEach(answer));
    made.on("error", (error) => giveUp(`the courier failed: ${(error as Error).message}`));
    made.on("exit", () => thread === made && giveUp("the courier ended"));
    made.unref();
    return made;
  }
  const post = gathering<Numbered<Errand>>((errands) => {
    thread ??= begun();
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    thread.postMessage(errands);
  });

  return {
    send: (errand) =>
      new Promise((resolve) => {
        last += 1;
        waiting.set(last, resolve);
        post([last, errand]);
      }),
    close: async () => {
      const ended = thread?.terminate();
      giveUp("given up: this node is stopping");
      await ended;
    },
  };
}

function serve(port: MessagePort, options: CourierOptions): void {
  const courier = createCourier(options);
  const post = gathering<Numbered<Outcome>>((outcomes) => port.postMessage(outcomes));
  port.on("message", (errands: Numbered<Errand>[]) => {
    for (const [n, errand] of errands) void courier.send(errand).then((outcome) => post([n, outcome]));
  });
}

const given = workerData as { mark?: string; options: CourierOptions } | null;
if (!isMainThread && parentPort && given?.mark === MARK) serve(parentPort, given.options);
