// A tenant with a webhook and a receiver behind it, ended with the test file.
import { expect } from "vitest";
import { emit } from "../cloud/domain/outbox.ts";
import { type Received, type Receiver, startReceiver } from "../fixtures/receiver.ts";
import type { World } from "../fixtures/world.ts";
import { endsWithFile } from "./endings.ts";
import type { EventData, EventName } from "#shared/events.ts";
import type { Attempt, Delivery } from "#shared/wire/webhooks.ts";

export type Answer = NonNullable<NonNullable<Parameters<typeof startReceiver>[0]>["answer"]>;

export async function receiving(answer?: Answer): Promise<Receiver> {
  const receiver = await startReceiver(answer ? { answer } : {});
  endsWithFile(receiver.end);
  return receiver;
}

export const answering =
  (...statuses: number[]): Answer =>
  (n, response) =>
    void response.writeHead(statuses[Math.min(n, statuses.length - 1)] ?? 200).end(`answer ${n}`);

export async function hooked(w: World, events: EventName[], answer?: Answer) {
  const receiver = await receiving(answer);
  const { id: tenantId, admin } = await w.tenant("hooked");
  const add = async (url = receiver.url, types: EventName[] = events) => (await admin.post("/webhooks", { url, events: types })).body;
  const { id, secret } = await add();
  const path = `/webhooks/${id}`;
  const deliveries = async (of = path): Promise<Delivery[]> => (await admin.get(`${of}/deliveries?limit=200`)).body.data;
  let told = 0; // deliveries to the first webhook that there have to be, now or in a moment
  const tell = async <Name extends EventName>(type: Name, given: EventData[Name]): Promise<number> => {
    const notified = await w.store.write("emit", (tx) => emit(tx, { tenantId }, type, given));
    if (notified > 0) told += 1;
    return notified;
  };
  return {
    admin,
    tenantId,
    id: id as string,
    path,
    secret: secret as string,
    receiver,
    add,
    deliveries,
    emit: tell,
    /** One label printed. */
    print: (serial = "1") => tell("print.confirmed", { serials: [serial] }),
    /** The newest delivery, once it has come as far as this. */
    async latest(far: (delivery: Delivery) => boolean): Promise<Delivery> {
      let found: Delivery[] = [];
      const look = async () => {
        const all = await deliveries();
        return (found = all.length >= told ? all.slice(0, 1).filter(far) : []);
      };
      await expect.poll(look, { interval: 10 }).toHaveLength(1);
      return found[0]!;
    },
  };
}
export type Hooked = Awaited<ReturnType<typeof hooked>>;

export const ended = ({ endedAt }: Delivery) => endedAt !== null;
export const tried = (times: number) => (delivery: Delivery) => delivery.attempts.length === times;
export const serialsOf = (received: readonly Received[]) => received.map(({ event }) => (event.data["serials"] as string[])[0]);
/** How long after a try the next one was meant to come. */
export const gapMs = ({ at, nextTryAt }: Attempt) => Date.parse(nextTryAt ?? "") - Date.parse(at);
