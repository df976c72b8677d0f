// Printers that answer nonsense: whatever they say, it is no evidence, nothing is printed twice, and a person is asked.
import { describe, expect, test } from "vitest";
import { startDevice } from "../../fixtures/device.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { random } from "../../fixtures/random.ts";
import { world } from "../world.ts";
import { asked, running, say, stateInCloud, until } from "./floor.ts";

const w = await world();

const talkers: [what: string, answer: (heard: Buffer, chance: () => number) => Buffer][] = [
  [
    "random bytes",
    (_heard, chance) => Buffer.from(Array.from({ length: 1 + Math.floor(chance() * 80) }, () => Math.floor(chance() * 256))),
  ],
  ["the beginning of its own question", (heard) => heard.subarray(0, 512)],
  ["everything that it is sent, as a line with echo does", (heard) => heard],
  ["more than it is asked", () => Buffer.from("@@@")],
  ["a web server's page", () => Buffer.from("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")],
  ["frames cut short", () => Buffer.from("\u0002030,0,0,1245,000\u0003\r\n\u0002", "latin1")],
  ["every status at once", () => Buffer.from(Array.from({ length: 256 }, (_, i) => i))],
];

describe.concurrent.for((["zpl", "escpos"] as const).flatMap((language) => talkers.map(([what, answer]) => ({ language, what, answer }))))(
  "a $language printer that answers with $what",
  ({ language, answer }) => {
    test("never attests: no label is sent, or one, and then a person is asked", async (t) => {
      const shop = await printShop(w);
      const heard: Buffer[] = [];
      const chance = random(7);
      const printer = await startDevice((socket) =>
        socket.on("data", (bytes: Buffer) => {
          heard.push(bytes);
          socket.write(answer(bytes, chance));
        }),
      );
      t.onTestFinished(printer.end);
      const station = await running(t, w.url, shop, { language, eyes: "hand", port: () => printer.url });
      const { job_ref: ref } = await shop.issue({ max_attempts: 1 });
      const labels = () =>
        Buffer.concat(heard)
          .toString("latin1")
          .split(language === "zpl" ? "^GFA" : "\u001dv0").length - 1;
      const isStuck = () => ["blocked", "offline"].includes(station.state().printers[0]?.status ?? "");
      await until(() => asked(station, ref) !== null || isStuck());
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(["QUEUED", "CLAIMED", "RENDERED", "SPOOL_SUBMITTED"]).toContain(await stateInCloud(shop, ref));
      expect(labels()).toBeLessThanOrEqual(1);
      if (asked(station, ref) === null) return expect(station.state().printers[0]?.words).toMatch(/^[^\n]{5,300}$/);
      expect(labels()).toBe(1);
      expect((await say(station, ref, "not_printed")).status).toBe(200);
      expect(station.state().recent.every(({ state }) => state !== "SEALED")).toBe(true);
    });
  },
);
