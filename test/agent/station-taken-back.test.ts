// A label that can't come out is taken out of its printer. That it never came out is told only where the printer, its queue or a person can know it.
import { afterAll, describe, expect, test } from "vitest";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { startWorld } from "../../fixtures/world.ts";
import { asked, jobAt, type Running, running, say, stateInCloud, until } from "./floor.ts";

const w = await startWorld();
afterAll(() => w.end());
const IMPATIENT = { patience: { blockedMs: 200, idleMs: 200, muteMs: 200, retryMs: [50], drainMs: 500 } };
const isIn = (shop: Shop, ref: string, state: string) => until(async () => (await stateInCloud(shop, ref)) === state);
const isAsked = (station: Running, ref: string, kind: string) => until(() => asked(station, ref) === kind);
const wordsAt = (station: Running, ref: string) => jobAt(station, ref)?.ask?.words;
const inCloud = async (shop: Shop, ref: string) => (await shop.admin.get(`/aidc/jobs/${ref}`)).body;
const issued = (shop: Shop) => shop.issue() as Promise<{ job_ref: string; digital_link: string }>;

describe.concurrent("a receipt printer has no counter", () => {
  test.for([{}, { knowsGsH: false }])(
    "a label that was out before the cover opened is asked about, not printed again: %o",
    async (printer, t) => {
      const shop = await printShop(w);
      const station = await running(t, w.url, shop, { language: "escpos", eyes: "hand", printer }, IMPATIENT);
      const { machine } = station.floor;
      await until(() => station.state().printers[0]?.status === "ready");
      let isOpen = false;
      machine?.news.on("changed", () => {
        if (isOpen || machine.labels.length === 0) return;
        isOpen = true;
        machine.fault("head-open");
      });
      const { job_ref: ref, digital_link: link } = await issued(shop);
      await isAsked(station, ref, "unknown_outcome");
      expect(wordsAt(station, ref)).toContain("whether this label came out before");
      expect(await inCloud(shop, ref)).toMatchObject({ state: "SPOOL_SUBMITTED", attempt: 1 });
      expect(station.state().ledger.counts).toEqual({ unknown: 1 });
      machine?.clear();
      await until(() => station.floor.scanner?.listeners() === 1);
      await station.floor.scanner?.scan(link);
      await isIn(shop, ref, "SEALED");
      expect(await station.floor.links()).toEqual([link]);
    },
  );
});
