// One station from claim to seal, against a real cloud and simulated printers on real sockets: what goes well, and what a person is asked.
import { expect, test } from "vitest";
import { printShop } from "../../fixtures/print-shop.ts";
import { startWorld } from "../../fixtures/world.ts";
import { afterAll } from "vitest";
import { ask, asked, running, say, sessionAt, SOON, stateInCloud } from "./floor.ts";

const w = await startWorld();
afterAll(() => w.end());

test("a job with RFID goes from claim to SEALED on a ZPL printer, with evidence that the cloud and the log take", async (t) => {
  const shop = await printShop(w);
  const { job_ref: ref } = await shop.issue({ needs: ["qr", "rfid"] });
  const station = await running(t, w.url, shop, { rfid: true });
  await expect.poll(() => stateInCloud(shop, ref), SOON).toBe("SEALED");

  const { items, sha256, proof } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
  expect(items.map(({ status }: { status: string }) => status)).toEqual([
    "RENDERED",
    "SPOOL_SUBMITTED",
    "PRINTED_ATTESTED",
    "SCAN_VERIFIED",
  ]);
  expect(items[2].evidence.completion).toMatchObject({ grade: "A", simulated: true });
  expect(items[3].evidence.scan_result.rfid).toMatchObject({ reader: "printer", epc: expect.stringMatching(/^[0-9A-F]{24}$/) });
  expect(proof.entry.digest).toBe(sha256);
  const preview = await shop.admin.get(`/aidc/evidence/${items[0].evidence.render_manifest.preview_sha256}`);
  expect(preview.status).toBe(200);
  expect(await station.floor.links()).toHaveLength(1);
  expect(station.state()).toMatchObject({
    online: true,
    buffer_depth: 0,
    jobs: [],
    ledger: { counts: { sealed: 1 }, open: [] },
    quarantine: [],
  });
});
