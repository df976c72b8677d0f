// The outbox: an event commits with what it tells of, for everybody who listens, and what it says fits its schema.
import { expect, test } from "vitest";
import { emit } from "../../cloud/domain/outbox.ts";
import { DEFAULT_TENANT } from "../../cloud/domain/tenants.ts";
import { outbox, subscriptions } from "../../cloud/store/schema.ts";
import { eventNames, eventTable } from "#shared/events.ts";
import { world } from "../world.ts";

const w = await world();
const by = { tenantId: DEFAULT_TENANT };
const waiting = () => w.store.read("outbox", async (tx) => tx.db.select().from(outbox));

test("an event that nobody listens to leaves nothing", async () => {
  const notified = await w.store.write("emit", (tx) => emit(tx, by, "print.confirmed", { serials: ["1"] }));
  expect([notified, await waiting()]).toEqual([0, []]);
});

test("data that doesn't fit the event's schema undoes the unit", async () => {
  const wrong = { serials: [] as string[], failures: [] };
  await expect(w.store.write("emit", (tx) => emit(tx, by, "print.failed", wrong))).rejects.toThrow("print.failed can't be emitted");
});

test("every event of the catalogue counts its listeners and is written for them; a unit that fails takes it along", async () => {
  await w.store.write("listen", async (tx) => {
    for (const type of eventNames)
      for (const webhookId of ["a", "b"]) await tx.db.insert(subscriptions).values({ tenantId: DEFAULT_TENANT, type, webhookId });
  });
  for (const type of eventNames) {
    const notified = await w.store.write("emit", (tx) => emit(tx, by, type, eventTable[type].example as never));
    expect([type, notified]).toEqual([type, 2]);
  }
  const before = (await waiting()).length;
  expect(before).toBe(eventNames.length);
  const failing = w.store.write("emit", async (tx) => {
    await emit(tx, by, "print.confirmed", { serials: ["1"] });
    throw new Error("undone");
  });
  await expect(failing).rejects.toThrow("undone");
  expect((await waiting()).length).toBe(before);
});
