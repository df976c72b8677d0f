// Nodes whose clocks are apart, by an hour or by what NTP leaves: what was done on one and then on the other is told in that order.
import { randomUUID } from "node:crypto";
import { expect, test, type TestContext } from "vitest";
import { type Answer, type Client, client, sure } from "../../fixtures/client.ts";
import { aheadBy, faketimeMissing } from "../../fixtures/faketime.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { cloudSettings, startProgram } from "../../fixtures/program.ts";
import { startReceiver } from "../../fixtures/receiver.ts";
import { startWorld } from "../../fixtures/world.ts";
import { freshFolder } from "../endings.ts";
import { freshDatabase } from "../world.ts";

const KEY = `clocks-apart-${randomUUID()}`;
const CHANGES = 40;
const HOUR_S = 3_600;
const SHIPPED = {
  "@context": ["https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld"],
  type: "ObjectEvent",
  eventTime: "2026-11-21T08:59:58.123+00:00",
  eventTimeZoneOffset: "+00:00",
  action: "OBSERVE",
  bizStep: "shipping",
  epcList: ["https://id.example.org/01/09506000134352/21/123456789"],
};

/** A node that is so far ahead, and one that isn't; called with the key where no other is given. */
async function nodesApart(seconds: number, t: TestContext) {
  const databaseUrl = await freshDatabase("postgres");
  const start = async (clock: Record<string, string>) => {
    const node = await startProgram("cloud/main.ts", {
      ...cloudSettings(freshFolder("apart"), KEY),
      IMPRIMATUR_DATABASE_URL: databaseUrl,
      IMPRIMATUR_PUBLIC_URL: "http://imprimatur.example",
      IMPRIMATUR_WEBHOOK_PRIVATE: "on",
      ...clock,
    });
    t.onTestFinished(async () => void (await node.end("SIGKILL")));
    const as = (secret = KEY) => client(() => node.url, { authorization: `Bearer ${secret}` });
    return { url: node.url, admin: as(), as };
  };
  return { ahead: await start(aheadBy(seconds)), here: await start({}) };
}

if (faketimeMissing) process.stderr.write(`skipped: nodes whose clocks are apart: ${faketimeMissing}\n`);
test.skipIf(faketimeMissing).for([HOUR_S, 0.02])("a node is %f s ahead of the other: a webhook hears of a product's changes in their order", async (seconds, t) => {
  const { ahead, here } = await nodesApart(seconds, t);
  const receiver = await startReceiver();
  t.onTestFinished(receiver.end);
  const listens = { url: receiver.url, events: ["product.created", "product.updated"] };
  const webhook = (await ahead.admin.post("/webhooks", listens)).body as { id: string };
  const { id } = (await ahead.admin.post("/products", productOf({ gtin: gtinOf(931_000) }))).body;
  for (let n = 1; n <= CHANGES; n += 1)
    expect((await (n % 2 ? here : ahead).admin.patch(`/products/${id}`, { name: `Kettle ${n}` })).status).toBe(200);
  const told = () => new Map(receiver.received.map(({ event }) => [event.id, event.data["version"]]));
  await expect.poll(() => told().size).toBe(CHANGES + 1);
  const made = (await here.admin.get(`/webhooks/${webhook.id}/deliveries?limit=200`)).body.data as { eventId: string }[]; // some tries of a busy lane are under way at once
  const versions = made.toReversed().map(({ eventId }) => told().get(eventId));
  expect(versions).toEqual(Array.from({ length: CHANGES + 1 }, (_, n) => n + 1));
}); // oxfmt-ignore

test.skipIf(faketimeMissing)("a node is an hour ahead of the other: jobs are claimed, and listed, in the order in which they were asked for", async (t) => {
  const { ahead, here } = await nodesApart(HOUR_S, t);
  const shop = await printShop(here);
  const serials = await shop.allocate(4);
  for (const [n, serial] of serials.entries())
    expect((await (n % 2 ? here : ahead).as(shop.adminKey).post("/aidc/jobs", { gtin: shop.gtin, serial })).status).toBe(201);
  const listed = (await shop.admin.get("/aidc/jobs")).body.data as { serial: string }[];
  expect(listed.map(({ serial }) => serial)).toEqual(serials.toReversed());
  for (const serial of serials) expect((await shop.device.claim()).job).toMatchObject({ serial });
}); // oxfmt-ignore

test.skipIf(faketimeMissing)("a node is an hour ahead of the other: lists show what was made last first, and validations in their order", async (t) => {
  const { ahead, here } = await nodesApart(HOUR_S, t);
  const { adminKey, passportId } = await printShop(here);
  const [one, other] = [ahead.as(adminKey), here.as(adminKey)];
  const makers = {
    "/products": (node: Client, n: number) => node.post("/products", productOf({ gtin: gtinOf(931_010 + n) })),
    "/webhooks": (node: Client, n: number) => node.post("/webhooks", { url: `https://erp.example.com/${n}`, events: ["product.created"] }),
    "/devices": (node: Client, n: number) => node.post("/devices", { name: `line ${n}` }),
    "/imports": (node: Client) => node.send("POST", "/imports?category=electronics", { body: "name\n", headers: { "content-type": "text/csv" } }),
    "/epcis/capture": (node: Client) => node.post("/epcis/capture", SHIPPED),
  };
  const idOf = ({ body, headers }: Answer): string => body?.device?.id ?? body?.data?.id ?? body?.id ?? headers.get("location")?.split("/").at(-1);
  for (const [path, make] of Object.entries(makers)) {
    const made: string[] = [];
    for (let n = 0; n < 4; n += 1) made.push(idOf(await sure(make(n % 2 ? other : one, n))));
    const { body } = await other.get(path);
    const listed = ((body.data ?? body) as { id?: string; captureID?: string }[]).map(({ id, captureID }) => id ?? captureID);
    expect([path, listed.slice(0, 4)]).toEqual([path, made.toReversed()]);
  }
  for (const node of [one, other, one]) await sure(node.post(`/passports/${passportId}/validations`));
  const chain = (await other.get(`/passports/${passportId}/validations`)).body.validations.map(({ occurredAt }: { occurredAt: string }) => occurredAt);
  expect(chain).toEqual(chain.toSorted());
  expect(chain).toHaveLength(4);
}); // oxfmt-ignore

test("an event's id is of the store's moment that the event has, not of the node's clock", async (t) => {
  const world = await startWorld({ databaseUrl: await freshDatabase("postgres") });
  t.onTestFinished(world.end);
  world.later(HOUR_S * 1_000);
  const { id } = (await world.admin.post("/products", productOf({ gtin: gtinOf(931_001) }))).body;
  const [event] = (await world.admin.get(`/products/${id}/events`)).body.data as [{ id: string; timestamp: string }];
  const inId = Number.parseInt(event.id.replace("-", "").slice(0, 12), 16);
  expect(Math.abs(inId - Date.parse(event.timestamp))).toBeLessThan((HOUR_S * 1_000) / 2);
});
